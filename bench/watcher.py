"""Machines as they change, seen by a watch of the bench's own."""

import asyncio
from collections.abc import Callable

from kubewright.api.machine.names import Phase
from kubewright.api.machine.v1alpha1 import MACHINE, Machine
from kubewright.base.clock import Clock
from kubewright.kube.cache import Change
from kubewright.kube.informers import Informers
from kubewright.wire.gvk import Key


class Watcher:
    """Keeps count at every event: how many machines there are and run, the most and the fewest."""

    def __init__(self, informers: Informers, clock: Clock) -> None:
        self._clock = clock
        self._state: dict[Key, tuple[str, str]] = {}
        self._moved = asyncio.Event()
        self.running = 0
        self.most = 0
        self.fewest_running = 0
        self.became: dict[tuple[Key, str], float] = {}
        informers.get(MACHINE).subscribe(self._changed)

    @property
    def count(self) -> int:
        return len(self._state)

    def reset(self) -> None:
        """Forget the extremes; they count from now."""
        self.most, self.fewest_running = self.count, self.running
        self.became.clear()

    def of_class(self, name: str) -> int:
        """Machines of a class that run."""
        return sum(1 for phase, cls in self._state.values() if phase == Phase.RUNNING and cls == name)

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

    def _changed(self, change: Change[Machine]) -> None:
        before, _ = self._state.pop(change.key, ("", ""))
        machine = change.after()
        after = ""
        if machine is not None:
            after = "Deleting" if machine.metadata.deleting else machine.status.current_status.phase
            self._state[change.key] = (after, machine.spec.machine_class.name)
        self.running += (after == Phase.RUNNING) - (before == Phase.RUNNING)
        self.most = max(self.most, self.count)
        self.fewest_running = min(self.fewest_running, self.running)
        if after != before:
            self.became[change.key, after] = self._clock.monotonic()
        self._moved.set()
