"""The calls about VMs that are in flight, as tasks, and what is known of each VM.

Theory.      Clouds answer in seconds or minutes; a worker that waited for them would be lost for all other
             objects. So a call is a task of its own: ``start`` returns at once, ``seen`` tells how it stands,
             and ``on_done`` wakes the object. What is kept here is only knowledge, never intent.
Invariants.  At most one call per object at a time, beside one that reads its VM's console: that changes
             nothing, and nothing waits for it.
             ``driver`` is guarded (``driver.guard``): a call ends in time, and if it fails, then with an
             error of the vocabulary.
Called by    the controller of the objects; a program owns ``run``.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import structlog

from kubewright.base.clock import Clock
from kubewright.base.errors import KubewrightError
from kubewright.driver.contract import Driver
from kubewright.driver.life.doubts import doubt_until
from kubewright.driver.life.outcome import Ask, outcome
from kubewright.driver.life.seen import NOTHING, ConsoleSeen, Verb, VmSeen
from kubewright.wire.gvk import Key

log = structlog.get_logger(__name__)


class VmCalls:
    """All calls of this process about VMs, by the uid of the object that a VM is for. ``clock`` is steady."""

    def __init__(self, driver: Driver, clock: Clock, on_done: Callable[[Key], None]) -> None:
        self._driver = driver
        self._clock = clock
        self._on_done = on_done
        self._leading_since = clock.monotonic()
        self._seen: dict[str, VmSeen] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._consoles: dict[str, ConsoleSeen | None] = {}
        self._reading: dict[str, asyncio.Task[None]] = {}

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
        self._consoles.pop(uid, None)

    def console(self, uid: str) -> ConsoleSeen | None:
        """How the console of its VM ended when it was read last; None: this process has not read it."""
        return self._consoles.get(uid)

    def read_console(self, key: Key, uid: str, read: Callable[[], Awaitable[str]]) -> None:
        """Begin to read it; a second time while that lasts is ignored."""
        if uid not in self._reading:
            self._consoles.setdefault(uid, None)
            self._reading[uid] = asyncio.create_task(self._read(key, uid, read), name=f"console of {key}")

    async def _read(self, key: Key, uid: str, read: Callable[[], Awaitable[str]]) -> None:
        text = ""
        try:
            text = await read()
        except KubewrightError as error:
            log.debug("a console could not be read", object=str(key), why=str(error))
        finally:
            del self._reading[uid]
        if uid in self._consoles:
            self._consoles[uid] = ConsoleSeen(self._clock.now(), text)
        self._on_done(key)

    def start(
        self,
        key: Key,
        uid: str,
        verb: Verb,
        ask: Ask,
        *,
        inputs: str,
        last_applied: Mapping[str, Any] | None = None,
    ) -> None:
        """Begin a call; a second one while the first runs is ignored. ``last_applied`` is for updates."""
        if uid in self._tasks:
            return
        before = self.seen(uid)
        self._seen[uid] = replace(before, verb=verb, began=self._clock.now(), ended=None, inputs=inputs)

        def call() -> Awaitable[VmSeen]:
            return outcome(self._driver, self._clock, verb, ask, before, last_applied=last_applied)

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
        tasks = [*self._tasks.values(), *self._reading.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        # A task that was cancelled before it started has not removed itself.
        self._tasks = {uid: task for uid, task in self._tasks.items() if not task.done()}
        self._reading = {uid: task for uid, task in self._reading.items() if not task.done()}

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
