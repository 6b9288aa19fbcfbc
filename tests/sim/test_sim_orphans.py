"""VMs that are created after their creation was given up: collected in every world, and only they."""

from dataclasses import replace
from datetime import timedelta

import pytest

from kubewright.driver.contract import stub
from kubewright.driver.errors import DriverError, NotFound
from kubewright.orphans import Collector
from kubewright.providers.sim.cloud import Cloud
from kubewright.providers.sim.driver import SimDriver
from kubewright.providers.sim.inventory import Store
from kubewright.testing.scenes import class_request
from simulation import loop as loops
from simulation.cloud import STALE_SECONDS, RemoteDriver
from simulation.loop import SimClock
from simulation.run import Outcome, simulate
from simulation.schedule import parse
from simulation.stories import BY_NAME
from simulation.world import OPTIONS, Plot

STORY = BY_NAME["delete-while-creating"]
LATE = "call:4:very-late"


def outcome_of(faults: str = LATE, **plot: object) -> Outcome:
    return simulate(STORY, Plot(seed=5, schedule=parse(faults), **plot))  # type: ignore[arg-type]


@pytest.mark.parametrize("call", [4, 5, 6])
def test_a_creation_that_is_carried_out_after_a_minute_leaves_nothing(call: int) -> None:
    outcome = outcome_of(f"call:{call}:very-late")
    assert outcome.good, outcome.violations
    assert outcome.seconds > 100, "the VM came after a minute, and was confirmed"


def test_killed_after_each_write_of_the_collection_it_leaves_nothing_either() -> None:
    whole = outcome_of().counts.writes
    for number in range(whole - 6, whole + 1):
        outcome = outcome_of(kill_after=number)
        assert outcome.good, (number, outcome.violations)


def test_looking_for_orphans_asks_no_server() -> None:
    """An hour of rest with a look every minute has the requests of one without, and no write."""
    never = timedelta(days=1)
    rare = replace(OPTIONS, orphans=replace(OPTIONS.orphans, period=never, soon=never))
    often, once = (
        simulate(BY_NAME["create"], Plot(seed=5, options=each), quiet=3600) for each in (OPTIONS, rare)
    )
    assert not [wrong for wrong in often.violations if wrong.startswith("quiet_at_rest")]
    assert often.counts.calls > once.counts.calls + 150
    assert often.counts.requests == once.counts.requests


def test_without_a_collector_it_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Collector, "attempt", lambda *_: _no())
    assert {violation.partition(":")[0] for violation in outcome_of().violations} & {
        "no_vm_without_a_machine",
        "Late",
    }


async def _no() -> bool:
    return False


def test_a_collector_that_deletes_at_first_sight_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It deletes what its cache does not know yet."""
    monkeypatch.setattr("kubewright.machines.orphans.vms.why_kept_by_cache", lambda _seen: "")
    monkeypatch.setattr("kubewright.machines.orphans.vms.why_kept_by_server", lambda *_: "")
    outcome = simulate(BY_NAME["scale-up"], Plot(seed=5), quiet=200)
    assert "a_living_machine_keeps_its_vm" in {
        violation.partition(":")[0] for violation in outcome.violations
    }


def test_a_collector_that_takes_the_only_vm_of_a_machine_for_a_second_one_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("kubewright.machines.orphans.vms.why_kept_by_cache", lambda _seen: "")
    monkeypatch.setattr("kubewright.machines.orphans.decide.is_second", lambda *_: True)
    outcome = simulate(BY_NAME["scale-up"], Plot(seed=5), quiet=200)
    assert "a_living_machine_keeps_its_vm" in {
        violation.partition(":")[0] for violation in outcome.violations
    }


def test_a_stale_answer_is_the_one_of_some_seconds_ago() -> None:
    loop = loops.SimLoop(seed=1)
    clock, cloud = SimClock(loop, "cloud"), loops.Process(loop, "cloud")
    inside = SimDriver(Cloud(clock, Store(None)))
    words = {"status": "stale", "list": "stale"}
    driver = RemoteDriver(inside, cloud, clock, lambda verb, _name: words.get(verb, ""))
    ref = class_request("small", tags={"c": "1"})
    request = ref.of(stub("m1", "ns", "u1"))

    async def main() -> None:
        made = await driver.create(request)
        with pytest.raises(NotFound):
            await driver.status(request)
        assert not await driver.list(ref)
        await clock.sleep(STALE_SECONDS)
        assert (await driver.status(request)).provider_id == made.provider_id
        await driver.delete(ref.of(stub("m1", "ns", "u1", provider_id=made.provider_id)))
        assert [vm.provider_id for vm in await driver.list(ref)] == [made.provider_id]
        await clock.sleep(STALE_SECONDS)
        assert not await driver.list(ref)

    loop.run_until_complete(main())
    loop.destroy()


def test_a_very_late_creation_has_answered_its_caller_long_before() -> None:
    loop = loops.SimLoop(seed=1)
    clock, process = SimClock(loop, "cloud"), loops.Process(loop, "cloud")
    cloud = Cloud(clock, Store(None))
    driver = RemoteDriver(SimDriver(cloud), process, clock, lambda *_: "very-late")
    request = class_request("small").of(stub("m1", "ns", "u1"))

    async def main() -> None:
        with pytest.raises(DriverError, match="DeadlineExceeded"):
            await driver.create(request)
        assert clock.monotonic() < 10
        assert not cloud.vms
        await clock.sleep(60)
        assert len(cloud.vms) == 1

    loop.run_until_complete(main())
    loop.destroy()
