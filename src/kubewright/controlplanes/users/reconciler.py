"""One ControlPlaneUser, one pass: look, decide, act. And which changes enqueue a user.

Theory.      The object is the owner of its Secret, so the garbage collector deletes the Secret with it, and
             no finalizer is needed.
Invariants.  Our own write of a status enqueues nothing. No content of a Secret is in a log or an event.
Called by    ``runtime.controller``; wired by ``world``.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import structlog

from kubewright.api.cluster.names import CLUSTER_NAME_LABEL, MANAGED_BY_ANNOTATION
from kubewright.api.cluster.v1beta1 import Cluster
from kubewright.api.controlplane.reasons import USER_REPORTER
from kubewright.api.controlplane.v1alpha4 import CONTROL_PLANE_USER, ControlPlaneUser, NestedControlPlane
from kubewright.api.controlplane.validate import validate_user
from kubewright.api.diff import merge_patch
from kubewright.api.faults import summary
from kubewright.controlplanes.caches import BY_CLUSTER, Caches
from kubewright.controlplanes.certificates.act import Destination, Maker
from kubewright.controlplanes.certificates.decide import secrets_of
from kubewright.controlplanes.certificates.found import Found
from kubewright.controlplanes.certificates.look import Reader
from kubewright.controlplanes.pausing import pause_of
from kubewright.controlplanes.users.decide import Seen, decide, status_of, wanted
from kubewright.kube.informer import Change
from kubewright.kube.patches import onto
from kubewright.pki.keys import Algorithm
from kubewright.runtime.controller import Controller
from kubewright.runtime.events import ComponentRecorder
from kubewright.runtime.mapping import status_alone
from kubewright.runtime.refused import unless_refused
from kubewright.runtime.result import Result
from kubewright.runtime.world import Environment
from kubewright.wire.gvk import Key

CONTROLLER = "controlplaneuser"
BY_PLANE = "users-by-control-plane"
"""Users by ``namespace/name`` of the control plane that they name."""

log = structlog.get_logger(__name__)


class Users:
    """The reconciler of ControlPlaneUsers."""

    def __init__(self, environment: Environment, caches: Caches) -> None:
        informers = environment.control.caches
        self._client = environment.control.client
        self._caches = caches
        self._reader = Reader(informers)
        self._maker = Maker(self._client, Algorithm.EC)
        self._recorder = ComponentRecorder(environment.recorder, USER_REPORTER)
        self.writing: set[Key] = set()
        self.found = informers.get(CONTROL_PLANE_USER)
        self.found.index(BY_PLANE, lambda each: (str(Key(each.namespace, each.spec.control_plane_name)),))

    async def reconcile(self, key: Key) -> Result:
        """One pass.

        Raises:
            ApiError, TransportError: the API server said no for now, or could not be asked.
        """
        found = self.found.get(key)
        if found is None or found.metadata.deleting:
            return Result.done()
        return await unless_refused(self._pass(found), found, self._recorder)

    async def _pass(self, found: ControlPlaneUser) -> Result:
        plane = self._caches.planes.get(Key(found.namespace, found.spec.control_plane_name))
        family = self._caches.family_of(plane) if plane is not None else None
        pause = pause_of(found.metadata, plane, family.cluster if family is not None else None)
        if MANAGED_BY_ANNOTATION in found.metadata.annotations or (pause is not None and pause.moved):
            return Result.done()
        problem = summary(validate_user(found))
        seen = Seen(found, self._client.clock.now(), family, pause, problem)
        seen = replace(seen, found=await self._read(seen))
        plan = decide(seen)
        log.debug("plan", because=plan.because, steps=len(plan.steps))
        if plan.steps and family is not None:
            destination = Destination(found.namespace, family.name, seen.owner)
            await self._maker.perform(destination, plan.steps, seen.found, seen.now)
            seen = replace(seen, found=await self._read(seen))
            plan = decide(seen)
        await self._report(seen, status_of(seen, plan))
        return Result.later(plan.wake)

    async def _read(self, seen: Seen) -> dict[str, Found]:
        kubeconfig = wanted(seen.user, seen.family) if not seen.problem else None
        if kubeconfig is None or seen.pause is not None:
            return {}
        return await self._reader.read(seen.user.namespace, secrets_of((kubeconfig,)))

    async def _report(self, seen: Seen, status: Any) -> None:
        """Write the status, if it has changed, and send an event about it."""
        found, key = seen.user, Key(seen.user.namespace, seen.user.name)
        if patch := merge_patch(found.status, status):
            self.writing.add(key)
            try:
                body = onto({"status": patch}, found.metadata)
                await self._client.patch(CONTROL_PLANE_USER, key, body, subresource="status")
            finally:
                self.writing.discard(key)
        if status.ready and not found.status.ready:
            self._recorder.event(found, "Ready", f"the kubeconfig is in Secret {status.secret_name}")


def wire(environment: Environment) -> Controller:
    """The controller, with watches on everything that a decision reads."""
    caches = Caches(environment.control.caches)
    users = Users(environment, caches)
    controller = Controller(CONTROLLER, users, environment.clock, metrics=environment.metrics)

    def of_itself(change: Change[Any]) -> Iterable[Key]:
        own = change.key in users.writing and status_alone(change)
        return () if own else (change.key,)

    def of_plane(change: Change[NestedControlPlane]) -> Iterable[Key]:
        before, after = change.before(), change.after()
        same = before is not None and after is not None and before.spec == after.spec
        if same and before is not None and after is not None and before.metadata == after.metadata:
            return ()
        return users.found.keys_by(BY_PLANE, str(change.key))

    def of_secret(change: Change[Any]) -> Iterable[Key]:
        header = change.new or change.old
        cluster = header.labels.get(CLUSTER_NAME_LABEL, "") if header is not None else ""
        planes = caches.planes.keys_by(BY_CLUSTER, str(Key(change.key.namespace, cluster)))
        return {key for plane in planes for key in users.found.keys_by(BY_PLANE, str(plane))}

    controller.watches(users.found, of_itself)

    def of_cluster(change: Change[Cluster]) -> Iterable[Key]:
        planes = caches.planes_of_cluster(change)
        return {key for plane in planes for key in users.found.keys_by(BY_PLANE, str(plane))}

    controller.watches(caches.planes, of_plane)
    controller.watches(caches.clusters, of_cluster)
    return controller.watches(caches.secrets, of_secret)
