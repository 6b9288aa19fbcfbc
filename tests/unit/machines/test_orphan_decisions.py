"""VMs and nodes without machines: who has a claim, who is confirmed, what is written (SAF-01 to SAF-05)."""

from dataclasses import replace
from datetime import timedelta

import pytest
from msgspec import structs

from kubewright.api.core import Node
from kubewright.api.machine import names
from kubewright.api.machine.v1alpha1 import MACHINE, LastOperation, Machine
from kubewright.api.meta import ObjectMeta
from kubewright.base.errors import InvalidInput
from kubewright.compose.options import Options
from kubewright.driver.contract import Instance
from kubewright.driver.life.orphans import OrphanSettings
from kubewright.kube.cache import Change
from kubewright.kube.header import read
from kubewright.machines.orphans.decide import (
    ListedVm,
    awaits_volumes,
    not_managed,
    scheme,
    why_kept_by_cache,
    why_kept_by_server,
)
from kubewright.machines.orphans.vms import class_to_list, may_have_a_node
from kubewright.machines.settings import MachineSettings
from kubewright.nodes.drain.plan import DrainPlan
from kubewright.nodes.drain.volumes import Moving, Trip
from kubewright.testing.scenes import NOW, being_made, machine, minutes
from kubewright.wire.gvk import Key

STRAY = Instance("sim:///here/vm-9", "m1", machine_name="m1", owner_uid="u0")
OTHER = machine("Running")  # m1 of uid u1, on sim:///here/vm-1


@pytest.mark.parametrize(
    ("seen", "because"),
    [
        pytest.param(ListedVm(STRAY), "", id="nothing wants it: an orphan"),
        pytest.param(
            ListedVm(STRAY, owner_exists=True), "its machine exists", id="the machine it was made for lives"
        ),
        pytest.param(
            ListedVm(STRAY, recorded=True),
            "a machine has it on record",
            id="a machine of another class has it on record",
        ),
        pytest.param(
            ListedVm(STRAY, busy=True),
            "a call for its machine is under way",
            id="a creation of ours may be about to answer it",
        ),
        pytest.param(
            ListedVm(replace(STRAY, machine_name="", owner_uid="")),
            "nothing says which machine it was made for",
            id="it says neither name nor owner",
        ),
        pytest.param(
            ListedVm(replace(STRAY, machine_name="")),
            "nothing says which machine it was made for",
            id="an owner alone cannot be asked for",
        ),
        pytest.param(
            ListedVm(replace(STRAY, owner_uid="kubewrightmachine.u0")),
            "it was made for an object of another API",
            id="a VM of an infrastructure machine",
        ),
        pytest.param(
            ListedVm(replace(STRAY, provider_id="")),
            "nothing says which machine it was made for",
            id="a VM that cannot be named",
        ),
        pytest.param(
            ListedVm(STRAY, same_name=OTHER), "", id="its same_name is another machine, with a VM of its own"
        ),
        pytest.param(
            ListedVm(replace(STRAY, owner_uid=""), same_name=OTHER),
            "its machine exists",
            id="without owner the name counts",
        ),
        pytest.param(
            ListedVm(STRAY, same_name=machine("", vm=False)),
            "a machine of its name is still being made",
            id="its same_name has no phase yet",
        ),
        pytest.param(
            ListedVm(STRAY, same_name=being_made(vm=False)),
            "a machine of its name is still being made",
            id="its same_name is being made, which takes its time",
        ),
        pytest.param(
            ListedVm(STRAY, same_name=machine("CrashLoopBackOff", vm=False)),
            "a machine of its name is still being made",
            id="or fails to be made",
        ),
    ],
)
def test_who_keeps_a_vm(seen: ListedVm, because: str) -> None:
    assert why_kept_by_cache(seen) == because


