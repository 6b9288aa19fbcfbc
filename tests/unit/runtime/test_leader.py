"""Election: single candidates, and pairs of them against a server that fails in every way."""

import asyncio
import itertools
import logging
import random
from contextlib import suppress
from datetime import timedelta
from types import SimpleNamespace

import looptime
import pytest
import structlog
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs
from structlog.testing import capture_logs

from kubewright.api.core import Lease, LeaseSpec
from kubewright.api.meta import ObjectMeta
from kubewright.base.clock import new_uid
from kubewright.runtime.leader import Elector, LostLease, identity
from kubewright.runtime.lease import Timings
from kubewright.testing.clocks import LoopClock
from kubewright.wire.errors import AlreadyExists, Conflict, Forbidden, NotFound, Unavailable
from kubewright.wire.gvk import Key

KEY = Key("kube-system", "machine-controller-manager")


class LeaseServer:
    """One Lease with compare-and-swap. Notes when requests come."""

    def __init__(self):
        self.lease = None
        self.version = 0
        self.came = []

    @property
    def requests(self):
        return len(self.came)

    def read(self):
        if self.lease is None:
            raise NotFound("no lease")
        return self.lease

    def create(self, lease):
        if self.lease is not None:
            raise AlreadyExists("taken")
        return self._store(lease)

    def replace(self, lease):
        if self.lease is None:
            raise NotFound("no lease")
        if lease.metadata.resource_version != self.lease.metadata.resource_version:
            raise Conflict("stale")
        return self._store(lease)

    def _store(self, lease):
        self.version += 1
        meta = structs.replace(lease.metadata, uid="u", resource_version=str(self.version))
        self.lease = structs.replace(lease, metadata=meta)
        return self.lease


class Line:
    """How one candidate reaches the server; ``fault`` says for each request what happens to it."""

    def __init__(self, server, fault=lambda: ("ok", 0.0)):
        self.server, self.fault = server, fault

    async def get(self, _kind, _key):
        return await self._through(self.server.read)

    async def create(self, _kind, lease, *, namespace=""):
        assert (namespace, lease.metadata.namespace, lease.metadata.name) == (
            KEY.namespace,
            KEY.namespace,
            KEY.name,
        )
        return await self._through(lambda: self.server.create(lease))

    async def replace(self, _kind, _key, lease):
        return await self._through(lambda: self.server.replace(lease))

    async def _through(self, call):
        self.server.came.append(asyncio.get_running_loop().time())
        what, delay = self.fault()
        if what == "refused":
            raise ConnectionRefusedError("refused")
        if what == "reset":
            raise ConnectionResetError
        if what == "defect":
            raise ValueError("defect")
        if what == "unavailable":
            raise Unavailable("overloaded")
        if what == "forbidden":
            raise Forbidden("not allowed")
        if what == "late":  # arrives long after the sender gave up
            asyncio.get_running_loop().call_later(delay + 7, _ignore(call))
            await asyncio.sleep(1000)
        await asyncio.sleep(delay)
        answer = call()
        if what == "answer lost":
            raise ConnectionResetError("after the write")
        await asyncio.sleep(delay)
        return answer


def _ignore(call):
    def quietly():
        with suppress(Conflict, NotFound):
            call()

    return quietly


class OffsetClock(LoopClock):
    """A machine whose clocks, wall and monotonic, are off by an hour or so."""

    def __init__(self, offset, seed=0):
        super().__init__(seed=seed)
        self._offset = offset

    def monotonic(self):
        return super().monotonic() + abs(self._offset)

    def now(self):
        return super().now() + timedelta(seconds=self._offset)


def candidate(server, name, *, offset=0.0, fault=lambda: ("ok", 0.0), timings=None):
    return Elector(Line(server, fault), OffsetClock(offset), KEY, identity=name, timings=timings)


@pytest.fixture
def server():
    return LeaseServer()


async def forever():
    await asyncio.sleep(1_000_000)


async def settle(*tasks):
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_the_first_candidate_leads_at_once_and_releases_at_the_end(server):
    elector, seen = candidate(server, "one"), []

    async def lead():
        seen.append((elector.leading, server.lease.spec.holder_identity))

    await elector.run(lead)
    assert seen == [(True, "one")]
    assert not elector.leading
    assert server.lease.spec.holder_identity == ""
    assert server.requests == 3, "look, take, release"


