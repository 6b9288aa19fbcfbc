"""A life of machines: everything that makes their controllers send a request, as scenes that a user plays.

What the controllers may do, and need not, is judged by it (test_access.py), so a request that a change makes
necessary belongs to one of the scenes.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from kubewright.api.core import EVENT, NODE, PDB, SECRET
from kubewright.api.machine import names
from kubewright.api.machine.names import EventReason, Phase
from kubewright.api.machine.v1alpha1 import MACHINE, MACHINE_CLASS, MACHINE_SET, Machine
from kubewright.api.storage import PV, PVC, VOLUME_ATTACHMENT
from kubewright.base.clock import new_uid
from kubewright.driver.contract import stub
from kubewright.providers.sim import manifests as of_sim
from kubewright.providers.sim.driver import SimDriver
from kubewright.testing.scenes import class_request
from kubewright.testing.sites import TIMEOUT_SECONDS, eventually
from kubewright.testing.world import Snapshot, World
from kubewright.wire.errors import NotFound
from kubewright.wire.gvk import Key


async def whole_life(world: World) -> None:
    """Everything that makes the controllers send a request, at the same time where order does not matter."""
    scenes = (
        a_pool_is_scaled_rolled_and_adopted,
        a_vm_dies_and_is_replaced,
        pods_are_drained,
        a_deletion_is_forced,
        a_cloud_refuses_until_its_class_changes,
        a_vm_is_left_behind,
        a_mistake_is_made_again_and_a_node_asks_for_its_deletion,
    )
    async with asyncio.TaskGroup() as group:
        for scene in scenes:
            group.create_task(scene(world))


async def a_pool_is_scaled_rolled_and_adopted(world: World) -> None:
    await world.deploy("pool", 1, template=pool_of("small"), revisionHistoryLimit=0)
    await up(world, "pool", 1)
    for size in (2, 1, 2):  # the same sentence twice: the event's count goes up
        await world.change("pool", {"replicas": size})
        await up(world, "pool", size)
    labels = (await world.machine(of(await world.look(), "pool")[0])).metadata.labels
    alike = {name: value for name, value in labels.items() if name != names.NODE_LABEL}
    stray = {"metadata": {"name": "stray", "namespace": world.namespace, "labels": alike}}
    await world.client.create(MACHINE, {**stray, "spec": pool_of("small")["spec"]})
    await until(world, lambda s: len(of(s, "pool")) + len(of(s, "stray")) == 2, "one too many goes")
    await world.roll("pool", "large")
    await until(world, lambda s: classes(s) == ["large", "large"], "the pool is rolled")
    await answered(world, lambda: owners(world), ["pool"], "the old set goes")
    await let_go(world)
    await answered(world, lambda: owners(world), ["pool"], "the deployment takes its set back")
    await world.delete("pool")
    await until(world, lambda s: not of(s, "pool"), "the pool goes")


def pool_of(machine_class: str) -> dict[str, Any]:
    nodes = {"metadata": {"labels": {"tier": "test"}}}
    spec = {"class": {"kind": "MachineClass", "name": machine_class}, "nodeTemplate": nodes}
    return {"metadata": {"labels": {"pool": "pool"}}, "spec": spec}


async def a_vm_dies_and_is_replaced(world: World) -> None:
    await world.deploy("mortal", 1)
    first = of(await up(world, "mortal", 1), "mortal")[0]
    vm = world.cloud.named(first, world.namespace)
    assert vm is not None
    world.cloud.kill(vm.id)
    await until(world, lambda s: first not in s.names and well(s, "mortal", 1), "it is replaced")
    await world.delete("mortal")


async def a_mistake_is_made_again_and_a_node_asks_for_its_deletion(world: World) -> None:
    """The controller of machines says the same sentence twice, so the event's count goes up."""
    await world.make("unwanted")
    await up(world, "unwanted", 1)
    for times in (1, 2):
        await preserve(world, "perhaps")
        await answered(
            world, lambda: told(world, "unwanted", EventReason.INVALID_PRESERVE), times, "it says so"
        )
        await preserve(world, None)
        await world.clock.sleep(1.0)  # the controller sees it without the mistake
    asked = {"metadata": {"annotations": {names.TRIGGER_DELETION_ANNOTATION: "true"}}}
    await world.target.patch(NODE, Key("", "unwanted"), asked)
    await until(world, lambda s: not of(s, "unwanted"), "its machine goes")


