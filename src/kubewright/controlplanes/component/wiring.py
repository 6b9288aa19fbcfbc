"""Which changes enqueue a component, and the controllers of the three kinds.

Theory.      A component is enqueued when it changes, when its control plane does, when another component of
             the same control plane changes in what others read, when a Secret of its cluster or its Cluster's
             spec changes, and when its host reports a change.
Invariants.  Our own write of a status enqueues only components that may wait for it. A change may enqueue too
             many components, never too few.
Called by    ``controlplanes.wiring``.
"""

from collections.abc import Iterable
from typing import Any

from kubewright.api.cluster.names import CLUSTER_NAME_LABEL, MANAGED_BY_ANNOTATION
from kubewright.api.cluster.v1beta1 import Cluster
from kubewright.api.controlplane.v1alpha4 import NestedControlPlane, NestedEtcd
from kubewright.controlplanes.caches import BY_CLUSTER, Caches
from kubewright.controlplanes.component.act import Components
from kubewright.controlplanes.component.look import ComponentSetup
from kubewright.controlplanes.component.policies import POLICIES, Policy
from kubewright.controlplanes.family import ComponentObject, keys_of, owning_plane
from kubewright.kube.informer import Change
from kubewright.runtime.controller import Controller, status_alone
from kubewright.runtime.world import Environment
from kubewright.wire.gvk import Key


def wire(environment: Environment, setup: ComponentSetup, chosen: Iterable[str]) -> list[Controller]:
    """The controllers whose names are chosen, with watches on every object that a decision reads."""
    caches = Caches(environment.control.caches)
    wanted = [policy for policy in POLICIES if controller_name(policy) in set(chosen)]
    made = [_wired(policy, environment, caches, setup) for policy in wanted]

    def changed(key: Key) -> None:
        for controller in made:
            controller.enqueue(key, "its host has something to tell")

    setup.hosts.listen(changed)
    return made


def controller_name(policy: Policy) -> str:
    """As in ``--controllers``: the kind in lower case."""
    return policy.kind.resource.kind.lower()


def _wired(policy: Policy, environment: Environment, caches: Caches, setup: ComponentSetup) -> Controller:
    components = Components(policy, environment, caches, setup)
    wakes = Wakes(components, caches)
    controller = Controller(
        controller_name(policy), components, environment.clock, metrics=environment.metrics
    )
    for component, informer in caches.components.items():
        controller.watches(informer, wakes.of_itself if component is policy.component else wakes.of_sibling)
    controller.watches(caches.planes, wakes.of_plane)
    controller.watches(caches.clusters, wakes.of_cluster)
    return controller.watches(caches.secrets, wakes.of_secret)


class Wakes:
    """Which components of one policy a change of an object enqueues."""

    def __init__(self, components: Components, caches: Caches) -> None:
        self._components = components
        self._caches = caches

    def of_itself(self, change: Change[Any]) -> Iterable[Key]:
        """The object itself, unless the change is our own write of its status.

        A change of ``status.certificates`` counts all the same: a rotation of its authority waits for it.
        """
        own = change.key in self._components.writing and status_alone(change)
        return () if own and not _certificates_differ(change) else (change.key,)

    def of_sibling(self, change: Change[Any]) -> Iterable[Key]:
        """The component of this policy in the same control plane, if it may wait for what has changed."""
        before, after = change.before(), change.after()
        if before is not None and after is not None and _what_others_read(before) == _what_others_read(after):
            return ()
        owners = [owning_plane(each.metadata) for each in (before, after) if each is not None]
        keys = {Key(change.key.namespace, owner.name) for owner in owners if owner is not None}
        return self._of(plane for key in keys if (plane := self._caches.planes.get(key)) is not None)

    def of_plane(self, change: Change[NestedControlPlane]) -> Iterable[Key]:
        """The component that a control plane names, or named before."""
        before, after = change.before(), change.after()
        if before is not None and after is not None and not _plane_differs(before, after):
            return ()
        return self._of(each for each in (before, after) if each is not None)

    def of_cluster(self, change: Change[Cluster]) -> Iterable[Key]:
        """The components of a Cluster whose spec has changed."""
        planes = map(self._caches.planes.get, self._caches.planes_of_cluster(change))
        return self._of(plane for plane in planes if plane is not None)

    def of_secret(self, change: Change[Any]) -> Iterable[Key]:
        """The components of the cluster that a Secret is labelled with."""
        self._components.looker.forget_secret(change.key)
        header = change.new or change.old
        cluster = header.labels.get(CLUSTER_NAME_LABEL, "") if header is not None else ""
        return self._of(self._caches.planes.by(BY_CLUSTER, str(Key(change.key.namespace, cluster))))

    def _of(self, planes: Iterable[NestedControlPlane]) -> set[Key]:
        found = (keys_of(each).get(self._components.policy.component) for each in planes)
        return {key for key in found if key is not None}


def _what_others_read(found: ComponentObject) -> tuple[object, ...]:
    """The parts of a component that other components read."""
    meta, status = found.metadata, found.status
    managed = MANAGED_BY_ANNOTATION in meta.annotations
    asked = meta.deleting, meta.owner_references, managed, found.spec.version, found.spec.channel
    addresses = found.status.addresses if isinstance(found, NestedEtcd) else ()
    of_status = status.ready, status.version, status.replicas > 0, status.certificates, addresses
    return *asked, found.spec.replicas, of_status


def _certificates_differ(change: Change[Any]) -> bool:
    before, after = change.before(), change.after()
    return before is None or after is None or before.status.certificates != after.status.certificates


def _plane_differs(before: NestedControlPlane, after: NestedControlPlane) -> bool:
    """Whether anything has changed that a component reads."""

    def parts(plane: NestedControlPlane) -> tuple[object, ...]:
        meta, status = plane.metadata, plane.status
        return (
            plane.spec,
            meta.owner_references,
            meta.labels.get(CLUSTER_NAME_LABEL),
            meta.annotations,
            meta.deleting,
            status.etcd,
            status.apiserver,
            status.asleep,
            status.version,
        )

    return parts(before) != parts(after)