async def test_a_released_lease_is_taken_within_one_period(server, looptime):
    first, second = candidate(server, "one"), candidate(server, "two", offset=-4000)
    one = asyncio.create_task(first.run(lambda: asyncio.sleep(100)))
    await asyncio.sleep(1)
    two = asyncio.create_task(second.run(forever))
    await one
    assert looptime == 100
    await asyncio.sleep(12.1)
    assert second.leading
    assert server.lease.spec.lease_transitions == 1
    await settle(two)


async def test_a_dead_leaders_lease_is_taken_when_it_expires(server, looptime):
    first = asyncio.create_task(candidate(server, "one").run(forever))
    await asyncio.sleep(15)
    second = candidate(server, "two")
    two = asyncio.create_task(second.run(forever))
    await asyncio.sleep(6)
    before = server.lease.spec  # "one" dies without a word after its renewal at 20
    dead = server.lease
    await settle(first)
    server.lease = dead
    assert before.holder_identity == "one"
    async with asyncio.timeout(60):
        while not second.leading:  # noqa: ASYNC110  virtual seconds
            await asyncio.sleep(1)
    assert 50 <= asyncio.get_running_loop().time() <= 65
    await settle(two)


async def test_at_rest_a_replica_costs_at_most_six_requests_a_minute(server):
    one = asyncio.create_task(candidate(server, "one").run(forever))
    await asyncio.sleep(1)
    server.came.clear()
    await asyncio.sleep(600)
    assert server.requests <= 60
    await settle(one)


async def test_refused_connections_do_not_end_the_candidacy(server):
    trouble = ["refused", "unavailable", "refused"]
    elector = candidate(server, "one", fault=lambda: (trouble.pop() if trouble else "ok", 0.0))
    task = asyncio.create_task(elector.run(forever))
    await asyncio.sleep(40)
    assert elector.leading
    await settle(task)


async def test_a_short_outage_does_not_end_a_term(server):
    loop = asyncio.get_running_loop()
    fault = lambda: ("refused" if 5 < loop.time() < 18 else "ok", 0.0)  # noqa: E731
    elector = candidate(server, "one", fault=fault)
    task = asyncio.create_task(elector.run(forever))
    await asyncio.sleep(60)
    assert elector.leading
    await settle(task)


class FixedChance:
    """Every draw is a quarter."""

    def random(self):
        return 0.25


def paced(server, **more):
    """A candidate whose pauses can be foretold."""
    elector_clock = OffsetClock(0.0)
    elector_clock.random = FixedChance()
    return Elector(Line(server, **more), elector_clock, KEY, identity="one")


async def test_a_candidate_looks_once_a_period_and_a_little_while_another_leads(server):
    server.lease = held_by("two", duration=3600)
    task = asyncio.create_task(paced(server).run(forever))
    await asyncio.sleep(40)
    assert server.came == [0, 10.5, 21, 31.5]
    await settle(task)


async def test_a_candidate_comes_when_the_lease_expires_if_that_is_sooner(server):
    server.lease = held_by("two", duration=14)
    elector = paced(server)
    task = asyncio.create_task(elector.run(forever))
    await asyncio.sleep(15)
    assert server.came == [0, 10.5, 14, 14]
    assert elector.leading
    await settle(task)


async def test_a_candidate_that_can_read_and_not_write_keeps_its_period(server):
    trouble = itertools.cycle(["ok", "unavailable"])
    task = asyncio.create_task(paced(server, fault=lambda: (next(trouble), 0.0)).run(forever))
    await asyncio.sleep(25)
    assert server.came == [0, 0, 10.5, 10.5, 21, 21]
    await settle(task)


async def test_a_leader_tries_again_soon_when_a_renewal_fails(server):
    loop = asyncio.get_running_loop()
    task = asyncio.create_task(
        paced(server, fault=lambda: ("refused" if 5 < loop.time() < 14 else "ok", 0.0)).run(forever)
    )
    await asyncio.sleep(20)
    assert server.came == [0, 0, 10, 11.5, 13, 14.5, 14.5]
    await settle(task)


async def test_a_candidate_stands_by_once_for_each_holder(server):
    times = []
    server.lease = held_by("two", duration=3600)

    def stands_by() -> None:
        times.append(asyncio.get_running_loop().time())

    task = asyncio.create_task(paced(server).run(forever, stands_by=stands_by))
    await asyncio.sleep(15)
    server.replace(structs.replace(server.lease, spec=held_by("three", duration=3600).spec))
    await asyncio.sleep(30)
    server.replace(structs.replace(server.lease, spec=held_by(None, duration=20).spec))
    await asyncio.sleep(60)
    assert times == [0, 21]
    await settle(task)


