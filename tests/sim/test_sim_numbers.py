"""Invariants of numbers and of statuses: steps, and the rules that the last one breaks."""

from collections.abc import Callable
from operator import attrgetter
from typing import Any

import pytest

from kubewright.api.machine import excess
from simulation.journal import MACHINES
from simulation.tape import Case, Tape, steps


def one_more(tape: Tape) -> None:
    tape.machine("x", "")


def a_goes(tape: Tape) -> None:
    tape.machine("a", leaving=True)


FREE = {"spec": {"taints": [{"key": excess.TAINT, "effect": "NoExecute"}]}}


def kept_free(name: str, **more: Any) -> Callable[[Tape], None]:
    """A machine has a taint that keeps it free."""
    return lambda tape: tape.machine(name, nodeTemplate=FREE, **more)


def three_of_two(tape: Tape) -> None:
    """Two replicas and one in excess."""
    tape.deployment(2, excess=1)
    tape.set(3)
    for name in "abc":
        tape.machine(name)
    tape.wait(10)


NUMBERS = [
    Case("surge is allowed", steps(lambda t: t.pool("Running", size=1), lambda t: t.set(2), one_more)),
    Case(
        "more than that is not",
        steps(lambda t: t.pool("Running", "Running", size=1), lambda t: t.set(3), one_more),
        "not_too_many",
    ),
    Case(
        "a leaving machine makes room",
        steps(
            lambda t: t.pool("Running", "Running"),
            lambda t: t.machine("a", leaving=True),
            lambda t: t.wait(9),
            one_more,
        ),
    ),
    Case(
        "what was right a moment ago may still arrive",
        steps(
            lambda t: t.pool("Running", "Running", size=3),
            lambda t: t.deployment(1),
            lambda t: t.set(1),
            one_more,
        ),
    ),
    Case(
        "but not after some seconds",
        steps(
            lambda t: t.pool("Running", "Running", size=3),
            lambda t: t.deployment(1),
            lambda t: t.set(1),
            lambda t: t.wait(5),
            one_more,
        ),
        "not_too_many a_set_keeps_its_size",
    ),
    Case(
        "unless no manager has received the change",
        steps(
            lambda t: setattr(t, "unobserved", True),
            lambda t: t.pool("Running", "Running", size=3),
            lambda t: t.deployment(1),
            lambda t: t.set(1),
            lambda t: t.wait(5),
            one_more,
        ),
    ),
    Case(
        "an older spec is in force until the sets fit the newer one",
        steps(
            lambda t: t.pool("Running", "Running", size=3),
            lambda t: t.deployment(1),
            lambda t: t.wait(50),
            one_more,
        ),
    ),
    Case(
        "a set does not outgrow its size",
        steps(lambda t: t.pool("Running", "Running"), one_more),
        "a_set_keeps_its_size",
    ),
    Case(
        "sizes do not add up to more than the spec allows",
        steps(lambda t: t.pool("Running", "Running"), lambda t: t.set(2, "new", "large")),
        "sizes_fit_the_spec",
    ),
    Case("but to surge", steps(lambda t: t.pool("Running", "Running"), lambda t: t.set(1, "new", "small"))),
    Case(
        "a set that shrinks is never too large",
        steps(lambda t: t.pool("Running", "Running", size=5), lambda t: t.deployment(1), lambda t: t.set(4)),
    ),
    Case(
        "one may be missing, if that is allowed",
        steps(lambda t: t.pool("Running", "Running"), a_goes),
    ),
    Case("none may, if not", steps(lambda t: t.pool("Running", "Running", missing=0), a_goes), "not_too_few"),
    Case(
        "one that is ill already may go",
        steps(
            lambda t: t.pool("Failed", "Running", missing=0), lambda t: t.machine("a", "Failed", leaving=True)
        ),
    ),
    Case(
        "that another is ill is no reason to take the next",
        steps(
            lambda t: t.pool("Running", "Running"),
            lambda t: t.machine("b", "Unknown"),
            lambda t: t.wait(60),
            lambda t: t.set(1),
            lambda t: t.wait(2),
            a_goes,
        ),
        "not_too_few",
    ),
    Case(
        "but a manager cannot know which machine has just stopped running",
        steps(lambda t: t.pool("Running", "Running"), lambda t: t.machine("b", "Unknown"), a_goes),
    ),
    Case(
        "what a person deletes is their own affair",
        steps(lambda t: t.pool("Running", missing=0), lambda t: t.past.deleted_by_users.add("a"), a_goes),
    ),
    Case(
        "a deployment that is leaving keeps nothing",
        steps(
            lambda t: t.pool("Running", "Running", missing=0),
            lambda t: t.deployment(2, missing=0, meta={"deletionTimestamp": "now"}),
            a_goes,
        ),
    ),
]

