"""The calls to drivers about the endpoints of API servers, as tasks, and what came of them.

Theory.      As with VMs (``driver.life.calls``) a worker never waits for a cloud: a call is a task, and its
             end enqueues the cluster. A call is idempotent by name and owner, so a call without an answer is
             made again.
             What is kept is what the last call came to, with its code (``seen.EndpointSeen``): neither the
             doubts and verbs of ``VmCalls``, nor an answer that outlasts a failure, as in ``runtime.calls``.
Invariants.  At most one call per cluster at a time. Nothing but cancellation is raised.
Called by    ``act``, ``look``; the program owns ``run``.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from kubewright.base.clock import Clock
from kubewright.driver.contract import ClassRequest
from kubewright.driver.errors import Code, DriverError, During, NotFound, Unimplemented
from kubewright.driver.registry import RoutedDriver
from kubewright.infra.cluster.seen import NOTHING, EndpointSeen
from kubewright.kube.patches import outside_of_a_pass
from kubewright.wire.gvk import Key


class EndpointCalls:
    """All calls of this process about endpoints, by the uid of the cluster. ``clock`` is steady."""

    def __init__(self, driver: RoutedDriver, clock: Clock, on_done: Callable[[Key], None]) -> None:
        self._driver = driver
        self._clock = clock
        self._on_done = on_done
        self._seen: dict[str, EndpointSeen] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def seen(self, uid: str) -> EndpointSeen:
        """What is known of the endpoint of the cluster with this uid."""
        return self._seen.get(uid, NOTHING)

    def forget(self, uid: str) -> None:
        """The cluster is gone for good."""
        self._seen.pop(uid, None)

    def reserve(self, key: Key, uid: str, request: ClassRequest) -> None:
        """Ask for an endpoint."""
        self._start(key, uid, lambda: self._reserved(request))

    def release(self, key: Key, uid: str, request: ClassRequest) -> None:
        """Give the endpoint back."""
        self._start(key, uid, lambda: self._released(request), releasing=True)

    async def run(self) -> None:
        """Own the calls until cancelled; what still runs then is cancelled too."""
        try:
            await asyncio.Event().wait()
        finally:
            tasks = list(self._tasks.values())
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            # A task that was cancelled before it started has not removed itself.
            self._tasks = {uid: task for uid, task in self._tasks.items() if not task.done()}

    async def _reserved(self, request: ClassRequest) -> EndpointSeen:
        host, port = await self._driver.endpoint(request)
        if not host or not port:
            raise DriverError.of(Code.Internal, "the driver answered with an endpoint without host or port")
        return EndpointSeen(address=(host, port))

    async def _released(self, request: ClassRequest) -> EndpointSeen:
        with suppress(NotFound, Unimplemented):
            await self._driver.release(request)
        return EndpointSeen(released=True)

    def _start(
        self, key: Key, uid: str, call: Callable[[], Awaitable[EndpointSeen]], *, releasing: bool = False
    ) -> None:
        if uid not in self._tasks:
            self._seen[uid] = EndpointSeen(running=True, releasing=releasing)
            self._tasks[uid] = asyncio.create_task(
                self._run(key, uid, call, releasing), name=f"endpoint of {key}", context=outside_of_a_pass()
            )

    async def _run(
        self, key: Key, uid: str, call: Callable[[], Awaitable[EndpointSeen]], releasing: bool
    ) -> None:
        try:
            after = await call()
        except DriverError as error:
            again = self._clock.now() + error.pause(During.LOOKING)
            after = EndpointSeen(error=error, again=again, releasing=releasing)
        finally:
            del self._tasks[uid]
        if uid in self._seen:
            self._seen[uid] = after
        self._on_done(key)
