"""One control plane, one pass: look, decide, act. And which changes enqueue a control plane.

Theory.      Nearly everything is read from caches. Before the finalizer goes, the server itself is asked for
             components that the caches may not show yet: one that was adopted a moment ago must be deleted
             too.
Invariants.  Our own write of a status enqueues nothing. A change may enqueue too many control planes, never
             too few: a change of a component enqueues every control plane that names it, controls it, or
             controlled it before.
Called by    ``runtime.controller``; wired by ``world``.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from kubewright.api.cluster import names as cluster_names
from kubewright.api.controlplane.names import PLANE_REPORTER, Component
from kubewright.api.controlplane.v1alpha4 import NestedControlPlane
from kubewright.api.controlplane.validate import validate_control_plane
from kubewright.api.core import SECRET
from kubewright.api.faults import summary
from kubewright.controlplanes.caches import BY_CLUSTER, BY_COMPONENT, Caches
from kubewright.controlplanes.family import (
    KINDS,
    ComponentObject,
    owning_plane,
    pause_of,
)
from kubewright.controlplanes.plane.act import Actor
from kubewright.controlplanes.plane.decide import RemoveFinalizer, decide
from kubewright.controlplanes.plane.seen import Rest, Seen, rest_of
from kubewright.kube.informer import Change
from kubewright.runtime.controller import Controller
from kubewright.runtime.events import ComponentRecorder
from kubewright.runtime.passes import planned
from kubewright.runtime.refused import unless_refused
from kubewright.runtime.result import Result
from kubewright.runtime.world import Environment
from kubewright.wire.errors import NotFound
from kubewright.wire.gvk import Key

CONTROLLER = "nestedcontrolplane"


class ControlPlanes:
    """The reconciler of NestedControlPlanes."""

    def __init__(self, environment: Environment, caches: Caches) -> None:
        self._caches = caches
        self._client = environment.control.client
        self._recorder = ComponentRecorder(environment.recorder, PLANE_REPORTER)
        self.actor = Actor(self._client, environment.recorder)

    async def reconcile(self, key: Key) -> Result:
        """One pass.

        Raises:
            ApiError, TransportError: the API server said no for now, or could not be asked.
        """
        plane = self._caches.planes.get(key)
        if plane is None:
            self.actor.reports.forget(key)
            return Result.done()
        return await unless_refused(self._pass(plane), plane, self._recorder)

    async def _pass(self, plane: NestedControlPlane) -> Result:
        seen = await self.look(plane)
        plan = decide(seen)
        if RemoveFinalizer() in plan.steps:
            seen = replace(seen, owned=await self._owned_on_server(plane))
            plan = decide(seen)
        planned(plan)
        return Result.later(plan.wake).sooner(await self.actor.perform(seen, plan))

    async def look(self, plane: NestedControlPlane) -> Seen:
        """Read one control plane and everything around it.

        Raises:
            ApiError, TransportError: the server could not be asked.
        """
        family = self._caches.family_of(plane)
        secret = Key(plane.namespace, cluster_names.kubeconfig_secret(family.name))
        problem, now = summary(validate_control_plane(plane)), self._client.clock.now()
        # A schedule that cannot be read changes nothing: it stays as it was.
        rest = (
            Rest(plane.status.asleep)
            if problem
            else rest_of(plane.spec, plane.metadata.creation_timestamp, now)
        )
        return Seen(
            family,
            now,
            pause=pause_of(plane.metadata, cluster=family.cluster),
            problem=problem,
            kubeconfig=await self._exists(secret),
            rest=rest,
            owned=tuple(self._caches.owned_by(plane)),
        )

    async def _exists(self, secret: Key) -> bool:
        """Whether a Secret exists. The server is asked, if no cache has it for lack of a label."""
        if self._caches.secrets.header(secret) is not None:
            return True
        try:
            await self._client.get(SECRET, secret)
        except NotFound:
            return False
        return True

    async def _owned_on_server(
        self, plane: NestedControlPlane
    ) -> tuple[tuple[Component, ComponentObject], ...]:
        """The components that it controls, as the server lists them."""
        found: list[tuple[Component, ComponentObject]] = []
        for component, kind in KINDS.items():
            for each in await self._client.list(kind, plane.namespace):
                owner = each.metadata.controller
                if owner is not None and owner.uid == plane.metadata.uid:
                    found.append((component, each))
        return tuple(found)


def wire(environment: Environment) -> Controller:
    """The controller, with watches on everything that a decision reads."""
    caches = Caches(environment.control.caches)
    planes = ControlPlanes(environment, caches)
    controller = Controller(CONTROLLER, planes, environment.clock, metrics=environment.metrics)

    def of_secret(change: Change[Any]) -> Iterable[Key]:
        if change.old is not None and change.new is not None:
            return ()
        suffix = cluster_names.KUBECONFIG_SUFFIX
        if not change.key.name.endswith(suffix):
            return ()
        cluster = Key(change.key.namespace, change.key.name.removesuffix(suffix))
        return caches.planes.keys_by(BY_CLUSTER, str(cluster))

    controller.watches(caches.planes, planes.actor.reports.matters)
    for component, informer in caches.components.items():
        controller.watches(informer, _of_component(caches, component))
    controller.watches(caches.clusters, caches.planes_of_cluster)
    return controller.watches(caches.secrets, of_secret)


def _of_component(caches: Caches, component: Component) -> Any:
    def keys(change: Change[Any]) -> Iterable[Key]:
        """The control planes that name a component, that control it, and that controlled it before."""
        named = caches.planes.keys_by(BY_COMPONENT, f"{component}/{change.key}")
        owners = [
            owning_plane(each.metadata) for each in (change.before(), change.after()) if each is not None
        ]
        return {*named, *(Key(change.key.namespace, each.name) for each in owners if each is not None)}

    return keys
