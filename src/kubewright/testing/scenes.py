"""Pictures of one machine for decision tables: builders that take only what a case is about.

Called by    tests/unit/machines; authors of further machine decisions.
"""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec import structs

from kubewright.api.core import Node, NodeCondition, NodeSpec, NodeStatus, Pod, PodSpec, Taint
from kubewright.api.machine import names
from kubewright.api.machine.names import Phase
from kubewright.api.machine.v1alpha1 import (
    ClassSpec,
    CurrentStatus,
    LastOperation,
    Machine,
    MachineClass,
    MachineSpec,
    MachineStatus,
)
from kubewright.api.meta import ObjectMeta
from kubewright.driver.contract import ClassRequest, Instance
from kubewright.driver.errors import Code, DriverError
from kubewright.driver.life.seen import Verb, VmSeen
from kubewright.machines.machine.seen import Seen, Step
from kubewright.machines.settings import MachineSettings
from kubewright.nodes import health

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)
VM = Instance("sim:///here/vm-1", "m1")
READY = NodeCondition(type="Ready", status="True")
SILENT = NodeCondition(type="Ready", status="Unknown", reason="NodeStatusUnknown")
POD = Pod(metadata=ObjectMeta(name="web", namespace="default", uid="p1"), spec=PodSpec(node_name="m1"))


ONE_MINUTE = timedelta(minutes=1)


def minutes(count: float) -> timedelta:
    return timedelta(minutes=count)


def machine(
    phase: str = "",
    *,
    vm: bool = True,
    age: timedelta = ONE_MINUTE,
    since: timedelta = ONE_MINUTE,
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
        current_status=CurrentStatus(
            phase=phase, last_update_time=NOW - since, timeout_active=phase == Phase.PENDING
        ),
    )
    return Machine(metadata=meta, spec=known, status=status)


def being_made(*, vm: bool = True) -> Machine:
    """A machine that is Pending since before its driver answered; ``vm``: by now its VM is on record."""
    of = machine(Phase.PENDING, vm=vm)
    current = structs.replace(of.status.current_status, timeout_active=False)
    return structs.replace(of, status=structs.replace(of.status, current_status=current))


def node(*conditions: NodeCondition, cordoned: bool = False, taints: tuple[Taint, ...] = ()) -> Node:
    labels = {names.MACHINE_NAME_LABEL: "m1"}
    return Node(
        metadata=ObjectMeta(name="m1", uid="n1", labels=labels),
        spec=NodeSpec(provider_id=VM.provider_id, unschedulable=cordoned, taints=taints),
        status=NodeStatus(conditions=conditions or (READY,)),
    )


def class_request(name: str = "c", namespace: str = "ns", provider: str = "sim", **spec: Any) -> ClassRequest:
    """What a driver gets of a class without secrets; ``spec`` is its provider spec."""
    meta = ObjectMeta(name=name, namespace=namespace)
    return ClassRequest(MachineClass(metadata=meta, provider=provider, provider_spec=spec))


def seen(of: Machine, at: Node | None = None, **more: Any) -> Seen:
    settings = MachineSettings()
    judged = health.judge(at.status.conditions if at else (), settings.node_conditions)
    return Seen(machine=of, settings=settings, now=NOW, wall=NOW, node=at, health=judged, **more)


def called(
    verb: Verb, *, ago: timedelta = timedelta(0), error: DriverError | None = None, **more: Any
) -> VmSeen:
    return VmSeen(verb=verb, began=NOW - ago, ended=NOW - ago, error=error, **more)


ENSURED = called(Verb.ENSURE, instance=VM)
GONE = called(Verb.DELETE, absent=True, deleted=True)
ABSENT = called(Verb.LOOK, absent=True)


@dataclass(frozen=True)
class Case:
    """``steps``: the planned effects. ``phase``: what the status shall say; None: nothing new."""

    name: str
    seen: Seen
    steps: list[Step] = field(default_factory=list)
    phase: Phase | None = None
    says: str = ""
    wake: timedelta | str | None = "any"


def refused(code: Code, ago: timedelta) -> VmSeen:
    return called(Verb.ENSURE, ago=ago, error=DriverError.of(code, "no"))