@pytest.mark.parametrize(
    ("live", "because"),
    [
        pytest.param(None, "", id="the server knows no such machine"),
        pytest.param(OTHER, "", id="it knows one with another uid and another VM"),
        pytest.param(machine("Running", vm=True), "", id="in whatever phase that is settled"),
        pytest.param(
            structs.replace(OTHER, metadata=ObjectMeta(name="m1", uid="u0")),
            "its machine exists",
            id="our cache was late",
        ),
        pytest.param(
            structs.replace(OTHER, spec=structs.replace(OTHER.spec, provider_id=STRAY.provider_id)),
            "a machine has it on record",
            id="another machine has just taken the VM over",
        ),
        pytest.param(
            machine("", vm=False),
            "a machine of its name is still being made",
            id="a new one of that name is on its way",
        ),
    ],
)
def test_the_last_question_before_the_end(live: Machine | None, because: str) -> None:
    assert why_kept_by_server(STRAY, live, frozenset()) == because


OWN = {"machine_name": "m1", "owner_uid": "u1"}
SECOND = Instance("sim:///here/vm-9", "m1", **OWN)
BOTH = frozenset((SECOND.provider_id, OTHER.spec.provider_id))
KEPT = "its machine exists"
CALLED_MADE = "a call for its machine is under way"


def of(the: Machine, *, vm: Instance = SECOND, listed: frozenset[str] = BOTH, busy: bool = False) -> ListedVm:
    return ListedVm(vm, owner_exists=True, same_name=the, listed=listed, busy=busy)


@pytest.mark.parametrize(
    ("seen", "because"),
    [
        pytest.param(of(OTHER), "", id="its machine runs on another one that is listed, too"),
        pytest.param(
            of(OTHER, vm=replace(SECOND, owner_uid="")), "", id="so does one of MCM's, which names no owner"
        ),
        pytest.param(
            of(OTHER, listed=frozenset((SECOND.provider_id,))), KEPT, id="the one on record is not listed"
        ),
        pytest.param(of(machine("Pending")), KEPT, id="its machine awaits its node"),
        pytest.param(of(machine("")), KEPT, id="its machine is being made"),
        pytest.param(of(machine("CrashLoopBackOff")), KEPT, id="its machine fails to be made"),
        pytest.param(of(machine("Unknown")), KEPT, id="the node of its machine is silent"),
        pytest.param(of(machine("Running", deleted=minutes(1))), KEPT, id="its machine is being deleted"),
        pytest.param(of(machine("Running", vm=False)), KEPT, id="no VM is on record"),
        pytest.param(of(OTHER, busy=True), CALLED_MADE, id="a call for its machine is under way"),
        pytest.param(
            replace(of(OTHER, vm=replace(SECOND, provider_id=OTHER.spec.provider_id)), recorded=True),
            "a machine has it on record",
            id="it is the one on record",
        ),
        pytest.param(
            of(OTHER, vm=replace(SECOND, owner_uid="u7")), KEPT, id="it was made for another machine"
        ),
    ],
)
def test_who_keeps_a_vm_whose_machine_has_several(seen: ListedVm, because: str) -> None:
    assert why_kept_by_cache(seen) == because


@pytest.mark.parametrize(
    ("provider_id", "expected"),
    [("aws:///eu/i-1", "aws"), ("sim:///here/vm-1", "sim"), ("a://b://c", "a"), ("", ""), ("odd", "")],
)
def test_the_scheme_of_a_provider_id(provider_id: str, expected: str) -> None:
    assert scheme(provider_id) == expected


TRIP = Trip("pv-1", "default/db", returns=True)


@pytest.mark.parametrize(
    ("drain", "attachments", "left", "expected"),
    [
        pytest.param(DrainPlan(done=True), 0, minutes(1), "", id="no volume is there"),
        pytest.param(
            DrainPlan(done=True), 2, minutes(1), "2 volumes are still attached", id="two are attached"
        ),
        pytest.param(
            DrainPlan(done=True), 2, None, "2 volumes are still attached", id="they have as long as they need"
        ),
        pytest.param(DrainPlan(done=True), 2, minutes(0), "", id="they have had their time"),
        pytest.param(
            DrainPlan(done=True, moving=Moving(arriving=(TRIP,))),
            0,
            None,
            "volume pv-1 of default/db is to be attached to another node",
            id="that of the last pod is on its way",
        ),
    ],
)
def test_which_volumes_hold_a_vm(
    drain: DrainPlan, attachments: int, left: timedelta | None, expected: str
) -> None:
    assert awaits_volumes(drain, attachments, left) == expected


