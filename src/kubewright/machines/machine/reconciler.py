"""One machine, one pass: look, decide, act. And who wakes a machine.

Called by    ``runtime.controller``; put together by ``machines.world``.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace

import structlog

from kubewright.api.core import Node
from kubewright.api.machine.names import REASONED_CONDITIONS, EventReason, Phase
from kubewright.api.machine.v1alpha1 import Machine, MachineClass
from kubewright.api.storage import VolumeAttachment
from kubewright.base import delays
from kubewright.driver.life.calls import VmCalls
from kubewright.kube.informer import Change
from kubewright.machines.caches import Caches, Shared
from kubewright.machines.machine.act import Actor, WriteFailed
from kubewright.machines.machine.decide import decide
from kubewright.machines.machine.durations import Durations
from kubewright.machines.machine.look import Looker
from kubewright.machines.machine.moments import Moments
from kubewright.machines.machine.refusals import event_of
from kubewright.machines.machine.requests import Requests
from kubewright.machines.machine.seen import Seen
from kubewright.machines.machine.steps import Plan
from kubewright.nodes.health import conditions_differ
from kubewright.runtime.controller import Controller, alike, status_alone
from kubewright.runtime.passes import failed, planned
from kubewright.runtime.result import Result
from kubewright.wire.errors import ApiError, is_refusal
from kubewright.wire.gvk import Key

BUSY = 20
"""With more machines than this in the queue or in work, Pending and Terminating are reported later
(``REPORT_AT_LATEST``): most have passed by then."""

log = structlog.get_logger(__name__)


class Machines:
    """The reconciler of Machines. ``busy`` says that more than ``BUSY`` machines are in the queue or in work;
    ``wake`` enqueues a machine, for a reason."""

    def __init__(
        self,
        shared: Shared,
        calls: VmCalls,
        moments: Moments,
        busy: Callable[[], bool],
        wake: Callable[[Key, str], None],
    ) -> None:
        self._machines = shared.caches.machines
        self._looker = Looker(shared, calls, moments)
        requests = Requests(shared.caches, shared.target, shared.clock, shared.settings)
        self._actor = Actor(shared, requests, calls, wake, self._looker.note_success)
        self._calls = calls
        self._recorder = shared.recorder
        self._busy = busy
        self._durations = Durations(shared.caches, shared.metrics)
        self._uids: dict[Key, str] = {}

    async def reconcile(self, key: Key) -> Result:
        """One pass.

        Raises:
            ApiError, TransportError: an API server said no, or could not be asked.
        """
        machine = self._machines.get(key)
        uid = machine.metadata.uid if machine else ""
        self._remember(key, uid)
        if machine is None:
            return Result.done()
        seen = await self._looker.look(machine, busy=self._busy())
        try:
            return await self._act(machine, seen)
        except WriteFailed as write:
            if not self._counts_as_refused(machine, write):
                raise write.error from None
            told = self._looker.remember_refusal(machine, write.step, write.error)
            return self._tell(machine, event_of(told), told.problem, Result.later(0))
        finally:
            self._looker.uncount(uid)

    async def _act(self, machine: Machine, seen: Seen) -> Result:
        seen = replace(seen, counts=self._looker.counts(machine))  # other workers may have decided meanwhile
        plan = decide(seen)
        if _fails(plan):
            self._looker.count_as_replaced(machine)  # before other workers decide about their machines
            try:
                seen = await self._looker.with_live_node(seen)
            except ApiError as error:
                if not is_refusal(error):
                    raise
                problem = f"The API server refused to show the node: {error.message}"
                return self._tell(machine, EventReason.FAILED_READ, problem, Result.later(delays.REFUSED))
            if _fails(decide(seen)):
                seen = await self._looker.with_console(seen)
            plan = decide(seen)
        planned(plan)
        result = await self._actor.perform(seen, plan, self._looker.notes(machine, keep=bool(plan.topics)))
        self._durations.note(seen, plan)
        return result

    def _counts_as_refused(self, machine: Machine, write: WriteFailed) -> bool:
        """Whether later decisions do without the answer: it was no, or none has come for long."""
        if is_refusal(write.error) or write.step is None:
            return True
        return self._looker.note_failure(machine, type(write.step))

    def _tell(self, machine: Machine, reason: str, problem: str, result: Result) -> Result:
        """Say what an API server refused, or did not answer: here, and in the record of this pass."""
        log.warning("refused", machine=str(_key(machine)), reason=reason, problem=problem)
        self._recorder.event(machine, reason, problem, warning=True)
        failed(problem)
        return result

    def _remember(self, key: Key, uid: str) -> None:
        """Forget what was known of the machine that had this name before."""
        before = self._uids.pop(key, "")
        if before and before != uid:
            self._looker.forget(before)
            self._calls.forget(before)
        if uid:
            self._uids[key] = uid


def _key(machine: Machine) -> Key:
    return Key(machine.metadata.namespace, machine.metadata.name)


def _fails(plan: Plan) -> bool:
    return plan.report is not None and plan.report.phase is Phase.FAILED


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
    moments = Moments(steady)
    moments.follow(caches.machines)

    def wake(key: Key, why: str) -> None:  # called once there is a controller: nothing runs before
        controller.enqueue(key, why)

    calls = VmCalls(shared.driver, steady, lambda key: wake(key, "the cloud answered"))
    machines = Machines(shared, calls, moments, lambda: controller.load > BUSY, wake)
    controller = Controller("machine", machines, clock, workers=settings.workers, metrics=shared.metrics)
    controller.watches(caches.machines, machine_if_it_matters)
    controller.watches(caches.nodes, lambda change: machines_of_node(caches, change))
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
    """The machine behind a node, unless only heartbeats changed."""
    if alike(change, _same_node):
        return ()
    provider = (change.after() or change.before() or Node()).spec.provider_id
    by_name = caches.machines.keys_by("node", change.key.name)
    return dict.fromkeys((*by_name, *caches.machines.keys_by("provider-id", provider)))


def _same_node(before: Node, after: Node) -> bool:
    """Whether no decision can tell apart two nodes whose labels are equal."""
    return (
        before.spec == after.spec  # a Node has no generation
        and before.metadata.annotations == after.metadata.annotations
        and before.status.capacity == after.status.capacity
        and not conditions_differ(before.status.conditions, after.status.conditions, REASONED_CONDITIONS)
    )


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
