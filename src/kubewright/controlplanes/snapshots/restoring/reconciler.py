"""One ControlPlaneRestore, one pass: look, decide, act. And which changes enqueue a restore.

Called by    ``runtime.controller``; wired by ``world``.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, assert_never

from kubewright.api.cluster.v1beta1 import Cluster
from kubewright.api.controlplane.names import RESTORE_REPORTER, RESTORING_ANNOTATION
from kubewright.api.controlplane.snapshots import (
    CONTROL_PLANE_RESTORE,
    CONTROL_PLANE_SNAPSHOT,
    ControlPlaneRestore,
    ControlPlaneRestoreStatus,
)
from kubewright.api.controlplane.v1alpha4 import NestedControlPlane
from kubewright.api.controlplane.validate import validate_restore
from kubewright.api.faults import summary
from kubewright.base.plan import Event
from kubewright.controlplanes.caches import Caches
from kubewright.controlplanes.family import pause_of_family
from kubewright.controlplanes.hosting.contract import Hosts
from kubewright.controlplanes.snapshots.once.decide import Plan
from kubewright.controlplanes.snapshots.once.reconciler import Once
from kubewright.controlplanes.snapshots.restoring.act import Restorer
from kubewright.controlplanes.snapshots.restoring.decide import (
    Begin,
    Release,
    ReplaceData,
    Seen,
    Step,
    Stop,
    Verify,
    decide,
    plane_name,
    source_of,
    status_of,
)
from kubewright.kube.informer import Change
from kubewright.runtime.controller import Controller, only, status_alone
from kubewright.runtime.events import ComponentRecorder
from kubewright.runtime.world import Environment
from kubewright.wire.gvk import Key

CONTROLLER = "controlplanerestore"


class Restores:
    """Carries out ControlPlaneRestores: a ``Policy``."""

    kind = CONTROL_PLANE_RESTORE

    def __init__(self, environment: Environment, caches: Caches, hosts: Hosts) -> None:
        client = environment.control.client
        self._clock = client.clock
        self._caches = caches
        self._restorer = Restorer(client, hosts, environment.entitled)
        self.found = environment.control.caches.get(CONTROL_PLANE_RESTORE)
        self.snapshots = environment.control.caches.get(CONTROL_PLANE_SNAPSHOT)

    def look(self, found: ControlPlaneRestore) -> Seen:
        """As ``Policy.look``. Once the replacement has begun, the spec counts no more."""
        snapshot = self.snapshots.get(Key(found.namespace, found.spec.snapshot_name))
        plane = self._held(found) or self._caches.planes.get(
            Key(found.namespace, plane_name(found, snapshot))
        )
        family = self._caches.family_of(plane) if plane is not None else None
        holder = Key(found.namespace, family.restore) if family is not None and family.restore else None
        done = found.status.source is not None or found.status.replaced_at is not None
        source = source_of(found, snapshot)
        return Seen(
            found,
            self._clock.now(),
            pause=pause_of_family(found.metadata, family),
            problem="" if done else summary(validate_restore(found)),
            snapshot=snapshot,
            family=family,
            abandoned=holder is not None and self.found.get(holder) is None,
            unable=self._restorer.unable(family, source.format)
            if family is not None and source is not None
            else "",
        )

    def _held(self, found: ControlPlaneRestore) -> NestedControlPlane | None:
        """The control plane that is stopped for this restore; it is found even if the snapshot is gone."""
        there = self._caches.planes.list(found.namespace)
        named = (each for each in there if each.metadata.annotations.get(RESTORING_ANNOTATION) == found.name)
        return next(named, None)

    def decide(self, seen: Seen) -> Plan[Step]:
        """As ``Policy.decide``."""
        return decide(seen)

    async def perform(self, seen: Seen, step: Verify | Stop | Begin | ReplaceData | Release) -> Seen:
        """As ``Policy.perform``."""
        if isinstance(step, Stop | Release):
            assert seen.family is not None, "without a control plane it waits"
            await self._restorer.hold(seen.family.plane, seen.found.name if step == Stop() else "")
            return seen
        source = seen.source
        assert source is not None, "without a file it waits"
        assert seen.family is not None, "without a control plane it waits"
        match step:
            case Begin():
                return replace(seen, begun=True)
            case Verify():
                await self._restorer.verify(seen.family, source)
                return seen
            case ReplaceData():
                mark = seen.found.metadata.uid
                return replace(seen, replaced=await self._restorer.replace(seen.family, source, mark))
            case _:
                assert_never(step)

    def status_of(self, seen: Seen) -> ControlPlaneRestoreStatus:
        """As ``Policy.status_of``."""
        return status_of(seen)

    def events(self, seen: Seen, status: ControlPlaneRestoreStatus, plan: Plan[Step]) -> Iterable[Event]:
        """As ``Policy.events``."""
        if status.phase != seen.found.status.phase:
            yield Event(status.phase, plan.because or "its control plane is ready")


def wire(environment: Environment, hosts: Hosts) -> Controller:
    """The controller, with watches on everything that a decision reads.

    There are few restores, and most are done: a change enqueues all of its namespace that are not done.
    """
    caches = Caches(environment.control.caches)
    restores = Restores(environment, caches, hosts)
    recorder = ComponentRecorder(environment.recorder, RESTORE_REPORTER)
    once = Once(environment.control.client, recorder, restores)
    controller = Controller(CONTROLLER, once, environment.clock, metrics=environment.metrics)

    def unfinished(change: Change[Any]) -> Iterable[Key]:
        there = restores.found.list(change.key.namespace)
        return [Key(each.namespace, each.name) for each in there if not each.status.ready]

    def of_cluster(change: Change[Cluster]) -> Iterable[Key]:
        return unfinished(change) if caches.planes_of_cluster(change) else ()

    controller.watches(restores.found, only(lambda change: not status_alone(change) or _is_replaced(change)))
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
