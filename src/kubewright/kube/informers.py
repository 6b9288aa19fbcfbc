"""All informers of one client: shared, counted, started and stopped as they are needed.

Theory.      All callers of ``get`` for the same kind and scope share one informer; it stops when the last
             of them has released it. Kinds may be known only at run time (``api.kinds.dynamic``), and may
             not exist on the server yet: such an informer waits, and begins within seconds of the CRD.
             A user for a limited time, such as a leader in its term, ``borrow``s the informers: its
             subscriptions end with ``give_back``, and each informer is listed anew for it.
Invariants.  A cluster sees one list and one watch per kind and scope, however many controllers use it.
             ``run`` owns every task; when it ends, none is left.
Called by    ``compose`` and ``runtime.manager``.
"""

import asyncio
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from kubewright.api.kinds import Kind
from kubewright.kube.client import Client, Written
from kubewright.kube.errors import TimedOut
from kubewright.kube.informer import Informer, Statistics
from kubewright.kube.namespaces import EVERYWHERE, Namespaces
from kubewright.kube.scope import Scope
from kubewright.wire.gvk import Resource

T = TypeVar("T")


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
