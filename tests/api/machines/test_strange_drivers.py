"""Drivers that die, answer rubbish or with another machine's VM: what users see, how often the driver is asked,
and that all goes on by itself when the driver is mended."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from kubewright.api.core import EVENT
from kubewright.api.machine.names import Phase
from kubewright.driver.contract import ClassRequest, Instance, MachineRequest
from kubewright.driver.errors import Code, DriverError
from kubewright.driver.life.orphans import OrphanSettings
from kubewright.testing.stage import Borrowed, Stage, stage
from kubewright.testing.world import World, in_phase, short_timeouts

MINUTES = 60
OPTIONS = replace(
    short_timeouts(creation_timeout=30 * MINUTES),
    orphans=OrphanSettings(
        period=timedelta(minutes=30), confirmation=timedelta(minutes=5), soon=timedelta(seconds=5)
    ),
)


class Strange(Borrowed):
    """A driver that does its work and then does something else; ``mood`` says what. It counts its calls."""

    mood: Any = None
    victim = "m1"
    asked = 0

    async def create(self, request: MachineRequest) -> Instance:
        return await self._but(request, await super().create(request))

    async def initialize(self, request: MachineRequest) -> Instance:
        return await self._but(request, await super().initialize(request))

    async def status(self, request: MachineRequest) -> Instance:
        return await self._but(request, await super().status(request))

    async def delete(self, request: MachineRequest) -> str | None:
        if self.mood is None or request.name != self.victim:
            return await super().delete(request)
        self.asked += 1
        return self._strangely(None)

    async def _but(self, request: MachineRequest, found: Instance) -> Instance:
        if self.mood is None or request.name != self.victim:
            return found
        self.asked += 1
        answer: Instance = self._strangely(found)
        return answer

    def _strangely(self, found: Instance | None) -> Any:
        if isinstance(self.mood, BaseException):
            raise self.mood
        return self.mood(found) if callable(self.mood) else self.mood


class Other:
    """The mood of a driver that always answers with another machine's VM."""

    def __init__(self, vm: Instance, *, tagged: bool) -> None:
        self.vm = vm if tagged else replace(vm, owner_uid="", machine_name="")

    def __call__(self, _found: Instance | None) -> Instance:
        return self.vm


async def warnings(world: World, kind: str = "Machine") -> list[tuple[str, str]]:
    found = await world.client.list(EVENT, world.namespace)
    of = [event for event in found if event.involved_object.kind == kind and event.type == "Warning"]
    return [(event.reason, event.message) for event in of]


DEAD = "code = [Unknown] message = [KeyError: 'region']"
CREATIONS = [
    pytest.param(KeyError("region"), "Unknown", DEAD, id="one that dies"),
    pytest.param(SystemExit(1), "Unknown", "SystemExit: 1", id="one that ends the program"),
    pytest.param(7, "Internal", "(int) is not what the contract says", id="one that answers with a number"),
    pytest.param(
        lambda vm: replace(vm, provider_id=""), "Internal", "VM without a provider id", id="one without ids"
    ),
]


@pytest.mark.parametrize(("mood", "code", "says"), CREATIONS)
async def test_a_creation_by_a_strange_driver_says_so_and_goes_on_when_it_is_mended(
    mood: Any, code: str, says: str
) -> None:
    async with stage(OPTIONS) as here:
        driver = Strange(here.cloud)
        driver.mood = mood
        async with here.process(driver):
            await _shows_and_recovers(here, driver, code, says)


@pytest.mark.parametrize("tagged", [True, False], ids=["whose tags tell", "without tags"])
async def test_the_vm_of_another_machine_is_never_taken(tagged: bool) -> None:
    async with stage(OPTIONS) as here:
        world, driver = here.world, Strange(here.cloud)
        async with here.process(driver):
            await world.make("m2")
            sight = await world.until(in_phase(Phase.RUNNING), "the other machine runs", seconds=60)
            [theirs] = sight.machines
            vm = Instance(theirs.spec.provider_id, "m2", "m2", theirs.metadata.uid)
            driver.mood = Other(vm, tagged=tagged)
            await _shows_and_recovers(here, driver, "Internal", vm.provider_id)
            [left] = (await world.look()).machines
            assert (left.metadata.uid, left.spec.provider_id) == (theirs.metadata.uid, vm.provider_id)
            assert [each.provider_id for each in here.cloud.vms.values()] == [vm.provider_id]


