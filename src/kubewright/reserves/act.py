"""One CapacityReserve, one pass: what is read, what is written, what users are told.

Theory.      The reserve is in the control cluster, its pool and its placeholders in the target cluster, which
             may be the same. A write there that is refused is a condition of the reserve, and the pass is
             tried again after a pause.
Invariants.  No PUT. Writes onto what exists name the uid and the version that were seen, deletions the uid.
Called by    ``wiring``, ``runtime.controller``.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from kubewright.api.apps import DEPLOYMENT
from kubewright.api.capacity.v1alpha1 import (
    CAPACITY_RESERVE,
    COMPONENT,
    FINALIZER,
    OWNER_LABEL,
    PLACE,
    PRIORITY_CLASS,
    CapacityReserve,
    CapacityReserveStatus,
    PriorityClass,
)
from kubewright.api.capacity.validate import validate_reserve
from kubewright.api.core import NODE
from kubewright.api.diff import Patch
from kubewright.api.faults import summary
from kubewright.api.kinds import Kind
from kubewright.api.meta import ObjectMeta
from kubewright.base import delays
from kubewright.base.errors import KubewrightError
from kubewright.base.plan import Event
from kubewright.kube.errors import MayBeGone
from kubewright.kube.patches import onto
from kubewright.reserves.decide import decide, events, status_of
from kubewright.reserves.placeholders import name_of
from kubewright.reserves.seen import (
    AddFinalizer,
    ChangePlaceholders,
    CreateClass,
    CreatePlaceholders,
    DeleteClass,
    DeletePlaceholders,
    InTarget,
    Plan,
    RemoveFinalizer,
    ReserveSettings,
    Seen,
    Step,
)
from kubewright.reserves.sizing import pool_of
from kubewright.runtime.events import ComponentRecorder
from kubewright.runtime.kernel import Effect, ObjectReconciler, Outcome, in_full
from kubewright.runtime.sessions.session import NAMELESS
from kubewright.runtime.world import Environment
from kubewright.wire.errors import AlreadyExists, ApiError, is_refusal
from kubewright.wire.gvk import Key

BY_NAME = "reserves-by-deployment"
"""Reserves by the name of their Deployment."""
BY_OWNER = "classes-by-reserve"
"""PriorityClasses by the uid of their reserve."""
REFUSED = "cluster of the nodes"
"""What a refused write is about."""


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


class Reserves(ObjectReconciler[CapacityReserve, Seen, Plan]):
    """The reconciler of CapacityReserves."""

    def __init__(self, environment: Environment, caches: Caches, settings: ReserveSettings) -> None:
        recorder = ComponentRecorder(environment.recorder, COMPONENT)
        super().__init__(environment.control.client, caches.found, recorder, finalizer=FINALIZER)
        self._caches = caches
        self._settings = settings
        self._clock = environment.clock
        self._target = environment.targets.get(NAMELESS).client

    async def look(self, found: CapacityReserve) -> Seen:
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

    def decide(self, seen: Seen) -> Plan:
        """As ``decide.decide``."""
        return decide(seen)

    def act(self, seen: Seen, step: Step, outcome: Outcome) -> Effect:
        """What performs a step. What another has made or removed meanwhile is seen next."""
        place = Key(PLACE, name_of(seen.key))
        match step:
            case AddFinalizer():
                return self.add_finalizer(outcome)
            case RemoveFinalizer():
                return self.remove_finalizer(outcome)
            case CreateClass(body):
                return self._create(PRIORITY_CLASS, body)
            case DeleteClass(name, uid):
                return self._delete(PRIORITY_CLASS, Key("", name), uid)
            case CreatePlaceholders(body):
                return self._create(DEPLOYMENT, body)
            case ChangePlaceholders(meta, patch):
                return self._change(place, meta, patch)
            case DeletePlaceholders(meta):
                return self._delete(DEPLOYMENT, place, meta.uid)

    def after_step(self, seen: Seen, step: Step, error: KubewrightError | None, outcome: Outcome) -> bool:
        """A refusal by the cluster of the nodes ends the plan, and is shown."""
        if not isinstance(step, InTarget) or not isinstance(error, ApiError) or not is_refusal(error):
            return super().after_step(seen, step, error, outcome)
        outcome.shown[REFUSED] = in_full(error)
        outcome.wake = delays.REFUSED
        return False

    def status(self, seen: Seen, plan: Plan, outcome: Outcome) -> CapacityReserveStatus | None:
        """The status; of one that is being deleted only that a write was refused."""
        refused = outcome.shown.get(REFUSED, "")
        if seen.reserve.metadata.deleting and not refused:
            return None
        return status_of(replace(seen, refused=refused) if refused else seen, plan)

    def events(
        self, seen: Seen, plan: Plan, status: CapacityReserveStatus, *, written: bool
    ) -> Iterable[Event]:
        """As ``decide.events``."""
        return events(seen.reserve.status, status) if written else ()

    async def _create(self, kind: Kind[Any], body: Mapping[str, Any]) -> None:
        try:
            await self._target.create(kind, body)
        except AlreadyExists:  # by our last pass, or foreign: the next look tells
            return

    async def _change(self, place: Key, meta: ObjectMeta, patch: Patch) -> None:
        with MayBeGone(place.name):
            await self._target.patch(DEPLOYMENT, place, onto(patch, meta))

    async def _delete(self, kind: Kind[Any], key: Key, uid: str) -> None:
        with MayBeGone(key.name):
            await self._target.delete(kind, key, uid=uid)


def _owner(found: PriorityClass) -> str:
    return found.metadata.labels.get(OWNER_LABEL, "")