async def preserve(world: World, value: str | None) -> None:
    mark = {"metadata": {"annotations": {names.PRESERVE_ANNOTATION: value}}}
    await world.client.patch(MACHINE, world.key("unwanted"), mark)


async def told(world: World, name: str, reason: EventReason) -> int:
    """How often an event of this reason was told of the machine."""
    found = await world.client.list(EVENT, world.namespace)
    return sum(e.count for e in found if (e.involved_object.name, e.reason) == (name, reason))


async def attach(world: World, node: str) -> None:
    """A volume that stays attached to a node until its VolumeAttachment is deleted."""
    spec = {"attacher": "csi.sim", "nodeName": node, "source": {"persistentVolumeName": f"pv-{node}"}}
    await world.target.create(VOLUME_ATTACHMENT, {"metadata": {"name": node}, "spec": spec})


async def list_volume(world: World, node: str) -> str:
    """A claim with a volume that has no VolumeAttachment, and that the node lists as attached; returns its name.

    Tests share a server, and volumes have no namespace.
    """
    name = f"disk-{new_uid(world.clock)[:8]}"
    size = {"accessModes": ["ReadWriteOnce"]}
    source = {"fc": {"targetWWNs": ["50060e801049cfd1"], "lun": 0}}
    volume = {**size, **source, "capacity": {"storage": "1Gi"}}
    await world.target.create(PV, {"metadata": {"name": f"pv-{name}"}, "spec": volume})
    claim = {**size, "resources": {"requests": {"storage": "1Gi"}}, "volumeName": f"pv-{name}"}
    await world.target.create(PVC, {"metadata": {"name": name, "namespace": "default"}, "spec": claim})
    listed = {
        "status": {"volumesAttached": [{"name": "kubernetes.io/fc/50060e801049cfd1:0", "devicePath": ""}]}
    }
    await world.target.patch(NODE, Key("", node), listed, subresource="status")
    return name


async def pods_are_drained(world: World) -> None:
    """One pod is evicted, one is kept by its budget until the drain timeout is over; one has two volumes."""
    await world.make("drained")
    await up(world, "drained", 1)
    await guard(world, "held", "drained")
    await attach(world, "drained")
    claims = ("data", await list_volume(world, "drained"))
    volumes = [{"name": each, "persistentVolumeClaim": {"claimName": each}} for each in claims]
    await world.run_pod("free", "drained", volumes=volumes)
    await world.unmake("drained")
    await until(world, lambda s: not of(s, "drained"), "it is drained")


async def a_deletion_is_forced(world: World) -> None:
    await world.make("forced")
    await up(world, "forced", 1)
    await guard(world, "forced", "forced")
    await attach(world, "forced")
    label = {"metadata": {"labels": {names.FORCE_DELETION_LABEL: "True"}}}
    await world.client.patch(MACHINE, world.key("forced"), label)
    await world.unmake("forced")
    await until(world, lambda s: not of(s, "forced"), "it goes by force")


async def a_cloud_refuses_until_its_class_changes(world: World) -> None:
    """The second attempt finds the token of the first; the token goes with the machine that never joined."""
    await world.make("quota-1")

    def refused(snapshot: Snapshot) -> bool:
        return any(
            m.metadata.name == "quota-1" and m.status.current_status.phase == Phase.CRASH_LOOP_BACK_OFF
            for m in snapshot.machines
        )

    await until(world, refused, "it is refused")
    token = await tokens(world, "quota-1")
    assert len(token) == 1
    await world.clock.sleep(1.5)  # tokens end at whole seconds: a later try moves the end
    await world.client.patch(SECRET, world.key("sim-secret"), {"stringData": {"new": "yes"}})

    async def extended() -> bool:
        return await tokens(world, "quota-1") != token

    await answered(world, extended, True, "it is tried again with the same token")
    await world.unmake("quota-1")
    await until(world, lambda s: not of(s, "quota-1"), "it goes")
    assert await tokens(world, "quota-1") == []
    await a_class_is_refused_by_its_driver(world)


