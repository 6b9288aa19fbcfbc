"""Machines as they change, seen by a watch of the bench's own."""

import asyncio
from collections.abc import Callable
from typing import Any

from kubewright.api.kinds import Kind
from kubewright.base.clock import Clock
from kubewright.kube.cache import Change
from kubewright.kube.informers import Informers
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
        return sum(1 for state in self._state.values() if state == (RUNNING, name))

    async def until(self, met: Callable[[], bool], seconds: float, what: str) -> None:
        """Wait for a condition, looked at after every event; fails after ``seconds``."""
        async with asyncio.timeout(seconds):
            while not met():
                self._moved.clear()
                try:
                    async with asyncio.timeout(0.05):
                        await self._moved.wait()
                except TimeoutError:
                    pass
        assert met(), what

    def _changed(self, change: Change[Any]) -> None:
        before, _ = self._state.pop(change.key, ("", ""))
        machine = change.after()
        after = ""
        if machine is not None:
            after, made_from = self._look(machine)
            after = DELETING if machine.metadata.deleting else after
            self._state[change.key] = (after, made_from)
        self.running += (after == RUNNING) - (before == RUNNING)
        self.most = max(self.most, self.count)
        self.fewest_running = min(self.fewest_running, self.running)
        if after != before:
            self.became[change.key, after] = self._clock.monotonic()
        self._moved.set()
