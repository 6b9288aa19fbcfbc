"""What managers have been told, and so how old the world may be that they act upon.

Theory.      A manager may do what was right in the world that it last heard of, and no older one. Nobody
             has to guess how old that is when a watch is silent, slow or cut, or a list is of yesterday:
             every version that reaches a manager passes ``Told``, every version that exists is a step,
             and the first step that the manager that works has not heard of began its ignorance. What it
             sends takes its time too: a write is as old as the decision behind it, that is, as the
             first of the writes that were sent one after the other, without a moment in between.
Invariants.  ``since`` is exact up to ``SLACK_SECONDS``: passes that were under way when news came.
             Nothing of it can be felt by the manager.
Called by    ``managers`` (puts ``Told`` on each line), ``run`` (tells of the steps), ``invariants``.
"""

import re
from bisect import bisect_right
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from dataclasses import dataclass, field

from kubewright.kube.transport import Transport
from kubewright.testing.simulation.journal import (
    MACHINE_DEPLOYMENTS,
    MACHINE_SETS,
    MACHINES,
    NODES,
    ApiStep,
    Step,
)
from kubewright.testing.simulation.loop import Process
from kubewright.testing.simulation.network import READS
from kubewright.wire.http import Request, Response

SLACK_SECONDS = 1.0
"""From the moment in which a manager hears of something to the last write of a pass that did not know it:
a few round trips of at most 6 ms, and their queues."""

LATE_SECONDS = 0.05
"""News that take longer than this are late: two legs of a watch, and its server's turn, take far less."""

CONTROL = {resource.partition(".")[0]: resource for resource in (MACHINES, MACHINE_SETS, MACHINE_DEPLOYMENTS)}
"""By the end of a path: what managers hear of from the machines' cluster that decides something."""
TARGET = {NODES: NODES}
"""The same, from the nodes' cluster."""

Duty = tuple[Process, str]

_VERSION = re.compile(rb'"resourceVersion":"(\d+)"')


@dataclass(slots=True)
class _Past:
    """When each version of one resource came to be."""

    versions: list[int] = field(default_factory=list)
    moments: list[float] = field(default_factory=list)

    def after(self, version: int) -> float | None:
        """When the first version after this one came; None if there is none."""
        place = bisect_right(self.versions, version)
        return self.moments[place] if place < len(self.moments) else None


@dataclass(slots=True)
class _Errand:
    """One write: when the pass began that sent it, and when it reached the server, if it has."""

    request: Request
    origin: float
    arrived: float | None = None


