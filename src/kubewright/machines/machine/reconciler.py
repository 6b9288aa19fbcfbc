"""One machine, one pass: look, decide, act. And who wakes a machine.

Called by    ``runtime.controller``; put together by ``machines.wiring``.
"""

from collections.abc import Callable, Iterable

import structlog

from kubewright.api.core import Node
from kubewright.api.machine.names import Phase
from kubewright.api.machine.v1alpha1 import Machine
from kubewright.base.clock import Clock
from kubewright.kube.informer import Change
from kubewright.machines.machine.act import Actor
from kubewright.machines.machine.calls import VmCalls
from kubewright.machines.machine.decide import decide
from kubewright.machines.machine.look import Caches, Looker
from kubewright.machines.machine.steps import Plan
from kubewright.machines.parts import Parts
from kubewright.nodes.health import conditions_differ
from kubewright.runtime.controller import Controller
from kubewright.runtime.result import Result
from kubewright.wire.gvk import Key

log = structlog.get_logger(__name__)


class Machines:
    """The reconciler of Machines."""

    def __init__(
        self, looker: Looker, actor: Actor, calls: VmCalls, clock: Clock, busy: Callable[[], bool]
    ) -> None:
        self._looker = looker
        self._actor = actor
        self._calls = calls
        self._clock = clock
        self._busy = busy
        self._uids: dict[Key, str] = {}

    async def reconcile(self, key: Key) -> Result:
        seen = await self._looker.look(key, self._busy())
        if seen is None:
            self._forget(key)
            return Result.done()
        uid = self._uids[key] = seen.machine.metadata.uid
        plan = decide(seen, self._clock.now())
        log.debug(
            "plan", machine=str(key), because=plan.because, steps=[type(s).__name__ for s in plan.steps]
        )
        if _fails(plan):
            self._looker.claims[uid] = self._looker.group_of(seen.machine)
        try:
            return await self._actor.perform(key, seen, plan)
        finally:
            self._looker.claims.pop(uid, None)

    def _forget(self, key: Key) -> None:
        if uid := self._uids.pop(key, ""):
            self._looker.forget(uid)
            self._calls.forget(uid)


def _fails(plan: Plan) -> bool:
    return plan.report is not None and plan.report.phase is Phase.FAILED


def wire(parts: Parts, caches: Caches) -> tuple[Controller, VmCalls]:
    """The machine controller, listening to everything that a decision looks at."""
    hands = parts.settings.workers
    calls = VmCalls(parts.driver, parts.clock, lambda key: controller.enqueue(key, "the cloud answered"))
    looker = Looker(parts, caches, calls)
    actor = Actor(parts, looker, calls)
    machines = Machines(looker, actor, calls, parts.clock, lambda: controller.waiting > hands)
    controller = Controller("machine", machines, parts.clock, workers=hands, metrics=parts.metrics)
    controller.watches(caches.machines, _when_it_matters)
    controller.watches(caches.nodes, lambda change: machines_of_node(caches, change))
    controller.watches(caches.classes, lambda change: caches.machines.keys_by("class", str(change.key)))
    controller.watches(caches.secrets, lambda change: _machines_of_secret(caches, change.key))
    return controller, calls


def _when_it_matters(change: Change[Machine]) -> Iterable[Key]:
    """Our own status writes need not wake us: the pass that made them knew what it wrote."""
    before, after = change.old, change.new
    if before is None or after is None or after.deleting:
        return (change.key,)
    same = before.generation == after.generation and before.labels == after.labels
    return () if same and _status_alone(change) else (change.key,)


def _status_alone(change: Change[Machine]) -> bool:
    before, after = change.before(), change.after()
    if before is None or after is None:
        return False
    return before.metadata.annotations == after.metadata.annotations and (
        before.metadata.finalizers == after.metadata.finalizers
        and before.status.current_status.phase == after.status.current_status.phase
    )


def machines_of_node(caches: Caches, change: Change[Node]) -> Iterable[Key]:
    """The machine behind a node, unless only heartbeats changed."""
    before, after = change.before(), change.after()
    if before is not None and after is not None and _same_node(before, after):
        return ()
    provider = (after or before or Node()).spec.provider_id
    by_id = caches.machines.keys_by("provider-id", provider) if provider else frozenset()
    return caches.machines.keys_by("node", change.key.name) | by_id


def _same_node(before: Node, after: Node) -> bool:
    """Whether no decision can tell the two apart."""
    return (
        before.spec == after.spec
        and before.metadata.labels == after.metadata.labels
        and before.metadata.annotations == after.metadata.annotations
        and before.metadata.deleting == after.metadata.deleting
        and not conditions_differ(before.status.conditions, after.status.conditions)
    )


def _machines_of_secret(caches: Caches, secret: Key) -> Iterable[Key]:
    classes = caches.classes.keys_by("secret", str(secret))
    return [key for found in classes for key in caches.machines.keys_by("class", str(found))]
