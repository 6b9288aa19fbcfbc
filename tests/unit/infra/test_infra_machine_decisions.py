"""What comes next for a KubewrightMachine, for what is seen of it."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from kubewright.api.cluster.v1beta1 import CLUSTER, MACHINE
from kubewright.api.infra.names import CLOUD_OWNER_ANNOTATION, MACHINE_FINALIZER
from kubewright.api.infra.v1beta1 import KUBEWRIGHT_MACHINE
from kubewright.api.meta import ObjectMeta
from kubewright.base.plan import AT_ONCE
from kubewright.driver.contract import Instance
from kubewright.driver.errors import Code, DriverError
from kubewright.driver.life.seen import ConsoleSeen, Verb, VmSeen
from kubewright.infra.machine.decide import decide, machine_status
from kubewright.infra.machine.seen import AddFinalizer, Call, Plan, ReadConsole, Record, RemoveFinalizer, Seen
from kubewright.infra.plan import paced
from kubewright.infra.settings import InfraSettings

NOW = datetime(2030, 1, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)
VM = Instance("sim:///here/vm-1", "m1", addresses=(("InternalIP", "10.0.0.1"),), last_known_state="note")
OWNER = MACHINE.from_plain(
    {"metadata": {"name": "m1"}, "spec": {"clusterName": "demo", "bootstrap": {"dataSecretName": "data"}}}
)
PLACED = MACHINE.from_plain(
    {
        "metadata": {"name": "m1"},
        "spec": {"clusterName": "demo", "bootstrap": {"dataSecretName": "data"}, "failureDomain": "a"},
    }
)
NOTHING_TO_BOOTSTRAP = MACHINE.from_plain(
    {"metadata": {"name": "m1"}, "spec": {"clusterName": "demo", "bootstrap": {"dataSecretName": ""}}}
)
BARE = MACHINE.from_plain({"metadata": {"name": "m1"}, "spec": {"clusterName": "demo"}})
READY = CLUSTER.from_plain({"metadata": {"name": "demo"}, "status": {"infrastructureReady": True}})
NOT_READY = CLUSTER.from_plain({"metadata": {"name": "demo"}})
NO_ROOM = DriverError.of(Code.ResourceExhausted, "no capacity")
DENIED = DriverError.of(Code.PermissionDenied, "not yours")
DELETED = {"deletionTimestamp": "2029-12-31T23:59:00Z"}


def machine(*, finalizer=True, spec=None, status=None, **meta):
    finalizers = {"finalizers": [MACHINE_FINALIZER]} if finalizer else {}
    metadata = {"name": "m1", "namespace": "ns", "uid": "u1", "generation": 1, **finalizers, **meta}
    return KUBEWRIGHT_MACHINE.from_plain({"metadata": metadata, "spec": spec or {}, "status": status or {}})


def seen(found=None, **facts):
    facts = {"owner": OWNER, "cluster": READY, **facts}
    return Seen(machine=found or machine(), settings=InfraSettings(), now=NOW, **facts)


def called(verb, *, ended=1.0, **what):
    """A call that ended so many seconds ago; None: it runs."""
    began = NOW - timedelta(seconds=5)
    return VmSeen(
        verb=verb, began=began, ended=None if ended is None else NOW - timedelta(seconds=ended), **what
    )


COMPLETE = machine(spec={"providerID": VM.provider_id}, status={"ready": True})
RECORDED = machine(spec={"providerID": VM.provider_id})
GOING = machine(spec={"providerID": VM.provider_id}, **DELETED)

TABLE = [
    ("a set has made it, and no Machine yet", seen(owner=None), (), "WaitingForOwner/Info"),
    ("its Cluster does not exist", seen(cluster=None), (), "WaitingForClusterInfrastructure/Info"),
    ("it is new", seen(machine(finalizer=False)), (AddFinalizer("kubewrightmachine.u1"),), ""),
    (
        "it is new, and its cluster's infrastructure is ours",
        seen(machine(finalizer=False), infrastructure=ObjectMeta(name="demo", uid="c1")),
        (AddFinalizer("kubewrightmachine.8829dfd9.u1"),),
        "",
    ),
    (
        "it has lost the finalizer, and clouds know it",
        seen(machine(finalizer=False, annotations={CLOUD_OWNER_ANNOTATION: "kubewrightmachine.a.u0"})),
        (AddFinalizer("kubewrightmachine.a.u0"),),
        "",
    ),
    (
        "it is new, and it is not known yet for which infrastructure",
        seen(machine(finalizer=False), cluster=NOT_READY),
        (),
        "WaitingForClusterInfrastructure/Info",
    ),
    ("the infrastructure is not ready", seen(cluster=NOT_READY), (), "WaitingForClusterInfrastructure/Info"),
    ("the Machine names no data", seen(owner=BARE), (), "WaitingForBootstrapData/Info"),
    (
        "the Secret with the data is not there",
        seen(data_problem="there is no Secret data"),
        (),
        "WaitingForBootstrapData/Warning",
    ),
    ("its driver does not run here", seen(problem="no such driver"), (), "InvalidConfiguration/Error"),
    ("everything is there", seen(), (Call(Verb.ENSURE),), "CreatingVM/Info"),
    (
        "the Machine names an empty Secret: no data",
        seen(owner=NOTHING_TO_BOOTSTRAP),
        (Call(Verb.ENSURE),),
        "CreatingVM/Info",
    ),
    ("the driver works on it", seen(vm=called(Verb.ENSURE, ended=None)), (), "CreatingVM/Info"),
    (
        "the driver works on it again after a failure",
        seen(vm=called(Verb.ENSURE, ended=None, error=NO_ROOM)),
        (),
        "",
    ),
    ("the cloud has no room", seen(vm=called(Verb.ENSURE, error=NO_ROOM)), (), "VMCreationFailed/Warning"),
    (
        "the cloud had no room ten minutes ago",
        seen(vm=called(Verb.ENSURE, ended=601, error=NO_ROOM)),
        (Call(Verb.ENSURE),),
        "VMCreationFailed/Warning",
    ),
    (
        "what the driver is told has changed since it failed",
        seen(vm=called(Verb.ENSURE, error=DENIED), inputs="other"),
        (Call(Verb.ENSURE),),
        "VMCreationFailed/Warning",
    ),
    ("the driver has answered", seen(vm=called(Verb.ENSURE, instance=VM)), (Record(VM),), ""),
    (
        "the driver has answered, and the Machine says where it should be",
        seen(owner=PLACED, vm=called(Verb.ENSURE, instance=VM)),
        (Record(VM, "a"),),
        "",
    ),
    ("the VM is on record", seen(RECORDED, vm=called(Verb.ENSURE, instance=VM)), (), "True"),
    ("the VM is complete", seen(COMPLETE), (), "True"),
    ("the VM is complete, and its data is gone", seen(COMPLETE, data_problem="gone"), (), "True"),
    ("the VM is complete, and so are its credentials", seen(COMPLETE, problem="gone"), (), "True"),
    ("after a move only the id is known", seen(RECORDED), (Call(Verb.ENSURE),), "CreatingVM/Info"),
    ("another program has given it up", seen(machine(status={"failureReason": "CreateError"})), (), ""),
    ("it is paused", seen(paused=True), (), ""),
    ("it is paused and being deleted", seen(GOING, paused=True), (), ""),
    ("it is being deleted", seen(GOING), (Call(Verb.DELETE),), "Deleting/Info"),
    ("it is a copy, and its VM that of another", seen(GOING, original="first"), (RemoveFinalizer(),), ""),
    (
        "it is being deleted, and its owners are gone",
        seen(GOING, owner=None, cluster=None),
        (Call(Verb.DELETE),),
        "Deleting/Info",
    ),
    ("the driver deletes it", seen(GOING, vm=called(Verb.DELETE, ended=None)), (), "Deleting/Info"),
    (
        "it is being deleted while a creation runs",
        seen(machine(**DELETED), vm=called(Verb.ENSURE, ended=None)),
        (),
        "Deleting/Info",
    ),
    (
        "the driver cannot delete it",
        seen(GOING, vm=called(Verb.DELETE, error=DENIED)),
        (),
        "VMDeletionFailed/Warning",
    ),
    (
        "the driver has deleted it",
        seen(GOING, vm=called(Verb.DELETE, absent=True, deleted=True)),
        (RemoveFinalizer(),),
        "",
    ),
    (
        "the driver has deleted it, and a creation may still bring one",
        seen(
            machine(**DELETED),
            vm=called(Verb.DELETE, absent=True, deleted=True),
            doubt_until=NOW + timedelta(seconds=7),
        ),
        (),
        "Deleting/Info",
    ),
    (
        "a creation of an earlier process is in doubt",
        seen(machine(**DELETED), doubt_until=NOW + timedelta(seconds=7)),
        (Call(Verb.LOOK),),
        "Deleting/Info",
    ),
    (
        "its VM is known, and the driver cannot be told to delete it",
        seen(GOING, problem="there is no Secret cloud with credentials"),
        (),
        "VMDeletionFailed/Warning",
    ),
    (
        "its credentials are missing, and an earlier process may have made a VM",
        seen(
            machine(**DELETED),
            problem="there is no Secret cloud with credentials",
            source_missing=True,
            doubt_until=NOW - timedelta(minutes=9),
        ),
        (),
        "VMDeletionFailed/Warning",
    ),
    (
        "its credentials are missing, and no process can have made a VM",
        seen(machine(**DELETED), problem="there is no Secret cloud with credentials", source_missing=True),
        (RemoveFinalizer(),),
        "",
    ),
    (
        "no VM is known, and the driver cannot be told",
        seen(machine(**DELETED), problem="no such driver"),
        (RemoveFinalizer(),),
        "",
    ),
    (
        "the driver cannot be told, and an earlier process may have made a VM a moment ago",
        seen(machine(**DELETED), problem="no such driver", doubt_until=NOW + timedelta(minutes=1)),
        (),
        "VMDeletionFailed/Warning",
    ),
    (
        "the driver refuses to delete it, and no process can have made a VM",
        seen(machine(**DELETED), vm=called(Verb.DELETE, error=DENIED)),
        (RemoveFinalizer(),),
        "",
    ),
    (
        "the driver refuses to look for it, and an earlier process may have made a VM",
        seen(machine(**DELETED), vm=called(Verb.LOOK, error=DENIED), doubt_until=NOW - timedelta(minutes=9)),
        (),
        "VMDeletionFailed/Warning",
    ),
    (
        "a user accepts that a VM may be left behind of which only its creation is in doubt",
        seen(
            machine(labels={"force-deletion": "True"}, **DELETED),
            vm=called(Verb.LOOK, error=DENIED),
            doubt_until=NOW - timedelta(minutes=9),
        ),
        (Call(Verb.DELETE),),
        "Deleting/Info",
    ),
    (
        "when it could not be deleted by its name either",
        seen(
            machine(labels={"force-deletion": "True"}, **DELETED),
            vm=called(Verb.DELETE, error=DENIED),
            doubt_until=NOW - timedelta(minutes=9),
        ),
        (RemoveFinalizer(),),
        "",
    ),
    (
        "of a VM that is known no user can accept it",
        seen(
            machine(spec={"providerID": "x"}, labels={"force-deletion": "True"}, **DELETED),
            vm=called(Verb.DELETE, error=DENIED),
        ),
        (),
        "VMDeletionFailed/Warning",
    ),
    ("it has no finalizer of ours", seen(machine(finalizer=False, finalizers=["x/y"], **DELETED)), (), ""),
]


@pytest.mark.parametrize(
    ("found", "steps", "report"),
    [pytest.param(*row[1:], id=row[0]) for row in TABLE],
)
def test_the_plan_is(found, steps, report):
    plan = decide(found)

    assert plan.steps == steps
    assert _short(plan) == report
    assert plan.because


def _short(plan: Plan) -> str:
    if plan.report is None:
        return ""
    said = plan.report
    return said.status if said.status == "True" else f"{said.reason}/{said.severity}"


def test_what_failed_is_tried_again_after_the_pause_of_its_error() -> None:
    plan = decide(seen(vm=called(Verb.ENSURE, error=DENIED)))

    assert plan.wake == timedelta(minutes=3) - SECOND
    assert plan.because == "the cloud refused; next try in 2m59s"


def test_a_doubt_is_waited_for_as_long_as_it_lasts() -> None:
    vm = called(Verb.DELETE, absent=True, deleted=True)

    assert decide(seen(GOING, vm=vm, doubt_until=NOW + 7 * SECOND)).wake == 7 * SECOND


def test_the_last_event_names_the_vm() -> None:
    event = decide(seen(GOING, vm=called(Verb.DELETE, absent=True, deleted=True))).event

    assert event is not None
    assert event.message == "VM sim:///here/vm-1 is deleted"


def test_a_wait_is_reported_when_it_lasts() -> None:
    plan = decide(seen(owner=None))

    early = paced(plan, NOW - SECOND, NOW)
    late = paced(plan, NOW - plan.lasting, NOW)

    assert (early.report, early.wake) == (None, plan.lasting - SECOND)
    assert late == plan


def test_an_error_is_reported_at_once() -> None:
    plan = decide(seen(vm=called(Verb.ENSURE, error=DENIED)))

    assert paced(plan, NOW, NOW) == plan


class TestStatus:
    def test_of_a_complete_vm(self) -> None:
        found = seen(RECORDED, vm=called(Verb.ENSURE, instance=VM, last_known_state="note"))
        status = machine_status(found, decide(found).report, NOW)

        assert (status.ready, status.node_name, status.interruptible) == (True, "m1", False)
        assert [(each.type, each.address) for each in status.addresses] == [("InternalIP", "10.0.0.1")]
        assert [(each.type, each.status) for each in status.conditions] == [
            ("Ready", "True"),
            ("VMReady", "True"),
        ]
        assert (status.last_known_state, status.observed_generation) == ("note", 1)

    def test_a_spot_vm_says_so(self) -> None:
        found = seen(RECORDED, vm=called(Verb.ENSURE, instance=replace(VM, interruptible=True)))

        assert machine_status(found, decide(found).report, NOW).interruptible

    def test_ready_says_why_not(self) -> None:
        found = seen(vm=called(Verb.ENSURE, error=NO_ROOM))
        ready = machine_status(found, decide(found).report, NOW).conditions[0]

        assert (ready.type, ready.status, ready.severity, ready.reason) == (
            "Ready",
            "False",
            "Warning",
            "VMCreationFailed",
        )
        assert "no capacity" in ready.message

    def test_ready_stays_when_the_vm_is_being_deleted(self) -> None:
        found = seen(
            machine(spec={"providerID": "x"}, status={"ready": True}, **DELETED),
            vm=called(Verb.DELETE, ended=None),
        )
        status = machine_status(found, decide(found).report, NOW)

        assert (status.ready, status.conditions[0].reason) == (True, "Deleting")

    def test_a_second_pass_writes_nothing(self) -> None:
        found = seen(RECORDED, vm=called(Verb.ENSURE, instance=VM))
        once = machine_status(found, decide(found).report, NOW)
        again = seen(
            machine(spec={"providerID": VM.provider_id}, status=_plain(once)),
            vm=called(Verb.ENSURE, instance=VM),
        )

        assert machine_status(again, decide(again).report, NOW + 60 * SECOND) == once


def _plain(status):
    return KUBEWRIGHT_MACHINE.to_plain(KUBEWRIGHT_MACHINE.type(status=status))["status"]


def test_a_finalizer_and_a_record_are_followed_by_another_look() -> None:
    for found in (seen(machine(finalizer=False)), seen(vm=called(Verb.ENSURE, instance=VM))):
        assert decide(found).wake == AT_ONCE


def test_a_driver_that_refuses_the_deletion_is_told_with_what_a_user_can_do() -> None:
    waits = decide(
        seen(machine(**DELETED), vm=called(Verb.LOOK, error=DENIED), doubt_until=NOW - timedelta(minutes=9))
    )
    assert waits.report is not None
    assert waits.report.message == (
        "machine codes error: code = [PermissionDenied] message = [not yours]. Mend providerSpec, credentials "
        "or the driver; or, if the cloud has no VM of it, label it force-deletion=True"
    )


@pytest.mark.parametrize("found", [pytest.param(row[1], id=row[0]) for row in TABLE])
def test_a_plan_that_only_waits_names_for_what_and_what_a_user_can_do(found):
    plan = decide(found)
    waits = plan.report is not None and plan.report.status != "True"
    if waits and not plan.steps:
        assert plan.awaits
    assert all(each.what and each.remedy for each in plan.awaits)


def joins(*, made=10, ready="True", node=False, told="", console=None):
    """A machine whose VM was complete so many minutes ago; ``told``: the status of what was said of its boot."""
    at = (NOW - timedelta(minutes=made)).isoformat().replace("+00:00", "Z")
    conditions = [{"type": "VMReady", "status": ready, "lastTransitionTime": at}]
    if told:
        conditions.append({"type": "BootstrapExecSucceeded", "status": told, "lastTransitionTime": at})
    found = machine(spec={"providerID": VM.provider_id}, status={"ready": True, "conditions": conditions})
    ref = {"nodeRef": {"kind": "Node", "name": "m1"}} if node else {}
    owner = MACHINE.from_plain({"metadata": {"name": "m1"}, "spec": {"clusterName": "demo"}, "status": ref})
    return decide(seen(found, owner=owner, console=console))


def boot(report):
    return (report.type, report.status, report.reason) if report is not None else None


PANIC = ConsoleSeen(NOW - timedelta(minutes=1), "boots\npanic")
LATE = ("BootstrapExecSucceeded", "False", "NodeMissing")
BOOTS = [
    ("its VM was made just now", {"made": 0.1}, (), timedelta(seconds=9), ("VMReady", "True", "")),
    ("it boots, and its console is read", {"made": 2}, (ReadConsole(),), None, None),
    (
        "nothing is wrong there",
        {"made": 2, "console": ConsoleSeen(NOW, "boots")},
        (),
        timedelta(seconds=15),
        ("VMReady", "True", ""),
    ),
    (
        "it was read a while ago",
        {"made": 2, "console": ConsoleSeen(NOW - timedelta(seconds=15), "boots")},
        (ReadConsole(),),
        None,
        None,
    ),
    (
        "the driver shows none, and its Node has time to come",
        {"made": 2, "console": ConsoleSeen(NOW - timedelta(minutes=1))},
        (),
        timedelta(minutes=3),
        ("VMReady", "True", ""),
    ),
    (
        "its boot has failed",
        {"made": 2, "console": ConsoleSeen(NOW, "Kernel panic - not syncing: VFS: Unable to mount root fs")},
        (),
        timedelta(minutes=5),
        ("BootstrapExecSucceeded", "False", "BootFailed"),
    ),
    ("its VM was not complete", {"ready": "False"}, (), None, ("VMReady", "True", "")),
    ("it is late, so its console is read", {}, (ReadConsole(),), None, None),
    ("what the console says is told", {"console": PANIC}, (), timedelta(minutes=4), LATE),
    ("the driver shows no console", {"console": ConsoleSeen(NOW)}, (), timedelta(minutes=5), LATE),
    (
        "it was read long ago",
        {"console": ConsoleSeen(NOW - timedelta(minutes=6)), "told": "False"},
        (ReadConsole(),),
        None,
        None,
    ),
    ("its Node has come", {"node": True}, (), None, ("VMReady", "True", "")),
    ("its Node came late", {"node": True, "told": "False"}, (), None, ("BootstrapExecSucceeded", "True", "")),
    ("that was told", {"node": True, "told": "True"}, (), None, ("VMReady", "True", "")),
]


@pytest.mark.parametrize(
    ("given", "steps", "wake", "report"), [c[1:] for c in BOOTS], ids=[c[0] for c in BOOTS]
)
def test_a_vm_that_becomes_no_node_is_told_of_with_its_console(given, steps, wake, report):
    plan = joins(**given)
    assert (plan.steps, plan.wake, boot(plan.report)) == (steps, wake, report)


def test_a_boot_that_failed_is_told_whole_in_the_condition_and_with_its_last_line_in_the_event():
    plan = joins(console=PANIC)
    assert plan.report.message.splitlines() == [
        "no Node has come of its VM in 5m0s.",
        "The end of its VM's console:",
        "boots",
        "panic",
    ]
    assert plan.event.message == "no Node has come of its VM in 5m0s. Its VM's console ends with: panic"


def test_a_boot_that_failed_is_told_at_once_with_its_reason():
    failed = "Kernel panic - not syncing: VFS: Unable to mount root fs"
    plan = joins(made=1, console=ConsoleSeen(NOW, failed))
    assert plan.report.message.splitlines() == [
        f"no Node has come of its VM: {failed}.",
        "The end of its VM's console:",
        failed,
    ]
    assert plan.event.reason == "BootFailed"
