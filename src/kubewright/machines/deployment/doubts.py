"""What a deployment cannot know yet, and how it finds out before it decides anything.

Theory.      Sizes of several sets go together, so a decision on a picture that is known to be old can
             break a bound. After a write that was refused as outdated, or that nobody answered, the
             cache may be behind it; until it has caught up, the deployment waits. A creation that
             nobody answered is worse, since it may still happen: it is asked for once more, by the same
             name and with no machines. Now the set exists, or the answer says that it did already.
             Every write is in doubt from before it is sent, so that a deadline or our own cancellation
             leaves the doubt too; one whose answer came is in the cache, and settles at no cost.
Invariants.  At most one doubt for a deployment: a pass that leaves one ends. After ``DOUBT_SECONDS`` no
             request of ours is on its way any more, whatever became of it.
Called by    ``reconciler.MachineDeployments`` before each look; ``act.Actor`` before and after each write.
"""

from dataclasses import dataclass
from typing import Any

from msgspec import structs

from kubewright.api.kinds import Kind
from kubewright.api.machine.v1alpha1 import MACHINE_SET, MachineDeployment, MachineSet
from kubewright.api.meta import KubeObject
from kubewright.base.errors import After, KubewrightError, Retry
from kubewright.kube.client import Client
from kubewright.kube.errors import unanswered
from kubewright.kube.informer import Informer
from kubewright.wire.errors import AlreadyExists, NotFound
from kubewright.wire.gvk import Key

DOUBT_SECONDS = 60.0
"""For how long a creation that nobody answered may still happen."""


class Stale(KubewrightError):
    """What was read is no longer what is there, or may not be: end the pass and look again."""

    retry: Retry = After(0.05)


@dataclass(frozen=True, slots=True)
class Written:
    """A write to an object of this version: done, refused as outdated, or not answered."""

    kind: Kind[Any]
    key: Key
    version: str


@dataclass(frozen=True, slots=True)
class Asked:
    """The creation of a set: it exists, or may come to exist until ``until`` (monotonic seconds)."""

    machine_set: MachineSet
    until: float

    @property
    def key(self) -> Key:
        return Key(self.machine_set.namespace, self.machine_set.name)


class Doubts:
    """The doubts of all deployments; a new process has none, and begins with a fresh list of everything."""

    def __init__(
        self, client: Client, deployments: Informer[MachineDeployment], sets: Informer[MachineSet]
    ) -> None:
        self._client = client
        self._deployments = deployments
        self._sets = sets
        self._open: dict[Key, Written | Asked] = {}

    def writing(self, deployment: Key, kind: Kind[Any], read: KubeObject) -> None:
        """A write onto exactly what was read is about to be sent."""
        key = Key(read.namespace, read.name)
        self._open[deployment] = Written(kind, key, read.metadata.resource_version)

    def asking(self, deployment: Key, machine_set: MachineSet) -> None:
        """The creation of this set is about to be sent."""
        until = self._client.clock.monotonic() + DOUBT_SECONDS
        self._open[deployment] = Asked(machine_set, until)

    def failed(self, deployment: Key, error: KubewrightError) -> None:
        """What was sent last ended so."""
        if not unanswered(error):
            self.settled(deployment)

    def settled(self, deployment: Key) -> None:
        """What was sent last did nothing, and will not."""
        self._open.pop(deployment, None)

    async def settle(self, deployment: Key) -> None:
        """Return when the caches show what came of everything that this deployment has written.

        Raises:
            Stale: they do not yet.
            KubewrightError: nobody could be asked.
        """
        match self._open.get(deployment):
            case Written() as doubt:
                await self._catch_up(doubt)
            case Asked() as doubt:
                await self._ask_again(doubt)
        self.settled(deployment)

    async def _catch_up(self, doubt: Written) -> None:
        cache: Informer[Any] = self._sets if doubt.kind is MACHINE_SET else self._deployments
        header = cache.header(doubt.key)
        if header is None or str(header.version) != doubt.version:
            return
        try:
            live = await self._client.get(doubt.kind, doubt.key)
        except NotFound:
            raise Stale(f"the cache does not show yet that {doubt.key} is gone") from None
        if live.metadata.resource_version != doubt.version:
            raise Stale(f"the cache does not show yet what {doubt.key} is now")

    async def _ask_again(self, doubt: Asked) -> None:
        late = self._client.clock.monotonic() >= doubt.until
        if late or self._sets.header(doubt.key) is not None:
            return
        asked = doubt.machine_set
        empty = structs.replace(asked, spec=structs.replace(asked.spec, replicas=0))
        try:
            await self._client.create(MACHINE_SET, empty)
        except AlreadyExists:
            raise Stale(f"the cache does not show yet that {doubt.key} was made") from None
