"""Liveness, readiness, metrics, status and profiles over HTTP: for probes, Prometheus and users.

Paths.       ``/healthz``  200 ``OK`` while the event loop turns, whatever else fails; ``/livez`` is the same
             ``/readyz``   200 ``ok``, or 503 with one line per thing that is not ready
             ``/metrics``  for Prometheus;  ``/statusz``  queues, caches and leadership as JSON
             ``/configz``  what the program was told to do, as JSON
             ``/debug/plans``  the last pass of each key (``records``), by ``?namespace=`` and ``?name=``,
             or the longest waits, by ``?waits=20`` Where ``--profiling`` asks for them, at the paths of Go's
             programs, whose users look for them there:
             ``/debug/pprof/``           what there is; others of Go's have no meaning here, and are not found
             ``/debug/pprof/profile``    the functions of the next ``?seconds=``, those that took most first;
             with ``?format=pstats`` the file that ``python -m pstats`` reads
             ``/debug/pprof/goroutine``  the stack of each task: what it waits for
Theory.      One thread does all the work, so Python's own profiler sees all of it. It makes each call of a
             function slower, so it is off but for the seconds that a user asks for.
Invariants.  Listens on loopback by default (no host: on all addresses, IPv4 and IPv6); there is no
             authentication and nothing secret. Connections are bounded (``accepting``). One profile at a
             time, of ``LONGEST_SECONDS`` at most. Functions and lines are shown, no values.
Called by    ``compose.on_kubernetes``, as a service of ``manager`` from the first moment to the last.
"""

import asyncio
import cProfile
import pstats
import socket
from collections.abc import Callable, Iterator, Mapping
from io import StringIO
from tempfile import NamedTemporaryFile
from types import FrameType
from typing import Any, Protocol

import msgspec
import structlog
from aiohttp import web

from kubewright.base.clock import Clock
from kubewright.base.errors import InvalidInput
from kubewright.runtime.accepting import Accepting
from kubewright.runtime.metrics import CONTENT_TYPE, Metrics
from kubewright.runtime.records import PATH, Answer, wanted_waits

SECONDS, LONGEST_SECONDS = 30.0, 120.0
"""How long a profile takes, as with Go; and the most that can be asked for."""
SHOWN = 60
"""Functions in the text of a profile."""
FRAMES = 20
"""Of each task, so many of the innermost."""

INDEX = """/debug/pprof/profile?seconds=30          where time goes, as text
/debug/pprof/profile?format=pstats       the same as a file for python -m pstats
/debug/pprof/goroutine                   what each task waits for
"""

log = structlog.get_logger("kubewright.health")

Check = Callable[[], str]
"""Answers what is wrong, in a few words; empty when nothing is."""


