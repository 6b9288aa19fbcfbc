"""One kind of one cluster kept current in memory; and all that a client has, shared and started as needed.

Theory.      ``feed`` asks the server, ``cache`` decides what is kept, and ``Informer`` is the API of the two:
             readers look without waiting, listeners hear of every change. A write of this process is in its
             informers when the call that made it returns. Several namespaces have a feed and a cache each,
             over one store: to readers it is one cache. All callers of ``Informers.get`` for the same kind
             and scope share one informer; it stops when the last of them has released it. Kinds may be known
             only at run time (``api.kinds.dynamic``), and may not exist on the server yet: such an informer
             waits, and begins within seconds of the CRD. A user for a limited time, such as a leader in its
             term, ``borrow``s the informers: its subscriptions end with ``give_back``, and each informer is
             listed anew for it.
Invariants.  Before ``synced`` the informer may show less than there is; after it, never anything
             that was not so on the server. A listener that raises is logged, and the others are still called.
             What readers get is shared and frozen (Structs) or their own (plain dicts).
             A cluster sees one list and one watch per kind and scope, however many controllers use it.
             ``Informers.run`` owns every task; when it ends, none is left.
Called by    ``compose`` and ``runtime.manager``.
"""

import asyncio
from collections.abc import Callable, Iterable
from copy import copy
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast

import structlog

from kubewright.api.kinds import Kind
from kubewright.kube.cache import Cache, Change, Store
from kubewright.kube.client import Client, Written
from kubewright.kube.errors import BadAnswer, TimedOut
from kubewright.kube.feed import Feed
from kubewright.kube.header import Header
from kubewright.kube.reflector import Joint, Visibility
from kubewright.kube.scope import EVERYWHERE, Namespaces, Scope
from kubewright.wire.gvk import Key, Resource
from kubewright.wire.selectors import EVERYTHING, Selector

__all__ = ["Change", "Header", "Informer", "Statistics"]

T = TypeVar("T")

log = structlog.get_logger("kubewright.kube")


@dataclass(frozen=True, slots=True)
class Statistics:
    """A snapshot for people and tests. ``trouble`` is the last failure, empty while all is well."""

    resource: str
    scope: Scope
    synced: bool
    objects: int
    bytes: int
    version: int
    lists: int
    watches: int
    events: int
    failures: int
    trouble: str
    listener_errors: int


