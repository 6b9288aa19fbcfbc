"""How long machines took (INS-05): at which passes a duration ends, and how long it was."""

from datetime import timedelta
from typing import Any

import pytest

from kubewright.api.machine.names import OperationState, OperationType
from kubewright.api.machine.v1alpha1 import LastOperation
from kubewright.driver.errors import Code, DriverError
from kubewright.driver.life.seen import Verb
from kubewright.machines.machine.decide import decide
from kubewright.machines.machine.seen import Call, Plan, Seen
from kubewright.machines.machine.wiring import OF_KIND, Lasted, fails_to_join, lasted
from kubewright.testing.scenes import GONE, NOW, VM, called, machine, minutes, node, seen

JOINED = LastOperation(type=OperationType.CREATE, state=OperationState.SUCCESSFUL)


@pytest.mark.parametrize(
    ("world", "expect"),
    [
        pytest.param(
            seen(machine("Pending", age=minutes(2), vm=False), vm=called(Verb.ENSURE, instance=VM)),
            [(Lasted.CREATE, 120.0), (Lasted.INITIALIZE, 120.0)], id="its VM is on record from now on",
        ),
        pytest.param(
            seen(
                machine(age=minutes(3), vm=False),
                vm=called(Verb.ENSURE, instance=VM, ago=minutes(1), error=DriverError.of(Code.Internal, "no"), initializing=True),
            ),
            [(Lasted.CREATE, 120.0)], id="its VM is there, and not initialized",
        ),
        pytest.param(
            seen(machine("CrashLoopBackOff", age=minutes(3)), vm=called(Verb.ENSURE, instance=VM, ago=minutes(1))),
            [(Lasted.INITIALIZE, 120.0)], id="it is initialized at last",
        ),
        pytest.param(
            seen(machine(age=minutes(3)), vm=called(Verb.ENSURE, instance=VM, ago=minutes(1))), [],
            id="its node is awaited for long enough to say so",
        ),
        pytest.param(
            seen(machine("Terminating", vm=False, deleted=minutes(1)), vm=called(Verb.LOOK, instance=VM)), [],
            id="a late VM is found in its deletion",
        ),
        pytest.param(
            seen(machine("Pending", age=minutes(3)), node()), [(Lasted.JOIN, 180.0)], id="its node is Ready for the first time",
        ),
        pytest.param(seen(machine("Unknown", age=minutes(3), operation=JOINED), node()), [], id="not when it is Ready again"),
        pytest.param(seen(machine("Running"), node()), [], id="nothing ends"),
        pytest.param(
            seen(machine("Terminating", deleted=minutes(5)), vm=GONE), [(Lasted.DELETE, 300.0)], id="nothing of it is left",
        ),
    ],
)  # fmt: skip
def test_what_has_lasted(world: Seen, expect: list[tuple[Lasted, float]]) -> None:
    assert list(lasted(world, decide(world))) == expect


def test_a_drain_has_lasted_when_the_vm_may_go() -> None:
    found = seen(machine("Terminating", deleted=minutes(5)), node(), drained_since=NOW - timedelta(minutes=1))
    assert list(lasted(found, Plan((Call(Verb.DELETE),)))) == [(Lasted.DRAIN, 240.0)]
    assert list(lasted(found, Plan((Call(Verb.LOOK),)))) == []


@pytest.mark.parametrize(
    ("world", "fails"),
    [
        (seen(machine("Pending", age=minutes(99))), True),
        (seen(machine("Pending", age=minutes(1))), False),
        (seen(machine("Unknown", since=minutes(99))), False),
    ],
    ids=["past its creation time-out", "before that", "past its health time-out"],
)
def test_which_machine_has_not_joined_in_time(world: Any, fails: bool) -> None:
    assert fails_to_join(world, decide(world)) is fails


def test_the_names_and_labels_are_those_of_mcm() -> None:
    kinds = ("namespace", "machine_deployment", "instance_type", "zone")
    assert {each.value: each.labels for each in Lasted} == {
        "mcm_machine_create_duration_seconds": kinds,
        "mcm_machine_initialize_duration_seconds": kinds,
        "mcm_machine_join_duration_seconds": kinds,
        "mcm_machine_delete_duration_seconds": kinds,
        "mcm_machine_drain_duration_seconds": kinds[:2],
    }
    assert kinds == OF_KIND
