"""Machines that are kept free, with all controllers and a cloud, on virtual time."""

import asyncio

from msgspec import structs

from kubewright.api.core import NODE, Node
from kubewright.api.machine import excess, names
from kubewright.api.machine.v1alpha1 import MACHINE, MACHINE_CLASS, MACHINE_DEPLOYMENT, MachineDeployment
from kubewright.providers.sim import manifests
from kubewright.testing.world import Snapshot, World, embedded_world

SLOW = 4.0
"""The pace of a class whose machines take eight seconds to join."""


def tainted(snapshot: Snapshot) -> set[str]:
    """The nodes that are kept free, and are spared by cluster-autoscaler."""
    return {node.metadata.name for node in snapshot.nodes if _effects(node) == set(excess.EFFECTS)
            and node.metadata.annotations.get(names.SCALE_DOWN_DISABLED_ANNOTATION) == "true"}  # fmt: skip


def marked(snapshot: Snapshot) -> set[str]:
    """The nodes with anything that says that they are kept free."""
    return {node.metadata.name for node in snapshot.nodes
            if _effects(node) or names.SCALE_DOWN_DISABLED_ANNOTATION in node.metadata.annotations}  # fmt: skip


def _effects(node: Node) -> set[str]:
    return {taint.effect for taint in node.spec.taints if taint.key == excess.TAINT}


async def furnished(world: World, machine_class: str = "small") -> set[str]:
    """Two machines with workload, and one that is kept free; its node."""
    await world.deploy("pool", 2, machine_class, excessReplicas=1)
    whole = await world.until(lambda s: s.settled(3) and len(tainted(s)) == 1, "two machines and one")
    return tainted(whole)


async def reported(world: World, *, available: int) -> MachineDeployment:
    """The deployment, when its status says that so many machines are available."""
    deadline = world.clock.monotonic() + 60
    found = await world.client.get(MACHINE_DEPLOYMENT, world.key("pool"))
    while found.status.available_replicas != available:
        assert world.clock.monotonic() < deadline, f"not {available} available: {found.status}"
        await world.clock.sleep(0.1)
        found = await world.client.get(MACHINE_DEPLOYMENT, world.key("pool"))
    return found


async def test_a_reserve_takes_pods_long_before_the_new_machine_is_there() -> None:
    async with asyncio.timeout(600), embedded_world() as world:
        slow = manifests.machine_class("slow", world.namespace, pace=SLOW)
        await world.client.create(MACHINE_CLASS, slow)
        reserve = await furnished(world, "slow")
        await world.change("pool", {"replicas": 3})
        soon = await world.until(lambda s: not reserve & marked(s), "the reserve takes pods", seconds=5)
        assert len(soon.nodes) == 3
        grown = await world.until(lambda s: s.settled(4), "four machines")
        (new,) = {node.metadata.name for node in grown.nodes} - {node.metadata.name for node in soon.nodes}
        assert tainted(grown) == marked(grown) == {new}


async def test_a_scale_of_the_user_and_the_excess_do_not_touch_each_other() -> None:
    async with asyncio.timeout(600), embedded_world() as world:
        reserve = await furnished(world)
        found = await reported(world, available=3)
        assert (found.spec.replicas, found.status.replicas, found.status.unavailable_replicas) == (2, 3, 0)
        await world.change("pool", {"replicas": 1})
        fewer = await world.until(lambda s: s.settled(2), "two machines")
        assert tainted(fewer) == reserve
        await world.change("pool", {"excessReplicas": None})
        alone = await world.until(lambda s: s.settled(1), "one machine")
        assert not marked(alone)
        assert not reserve & {node.metadata.name for node in alone.nodes}


async def test_a_reserve_by_annotation_outlives_an_autoscaler_whose_type_lacks_the_field() -> None:
    async with asyncio.timeout(600), embedded_world() as world:
        await world.deploy("pool", 2)
        await world.settled(2)
        asked = {"metadata": {"annotations": {excess.KEPT_ANNOTATION: "1"}}}
        await world.client.patch(MACHINE_DEPLOYMENT, world.key("pool"), asked)
        whole = await world.until(lambda s: s.settled(3) and len(tainted(s)) == 1, "two machines and one")
        found = await world.client.get(MACHINE_DEPLOYMENT, world.key("pool"))
        spec = structs.replace(found.spec, replicas=3, excess_replicas=None)
        await world.client.replace(MACHINE_DEPLOYMENT, world.key("pool"), structs.replace(found, spec=spec))
        grown = await world.until(lambda s: s.settled(4) and len(tainted(s)) == 1, "three machines and one")
        assert not tainted(whole) & tainted(grown)
        await world.client.patch(
            MACHINE_DEPLOYMENT,
            world.key("pool"),
            {"metadata": {"annotations": {excess.KEPT_ANNOTATION: None}}},
        )
        await world.until(lambda s: s.settled(3) and not marked(s), "three machines, none of them kept free")


async def test_templates_and_users_change_the_taints_of_nodes_beside_ours() -> None:
    async with asyncio.timeout(600), embedded_world() as world:
        reserve = await furnished(world)
        before = {machine.metadata.uid for machine in await world.client.list(MACHINE, world.namespace)}
        theirs = {"key": "example.com/gpu", "effect": "NoSchedule"}
        await world.change("pool", {"template": {"spec": {"nodeTemplate": {"spec": {"taints": [theirs]}}}}})

        def theirs_are_there(snapshot: Snapshot) -> bool:
            keys = [{taint.key for taint in node.spec.taints} for node in snapshot.nodes]
            return all("example.com/gpu" in found for found in keys)

        after = await world.until(theirs_are_there, "the taint of the template on all nodes")
        assert tainted(after) == marked(after) == reserve
        assert {machine.metadata.uid for machine in after.machines} == before
        (node,) = reserve
        await world.client.patch(NODE, world.key(node), {"spec": {"taints": None}})
        await world.until(lambda s: tainted(s) == reserve, "a user took the taints off, and they are back")
