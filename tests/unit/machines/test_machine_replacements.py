"""Whether an unhealthy machine may be replaced now: the limit of its deployment, and the brake for all."""

from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import pytest

from kubewright.api.core import NodeCondition
from kubewright.api.machine.v1alpha1 import CurrentStatus, Machine, MachineSpec, MachineStatus
from kubewright.api.meta import ObjectMeta
from kubewright.machines.settings import (
    ReplacementCounts,
    ReplacementLimits,
    counts_as_replaced,
    held_by,
    parsed_limit,
)

ANNOTATED = "(kubewright.dev/max-replacements)"


class Case(NamedTuple):
    name: str
    counts: ReplacementCounts
    limits: ReplacementLimits = ReplacementLimits()
    held: str = ""


def others(most: int, by: str = "--machine-max-replacements") -> str:
    return f"other machines are getting replaced, at most {most} of its deployment at once ({by})"


CASES = [
    Case("a machine alone is replaced", ReplacementCounts()),
    Case("the first of three is replaced", ReplacementCounts(0, 3, "", 1, 3)),
    Case("the second one waits for the first", ReplacementCounts(1, 3, "", 2, 3), held=others(1)),
    Case(
        "the first one waits while it is the turn of another shard",
        ReplacementCounts(0, 3, "", 1, 3, timedelta(seconds=1)),
        held="it is the turn of other shards to replace machines of its deployment",
    ),
    Case(
        "no turn lets a second one go",
        ReplacementCounts(1, 3, "", 2, 3, timedelta(seconds=1)),
        held=others(1),
    ),
    Case("two at once, if the operator allows two", ReplacementCounts(1, 3, "", 2, 3), ReplacementLimits(2)),
    Case(
        "and no third one",
        ReplacementCounts(2, 3, "", 3, 3),
        ReplacementLimits(2),
        others(2),
    ),
    Case("a tenth of thirty are three", ReplacementCounts(2, 30, "", 3, 30), ReplacementLimits("10%")),
    Case(
        "and a fourth one waits",
        ReplacementCounts(3, 30, "", 4, 30),
        ReplacementLimits("10%"),
        others(3),
    ),
    Case("a tenth of three permits one", ReplacementCounts(0, 3, "", 1, 3), ReplacementLimits("10%")),
    Case("the deployment's annotation goes before the operator's limit", ReplacementCounts(1, 3, "2", 2, 3)),
    Case(
        "which is then named as the limit",
        ReplacementCounts(2, 3, "2", 3, 3),
        held=others(2, "kubewright.dev/max-replacements"),
    ),
    Case("it may be a percentage", ReplacementCounts(4, 10, "50%", 5, 10)),
    Case(
        "it may permit none",
        ReplacementCounts(0, 3, "0", 1, 3),
        held=f"its deployment allows no replacement {ANNOTATED}",
    ),
    Case("one that cannot be read counts as absent", ReplacementCounts(0, 3, "lots", 1, 3)),
    Case(
        "and is named while it holds a machine",
        ReplacementCounts(1, 3, "lots", 1, 3),
        held=f"{others(1)}; annotation kubewright.dev/max-replacements: "
        "'lots' is neither a whole number nor a percentage such as 25%",
    ),
    Case(
        "a negative number cannot be read",
        ReplacementCounts(1, 3, "-1", 1, 3),
        held=f"{others(1)}; annotation kubewright.dev/max-replacements: "
        "'-1' is neither a whole number nor a percentage such as 25%",
    ),
    Case("six of ten unhealthy machines are below a brake at 60 %", ReplacementCounts(0, 3, "", 6, 10), ReplacementLimits(1, "60%")),
    Case(
        "seven are above it, and none is replaced",
        ReplacementCounts(0, 3, "", 7, 10),
        ReplacementLimits(1, "60%"),
        "7 of 10 machines are unhealthy, and while more than 6 are (--machine-max-unhealthy), none is replaced",
    ),
    Case(
        "the brake goes before a deployment's annotation",
        ReplacementCounts(0, 3, "3", 3, 3),
        ReplacementLimits(1, 2),
        "3 of 3 machines are unhealthy, and while more than 2 are (--machine-max-unhealthy), none is replaced",
    ),
    Case("without a brake all may be unhealthy", ReplacementCounts(0, 3, "", 10, 10)),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_what_holds_a_replacement(case: Case) -> None:
    assert held_by(case.counts, case.limits) == case.held


WELL, SILENT = {"Ready": "True", "DiskPressure": "False"}, {"Ready": "Unknown"}
FULL = {"Ready": "True", "DiskPressure": "True"}


def machine(phase: str, conditions: dict[str, str], *, deleted: bool = False, own: str = "") -> Machine:
    """A machine whose node had these conditions last; ``own``: the bad ones that it names itself."""
    at = datetime(2026, 1, 1, tzinfo=UTC)
    return Machine(
        metadata=ObjectMeta(name="m", deletion_timestamp=at if deleted else None),
        spec=MachineSpec(node_conditions=own or None),
        status=MachineStatus(
            conditions=tuple(NodeCondition(type=name, status=text) for name, text in conditions.items()),
            current_status=CurrentStatus(phase=phase),
        ),
    )


@pytest.mark.parametrize(
    ("found", "counts"),
    [
        pytest.param(machine("Running", WELL), False, id="one that runs does not count"),
        pytest.param(machine("Unknown", SILENT), False, id="nor one that is Unknown"),
        pytest.param(machine("", {}), True, id="one that has just been made counts"),
        pytest.param(machine("Pending", {}), True, id="one that has not joined counts"),
        pytest.param(machine("CrashLoopBackOff", {}), True, id="and one that has no VM"),
        pytest.param(machine("Failed", SILENT), True, id="and one that is given up"),
        pytest.param(
            machine("Terminating", SILENT, deleted=True), True, id="also while it is deleted for that"
        ),
        pytest.param(
            machine("Terminating", {}, deleted=True), True, id="one that goes without a node counts"
        ),
        pytest.param(
            machine("Terminating", WELL, deleted=True),
            False,
            id="one whose node is well gives way to a rollout or a user",
        ),
        pytest.param(machine("Terminating", FULL, deleted=True), True, id="the node's disk is full"),
        pytest.param(
            machine("Terminating", FULL, deleted=True, own="KernelDeadlock"),
            False,
            id="which the machine does not mind",
        ),
        pytest.param(
            machine("Failed", WELL, deleted=True),
            True,
            id="one that is Failed counts, whatever its node says",
        ),
    ],
)
def test_which_machines_count_against_the_limit(found: Machine, counts: bool) -> None:
    assert counts_as_replaced(found, ("DiskPressure",)) == counts


@pytest.mark.parametrize("text", ["-1", "1.5", "25 %", "%", "", "٣", "99999999999"])
def test_a_limit_is_a_number_or_a_percentage(text: str) -> None:
    with pytest.raises(ValueError, match="whole number"):
        parsed_limit(text)