def node(age: timedelta, *, says: bool = False) -> Node:
    annotations = {names.NOT_MANAGED_ANNOTATION: "1"} if says else {}
    return Node(metadata=ObjectMeta(name="n", creation_timestamp=NOW - age, annotations=annotations))


@pytest.mark.parametrize(
    ("found", "claims", "expected"),
    [
        pytest.param(node(minutes(21)), 0, True, id="21 minutes old and without a machine: it says so"),
        pytest.param(node(minutes(20)), 0, None, id="20 minutes old: not yet"),
        pytest.param(node(minutes(19)), 0, None, id="19 minutes old: its machine may not have recorded it"),
        pytest.param(node(minutes(21), says=True), 0, None, id="it says so already"),
        pytest.param(node(minutes(21), says=True), 1, False, id="it says so, and has a machine: no longer"),
        pytest.param(node(minutes(21)), 1, None, id="it has a machine and says nothing"),
        pytest.param(node(minutes(21), says=True), 2, None, id="two machines: a person must look"),
    ],
)
def test_what_a_node_says(found: Node, claims: int, expected: bool | None) -> None:
    assert not_managed(found, claims, NOW, minutes(20)) is expected


def change(before: Machine | None, after: Machine | None) -> Change[Machine]:
    old, new = (None if each is None else read(MACHINE.encode(each)) for each in (before, after))
    return Change(Key("default", "m1"), old, new, lambda header: MACHINE.decode(header.data))


SEVERAL = LastOperation(error_code="OutOfRange", description="code = [OutOfRange] message = [two VMs]")


@pytest.mark.parametrize(
    ("before", "after", "looks"),
    [
        pytest.param(None, machine("Running"), False, id="a machine appears"),
        pytest.param(machine("Running", age=minutes(30)), None, False, id="one with its VM on record goes"),
        pytest.param(machine("Running", age=minutes(3)), None, True, id="one that was young goes"),
        pytest.param(
            machine("", vm=False, age=minutes(30)), None, True, id="one without a VM on record goes"
        ),
        pytest.param(
            machine("Running"), machine("Running", operation=SEVERAL), True, id="it has several VMs, newly"
        ),
        pytest.param(
            machine("", operation=SEVERAL), machine("Running", operation=SEVERAL), False, id="it still has"
        ),
        pytest.param(machine("Running", operation=SEVERAL), machine("Running"), False, id="no longer"),
    ],
)
def test_what_is_a_reason_to_look(before: Machine | None, after: Machine | None, looks: bool) -> None:
    assert class_to_list(change(before, after), NOW) == (Key("default", "small") if looks else None)


def test_a_confirmation_shorter_than_a_creation_is_refused() -> None:
    with pytest.raises(InvalidInput, match="confirmed for longer"):
        Options(
            machine=MachineSettings(confirm_absent=minutes(5)),
            orphans=OrphanSettings(confirmation=minutes(5)),
        )


NAMED = {names.NODE_LABEL: "m1"}


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        pytest.param(None, machine("Running"), True, id="a machine came"),
        pytest.param(machine("Running"), None, False, id="a machine went"),
        pytest.param(machine("Pending"), machine("Running"), False, id="its status changed"),
        pytest.param(
            structs.replace(OTHER, metadata=structs.replace(OTHER.metadata, labels={})),
            structs.replace(OTHER, metadata=structs.replace(OTHER.metadata, labels=NAMED)),
            True,
            id="its node is named",
        ),
    ],
)
def test_which_machines_may_have_a_node_that_says_it_has_none(
    before: Machine | None, after: Machine | None, expected: bool
) -> None:
    assert may_have_a_node(change(before, after)) is expected