def held_by(holder, *, duration):
    return Lease(
        metadata=ObjectMeta(name=KEY.name, namespace=KEY.namespace, uid="u", resource_version="0"),
        spec=LeaseSpec(holder_identity=holder, lease_duration_seconds=duration),
    )


LOST = f"lease {KEY} could not be renewed for 20 s: "


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        (("refused", 0.0), "refused"),
        (("reset", 0.0), "ConnectionResetError"),
        (("unavailable", 0.0), "overloaded"),
        (("defect", 0.0), "ValueError, see the log"),
        (("ok", 500.0), "no answer within 5 s"),
    ],
    ids=["an error of the network", "one without a text", "an error of the server", "a defect", "silence"],
)
async def test_a_lost_lease_names_the_last_trouble(server, fault, why):
    loop = asyncio.get_running_loop()
    elector = candidate(server, "one", fault=lambda: fault if 5 < loop.time() < 20 else ("ok", 0.0))
    with pytest.raises(LostLease) as lost:
        await elector.run(forever)
    assert str(lost.value) == LOST + why


async def test_a_lost_lease_whose_last_request_never_came_back_says_that(server):
    """Earlier troubles, over since, are not the reason."""
    loop = asyncio.get_running_loop()

    def faults() -> tuple[str, float]:
        if loop.time() > 10:
            return "ok", 500.0
        return ("refused" if loop.time() == 6 else "ok"), 0.0

    elector = candidate(server, "one", fault=faults, timings=Timings(15, 10, 6))
    with pytest.raises(LostLease) as lost:
        await elector.run(forever)
    assert str(lost.value) == f"lease {KEY} could not be renewed for 10 s: the server did not answer"


class LeapingClock(OffsetClock):
    """A process that is stopped for ``leap`` seconds after the fifth."""

    def __init__(self, leap):
        super().__init__(0.0)
        self._leap = leap

    def monotonic(self):
        return super().monotonic() + (self._leap if super().monotonic() > 5 else 0.0)


async def test_a_leader_that_stood_still_for_too_long_stops_without_a_request(server):
    elector = Elector(Line(server), LeapingClock(10.0), KEY, identity="one")
    with pytest.raises(LostLease) as lost:
        await elector.run(forever)
    assert str(lost.value) == LOST + "this process stood still"
    assert [moment for moment in server.came if moment < 10] == [0, 0]


async def test_a_leader_that_stood_still_for_less_renews(server):
    elector = Elector(Line(server), LeapingClock(9.5), KEY, identity="one")
    task = asyncio.create_task(elector.run(forever))
    await asyncio.sleep(30)
    assert elector.leading
    await settle(task)


@pytest.fixture
def lines():
    """What is logged meanwhile; other tests are quiet."""
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.INFO))
    with capture_logs() as lines:
        yield lines
    structlog.configure(**before)


async def test_one_kind_of_trouble_is_logged_once_until_it_is_over(server, lines):
    loop = asyncio.get_running_loop()

    def fault():
        if loop.time() < 30:
            return ("reset" if loop.time() < 15 else "refused"), 0.0
        if loop.time() < 60:
            return ("unavailable" if loop.time() < 45 else "forbidden"), 0.0
        return "ok", 0.0

    task = asyncio.create_task(candidate(server, "one", fault=fault).run(forever))
    await asyncio.sleep(100)
    await settle(task)
    told = [(line["event"], line.get("why")) for line in lines if line["event"].startswith("the lease can")]
    assert told == [
        ("the lease cannot be reached", "ConnectionResetError"),
        ("the lease cannot be reached", "overloaded"),
        ("the lease cannot be reached", "not allowed"),
        ("the lease can be reached again", None),
    ]


def test_an_identity_names_the_host_and_is_drawn_anew():
    assert identity("host", LoopClock(seed=3)) == f"host_{new_uid(LoopClock(seed=3))}"


async def test_a_long_outage_ends_it_before_the_lease_expires(server):
    loop, over = asyncio.get_running_loop(), []
    elector = candidate(server, "one", fault=lambda: ("refused" if loop.time() > 5 else "ok", 0.0))

    async def lead():
        try:
            await forever()
        finally:
            over.append(loop.time())

    with pytest.raises(LostLease):
        await elector.run(lead)
    assert over == [pytest.approx(20, abs=0.01)]