class Informer(Generic[T]):
    """Get one from ``Informers.get``."""

    def __init__(self, client: Client, kind: Kind[T], scope: Scope) -> None:
        self.kind = kind
        self.scope = scope
        self._store = Store(kind)
        parts = scope.parts
        self._caches = [Cache(kind, part, self._notify, self._store) for part in parts]
        self._feeds = [
            Feed(client, kind.resource, part, cache) for part, cache in zip(parts, self._caches, strict=True)
        ]
        sights = [each.visibility for each in self._feeds]
        self._visibility = sights[0] if len(sights) == 1 else Joint(sights)
        self._listeners: list[Callable[[Change[T]], None]] = []
        self._listener_errors = 0
        self._unsubscribe: Callable[[], None] = lambda: None

    @property
    def synced(self) -> bool:
        """Whether the first list is complete."""
        return all(each.synced.is_set() for each in self._feeds)

    @property
    def visibility(self) -> Visibility | Joint:
        """Since when the watch sees what happens; for controllers that conclude something from silence."""
        return self._visibility

    def get(self, key: Key) -> T | None:
        """The object, or None; in its deletion, as much of it as can be read.

        Raises:
            Undecodable: it does not have the form of its kind, and lives.
        """
        header = self._store.header(key)
        return None if header is None else self._store.decode(header)

    def header(self, key: Key) -> Header | None:
        """What is known of the object without decoding it, or None."""
        return self._store.header(key)

    def part(self, key: Key) -> T | None:
        """The object, or as much of it as can be read, or None."""
        header = self._store.header(key)
        return None if header is None else self._store.part(header)

    def problem(self, key: Key) -> str:
        """Why the object of this key cannot be read as its kind; empty if it can, or is not there."""
        header = self._store.header(key)
        return self._store.problem(header) if header is not None else ""

    def headers(self) -> Iterable[Header]:
        """Those of all objects; for counting and collecting."""
        return iter(self._store)

    def index(self, name: str, of: Callable[[T], Iterable[str]]) -> None:
        """Declare an index: ``of`` names the values of an object, and is pure.

        Objects that are here already are in it at once. Declaring it again replaces it.
        """
        self._store.index(name, of)

    def by(self, index: str, value: str) -> list[T]:
        """The objects with ``value`` in ``index``, oldest in the cache first.

        ``owner`` (uid of the controlling owner) and ``namespace`` are always there. Of objects that cannot
        be read, what can.

        Raises:
            KeyError: no such index is declared.
        """
        return self._store.by(index, value)

    def keys_by(self, index: str, value: str) -> tuple[Key, ...]:
        """The keys of those objects, in order of arrival; nothing is decoded.

        Raises:
            KeyError: no such index is declared.
        """
        return tuple(self._store.keys_by(index, value))

    def count_by(self, index: str, value: str) -> int:
        """How many they are; this costs the same for one and for ten thousand.

        Raises:
            KeyError: no such index is declared.
        """
        return len(self._store.keys_by(index, value))

    def subscribe(self, listener: Callable[[Change[T]], None]) -> Callable[[], None]:
        """Call ``listener`` with what is here (as new), and then with each change, at once and in order.

        Returns a function that removes it.
        """
        self._listeners.append(listener)
        for header in self._store:
            self._notify_one(listener, Change(header.key, None, header, self._store.part))

        def unsubscribe() -> None:
            if listener in self._listeners:
                self._listeners.remove(listener)

        return unsubscribe

    def view(self) -> "Informer[T]":
        """The same objects, for listeners that are removed all at once by ``close_view``."""
        other = copy(self)
        other._listeners = []
        other._unsubscribe = self.subscribe(other._notify)
        return other

    def close_view(self) -> None:
        """Notify the listeners of this view no more."""
        self._unsubscribe()
        self._listeners.clear()

    async def wait_synced(self, timeout: float) -> None:
        """Wait for the first list.

        Raises:
            TimedOut: it did not come within ``timeout`` seconds; the message says what is wrong.
        """
        try:
            async with asyncio.timeout(timeout):
                for each in self._feeds:
                    await each.synced.wait()
        except TimeoutError:
            why = self._trouble() or "no answer yet"
            raise TimedOut(f"{self.kind.resource} not listed within {timeout:g} s: {why}") from None

    def mark_unsynced(self) -> None:
        """Count as not synced, until ``run`` was started again and has listed everything."""
        for each in self._feeds:
            each.synced.clear()

    async def run(self) -> None:
        """Keep current until cancelled."""
        async with asyncio.TaskGroup() as group:
            for each in self._feeds[1:]:
                group.create_task(each.run(), name=f"feed of {self.kind}")
            await self._feeds[0].run()

    def wrote(self, written: Written) -> None:
        """A write of this process to this kind was acknowledged."""
        try:
            for each in self._caches:
                each.wrote(written)
        except BadAnswer:  # the watch will bring it
            log.warning("answer to a write not understood", object=str(written.key), exc_info=True)

    def statistics(self) -> Statistics:
        """The numbers at this moment."""
        counts = [each.counts for each in self._feeds]
        return Statistics(
            resource=str(self.kind.resource),
            scope=self.scope,
            synced=self.synced,
            objects=len(self._store),
            bytes=self._store.bytes,
            version=max(each.seen for each in self._caches),
            lists=sum(each.lists for each in counts),
            watches=sum(each.watches for each in counts),
            events=sum(each.events for each in counts),
            failures=sum(each.failures for each in counts),
            trouble=self._trouble(),
            listener_errors=self._listener_errors,
        )

    def list(self, namespace: str = "", *, selector: Selector | None = None) -> list[T]:
        """The objects of a namespace (empty: of all) whose labels match.

        Raises:
            Undecodable: one of them cannot be read. Leaving it out would look like its absence.
        """
        return self._store.select(namespace, selector or EVERYTHING)

    def _trouble(self) -> str:
        """The last failure of a watch that has not recovered; empty while all is well."""
        return next((each.counts.trouble for each in self._feeds if each.counts.trouble), "")

    def _notify(self, change: Change[T]) -> None:
        for listener in tuple(self._listeners):
            self._notify_one(listener, change)

    def _notify_one(self, listener: Callable[[Change[T]], None], change: Change[T]) -> None:
        try:
            listener(change)
        except Exception:
            self._listener_errors += 1
            log.exception("a listener failed", resource=str(self.kind.resource), object=str(change.key))


@dataclass(slots=True)
class _Shared:
    """An informer, how many callers of ``get`` still use it, and the task that runs it."""

    informer: Informer[Any]
    holders: int = 0
    task: asyncio.Task[None] | None = None


