"""The phases that are measured: control planes one after another, then many side by side.

Called by    ``python -m bench planes``.
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from bench import worlds
from bench.measured import Stuck
from bench.planes.changes import Changes
from bench.planes.memory import available, children, fitting, pss
from bench.planes.plane import NAMESPACE_NAME, Plane
from bench.planes.table import EARLIER, EMBEDDED, REAL, Many, One, Results
from bench.planes.waiting import LIMIT_SECONDS, Waiting
from bench.process import usage
from bench.worlds import PRODUCT, World
from kubewright.api.controlplane.v1alpha4 import NESTED_CONTROL_PLANE, NestedControlPlane
from kubewright.api.core import NAMESPACE
from kubewright.base.clock import Clock
from kubewright.controlplanes.wiring import templates
from kubewright.testing.real_kubernetes import NoKubernetes, find
from kubewright.testing.real_kubernetes.binaries import kubewright_cache

AT_ONCE = 20
"""Requests in flight when many are asked for."""
STEP_SECONDS, MANY_STEP_SECONDS = 0.02, 0.25
"""Between two looks at one control plane; and at many, which must not be slowed down by that."""
REST_SECONDS = 30.0
MANY_TIMES = 4
"""Many may take so many times as long as one after another would."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What is to be measured.

    ``many``      by channel, how many side by side, 0 for only one alone; no other channel is measured
    ``replicas``  of the API servers and controller managers of real programs, one after another
    """

    many: dict[str, int]
    replicas: tuple[int, ...]


class Scenario:
    """One run, in a world of ``kubewright up``."""

    def __init__(self, world: World, clock: Clock, asked: Asked, results: Results) -> None:
        self._client, self._pid = world.client, world.pids[PRODUCT]
        self._clock, self._asked = clock, asked
        self._waiting = Waiting(self._planes, clock)
        self._results = results

    async def play(self) -> None:
        """Everything in order, until something does not come."""
        await self._client.create(NAMESPACE, {"metadata": {"name": NAMESPACE_NAME}})
        try:
            for channel in self._asked.many:
                for replicas in self._asked.replicas if channel == REAL else (1,):
                    await self._one(channel, replicas)
            await self._side_by_side()
        except Stuck as error:
            self._results.stopped = str(error)

    # ------------------------------------------------------------ one alone

    async def _one(self, channel: str, replicas: int) -> None:
        one = One(channel, replicas)
        self._results.ones.append(one)
        plane = Plane(self._client, self._clock, f"{_word(channel)}-{replicas}", channel, replicas)
        named = f"{plane.name}, until "
        one.usable = await self._seconds(plane.create(), plane.answers, f"{named}its kubeconfig works")
        await self._waiting.until(plane.ready, f"{named}it is ready", step=STEP_SECONDS)
        one.memory = sum(map(pss, children(self._pid)))
        one.asleep = await self._seconds(plane.set_asleep(True), plane.sleeps, f"{named}it sleeps")
        one.awake = await self._seconds(plane.set_asleep(False), plane.answers, f"{named}it answers again")
        await self._waiting.until(plane.ready, f"{named}it is ready again", step=STEP_SECONDS)
        one.rotated = await Changes(plane, self._waiting).rotate()
        await self._delete([plane])
        if channel == REAL:
            await self._upgrade(one)

    async def _upgrade(self, one: One) -> None:
        """Of another by a minor version; all its components follow the version of the control plane."""
        before, after = _version(EARLIER), _version(REAL)
        if not (kubewright_cache() / "kube" / f"v{before}").is_dir():
            self._results.notes.append(
                f"no upgrade from v{before}, which `make kube RELEASE={EARLIER}` builds"
            )
            return
        plane = Plane(self._client, self._clock, f"older-{one.replicas}", "", one.replicas, before)
        await plane.create()
        await self._waiting.until(plane.ready, f"{plane.name}, until it is ready", step=STEP_SECONDS)
        one.upgraded = await Changes(plane, self._waiting).upgrade(after)
        await self._delete([plane])

    # ------------------------------------------------------------ many at once

    async def _side_by_side(self) -> None:
        """The embedded ones, then those of real programs beside them; each kind is measured when it runs."""
        counts = {channel: self._fitting(channel) for channel in self._asked.many}
        made = [await self._many(channel, count) for channel, count in counts.items() if count]
        for many, planes in reversed(made):
            many.gone = await self._delete(planes)
        if made:
            await self._clock.sleep(1.0)  # a process that was just ended is still in the list
            self._results.left_behind = len(children(self._pid))

    async def _many(self, channel: str, count: int) -> tuple[Many, list[Plane]]:
        alone = self._alone(channel)
        many = Many(channel, count, idle_before=await self._idle())
        self._results.many.append(many)
        planes = [
            Plane(self._client, self._clock, f"{_word(channel)}-{number}", channel, alone.replicas)
            for number in range(count)
        ]
        before, began, known = usage(self._pid), self._clock.monotonic(), set(children(self._pid))
        await _at_once(each.create() for each in planes)
        goal = len(await self._planes())
        limit = LIMIT_SECONDS + MANY_TIMES * count * alone.usable
        what = f"{len(planes)} of channel {channel}, until all are ready"
        await self._waiting.until(partial(self._ready, goal), what, step=MANY_STEP_SECONDS, limit=limit)
        usable = await _at_once(each.answers() for each in planes)
        many.usable = self._clock.monotonic() - began
        if not all(usable):
            self._results.notes.append(f"{usable.count(False)} of channel {channel} are ready and not usable")
        await self._clock.sleep(REST_SECONDS)
        after, programs = usage(self._pid), set(children(self._pid)) - known
        many.ours = after.resident - before.resident
        many.programs = sum(map(pss, programs))
        many.cpu_ours = after.cpu - before.cpu
        many.cpu_programs = sum(usage(each).cpu for each in programs)
        await self._clock.sleep(REST_SECONDS)
        many.idle_after = (usage(self._pid).cpu - after.cpu) / REST_SECONDS
        later = sum(usage(each).cpu for each in programs)
        many.idle_programs = (later - many.cpu_programs) / REST_SECONDS
        return many, planes

    async def _idle(self) -> float:
        """Cores that ``kubewright`` uses at rest."""
        before = usage(self._pid).cpu
        await self._clock.sleep(REST_SECONDS)
        return (usage(self._pid).cpu - before) / REST_SECONDS

    def _alone(self, channel: str) -> One:
        """What was measured first of one of this channel."""
        return next(each for each in self._results.ones if each.channel == channel)

    def _fitting(self, channel: str) -> int:
        """As many as are asked for and the memory holds."""
        asked, each, free = self._asked.many[channel], self._alone(channel).memory, available()
        count = fitting(asked, each, free) if each else asked
        if count < asked:
            told = (
                f"only {count} of {asked} side by side: one has {each:.0f} MiB, {free:.0f} MiB are available"
            )
            self._results.notes.append(told)
        return count

    async def _ready(self, count: int) -> bool:
        return sum(each.status.ready for each in await self._planes()) == count

    # ------------------------------------------------------------ time

    async def _seconds(
        self,
        act: Awaitable[Any],
        done: Callable[[], Awaitable[bool]],
        what: str,
        step: float = STEP_SECONDS,
    ) -> float:
        began = self._clock.monotonic()
        await act
        await self._waiting.until(done, what, step=step)
        return self._clock.monotonic() - began

    async def _delete(self, planes: Sequence[Plane]) -> float:
        names = {each.name for each in planes}

        async def gone() -> bool:
            return not names & {each.metadata.name for each in await self._planes()}

        what = f"{planes[0].name}{' and others' if len(planes) > 1 else ''}, until deleted"
        return await self._seconds(_at_once(each.delete() for each in planes), gone, what, MANY_STEP_SECONDS)

    async def _planes(self) -> Sequence[NestedControlPlane]:
        return await self._client.list(NESTED_CONTROL_PLANE, NAMESPACE_NAME)


async def _at_once(works: Iterable[Awaitable[Any]]) -> list[Any]:
    """The answers of all, at most ``AT_ONCE`` at one time."""
    slots = asyncio.Semaphore(AT_ONCE)

    async def one(work: Awaitable[Any]) -> Any:
        async with slots:
            return await work

    return await asyncio.gather(*map(one, works))


async def measure(asked: Asked, clock: Clock, keep: Callable[[Results], None]) -> None:
    """Play the scenario in a new ``kubewright up``; ``keep`` gets the results, which it fills.

    Raises:
        NoKubernetes: only control planes of real programs are asked for, and this machine has not got them.
    """
    found, note = asked, ""
    if REAL in asked.many:
        try:
            find()
        except NoKubernetes as error:
            found = replace(asked, many={each: n for each, n in asked.many.items() if each != REAL})
            note = f"without real programs: {error}"
            if not found.many:
                raise
    async with worlds.embedded(clock) as world:
        told = f"bench: kubewright is up; control planes of channel {' and '.join(found.many)}"
        print(told, file=sys.stderr, flush=True)
        results = Results()
        results.notes += [note] if note else []
        keep(results)
        await Scenario(world, clock, found, results).play()


def _word(channel: str) -> str:
    """What stands for a channel in names."""
    return "embedded" if channel == EMBEDDED else "real"


def _version(channel: str) -> str:
    """The version of Kubernetes that a channel stands for."""
    return next(each.version for each in templates().channels[channel] if each.package == "apiserver")
