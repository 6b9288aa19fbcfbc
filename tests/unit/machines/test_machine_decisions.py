"""A machine that should live, one look: what is planned (CRE, HEA, CAL)."""

from dataclasses import replace
from datetime import timedelta
from operator import attrgetter

import pytest
from msgspec import structs

from kubewright.api.core import NodeCondition, NodeSpec, Taint
from kubewright.api.machine import names
from kubewright.api.machine.names import Phase
from kubewright.api.machine.v1alpha1 import (
    CurrentStatus,
    LastOperation,
    Machine,
    MachineStatus,
    NodeTemplateSpec,
)
from kubewright.api.meta import ObjectMeta
from kubewright.base import delays
from kubewright.driver.errors import Code, DriverError
from kubewright.driver.life.seen import Verb, VmSeen
from kubewright.machines.machine.decide import decide
from kubewright.machines.machine.seen import AddFinalizer, Call, DeleteBootstrapToken, Record, SyncNode
from kubewright.machines.settings import MachineSettings, ReplacementCounts
from kubewright.testing.scenes import (
    ENSURED,
    NOW,
    READY,
    SILENT,
    VM,
    Case,
    being_made,
    called,
    machine,
    minutes,
    node,
    refused,
    seen,
)


def noted(made: Machine, timeout: str) -> Machine:
    """The machine with a creation timeout of its own, as its set writes it."""
    annotations = {**made.metadata.annotations, names.EFFECTIVE_CREATION_TIMEOUT_ANNOTATION: timeout}
    return structs.replace(made, metadata=structs.replace(made.metadata, annotations=annotations))


