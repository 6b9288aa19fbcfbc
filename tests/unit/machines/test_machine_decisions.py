"""One machine, one look: what is planned, as tables. Sources: mcm.md §3.4, §4.2-4.8, §4.13."""

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from typing import Any

import pytest
from msgspec import structs

from kubewright.api.core import Node, NodeCondition, NodeSpec, NodeStatus, Pod, PodSpec, Taint
from kubewright.api.machine import names
from kubewright.api.machine.names import Phase
from kubewright.api.machine.v1alpha1 import (
    ClassSpec,
    CurrentStatus,
    LastOperation,
    Machine,
    MachineSpec,
    MachineStatus,
    NodeTemplateSpec,
)
from kubewright.api.meta import ObjectMeta
from kubewright.driver.contract import Instance
from kubewright.driver.errors import Code, DriverError
from kubewright.machines.machine.calls import VmSeen
from kubewright.machines.machine.decide import decide
from kubewright.machines.machine.observe import Seen
from kubewright.machines.machine.settings import MachineSettings
from kubewright.machines.machine.steps import Verb
from kubewright.nodes import health
from kubewright.nodes.drain.plan import DrainPlan

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)
VM = Instance("sim:///here/vm-1", "m1")
READY = NodeCondition(type="Ready", status="True")
SILENT = NodeCondition(type="Ready", status="Unknown", reason="NodeStatusUnknown")
POD = Pod(metadata=ObjectMeta(name="web", namespace="default", uid="p1"), spec=PodSpec(node_name="m1"))


def minutes(count: float) -> timedelta:
    return timedelta(minutes=count)


def machine(
    phase: str = "",
    *,
    vm: bool = True,
    age: timedelta = minutes(1),
    since: timedelta = minutes(1),
    deleted: timedelta | None = None,
    finalizers: tuple[str, ...] = (names.FINALIZER,),
    operation: LastOperation | None = None,
    **spec: Any,
) -> Machine:
    """A machine of a set; ``vm`` says whether its VM is on record."""
    meta = ObjectMeta(
        name="m1",
        namespace="default",
        uid="u1",
        resource_version="7",
        creation_timestamp=NOW - age,
        deletion_timestamp=None if deleted is None else NOW - deleted,
        finalizers=finalizers,
        labels={names.NODE_LABEL: "m1"} if vm else {},
        annotations={names.PRIORITY_ANNOTATION: "3"},
    )
    known = MachineSpec(
        machine_class=ClassSpec(kind="MachineClass", name="small"),
        provider_id=VM.provider_id if vm else "",
        **spec,
    )
    status = MachineStatus(
        conditions=(READY,) if phase in ("Running", "Unknown") else (),
        last_operation=operation or LastOperation(),
        current_status=CurrentStatus(phase=phase, last_update_time=NOW - since),
    )
    return Machine(metadata=meta, spec=known, status=status)


def node(*conditions: NodeCondition, cordoned: bool = False, taints: tuple[Taint, ...] = ()) -> Node:
    labels = {names.MACHINE_NAME_LABEL: "m1"}
    return Node(
        metadata=ObjectMeta(name="m1", uid="n1", labels=labels),
        spec=NodeSpec(provider_id=VM.provider_id, unschedulable=cordoned, taints=taints),
        status=NodeStatus(conditions=conditions or (READY,)),
    )


def seen(of: Machine, at: Node | None = None, **more: Any) -> Seen:
    settings = MachineSettings()
    judged = health.judge(at.status.conditions if at else (), settings.node_conditions)
    return Seen(machine=of, settings=settings, now=NOW, node=at, health=judged, **more)


def called(
    verb: Verb, *, ago: timedelta = timedelta(0), error: DriverError | None = None, **more: Any
) -> VmSeen:
    return VmSeen(verb=verb, began=NOW - ago, ended=NOW - ago, error=error, **more)


