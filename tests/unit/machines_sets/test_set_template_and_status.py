"""How a new machine looks (SET-05), what is known of a machine, and a set's status (SET-07)."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec import structs

from kubewright.api.core import NodeCondition
from kubewright.api.diff import merge_patch
from kubewright.api.machine import names
from kubewright.api.machine.names import Phase
from kubewright.api.machine.v1alpha1 import (
    ClassSpec,
    CurrentStatus,
    LastOperation,
    Machine,
    MachineSet,
    MachineSetCondition,
    MachineSetSpec,
    MachineSetStatus,
    MachineSpec,
    MachineStatus,
    MachineTemplateSpec,
    NodeTemplateSpec,
)
from kubewright.api.meta import LabelSelector, ObjectMeta
from kubewright.machines.machineset.decide import FROZEN, MachineSetSeen, is_frozen, set_status
from kubewright.machines.machineset.member import MachineMember, digest, member_of
from kubewright.machines.machineset.policy import MACHINE_SETS, configuration_patch, new_machine
from kubewright.replicas.objects import INVALID, until_available
from kubewright.replicas.set.seen import Failure, Seen

T0 = datetime(2030, 1, 1, tzinfo=UTC)
SPEC = MachineSpec(machine_class=ClassSpec(kind="MachineClass", name="small"), creation_timeout="20m")


def machine_set(min_ready: int = 0, status: MachineSetStatus | None = None, **meta: Any) -> MachineSet:
    template = ObjectMeta(labels={"app": "a"}, annotations={"note": "x"}, finalizers=("mine",))
    return MachineSet(
        metadata=ObjectMeta(name="ms", namespace="ns", uid="ms-uid", generation=7, **meta),
        spec=MachineSetSpec(
            replicas=2,
            selector=LabelSelector(match_labels={"app": "a"}),
            template=MachineTemplateSpec(
                metadata=template, spec=structs.replace(SPEC, provider_id="shared?")
            ),
            min_ready_seconds=min_ready,
        ),
        status=status or MachineSetStatus(),
    )


def machine(name: str = "m", phase: Phase = Phase.RUNNING, *, state: str = "", **more: Any) -> Machine:
    made = new_machine(machine_set(), name)
    ready = NodeCondition(type="Ready", status="True", last_transition_time=T0)
    status = MachineStatus(
        conditions=(ready,) if phase is Phase.RUNNING else (),
        last_operation=LastOperation(state=state, description="why"),
        current_status=CurrentStatus(phase=phase, last_update_time=T0 - timedelta(seconds=9), **more),
    )
    metadata = structs.replace(made.metadata, uid=f"{name}-uid", creation_timestamp=T0)
    return structs.replace(made, metadata=metadata, status=status)


def test_a_new_machine_is_complete() -> None:
    made = new_machine(machine_set(), "ms-abcde")
    meta = made.metadata
    assert (meta.name, meta.namespace, meta.labels) == ("ms-abcde", "ns", {"app": "a"})
    assert meta.annotations == {"note": "x", names.PRIORITY_ANNOTATION: "3"}
    assert meta.finalizers == ("mine", names.FINALIZER)
    owner = meta.owner_references[0]
    assert (owner.kind, owner.uid, owner.controller, owner.block_owner_deletion) == (
        "MachineSet",
        "ms-uid",
        True,
        True,
    )
    assert made.spec.machine_class.name == "small"
    assert made.spec.provider_id == "", "two machines must never share a VM"


def test_an_effective_creation_timeout_goes_into_annotation_and_spec() -> None:
    owner = machine_set(annotations={names.EFFECTIVE_CREATION_TIMEOUT_ANNOTATION: "90m"})
    made = new_machine(owner, "m")
    assert made.metadata.annotations[names.EFFECTIVE_CREATION_TIMEOUT_ANNOTATION] == "1h30m0s"
    assert made.spec.creation_timeout == "1h30m0s"
    assert configuration_patch(owner, made) == {}
    assert member_of(made).propagated_digest == digest(owner.spec.template.spec, own_timeout=True)


def test_only_what_may_change_on_a_living_machine_is_propagated() -> None:
    wanted = structs.replace(
        SPEC,
        machine_class=ClassSpec(kind="Other", name="large"),
        drain_timeout="1h",
        creation_timeout=None,
        node_template=NodeTemplateSpec(metadata=ObjectMeta(labels={"role": "db"})),
    )
    owner = machine_set()
    template = structs.replace(owner.spec.template, spec=wanted)
    owner = structs.replace(owner, spec=structs.replace(owner.spec, template=template))
    assert configuration_patch(owner, machine()) == {
        "spec": {
            "class": {"kind": "Other"},
            "drainTimeout": "1h",
            "creationTimeout": None,
            "nodeTemplate": {"metadata": {"labels": {"role": "db"}}},
        }
    }


def test_a_fresh_machine_needs_no_configuration() -> None:
    owner = machine_set()
    assert member_of(new_machine(owner, "m")).propagated_digest == digest(
        owner.spec.template.spec, own_timeout=False
    )


@pytest.mark.parametrize(
    ("phase", "min_ready", "after", "expect"),
    [
        pytest.param(Phase.RUNNING, 0, 0, True, id="running is available at once without minReadySeconds"),
        pytest.param(Phase.AVAILABLE, 0, 0, True, id="so is available, where there is no node"),
        pytest.param(Phase.PENDING, 0, 0, False, id="pending is not"),
        pytest.param(Phase.UNKNOWN, 0, 0, False, id="unknown is not"),
        pytest.param(Phase.RUNNING, 1, 0.5, False, id="half a second is less than one"),
        pytest.param(Phase.RUNNING, 30, 29, False, id="not before it was ready for minReadySeconds"),
        pytest.param(Phase.RUNNING, 30, 30, True, id="and exactly then"),
        pytest.param(Phase.AVAILABLE, 30, 21, True, id="without a node the time of the phase counts"),
    ],
)
def test_availability(phase: Phase, min_ready: int, after: float, expect: bool) -> None:
    now = T0.timestamp() + after
    assert member_of(machine(phase=phase)).available_at(now, min_ready) is expect


def seen(
    *machines: Machine, min_ready: int = 0, status: MachineSetStatus | None = None, **more: Any
) -> MachineSetSeen:
    found = machine_set(min_ready, status)
    return Seen(MACHINE_SETS, found, T0.timestamp(), T0, tuple(map(member_of, machines)), **more)


def test_counts() -> None:
    terminating = structs.replace(
        machine("d"), metadata=structs.replace(machine("d").metadata, deletion_timestamp=T0)
    )
    preserved = machine("p", Phase.FAILED, state="Failed", preserve_expiry_time=T0 + timedelta(hours=1))
    unlabelled = structs.replace(machine("u"), metadata=structs.replace(machine("u").metadata, labels={}))
    broken = machine("f", Phase.CRASH_LOOP_BACK_OFF, state="Failed")
    status = set_status(seen(machine("a"), terminating, preserved, unlabelled, broken), None)
    assert (status.replicas, status.fully_labeled_replicas) == (5, 4)
    assert (status.ready_replicas, status.available_replicas) == (2, 2)
    assert status.preserved_failed_replicas == 1
    assert status.observed_generation == 7
    assert [(m.name, m.owner_ref, m.last_operation.description) for m in status.failed_machines] == [
        ("f", "ms", "why")
    ]


def test_an_unchanged_world_writes_nothing() -> None:
    first = set_status(seen(machine("a"), machine("b", state="Failed")), None)
    again = set_status(seen(machine("b", state="Failed"), machine("a"), status=first), None)
    assert merge_patch(first, again) == {}


def test_a_failure_is_written_once_and_removed_when_it_is_over() -> None:
    failed = set_status(seen(), Failure("FailedCreate", "quota"))
    told = failed.machine_set_condition[0]
    assert (told.type, told.status, told.reason, told.message) == (
        "ReplicaFailure",
        "True",
        "FailedCreate",
        "quota",
    )
    assert failed.observed_generation == 0, "a generation is observed when its pass did not fail"
    assert set_status(seen(status=failed), Failure("FailedCreate", "quota, other words")) == failed
    assert set_status(seen(status=failed), None).machine_set_condition == ()


def test_an_invalid_set_says_so() -> None:
    status = set_status(seen(problem="spec.selector: missing"), None)
    told = status.machine_set_condition[0]
    assert (told.reason, told.message) == (INVALID, "spec.selector: missing")


def frozen(status: MachineSetStatus | None = None, label: str = "True") -> MachineSetStatus:
    found = machine_set(0, status, labels={names.FREEZE_LABEL: label})
    return set_status(Seen(MACHINE_SETS, found, T0.timestamp(), T0), None)


def test_a_frozen_set_says_so_for_as_long_as_it_is() -> None:
    condition = MachineSetCondition(
        type="Frozen", status="True", last_transition_time=T0, reason="FreezeLabel", message=FROZEN
    )
    assert frozen().machine_set_condition == (condition,)
    theirs = structs.replace(condition, reason="OverShooting", last_transition_time=T0 - timedelta(hours=1))
    theirs_too = frozen(MachineSetStatus(machine_set_condition=(theirs,)))
    assert theirs_too.machine_set_condition == (theirs,), "what another tool wrote is kept"
    over = structs.replace(theirs, status="False")
    assert frozen(MachineSetStatus(machine_set_condition=(over,))).machine_set_condition == (condition,)
    assert frozen(theirs_too, label="False").machine_set_condition == ()
    assert (is_frozen(theirs_too), is_frozen(MachineSetStatus())) == (True, False)


def test_machines_that_the_set_preserves_are_counted() -> None:
    kept = machine("k")
    notes = {names.PRESERVE_ANNOTATION: "auto-preserved"}
    kept = structs.replace(kept, metadata=structs.replace(kept.metadata, annotations=notes))
    assert set_status(seen(kept, machine("a")), None).auto_preserve_failed_machine_count == 1


def test_a_failure_is_dated() -> None:
    (told,) = set_status(seen(), Failure("FailedCreate", "quota")).machine_set_condition
    assert told.last_transition_time == T0


def test_when_the_next_machine_becomes_available() -> None:
    found = tuple(member_of(m) for m in (machine("a"), machine("b", Phase.PENDING)))
    assert until_available(found, 30, T0.timestamp() + 10) == 20.0
    assert until_available(found, 30, T0.timestamp() + 30) is None
    assert until_available(found, 0, T0.timestamp()) is None
    assert until_available(found, 1, T0.timestamp() + 0.25) == 0.75


def test_facts_do_not_change_with_a_version() -> None:
    one = machine()
    two = structs.replace(one, metadata=structs.replace(one.metadata, resource_version="9"))
    assert member_of(one) == member_of(two)
    assert isinstance(member_of(two), MachineMember)
    assert member_of(two).version == "9"
