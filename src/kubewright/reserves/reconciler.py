"""One CapacityReserve, one pass: look, decide, act. And which changes enqueue a reserve.

Theory.      The reserve is in the control cluster, its pool and its placeholders in the target cluster, which
             may be the same. Nodes are watched, and a change of one wakes the reserves only if it changes
             what a pool is: a heartbeat wakes none. A look reads all nodes, so among many of them a change
             waits for others.
Invariants.  No PUT. Writes onto what exists name the uid and the version that were seen, deletions the uid.
             A refused write is a condition, and the pass is tried again after a pause.
Called by    ``runtime.controller``; wired by the package.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from kubewright.api.apps import DEPLOYMENT, Deployment
from kubewright.api.capacity.v1alpha1 import (
    CAPACITY_RESERVE,
    COMPONENT,
    FINALIZER,
    OWNER_LABEL,
    PLACE,
    PRIORITY_CLASS,
    CapacityReserve,
    PriorityClass,
)
from kubewright.api.capacity.validate import validate_reserve
from kubewright.api.conditions import is_condition_true
from kubewright.api.core import NODE, NODE_READY, Node
from kubewright.api.faults import summary
from kubewright.base import delays
from kubewright.kube.errors import MayBeGone
from kubewright.kube.informer import Change
from kubewright.kube.patches import onto
from kubewright.reserves.decide import (
    AddFinalizer,
    ChangePlaceholders,
    CreateClass,
    CreatePlaceholders,
    DeleteClass,
    DeletePlaceholders,
    InControl,
    InTarget,
    Plan,
    RemoveFinalizer,
    Seen,
    decide,
    events,
    status_of,
)
from kubewright.reserves.placeholders import name_of
from kubewright.reserves.sizing import gathering, pool_of
from kubewright.runtime.controller import Controller, only, status_alone
from kubewright.runtime.events import ComponentRecorder
from kubewright.runtime.passes import planned
from kubewright.runtime.refused import in_full, unless_refused
from kubewright.runtime.result import Result
from kubewright.runtime.sessions.session import NAMELESS
from kubewright.runtime.world import Environment
from kubewright.runtime.writer import Writer
from kubewright.wire.errors import AlreadyExists, ApiError, is_refusal
from kubewright.wire.gvk import Key

CONTROLLER = "reserve"
PAUSE_IMAGE = "registry.k8s.io/pause:3.10.2"
"""The one that Kubernetes' releases name for the sandbox of each pod."""
BY_NAME = "reserves-by-deployment"
"""Reserves by the name of their Deployment."""
BY_OWNER = "classes-by-reserve"
"""PriorityClasses by the uid of their reserve."""


@dataclass(frozen=True, slots=True)
class ReserveSettings:
    """``image``: what placeholders run; a node that is made by ``make node-image`` has it already."""

    image: str = PAUSE_IMAGE


class Caches:
    """The informers and indexes that this controller needs."""

    def __init__(self, environment: Environment) -> None:
        target = environment.targets.get(NAMELESS).caches
        self.found = environment.control.caches.get(CAPACITY_RESERVE)
        self.nodes = target.get(NODE)
        self.deployments = target.get(DEPLOYMENT, namespace=PLACE)
        self.classes = target.get(PRIORITY_CLASS)
        self.found.index(BY_NAME, lambda each: (name_of(Key(each.namespace, each.name)),))
        self.classes.index(BY_OWNER, lambda each: filter(None, (_owner(each),)))