NO_TARGET = MachineSettings(joins=False)
UNREADY = Taint(key=names.INSTANCE_NOT_READY_TAINT, effect="NoSchedule")
NOT_CONNECTED = DriverError.of(Code.Unavailable, "no driver is connected", begun=False)
BARE = machine(vm=False, finalizers=())
CREATION = [
    Case(
        "a machine without a priority gets one, too",
        seen(structs.replace(BARE, metadata=structs.replace(BARE.metadata, annotations={}))),
        [
            AddFinalizer(
                {
                    "finalizers": ["machine.sapcloud.io/machine-controller-manager"],
                    "annotations": {names.PRIORITY_ANNOTATION: "3"},
                }
            )
        ],
    ),
    Case(
        "a machine made by hand gets finalizer and priority first",
        seen(machine(vm=False, finalizers=())),
        [AddFinalizer({"finalizers": ["machine.sapcloud.io/machine-controller-manager"]})],
    ),
    Case(
        "a new machine asks the cloud, and looks again when that is worth a word",
        seen(machine(vm=False)),
        [Call(Verb.ENSURE)],
        wake=timedelta(seconds=3),
    ),
    Case(
        "or at its creation deadline, if that is sooner",
        seen(machine(vm=False, age=minutes(20))),
        [Call(Verb.ENSURE)],
        wake=timedelta(milliseconds=1),
    ),
    Case(
        "while the cloud works nothing is asked twice",
        seen(machine(vm=False), vm=VmSeen(verb=Verb.ENSURE, began=NOW)),
        [],
    ),
    Case("what the cloud answered is recorded", seen(machine(vm=False), vm=ENSURED), [Record(VM)]),
    Case(
        "a driver that is not there is told, and the machine waits for it",
        seen(machine(vm=False), vm=called(Verb.ENSURE, error=NOT_CONNECTED)),
        [],
        Phase.PENDING,
        "no driver is connected",
    ),
    Case(
        "so it is in CrashLoopBackOff after another failure",
        seen(machine("CrashLoopBackOff", vm=False), vm=called(Verb.ENSURE, error=NOT_CONNECTED)),
        [],
        Phase.CRASH_LOOP_BACK_OFF,
        "no driver is connected",
    ),
    Case(
        "a missing class is reported, and no VM made",
        seen(machine(vm=False), problem='MachineClass "small" not found', can_call=False),
        [],
        Phase.CRASH_LOOP_BACK_OFF,
        "not found",
    ),
    Case(
        "so is a missing secret",
        seen(
            machine(vm=False),
            problem='Secret "default/keys" of MachineClass "small" not found',
            can_call=False,
            secret_missing=True,
        ),
        [],
        Phase.CRASH_LOOP_BACK_OFF,
        'Secret "default/keys"',
    ),
    Case(
        "a VM on record is not asked about without the secret, and its machine runs on",
        seen(
            machine("Running"),
            node(READY),
            problem='Secret "default/keys" of MachineClass "small" not found',
            can_call=False,
            secret_missing=True,
        ),
        [],
    ),
    Case(
        "whether its class of an old kind is migrated is waited for in silence",
        seen(machine(vm=False, age=timedelta(0)), problem="not migrated yet", untried=True, can_call=False),
        [],
        wake=timedelta(seconds=15),
    ),
    Case(
        "but not for long",
        seen(machine(vm=False, age=minutes(1)), problem="not migrated yet", untried=True, can_call=False),
        [],
        Phase.CRASH_LOOP_BACK_OFF,
        "not migrated yet",
    ),
    Case(
        "a refusal is reported and retried after its time",
        seen(machine(vm=False), vm=refused(Code.Internal, minutes(1))),
        [],
        Phase.CRASH_LOOP_BACK_OFF,
        "Cloud provider message - machine codes error: code = [Internal]",
        minutes(2),
    ),
    Case(
        "no capacity waits ten minutes",
        seen(machine(vm=False), vm=refused(Code.ResourceExhausted, minutes(1))),
        [],
        Phase.CRASH_LOOP_BACK_OFF,
        "ResourceExhausted",
        minutes(9),
    ),
    Case(
        "or as long as the operator says",
        replace(
            seen(machine(vm=False), vm=refused(Code.ResourceExhausted, minutes(1))),
            settings=MachineSettings(resource_exhausted_retry=minutes(5)),
        ),
        [],
        Phase.CRASH_LOOP_BACK_OFF,
        "ResourceExhausted",
        minutes(4),
    ),
    Case(
        "when its time has come it tries again",
        seen(machine(vm=False), vm=refused(Code.Unavailable, minutes(1))),
        [Call(Verb.ENSURE)],
        Phase.CRASH_LOOP_BACK_OFF,
    ),
    Case(
        "a changed class is tried at once",
        seen(machine(vm=False), vm=refused(Code.ResourceExhausted, timedelta(0)), inputs="new"),
        [Call(Verb.ENSURE)],
        Phase.CRASH_LOOP_BACK_OFF,
    ),
    Case(
        "past the creation timeout a refusal is final",
        seen(machine(vm=False, age=minutes(21)), vm=refused(Code.Internal, minutes(1))),
        [],
        Phase.FAILED,
    ),
    Case(
        "in its last moment it is not",
        seen(machine(vm=False, age=minutes(20)), vm=refused(Code.Internal, minutes(1))),
        [],
        Phase.CRASH_LOOP_BACK_OFF,
        wake=timedelta(milliseconds=1),
    ),
    Case(
        "the machine's own creation timeout goes first",
        seen(machine(vm=False, age=minutes(6), creation_timeout="5m"), vm=refused(Code.Internal, minutes(1))),
        [],
        Phase.FAILED,
    ),
    Case(
        "a VM whose initialization fails is recorded all the same",
        seen(
            machine(vm=False),
            vm=called(Verb.ENSURE, error=DriverError("no disk"), instance=VM, initializing=True),
        ),
        [Record(VM)],
    ),
    Case(
        "a failed initialization is reported once its VM is recorded",
        seen(
            machine(""), vm=called(Verb.ENSURE, error=DriverError("no disk"), instance=VM, initializing=True)
        ),
        [],
        Phase.CRASH_LOOP_BACK_OFF,
        "Initialize VM Instance",
        timedelta(seconds=5),
    ),
    Case(
        "an initialization waits five seconds, whatever the code",
        seen(
            machine(""),
            vm=called(
                Verb.ENSURE,
                error=DriverError.of(Code.ResourceExhausted, "no"),
                instance=VM,
                initializing=True,
            ),
        ),
        [],
        Phase.CRASH_LOOP_BACK_OFF,
        wake=timedelta(seconds=5),
    ),
    Case(
        "a call that does not answer by the creation timeout fails the machine",
        seen(machine(vm=False, age=minutes(21)), vm=VmSeen(verb=Verb.ENSURE, began=NOW - minutes(3))),
        [],
        Phase.FAILED,
        "Machine m1 was not created in 20m0s: the driver has not answered since 2030-01-01T11:57:00Z",
        None,
    ),
    Case(
        "unless its VM was acknowledged before: then it is its node that is missing",
        seen(machine("", age=minutes(21)), vm=VmSeen(verb=Verb.ENSURE, began=NOW - minutes(3))),
        [],
        Phase.FAILED,
        "failed to join the cluster in 20m0s.",
        None,
    ),
    Case(
        "a call of a moment is not worth a report",
        seen(machine(vm=False), vm=VmSeen(verb=Verb.ENSURE, began=NOW - timedelta(seconds=1))),
        [],
        wake=timedelta(seconds=2),
    ),
    Case(
        "one that lasts is told of, and since when",
        seen(machine(vm=False), vm=VmSeen(verb=Verb.ENSURE, began=NOW - timedelta(seconds=3))),
        [],
        Phase.PENDING,
        "Creating machine on cloud provider. The driver has not answered since 2030-01-01T11:59:57Z",
        minutes(19) + timedelta(milliseconds=1),
    ),
    Case(
        "when many machines wait, that waits longer too",
        seen(machine(vm=False), vm=VmSeen(verb=Verb.ENSURE, began=NOW - timedelta(seconds=5)), busy=True),
        [],
        wake=timedelta(seconds=5),
    ),
    Case(
        "another try that lasts does not hide why the last one failed",
        seen(
            machine("CrashLoopBackOff", vm=False),
            vm=VmSeen(verb=Verb.ENSURE, began=NOW - minutes(3), error=DriverError("no")),
        ),
        [],
    ),
    Case(
        "a Pending machine without a VM on record asks for it",
        seen(being_made(vm=False)),
        [Call(Verb.ENSURE)],
    ),
    Case(
        "one that was Pending before its VM was whole is completed by a restarted process",
        seen(being_made()),
        [Call(Verb.ENSURE)],
    ),
    Case(
        "its VM may turn out to use another's Node object",
        seen(being_made(), vm=ENSURED, name_conflict=True),
        [],
        Phase.FAILED,
        "VM using old node obj",
    ),
    Case(
        "when its VM is known to be whole, its node is waited for",
        seen(being_made(), vm=called(Verb.ENSURE, ago=minutes(1), instance=VM)),
        [],
        Phase.PENDING,
        "VM created on cloud provider. Waiting for node registration",
    ),
    Case(
        "a first refusal that comes late is told as any other",
        seen(being_made(vm=False), vm=refused(Code.Internal, minutes(1))),
        [],
        Phase.CRASH_LOOP_BACK_OFF,
        "Cloud provider message - machine codes error: code = [Internal]",
        minutes(2),
    ),
    Case(
        "a machine that fails for lateness asks for no VM in the same breath",
        seen(machine(vm=False, age=minutes(21)), vm=refused(Code.Internal, minutes(9))),
        [],
        Phase.FAILED,
    ),
    Case(
        "also in the moment when the call may be repeated",
        seen(machine(vm=False, age=minutes(21)), vm=refused(Code.Internal, minutes(3))),
        [],
        Phase.FAILED,
        wake=timedelta(0),
    ),
    Case(
        "but one that no set replaces goes on trying",
        seen(machine("Failed", vm=False, age=minutes(21)), vm=refused(Code.Internal, minutes(9))),
        [Call(Verb.ENSURE)],
        Phase.FAILED,
    ),
    Case(
        "nor does one that no set replaces become less than Failed when a process has just begun",
        seen(
            machine("Failed", vm=False, age=minutes(21)),
            vm=refused(Code.Internal, timedelta(0)),
            watching_since=NOW - timedelta(seconds=5),
        ),
        [],
        Phase.FAILED,
    ),
    Case(
        "nor when its class is missing then",
        seen(
            machine("Failed", vm=False, age=minutes(21)),
            problem='MachineClass "small" not found',
            can_call=False,
            watching_since=NOW - timedelta(seconds=5),
        ),
        [],
        Phase.FAILED,
    ),
    Case(
        "one whose node is well is not given up, though its VM may not be whole",
        seen(machine("", age=minutes(21)), node(READY), vm=refused(Code.Internal, timedelta(seconds=2))),
        [],
        Phase.CRASH_LOOP_BACK_OFF,
        wake=timedelta(seconds=3),
    ),
    Case(
        "and the cloud is asked again soon, whatever it had refused: there is a VM",
        seen(machine(""), node(READY), vm=refused(Code.ResourceExhausted, timedelta(seconds=6))),
        [Call(Verb.ENSURE)],
        Phase.CRASH_LOOP_BACK_OFF,
    ),
    Case(
        "nor while the cloud is working on it",
        seen(machine("", age=minutes(21)), node(READY), vm=VmSeen(verb=Verb.ENSURE, began=NOW - minutes(3))),
        [],
    ),
    Case(
        "but one whose node is unwell is",
        seen(machine("", age=minutes(21)), node(SILENT), vm=refused(Code.Internal, minutes(1))),
        [],
        Phase.FAILED,
    ),
    Case(
        "a problem that appears during a call does not hide its answer",
        seen(machine(vm=False), vm=ENSURED, problem='MachineClass "small" not found', can_call=False),
        [Record(VM)],
    ),
    Case(
        "nor does it end the call",
        seen(
            machine(vm=False),
            vm=VmSeen(verb=Verb.ENSURE, began=NOW),
            problem='MachineClass "small" not found',
            can_call=False,
        ),
        [],
        wake=timedelta(seconds=3),
    ),
    Case(
        "a VM whose node would take over another's Node object is given up",
        seen(machine(""), vm=ENSURED, name_conflict=True),
        [],
        Phase.FAILED,
        "VM using old node obj",
    ),
    Case("a restarted process finishes what has no phase yet", seen(machine("")), [Call(Verb.ENSURE)]),
    Case("a restarted process trusts what is on record", seen(machine("Pending"), None), []),
]

