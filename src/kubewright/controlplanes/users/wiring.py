"""One ControlPlaneUser, one pass: look, decide, act. And which changes enqueue a user.

Theory.      A pass reads what this cluster has of the user; if something of the user is or may be in the
             control plane, it connects to that, reads that too and does what is to be done there; and then
             it writes the Secret and the status. The object is the owner of its Secret, so the garbage
             collector deletes the Secret with it; our finalizer is there for what is in the control plane.
Invariants.  Our own write of a status enqueues nothing. No content of a Secret is in a log or an event. A
             control plane that cannot be reached delays its own users and no others.
Called by    ``runtime.controller``; wired by ``controlplanes.wiring``.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from kubewright.api.cluster.names import CLUSTER_NAME_LABEL, MANAGED_BY_ANNOTATION, SECRET_VALUE_KEY
from kubewright.api.cluster.v1beta1 import Cluster
from kubewright.api.controlplane.names import FINALIZER, USER_REPORTER, Component
from kubewright.api.controlplane.v1alpha4 import (
    CONTROL_PLANE_USER,
    ControlPlaneUser,
    ControlPlaneUserStatus,
    NestedControlPlane,
)
from kubewright.api.controlplane.validate import validate_user
from kubewright.api.diff import merge_patch
from kubewright.api.faults import summary
from kubewright.api.meta import ObjectMeta, with_finalizer, without_finalizer
from kubewright.controlplanes.caches import BY_CLUSTER, BY_COMPONENT, Caches
from kubewright.controlplanes.certificates.act import Destination, Maker
from kubewright.controlplanes.certificates.look import Reader
from kubewright.controlplanes.family import pause_of_family
from kubewright.controlplanes.users import kubeconfigs
from kubewright.controlplanes.users.connection import Connect, Connections, Outcome
from kubewright.controlplanes.users.decide import decide, status_of
from kubewright.controlplanes.users.seen import AddFinalizer, Issue, Plan, RemoveFinalizer, Seen, identity
from kubewright.kube.errors import MayBeGone
from kubewright.kube.informer import Change
from kubewright.kube.patches import onto
from kubewright.pki.keyring import Make
from kubewright.pki.keys import Algorithm
from kubewright.runtime.controller import Controller, status_alone
from kubewright.runtime.events import ComponentRecorder
from kubewright.runtime.kernel import unless_refused
from kubewright.runtime.passes import planned
from kubewright.runtime.result import Result
from kubewright.runtime.world import Environment
from kubewright.wire.gvk import Key

CONTROLLER = "controlplaneuser"
BY_PLANE = "users-by-control-plane"
"""Users by ``namespace/name`` of the control plane that they name."""


class Users:
    """The reconciler of ControlPlaneUsers."""

    def __init__(self, environment: Environment, caches: Caches, connect: Connect) -> None:
        informers = environment.control.caches
        self._client = environment.control.client
        self._caches = caches
        self._reader = Reader(informers)
        self._maker = Maker(self._client, Algorithm.EC)
        self._connections = Connections(self._client.clock, connect, environment.entitled)
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
        if found is None:
            return Result.done()
        return await unless_refused(self._pass(found), found, self._recorder)

    async def _pass(self, found: ControlPlaneUser) -> Result:
        if MANAGED_BY_ANNOTATION in found.metadata.annotations:
            return Result.done()
        seen = await self.look(found)
        if seen.pause is not None and seen.pause.moved:
            return Result.done()
        outcome = Outcome(seen)
        if connects(seen):
            outcome = await self._connections.perform(seen, decide)
        plan = decide(outcome.seen) if outcome.plan is None else outcome.plan
        planned(plan)
        if plan.steps and await self._perform(outcome, plan):
            return Result.done()
        seen = await self._read(outcome.seen)
        plan = decide(seen)
        if not plan.silent:
            await self._report(seen, status_of(seen, plan))
        return Result.later(plan.wake)

    async def look(self, found: ControlPlaneUser) -> Seen:
        """Read one user, its control plane and its Secrets; nothing is asked of the control plane.

        Raises:
            ApiError, TransportError: the server could not be asked.
        """
        plane = self._caches.planes.get(Key(found.namespace, found.spec.control_plane_name))
        family = self._caches.family_of(plane) if plane is not None else None
        pause = pause_of_family(found.metadata, family)
        problem = summary(validate_user(found))
        seen = await self._read(Seen(found, self._client.clock.now(), family, pause, problem))
        return replace(seen, unreachable=unreachable(seen), unheard=seen.administrator not in seen.found)

    async def _read(self, seen: Seen) -> Seen:
        if seen.family is None or seen.pause is not None:
            return seen
        names = (seen.secret, seen.authority, seen.administrator)
        found = await self._reader.read(seen.user.namespace, names)
        there = found.get(seen.secret)
        value = there.contents.get(SECRET_VALUE_KEY, b"") if there is not None else b""
        return replace(seen, found=found, held=kubeconfigs.read(value))

    async def _perform(self, outcome: Outcome, plan: Plan) -> bool:
        """Do what is to be done outside of the control plane; whether that ends the pass."""
        seen = outcome.seen
        destination, meta = Destination(seen.user.namespace, seen.cluster, seen.owner), seen.user.metadata
        for step in plan.steps:
            match step:
                case AddFinalizer():
                    await self._set_finalizers(meta, with_finalizer(meta.finalizers, FINALIZER))
                    return True
                case RemoveFinalizer():
                    with MayBeGone(meta.name):
                        left = without_finalizer(meta.finalizers, FINALIZER)
                        await self._set_finalizers(meta, left or None)  # null: none is left
                    return True
                case Issue(because) if outcome.token:
                    text = kubeconfigs.render(
                        seen.cluster,
                        seen.endpoint,
                        seen.found[seen.authority].pair.certificate,
                        identity(seen.user),
                        outcome.token,
                    )
                    there = seen.found.get(seen.secret)
                    replaces = there.metadata if there is not None else None
                    data = {SECRET_VALUE_KEY: text}
                    await self._maker.write(destination, seen.secret, data, replaces, because)
                case Make():
                    await self._maker.perform(destination, [step], seen.found, seen.now)
        return False

    async def _set_finalizers(self, meta: ObjectMeta, finalizers: list[str] | None) -> None:
        key, body = Key(meta.namespace, meta.name), {"metadata": {"finalizers": finalizers}}
        await self._client.patch(CONTROL_PLANE_USER, key, onto(body, meta))

    async def _report(self, seen: Seen, status: ControlPlaneUserStatus) -> None:
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


def connects(seen: Seen) -> bool:
    """Whether what the user has in the control plane is looked at now: only while our finalizer is there."""
    if seen.pause is not None or FINALIZER not in seen.user.metadata.finalizers:
        return False
    return not seen.unreachable and (seen.user.metadata.deleting or not seen.problem)


def unreachable(seen: Seen) -> str:
    """Why nothing is asked of the control plane now, a clause; empty: it can be asked."""
    if seen.family is None:
        return f"there is no NestedControlPlane {seen.user.spec.control_plane_name}"
    plane, server = seen.family.plane, seen.family.components.get(Component.API_SERVER)
    foreign = server is not None and MANAGED_BY_ANNOTATION in server.metadata.annotations
    if plane.status.asleep and not foreign:  # what another program manages may go on
        return f"NestedControlPlane {plane.name} sleeps"
    if seen.family.restore:
        return f"ControlPlaneRestore {seen.family.restore} replaces the data of {plane.name}"
    if seen.administrator not in seen.found:
        return f"there is no Secret {seen.administrator}"
    if server is not None and not server.status.ready and not seen.user.metadata.deleting:
        return f"NestedAPIServer {server.name} is not ready"
    return ""


def wire(environment: Environment, connect: Connect) -> Controller:
    """The controller, with watches on everything that a decision reads of this cluster."""
    caches = Caches(environment.control.caches)
    users = Users(environment, caches, connect)
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

    def of_server(change: Change[Any]) -> Iterable[Key]:
        before, after = change.before(), change.after()
        if before is not None and after is not None and before.status.ready == after.status.ready:
            return ()
        planes = caches.planes.keys_by(BY_COMPONENT, f"{Component.API_SERVER}/{change.key}")
        return {key for plane in planes for key in users.found.keys_by(BY_PLANE, str(plane))}

    controller.watches(caches.planes, of_plane)
    controller.watches(caches.components[Component.API_SERVER], of_server)
    controller.watches(caches.clusters, of_cluster)
    return controller.watches(caches.secrets, of_secret)
