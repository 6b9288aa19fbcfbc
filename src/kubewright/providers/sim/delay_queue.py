"""A delay queue: which key is due next, for ten thousand keys and a few workers.

Theory.      A heap of due times, one entry per key. A worker takes the earliest key when it is due,
             looks, acts, and says when to look again. Nothing runs for a key in between, so a VM
             at rest costs one heap entry.
Invariants.  At most one worker has a key at a time. Due times that are added meanwhile are kept,
             and the earliest wins. Due times are those of ``Clock.monotonic``.
Called by    ``kubelets`` (keys are VM ids) and ``pods`` (keys are pods).
"""

import asyncio
import heapq
from collections.abc import Hashable
from typing import Generic, TypeVar

from kubewright.base.clock import Clock

K = TypeVar("K", bound=Hashable)

FINEST_SECONDS = 0.001
"""Shortest wait: a smaller number added to a float may change nothing, and the wait would never end."""


class DelayQueue(Generic[K]):
    """Keys with due times; see the module."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._due: dict[K, float] = {}
        self._heap: list[tuple[float, int, K]] = []
        self._pushed = 0
        self._held: dict[K, asyncio.Event] = {}
        self._turn = asyncio.Lock()
        self._earlier = asyncio.Event()

    def __len__(self) -> int:
        """Keys that will be looked at, now or later."""
        return len(self._due)

    def soon(self, key: K) -> None:
        """Look at ``key`` as soon as a worker is free."""
        self.at(key, self._clock.monotonic())

    def at(self, key: K, due: float) -> None:
        """Look at ``key`` at that time, unless it will be looked at before."""
        if key in self._due and self._due[key] <= due:
            return
        self._due[key] = due
        if key not in self._held:
            self._push(key, due)

    def drop(self, key: K) -> None:
        """Do not look at ``key`` any more; a worker that has it finishes."""
        self._due.pop(key, None)

    async def take(self) -> K:
        """The key that is due first; waits for it. Give it back with ``done``."""
        async with self._turn:
            while True:
                self._earlier.clear()
                wait = self._until_next()
                if wait is not None and wait <= 0:
                    return self._pop()
                try:
                    async with asyncio.timeout(None if wait is None else max(wait, FINEST_SECONDS)):
                        await self._earlier.wait()
                except TimeoutError:
                    continue

    def done(self, key: K, due: float | None) -> None:
        """A worker is finished with ``key``, and wants to look again at ``due`` (None: not)."""
        self._held.pop(key).set()
        if due is not None:
            self._due[key] = min(due, self._due.get(key, due))
        if key in self._due:
            self._push(key, self._due[key])

    async def idle(self, key: K) -> None:
        """Wait until no worker has ``key``."""
        while (held := self._held.get(key)) is not None:
            await held.wait()

    def _push(self, key: K, due: float) -> None:
        self._pushed += 1
        heapq.heappush(self._heap, (due, self._pushed, key))
        if self._heap[0][2] == key:
            self._earlier.set()

    def _until_next(self) -> float | None:
        """Seconds until the first entry that still counts is due; None when there is none."""
        while self._heap:
            due, _, key = self._heap[0]
            if key not in self._held and self._due.get(key) == due:
                return due - self._clock.monotonic()
            heapq.heappop(self._heap)
        return None

    def _pop(self) -> K:
        _, _, key = heapq.heappop(self._heap)
        del self._due[key]
        self._held[key] = asyncio.Event()
        return key