async def _shows_and_recovers(here: Stage, driver: Strange, code: str, says: str) -> None:
    """``m1`` shows the error, the driver is not asked all the time; mended, the machine lives and goes."""
    world = here.world
    await world.make("m1")

    def shown(sight: Any) -> bool:
        last = [each.status.last_operation for each in sight.machines if each.metadata.name == "m1"]
        return any(each.error_code == code and says in each.description for each in last)

    await world.until(shown, "the status says what is wrong with the driver", seconds=60)
    await world.clock.sleep(2)  # events are written a moment later
    assert any(reason == "FailedCreateVM" and says in text for reason, text in await warnings(world))
    await world.clock.sleep(12 * MINUTES)
    assert 2 <= driver.asked <= 10, "a status, and what follows it, once in three minutes"
    driver.mood = None
    await world.until(lambda s: _phase(s, "m1") == Phase.RUNNING, "it runs", seconds=4 * MINUTES)
    await world.unmake("m1")
    await world.until(lambda s: _phase(s, "m1") is None, "it is gone", seconds=60)


def _phase(sight: Any, name: str) -> str | None:
    found = [each.status.current_status.phase for each in sight.machines if each.metadata.name == name]
    return found[0] if found else None


@pytest.mark.parametrize(
    ("mood", "says"),
    [
        pytest.param(
            KeyError("region"), "while decoding machine error: machine codes error", id="one that dies"
        ),
        pytest.param(True, "(bool) is not what the contract says", id="one that answers with a word"),
    ],
)
async def test_a_deletion_by_a_strange_driver_keeps_the_machine_until_it_is_mended(
    mood: Any, says: str
) -> None:
    async with stage(OPTIONS) as here:
        world, driver = here.world, Strange(here.cloud)
        async with here.process(driver):
            await world.make("m1")
            await world.until(in_phase(Phase.RUNNING), "it runs", seconds=60)
            driver.mood = mood
            await world.unmake("m1")
            await world.clock.sleep(25 * MINUTES)
            [machine] = (await world.look()).machines
            last = machine.status.last_operation
            assert (last.type, last.state, says in last.description) == ("Delete", "Failed", True), last
            assert 2 <= driver.asked <= 3, "once in ten minutes"
            driver.mood = None
            await world.until(lambda s: not s.machines, "it is gone", seconds=11 * MINUTES)
            assert not here.cloud.vms


class NoList(Borrowed):
    """A driver whose lists fail with one code after the other."""

    codes: Sequence[Code] = ()
    asked = 0

    async def list(self, request: ClassRequest) -> Sequence[Instance]:
        if request.machine_class.metadata.name != "small":
            return await super().list(request)
        code = self.codes[self.asked % len(self.codes)]
        self.asked += 1
        raise DriverError.of(code, "no")


async def test_a_list_that_fails_is_told_with_each_code_and_asked_for_less_and_less_often() -> None:
    async with stage(OPTIONS) as here:
        world, driver = here.world, NoList(here.cloud)
        driver.codes = [code for code in Code if code not in (Code.OK, Code.Unimplemented)]
        async with here.process(driver):
            await world.clock.sleep(5 * MINUTES)
            assert 4 <= driver.asked <= 8, "5 s, 10 s, 20 s, and so on"
            told: set[tuple[str, str]] = set()
            for _ in range(4):
                await world.clock.sleep(60 * MINUTES - 1)  # an event lives for an hour
                told |= set(await warnings(world, "MachineClass"))
            assert 5 <= driver.asked / 4 <= 10, "at last once in ten minutes"
        names = [text for reason, text in told if reason == "FailedListVMs"]
        missing = [code.name for code in driver.codes if not any(f"[{code.name}]" in text for text in names)]
        assert missing == []


class OneVmForAll(Borrowed):
    """Answers all machines with the same VM, at the same time."""

    async def create(self, request: MachineRequest) -> Instance:
        await asyncio.sleep(1)
        return Instance("sim:///the-same", "the-same")


async def test_a_vm_that_two_machines_are_answered_with_at_once_is_recorded_for_one_of_them() -> None:
    async with stage(OPTIONS) as here, here.process(OneVmForAll(here.cloud)):
        await here.world.make("m1")
        await here.world.make("m2")
        await here.world.clock.sleep(30)
        found = [machine.spec.provider_id for machine in (await here.world.look()).machines]
        assert sorted(found) == ["", "sim:///the-same"]