class Informers:
    """The informers of one client. ``only`` limits all namespaced kinds to these namespaces."""

    def __init__(
        self,
        client: Client,
        *,
        only: Namespaces = EVERYWHERE,
        lender: "Informers | None" = None,
        anew: bool = True,
    ) -> None:
        self.client = client
        self._only = only
        self._lender = lender
        self._anew = anew
        self._shared: dict[tuple[Kind[Any], Scope], _Shared] = {}
        self._of: dict[Resource, list[Informer[Any]]] = {}
        self._group: asyncio.TaskGroup | None = None
        client.on_write(self._wrote if lender is None else lender._wrote)

    def get(
        self, kind: Kind[T], *, namespace: str | None = None, labels: str = "", fields: str = ""
    ) -> Informer[T]:
        """The informer of a kind; ``release`` it when it is no longer needed.

        Args:
            kind: the kind of the objects.
            namespace: only in this one; empty means all; None means the namespaces of these informers.
            labels: a label selector, as kubectl writes it.
            fields: a field selector.
        """
        return self._get(kind, self._scope(kind, namespace, labels, fields))

    def _scope(self, kind: Kind[T], namespace: str | None, labels: str, fields: str) -> Scope:
        if not kind.resource.namespaced:
            return Scope("", labels, fields)
        return self.scope(labels, fields) if namespace is None else Scope(namespace, labels, fields)

    def scope(self, labels: str = "", fields: str = "") -> Scope:
        """What these informers hold of a namespaced kind."""
        named = self._only.named
        if len(named) == 1:
            return Scope(named[0], labels, fields)
        return Scope("", labels, fields, self._only)

    def _get(self, kind: Kind[T], scope: Scope) -> Informer[T]:
        shared = self._shared.get((kind, scope))
        if shared is None:
            shared = self._shared[kind, scope] = _Shared(self._made(kind, scope))
            self._of.setdefault(kind.resource, []).append(shared.informer)
            self._start(shared)
        shared.holders += 1
        return cast("Informer[T]", shared.informer)

    def existing(self, kind: Kind[T]) -> Informer[T]:
        """The informer of a kind that ``get`` has returned and that is still in use, in whichever scope.

        Raises:
            KeyError: there is none.
        """
        for (known, _), shared in self._shared.items():
            if known == kind:
                return cast("Informer[T]", shared.informer)
        raise KeyError(str(kind))

    def release(self, informer: Informer[Any]) -> None:
        """Release an informer that ``get`` returned, once for each ``get``."""
        place = (informer.kind, informer.scope)
        shared = self._shared[place]
        shared.holders -= 1
        if shared.holders == 0:
            self._drop(shared)

    def borrow(self, client: Client, *, anew: bool = True) -> "Informers":
        """The same caches for a user with a client of its own; ``give_back`` ends what it subscribed to.

        Each informer is listed anew for it, since a new leader must know what others wrote before its term;
        unless ``anew`` is False, because these caches were filled in its term.
        """
        return Informers(client, only=self._only, lender=self, anew=anew)

    def give_back(self) -> None:
        """Release all informers at once."""
        for shared in tuple(self._shared.values()):
            self._drop(shared)

    async def run(self) -> None:
        """Keep all informers current, also those asked for later, until cancelled."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            try:
                for shared in self._shared.values():
                    self._start(shared)
                await asyncio.Event().wait()
            finally:
                self._group = None

    async def wait_synced(self, timeout: float) -> None:
        """Wait until every informer asked for so far has its first list.

        Raises:
            TimedOut: some have not within ``timeout`` seconds; the message says which, and why.
        """
        clock = self.client.clock
        deadline = clock.monotonic() + timeout
        late: list[str] = []
        for shared in tuple(self._shared.values()):
            try:
                await shared.informer.wait_synced(max(0.0, deadline - clock.monotonic()))
            except TimedOut as error:
                late.append(str(error))
        if late:
            raise TimedOut(f"{self.client.name}: {'; '.join(late)}")

    def statistics(self) -> list[Statistics]:
        """The numbers of each informer at this moment."""
        return [shared.informer.statistics() for shared in self._shared.values()]

    def _made(self, kind: Kind[T], scope: Scope) -> Informer[T]:
        if self._lender is None:
            return Informer(self.client, kind, scope)
        origin = self._lender._get(kind, scope)
        known = self._lender._shared[kind, scope]
        if self._anew and known.holders > 1:
            self._lender._relist(known)
        return origin.view()

    def _drop(self, shared: _Shared) -> None:
        informer = shared.informer
        place = (informer.kind, informer.scope)
        del self._shared[place]
        self._of[informer.kind.resource].remove(informer)
        if shared.task is not None:
            shared.task.cancel()
        if self._lender is not None:
            informer.close_view()
            self._lender.release(self._lender._shared[place].informer)

    def _relist(self, shared: _Shared) -> None:
        shared.informer.mark_unsynced()
        if shared.task is not None:
            shared.task.cancel()
        self._start(shared)

    def _start(self, shared: _Shared) -> None:
        if self._group is not None:
            name = f"informer {self.client.name} {shared.informer.kind}"
            shared.task = self._group.create_task(shared.informer.run(), name=name)

    def _wrote(self, written: Written) -> None:
        for informer in tuple(self._of.get(written.resource, ())):
            informer.wrote(written)
