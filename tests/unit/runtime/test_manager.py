"""The manager: order of start and stop, what it says while it waits, and how it ends."""

import asyncio
from contextlib import suppress
from types import SimpleNamespace

import msgspec
import pytest
import structlog

from kubewright.api.core import NODE, Lease
from kubewright.base import limits
from kubewright.kube.client import Client
from kubewright.kube.errors import TimedOut
from kubewright.kube.informer import Informers
from kubewright.kube.transport import InProcess
from kubewright.runtime.controller import Controller
from kubewright.runtime.leader import Elector, LostLease
from kubewright.runtime.manager import NotSynced, Phase, Settings, Work, in_words
from kubewright.runtime.result import Result
from kubewright.testing.clocks import LoopClock
from kubewright.testing.servers import alone
from kubewright.wire.errors import NotFound
from kubewright.wire.gvk import Key
from kubewright.wire.http import Response

A = Key("ns", "a")
MISSING = (
    "the server does not serve machines.machine.sapcloud.io; is its CRD installed?; nodes: no answer yet"
)


def late(resource, trouble=""):
    return SimpleNamespace(resource=resource, trouble=trouble)


@pytest.mark.parametrize(
    ("caches", "said"),
    [
        pytest.param([], "caches are not synced", id="nothing to name"),
        pytest.param([late("nodes")], "nodes: no answer yet", id="one that waits"),
        pytest.param(
            [late("machines", "NotFound: no"), late("machinesets", "NotFound: no")],
            "the server does not serve machines, machinesets; are their CRDs installed?",
            id="what is not installed is one question",
        ),
        pytest.param(
            [late("nodes", "Forbidden: not you"), late("pods", "Forbidden: not you"), late("secrets")],
            "nodes: Forbidden: not you (and 2 more caches)",
            id="a long list is the first and a number",
        ),
    ],
)
def test_what_is_missing_in_words(caches, said):
    assert in_words(caches) == said


class Caches:
    """Informers whose caches are full ``after`` seconds."""

    def __init__(self, after=0.0):
        self.after = after
        self.running = False

    async def run(self):
        self.running = True
        try:
            await asyncio.Event().wait()
        finally:
            self.running = False

    async def wait_synced(self, timeout):
        remaining = self.after - asyncio.get_running_loop().time()
        await asyncio.sleep(max(0.0, min(timeout, remaining)))
        if remaining > timeout:
            raise TimedOut("not listed")

    def statistics(self):
        trouble = "NotFound: the server could not find the requested resource"
        machines = SimpleNamespace(resource="machines.machine.sapcloud.io", synced=False, trouble=trouble)
        nodes = SimpleNamespace(resource="nodes", synced=False, trouble="")
        return [machines, nodes, SimpleNamespace(resource="pods", synced=True, trouble="")]


class Slow:
    """Reconciles for ``seconds``; notes what happened when."""

    def __init__(self, seconds=0.0):
        self.seconds, self.story = seconds, []

    async def reconcile(self, _key):
        self.story.append(("began", now()))
        try:
            await asyncio.sleep(self.seconds)
        except asyncio.CancelledError:
            self.story.append(("cancelled", now()))
            raise
        self.story.append(("finished", now()))
        return Result.done()


class OneLease:
    """A server for one candidate alone; ``stolen`` makes another the holder."""

    def __init__(self):
        self.lease = None

    async def get(self, _kind, _key):
        if self.lease is None:
            raise NotFound("none")
        return self.lease

    async def create(self, _kind, lease, *, namespace=""):
        self.lease = lease
        return lease

    async def replace(self, _kind, _key, lease):
        self.lease = lease
        return lease


def now():
    return asyncio.get_running_loop().time()


def controller(reconciler):
    one = Controller("slow", reconciler, LoopClock(), workers=2)
    one.enqueue(A)
    return one


async def run_for(seconds, manager):
    """Run, ask to stop after ``seconds``, and tell when it ended."""
    stop = asyncio.Event()
    asyncio.get_running_loop().call_later(seconds, stop.set)
    async with asyncio.timeout(seconds + limits.SHUTDOWN_SECONDS):
        await manager.run(stop)
    assert manager.phase is Phase.STOPPED
    return now()


async def test_nothing_is_reconciled_before_the_caches_are_full():
    caches, work = Caches(after=25), Slow()
    structlog.reset_defaults()
    with structlog.testing.capture_logs() as lines:
        await run_for(60, alone(LoopClock(), Work([controller(work)], [caches])))
    assert work.story[0] == ("began", 25)
    waiting = [line["missing"] for line in lines if line["event"] == "caches are not synced yet"]
    assert waiting == [MISSING] * 2
    assert not caches.running