ENSURED = called(Verb.ENSURE, instance=VM)
GONE = called(Verb.DELETE)


@dataclass(frozen=True)
class Case:
    """``steps`` are the names of the planned effects; ``phase`` what the status shall say (None: nothing new)."""

    name: str
    seen: Seen
    steps: list[str] = field(default_factory=list)
    phase: Phase | None = None
    says: str = ""
    wake: timedelta | None | str = "any"


def refused(code: Code, ago: timedelta) -> VmSeen:
    return called(Verb.ENSURE, ago=ago, error=DriverError.of(code, "no"))


CREATION = [
    Case("a machine made by hand gets finalizer and priority first",
         seen(machine(vm=False, finalizers=())), ["Adorn"]),
    Case("a new machine asks the cloud", seen(machine(vm=False)), ["Call"]),
    Case("while the cloud works nothing is asked twice",
         seen(machine(vm=False), vm=VmSeen(verb=Verb.ENSURE, began=NOW)), []),
    Case("what the cloud answered is recorded", seen(machine(vm=False), vm=ENSURED), ["Record"]),
    Case("a missing class is reported, and no VM made",
         seen(machine(vm=False), problem='MachineClass "small" not found', can_call=False), [],
         Phase.CRASH_LOOP_BACK_OFF, "not found"),
    Case("a refusal is reported and retried after its time",
         seen(machine(vm=False), vm=refused(Code.Internal, minutes(1))), [],
         Phase.CRASH_LOOP_BACK_OFF, "Cloud provider message - machine codes error: code = [Internal]", minutes(2)),
    Case("no capacity waits ten minutes",
         seen(machine(vm=False), vm=refused(Code.ResourceExhausted, minutes(1))), [],
         Phase.CRASH_LOOP_BACK_OFF, "ResourceExhausted", minutes(9)),
    Case("when its time has come it tries again",
         seen(machine(vm=False), vm=refused(Code.Unavailable, minutes(1))), ["Call"], Phase.CRASH_LOOP_BACK_OFF),
    Case("a changed class is tried at once",
         seen(machine(vm=False), vm=refused(Code.ResourceExhausted, timedelta(0)), inputs="new"), ["Call"],
         Phase.CRASH_LOOP_BACK_OFF),
    Case("past the creation timeout a refusal is final",
         seen(machine(vm=False, age=minutes(21)), vm=refused(Code.Internal, minutes(1))), [], Phase.FAILED),
    Case("the machine's own creation timeout goes first",
         seen(machine(vm=False, age=minutes(6), creation_timeout="5m"), vm=refused(Code.Internal, minutes(1))), [],
         Phase.FAILED),
    Case("a VM whose initialization fails is recorded all the same",
         seen(machine(vm=False), vm=called(Verb.ENSURE, error=DriverError("no disk"), instance=VM,
                                           initializing=True)), ["Record"],
         Phase.CRASH_LOOP_BACK_OFF, "Initialize VM Instance"),
    Case("a restarted process finishes what has no phase yet", seen(machine("")), ["Call"]),
    Case("a restarted process trusts what is on record", seen(machine("Pending"), None), []),
]  # fmt: skip

