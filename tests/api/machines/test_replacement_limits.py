"""How many machines are replaced for their health at once: by switch, by annotation, and not while most are ill."""

from dataclasses import replace

from kubewright.api.core import EVENT
from kubewright.api.machine.names import MAX_REPLACEMENTS_ANNOTATION, EventReason, Phase
from kubewright.api.machine.v1alpha1 import MACHINE_DEPLOYMENT
from kubewright.compose.options import Options
from kubewright.machines.settings import ReplacementLimits
from kubewright.testing.world import Snapshot, World, embedded_world, short_timeouts


def limited(limits: ReplacementLimits) -> Options:
    options = short_timeouts()
    return replace(options, machine=replace(options.machine, replacement_limits=limits))


async def test_an_annotation_lets_more_machines_of_its_deployment_be_replaced_at_once() -> None:
    async with embedded_world(short_timeouts()) as world:
        await world.deploy("workers", 4)
        await annotate(world, "workers", "75%")
        before = await world.settled(4)
        victims = sorted(before.names)[:3]
        for name in victims:
            kill(world, name)
        await world.until(
            lambda s: terminating_or_gone(s, victims) == 3, "all three are replaced at once", every=0.05
        )
        await world.settled(4)


async def test_a_deployment_that_allows_no_replacement_waits_for_its_user() -> None:
    async with embedded_world(short_timeouts()) as world:
        await world.deploy("workers", 2)
        await annotate(world, "workers", "0")
        before = await world.settled(2)
        kill(world, min(before.names))
        await world.until(lambda s: "Unknown" in s.phases, "it is ill")
        await world.clock.sleep(60)
        assert (await world.look()).names == before.names
        told = await held(world)
        assert [each.partition(", ")[2] for each in told] == [
            f"its deployment allows no replacement ({MAX_REPLACEMENTS_ANNOTATION})"
        ]
        await annotate(world, "workers", None)
        after = await world.until(lambda s: s.settled(2) and s.names != before.names, "it is replaced")
        assert len(before.names - after.names) == 1


async def test_while_most_machines_are_ill_none_is_replaced_and_the_others_recover() -> None:
    async with embedded_world(limited(ReplacementLimits(replacements=3, unhealthy="50%"))) as world:
        await world.deploy("here", 2)
        await world.deploy("there", 2)
        before = await world.settled(4)
        vms = sorted(world.cloud.vms)
        for vm in vms[:3]:
            world.cloud.order(vm, {"not-ready"})
        await world.until(lambda s: s.phases.count("Unknown") == 3, "three of four are ill")
        await world.clock.sleep(120)
        assert (await world.look()).uids == before.uids
        assert "3 of 4 machines are unhealthy" in (await held(world))[0]
        for vm in vms[1:3]:
            world.cloud.order(vm, set())
        after = await world.until(
            lambda s: s.settled(4) and s.uids != before.uids, "two recover, and the third is replaced"
        )
        assert len(before.uids - after.uids) == 1


async def test_a_machine_of_the_other_set_of_the_deployment_holds_the_next_one() -> None:
    async with embedded_world(short_timeouts()) as world:
        await world.deploy("workers", 4, minReadySeconds=30)
        before = await world.settled(4)
        await world.clock.sleep(30)
        await world.roll("workers", "large")
        mixed = await world.until(
            lambda s: set(s.phases) == {"Running"} and bool(s.names - before.names), "both sets run"
        )
        await world.change("workers", {"paused": True})
        victims = [min(before.names & mixed.names), min(mixed.names - before.names)]
        for name in victims:
            kill(world, name)
        await world.until(
            lambda s: terminating_or_gone(s, victims) == 1, "one of them is replaced", every=0.05
        )
        await world.until(lambda s: not set(victims) & s.names, "then the other is, too", seconds=60)
        assert "other machines are getting replaced" in (await held(world))[0]


async def test_machines_that_do_not_join_in_time_are_not_limited() -> None:
    async with embedded_world(short_timeouts(creation_timeout=60)) as world:
        await world.deploy("neverjoin", 3)
        first = await world.until(lambda s: s.phases == ["Pending"] * 3, "none joins")
        names = sorted(first.names)
        await world.until(
            lambda s: terminating_or_gone(s, names) == 3, "all are given up at once", seconds=70, every=0.05
        )
        assert await held(world) == []


def kill(world: World, name: str) -> None:
    vm = world.cloud.named(name, world.namespace)
    assert vm is not None
    world.cloud.kill(vm.id)


async def annotate(world: World, name: str, value: str | None) -> None:
    body = {"metadata": {"annotations": {MAX_REPLACEMENTS_ANNOTATION: value}}}
    await world.client.patch(MACHINE_DEPLOYMENT, world.key(name), body)


async def held(world: World) -> list[str]:
    """What the events say that hold machines."""
    events = await world.client.list(EVENT, world.namespace)
    return [each.message for each in events if each.reason == EventReason.REPLACEMENT_HELD]


def terminating_or_gone(snapshot: Snapshot, names: list[str]) -> int:
    kept = {
        each.metadata.name
        for each in snapshot.machines
        if not each.metadata.deleting and each.status.current_status.phase != Phase.FAILED
    }
    return len(set(names) - kept)
