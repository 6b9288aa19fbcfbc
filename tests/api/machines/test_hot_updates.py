"""A class that changes while its machines run: what a driver can change is changed, and nothing rolls.

The driver here is the simulated cloud's, with one hot field (``labels``, as tags of VMs) that a test can read and spoil.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from kubewright.api.machine import names
from kubewright.api.machine.v1alpha1 import (
    MACHINE,
    MACHINE_CLASS,
    MACHINE_DEPLOYMENT,
    MACHINE_SET,
    Machine,
    MachineClass,
)
from kubewright.driver.contract import ClassRequest, Instance, MachineRequest
from kubewright.driver.errors import Code, DriverError, NotFound, Unimplemented
from kubewright.driver.hot import digest, read, three_way
from kubewright.providers.sim.cloud import Cloud
from kubewright.providers.sim.spec import kubelet_settings
from kubewright.testing.stage import Borrowed, Stage, stage
from kubewright.testing.world import World, short_timeouts
from kubewright.wire.gvk import Key

Tags = dict[str, str]
OPTIONS = short_timeouts(health_timeout=600)
KUBELETS = kubelet_settings(OPTIONS.driver_options)


class Tagging(Borrowed):
    """Tags of VMs by the names of their machines; ``spoil`` is called before each tag is written."""

    def __init__(self, cloud: Cloud) -> None:
        super().__init__(cloud, KUBELETS)
        self.tags: dict[str, Tags] = {}
        self.calls: list[str] = []
        self.spoil: Callable[[str], None] = lambda _machine: None
        self.seconds = 0.0
        self.most = self.running = 0

    async def create(self, request: MachineRequest) -> Instance:
        made = await super().create(request)
        self.tags.setdefault(request.name, dict(_tags(request.machine_class.provider_spec)))
        return made

    def hot_fields(self, machine_class: MachineClass) -> Sequence[str]:
        return ["labels"]

    async def update(self, request: MachineRequest, last_applied: Mapping[str, Any] | None) -> None:
        self.calls.append(request.name)
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            if self.seconds:
                await self.cloud.clock.sleep(self.seconds)
            self._change(request, last_applied)
        finally:
            self.running -= 1

    def _change(self, request: MachineRequest, last_applied: Mapping[str, Any] | None) -> None:
        has = self.tags[request.name]
        last = None if last_applied is None else _tags(last_applied)
        changes = three_way(last, _tags(request.machine_class.provider_spec), dict(has))
        for key in sorted(changes.put):
            self.spoil(request.name)
            has[key] = changes.put[key]
        for key in changes.remove:
            self.spoil(request.name)
            has.pop(key, None)


class Late(Tagging):
    """A cloud that answers creations late, and shows no VM that is not on record."""

    async def create(self, request: MachineRequest) -> Instance:
        made = await super().create(request)
        await self.cloud.clock.sleep(self.seconds)
        return made

    async def status(self, request: MachineRequest) -> Instance:
        if not request.provider_id:
            raise NotFound("no such VM is shown yet")
        return await super().status(request)


class Fixed(Borrowed):
    """A driver that changes no VM that runs."""

    def hot_fields(self, machine_class: MachineClass) -> Sequence[str]:
        raise Unimplemented("no updates")


class Silent(Fixed):
    """One that cannot say what it changes before it has dialled in. It refuses each class."""

    dialled_in = False

    def hot_fields(self, machine_class: MachineClass) -> Sequence[str]:
        if not self.dialled_in:
            raise DriverError.of(Code.Unavailable, "it has not dialled in")
        return []

    async def validate(self, request: ClassRequest) -> None:
        raise DriverError.of(Code.InvalidArgument, "such a class is not allowed")


def _tags(spec: Mapping[str, Any]) -> Tags:
    return dict(spec.get("labels", {}))


async def change_class(world: World, spec: Mapping[str, Any], name: str = "small") -> None:
    await world.client.patch(MACHINE_CLASS, world.key(name), {"providerSpec": spec})


async def tag(world: World, **tags: str | None) -> None:
    await change_class(world, {"labels": tags})


def applied(machine: Machine) -> Tags:
    spec = read(machine.metadata.annotations.get(names.APPLIED_SPEC_ANNOTATION, "")) or {}
    return _tags(spec)


def marked(machine: Machine) -> bool:
    return names.UPDATE_ANNOTATION in machine.metadata.annotations


async def updated(world: World, tags: Tags, seconds: float = 60) -> None:
    """All machines are noted to have these tags, and no update is under way."""
    await world.until(
        lambda seen: all(applied(each) == tags and not marked(each) for each in seen.machines),
        f"all have {tags}",
        seconds=seconds,
    )


async def versions(world: World) -> dict[str, int]:
    return {each.name: int(each.metadata.resource_version) for each in (await world.look()).machines}


async def with_machines(here: Stage, count: int = 2) -> World:
    world = here.world
    await tag(world, team="a")
    await world.deploy("pool", count)
    await world.settled(count)
    return world


async def test_a_change_of_a_hot_field_reaches_each_vm_and_rolls_nothing() -> None:
    async with stage(OPTIONS) as here, here.process(driver := Tagging(here.cloud)):
        world = await with_machines(here)
        before = await world.look()
        assert all(applied(each) == {"team": "a"} for each in before.machines), (
            "noted with the first provider id"
        )
        for tags in driver.tags.values():
            tags["of-a-user"] = "x"
        await tag(world, team="b", cost="7")
        await updated(world, {"team": "b", "cost": "7"})
        await tag(world, team=None)
        await updated(world, {"cost": "7"})
        after = await world.look()
        assert after.uids == before.uids
        assert after.phases == ["Running", "Running"]
        assert list(driver.tags.values()) == [{"cost": "7", "of-a-user": "x"}] * 2
        assert sorted(driver.calls) == sorted([*after.names] * 2)
        assert len(await world.client.list(MACHINE_SET, world.namespace)) == 1


async def test_a_new_machine_needs_no_update_and_no_further_write() -> None:
    async with stage(OPTIONS) as here, here.process(driver := Tagging(here.cloud)):
        world = await with_machines(here)
        await world.clock.sleep(30)
        assert driver.calls == []
        for machine in (await world.look()).machines:
            assert machine.metadata.annotations[names.APPLIED_CLASS_ANNOTATION] == "small"


async def test_machines_of_an_older_version_are_updated_once_and_lose_no_foreign_tag() -> None:
    async with stage(OPTIONS) as here:
        driver = Tagging(here.cloud)
        async with here.process(driver):
            world = await with_machines(here)
        for name in (await world.look()).names:
            none = {names.APPLIED_SPEC_ANNOTATION: None, names.APPLIED_CLASS_ANNOTATION: None}
            await world.client.patch(MACHINE, world.key(name), {"metadata": {"annotations": none}})
            driver.tags[name]["foreign"] = "x"
        async with here.process(driver):
            await updated(world, {"team": "a"})
            await world.clock.sleep(30)
        assert sorted(driver.calls) == sorted((await world.look()).names)
        assert list(driver.tags.values()) == [{"team": "a", "foreign": "x"}] * 2


async def test_a_vm_that_a_process_before_us_asked_for_gets_what_its_class_says_by_now() -> None:
    """The creation is repeated, and answers the VM that was made by the class as it was."""
    async with stage(OPTIONS) as here:
        driver, world = Late(here.cloud), here.world
        driver.seconds = 1000
        await tag(world, team="a")
        process = here.begin(driver)
        await world.make("m1")
        await world.until(lambda _seen: bool(driver.tags), "the VM is made")
        await process.kill()
        await tag(world, team="b")
        driver.seconds = 0
        async with here.process(driver):
            await updated(world, {"team": "b"})
        assert driver.tags == {"m1": {"team": "b"}}


async def test_each_machine_costs_one_write_before_its_update_and_one_after() -> None:
    async with stage(OPTIONS) as here, here.process(driver := Tagging(here.cloud)):
        world = await with_machines(here, 60)
        driver.seconds = 0.5
        writes: dict[str, int] = dict.fromkeys((await world.look()).names, 0)
        known = await versions(world)
        await tag(world, team="b")

        def count(seen: Any) -> bool:
            for each in seen.machines:
                version = int(each.metadata.resource_version)
                writes[each.name] += version != known[each.name]
                known[each.name] = version
            return all(applied(each) == {"team": "b"} and not marked(each) for each in seen.machines)

        await world.until(count, "all are updated", every=0.01)
        await world.clock.sleep(20)
        count(await world.look())
        assert set(writes.values()) == {2}
        assert driver.most == 50, "the slots of the guard bound the calls"


async def test_an_update_that_failed_in_part_is_done_again_although_the_class_is_as_before() -> None:
    """HOT-04, where it failed half-way."""
    async with stage(OPTIONS) as here, here.process(driver := Tagging(here.cloud)):
        world = await with_machines(here, 1)
        (name,) = (await world.look()).names
        wrote = iter(range(100))

        def after_one(_machine: str) -> None:
            if next(wrote) == 1:
                raise DriverError.of(Code.Internal, "half-way")

        driver.spoil = after_one
        await tag(world, cost="7", owner="x")
        await world.until(
            lambda seen: seen.machines[0].status.last_operation.error_code == "Internal", "it failed"
        )
        failed = await world.machine(name)
        assert failed.status.last_operation.type == "Update"
        assert failed.status.last_operation.state == "Failed"
        assert failed.status.current_status.phase == "Running"
        assert driver.tags[name] == {"team": "a", "cost": "7"}
        assert marked(failed)
        await world.clock.sleep(2)
        pool = await world.client.get(MACHINE_DEPLOYMENT, world.key("pool"))
        assert [each.name for each in pool.status.failed_machines] == [name]
        assert pool.status.ready_replicas == 1
        await tag(world, cost=None, owner=None)
        await updated(world, {"team": "a"})
        assert driver.tags[name] == {"team": "a"}
        last = (await world.machine(name)).status.last_operation
        assert (last.type, last.state, last.error_code) == ("Update", "Successful", "")


async def test_an_update_that_a_crash_cut_off_is_done_again_although_the_class_is_as_before() -> None:
    """HOT-04, where it was cut off."""
    async with stage(OPTIONS) as here:
        driver = Tagging(here.cloud)
        process = here.begin(driver)
        world = await with_machines(here, 1)
        (name,) = (await world.look()).names
        driver.seconds = 1000
        await tag(world, cost="7")
        await world.until(lambda seen: marked(seen.machines[0]) and bool(driver.calls), "it has begun")
        assert (await world.machine(name)).metadata.annotations[names.UPDATE_ANNOTATION] == digest(
            (await world.client.get(MACHINE_CLASS, world.key("small"))).provider_spec
        )
        driver.tags[name]["cost"] = "7"
        await process.kill()
        await tag(world, cost=None)
        driver.seconds = 0
        async with here.process(driver):
            await updated(world, {"team": "a"})
        assert driver.tags[name] == {"team": "a"}


async def test_an_update_that_lasts_is_told_and_so_is_its_end() -> None:
    async with stage(OPTIONS) as here, here.process(driver := Tagging(here.cloud)):
        world = await with_machines(here, 1)
        driver.seconds = 8
        await tag(world, team="b")
        await world.until(
            lambda seen: seen.machines[0].status.last_operation.state == "Processing", "it is told"
        )
        (told,) = (await world.look()).machines
        assert told.status.last_operation.type == "Update"
        assert told.status.current_status.phase == "Running"
        await updated(world, {"team": "b"})
        (told,) = (await world.look()).machines
        assert (told.status.last_operation.type, told.status.last_operation.state) == ("Update", "Successful")


async def test_what_a_driver_refuses_for_good_is_asked_again_in_three_minutes() -> None:
    async with stage(OPTIONS) as here, here.process(driver := Tagging(here.cloud)):
        world = await with_machines(here, 1)

        def refuse(_machine: str) -> None:
            raise DriverError.of(Code.InvalidArgument, "such a tag is not allowed")

        driver.spoil = refuse
        await tag(world, team="b")
        await world.clock.sleep(600)
        assert 3 <= len(driver.calls) <= 4
        assert (await world.look()).phases == ["Running"]


async def test_a_driver_without_updates_leaves_machines_alone() -> None:
    async with stage(OPTIONS) as here, here.process(Fixed(here.cloud, KUBELETS)):
        world = await with_machines(here)
        before = await versions(world)
        await tag(world, team="b")
        await world.clock.sleep(600)
        assert await versions(world) == before
        assert all(applied(each) == {"team": "a"} for each in (await world.look()).machines)


@pytest.mark.parametrize("edited", ["{", "[]", ""])
async def test_an_annotation_that_a_user_has_spoiled_is_written_anew(edited: str) -> None:
    async with stage(OPTIONS) as here, here.process(driver := Tagging(here.cloud)):
        world = await with_machines(here, 1)
        (name,) = (await world.look()).names
        notes = {names.APPLIED_SPEC_ANNOTATION: edited}
        await world.client.patch(MACHINE, world.key(name), {"metadata": {"annotations": notes}})
        await updated(world, {"team": "a"})
        assert driver.calls == [name]


async def test_a_machine_that_a_user_gives_another_class_is_not_updated_by_it() -> None:
    async with stage(OPTIONS) as here, here.process(driver := Tagging(here.cloud)):
        world = here.world
        await world.clock.sleep(1)
        await world.make("m1")
        await world.settled(1)
        await change_class(world, {"labels": {"of": "large"}}, "large")
        body = {"spec": {"class": {"name": "large"}}}
        await world.client.patch(MACHINE, Key(world.namespace, "m1"), body)
        await world.clock.sleep(60)
        assert driver.calls == []
        assert driver.tags["m1"] == {}


async def told(world: World, name: str = "small", kind: str = "Applied") -> tuple[str, str] | None:
    """Status and reason of a condition of the class."""
    found = (await world.client.get(MACHINE_CLASS, world.key(name))).status.conditions
    return next(((each.status, each.reason) for each in found if each.type == kind), None)


async def news(world: World, name: str = "small") -> list[str]:
    return [each.message for each in await world.events(name) if each.reason == "ClassNotApplied"]


async def test_a_change_that_only_another_vm_can_have_is_told_on_the_class_and_sent_to_no_driver() -> None:
    async with stage(OPTIONS) as here, here.process(driver := Tagging(here.cloud)):
        world = await with_machines(here, 1)
        await change_class(world, {"instanceType": "huge"})
        await world.clock.sleep(120)
        assert await told(world) == ("False", "FixedFieldsDiffer")
        (message,) = await news(world)
        assert "only another VM can have what the class says of providerSpec.instanceType" in message
        assert driver.calls == []
        await change_class(world, {"labels": {"team": "b"}})
        await world.until(lambda seen: applied(seen.machines[0]) == {"team": "b"}, "the hot part is applied")
        (machine,) = (await world.look()).machines
        noted = read(machine.metadata.annotations[names.APPLIED_SPEC_ANNOTATION]) or {}
        assert noted["instanceType"] == "small", "what was not applied is not noted as applied"
        await world.unmake(machine.name)
        await world.until(lambda seen: machine.name not in seen.names and seen.settled(1), "it is replaced")
        await world.clock.sleep(70)
        assert await told(world) == ("True", "Applied")
        assert len(await news(world)) == 1


async def test_that_a_driver_changes_no_vm_is_told_once_on_the_class() -> None:
    async with stage(OPTIONS) as here, here.process(Fixed(here.cloud, KUBELETS)):
        world = await with_machines(here)
        await tag(world, team="b")
        await world.clock.sleep(600)
        assert await told(world) == ("False", "NoUpdates")
        assert len(await news(world)) == 1
        await tag(world, team="a")
        await world.clock.sleep(2)
        assert await told(world) == ("True", "Applied")


async def test_a_driver_that_says_late_what_it_changes_is_asked_again_and_hides_no_refusal_of_the_class() -> (
    None
):
    async with stage(OPTIONS) as here, here.process(driver := Silent(here.cloud, KUBELETS)):
        world = await with_machines(here)
        await tag(world, team="b")
        await world.clock.sleep(5)
        assert await told(world) is None
        assert await told(world, kind="Accepted") == ("False", "InvalidArgument")
        driver.dialled_in = True
        await world.clock.sleep(70)
        assert await told(world) == ("False", "FixedFieldsDiffer")
        assert await told(world, kind="Accepted") == ("False", "InvalidArgument")


async def test_a_class_whose_machines_have_what_it_says_is_not_written() -> None:
    async with stage(OPTIONS) as here, here.process(Tagging(here.cloud)):
        world = await with_machines(here)
        await tag(world, team="b")
        await updated(world, {"team": "b"})
        assert await told(world) is None