class Reserves:
    """The reconciler of CapacityReserves."""

    def __init__(self, environment: Environment, caches: Caches, settings: ReserveSettings) -> None:
        self._caches = caches
        self._settings = settings
        self._writer = Writer(environment.control.client, CAPACITY_RESERVE, FINALIZER)
        self._clock = environment.clock
        self._target = environment.targets.get(NAMELESS).client
        self._recorder = ComponentRecorder(environment.recorder, COMPONENT)

    async def reconcile(self, key: Key) -> Result:
        """One pass.

        Raises:
            ApiError, TransportError: an API server said no for now, or could not be asked.
        """
        found = self._caches.found.get(key)
        if found is None:
            return Result.done()
        return await unless_refused(self._pass(found), found, self._recorder)

    async def _pass(self, found: CapacityReserve) -> Result:
        seen = self.look(found)
        plan = decide(seen)
        planned(plan)
        refused = ""
        for step in plan.steps:
            if isinstance(step, InControl):
                await self._mark(seen, step)
                return Result.done()
            try:
                await self._perform(seen, step)
            except ApiError as error:
                if not is_refusal(error):
                    raise
                refused = in_full(error)
                break
        if refused or not found.metadata.deleting:
            await self._report(replace(seen, refused=refused), plan)
        return Result.later(delays.REFUSED if refused else plan.wake)

    def look(self, found: CapacityReserve) -> Seen:
        """Read one reserve, its pool, and what it has in the cluster of its nodes."""
        caches, key = self._caches, Key(found.namespace, found.name)
        seen = Seen(
            found,
            self._clock.now(),
            self._settings.image,
            problem=summary(validate_reserve(found)),
            pool=pool_of(found.spec, caches.nodes.list()),
            found=caches.deployments.get(Key(PLACE, name_of(key))),
            classes={
                each.name: each.metadata.uid for each in caches.classes.by(BY_OWNER, found.metadata.uid)
            },
        )
        there = caches.classes.get(Key("", seen.priority_class))
        return replace(seen, taken=there is not None and _owner(there) != found.metadata.uid)

    async def _mark(self, seen: Seen, step: InControl) -> None:
        match step:
            case AddFinalizer():
                await self._writer.add_finalizer(seen.reserve.metadata)
            case RemoveFinalizer():
                await self._writer.remove_finalizer(seen.reserve.metadata)

    async def _perform(self, seen: Seen, step: InTarget) -> None:
        """Write in the cluster of the nodes. What another has made or removed meanwhile is seen next."""
        client, place = self._target, Key(PLACE, name_of(seen.key))
        match step:
            case CreateClass(body):
                await self._create(PRIORITY_CLASS, body)
            case DeleteClass(name, uid):
                with MayBeGone(name):
                    await client.delete(PRIORITY_CLASS, Key("", name), uid=uid)
            case CreatePlaceholders(body):
                await self._create(DEPLOYMENT, body)
            case ChangePlaceholders(meta, patch):
                with MayBeGone(place.name):
                    await client.patch(DEPLOYMENT, place, onto(patch, meta))
            case DeletePlaceholders(meta):
                with MayBeGone(place.name):
                    await client.delete(DEPLOYMENT, place, uid=meta.uid)

    async def _create(self, kind: Any, body: Mapping[str, Any]) -> None:
        try:
            await self._target.create(kind, body)
        except AlreadyExists:  # by our last pass, or foreign: the next look tells
            return

    async def _report(self, seen: Seen, plan: Plan) -> None:
        """Write the status, if it has changed, and send events about the change."""
        found, status = seen.reserve, status_of(seen, plan)
        if await self._writer.report(found.metadata, found.status, status):
            for event in events(found.status, status):
                self._recorder.event(found, event.reason, event.message, warning=event.warning)


def wire(environment: Environment, settings: ReserveSettings) -> Controller:
    """The controller, with watches on everything that a decision reads."""
    caches = Caches(environment)
    reserves = Reserves(environment, caches, settings)
    controller = Controller(CONTROLLER, reserves, environment.clock, metrics=environment.metrics)

    def of_node(change: Change[Node]) -> Iterable[Key]:
        return () if _as_before(change) else [each.key for each in caches.found.headers()]

    def of_deployment(change: Change[Deployment]) -> Iterable[Key]:
        return caches.found.keys_by(BY_NAME, change.key.name)

    def of_class(change: Change[Any]) -> Iterable[Key]:
        return caches.found.keys_by(BY_NAME, change.key.name.rpartition(".")[0])

    controller.watches(caches.found, only(lambda change: not status_alone(change)))

    def gathered(_change: Change[Node]) -> float:
        return gathering(*(sum(1 for _ in each.headers()) for each in (caches.nodes, caches.found)))

    controller.watches(caches.nodes, of_node, gather=gathered)
    controller.watches(caches.deployments, of_deployment)
    return controller.watches(caches.classes, of_class)


def _as_before(change: Change[Node]) -> bool:
    """Whether a node is to all pools what it was."""
    before, after = change.before(), change.after()
    return before is not None and after is not None and _of_pools(before) == _of_pools(after)


def _of_pools(node: Node) -> tuple[object, ...]:
    """What pools read of a node."""
    meta, spec, status = node.metadata, node.spec, node.status
    ready = is_condition_true(status.conditions, NODE_READY)
    return (meta.uid, meta.deleting, meta.labels, spec.unschedulable, spec.taints, status.allocatable, ready)


def _owner(found: PriorityClass) -> str:
    return found.metadata.labels.get(OWNER_LABEL, "")
