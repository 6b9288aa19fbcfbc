"""What a phase of a scenario costs: its seconds, the requests of all clients, the CPU of each program."""

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from bench.process import usage
from bench.requests import Asked
from bench.worlds import World
from kubewright.base.clock import Clock


@dataclass(frozen=True, slots=True)
class Cost:
    """``seconds`` until it was done; and until a while later what was ``asked`` by all clients, and the
    ``cpu`` that each program took, in seconds."""

    seconds: float = 0.0
    asked: Asked = field(default_factory=Counter)
    cpu: Mapping[str, float] = field(default_factory=dict)


class Meter:
    """Measures phases in one world; status writes that follow within ``rest`` seconds belong to the phase."""

    def __init__(self, world: World, clock: Clock, *, rest: float = 2.0) -> None:
        self._world = world
        self._clock = clock
        self._rest = rest

    async def around(self, act: Callable[[], Awaitable[Any]], done: Callable[[], Awaitable[Any]]) -> Cost:
        """What it costs from ``act`` until ``done`` returns."""
        before, cpu = await self._world.asked(), self._cpu()
        began = self._clock.monotonic()
        await act()
        await done()
        took = self._clock.monotonic() - began
        await self._clock.sleep(self._rest)
        used = {name: seconds - cpu[name] for name, seconds in self._cpu().items()}
        asked = await self._world.asked()
        asked.subtract(before)
        return Cost(took, +asked, used)

    async def at_rest(self, seconds: float) -> Cost:
        """What a time costs in which nothing is done; its ``seconds`` are those between the two counts."""
        before, cpu = await self._world.asked(), self._cpu()
        began = self._clock.monotonic()
        await self._clock.sleep(seconds)
        used = {name: spent - cpu[name] for name, spent in self._cpu().items()}
        asked = await self._world.asked()
        asked.subtract(before)
        return Cost(self._clock.monotonic() - began, +asked, used)

    def peaks(self) -> dict[str, float]:
        """The most memory that each program had, in MiB."""
        return {name: usage(pid).peak for name, pid in self._world.pids.items()}

    def _cpu(self) -> dict[str, float]:
        return {name: usage(pid).cpu for name, pid in self._world.pids.items()}