JOINING = [
    Case(
        "a VM that was just made is not reported yet",
        seen(machine(""), vm=ENSURED),
        [],
        wake=timedelta(seconds=1),
    ),
    Case(
        "it is when that has taken a second",
        seen(machine(""), vm=called(Verb.ENSURE, ago=timedelta(seconds=1), instance=VM)),
        [],
        Phase.PENDING,
        wake=delays.PREFLIGHT,
    ),
    Case(
        "a VM whose node takes its time is Pending",
        seen(machine(""), vm=called(Verb.ENSURE, ago=minutes(1), instance=VM)),
        [],
        Phase.PENDING,
    ),
    Case(
        "when many machines wait, reporting waits longer",
        seen(machine(""), vm=called(Verb.ENSURE, ago=timedelta(seconds=5), instance=VM), busy=True),
        [],
    ),
    Case(
        "a healthy node makes it Running",
        seen(machine("", operation=LastOperation()), node(), vm=ENSURED),
        [],
        Phase.RUNNING,
        "successfully joined the cluster in 1m0s",
    ),
    Case(
        "and says in whole seconds how long that took",
        seen(machine("", age=timedelta(seconds=60.5), operation=LastOperation()), node(), vm=ENSURED),
        [],
        Phase.RUNNING,
        "successfully joined the cluster in 1m0s",
    ),
    Case(
        "a node without the machine's name gets it",
        seen(machine(""), structs.replace(node(), metadata=ObjectMeta(name="m1", uid="n1")), vm=ENSURED),
        [SyncNode({"metadata": {"labels": {"node.gardener.cloud/machine-name": "m1"}}})],
        Phase.RUNNING,
    ),
    Case(
        "the taint of an instance that is not ready stays while the node is not healthy",
        seen(machine("Pending"), node(SILENT, taints=(UNREADY,))),
        [],
    ),
    Case(
        "and while critical components are not ready",
        seen(
            machine("Pending"),
            node(taints=(UNREADY, Taint(key=names.CRITICAL_COMPONENTS_TAINT, effect="NoSchedule"))),
        ),
        [],
    ),
    Case(
        "it goes in the pass in which the machine becomes Running, before its status says so",
        seen(machine("Pending"), node(taints=(UNREADY,))),
        [SyncNode({"metadata": {}, "spec": {"taints": None}})],
        Phase.RUNNING,
    ),
    Case(
        "the template's taints go onto the node",
        seen(
            machine(
                "Running",
                node_template=NodeTemplateSpec(spec=NodeSpec(taints=(Taint(key="a", effect="NoSchedule"),))),
            ),
            node(),
        ),
        [
            SyncNode(
                {
                    "metadata": {
                        "annotations": {
                            "node.machine.sapcloud.io/last-applied-anno-labels-taints": '{"metadata":{},"spec":{"taints":[{"key":"a","effect":"NoSchedule"}]}}'
                        }
                    },
                    "spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]},
                }
            )
        ],
    ),
    Case(
        "critical components hold a Pending machine back",
        seen(
            machine("Pending"),
            node(taints=(Taint(key=names.CRITICAL_COMPONENTS_TAINT, effect="NoSchedule"),)),
        ),
        [],
    ),
    Case(
        "in the last moment of its creation timeout it may still join",
        seen(machine("Pending", age=minutes(20))),
        wake=timedelta(milliseconds=1),
    ),
    Case(
        "past the creation timeout a Pending machine is Failed",
        seen(machine("Pending", age=minutes(21))),
        [],
        Phase.FAILED,
        "failed to join the cluster in 20m0s.",
    ),
    Case(
        "its own creation timeout goes before that of its spec",
        seen(noted(machine("Pending", age=minutes(21), creation_timeout="5m"), "30m")),
        wake=minutes(9) + timedelta(milliseconds=1),
    ),
    Case(
        "one that cannot be read is ignored",
        seen(noted(machine("Pending", age=minutes(21), creation_timeout="5m"), "soon")),
        [],
        Phase.FAILED,
        "failed to join the cluster in 5m0s.",
    ),
    Case(
        "without a target cluster a machine is Available when its VM is complete",
        replace(seen(machine(""), vm=ENSURED), settings=NO_TARGET),
        [],
        Phase.AVAILABLE,
        "Created machine on cloud provider",
    ),
    Case(
        "also one that waited for its node when there was a target cluster",
        replace(seen(machine("Pending"), vm=ENSURED), settings=NO_TARGET),
        [],
        Phase.AVAILABLE,
    ),
    Case(
        "and then it waits for nothing",
        replace(seen(machine("Available", age=minutes(90))), settings=NO_TARGET),
        [],
        wake=None,
    ),
    Case(
        "one that was Running stays so, since its node is no longer asked",
        replace(seen(machine("Running")), settings=NO_TARGET),
        [],
        wake=None,
    ),
    Case(
        "a used token is dropped",
        seen(machine(""), node(), vm=ENSURED, has_token=True),
        [DeleteBootstrapToken()],
        Phase.RUNNING,
    ),
]