class Profiles:
    """The pages of ``/debug/pprof/``. ``clock`` times a profile."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._busy = False

    def add_to(self, app: web.Application) -> None:
        """Serve them."""
        app.router.add_get("/debug/pprof/", self._index)
        app.router.add_get("/debug/pprof/profile", self._profile)
        app.router.add_get("/debug/pprof/goroutine", self._tasks)

    async def _index(self, _request: web.Request) -> web.Response:
        return web.Response(text=INDEX)

    async def _profile(self, request: web.Request) -> web.Response:
        try:
            seconds = float(request.query.get("seconds", SECONDS))
        except ValueError:
            seconds = -1.0
        if not 0 < seconds <= LONGEST_SECONDS:
            return web.Response(status=400, text=f"seconds: more than 0, and {LONGEST_SECONDS:g} at most\n")
        if self._busy:
            return web.Response(status=409, text="another profile is being taken; ask again later\n")
        profiler = await self._taken(seconds)
        if request.query.get("format") == "pstats":
            return web.Response(body=_as_file(profiler), content_type="application/octet-stream")
        return web.Response(text=_as_text(profiler))

    async def _taken(self, seconds: float) -> cProfile.Profile:
        profiler = cProfile.Profile()
        self._busy = True
        try:
            profiler.enable()
            await self._clock.sleep(seconds)
        finally:
            profiler.disable()
            self._busy = False
        return profiler

    async def _tasks(self, _request: web.Request) -> web.Response:
        return web.Response(text=tasks())


def tasks() -> str:
    """The stack of each task of this event loop that has not ended, by name."""
    lines = []
    for task in sorted(asyncio.all_tasks(), key=lambda each: each.get_name()):
        lines.append(task.get_name())
        for frame in [*_frames(task.get_coro())][-FRAMES:]:
            lines.append(f"    {frame.f_code.co_filename}:{frame.f_lineno} {frame.f_code.co_qualname}")
    return "\n".join(lines) + "\n"


def _frames(awaited: object) -> Iterator[FrameType]:
    """The frames of a coroutine, of what it awaits, and so on, as far as Python shows it: an asynchronous
    generator hides what is inside it. ``Task.get_stack`` has the first frame only."""
    while awaited is not None:
        frame = getattr(awaited, "cr_frame", None) or getattr(awaited, "gi_frame", None)
        if frame is not None:
            yield frame
        awaited = getattr(awaited, "cr_await", None) or getattr(awaited, "gi_yieldfrom", None)


def _as_text(profiler: cProfile.Profile) -> str:
    out = StringIO()
    pstats.Stats(profiler, stream=out).sort_stats("tottime").print_stats(SHOWN)
    return out.getvalue()


def _as_file(profiler: cProfile.Profile) -> bytes:
    with NamedTemporaryFile() as file:
        profiler.dump_stats(file.name)
        return file.read()


class Plans(Protocol):
    """Answers which passes it remembers of a namespace and a name; empty: of any.

    ``waits``: only those with so many of the longest waits, if it is not 0. ``provider``: which driver is it?
    """

    def __call__(
        self, *, namespace: str = "", name: str = "", waits: int = 0, provider: str | None = None
    ) -> Answer: ...


class HealthServer:
    """Serves until cancelled. No ``host`` means all; with ``port`` 0, ``self.port`` is the port in use."""

    def __init__(
        self,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        ready: Mapping[str, Check] | None = None,
        metrics: Metrics | None = None,
        status: Callable[[], Mapping[str, Any]] = dict,
        configuration: Callable[[], Mapping[str, Any]] = dict,
        plans: Plans | None = None,
        profiles: Profiles | None = None,
    ) -> None:
        self.host = host
        self.port = port
        self.started = asyncio.Event()
        self._ready = ready or {}
        self._metrics = metrics
        self._status = status
        self._configuration = configuration
        self._plans = plans
        self._profiles = profiles

    async def run(self) -> None:
        """Serve until cancelled.

        Raises:
            InvalidInput: the address cannot be listened on.
        """
        accepting = Accepting("health")
        runner = web.AppRunner(self._app(accepting), access_log=None, shutdown_timeout=1.0)
        await runner.setup()
        assert runner.server is not None
        try:
            listening = await self._listen(accepting)
            self.started.set()
            await accepting.serve(listening, runner.server)
        finally:
            await runner.cleanup()

    async def _listen(self, accepting: Accepting) -> list[socket.socket]:
        try:
            listening = await accepting.listen(self.host, self.port)
        except OSError as error:
            reason = error.strerror or str(error)
            raise InvalidInput(f"cannot serve health on {self.host or '*'}:{self.port}: {reason}") from None
        self.port = int(listening[0].getsockname()[1])
        log.debug("health endpoints", host=self.host, port=self.port)
        return listening

    def _app(self, accepting: Accepting) -> web.Application:
        app = web.Application(middlewares=[accepting.marks])
        app.router.add_get("/healthz", self._healthz)
        app.router.add_get("/livez", self._healthz)
        app.router.add_get("/readyz", self._readyz)
        app.router.add_get("/metrics", self._metrics_page)
        app.router.add_get("/statusz", self._statusz)
        app.router.add_get("/configz", self._configz)
        app.router.add_get(PATH, self._debug_plans)
        if self._profiles is not None:
            self._profiles.add_to(app)
        return app

    async def _healthz(self, _request: web.Request) -> web.Response:
        return web.Response(text="OK")

    async def _readyz(self, _request: web.Request) -> web.Response:
        troubles = [f"{name}: {trouble}" for name, check in self._ready.items() if (trouble := check())]
        return web.Response(text="\n".join(troubles) or "ok", status=503 if troubles else 200)

    async def _metrics_page(self, _request: web.Request) -> web.Response:
        body = self._metrics.render() if self._metrics else b""
        return web.Response(body=body, headers={"content-type": CONTENT_TYPE})

    async def _statusz(self, _request: web.Request) -> web.Response:
        return _page(self._status())

    async def _configz(self, _request: web.Request) -> web.Response:
        return _page(self._configuration())

    async def _debug_plans(self, request: web.Request) -> web.Response:
        query = request.query
        found = Answer()
        if self._plans is not None:
            found = self._plans(
                namespace=query.get("namespace", ""),
                name=query.get("name", ""),
                waits=wanted_waits(query.get("waits", "")),
                provider=query.get("provider"),
            )
        return web.Response(body=msgspec.json.encode(found), content_type="application/json")


def _page(found: Mapping[str, Any]) -> web.Response:
    """Values as JSON that people can read."""
    body = msgspec.json.format(msgspec.json.encode(found, enc_hook=str), indent=2)
    return web.Response(body=body, content_type="application/json")