JOINING = [
    Case("a VM that was just made is not reported yet", seen(machine(""), vm=ENSURED), [], wake=timedelta(seconds=1)),
    Case("a VM whose node takes its time is Pending",
         seen(machine(""), vm=called(Verb.ENSURE, ago=minutes(1), instance=VM)), [], Phase.PENDING),
    Case("when many machines wait, reporting waits longer",
         seen(machine(""), vm=called(Verb.ENSURE, ago=timedelta(seconds=5), instance=VM), busy=True), []),
    Case("a healthy node makes it Running", seen(machine("", operation=LastOperation()), node(), vm=ENSURED), [],
         Phase.RUNNING, "successfully joined the cluster in 1m0s"),
    Case("a node without the machine's name gets it",
         seen(machine(""), structs.replace(node(), metadata=ObjectMeta(name="m1", uid="n1")), vm=ENSURED),
         ["SyncNode"], Phase.RUNNING),
    Case("the template's taints go onto the node",
         seen(machine("Running", node_template=NodeTemplateSpec(spec=NodeSpec(taints=(Taint(key="a", effect="NoSchedule"),)))),
              node()), ["SyncNode"]),
    Case("critical components hold a Pending machine back",
         seen(machine("Pending"), node(taints=(Taint(key=names.CRITICAL_COMPONENTS_TAINT, effect="NoSchedule"),))), []),
    Case("past the creation timeout a Pending machine is Failed", seen(machine("Pending", age=minutes(21))), [],
         Phase.FAILED, "failed to join the cluster in 20m0s minutes."),
    Case("a used token is dropped", seen(machine(""), node(), vm=ENSURED, has_token=True), ["DropToken"],
         Phase.RUNNING),
]  # fmt: skip

HEALTH = [
    Case("a healthy Running machine is left alone", seen(machine("Running"), node()), [], wake=None),
    Case("an unhealthy node makes it Unknown", seen(machine("Running"), node(SILENT)), [], Phase.UNKNOWN,
         "changing MachinePhase to Unknown"),
    Case("a bad condition that the machine names makes it Unknown",
         seen(machine("Running"), node(READY, NodeCondition(type="DiskPressure", status="True"))), [], Phase.UNKNOWN),
    Case("a node that went missing makes it Unknown", seen(machine("Running")), [], Phase.UNKNOWN,
         "Node object went missing"),
    Case("Unknown waits for its health timeout", seen(machine("Unknown", since=minutes(4)), node(SILENT)), [],
         wake=minutes(6) + timedelta(milliseconds=1)),
    Case("past the health timeout it is Failed", seen(machine("Unknown", since=minutes(11)), node(SILENT)), [],
         Phase.FAILED, "health checks failing since last 10m0s minutes."),
    Case("while others are replaced it waits its turn",
         seen(machine("Unknown", since=minutes(11)), node(SILENT), replacing=1), [], wake=timedelta(seconds=5)),
    Case("a disabled health timeout never fails it",
         seen(machine("Unknown", since=minutes(99), disable_health_timeout=True), node(SILENT)), []),
    Case("a node that recovers makes it Running", seen(
        machine("Unknown", operation=LastOperation(type="HealthCheck", state="Processing")), node()), [],
         Phase.RUNNING, "successfully re-joined the cluster"),
    Case("even a Failed machine recovers when its node does", seen(
        machine("Failed", operation=LastOperation(type="HealthCheck", state="Failed")), node()), [], Phase.RUNNING),
]  # fmt: skip

DYING = machine("Running", deleted=timedelta(0))
EMPTY = DrainPlan(done=True)
BUSY = DrainPlan(evict=(POD,), wake=timedelta(seconds=5), because="pods: 1 to evict")

