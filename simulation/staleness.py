"""Which versions managers have received, and so how stale the state may be that they act upon.

Theory.      A manager may do what was right in the state that it last received, and in no older one. How
             old that state is, is measured also when a watch is silent, slow or cut, or a list is stale:
             every version that reaches a manager passes ``Received``, every version that exists is an entry,
             and a manager is stale since the first one that it has not received. Its writes take
             time too: a write is as old as the decision behind it, that is, as the first of the
             writes that were sent one after the other, without a moment in between.
Invariants.  ``since`` is exact up to ``SLACK_SECONDS``: passes that were under way when a change arrived.
             A manager cannot notice any of this.
Called by    ``managers`` (wraps each connection in ``Received``), ``world`` (reports entries and requests),
             ``rules``.
"""

import re
from bisect import bisect_right
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from dataclasses import dataclass, field

from kubewright.kube.transport import Transport
from kubewright.wire.http import Request, Response
from simulation.journal import (
    MACHINE_DEPLOYMENTS,
    MACHINE_SETS,
    MACHINES,
    NODES,
    Write,
)
from simulation.loop import Process
from simulation.network import READS

SLACK_SECONDS = 1.0
"""From the moment in which a manager receives a change to the last write of a pass that did not know it:
a few round trips of at most 6 ms, and their queues."""

LATE_SECONDS = 0.05
"""Changes that take longer than this are late: two legs of a watch, and its server's turn, take far less."""

CONTROL = {resource.partition(".")[0]: resource for resource in (MACHINES, MACHINE_SETS, MACHINE_DEPLOYMENTS)}
"""By the end of a path: the resources of the machines' cluster on which managers base decisions."""
TARGET = {NODES: NODES}
"""The same, from the nodes' cluster."""

Duty = tuple[Process, str]

_VERSION = re.compile(rb'"resourceVersion":"(\d+)"')


@dataclass(slots=True)
class _Versions:
    """When each version of one resource was written."""

    versions: list[int] = field(default_factory=list)
    moments: list[float] = field(default_factory=list)

    def after(self, version: int) -> float | None:
        """When the first version after this one was written; None if there is none."""
        place = bisect_right(self.versions, version)
        return self.moments[place] if place < len(self.moments) else None


@dataclass(slots=True)
class _Write:
    """One write: when the pass began that sent it, and when it reached the server, if it has."""

    request: Request
    origin: float
    arrived: float | None = None


