"""Objects that the controllers cannot read: they say so, nothing is done about them, and they can be deleted.

The server's schema is looser than our types, as that of an older or a foreign CRD may be.
"""

from collections.abc import Mapping
from typing import Any

import pytest

from kubewright.api.core import CRD
from kubewright.api.kinds import Kind, dynamic
from kubewright.api.machine.names import Phase
from kubewright.api.machine.v1alpha1 import MACHINE, MACHINE_CLASS, MACHINE_DEPLOYMENT, MACHINE_SET
from kubewright.compose.embedded import Embedded
from kubewright.providers.sim.driver import SimDriver
from kubewright.testing.clocks import LoopClock
from kubewright.testing.stage import stage
from kubewright.testing.world import World, embedded_world, in_phase, running, short_timeouts
from kubewright.wire.errors import NotFound
from kubewright.wire.gvk import Key

ANYTHING = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
WHATEVER = {"x-kubernetes-preserve-unknown-fields": True}
KINDS = (MACHINE, MACHINE_SET, MACHINE_DEPLOYMENT)


async def loosen(world: World, *kinds: Kind[Any]) -> None:
    """Let the server take anything for specs and statuses of these kinds."""
    for kind in kinds or KINDS:
        key, crds = Key("", f"{kind.resource.plural}.{kind.resource.group}"), dynamic(CRD.resource)
        versions = (await world.client.get(crds, key))["spec"]["versions"]
        for version in versions:
            root = version["schema"]["openAPIV3Schema"]
            root["properties"] = {
                **root["properties"],
                "spec": ANYTHING,
                "status": ANYTHING,
                "credentialsSecretRef": WHATEVER,
            }
        await world.client.patch(crds, key, {"spec": {"versions": versions}})
    await world.clock.sleep(1)


async def spoil(world: World, kind: Kind[Any], name: str, spec: Mapping[str, Any]) -> None:
    await world.client.patch(dynamic(kind.resource), world.key(name), {"spec": spec})
    await world.clock.sleep(1)


async def raw(world: World, kind: Kind[Any], name: str) -> dict[str, Any]:
    return await world.client.get(dynamic(kind.resource), world.key(name))


async def left(world: World, kind: Kind[Any]) -> list[str]:
    found = await world.client.list(dynamic(kind.resource), world.namespace)
    return [each["metadata"]["name"] for each in found]


async def until_gone(world: World, kind: Kind[Any], seconds: float = 20.0) -> None:
    deadline = world.clock.monotonic() + seconds
    while there := await left(world, kind):
        assert world.clock.monotonic() < deadline, f"still there: {there}"
        await world.clock.sleep(0.2)


def readable(found: Mapping[str, Any], field: str = "conditions") -> tuple[str, str] | None:
    conditions = found.get("status", {}).get(field, [])
    return next(
        ((each["status"], each["message"]) for each in conditions if each["type"] == "Readable"), None
    )


RETRIES = "cannot read Machine: spec.maxEvictRetries: Expected `int | null`, got `float`"


async def test_a_machine_that_cannot_be_read_says_so_and_is_left_alone() -> None:
    async with embedded_world(short_timeouts(), admission=()) as world:
        await loosen(world)
        await world.make("m1")
        await world.settled(1)
        await spoil(world, MACHINE, "m1", {"maxEvictRetries": 2.5})
        assert readable(await raw(world, MACHINE, "m1")) == ("False", RETRIES)
        await world.clock.sleep(2)
        told = [(each.type, each.message) for each in await world.events("m1") if each.reason == "Unreadable"]
        alone = "The controllers leave it alone until that is mended; its deletion goes on"
        assert told == [("Warning", f"{RETRIES}. {alone}")]
        before = await raw(world, MACHINE, "m1")
        await world.clock.sleep(30)
        assert await raw(world, MACHINE, "m1") == before
        assert len(world.cloud.vms) == 1


async def test_when_it_is_mended_the_condition_goes_and_the_machine_is_looked_after() -> None:
    async with embedded_world(short_timeouts(), admission=()) as world:
        await loosen(world)
        await world.make("m1")
        await world.settled(1)
        await spoil(world, MACHINE, "m1", {"maxEvictRetries": 2.5})
        await spoil(world, MACHINE, "m1", {"maxEvictRetries": 2})
        await world.clock.sleep(1)
        assert readable(await raw(world, MACHINE, "m1")) is None
        world.cloud.vanish(next(iter(world.cloud.vms)))
        await world.until(in_phase(Phase.UNKNOWN), "its node is watched", seconds=60)


SPOILT: dict[str, dict[str, Any]] = {
    "a number with a fraction": {"maxEvictRetries": 2.5},
    "a float in an integer field": {"maxEvictRetries": 4.0},
    "text where an object belongs": {"class": "small"},
    "a list where a text belongs": {"drainTimeout": ["2h"]},
    "numbers as labels": {"nodeTemplate": {"metadata": {"labels": {"a": 1}}}},
}


@pytest.mark.parametrize("spec", SPOILT.values(), ids=SPOILT)
async def test_a_machine_that_cannot_be_read_can_be_deleted_and_its_vm_with_it(spec: dict[str, Any]) -> None:
    async with embedded_world(short_timeouts(), admission=()) as world:
        await loosen(world)
        await world.make("m1")
        await world.settled(1)
        await spoil(world, MACHINE, "m1", spec)
        await world.client.delete(MACHINE, world.key("m1"))
        if spec.get("class"):  # without the class no driver can be told; mended, it goes on
            await world.clock.sleep(5)
            assert len(world.cloud.vms) == 1
            await spoil(world, MACHINE, "m1", {"class": {"kind": "MachineClass", "name": "small"}})
        await until_gone(world, MACHINE)
        assert await world.left() == []


