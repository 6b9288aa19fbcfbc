"""One control plane, one pass: look, decide, act. And which changes enqueue a control plane.

Theory.      Nearly everything is in caches. Before the finalizer goes the server itself is asked for
             components that the caches do not show: one that was adopted a moment ago must not stay behind.
Invariants.  Our own write of a status enqueues nothing. A change may enqueue too many control planes, never
             too few: also those that name a component, and those that once controlled it.
Called by    ``runtime.controller``; put together by ``world``.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import structlog

from kubewright.api.cluster import names as cluster_names
from kubewright.api.cluster.v1beta1 import CLUSTER, Cluster
from kubewright.api.controlplane.names import Component
from kubewright.api.controlplane.reasons import PLANE_REPORTER
from kubewright.api.controlplane.v1alpha4 import NESTED_CONTROL_PLANE, NestedControlPlane
from kubewright.api.controlplane.validate import validate_control_plane
from kubewright.api.core import SECRET, SECRET_METADATA
from kubewright.api.faults import summary
from kubewright.controlplanes.family import (
    KINDS,
    ComponentObject,
    Family,
    cluster_name,
    keys_of,
    owning_cluster,
    owning_plane,
)
from kubewright.controlplanes.plane.act import Actor
from kubewright.controlplanes.plane.decide import RemoveFinalizer, decide
from kubewright.controlplanes.plane.seen import Seen
from kubewright.kube.informer import Change
from kubewright.kube.informers import Informers
from kubewright.runtime.controller import Controller
from kubewright.runtime.events import ComponentRecorder
from kubewright.runtime.mapping import status_alone
from kubewright.runtime.refused import unless_refused
from kubewright.runtime.result import Result
from kubewright.runtime.world import Environment
from kubewright.wire.errors import NotFound
from kubewright.wire.gvk import Key

CONTROLLER = "nestedcontrolplane"
BY_COMPONENT = "nested-control-planes-by-component"
"""Control planes by ``component/namespace/name`` of the components that they name."""
BY_CLUSTER = "nested-control-planes-by-cluster-name"
"""Control planes by ``namespace/name`` of what their Secrets are named after."""
BY_OWNER = "components-by-control-plane"
"""Components by the uid of the control plane that controls them."""

log = structlog.get_logger(__name__)


class Caches:
    """What is watched for control planes."""

    def __init__(self, informers: Informers) -> None:
        self.planes = informers.get(NESTED_CONTROL_PLANE)
        self.components = {component: informers.get(kind) for component, kind in KINDS.items()}
        self.clusters = informers.get(CLUSTER)
        self.secrets = informers.get(SECRET_METADATA, labels=cluster_names.CLUSTER_NAME_LABEL)
        self.planes.index(BY_COMPONENT, _named_by)
        self.planes.index(BY_CLUSTER, lambda each: (str(Key(each.namespace, cluster_name(each))),))
        for informer in self.components.values():
            informer.index(BY_OWNER, _owner_uid)

    def family_of(self, plane: NestedControlPlane) -> Family:
        """A control plane with all of its own that is there."""
        cluster = owning_cluster(plane)
        there = {name: self.components[name].get(key) for name, key in keys_of(plane).items()}
        return Family(
            plane,
            self.clusters.get(Key(plane.namespace, cluster.name)) if cluster is not None else None,
            {name: found for name, found in there.items() if found is not None},
        )

    def owned_by(self, plane: NestedControlPlane) -> Iterator[tuple[Component, ComponentObject]]:
        """The components that a control plane controls."""
        for component, informer in self.components.items():
            for found in informer.by(BY_OWNER, plane.metadata.uid):
                yield component, found


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
            return Result.done()
        return await unless_refused(self._pass(plane), plane, self._recorder)

    async def _pass(self, plane: NestedControlPlane) -> Result:
        seen = await self.look(plane)
        plan = decide(seen)
        if RemoveFinalizer() in plan.steps:
            seen = replace(seen, owned=await self._left(plane))
            plan = decide(seen)
        log.debug("plan", because=plan.because, steps=[type(step).__name__ for step in plan.steps])
        await self.actor.perform(seen, plan)
        return Result.later(plan.wake)

    async def look(self, plane: NestedControlPlane) -> Seen:
        """What there is.

        Raises:
            ApiError, TransportError: the server could not be asked.
        """
        family = self._caches.family_of(plane)
        secret = Key(plane.namespace, cluster_names.kubeconfig_secret(family.name))
        cluster = family.cluster
        paused = cluster_names.left_alone(plane.metadata.annotations)
        return Seen(
            family,
            self._client.clock.now(),
            paused=paused or (cluster is not None and cluster.spec.paused),
            problem=summary(validate_control_plane(plane)),
            kubeconfig=await self._exists(secret),
            owned=tuple(self._caches.owned_by(plane)),
        )

    async def _exists(self, secret: Key) -> bool:
        """Whether a Secret is there; one without the label of its cluster is in no cache."""
        if self._caches.secrets.header(secret) is not None:
            return True
        try:
            await self._client.get(SECRET, secret)
        except NotFound:
            return False
        return True

    async def _left(self, plane: NestedControlPlane) -> tuple[tuple[Component, ComponentObject], ...]:
        """The components that the server itself knows it to control."""
        found: list[tuple[Component, ComponentObject]] = []
        for component, kind in KINDS.items():
            for each in await self._client.list(kind, plane.namespace):
                owner = each.metadata.controller
                if owner is not None and owner.uid == plane.metadata.uid:
                    found.append((component, each))
        return tuple(found)


def wire(environment: Environment) -> Controller:
    """The controller, listening to everything that a decision looks at."""
    caches = Caches(environment.control.caches)
    planes = ControlPlanes(environment, caches)
    controller = Controller(CONTROLLER, planes, environment.clock, metrics=environment.metrics)

    def of_itself(change: Change[Any]) -> Iterable[Key]:
        own = change.key in planes.actor.writing and status_alone(change)
        return () if own else (change.key,)

    def of_cluster(change: Change[Cluster]) -> Iterable[Key]:
        before, after = change.before(), change.after()
        if before is not None and after is not None and before.spec == after.spec:
            return ()
        return caches.planes.keys_by(BY_CLUSTER, str(change.key))

    def of_secret(change: Change[Any]) -> Iterable[Key]:
        if change.old is not None and change.new is not None:
            return ()
        suffix = cluster_names.KUBECONFIG_SUFFIX
        if not change.key.name.endswith(suffix):
            return ()
        cluster = Key(change.key.namespace, change.key.name.removesuffix(suffix))
        return caches.planes.keys_by(BY_CLUSTER, str(cluster))

    controller.watches(caches.planes, of_itself)
    for component, informer in caches.components.items():
        controller.watches(informer, _of_component(caches, component))
    controller.watches(caches.clusters, of_cluster)
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


def _named_by(plane: NestedControlPlane) -> Iterable[str]:
    return [f"{component}/{key}" for component, key in keys_of(plane).items()]


def _owner_uid(found: ComponentObject) -> Iterable[str]:
    owner = owning_plane(found.metadata)
    return (owner.uid,) if owner is not None else ()
