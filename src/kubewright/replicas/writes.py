"""Many writes of one kind at once, within bounds; and writes whose effect is not known yet (*doubts*).

Many.        An effect returns None, or the error that it ended with. ``slow_start`` doubles its batches from
             one while all is well and ends with the first batch that had an error: five hundred machines
             that a quota forbids cost one refused request, not five hundred.
Doubts.      Every creation, and every patch of a deployment or of its sets, is in doubt from before it is
             sent, so that a deadline or our own cancellation leaves the doubt too. Once it is answered the
             cache shows it, and the doubt is resolved at no cost.
             A creation without an answer may still happen. A member that was asked for keeps its name, and is
             asked for again by that name before any other; it counts for its deployment as if it existed
             (``Creations``). A set that was asked for is asked for once more, by the same name and with no
             members: now it exists, or the answer says that it did already.
             Sizes of several sets go together, so a decision on a view that is known to be old can
             break a bound. After a write that met a ``Conflict``, or that was not answered, the cache may be
             behind the server; until it has caught up, the deployment waits (``Doubts``).
Invariants.  No effect outlives the call; a cancelled call cancels its effects. At most one doubt for a
             deployment: a pass that leaves one ends. After ``DOUBT_SECONDS`` no request of ours is on its way
             any more, whatever became of it.
Called by    ``set`` and ``deployment``: before each look, before and after each write. ``members`` keeps the
             ``Creations``, so that sets and deployments share them.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from kubewright.api.kinds import Kind
from kubewright.api.meta import Object
from kubewright.base import delays
from kubewright.base.errors import KubewrightError, Retry
from kubewright.base.limits import DOUBT_SECONDS
from kubewright.kube.client import Client
from kubewright.kube.errors import unanswered
from kubewright.kube.informer import Informer
from kubewright.replicas.objects import NotCreated, SetObject, key_of, with_replicas
from kubewright.runtime.kernel import side_by_side
from kubewright.wire.errors import AlreadyExists, ApiError, NotFound, is_stale
from kubewright.wire.gvk import Key

T = TypeVar("T")
Effect = Callable[[T], Awaitable[KubewrightError | None]]


async def may_adopt(client: Client, kind: Kind[Any], owner: Object) -> bool:
    """Ask the server: an owner that is gone or is being deleted adopts nothing.

    Raises:
        ApiError, TransportError: the server did not say whether there is one.
    """
    try:
        live = await client.get(kind, key_of(owner))
    except NotFound as error:
        if not error.names(owner.metadata.name):
            raise
        return False
    return live.metadata.uid == owner.metadata.uid and not live.metadata.deleting


async def error_of(call: Awaitable[Any]) -> KubewrightError | None:
    """The error that a call ends with; None when it worked."""
    try:
        await call
    except KubewrightError as error:
        return error
    return None


def stale_or(error: KubewrightError | None, what: str) -> KubewrightError | None:
    """The error of a write; ``Stale``, which names ``what``, where it only says that the cache is behind."""
    if error is not None and is_stale(error):
        return Stale(f"{what} is no longer the one that was seen")
    return error


async def slow_start(items: Sequence[T], effect: Effect[T]) -> list[KubewrightError]:
    """Batches of 1, 2, 4, 8 … with a bounded number in flight; the errors of the last batch."""
    done, size = 0, 1
    while done < len(items):
        if errors := await run_parallel(items[done : done + size], effect):
            return errors
        done, size = done + size, size * 2
    return []


async def run_parallel(items: Sequence[T], effect: Effect[T]) -> list[KubewrightError]:
    """As ``kernel.side_by_side``: the errors alone, in the order of the items."""
    return [error for error in await side_by_side(items, effect) if error is not None]


class Stale(KubewrightError):
    """What was read is no longer what is there, or may not be: end the pass and look again."""

    retry: Retry = delays.BEHIND


@dataclass(frozen=True, slots=True)
class Written:
    """A write to an object of this version: it was done, met a ``Conflict``, or was not answered."""

    kind: Kind[Any]
    key: Key
    version: str


@dataclass(frozen=True, slots=True)
class SetCreation:
    """The creation of a set: it was created, or may still be until ``until`` (monotonic seconds)."""

    new: SetObject
    until: float


class Creations:
    """The creations of members that were not answered, by the uid of their set; a new process has none."""

    def __init__(self) -> None:
        self._asked: dict[str, dict[str, float]] = {}
        """Names, with the time of the last attempt in monotonic seconds."""

    def creating(self, owner: str, name: str, now: float) -> bool:
        """The creation of this member is about to be sent. Returns whether it was in doubt before."""
        asked = self._asked.setdefault(owner, {})
        before = name in asked
        asked[name] = now
        return before

    def resolved(self, owner: str, name: str) -> None:
        """The member exists and is seen, or it does not and will not."""
        self._asked.get(owner, {}).pop(name, None)

    def open(self, owner: str) -> tuple[str, ...]:
        """The names that are in doubt, in the order in which they came to be so."""
        return tuple(self._asked.get(owner, ()))

    def expire(self, owner: str, now: float) -> None:
        """Drop the doubts so old that no request for them can still be on its way."""
        since = now - DOUBT_SECONDS
        for name in [name for name, asked in self._asked.get(owner, {}).items() if asked <= since]:
            self.resolved(owner, name)

    def forget(self, owner: str) -> None:
        """The set is gone."""
        self._asked.pop(owner, None)


class Doubts:
    """The doubts of all deployments; a new process has none, and begins with a fresh list of everything."""

    def __init__(self, client: Client, deployments: Informer[Any], sets: Informer[Any]) -> None:
        self._client = client
        self._deployments = deployments
        self._sets = sets
        self._open: dict[Key, Written | SetCreation] = {}

    def writing(self, deployment: Key, kind: Kind[Any], read: Object) -> None:
        """A write onto exactly what was read is about to be sent."""
        self._open[deployment] = Written(kind, key_of(read), read.metadata.resource_version)

    def creating(self, deployment: Key, new: SetObject) -> None:
        """The creation of this set is about to be sent."""
        self._open[deployment] = SetCreation(new, self._client.clock.monotonic() + DOUBT_SECONDS)

    def failed(self, deployment: Key, error: KubewrightError) -> None:
        """The last write failed with this error."""
        if not unanswered(error):
            self.resolved(deployment)

    def resolved(self, deployment: Key) -> None:
        """The effect of the last write is known: the caches show it, or it had none."""
        self._open.pop(deployment, None)

    def open(self, deployment: Key, uid: str) -> bool:
        """Whether the server has to be asked what came of the last write of the deployment of this uid. What
        the caches show, or what cannot come any more, is resolved."""
        match self._open.get(deployment):
            case Written(key=key, version=version) as doubt:
                header = self._cache_of(doubt).header(key)
                asked = header is not None and str(header.version) == version
            case SetCreation(new, until) if _belongs_to(new, uid):
                expired = self._client.clock.monotonic() >= until
                asked = not expired and self._sets.header(key_of(new)) is None
            case _:
                asked = False
        if not asked:
            self.resolved(deployment)
        return asked

    async def resolve(self, deployment: Key, uid: str) -> NotCreated | None:
        """Return when the caches show what came of everything that the deployment of this uid has written.

        Returns:
            The set that may still come, though the server refuses to create it now; else None.

        Raises:
            Stale: the caches do not show it yet.
            KubewrightError: the server could not be asked.
        """
        if not self.open(deployment, uid):
            return None
        match self._open[deployment]:
            case Written() as doubt:
                await self._catch_up(doubt)
            case SetCreation(new):
                try:
                    await self._ask_again(new)
                except ApiError as error:
                    return NotCreated(new, error)
        self.resolved(deployment)
        return None

    async def _catch_up(self, doubt: Written) -> None:
        try:
            live = await self._client.get(doubt.kind, doubt.key)
        except NotFound as error:
            if not error.names(doubt.key.name):
                raise
            raise Stale(f"the cache does not show yet that {doubt.key} is gone") from None
        if live.metadata.resource_version != doubt.version:
            raise Stale(f"the cache does not show yet what {doubt.key} is now")

    async def _ask_again(self, new: SetObject) -> None:
        try:
            await self._client.create(self._sets.kind, with_replicas(new, 0))
        except AlreadyExists:
            raise Stale(f"the cache does not show yet that {key_of(new)} was created") from None

    def _cache_of(self, doubt: Written) -> Informer[Any]:
        return self._sets if doubt.kind is self._sets.kind else self._deployments


def _belongs_to(new: SetObject, uid: str) -> bool:
    """Whether it is the deployment of this uid that wants a set; one of its name may have been made since."""
    owner = new.metadata.controller
    return owner is not None and owner.uid == uid