async def test_it_writes_no_more_before_a_candidate_that_waits_less_can_lead(server):
    """The original's older versions wait 15 s for a renewal, whatever the Lease promises."""
    loop, entitled = asyncio.get_running_loop(), []
    elector = candidate(server, "one", fault=lambda: ("refused" if 5 < loop.time() < 17 else "ok", 0.0))
    task = asyncio.create_task(elector.run(forever))
    for _ in range(40):
        await asyncio.sleep(0.5)
        entitled.append((loop.time(), elector.entitled))
    assert [moment for moment, may in entitled if moment < 17 and not may] == [14, 14.5, 15, 15.5, 16, 16.5]
    assert entitled[-1] == (20, True)
    assert elector.leading
    await settle(task)


@pytest.mark.parametrize(
    ("timings", "delay"),
    [
        pytest.param(
            Timings(60, 40, 20), 0.0, id="a retry period that is longer than a renewal excludes rivals"
        ),
        pytest.param(Timings(30, 20, 12), 0.55, id="our own, and a server that answers slowly"),
    ],
)
async def test_while_renewals_succeed_writes_never_pause(server, timings, delay):
    elector = candidate(server, "one", fault=lambda: ("ok", delay), timings=timings)
    task = asyncio.create_task(elector.run(forever))
    await asyncio.sleep(5)
    refused = []
    for tenth in range(2000):
        await asyncio.sleep(0.1)
        if not elector.entitled:
            refused.append(tenth)
    assert refused == []
    await settle(task)


async def test_a_stop_in_the_middle_of_taking_the_lease_releases_it(server):
    loop = asyncio.get_running_loop()
    elector = candidate(server, "one", fault=lambda: ("ok", 1.0 if loop.time() < 2.5 else 0.0))
    task = asyncio.create_task(elector.run(forever))
    await asyncio.sleep(2.5)
    assert (elector.leading, server.lease.spec.holder_identity) == (False, "one"), "the answer is under way"
    await settle(task)
    assert server.lease.spec.holder_identity == ""


async def test_a_stop_of_a_candidate_that_only_waits_costs_no_request(server):
    server.lease = held_by("two", duration=3600)
    task = asyncio.create_task(paced(server).run(forever))
    await asyncio.sleep(5)
    await settle(task)
    assert server.came == [0]


async def test_work_that_fails_while_it_is_cancelled_does_not_hide_the_lost_lease(server):
    loop = asyncio.get_running_loop()
    elector = candidate(server, "one", fault=lambda: ("refused" if loop.time() > 5 else "ok", 0.0))

    async def clumsy():
        try:
            await forever()
        finally:
            raise ValueError("a defect in its end")

    with pytest.raises(LostLease):
        await elector.run(clumsy)
    assert not elector.leading


async def test_a_hanging_server_ends_it_as_well(server):
    loop = asyncio.get_running_loop()
    elector = candidate(server, "one", fault=lambda: ("ok", 500.0 if loop.time() > 5 else 0.0))
    with pytest.raises(LostLease):
        await elector.run(forever)
    assert loop.time() <= 22.01


async def test_a_lost_answer_does_not_end_a_term(server):
    trouble = iter(["ok", "ok", "answer lost", "ok", "ok", "answer lost"])
    elector = candidate(server, "one", fault=lambda: (next(trouble, "ok"), 0.0))
    task = asyncio.create_task(elector.run(forever))
    await asyncio.sleep(100)
    assert elector.leading
    await settle(task)


async def test_a_leader_steps_down_when_another_holds_the_lease(server):
    elector = candidate(server, "one")
    task = asyncio.create_task(elector.run(forever))
    await asyncio.sleep(1)
    thief = structs.replace(server.lease.spec, holder_identity="two")
    server.replace(structs.replace(server.lease, spec=thief))
    with pytest.raises(LostLease, match="held by two"):
        await task
    assert server.lease.spec.holder_identity == "two"


async def test_a_leader_that_is_asked_to_step_down_is_gone_before_another_leads(server):
    first, second = candidate(server, "one"), candidate(server, "two")
    one = asyncio.create_task(first.run(forever))
    await asyncio.sleep(1)
    two = asyncio.create_task(second.run(forever))
    await asyncio.sleep(1)
    cleared = structs.replace(server.lease.spec, holder_identity=None)
    server.replace(structs.replace(server.lease, spec=cleared))
    for _ in range(60):
        await asyncio.sleep(1)
        assert not (first.leading and second.leading)
    assert second.leading
    with pytest.raises(LostLease, match="held by no process"):
        await one
    await settle(two)


