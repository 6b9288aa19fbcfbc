"""Slow calls beside the workers: one task for each object at most, and how its last one ended.

Theory.      A worker that waits for a workload cluster is lost for all other objects. So a call is a task of
             its own: ``start`` returns at once, ``seen`` tells how it stands, and ``on_done`` wakes the
             object. What is kept here is only knowledge, never intent: losing it costs another call.
Invariants.  At most one call for a key at a time, and each has a deadline. An error of ours is kept to be
             shown and counted, any other is logged with its traceback and kept as well. ``run`` owns the
             tasks.
Called by    ``bootstrap.token_calls``, which asks workload clusters. Calls to clouds have owners of their own
             (``driver.life.calls``, ``infra.cluster.endpoints``): those go by uid, and after a creation
             without an answer they keep a doubt.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

import structlog

from kubewright.base.clock import Clock
from kubewright.base.errors import KubewrightError
from kubewright.base.limits import REQUEST_SECONDS
from kubewright.kube.patches import outside_of_a_pass
from kubewright.wire.gvk import Key

T = TypeVar("T")

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """How a call stands.

    ``running``   it has not ended; the rest is about the one before it
    ``answer``    of the last call that succeeded; None: none did
    ``ended``     when the last one ended, in monotonic seconds
    ``error``     why the last one failed, as a sentence; empty: it did not
    ``failures``  how many failed since one succeeded
    """

    running: bool = False
    answer: T | None = None
    ended: float | None = None
    error: str = ""
    failures: int = 0


class Calls(Generic[T]):
    """All calls of one controller; ``seconds`` is the deadline of each."""

    def __init__(
        self, clock: Clock, on_done: Callable[[Key], None], *, seconds: float = 2 * REQUEST_SECONDS
    ) -> None:
        self._clock = clock
        self._on_done = on_done
        self._seconds = seconds
        self._seen: dict[Key, Call[T]] = {}
        self._tasks: dict[Key, asyncio.Task[None]] = {}

    def seen(self, key: Key) -> Call[T]:
        """How the call for an object stands."""
        return self._seen.get(key, Call())

    def start(self, key: Key, make: Callable[[], Awaitable[T]]) -> None:
        """Begin a call; while one runs for this object, nothing happens."""
        if key in self._tasks:
            return
        before = self.seen(key)
        self._seen[key] = Call(True, before.answer, before.ended, before.error, before.failures)
        self._tasks[key] = asyncio.create_task(
            self._run(key, make), name=f"call for {key}", context=outside_of_a_pass()
        )

    def forget(self, key: Key) -> None:
        """Nothing is known any more; the end of a call that still runs is not kept."""
        self._seen.pop(key, None)

    async def run(self) -> None:
        """Own the calls until cancelled: what still runs then is cancelled too."""
        try:
            await asyncio.Event().wait()
        finally:
            tasks = list(self._tasks.values())
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            # A task that was cancelled before it started has not removed itself.
            self._tasks = {key: task for key, task in self._tasks.items() if not task.done()}

    async def _run(self, key: Key, make: Callable[[], Awaitable[T]]) -> None:
        try:
            answer, error = await self._answer(key, make)
            if (known := self._seen.get(key)) is not None:
                failures = known.failures + 1 if error else 0
                kept = known.answer if error else answer
                self._seen[key] = Call(False, kept, self._clock.monotonic(), error, failures)
        finally:
            del self._tasks[key]
        self._on_done(key)

    async def _answer(self, key: Key, make: Callable[[], Awaitable[T]]) -> tuple[T | None, str]:
        try:
            async with asyncio.timeout(self._seconds):
                return await make(), ""
        except KubewrightError as error:
            log.info("call failed", object=str(key), error=str(error), error_kind=type(error).__name__)
            return None, str(error) or type(error).__name__
        except asyncio.CancelledError:
            if (task := asyncio.current_task()) is None or task.cancelling():
                raise  # it is meant for this call
            log.error("call cancelled from inside", object=str(key), exc_info=True)
            return None, "the call was cancelled from inside"
        except TimeoutError:
            return None, f"no answer within {self._seconds:g} s"
        except Exception as error:
            log.exception("unexpected error in a call", object=str(key))
            return None, type(error).__name__