HEALTH = [
    Case("a healthy Running machine is left alone", seen(machine("Running"), node()), [], wake=None),
    Case(
        "also when its status is an hour old, since a new one would say the same",
        seen(machine("Running", since=minutes(60), age=minutes(90)), node()),
        [],
        wake=None,
    ),
    Case(
        "critical components that are not ready do not keep an Unknown machine whose node is well from Running",
        seen(
            machine("Unknown"),
            node(taints=(Taint(key=names.CRITICAL_COMPONENTS_TAINT, effect="NoSchedule"),)),
        ),
        [],
        Phase.RUNNING,
    ),
    Case(
        "also when its class is missing",
        seen(machine("Running"), node(), problem='MachineClass "small" not found', can_call=False),
        [],
        wake=None,
    ),
    Case(
        "an unhealthy node makes it Unknown",
        seen(machine("Running"), node(SILENT)),
        [],
        Phase.UNKNOWN,
        "changing MachinePhase to Unknown",
    ),
    Case(
        "a bad condition that the machine names makes it Unknown",
        seen(machine("Running"), node(READY, NodeCondition(type="DiskPressure", status="True"))),
        [],
        Phase.UNKNOWN,
    ),
    Case(
        "a node that went missing makes it Unknown",
        seen(machine("Running")),
        [],
        Phase.UNKNOWN,
        "Node object went missing",
    ),
    Case(
        "Unknown waits for its health timeout",
        seen(machine("Unknown", since=minutes(4)), node(SILENT)),
        [],
        wake=minutes(6) + timedelta(milliseconds=1),
    ),
    Case(
        "also in the last moment",
        seen(machine("Unknown", since=minutes(10)), node(SILENT)),
        wake=timedelta(milliseconds=1),
    ),
    Case(
        "past the health timeout it is Failed",
        seen(machine("Unknown", since=minutes(11)), node(SILENT)),
        [],
        Phase.FAILED,
        "health checks failing since last 10m0s.",
    ),
    Case(
        "while others are replaced it waits its turn",
        seen(
            machine("Unknown", since=minutes(11)),
            node(SILENT),
            counts=ReplacementCounts(replacing=1, members=3),
        ),
        [],
        wake=timedelta(seconds=5),
    ),
    Case(
        "a node that went missing counts even if no condition was ever copied",
        seen(
            structs.replace(
                machine("Running"), status=MachineStatus(current_status=CurrentStatus(phase="Running"))
            )
        ),
        [],
        Phase.UNKNOWN,
    ),
    Case(
        "a machine that is updated in place is left to the tool that updates it",
        seen(machine("InPlaceUpdating", since=minutes(5)), node(SILENT)),
        [],
        wake=minutes(15) + timedelta(milliseconds=1),
    ),
    Case(
        "an Unknown machine without times counts from its last operation",
        seen(
            structs.replace(
                machine("Unknown"),
                status=MachineStatus(
                    current_status=CurrentStatus(phase="Unknown"),
                    last_operation=LastOperation(type="HealthCheck", last_update_time=NOW - minutes(11)),
                ),
            ),
            node(SILENT),
        ),
        [],
        Phase.FAILED,
    ),
    Case(
        "a disabled health timeout never fails it",
        seen(machine("Unknown", since=minutes(99), disable_health_timeout=True), node(SILENT)),
        [],
    ),
    Case(
        "a node that recovers makes it Running",
        seen(machine("Unknown", operation=LastOperation(type="HealthCheck", state="Processing")), node()),
        [],
        Phase.RUNNING,
        "successfully re-joined the cluster",
    ),
    Case(
        "even a Failed machine recovers when its node does",
        seen(machine("Failed", operation=LastOperation(type="HealthCheck", state="Failed")), node()),
        [],
        Phase.RUNNING,
    ),
]

CASES = [*CREATION, *JOINING, *HEALTH]


def test_what_began_long_ago_is_worth_a_report() -> None:
    assert seen(machine()).until_worth_reporting(since=None) < timedelta(0)


@pytest.mark.parametrize("case", CASES, ids=attrgetter("name"))
def test_decision(case: Case) -> None:
    plan = decide(case.seen)
    assert [*plan.steps] == case.steps
    assert (plan.report.phase if plan.report else None) == case.phase
    assert case.says in (plan.report.description if plan.report else "")
    if case.wake != "any":
        assert plan.wake == case.wake
    assert plan.because


@pytest.mark.parametrize("case", CASES, ids=attrgetter("name"))
def test_a_plan_never_leaves_a_machine_asleep_with_work_to_do(case: Case) -> None:
    """Whatever waits is woken: by a call that ends, a change of what was looked at, or a time."""
    plan = decide(case.seen)
    rests = (Phase.RUNNING, Phase.AVAILABLE, Phase.IN_PLACE_UPDATING)
    resting = case.seen.phase in rests and plan.report is None
    unlimited = bool(case.seen.machine.spec.disable_health_timeout)
    assert plan.steps or plan.wake is not None or plan.report or resting or case.seen.vm.running or unlimited