SPARES = [
    Case("a machine beyond the replicas may be kept free", steps(three_of_two, kept_free("c"))),
    Case(
        "one that is needed may not",
        steps(three_of_two, kept_free("c"), lambda t: t.wait(10), kept_free("b")),
        "enough_take_workload",
    ),
    Case(
        "but a manager cannot know which one has just stopped running",
        steps(three_of_two, lambda t: t.machine("a", "Unknown"), kept_free("c")),
    ),
    Case(
        "nor which one was just deleted",
        steps(three_of_two, a_goes, kept_free("c")),
    ),
    Case(
        "one that is being deleted takes no workload",
        steps(three_of_two, a_goes, lambda t: t.wait(10), kept_free("c")),
        "enough_take_workload",
    ),
    Case(
        "a machine with workload goes, if no more are kept free than are to be",
        steps(three_of_two, kept_free("c"), lambda t: t.wait(10), a_goes),
    ),
    Case(
        "it does not before one that is kept free in vain",
        steps(three_of_two, kept_free("c"), lambda t: t.deployment(2), lambda t: t.set(2),
              lambda t: t.wait(10), a_goes),
        "the_free_go_first",
    ),
    Case(
        "unless a user wants that",
        steps(three_of_two, kept_free("c"), lambda t: t.deployment(2), lambda t: t.set(2),
              lambda t: t.wait(10), lambda t: t.past.deleted_by_users.add("a"), a_goes),
    ),
    Case(
        "or the excess was larger a moment ago",
        steps(three_of_two, kept_free("c"), lambda t: t.deployment(2), lambda t: t.set(2), a_goes),
    ),
]  # fmt: skip

WORDS = [
    Case(
        "a set tells what there is",
        steps(lambda t: t.pool("Running", ""), lambda t: t.set(replicas=2, readyReplicas=1)),
    ),
    Case(
        "a set does not tell of what is not",
        steps(lambda t: t.pool("Running", "Running"), lambda t: t.set(replicas=3)),
        "a_set_counts_what_exists",
    ),
    Case(
        "nor call ready what is not",
        steps(lambda t: t.pool("Running", ""), lambda t: t.set(replicas=2, readyReplicas=2)),
        "a_set_counts_what_exists",
    ),
    Case(
        "it may tell of what has just gone",
        steps(
            lambda t: t.pool("Running", "Running"),
            lambda t: t.put(MACHINES, "ns/a", None),
            lambda t: t.set(replicas=2),
        ),
    ),
    Case(
        "but not for long",
        steps(
            lambda t: t.pool("Running", "Running"),
            lambda t: t.put(MACHINES, "ns/a", None),
            lambda t: t.wait(3),
            lambda t: t.set(replicas=2),
        ),
        "a_set_counts_what_exists",
    ),
    Case(
        "a deployment does not tell of what is not",
        steps(lambda t: t.pool("Running"), lambda t: t.deployment(1, replicas=2)),
        "a_deployment_counts_what_exists",
    ),
    Case(
        "nor call old machines new",
        steps(
            lambda t: t.pool("Running", "Running"),
            lambda t: t.deployment(2, of="large"),
            lambda t: t.wait(3),
            lambda t: t.set(1, "new", "large"),
            lambda t: t.deployment(2, of="large", replicas=2, updatedReplicas=2),
        ),
        "a_deployment_counts_what_exists",
    ),
    Case(
        "a set holds its finalizer while it has machines",
        steps(lambda t: t.pool("Running"), lambda t: t.set(1, finalizers=[])),
        "a_set_outlives_its_machines",
    ),
    Case(
        "and lets go of it when they are gone",
        steps(
            lambda t: t.pool("Running"),
            lambda t: t.put(MACHINES, "ns/a", None),
            lambda t: t.set(1, finalizers=[]),
        ),
    ),
    Case(
        "a deployment holds its own while it has sets",
        steps(lambda t: t.pool("Running"), lambda t: t.deployment(1, finalizers=[])),
        "a_deployment_outlives_its_sets",
    ),
    Case(
        "a paused deployment gets no new set",
        steps(
            lambda t: t.pool("Running"),
            lambda t: t.deployment(1, paused=True),
            lambda t: t.deployment(1, paused=True, of="large"),
            lambda t: t.set(1, "new", "large"),
        ),
        "no_roll_while_paused",
    ),
    Case(
        "one that was asked for before it may still come",
        steps(
            lambda t: t.pool("Running"),
            lambda t: t.deployment(1, of="large"),
            lambda t: t.deployment(1, paused=True, of="large"),
            lambda t: t.set(1, "new", "large"),
        ),
    ),
    Case(
        "a revision does not fall",
        steps(lambda t: t.pool("Running"), lambda t: t.set(1, revision=3), lambda t: t.set(1, revision=2)),
        "revisions_grow",
    ),
]


@pytest.mark.parametrize("case", [*NUMBERS, *SPARES, *WORDS], ids=attrgetter("name"))
def test_an_invariant(case: Case) -> None:
    tape = Tape()
    case.play(tape)
    assert tape.wrong == case.wrong.split()
