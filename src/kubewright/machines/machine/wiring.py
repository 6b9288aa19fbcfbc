"""Who wakes a machine; and how long machines took to be made, to join, to drain and to go, for Prometheus.

Theory.      The controller listens to everything that a decision looks at, but for what its own pass has
             written. A pass that sees a machine reach one of these points knows when it began (``seen``), so
             ``lasted`` is a pure function of what was seen and planned. The last duration of each label set
             is kept, as MCM keeps it: a gauge for each deployment, kind of VM and zone, never one for each
             machine.
Invariants.  No duration is kept of a machine. What another process decided is not counted here.
Called by    ``machines.world``.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime
from enum import StrEnum

from kubewright.api.core import Node
from kubewright.api.machine.names import EventReason, OperationType, Phase
from kubewright.api.machine.v1alpha1 import Machine, MachineClass
from kubewright.api.storage import VolumeAttachment
from kubewright.driver.life.calls import VmCalls
from kubewright.driver.life.seen import Verb
from kubewright.kube.informer import Change
from kubewright.machines import node_marks
from kubewright.machines.caches import Caches, Shared, class_key
from kubewright.machines.machine.act import Machines
from kubewright.machines.machine.memory import Memory, Moments
from kubewright.machines.machine.seen import Call, Plan, Record, Seen
from kubewright.runtime.controller import Controller, alike, status_alone
from kubewright.runtime.metrics import Metrics
from kubewright.wire.gvk import Key

BUSY = 20
"""With more machines than this in the queue or in work, Pending and Terminating are reported later
(``REPORT_AT_LATEST``): most have passed by then."""


def wire(shared: Shared) -> tuple[Controller, VmCalls]:
    """The machine controller, listening to everything that a decision looks at."""
    caches, clock, settings = shared.caches, shared.clock, shared.settings
    unreachable_after = settings.unreachable_after.total_seconds()
    shared.metrics.gauge(
        "mcm_machine_controller_frozen",
        "1 while a cluster cannot be watched, and nothing but deletions goes on",
        (),
        lambda: [((), float(bool(caches.unreachable(clock.monotonic(), unreachable_after))))],
    )
    steady = shared.control.steady()
    memory = Memory(Moments(steady), settings.unreachable_after)
    memory.moments.follow(caches.machines)
    durations = Durations(caches, shared.metrics)

    def wake(key: Key, why: str) -> None:  # called once there is a controller: nothing runs before
        controller.enqueue(key, why)

    calls = VmCalls(shared.driver, steady, lambda key: wake(key, "the cloud answered"))
    machines = Machines(
        shared, calls, memory, busy=lambda: controller.load > BUSY, wake=wake, performed=durations.note
    )
    controller = Controller("machine", machines, clock, workers=settings.workers, metrics=shared.metrics)
    controller.watches(caches.machines, machines.echoes.but_own(machine_if_it_matters))
    controller.watches(caches.nodes, machines.echoes.but_own(lambda change: machines_of_node(caches, change)))
    controller.watches(caches.classes, lambda change: _machines_of_class(caches, change))
    controller.watches(caches.secrets, lambda change: _machines_of_secret(caches, change.key))
    controller.watches(caches.attachments, lambda change: _machines_awaiting_detach(caches, change))
    return controller, calls


def machine_if_it_matters(change: Change[Machine]) -> Iterable[Key]:
    """Our own reports need not wake us: the pass that wrote them knew what it wrote."""
    return () if alike(change, _same_machine) else (change.key,)


def _same_machine(before: Machine, after: Machine) -> bool:
    """Of a status the phase matters, because others write it too."""
    return (
        before.metadata.annotations == after.metadata.annotations
        and before.metadata.finalizers == after.metadata.finalizers
        and before.metadata.owner_references == after.metadata.owner_references
        and before.status.current_status.phase == after.status.current_status.phase
    )


def machines_of_node(caches: Caches, change: Change[Node]) -> Iterable[Key]:
    """The machine behind a node, unless only heartbeats changed, or marks of a rollout that do not matter to
    this machine."""
    if alike(change, node_marks.same):
        return ()
    provider = (change.after() or change.before() or Node()).spec.provider_id
    by_name = caches.machines.keys_by("node", change.key.name)
    keys = dict.fromkeys((*by_name, *caches.machines.keys_by("provider-id", provider)))
    if not alike(change, node_marks.rollout_alone):
        return keys
    nodes = [each for each in (change.before(), change.after()) if each is not None]
    machines = ((key, caches.machines.part(key)) for key in keys)
    return [key for key, found in machines if found is None or node_marks.heeds_rollouts(found, *nodes)]


def _machines_of_class(caches: Caches, change: Change[MachineClass]) -> Iterable[Key]:
    """The machines of a class, unless only what is said of the class changed."""
    return () if status_alone(change) else caches.machines.keys_by("class", str(change.key))


def _machines_of_secret(caches: Caches, secret: Key) -> Iterable[Key]:
    classes = caches.classes.keys_by("secret", str(secret))
    return [key for found in classes for key in caches.machines.keys_by("class", str(found))]


def _machines_awaiting_detach(caches: Caches, change: Change[VolumeAttachment]) -> Iterable[Key]:
    """The machine in deletion whose volumes may be detached. One that waits for that before its node is
    updated in place looks by itself, every ``delays.POLL``."""
    attachment = change.after() or change.before()
    keys = caches.machines.keys_by("node", attachment.spec.node_name) if attachment else ()
    return [key for key in keys if (header := caches.machines.header(key)) and header.deleting]


OF_KIND = ("namespace", "machine_deployment", "instance_type", "zone")
FAILED_JOIN = "mcm_machine_num_failed_join"


class Lasted(StrEnum):
    """What took time; the value is the name of MCM's gauge."""

    CREATE = "mcm_machine_create_duration_seconds"
    INITIALIZE = "mcm_machine_initialize_duration_seconds"
    JOIN = "mcm_machine_join_duration_seconds"
    DRAIN = "mcm_machine_drain_duration_seconds"
    DELETE = "mcm_machine_delete_duration_seconds"

    @property
    def labels(self) -> tuple[str, ...]:
        return OF_KIND[:2] if self is Lasted.DRAIN else OF_KIND


