"""What another client undoes, or the server drops, is not fought for: ever more rarely written, and told."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kubewright.api.core import CRD, EVENT, NODE
from kubewright.api.kinds import Kind, dynamic
from kubewright.api.machine.names import FINALIZER, Phase
from kubewright.api.machine.v1alpha1 import MACHINE, MACHINE_CLASS, MACHINE_DEPLOYMENT
from kubewright.compose.embedded import Embedded
from kubewright.kube.informer import Informers
from kubewright.providers.sim.driver import SimDriver
from kubewright.testing.clocks import LoopClock
from kubewright.testing.world import World, embedded_world, in_phase, running, short_timeouts
from kubewright.wire.gvk import Key

TEMPLATE = {
    "metadata": {"labels": {"tier": "gold"}, "annotations": {"note": "ours"}},
    "spec": {"taints": [{"key": "dedicated", "value": "ours", "effect": "NoSchedule"}]},
}


@asynccontextmanager
async def undoing(
    world: World, kind: Kind[Any], key: Key, theirs: Mapping[str, Any]
) -> AsyncIterator[list[int]]:
    """Another client that writes ``theirs`` whenever it sees something else; the list of its writes."""
    informers, undone = Informers(world.client), list[int]()
    informer = informers.get(dynamic(kind.resource))
    changed = asyncio.Event()
    informer.subscribe(lambda change: changed.set())

    async def work() -> None:
        while True:
            await changed.wait()
            changed.clear()
            before = informer.header(key)
            if before is None:
                continue
            after = await world.client.patch(dynamic(kind.resource), key, theirs)
            if int(after["metadata"]["resourceVersion"]) != before.version:
                undone.append(1)

    tasks = [asyncio.create_task(informers.run()), asyncio.create_task(work())]
    await informers.wait_synced(5)
    try:
        yield undone
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def told(world: World, name: str) -> list[str]:
    events = [each for each in await world.client.list(EVENT) if each.involved_object.name == name]
    return [each.message for each in events if each.reason == "Contested"]


MARKS: dict[str, tuple[dict[str, Any], str]] = {
    "a label": ({"metadata": {"labels": {"tier": "silver"}}}, "metadata.labels.tier"),
    "an annotation": ({"metadata": {"annotations": {"note": "theirs"}}}, "metadata.annotations.note"),
    "a taint": ({"spec": {"taints": None}}, "spec.taints"),
}


@pytest.mark.parametrize(("theirs", "field"), MARKS.values(), ids=MARKS)
async def test_a_mark_of_a_node_that_another_client_rewrites_is_not_fought_for(
    theirs: dict[str, Any], field: str
) -> None:
    async with embedded_world(short_timeouts()) as world:
        await world.make("m1", nodeTemplate=TEMPLATE)
        await world.until(in_phase(Phase.RUNNING), "it runs")
        async with undoing(world, NODE, Key("", "m1"), theirs) as undone:
            await world.clock.sleep(30)
            assert len(undone) <= 10
            (message,) = await told(world, "m1")
            assert message.startswith(f"What is written to {field} does not last")
            world.cloud.vanish(next(iter(world.cloud.vms)))  # all else goes on
            await world.until(in_phase(Phase.UNKNOWN), "its node is watched", seconds=60)


async def test_a_mark_that_another_client_no_longer_rewrites_comes_back() -> None:
    async with embedded_world(short_timeouts()) as world:
        await world.make("m1", nodeTemplate=TEMPLATE)
        await world.until(in_phase(Phase.RUNNING), "it runs")
        async with undoing(world, NODE, Key("", "m1"), MARKS["a label"][0]):
            await world.clock.sleep(10)
        await world.clock.sleep(20)
        node = await world.client.get(NODE, Key("", "m1"))
        assert node.metadata.labels["tier"] == "gold"


FINALIZED = {
    "a machine": (MACHINE, "m1"),
    "a class": (MACHINE_CLASS, "small"),
    "a deployment": (MACHINE_DEPLOYMENT, "pool"),
}


@pytest.mark.parametrize(("kind", "name"), FINALIZED.values(), ids=FINALIZED)
async def test_a_finalizer_that_another_client_takes_off_is_not_fought_for(
    kind: Kind[Any], name: str
) -> None:
    async with embedded_world(short_timeouts()) as world:
        await world.make("m1")
        await world.deploy("pool", 0)
        await world.clock.sleep(5)
        key = world.key(name)
        found = await world.client.get(dynamic(kind.resource), key)
        assert FINALIZER in found["metadata"]["finalizers"]
        async with undoing(world, kind, key, {"metadata": {"finalizers": None}}) as undone:
            await world.clock.sleep(30)
            assert len(undone) <= 10
            assert [each.split(" does not last")[0] for each in await told(world, name)] == [
                "What is written to metadata.finalizers"
            ]


async def test_a_phase_that_the_server_drops_is_not_written_again_and_again() -> None:
    clock = LoopClock()
    embedded = Embedded(None, short_timeouts(), clock)
    async with embedded, running(embedded.serve):
        assert isinstance(embedded.driver, SimDriver)
        world = World(embedded.client, embedded.driver.cloud, clock, "default")
        crds, key = dynamic(CRD.resource), Key("", "machines.machine.sapcloud.io")
        versions = (await world.client.get(crds, key))["spec"]["versions"]
        versions[0]["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"].pop("currentStatus")
        versions[0]["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"].pop("lastOperation")
        await world.client.patch(crds, key, {"spec": {"versions": versions}})
        await clock.sleep(1)

        def patches() -> float:
            lines = embedded.metrics.render().decode().splitlines()
            counted = 'resource="machines.machine.sapcloud.io"'
            found = [line for line in lines if "rest_client_requests_total" in line and '"PATCH"' in line]
            return sum(float(line.split()[-1]) for line in found if counted in line)

        await world.make("m1", "sim-small")
        await clock.sleep(10)
        before = patches()
        await clock.sleep(30)
        assert patches() - before <= 10
        assert await told(world, "m1")
        lines = embedded.metrics.render().decode().splitlines()
        withheld = [line for line in lines if line.startswith("kubewright_contested_writes_total")]
        assert withheld
        assert 'resource="machines.machine.sapcloud.io"' in withheld[0]