async def a_class_is_refused_by_its_driver(world: World) -> None:
    """A typo in a class stands on the class, before there is a machine."""
    spec = {"metadata": {"name": "typo", "namespace": world.namespace}, "providerSpec": {"regoin": "here"}}
    await world.client.create(MACHINE_CLASS, spec)

    async def reason() -> str:
        found = (await world.client.get(MACHINE_CLASS, world.key("typo"))).status.conditions
        return found[0].reason if found else ""

    await answered(world, reason, "InvalidArgument", "the class says so")
    await world.client.delete(MACHINE_CLASS, world.key("typo"))


async def a_vm_is_left_behind(world: World) -> None:
    """A creation that came too late: the VM has no machine. It is collected with its node."""
    found = of_sim.machine_class("small", world.namespace, pace=0.1)
    ref = class_request("small", world.namespace, found["provider"], **found["providerSpec"])
    await SimDriver(world.cloud).create(ref.of(stub("left", world.namespace, "long-gone")))
    await answered(world, lambda: count(world, NODE, "left", target=True), 1, "its kubelet joins")

    async def left() -> bool:
        return world.cloud.named("left", world.namespace) is not None

    await answered(world, left, False, "the VM is collected")
    await answered(world, lambda: count(world, NODE, "left", target=True), 0, "and its node")


# ---------------------------------------------------------------- words


def of(snapshot: Snapshot, prefix: str) -> list[str]:
    return sorted(name for name in snapshot.names if name == prefix or name.startswith(f"{prefix}-"))


def mine(snapshot: Snapshot, prefix: str) -> list[Machine]:
    return [m for m in snapshot.machines if m.metadata.name in of(snapshot, prefix)]


def well(snapshot: Snapshot, prefix: str, number: int) -> bool:
    found = mine(snapshot, prefix)
    return len(found) == number and all(m.status.current_status.phase == Phase.RUNNING for m in found)


def classes(snapshot: Snapshot) -> list[str]:
    """The classes of the pool's machines, when all of them run."""
    found = [m.spec.machine_class.name for m in mine(snapshot, "pool")]
    return found if well(snapshot, "pool", len(found)) else []


async def up(world: World, prefix: str, number: int) -> Snapshot:
    return await until(world, lambda s: well(s, prefix, number), f"{number} of {prefix} run")


async def until(world: World, met: Callable[[Snapshot], bool], what: str) -> Snapshot:
    return await world.until(met, what, seconds=TIMEOUT_SECONDS, every=0.25)


async def answered(world: World, ask: Callable[[], Awaitable[Any]], expected: Any, what: str) -> None:
    await eventually(world.clock, ask, lambda answer: bool(answer == expected), what)


async def count(world: World, kind: Any, name: str, *, target: bool = False) -> int:
    client, key = (world.target, Key("", name)) if target else (world.client, world.key(name))
    try:
        await client.get(kind, key)
    except NotFound:
        return 0
    return 1


async def owners(world: World) -> list[str]:
    """The owner of each set of the pool."""
    sets = await world.client.list(MACHINE_SET, world.namespace, labels="pool=pool")
    return [each.metadata.controller.name if each.metadata.controller else "" for each in sets]


async def let_go(world: World) -> None:
    """The pool's sets have no owner."""
    for each in await world.client.list(MACHINE_SET, world.namespace, labels="pool=pool"):
        body = {"metadata": {"ownerReferences": None}}
        await world.client.patch(MACHINE_SET, world.key(each.metadata.name), body)


async def tokens(world: World, machine: str) -> list[tuple[str, str]]:
    """Bootstrap tokens of a machine: name and version."""
    found = await world.target.list(SECRET, "kube-system")
    mine = [s for s in found if f'machine "{machine}"'.encode() in s.data.get("description", b"")]
    return [(s.metadata.name, s.metadata.resource_version) for s in mine]


async def guard(world: World, name: str, node: str) -> None:
    """A pod whose budget never allows its eviction; the budget has a name that no other world's has."""
    app = f"{name}-{world.namespace}"
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": app}}}
    await world.target.create(PDB, {"metadata": {"name": app, "namespace": "default"}, "spec": spec})
    await world.run_pod(name, node, labels={"app": app})

    await world.clock.sleep(2)
