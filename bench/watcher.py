"""Machines as they change, seen by a watch of the bench's own."""

import asyncio
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from bench.measured import Stuck
from kubewright.api.kinds import Kind
from kubewright.base.clock import Clock
from kubewright.kube.cache import Change
from kubewright.kube.informer import Informers
from kubewright.wire.gvk import Key

RUNNING, DELETING = "Running", "Deleting"
"""The phase of a machine that works, in both APIs; and the one that we give to a machine being deleted."""


class Watcher:
    """Keeps count at every event: how many machines there are and run, the most and the fewest.

    ``look`` reads a machine of ``kind``: its phase, and what it was made from, which a rollout changes.
    """

    def __init__(
        self, informers: Informers, clock: Clock, kind: Kind[Any], look: Callable[[Any], tuple[str, str]]
    ) -> None:
        self._clock = clock
        self._look = look
        self._state: dict[Key, tuple[str, str]] = {}
        self._in: Counter[tuple[str, str]] = Counter()
        """How many machines are in a state: it is asked at every event, whatever their number."""
        self._moved = asyncio.Event()
        self.running = 0
        self.most = 0
        self.fewest_running = 0
        self.became: dict[tuple[Key, str], float] = {}
        informers.get(kind).subscribe(self._changed)

    @property
    def count(self) -> int:
        return len(self._state)

    def reset(self) -> None:
        """Forget the extremes; they count from now."""
        self.most, self.fewest_running = self.count, self.running
        self.became.clear()

    def made_from(self, name: str) -> int:
        """Machines that run and were made from ``name``."""
        return self._in[RUNNING, name]

    async def until(self, met: Callable[[], bool], seconds: float, what: str) -> None:
        """Wait for a condition, looked at after every event.

        Raises:
            Stuck: it was not met within ``seconds``.
        """
        ends = self._clock.monotonic() + seconds
        while not met():
            if self._clock.monotonic() >= ends:
                raise Stuck(
                    f"{what}: not within {seconds:.0f} s; of {self.count} machines {self.running} run"
                )
            self._moved.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(0.05):
                    await self._moved.wait()

    def _changed(self, change: Change[Any]) -> None:
        state = self._state.pop(change.key, ("", ""))
        before, _ = state
        self._in[state] -= 1
        machine = change.after()
        after = ""
        if machine is not None:
            after, made_from = self._look(machine)
            after = DELETING if machine.metadata.deleting else after
            self._state[change.key] = (after, made_from)
            self._in[after, made_from] += 1
        self.running += (after == RUNNING) - (before == RUNNING)
        self.most = max(self.most, self.count)
        self.fewest_running = min(self.fewest_running, self.running)
        if after != before:
            self.became[change.key, after] = self._clock.monotonic()
        self._moved.set()