HELP = {
    Lasted.CREATE: "Seconds from the creation of a machine until its VM was on record, the last time",
    Lasted.INITIALIZE: "Seconds from the creation of a machine until its VM was initialized, the last time",
    Lasted.JOIN: "Seconds from the creation of a machine until its node was Ready, the last time",
    Lasted.DRAIN: "Seconds from the deletion of a machine until its node was drained, the last time",
    Lasted.DELETE: "Seconds from the deletion of a machine until nothing of it was left, the last time",
}


def lasted(seen: Seen, plan: Plan) -> Iterator[tuple[Lasted, float]]:
    """What a machine has behind it when this plan is performed, and for how many seconds it took."""
    for point, since, until in _ended(seen, plan):
        yield point, max(0.0, (until - since).total_seconds())


def _ended(seen: Seen, plan: Plan) -> Iterator[tuple[Lasted, datetime, datetime]]:
    """What ends with this plan: from when it lasted, and until when."""
    if not seen.machine.metadata.deleting:
        answered = seen.vm.ended or seen.now
        records = any(isinstance(step, Record) for step in plan.steps)
        if records:
            yield Lasted.CREATE, seen.created, answered
        if seen.vm.settled(Verb.ENSURE) and (records or _recovers(seen, plan)):
            yield Lasted.INITIALIZE, seen.created, answered
    reason = plan.milestone.reason if plan.milestone is not None else None
    if reason is EventReason.JOINED:
        yield Lasted.JOIN, seen.created, seen.now
    if reason is EventReason.DELETED:
        yield Lasted.DELETE, seen.deleted_at, seen.now
    if Call(Verb.DELETE) in plan.steps and seen.drained_since is not None:
        yield Lasted.DRAIN, seen.deleted_at, seen.drained_since


def _recovers(seen: Seen, plan: Plan) -> bool:
    """Whether a call that had failed, perhaps to initialize the VM, has succeeded at last."""
    after = plan.report.phase if plan.report is not None else None
    return seen.phase is Phase.CRASH_LOOP_BACK_OFF and after in (
        Phase.PENDING,
        Phase.RUNNING,
        Phase.AVAILABLE,
    )


def fails_to_join(seen: Seen, plan: Plan) -> bool:
    """Whether the machine is given up now because it has not joined in time."""
    found = plan.report
    if found is None or seen.phase is Phase.FAILED:
        return False
    return (found.phase, found.type) == (Phase.FAILED, OperationType.CREATE)


class Durations:
    """The numbers of one process, read at a scrape."""

    def __init__(self, caches: Caches, metrics: Metrics) -> None:
        self._caches = caches
        self._last: dict[Lasted, dict[tuple[str, ...], float]] = {each: {} for each in Lasted}
        self._failed_joins = Counter[tuple[str, ...]]()
        for each in Lasted:
            metrics.gauge(each.value, HELP[each], each.labels, self._last[each].items)
        told = "Machines that did not join in time"
        metrics.gauge(FAILED_JOIN, told, OF_KIND, self._failed_joins.items)

    def note(self, seen: Seen, plan: Plan) -> None:
        """The plan was performed."""
        found, failed = list(lasted(seen, plan)), fails_to_join(seen, plan)
        if not found and not failed:
            return
        kind = self._kind(seen.machine)
        for what, seconds in found:
            self._last[what][kind[: len(what.labels)]] = seconds
        if failed:
            self._failed_joins[kind] += 1

    def _kind(self, machine: Machine) -> tuple[str, ...]:
        """The values of ``OF_KIND``; empty where there is no deployment, or the class does not say."""
        key, owner = class_key(machine), machine.metadata.controller
        machine_class = self._caches.classes.get(key) if key is not None else None
        template = machine_class.node_template if machine_class is not None else None
        found = next(iter(self._caches.sets.by("uid", owner.uid)), None) if owner is not None else None
        deployment = found.metadata.controller if found is not None else None
        return (
            machine.metadata.namespace,
            deployment.name if deployment is not None else "",
            template.instance_type if template is not None else "",
            template.zone if template is not None else "",
        )