DELETION = [
    Case("a creation under way comes to its end first",
         seen(machine(vm=False, deleted=timedelta(0)), vm=VmSeen(verb=Verb.ENSURE, began=NOW)), []),
    Case("first the node is cordoned", seen(DYING, node()), ["Cordon"]),
    Case("then its pods are asked to leave", seen(DYING, node(cordoned=True), drain=BUSY),
         ["MarkTerminating", "Drain"]),
    Case("a silent node's pods are not waited for before the cloud was asked",
         seen(DYING, node(SILENT, cordoned=True), drain=BUSY), ["Call"]),
    Case("an empty node's VM may go", seen(DYING, node(cordoned=True), drain=EMPTY), ["Call"]),
    Case("attached volumes are waited for",
         seen(DYING, node(cordoned=True), drain=EMPTY, attachments=("a",), drained_since=NOW), []),
    Case("but not for ever",
         seen(DYING, node(cordoned=True), drain=EMPTY, attachments=("a",), drained_since=NOW - minutes(3)), ["Call"]),
    Case("a forced deletion takes the attachments off",
         seen(DYING, node(cordoned=True), drain=DrainPlan(done=True, forced=True), attachments=("a",)),
         ["ReleaseVolumes"]),
    Case("while the VM is deleted nothing is asked twice",
         seen(DYING, node(cordoned=True), vm=VmSeen(verb=Verb.DELETE, began=NOW)), []),
    Case("the node goes after the VM", seen(DYING, node(cordoned=True), vm=GONE), ["DeleteNode"]),
    Case("pods on a VM that is gone hold up nothing", seen(DYING, node(cordoned=True), vm=GONE, drain=BUSY),
         ["DeleteNode"]),
    Case("the finalizer goes last", seen(DYING, vm=GONE), ["Release"]),
    Case("a failed deletion is reported and tried again in time",
         seen(DYING, vm=called(Verb.DELETE, error=DriverError("busy"))), [], Phase.TERMINATING,
         "VM deletion failed due to", timedelta(seconds=5)),
    Case("a failed deletion is tried again",
         seen(DYING, vm=called(Verb.DELETE, ago=minutes(1), error=DriverError("busy"))), ["Call"], Phase.TERMINATING),
    Case("without its class a VM cannot be deleted, and the machine says so",
         seen(DYING, problem='MachineClass "small" not found', can_call=False), [], Phase.TERMINATING, "blocked"),
    Case("a deletion that lasts is reported", seen(
        machine("Running", deleted=minutes(1)), vm=VmSeen(verb=Verb.DELETE, began=NOW)), [], Phase.TERMINATING),
    Case("a creation that nobody answered is waited for",
         seen(machine(vm=False, deleted=timedelta(0)), vm=GONE, doubt_until=NOW + minutes(1)), [],
         wake=timedelta(seconds=1)),
    Case("after the doubt the cloud is asked once more",
         seen(machine(vm=False, deleted=minutes(1)), vm=called(Verb.DELETE, ago=minutes(1)), doubt_until=NOW), ["Call"]),
    Case("and then believed",
         seen(machine(vm=False, deleted=minutes(1)), vm=GONE, doubt_until=NOW - minutes(1)), ["Release"]),
    Case("a machine that others hold is left to them",
         seen(machine("Terminating", deleted=minutes(1), finalizers=("theirs",))), []),
]  # fmt: skip


@pytest.mark.parametrize("case", [*CREATION, *JOINING, *HEALTH, *DELETION], ids=attrgetter("name"))
def test_decision(case: Case) -> None:
    plan = decide(case.seen, NOW)
    assert [type(step).__name__ for step in plan.steps] == case.steps
    assert (plan.report.phase if plan.report else None) == case.phase
    assert case.says in (plan.report.description if plan.report else "")
    if case.wake != "any":
        assert plan.wake == case.wake
    assert plan.because


@pytest.mark.parametrize("case", [*CREATION, *JOINING, *HEALTH, *DELETION], ids=attrgetter("name"))
def test_a_plan_never_leaves_a_machine_asleep_with_work_to_do(case: Case) -> None:
    """Whatever waits is woken: by a call that ends, a change of what was looked at, or a time."""
    plan = decide(case.seen, NOW)
    resting = case.seen.phase is Phase.RUNNING and plan.report is None and not plan.steps
    assert plan.steps or plan.wake is not None or plan.report or resting or _woken_otherwise(case.seen)


def _woken_otherwise(of: Seen) -> bool:
    return of.vm.running or names.FINALIZER not in of.machine.metadata.finalizers or bool(
        of.machine.spec.disable_health_timeout
    )


def test_the_same_picture_gives_the_same_plan() -> None:
    of = seen(DYING, node(cordoned=True), drain=BUSY)
    assert decide(of, NOW) == decide(replace(of), NOW)
