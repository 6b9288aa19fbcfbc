"""Where this process spends its time, and what its tasks wait for, over HTTP if ``--profiling`` asks for it.

Paths.       ``/debug/pprof/``           what there is
             ``/debug/pprof/profile``    the functions of the next ``?seconds=``, those that took most first;
                                         with ``?format=pstats`` the file that ``python -m pstats`` reads
             ``/debug/pprof/goroutine``  the stack of each task: what it waits for. The name is that of Go's
                                         programs, whose users look for it there
Theory.      One thread does all the work, so Python's own profiler sees all of it. It makes each call of a
             function slower, so it is off but for the seconds that a user asks for.
Invariants.  One profile at a time, of ``LONGEST_SECONDS`` at most. Functions and lines are shown, no values.
Source       mcm.md §10.4: the paths of MCM. Others of Go's have no meaning here, and are not found.
Called by    ``health``, whose server serves them.
"""

import asyncio
import cProfile
import pstats
from collections.abc import Iterator
from io import StringIO
from tempfile import NamedTemporaryFile
from types import FrameType

from aiohttp import web

from kubewright.base.clock import Clock

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
