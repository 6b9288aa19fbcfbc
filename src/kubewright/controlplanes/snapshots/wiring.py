"""Which changes enqueue a snapshot, a restore, or a schedule.

Called by    ``controlplanes.wiring``.
"""

from collections.abc import Iterable
from typing import Any

from kubewright.api.cluster.v1beta1 import Cluster
from kubewright.api.controlplane.names import Component
from kubewright.api.controlplane.snapshots import (
    ControlPlaneRestore,
    ControlPlaneSnapshot,
    ControlPlaneSnapshotSchedule,
)
from kubewright.api.controlplane.v1alpha4 import NestedControlPlane
from kubewright.controlplanes.caches import Caches
from kubewright.controlplanes.family import keys_of
from kubewright.controlplanes.hosting.contract import Hosts
from kubewright.controlplanes.snapshots.act import (
    Restores,
    Schedules,
    Snapshots,
    Stream,
    needed,
    schedules_of,
)
from kubewright.kube.informer import Change
from kubewright.runtime.controller import Controller, only, status_alone
from kubewright.runtime.world import Environment
from kubewright.wire.gvk import Key

SNAPSHOTS = "controlplanesnapshot"
RESTORES = "controlplanerestore"
SCHEDULES = "controlplanesnapshotschedule"
"""The controllers, as in ``--controllers``."""

SNAPSHOTS_BY_PLANE = "snapshots-by-control-plane"
"""Snapshots by ``namespace/name`` of the control plane that they name."""
SCHEDULES_BY_PLANE = "snapshot-schedules-by-control-plane"
"""Schedules by ``namespace/name`` of the control plane that they name."""


def wire_snapshots(environment: Environment, hosts: Hosts, stream: Stream) -> Controller:
    """The controller, with watches on everything that a decision reads."""
    caches = Caches(environment.control.caches)
    snapshots = Snapshots(environment, caches, hosts, stream)
    snapshots.objects.index(SNAPSHOTS_BY_PLANE, _plane_of)
    controller = Controller(SNAPSHOTS, snapshots, environment.clock, metrics=environment.metrics)

    def of_plane(change: Change[Any]) -> Iterable[Key]:
        return snapshots.objects.keys_by(SNAPSHOTS_BY_PLANE, str(change.key))

    def of_etcd(change: Change[Any]) -> Iterable[Key]:
        return {
            key
            for plane in caches.planes.list(change.key.namespace)
            if _names(plane, change.key)
            for key in snapshots.objects.keys_by(SNAPSHOTS_BY_PLANE, str(Key(plane.namespace, plane.name)))
        }

    def of_cluster(change: Change[Cluster]) -> Iterable[Key]:
        planes = caches.planes_of_cluster(change)
        return {key for plane in planes for key in snapshots.objects.keys_by(SNAPSHOTS_BY_PLANE, str(plane))}

    controller.watches(snapshots.objects, only(lambda change: not status_alone(change)))
    controller.watches(caches.clusters, of_cluster)
    controller.watches(caches.planes, of_plane)
    return controller.watches(caches.components[Component.ETCD], of_etcd)


def _names(plane: NestedControlPlane, etcd: Key) -> bool:
    return keys_of(plane).get(Component.ETCD) == etcd


def wire_restores(environment: Environment, hosts: Hosts) -> Controller:
    """The controller, with watches on everything that a decision reads.

    There are few restores, and most are done: a change enqueues all of its namespace that are not done.
    """
    caches = Caches(environment.control.caches)
    restores = Restores(environment, caches, hosts)
    controller = Controller(RESTORES, restores, environment.clock, metrics=environment.metrics)

    def unfinished(change: Change[Any]) -> Iterable[Key]:
        there = restores.objects.list(change.key.namespace)
        return [Key(each.namespace, each.name) for each in there if not each.status.ready]

    def of_cluster(change: Change[Cluster]) -> Iterable[Key]:
        return unfinished(change) if caches.planes_of_cluster(change) else ()

    controller.watches(
        restores.objects, only(lambda change: not status_alone(change) or _is_replaced(change))
    )
    for informer in caches.components.values():
        controller.watches(informer, unfinished)
    controller.watches(restores.snapshots, unfinished)
    controller.watches(caches.clusters, of_cluster)
    return controller.watches(caches.planes, unfinished)


def _is_replaced(change: Change[ControlPlaneRestore]) -> bool:
    """Whether this change says that the data was replaced: then the control plane may start."""
    before, after = change.before(), change.after()
    done = after is not None and after.status.replaced_at is not None
    return done and (before is None or before.status.replaced_at is None)


def wire_schedules(environment: Environment) -> Controller:
    """The controller, with watches on everything that a decision reads."""
    caches = Caches(environment.control.caches)
    schedules = Schedules(environment, caches)
    schedules.objects.index(SCHEDULES_BY_PLANE, _plane_of)
    controller = Controller(SCHEDULES, schedules, environment.clock, metrics=environment.metrics)

    def of_snapshot(change: Change[ControlPlaneSnapshot]) -> Iterable[Key]:
        both = (each for each in (change.before(), change.after()) if each is not None)
        return {_key(name) for each in both for name in schedules_of(each)}

    def of_plane(change: Change[NestedControlPlane]) -> Iterable[Key]:
        same = status_alone(change)
        return () if same else schedules.objects.keys_by(SCHEDULES_BY_PLANE, str(change.key))

    def of_cluster(change: Change[Cluster]) -> Iterable[Key]:
        planes = caches.planes_of_cluster(change)
        return {key for plane in planes for key in schedules.objects.keys_by(SCHEDULES_BY_PLANE, str(plane))}

    def of_restore(change: Change[ControlPlaneRestore]) -> Iterable[Key]:
        """The schedules of snapshots that a restore needs, or needed before."""
        before, after = (needed(each) for each in (change.before(), change.after()))
        keys = (Key(change.key.namespace, name) for name in (before, after) if name and before != after)
        there = (found for key in keys if (found := schedules.snapshots.get(key)) is not None)
        return {_key(name) for each in there for name in schedules_of(each)}

    controller.watches(schedules.restores, of_restore)
    controller.watches(caches.planes, of_plane)
    controller.watches(caches.clusters, of_cluster)
    controller.watches(schedules.objects, only(lambda change: not status_alone(change)))
    return controller.watches(schedules.snapshots, of_snapshot)


def _key(name: str) -> Key:
    namespace, _, name = name.partition("/")
    return Key(namespace, name)


def _plane_of(found: ControlPlaneSnapshot | ControlPlaneSnapshotSchedule) -> tuple[str, ...]:
    return (str(Key(found.namespace, found.spec.control_plane_name)),)
