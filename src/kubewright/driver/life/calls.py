"""The calls about VMs that are in flight, as tasks, and what is known of each VM.

Theory.      Clouds answer in seconds or minutes; a worker that waited for them would be lost for all other
             objects. So a call is a task of its own: ``start`` returns at once, ``seen`` tells how it stands,
             and ``on_done`` wakes the object. What is kept here is only knowledge, never intent.
Invariants.  At most one call per object at a time.
             ``driver`` is guarded (``driver.guard``): a call ends in time, and if it fails, then with an
             error of the vocabulary.
Called by    the controller of the objects; a program owns ``run``.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import datetime, timedelta

from kubewright.base.clock import Clock
from kubewright.driver.contract import Driver
from kubewright.driver.life.doubts import doubt_until
from kubewright.driver.life.outcome import Ask, outcome
from kubewright.driver.life.seen import NOTHING, Verb, VmSeen
from kubewright.wire.gvk import Key


class VmCalls:
    """All calls of this process about VMs, by the uid of the object that a VM is for. ``clock`` is steady."""

    def __init__(self, driver: Driver, clock: Clock, on_done: Callable[[Key], None]) -> None:
        self._driver = driver
        self._clock = clock
        self._on_done = on_done
        self._leading_since = clock.monotonic()
        self._seen: dict[str, VmSeen] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def seen(self, uid: str) -> VmSeen:
        """How it stands with the VM of the object with this uid."""
        return self._seen.get(uid, NOTHING)

    def doubt_until(
        self,
        uid: str,
        *,
        created: datetime | None,
        recorded: bool,
        confirm_absent: timedelta,
        witnessed: datetime | None = None,
    ) -> datetime | None:
        """As ``doubts.doubt_until``, for an object that was ``created`` then by the server's clock."""
        now = self._clock.now()
        return doubt_until(
            self.seen(uid).doubt,
            now - timedelta(seconds=self._clock.monotonic() - self._leading_since),
            created=created,
            recorded=recorded,
            now=now,
            confirm_absent=confirm_absent,
            witnessed=witnessed,
        )

    def busy(self, uid: str) -> bool:
        """Whether a call for the object with this uid runs, even if the object is forgotten."""
        return uid in self._tasks

    def forget(self, uid: str) -> None:
        """The object is gone for good; what a call that still runs comes to is not kept."""
        self._seen.pop(uid, None)

    def start(self, key: Key, uid: str, verb: Verb, ask: Ask, *, inputs: str) -> None:
        """Begin a call; a second one while the first runs is ignored."""
        if uid in self._tasks:
            return
        before = self.seen(uid)
        self._seen[uid] = replace(before, verb=verb, began=self._clock.now(), ended=None, inputs=inputs)

        def call() -> Awaitable[VmSeen]:
            return outcome(self._driver, self._clock, verb, ask, before)

        self._tasks[uid] = asyncio.create_task(self._run(key, uid, call), name=f"{verb.value} {key}")

    async def run(self) -> None:
        """Own the calls until cancelled: what still runs then is cancelled too.

        Now we lead: until this moment another process made the calls, also if this object is older.
        """
        self._leading_since = self._clock.monotonic()
        try:
            await asyncio.Event().wait()
        finally:
            await self.close()

    async def close(self) -> None:
        """Cancel what runs and wait for it; the next process asks the cloud again."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        # A task that was cancelled before it started has not removed itself.
        self._tasks = {uid: task for uid, task in self._tasks.items() if not task.done()}

    def __len__(self) -> int:
        return len(self._tasks)

    async def _run(self, key: Key, uid: str, call: Callable[[], Awaitable[VmSeen]]) -> None:
        try:
            after = await call()
            if (now := self._seen.get(uid)) is not None:
                ended = self._clock.now()
                self._seen[uid] = replace(
                    after, verb=now.verb, began=now.began, ended=ended, inputs=now.inputs
                )
        finally:
            del self._tasks[uid]
        self._on_done(key)
