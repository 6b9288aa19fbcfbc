"""When a set is frozen for the number of its machines, and unfrozen (SAF-06 to SAF-09); minReadySeconds left out; a
cloud that has no more VMs."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec import structs

from kubewright.api.machine import names
from kubewright.api.machine.names import Phase
from kubewright.api.machine.v1alpha1 import (
    LastOperation,
    MachineDeployment,
    MachineDeploymentSpec,
    MachineDeploymentStrategy,
    MachineSet,
    MachineSetCondition,
    MachineSetSpec,
    MachineSetStatus,
    MachineSummary,
    RollingUpdate,
)
from kubewright.api.meta import ObjectMeta
from kubewright.machines.deployment import MACHINE_DEPLOYMENTS, follow_freeze, strategy
from kubewright.machines.machineset.decide import FreezeLimits, freeze, limits_of, overshoots, set_status
from kubewright.machines.machineset.member import MachineMember
from kubewright.machines.machineset.policy import MACHINE_SETS
from kubewright.machines.settings import SetSettings
from kubewright.replicas.deployment.seen import ChangeDeployment, ChangeSet
from kubewright.replicas.deployment.seen import Seen as DeploymentSeen
from kubewright.replicas.set.seen import PatchObject, Seen, Wait
from kubewright.wire.gvk import Key

T0 = datetime(2030, 1, 1, tzinfo=UTC)
OURS, THEIRS = "OverShootingReplicaCount", "FreezeLabel"
MINUTE = timedelta(minutes=1)


def machine_set(says: str = "", *, label: bool = False, asked: bool = False, replicas: int = 3) -> MachineSet:
    conditions = (MachineSetCondition(type="Frozen", status="True", reason=says),) if says else ()
    return MachineSet(
        metadata=ObjectMeta(
            name="ms",
            namespace="ns",
            uid="ms-uid",
            resource_version="7",
            labels={"app": "a", **({names.FREEZE_LABEL: "True"} if label else {})},
            annotations={names.UNFREEZE_ANNOTATION: "True"} if asked else {},
        ),
        spec=MachineSetSpec(replicas=replicas),
        status=MachineSetStatus(machine_set_condition=conditions),
    )


def limits(count: int, missing: int = 1, *, freeze_at: int = 6, unfreeze_at: int = 5) -> FreezeLimits:
    return FreezeLimits(count, missing, freeze_at, unfreeze_at, MINUTE)


@pytest.mark.parametrize(
    ("found", "at", "expect"),
    [
        pytest.param(machine_set(), limits(6), True, id="as many as may be, and one is missing"),
        pytest.param(machine_set(), limits(5), False, id="one fewer"),
        pytest.param(machine_set(), limits(9, missing=0), False, id="none is missing: nothing would be made"),
        pytest.param(machine_set(OURS), limits(6, missing=0), True, id="frozen, and still too many"),
        pytest.param(machine_set(OURS), limits(5), False, id="frozen, and few enough again"),
        pytest.param(machine_set(THEIRS, label=True), limits(5), False, id="a user's label is another thing"),
        pytest.param(machine_set(OURS, asked=True), limits(9), False, id="a user has unfrozen it"),
    ],
)
def test_when_a_set_overshoots(found: MachineSet, at: FreezeLimits, expect: bool) -> None:
    assert overshoots(found, at) is expect


def deployment(replicas: int, surge: int | str | None) -> MachineDeployment:
    rolling = RollingUpdate(max_surge=surge, max_unavailable=0)
    strategy = (
        MachineDeploymentStrategy(type="Recreate")
        if surge is None
        else MachineDeploymentStrategy(type="RollingUpdate", rolling_update=rolling)
    )
    return MachineDeployment(spec=MachineDeploymentSpec(replicas=replicas, strategy=strategy))


@pytest.mark.parametrize(
    ("owner", "upper", "lower"),
    [
        pytest.param(deployment(10, 1), 13, 12, id="replicas, surge and two"),
        pytest.param(deployment(10, "25%"), 15, 14, id="a surge in percent, rounded up"),
        pytest.param(deployment(10, None), 12, 11, id="a Recreate has no surge"),
        pytest.param(None, 8, 7, id="a set of its own: twice its replicas"),
    ],
)
def test_the_limits_of_a_set(owner: MachineDeployment | None, upper: int, lower: int) -> None:
    bounds = strategy(owner).limits(owner.spec.replicas) if owner is not None else None
    found = limits_of(machine_set(), bounds, count=9, alive=2, settings=SetSettings())
    assert found == FreezeLimits(9, 1, upper, lower, MINUTE)


def test_a_set_is_unfrozen_at_the_latest_when_it_has_no_machine() -> None:
    found = limits_of(machine_set(), None, count=0, alive=0, settings=SetSettings(safety_down=99))
    assert found.unfreeze_at == 0
    assert not overshoots(machine_set(OURS), found)


def test_a_request_to_unfreeze_lasts_until_what_is_missing_can_be_made() -> None:
    asked = machine_set(asked=True, label=True)
    held = Wait("its size is for another desired size", seconds=1)
    plan = freeze(Seen(MACHINE_SETS, asked, T0.timestamp(), T0, around=limits(9), pause=held))
    assert plan.steps == ()
    assert "another desired size" in plan.because


LABELLED = {"uid": "ms-uid", "resourceVersion": "7", "labels": {names.FREEZE_LABEL: "True"}}
CLEARED = {"uid": "ms-uid", "resourceVersion": "7", "labels": {names.FREEZE_LABEL: None}}
DONE = {"annotations": {names.UNFREEZE_ANNOTATION: None}}


@pytest.mark.parametrize(
    ("found", "at", "metadata", "wakes"),
    [
        pytest.param(machine_set(), limits(6), None, True, id="the status says it first"),
        pytest.param(machine_set(OURS), limits(6), LABELLED, False, id="then the label follows"),
        pytest.param(machine_set(OURS, label=True), limits(6), None, True, id="and stays"),
        pytest.param(machine_set(OURS, label=True), limits(5), CLEARED, False, id="at the end it goes first"),
        pytest.param(machine_set(OURS), limits(5), None, False, id="then the status alone is left"),
        pytest.param(machine_set(THEIRS, label=True), limits(2), None, False, id="a user's label stays"),
        pytest.param(machine_set(THEIRS), limits(6), None, True, id="when a user takes it off, the status first"),
        pytest.param(
            machine_set(THEIRS, label=True), limits(6), None, True, id="a user's label is enough meanwhile"
        ),
        pytest.param(
            machine_set(OURS, label=True, asked=True), limits(9), None, True,
            id="a user unfreezes it: the condition goes first",
        ),
        pytest.param(
            machine_set(label=True, asked=True), limits(9), {**CLEARED, **DONE}, False,
            id="then label and annotation",
        ),
        pytest.param(
            machine_set(asked=True), limits(2), {"uid": "ms-uid", "resourceVersion": "7", **DONE}, False,
            id="an annotation on a set that is not frozen goes",
        ),
        pytest.param(machine_set(), limits(3), None, False, id="at rest nothing is written"),
    ],
)  # fmt: skip
def test_the_label_follows_the_condition(
    found: MachineSet, at: FreezeLimits, metadata: dict[str, Any] | None, wakes: bool
) -> None:
    plan = freeze(Seen(MACHINE_SETS, found, T0.timestamp(), T0, around=at))
    bodies = [step.body for step in plan.steps if isinstance(step, PatchObject)]
    assert (bodies, plan.wake is not None) == ([{"metadata": metadata}] if metadata else [], wakes)


@pytest.mark.parametrize(
    ("found", "at", "expect"),
    [
        pytest.param(machine_set(), limits(6), (OURS, "is 6 >= 6 which"), id="it becomes frozen"),
        pytest.param(machine_set(OURS, label=True), limits(8), (OURS, ""), id="what it said first stays"),
        pytest.param(machine_set(OURS), limits(5), None, id="it is over"),
        pytest.param(machine_set(OURS, asked=True, label=True), limits(9), None, id="a user unfreezes it"),
        pytest.param(machine_set(label=True), limits(2), (THEIRS, "label"), id="a user's label"),
        pytest.param(machine_set(THEIRS, label=True), limits(6), (THEIRS, ""), id="which stays"),
        pytest.param(
            machine_set(THEIRS), limits(6), (OURS, "is 6 >= 6 which"),
            id="a user has taken the label off, and it has too many machines",
        ),
    ],
)  # fmt: skip
def test_what_the_status_says(found: MachineSet, at: FreezeLimits, expect: tuple[str, str] | None) -> None:
    status = set_status(Seen(MACHINE_SETS, found, T0.timestamp(), T0, around=at), None)
    said = [(c.reason, c.message) for c in status.machine_set_condition if c.type == "Frozen"]
    assert [reason for reason, _ in said] == ([expect[0]] if expect else [])
    assert all(expect and expect[1] in message for _, message in said)


def above(*sets: MachineSet, label: bool = False, asked: bool = False) -> DeploymentSeen[Any, Any, Any]:
    labels = {"mine": "x", **({names.FREEZE_LABEL: "True"} if label else {})}
    notes = {names.UNFREEZE_ANNOTATION: "please"} if asked else {}
    found = MachineDeployment(
        metadata=ObjectMeta(name="md", namespace="ns", labels=labels, annotations=notes)
    )
    return DeploymentSeen(MACHINE_DEPLOYMENTS, found, T0, T0.timestamp(), sets=sets)


@pytest.mark.parametrize(
    ("seen", "expect"),
    [
        pytest.param(above(machine_set()), None, id="nothing is frozen"),
        pytest.param(above(machine_set(label=True)), ([], True), id="a set is frozen"),
        pytest.param(above(machine_set(label=True), label=True), None, id="it says so already"),
        pytest.param(above(machine_set(), label=True), ([], False), id="no set is frozen any longer"),
        pytest.param(
            above(machine_set(label=True), label=True, asked=True), (["ms"], True),
            id="a request to unfreeze is passed on",
        ),
        pytest.param(
            above(machine_set(OURS), asked=True), (["ms"], False), id="also to a set that has no label yet"
        ),
        pytest.param(above(machine_set(), asked=True), ([], False), id="a request for nothing is taken off"),
    ],
)  # fmt: skip
def test_what_a_deployment_does_about_its_frozen_sets(
    seen: Any, expect: tuple[list[str], bool] | None
) -> None:
    steps = follow_freeze(seen).steps
    asked = [step.after.metadata.name for step in steps if isinstance(step, ChangeSet)]
    after = [step.after.metadata for step in steps if isinstance(step, ChangeDeployment)]
    found = (asked, names.FREEZE_LABEL in after[0].labels) if after else None
    assert found == expect
    assert all(
        meta.labels["mine"] == "x" and names.UNFREEZE_ANNOTATION not in meta.annotations for meta in after
    )


def member(name: str, phase: Phase = Phase.RUNNING, **facts: Any) -> MachineMember:
    return MachineMember(Key("ns", name), name, "ms-uid", {}, deleting=False, phase=phase, **facts)


def test_an_operator_can_leave_min_ready_seconds_out() -> None:
    young = member("a", ready_since=T0.timestamp() - 1)
    assert not young.available_at(T0.timestamp(), 60)
    assert impatient(young).available_at(T0.timestamp(), 60)
    assert not impatient(member("b", Phase.UNKNOWN)).available_at(T0.timestamp(), 60)


def impatient(found: MachineMember) -> MachineMember:
    return replace(found, at_once=True)


def waiting(
    name: str, code: str = "ResourceExhausted", phase: Phase = Phase.CRASH_LOOP_BACK_OFF
) -> MachineMember:
    operation = LastOperation(description=f"no more VMs ({name})", error_code=code, state="Failed")
    return member(name, phase, failure_summary=MachineSummary(name=name, last_operation=operation))


@pytest.mark.parametrize(
    ("members", "message"),
    [
        pytest.param(
            (waiting("b"), waiting("a"), member("c")),
            "Machines without a VM: 2. Of a the cloud says: no more VMs (a)",
            id="two",
        ),
        pytest.param((waiting("a", "Internal"),), None, id="another error"),
        pytest.param((waiting("a", phase=Phase.FAILED),), None, id="one that is given up waits no longer"),
        pytest.param((member("a"),), None, id="none"),
    ],
)
def test_a_cloud_that_has_no_more_vms_is_a_condition(
    members: tuple[MachineMember, ...], message: str | None
) -> None:
    seen = Seen(MACHINE_SETS, machine_set(), T0.timestamp(), T0, members)
    status = set_status(seen, None)
    said = [(c.reason, c.message) for c in status.machine_set_condition if c.type == "ResourceExhausted"]
    assert said == ([("ResourceExhausted", message)] if message else [])
    again = structs.replace(seen.set, status=status)
    later = Seen(MACHINE_SETS, again, T0.timestamp(), T0 + MINUTE, members)
    assert set_status(later, None) == status, "an unchanged world writes nothing"