class Staleness:
    """For one world. ``duties`` answers which managers may act now, each on which resource."""

    def __init__(self, now: Callable[[], float], duties: Callable[[], Iterable[Duty]]) -> None:
        self._now = now
        self._duties = duties
        self._written = {resource: _Versions() for resource in (*CONTROL.values(), *TARGET.values())}
        self._known: dict[Process, dict[str, int]] = {}
        self._writes: dict[int, _Write] = {}
        """By the request's identity, until the server has answered it."""
        self._inside: dict[int, _Write] = {}
        """Those that the server is carrying out."""
        self._ended: dict[Process, tuple[float, float]] = {}
        """By process: when a write last ended, and when its pass had begun."""
        self._stale = (0.0, -SLACK_SECONDS)
        """The last time in which a manager was stale: from when, and until when."""

    def learn(self, write: Write) -> None:
        """Note a change that managers should receive."""
        if write.committed and write.kind in self._written:
            written = self._written[write.kind]
            written.versions.append(write.number)
            written.moments.append(self._now())

    def received(self, process: Process, resource: str, version: int) -> None:
        """A manager has received all changes of this resource up to a version."""
        known = self._known.setdefault(process, {})
        if (process, resource) in self._duties():
            self._stale_since(self._first_unknown(resource, known.get(resource)))
        known[resource] = version

    def since(self) -> float:
        """No manager acts on a state that ended before this moment."""
        for process, resource in self._duties():
            if (version := self._known.get(process, {}).get(resource)) is not None:
                self._stale_since(self._first_unknown(resource, version))
        for identity, write in tuple(self._inside.items()):
            if write.arrived is not None and self._now() - write.arrived > SLACK_SECONDS:
                del self._inside[identity]  # the server was killed meanwhile
            else:
                self._stale_since(write.origin)
        began, ended = self._stale
        recent = self._now() - SLACK_SECONDS
        return min(recent, began - SLACK_SECONDS) if ended >= recent else recent

    # ------------------------------------------------------------ writes and their age

    def sends(self, process: Process, request: Request) -> None:
        """A manager begins a write: of the same pass as one that ended in this very moment.

        A write that the server refused for a moment (429) is sent again by the client; it is the same write.
        """
        now = self._now()
        if id(request) in self._writes:
            return
        at, origin = self._ended.get(process, (-1.0, 0.0))
        self._writes[id(request)] = _Write(request, origin if at == now else now)

    def has_sent(self, process: Process, request: Request) -> None:
        """The manager has its answer, or has given up; the write itself may still be on its way."""
        write = self._writes.get(id(request))
        if write is None:
            return
        at, origin = self._ended.get(process, (-1.0, 0.0))
        self._ended[process] = (
            self._now(),
            min(origin, write.origin) if at == self._now() else write.origin,
        )
        if write.arrived is not None and id(request) not in self._inside:
            del self._writes[id(request)]

    def arrives(self, _client: str, request: Request) -> None:
        """A server begins with a request."""
        if (write := self._writes.get(id(request))) is not None:
            write.arrived = self._now()
            self._inside[id(request)] = write

    def is_done(self, _client: str, request: Request, _response: Response) -> None:
        """A server has carried out a request."""
        self._inside.pop(id(request), None)

    def _first_unknown(self, resource: str, version: int | None) -> float:
        """When the first change was written that the manager has not received; it begins with a list."""
        found = self._written[resource].after(version) if version is not None else None
        return self._now() if found is None else found

    def _stale_since(self, moment: float) -> None:
        now, (began, ended) = self._now(), self._stale
        if now - moment > LATE_SECONDS:
            self._stale = (min(began, moment) if now - ended <= SLACK_SECONDS else moment, now)


class Received:
    """A manager's connection: notes every version that passes.

    ``resources`` are those of ``CONTROL`` and ``TARGET`` that the server on the other side has.
    """

    def __init__(
        self, inner: Transport, staleness: Staleness, process: Process, resources: Mapping[str, str]
    ) -> None:
        self._inner = inner
        self._staleness = staleness
        self._process = process
        self._resources = resources

    async def request(self, request: Request, *, timeout: float) -> Response:
        """As ``Transport.request``."""
        if request.method not in READS:
            self._staleness.sends(self._process, request)
            try:
                return await self._inner.request(request, timeout=timeout)
            finally:
                self._staleness.has_sent(self._process, request)
        response = await self._inner.request(request, timeout=timeout)
        if response.status < 400 and (resource := self._listed(request)):
            self._note(resource, response.body[:1000])  # a list's own version comes before its items
        return response

    def stream(self, request: Request) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """As ``Transport.stream``."""
        return self._stream(request)

    @asynccontextmanager
    async def _stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        resource = self._listed(request)
        async with self._inner.stream(request) as chunks:
            if not resource:
                yield chunks
                return
            async with aclosing(self._listen(chunks, resource)) as noted:
                yield noted

    async def _listen(self, chunks: AsyncIterator[bytes], resource: str) -> AsyncGenerator[bytes, None]:
        async for chunk in chunks:
            self._note(resource, chunk[: chunk.rfind(b"\n") + 1], last=True)
            yield chunk

    async def close(self) -> None:
        """As ``Transport.close``."""
        await self._inner.close()

    def _note(self, resource: str, text: bytes, *, last: bool = False) -> None:
        versions = _VERSION.findall(text)
        if versions:
            self._staleness.received(
                self._process, resource, max(map(int, versions)) if last else int(versions[0])
            )

    def _listed(self, request: Request) -> str:
        """The resource that is listed or watched as a whole, if managers base decisions on it.

        None of what asks for metadata alone does (the garbage collector): the same process reads the
        resource twice then, and may know in one place what it does not know in the other.
        """
        if "as=PartialObjectMetadata" in request.headers.get("accept", ""):
            return ""
        return self._resources.get(request.path.rpartition("/")[2], "")