async def test_a_kind_that_is_not_installed_is_named_and_waited_for():
    served = []

    async def handle(request):
        if not served:
            return Response(404)
        if request.param("watch"):
            await asyncio.Event().wait()
        return Response(200, b'{"metadata": {"resourceVersion": "1"}, "items": []}')

    structlog.reset_defaults()
    clock = LoopClock()
    informers = Informers(Client(InProcess(handle), clock))
    informers.get(NODE)
    asyncio.get_running_loop().call_later(25, served.append, True)
    with structlog.testing.capture_logs() as lines:
        manager = alone(clock, Work([], [informers]))
        await run_for(60, manager)
    waiting = [line["missing"] for line in lines if line["event"] == "caches are not synced yet"]
    assert waiting == ["the server does not serve nodes; is its CRD installed?"] * 2
    async with asyncio.timeout(0):
        await manager.settled()
    picture = msgspec.json.decode(msgspec.json.encode(manager.status()))
    assert picture["phase"] == "stopped"
    assert [each["resource"] for each in picture["clusters"]["cluster"]] == ["nodes"]


async def test_caches_that_never_fill_can_be_an_error():
    manager = alone(LoopClock(), Work([], [Caches(after=1e6)]), settings=Settings(sync_seconds=30))
    with pytest.raises(NotSynced, match="not ready after 30 s: the server does not serve machines"):
        await manager.run(asyncio.Event())
    assert now() == 30


async def test_a_stop_while_waiting_ends_at_once():
    assert await run_for(5, alone(LoopClock(), Work([], [Caches(after=1e6)]))) == 5


async def test_running_reconciliations_may_finish():
    work = Slow(7)
    assert await run_for(5, alone(LoopClock(), Work([controller(work)], [Caches()]))) == 7
    assert work.story == [("began", 0), ("finished", 7)]


async def test_what_takes_too_long_is_cancelled_in_time():
    work = Slow(1000)
    ended = await run_for(5, alone(LoopClock(), Work([controller(work)], [Caches()])))
    assert work.story == [("began", 0), ("cancelled", 11)]
    assert ended <= 5 + limits.SHUTDOWN_SECONDS


async def test_services_outlive_the_work_and_background_does_not():
    story = []

    def task(name):
        async def run():
            try:
                await asyncio.Event().wait()
            finally:
                story.append((name, now()))

        return run

    await run_for(
        5,
        alone(
            LoopClock(),
            Work([controller(Slow(8))], [Caches()], [task("background")]),
            services=[task("service")],
        ),
    )
    assert story == [("background", 8), ("service", 8)]


async def test_work_happens_only_while_leading_and_the_lease_is_released_last():
    server, work = OneLease(), Slow(3)
    elector = Elector(server, LoopClock(), Key("ns", "lease"), identity="me")
    manager = alone(LoopClock(), Work([controller(work)], [Caches()]), elector=elector)
    await run_for(1, manager)
    assert work.story == [("began", 0), ("finished", 3)]
    assert isinstance(server.lease, Lease)
    assert server.lease.spec.holder_identity == ""


async def test_a_candidate_is_ready_and_stops_at_once():
    class Unreachable(OneLease):
        async def get(self, _kind, _key):
            raise ConnectionRefusedError

    elector = Elector(Unreachable(), LoopClock(), Key("ns", "lease"), identity="me")
    manager = alone(LoopClock(), Work([controller(work := Slow())], [Caches()]), elector=elector)
    asyncio.get_running_loop().call_later(20, lambda: readiness.append(manager.not_ready()))
    readiness = []
    assert await run_for(30, manager) == 30
    assert work.story == []
    assert readiness == [""]


class Unrenewable(OneLease):
    """Can be taken once, and is out of reach from then on."""

    async def replace(self, _kind, _key, _lease):
        raise ConnectionRefusedError

    async def get(self, _kind, _key):
        if self.lease is None:
            raise NotFound("none")
        raise ConnectionRefusedError


async def lose_the_lease(reconciler):
    elector = Elector(Unrenewable(), LoopClock(), Key("ns", "lease"), identity="me")
    one = controller(reconciler)
    for number in range(10):
        one.enqueue(Key("ns", str(number)), after=15)
    with pytest.raises(LostLease):
        await alone(LoopClock(), Work([one], [Caches()]), elector=elector).run(asyncio.Event())


async def test_a_lost_lease_cancels_the_work_at_once():
    work = Slow(1000)
    await lose_the_lease(work)
    assert work.story == [("began", 0), ("began", 15), ("cancelled", 20), ("cancelled", 20)]


async def test_a_reconciliation_that_ignores_its_cancellation_is_the_last_of_its_worker():
    class Stubborn(Slow):
        async def reconcile(self, key):
            with suppress(asyncio.CancelledError):
                await super().reconcile(key)
            return Result.done()

    work = Stubborn(1000)
    await lose_the_lease(work)
    assert [what for what, _ in work.story] == ["began", "began", "cancelled", "cancelled"]


async def test_a_crashing_service_ends_the_process_with_its_own_error():
    async def breaks():
        await asyncio.sleep(3)
        raise ValueError("defect")

    caches = Caches()
    manager = alone(LoopClock(), Work([controller(Slow(1000))], [caches]), services=[breaks])
    with pytest.raises(ValueError, match="defect"):
        await manager.run(asyncio.Event())
    assert not caches.running
