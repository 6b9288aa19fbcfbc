"""One ControlPlaneSnapshot, one pass: look, decide, act. And which changes enqueue a snapshot.

Called by    ``runtime.controller``; wired by ``world``.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, assert_never

from kubewright.api.cluster.v1beta1 import Cluster
from kubewright.api.controlplane.names import SNAPSHOT_REPORTER, Component
from kubewright.api.controlplane.snapshots import (
    CONTROL_PLANE_RESTORE,
    CONTROL_PLANE_SNAPSHOT,
    ControlPlaneSnapshot,
    ControlPlaneSnapshotStatus,
)
from kubewright.api.controlplane.v1alpha4 import NestedControlPlane
from kubewright.api.controlplane.validate import validate_snapshot
from kubewright.api.faults import summary
from kubewright.base.plan import Event
from kubewright.controlplanes.caches import Caches
from kubewright.controlplanes.component.policies import etcd_addresses
from kubewright.controlplanes.family import Family, keys_of, pause_of_family
from kubewright.controlplanes.hosting.contract import Hosts
from kubewright.controlplanes.snapshots.once.decide import Plan
from kubewright.controlplanes.snapshots.once.reconciler import Once
from kubewright.controlplanes.snapshots.taking.act import Stream, Taker, file_of
from kubewright.controlplanes.snapshots.taking.decide import (
    DeleteFile,
    Seen,
    Step,
    Take,
    decide,
    status_of,
)
from kubewright.kube.informer import Change
from kubewright.runtime.controller import Controller, only, status_alone
from kubewright.runtime.events import ComponentRecorder
from kubewright.runtime.world import Environment
from kubewright.wire.gvk import Key

CONTROLLER = "controlplanesnapshot"
BY_PLANE = "snapshots-by-control-plane"
"""Snapshots by ``namespace/name`` of the control plane that they name."""


class Snapshots:
    """Takes ControlPlaneSnapshots: a ``Policy``."""

    kind = CONTROL_PLANE_SNAPSHOT

    def __init__(self, environment: Environment, caches: Caches, hosts: Hosts, stream: Stream) -> None:
        self._clock = environment.control.client.clock
        self._caches = caches
        self._taker = Taker(environment.control.client, hosts, stream, environment.entitled)
        self._restores = environment.control.caches.get(CONTROL_PLANE_RESTORE)
        self.found = environment.control.caches.get(CONTROL_PLANE_SNAPSHOT)
        self.found.index(BY_PLANE, lambda each: (str(Key(each.namespace, each.spec.control_plane_name)),))

    def look(self, found: ControlPlaneSnapshot) -> Seen:
        """As ``Policy.look``."""
        family = self._family(found)
        return Seen(
            found,
            self._clock.now(),
            pause=pause_of_family(found.metadata, family),
            problem=summary(validate_snapshot(found)),
            waiting=_waiting(found, family),
            needed_by=self._needed_by(found),
        )

    def _needed_by(self, found: ControlPlaneSnapshot) -> str:
        """The restore that has begun to replace data by this snapshot, and has not ended."""
        name, there = file_of(found), self._restores.list(found.namespace)
        begun = ((each.name, each.status.source) for each in there if each.status.replaced_at is None)
        return next((restore for restore, file in begun if file is not None and file.name == name), "")

    def decide(self, seen: Seen) -> Plan[Step]:
        """As ``Policy.decide``."""
        return decide(seen)

    async def perform(self, seen: Seen, step: Take | DeleteFile) -> Seen:
        """As ``Policy.perform``."""
        match step:
            case Take():
                family = self._family(seen.found)
                assert family is not None, "without a control plane it waits"
                return replace(seen, taken=await self._taker.take(seen.found, family))
            case DeleteFile():
                await self._taker.delete_file(seen.found)
            case _:
                assert_never(step)
        return seen

    def status_of(self, seen: Seen) -> ControlPlaneSnapshotStatus:
        """As ``Policy.status_of``."""
        return status_of(seen, file_of(seen.found))

    def events(self, seen: Seen, status: ControlPlaneSnapshotStatus, _plan: Plan[Step]) -> Iterable[Event]:
        """As ``Policy.events``."""
        if status.ready and not seen.found.status.ready:
            yield Event("Taken", f"{status.size} bytes are kept as {status.file}")

    def _family(self, found: ControlPlaneSnapshot) -> Family | None:
        plane = self._caches.planes.get(Key(found.namespace, found.spec.control_plane_name))
        return self._caches.family_of(plane) if plane is not None else None


def _waiting(found: ControlPlaneSnapshot, family: Family | None) -> str:
    """Why there is nothing to copy yet; empty: there is."""
    if family is None:
        return f"there is no NestedControlPlane {found.spec.control_plane_name}"
    plane = family.plane.name
    if family.restore:
        return f"ControlPlaneRestore {family.restore} replaces the data of NestedControlPlane {plane}"
    etcd = family.components.get(Component.ETCD)
    if etcd is None:
        return "" if etcd_addresses(family) else f"NestedControlPlane {plane} has no etcd yet"
    return "" if etcd.status.ready else f"NestedEtcd {etcd.name} is not ready"


def wire(environment: Environment, hosts: Hosts, stream: Stream) -> Controller:
    """The controller, with watches on everything that a decision reads."""
    caches = Caches(environment.control.caches)
    snapshots = Snapshots(environment, caches, hosts, stream)
    recorder = ComponentRecorder(environment.recorder, SNAPSHOT_REPORTER)
    once = Once(environment.control.client, recorder, snapshots)
    controller = Controller(CONTROLLER, once, environment.clock, metrics=environment.metrics)

    def of_plane(change: Change[Any]) -> Iterable[Key]:
        return snapshots.found.keys_by(BY_PLANE, str(change.key))

    def of_etcd(change: Change[Any]) -> Iterable[Key]:
        return {
            key
            for plane in caches.planes.list(change.key.namespace)
            if _names(plane, change.key)
            for key in snapshots.found.keys_by(BY_PLANE, str(Key(plane.namespace, plane.name)))
        }

    def of_cluster(change: Change[Cluster]) -> Iterable[Key]:
        planes = caches.planes_of_cluster(change)
        return {key for plane in planes for key in snapshots.found.keys_by(BY_PLANE, str(plane))}

    controller.watches(snapshots.found, only(lambda change: not status_alone(change)))
    controller.watches(caches.clusters, of_cluster)
    controller.watches(caches.planes, of_plane)
    return controller.watches(caches.components[Component.ETCD], of_etcd)


def _names(plane: NestedControlPlane, etcd: Key) -> bool:
    return keys_of(plane).get(Component.ETCD) == etcd