async def test_a_machine_that_was_made_unreadable_can_be_deleted() -> None:
    async with embedded_world(short_timeouts(), admission=()) as world:
        await loosen(world)
        await world.make("m1", maxEvictRetries=2.5)
        await world.clock.sleep(1)
        assert readable(await raw(world, MACHINE, "m1")) == ("False", RETRIES)
        await world.client.delete(MACHINE, world.key("m1"))
        await until_gone(world, MACHINE)
        assert await world.left() == []


async def test_the_class_of_a_machine_that_cannot_be_read_stays() -> None:
    async with embedded_world(short_timeouts(), admission=()) as world:
        await loosen(world)
        await world.make("m1")
        await world.settled(1)
        await spoil(world, MACHINE, "m1", {"maxEvictRetries": 2.5})
        await world.client.delete(MACHINE_CLASS, world.key("small"))
        await world.clock.sleep(2)
        found = await world.client.get(MACHINE_CLASS, world.key("small"))
        assert found.metadata.deleting
        await world.client.delete(MACHINE, world.key("m1"))
        await until_gone(world, MACHINE)
        with pytest.raises(NotFound):
            await world.client.get(MACHINE_CLASS, world.key("small"))


async def test_no_driver_is_told_a_part_of_a_class_in_deletion() -> None:
    """A part without the credentials' reference leads to another account, where there is no such VM."""
    async with embedded_world(short_timeouts(), admission=()) as world:
        await loosen(world, MACHINE_CLASS)
        await world.make("m1")
        await world.settled(1)
        name = (await raw(world, MACHINE, "m1"))["spec"]["class"]["name"]
        await world.client.delete(MACHINE_CLASS, world.key(name))
        await world.client.patch(
            dynamic(MACHINE_CLASS.resource), world.key(name), {"credentialsSecretRef": "creds"}
        )
        await world.client.delete(MACHINE, world.key("m1"))
        await world.clock.sleep(60)
        assert await left(world, MACHINE) == ["m1"]
        assert len(world.cloud.vms) == 1


async def test_a_deployment_and_its_set_that_cannot_be_read_can_be_deleted() -> None:
    async with embedded_world(short_timeouts(), admission=()) as world:
        await loosen(world)
        await world.deploy("pool", 2)
        await world.settled(2)
        (name,) = await left(world, MACHINE_SET)
        await spoil(world, MACHINE_SET, name, {"minReadySeconds": 4.5})
        await spoil(world, MACHINE_DEPLOYMENT, "pool", {"minReadySeconds": 4.5})
        told = "cannot read MachineSet: spec.minReadySeconds: Expected `int`, got `float`"
        found = await raw(world, MACHINE_SET, name)
        assert ("False", told) in (readable(found), readable(found, "machineSetCondition"))
        await world.client.delete(MACHINE_DEPLOYMENT, world.key("pool"))
        for kind in (MACHINE, MACHINE_SET, MACHINE_DEPLOYMENT):
            await until_gone(world, kind)
        assert await world.left() == []


async def test_of_a_set_that_cannot_be_read_no_sizes_are_decided_and_its_deployment_says_so() -> None:
    async with embedded_world(short_timeouts(), admission=()) as world:
        await loosen(world)
        await world.deploy("pool", 2)
        await world.settled(2)
        (name,) = await left(world, MACHINE_SET)
        await spoil(world, MACHINE_SET, name, {"minReadySeconds": 2.5})
        await world.roll("pool", "large")
        await world.clock.sleep(20)
        assert await left(world, MACHINE_SET) == [name]
        assert len(world.cloud.vms) == 2
        told = [each.message for each in await world.events("pool") if each.type == "Warning"]
        assert f"its set {name} is unreadable" in told[0]


async def test_a_machine_that_cannot_be_read_is_no_reason_to_forget_what_the_process_before_made() -> None:
    async with stage(short_timeouts()) as found:
        world = found.world
        await loosen(world)
        async with found.process():
            await world.make("m1")
            await world.settled(1)
        await spoil(world, MACHINE, "m1", {"class": "small", "providerID": None})
        await world.client.delete(MACHINE, world.key("m1"))
        async with found.process():
            await world.clock.sleep(30)
            assert (len(world.cloud.vms), await left(world, MACHINE)) == (1, ["m1"])
            described = (await raw(world, MACHINE, "m1"))["status"]["lastOperation"]["description"]
            assert "cannot read Machine: spec.class" in described
            assert "the VM may exist" in described, "its node shows it, so no user can let go of it"
            await spoil(world, MACHINE, "m1", {"class": {"kind": "MachineClass", "name": "small"}})
            await until_gone(world, MACHINE)
            assert await world.left() == []


async def test_a_metric_counts_what_cannot_be_read() -> None:
    clock = LoopClock()
    embedded = Embedded(None, short_timeouts(), clock, admission=())

    def counted() -> list[str]:
        lines = embedded.metrics.render().decode().splitlines()
        return [line for line in lines if line.startswith("kubewright_unreadable_objects")]

    async with embedded, running(embedded.serve):
        assert isinstance(embedded.driver, SimDriver)
        world = World(embedded.client, embedded.driver.cloud, clock, "default")
        await loosen(world)
        for name, number in (("m1", 2.5), ("m2", 2.5), ("m3", 2)):
            await world.make(name, "sim-small", maxEvictRetries=number)
        await clock.sleep(2)
        assert counted() == ['kubewright_unreadable_objects{resource="machines.machine.sapcloud.io"} 2.0']
        await spoil(world, MACHINE, "m1", {"maxEvictRetries": 2})
        await world.client.delete(MACHINE, world.key("m2"))
        await clock.sleep(5)
        assert counted() == []
