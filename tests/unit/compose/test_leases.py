"""Leases that are renewed on request: nothing at rest, and no other process ever leads beside us."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta

import pytest
from msgspec import structs

from kubewright.api.core import LEASE, Lease
from kubewright.apiserver.server import ApiServer
from kubewright.compose.embedded import RenewalHandler
from kubewright.kube.client import Client
from kubewright.kube.transport import InProcess
from kubewright.runtime.leader import Elector, LostLease
from kubewright.runtime.lease import Timings
from kubewright.testing.clocks import LoopClock
from kubewright.wire.errors import Conflict
from kubewright.wire.gvk import Key
from kubewright.wire.http import Request, Response

KEY, OTHER = Key("default", "controllers"), Key("default", "others")
OURS = Timings(retry_period=12.0)
THEIRS = Timings(15, 10, 2)
"""Those of client-go."""


class Broken:
    """The server, for us: it stops to take our writes when ``broken``. Remembers when it took one."""

    def __init__(self, server: ApiServer) -> None:
        self.broken, self.renewed = False, list[float]()
        self._server = server

    async def handle(self, request: Request) -> Response:
        if request.method != "GET":
            if self.broken:
                raise ConnectionResetError
            self.renewed.append(now())
        return await self._server.handle(request)


@dataclass
class Scene:
    """Our process, which leads, and the server as other processes reach it."""

    line: Broken
    elector: Elector
    ours: Client
    others: Client
    term: "asyncio.Task[None]"

    async def seen(self) -> Lease:
        """The Lease, as another process reads it."""
        return await self.others.get(LEASE, KEY)


def now() -> float:
    return round(asyncio.get_running_loop().time(), 3)


async def forever() -> None:
    await asyncio.sleep(1_000_000)


@asynccontextmanager
async def leading(lead: Callable[[], Awaitable[None]] = forever) -> AsyncIterator[Scene]:
    clock = LoopClock()
    server = ApiServer(clock)
    await server.start()
    line = Broken(server)
    ours = Client(InProcess(line.handle), clock, name="ours")
    elector = Elector(ours, clock, KEY, identity="we", timings=OURS, renew_on_request=True)
    announced = RenewalHandler(server.handle)
    announced.electors = [elector]
    term = asyncio.create_task(elector.run(lead))
    await asyncio.sleep(1)
    try:
        yield Scene(line, elector, ours, Client(InProcess(announced.handle), clock, name="others"), term)
    finally:
        term.cancel()
        await asyncio.gather(term, return_exceptions=True)
        await server.close()


async def test_a_leader_of_whom_no_other_process_asks_sends_nothing_and_may_write() -> None:
    async with leading() as scene:
        await asyncio.sleep(3600)
        assert (scene.line.renewed, scene.elector.entitled, scene.elector.leading) == ([0], True, True)


async def test_a_reader_always_finds_a_lease_that_was_renewed_within_a_period() -> None:
    async with leading() as scene:
        clock, ages = LoopClock(), []
        for pause in (0, 5, 11, 13, 100, 3600, 1, 11.9):
            await asyncio.sleep(pause)
            renewed = (await scene.seen()).spec.renew_time
            assert renewed is not None
            ages.append(clock.now() - renewed)
        assert max(ages) <= timedelta(seconds=OURS.retry_period)


async def test_after_a_reader_came_there_is_one_renewal_and_then_silence() -> None:
    async with leading() as scene:
        await asyncio.sleep(99)
        await scene.seen()
        await asyncio.sleep(3600)
        assert scene.line.renewed == [0, 100, 112]


LEASES = "/apis/coordination.k8s.io/v1/namespaces"
REQUESTS = [
    ("a list of all namespaces", "GET", "/apis/coordination.k8s.io/v1/leases", True),
    ("a list of its namespace", "GET", f"{LEASES}/default/leases", True),
    ("another version", "GET", "/apis/coordination.k8s.io/v1beta1/namespaces/default/leases", True),
    ("a write", "PATCH", f"{LEASES}/default/leases/controllers", True),
    ("a deletion elsewhere", "DELETE", f"{LEASES}/other/leases", False),
    ("another Lease", "GET", f"{LEASES}/default/leases/others", False),
    ("a Lease of a kubelet", "PUT", f"{LEASES}/kube-node-lease/leases/n", False),
    ("another kind", "GET", "/api/v1/namespaces/default/pods/controllers", False),
    ("which kinds there are", "GET", "/apis/coordination.k8s.io/v1", False),
]


@pytest.mark.parametrize(
    ("method", "path", "renews"), [each[1:] for each in REQUESTS], ids=[each[0] for each in REQUESTS]
)
async def test_requests_for_the_lease_renew_it_first(method: str, path: str, renews: bool) -> None:
    async with leading() as scene:
        await asyncio.sleep(99)
        await scene.others.transport.request(Request(method, path), timeout=1)
        assert scene.line.renewed == [0, 100][: 1 + renews]


@pytest.mark.parametrize("pace", [0.5, 2.0, 11.9, 12.1, 14.9, 40.0])
async def test_a_candidate_of_another_process_never_leads_however_seldom_it_looks(pace: float) -> None:
    async with leading() as scene:
        timings = Timings(max(15.0, pace * 3), max(10.0, pace * 2), pace)
        rival = Elector(scene.others, LoopClock(), KEY, identity="they", timings=timings)
        with suppress(TimeoutError):
            async with asyncio.timeout(300):
                await rival.run(forever)
        assert (await scene.seen()).spec.holder_identity == "we"
        assert (scene.elector.leading, scene.elector.entitled) == (True, True)
        assert len(scene.line.renewed) <= 2 + 300 / OURS.retry_period, "no more than regular renewals"


async def test_a_write_from_a_lease_that_did_not_change_for_long_is_refused() -> None:
    """As by a process that watches, and takes the Lease when its watch has been silent."""
    async with leading() as scene:
        await asyncio.sleep(100)
        watched = await scene.ours.get(LEASE, KEY)
        taken = structs.replace(watched, spec=structs.replace(watched.spec, holder_identity="they"))
        with pytest.raises(Conflict):
            await scene.others.replace(LEASE, KEY, taken)
        assert (await scene.seen()).spec.holder_identity == "we"


async def test_a_lease_that_cannot_be_renewed_is_not_shown_before_the_term_has_ended() -> None:
    async with leading() as scene:
        await asyncio.sleep(99)
        scene.line.broken = True
        read = Request("GET", f"{LEASES}/default/leases")
        answer = await scene.others.transport.request(read, timeout=10)
        assert answer.status == 503
        assert b"the leader cannot renew its lease" in answer.body
        assert (scene.elector.leading, scene.elector.entitled) == (True, False)
        answer = await scene.others.transport.request(read, timeout=10)
        assert (answer.status, scene.elector.leading) == (200, False)


async def test_a_user_who_clears_the_holder_ends_the_term_at_the_next_renewal() -> None:
    async with leading() as scene:
        await asyncio.sleep(99)
        seen = await scene.seen()
        cleared = structs.replace(seen, spec=structs.replace(seen.spec, holder_identity=None))
        await scene.others.replace(LEASE, KEY, cleared)
        with pytest.raises(LostLease, match="held by no process"):
            async with asyncio.timeout(1.5 * OURS.retry_period):
                await scene.term


async def test_at_its_end_the_leader_hands_over_to_a_candidate_that_waits() -> None:
    async with leading(lambda: asyncio.sleep(60)) as scene:
        rival = Elector(scene.others, LoopClock(), KEY, identity="they", timings=THEIRS)
        led: list[float] = []

        async def lead() -> None:
            led.append(now())

        await rival.run(lead)
        assert scene.term.done()
        assert led == [pytest.approx(60, abs=2 * THEIRS.retry_period)]
