"""Delete, after a restore, what users have in a control plane whose ControlPlaneUsers are deleted.

Theory.      A restore brings back all data of an earlier moment, so also the accounts of users that were
             deleted since; and their tokens, which have not expired, would be good again. So after a restore
             each account with our label is looked up, and deleted where no ControlPlaneUser of that control
             plane wants one. An account whose ControlPlaneUser exists is looked at by ``wiring``.
Invariants.  Nothing is remembered: as long as a token from before the restore can be good, the control plane
             is looked at again each hour, when it becomes ready, and when a pause ends.
Source       decision 0038.
Called by    ``runtime.controller``; wired by ``controlplanes.wiring``.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import structlog

from kubewright.api.cluster.names import KUBECONFIG_SUFFIX, SECRET_VALUE_KEY
from kubewright.api.controlplane.names import USER_LABEL
from kubewright.api.controlplane.snapshots import CONTROL_PLANE_RESTORE
from kubewright.api.controlplane.v1alpha4 import CONTROL_PLANE_USER, Credential, NestedControlPlane
from kubewright.api.controlplane.validate import MOST_LIFETIME
from kubewright.base.delays import DATED, UNHEARD
from kubewright.base.plan import Plan
from kubewright.controlplanes.caches import Caches
from kubewright.controlplanes.certificates.look import Reader
from kubewright.controlplanes.family import Pause, pause_of
from kubewright.controlplanes.users.connection import Connect, Connections, revoke
from kubewright.controlplanes.users.seen import ACCOUNT, ACCOUNT_PREFIX, NAMESPACE
from kubewright.kube.client import Client
from kubewright.kube.informer import Change
from kubewright.runtime.controller import Controller
from kubewright.runtime.credentials.values import Found
from kubewright.runtime.kernel import Effect, ObjectReconciler, Outcome
from kubewright.runtime.result import Result
from kubewright.runtime.world import Environment
from kubewright.wire.errors import ApiError
from kubewright.wire.gvk import Key

CONTROLLER = "restoredusers"

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Restored:
    """A control plane that was restored.

    ``pause``   by what it is paused; None: it is not
    ``secret``  the name of the Secret of its administrator's kubeconfig; ``found``: None, there is none
    """

    plane: NestedControlPlane
    pause: Pause | None
    secret: str
    found: Found | None


@dataclass(frozen=True, slots=True)
class Clean:
    """Delete what users have there that are not wanted any more."""

    kubeconfig: bytes = field(repr=False)
    secret: str


def decide(seen: Restored | None) -> Plan[Clean] | None:
    """What to do now; None: it was not restored."""
    if seen is None:
        return None
    if seen.pause is not None:
        return Plan(wake=DATED, because=f"paused: {seen.pause.because}")
    status = seen.plane.status
    if not status.ready or seen.found is None:
        missing = "it is not ready" if not status.ready else f"there is no Secret {seen.secret}"
        because = f"it was restored, and its users cannot be looked at: {missing}"
        return Plan(wake=None if status.asleep else UNHEARD, because=because)
    kubeconfig = seen.found.contents.get(SECRET_VALUE_KEY, b"")
    return Plan(
        (Clean(kubeconfig, seen.secret),), DATED, "it was restored, and has only users that are wanted"
    )


class RestoredUsers(ObjectReconciler[NestedControlPlane, Restored | None, Plan[Clean]]):
    """The reconciler of the users of NestedControlPlanes that were restored."""

    def __init__(self, environment: Environment, caches: Caches, connect: Connect) -> None:
        client, informers = environment.control.client, environment.control.caches
        super().__init__(client, caches.planes, environment.recorder)
        self._caches = caches
        self._reader = Reader(informers)
        self._connections = Connections(client.clock, connect, environment.entitled)
        self._users = informers.get(CONTROL_PLANE_USER)
        self.restores = informers.get(CONTROL_PLANE_RESTORE)

    async def look(self, found: NestedControlPlane) -> Restored | None:
        """Read one control plane, and its administrator's Secret; None: it was not restored."""
        if found.metadata.deleting or not self._was_restored(found):
            return None
        family = self._caches.family_of(found)
        pause, secret = pause_of(found.metadata, found, family.cluster), f"{family.name}{KUBECONFIG_SUFFIX}"
        there = await self._reader.read(found.namespace, (secret,)) if pause is None else {}
        return Restored(found, pause, secret, there.get(secret))

    def decide(self, seen: Restored | None) -> Plan[Clean] | None:
        """As the function of this name."""
        return decide(seen)

    def act(self, seen: Restored | None, step: Clean, outcome: Outcome) -> Effect:
        """The one step that there is."""
        assert seen is not None, "a plan is about a control plane that was restored"
        return self._cleaned(seen.plane, step)

    def refused(self, about: NestedControlPlane, error: ApiError) -> Result:
        """One of the API servers said no: the error says when it is asked again.

        Raises:
            ApiError: always.
        """
        raise error

    async def _cleaned(self, plane: NestedControlPlane, step: Clean) -> None:
        """Connect, and delete.

        Raises:
            ApiError, TransportError: the API server of the control plane said no, or could not be asked.
            InvalidInput: the kubeconfig of the control plane is none.
        """
        async with self._connections.open(step.kubeconfig, step.secret) as client:
            await self._clean(client, plane)

    def _was_restored(self, plane: NestedControlPlane) -> bool:
        """Whether a token from before a restore of it can be good. A restore may not name what it is of."""
        since = self.client.clock.now() - MOST_LIFETIME
        return any(
            each.status.replaced_at is not None
            and each.status.replaced_at > since
            and each.spec.control_plane_name in ("", plane.name)
            for each in self.restores.list(plane.namespace)
        )

    async def _clean(self, client: Client, plane: NestedControlPlane) -> None:
        wanted = {
            each.name
            for each in self._users.list(plane.namespace)
            if each.spec.control_plane_name == plane.name and each.spec.credential != Credential.CERTIFICATE
        }
        for each in await client.list(ACCOUNT, NAMESPACE, labels=USER_LABEL):
            user = str(each["metadata"]["name"]).removeprefix(ACCOUNT_PREFIX)
            if user not in wanted:
                log.info("a restore has brought back a user", control_plane=plane.name, user=user)
                await revoke(client, user)


def wire(environment: Environment, connect: Connect) -> Controller:
    """The controller, with watches on everything that a pass reads of this cluster."""
    caches = Caches(environment.control.caches)
    restored = RestoredUsers(environment, caches, connect)
    controller = Controller(CONTROLLER, restored, environment.clock, metrics=environment.metrics)

    def of_restore(change: Change[Any]) -> Iterable[Key]:
        return [Key(each.namespace, each.name) for each in caches.planes.list(change.key.namespace)]

    def of_plane(change: Change[NestedControlPlane]) -> Iterable[Key]:
        before, after = change.before(), change.after()
        same = before is not None and after is not None and _read(before) == _read(after)
        return () if same else (change.key,)

    controller.watches(caches.clusters, caches.planes_of_cluster)
    controller.watches(caches.planes, of_plane)
    return controller.watches(restored.restores, of_restore)


def _read(plane: NestedControlPlane) -> tuple[object, ...]:
    """What a pass reads of a control plane that changes: whether it is ready, paused, or being deleted."""
    return plane.status.ready, plane.metadata.annotations, plane.metadata.deleting