async def test_a_vanished_lease_is_not_taken_before_its_holder_must_have_noticed(server):
    one = asyncio.create_task(candidate(server, "one").run(forever))
    second = candidate(server, "two")
    await asyncio.sleep(1)
    two = asyncio.create_task(second.run(forever))
    await asyncio.sleep(1)
    server.lease = None
    await asyncio.sleep(100)
    assert server.lease.spec.holder_identity == "one"
    assert not second.leading
    await settle(one, two)


async def test_beginning_and_end_of_a_term_are_events(server):
    told = []
    recorder = SimpleNamespace(
        event=lambda about, reason, text: told.append(
            (about["kind"], about["metadata"]["namespace"], about["metadata"]["name"], reason, text)
        )
    )
    elector = Elector(Line(server), LoopClock(), KEY, identity="one", recorder=recorder)
    await elector.run(lambda: asyncio.sleep(1))
    assert told == [
        ("Lease", KEY.namespace, KEY.name, "LeaderElection", "one became leader"),
        ("Lease", KEY.namespace, KEY.name, "LeaderElection", "one stopped leading"),
    ]


async def test_what_the_work_raises_comes_out_and_the_lease_is_released(server):
    async def breaks():
        raise ValueError("defect")

    with pytest.raises(ValueError, match="defect"):
        await candidate(server, "one").run(breaks)
    assert server.lease.spec.holder_identity == ""


async def test_a_lease_that_a_user_made_empty_is_taken(server):
    server.create(Lease(metadata=ObjectMeta(name=KEY.name, namespace=KEY.namespace), spec=LeaseSpec()))
    elector = candidate(server, "one")
    task = asyncio.create_task(elector.run(forever))
    await asyncio.sleep(0.1)
    assert elector.leading
    await settle(task)


FAULTS = ("ok", "ok", "ok", "refused", "unavailable", "answer lost", "late")


@settings(max_examples=settings.default.max_examples // 2, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    offsets=st.tuples(st.floats(-5000, 5000), st.floats(-5000, 5000), st.floats(-5000, 5000)),
    trouble=st.floats(0, 0.9),
    timings=st.sampled_from([Timings(), Timings(15, 10, 2), Timings(60, 40, 20)]),
    stopped=st.booleans(),
)
def test_two_never_lead_or_write_at_once(seed, offsets, trouble, timings, stopped):
    with asyncio.Runner(loop_factory=lambda: looptime.new_event_loop(start=0, noop_cycles=1)) as runner:
        runner.run(_rivalry(seed, offsets, trouble, timings, stopped=stopped))


async def _rivalry(seed, offsets, trouble, timings, *, stopped):
    """Candidates that come, lead, lose, die and come back for some virtual minutes; each stops slowly.

    ``stopped``: they are asked to end at any moment, also in the middle of taking the Lease.
    """
    server, chance, leading, candidates = LeaseServer(), random.Random(seed), set(), {}

    def fault():
        if chance.random() >= trouble:
            return "ok", chance.uniform(0, 0.3)
        return chance.choice(FAULTS), chance.uniform(0, 8)

    async def live(name, offset):
        async def lead():
            leading.add(name)
            assert len(leading) == 1, f"{leading} lead at once"
            try:
                await asyncio.sleep(chance.uniform(1, 100))
            finally:
                try:
                    await asyncio.sleep(chance.uniform(0, 2))  # the work takes its time to stop
                finally:
                    leading.discard(name)

        for _life in range(4):
            one = candidates[name] = candidate(server, name, offset=offset, fault=fault, timings=timings)
            with suppress(LostLease, TimeoutError):
                async with asyncio.timeout(chance.uniform(0, 90) if stopped else None):
                    await one.run(lead)
            await asyncio.sleep(chance.uniform(0, 20))

    async def watch():
        while True:
            writers = [name for name, each in candidates.items() if each.entitled]
            assert len(writers) <= 1, f"{writers} may write at once"
            await asyncio.sleep(chance.uniform(0.2, 2))

    with suppress(TimeoutError):
        async with asyncio.timeout(200), asyncio.TaskGroup() as group:
            group.create_task(watch())
            for name, offset in zip("abc", offsets, strict=True):
                group.create_task(live(name, offset))