class News:
    """For one world. ``duties`` answers which managers may act now upon what they heard of which resource."""

    def __init__(self, now: Callable[[], float], duties: Callable[[], Iterable[Duty]]) -> None:
        self._now = now
        self._duties = duties
        self._past = {resource: _Past() for resource in (*CONTROL.values(), *TARGET.values())}
        self._known: dict[Process, dict[str, int]] = {}
        self._errands: dict[int, _Errand] = {}
        """By the request's identity, until the server has answered it."""
        self._inside: dict[int, _Errand] = {}
        """Those that the server is at."""
        self._ended: dict[Process, tuple[float, float]] = {}
        """By process: when a write last ended, and when its pass had begun."""
        self._veil = (0.0, -SLACK_SECONDS)
        """Of the last ignorance: since when, and until when."""

    def learn(self, step: Step) -> None:
        """Something has happened that managers should hear of."""
        if isinstance(step, ApiStep) and step.resource in self._past:
            past = self._past[step.resource]
            past.versions.append(step.version)
            past.moments.append(self._now())

    def told(self, process: Process, resource: str, version: int) -> None:
        """A manager has heard of all that happened to this resource up to a version."""
        known = self._known.setdefault(process, {})
        if (process, resource) in self._duties():
            self._ignorant_since(self._first_unknown(resource, known.get(resource)))
        known[resource] = version

    def since(self) -> float:
        """Nobody acts on what was over before this moment."""
        for process, resource in self._duties():
            if (version := self._known.get(process, {}).get(resource)) is not None:
                self._ignorant_since(self._first_unknown(resource, version))
        for identity, errand in tuple(self._inside.items()):
            if errand.arrived is not None and self._now() - errand.arrived > SLACK_SECONDS:
                del self._inside[identity]  # the server died over it
            else:
                self._ignorant_since(errand.origin)
        began, ended = self._veil
        recent = self._now() - SLACK_SECONDS
        return min(recent, began - SLACK_SECONDS) if ended >= recent else recent

    # ------------------------------------------------------------ writes and their age

    def sends(self, process: Process, request: Request) -> None:
        """A manager begins a write: of the same pass as one that ended in this very moment.

        One that was turned away is sent again as it was, by a client that was told to wait a moment.
        """
        now = self._now()
        if id(request) in self._errands:
            return
        at, origin = self._ended.get(process, (-1.0, 0.0))
        self._errands[id(request)] = _Errand(request, origin if at == now else now)

    def has_sent(self, process: Process, request: Request) -> None:
        """The manager has its answer, or waits no longer; the write itself may still be on its way."""
        errand = self._errands.get(id(request))
        if errand is None:
            return
        at, origin = self._ended.get(process, (-1.0, 0.0))
        self._ended[process] = (
            self._now(),
            min(origin, errand.origin) if at == self._now() else errand.origin,
        )
        if errand.arrived is not None and id(request) not in self._inside:
            del self._errands[id(request)]

    def arrives(self, _client: str, request: Request) -> None:
        """A server begins with a request."""
        if (errand := self._errands.get(id(request))) is not None:
            errand.arrived = self._now()
            self._inside[id(request)] = errand

    def is_done(self, _client: str, request: Request, _response: Response) -> None:
        """A server has done what it was asked."""
        self._inside.pop(id(request), None)

    def _first_unknown(self, resource: str, version: int | None) -> float:
        """When the first thing happened that is not known yet; who has not listed yet does nothing."""
        found = self._past[resource].after(version) if version is not None else None
        return self._now() if found is None else found

    def _ignorant_since(self, moment: float) -> None:
        now, (began, ended) = self._now(), self._veil
        if now - moment > LATE_SECONDS:
            self._veil = (min(began, moment) if now - ended <= SLACK_SECONDS else moment, now)


class Told:
    """A manager's line, as the manager sees it: what passes here, it knows.

    ``resources`` are those of ``CONTROL`` and ``TARGET`` that live on the other side.
    """

    def __init__(self, inner: Transport, news: News, process: Process, resources: Mapping[str, str]) -> None:
        self._inner = inner
        self._news = news
        self._process = process
        self._resources = resources

    async def request(self, request: Request, *, timeout: float) -> Response:
        """As ``Transport.request``."""
        if request.method not in READS:
            self._news.sends(self._process, request)
            try:
                return await self._inner.request(request, timeout=timeout)
            finally:
                self._news.has_sent(self._process, request)
        response = await self._inner.request(request, timeout=timeout)
        if response.status < 400 and (resource := self._listed(request)):
            self._heard(resource, response.body[:1000])  # a list's own version stands before its items
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
            async with aclosing(self._listen(chunks, resource)) as heard:
                yield heard

    async def _listen(self, chunks: AsyncIterator[bytes], resource: str) -> AsyncGenerator[bytes, None]:
        async for chunk in chunks:
            self._heard(resource, chunk[: chunk.rfind(b"\n") + 1], last=True)
            yield chunk

    async def close(self) -> None:
        """As ``Transport.close``."""
        await self._inner.close()

    def _heard(self, resource: str, text: bytes, *, last: bool = False) -> None:
        versions = _VERSION.findall(text)
        if versions:
            self._news.told(self._process, resource, max(map(int, versions)) if last else int(versions[0]))

    def _listed(self, request: Request) -> str:
        """The resource that is listed or watched as a whole, if it is one that decides something."""
        return self._resources.get(request.path.rpartition("/")[2], "")
