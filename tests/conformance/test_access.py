"""The shipped roles are enough for everything that the controllers do, and have no rule that is not needed.

The controllers run as the account that ``deploy/rbac`` names, under exactly those roles, on one cluster
and on two: on a real kube-apiserver, which refuses what was not granted, and on the embedded one, where
requests and roles are compared. A role that a change made necessary, or useless, fails here.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from kubewright.api.core import CRD, EVENT, NODE, PDB, SECRET
from kubewright.api.kinds import dynamic
from kubewright.api.machine import names
from kubewright.api.machine.crds import crds
from kubewright.api.machine.names import EventReason, Phase
from kubewright.api.machine.v1alpha1 import MACHINE, MACHINE_SET, Machine
from kubewright.api.storage import VOLUME_ATTACHMENT
from kubewright.base.clock import SystemClock
from kubewright.driver.contract import stub
from kubewright.kube.client import Client
from kubewright.providers.sim import manifests as of_sim
from kubewright.providers.sim.driver import SimDriver
from kubewright.testing.permissions import missing
from kubewright.testing.real_kubernetes import Options, RealKubernetes, find
from kubewright.testing.scenes import class_request
from kubewright.testing.sites import (
    CONTROL,
    EVERYTHING,
    RBAC,
    TIMEOUT_SECONDS,
    Site,
    embedded_halves,
    embedded_site,
    eventually,
    real_cluster,
    real_halves,
    real_site,
)
from kubewright.testing.world import Snapshot, World
from kubewright.wire.errors import ApiError, NotFound
from kubewright.wire.gvk import Key

NewSite = Callable[..., AbstractAsyncContextManager[Site]]
NewHalves = Callable[[], AbstractAsyncContextManager[list[Site]]]
SERVERS = [
    pytest.param("embedded", id="embedded"),
    pytest.param("real", id="real", marks=[pytest.mark.kube, pytest.mark.looptime(False)]),
]


@pytest.fixture(params=SERVERS)
def new_site(request: pytest.FixtureRequest) -> NewSite:
    """Begins a site, with one cluster or with ``two``."""
    if request.param == "embedded":
        return embedded_site
    real_kubernetes = request.getfixturevalue("real_kubernetes")
    return partial(real_site, real_kubernetes)


@pytest.fixture(params=SERVERS)
def new_halves(request: pytest.FixtureRequest) -> NewHalves:
    """Begins a site for each half of the controllers, on one cluster."""
    if request.param == "embedded":
        return embedded_halves
    return partial(real_halves, request.getfixturevalue("real_kubernetes"))


@pytest.mark.timeout(150)
@pytest.mark.parametrize("two", [False, True], ids=["one cluster", "two clusters"])
async def test_the_shipped_roles_are_enough_and_none_is_idle(new_site: NewSite, two: bool) -> None:
    async with new_site(two=two) as site:
        async with site.at_work():
            await whole_life(site.world)
        wrong = {name: found.verdict() for name, found in site.clusters.items()}
        assert not any(any(each.values()) for each in wrong.values()), json.dumps(wrong, indent=1)
        if two:  # with --namespace, a RoleBinding there will do instead of the ClusterRoleBinding
            within = [replace(grant, namespace=site.world.namespace) for grant in site.control.grants]
            assert missing(site.control.log.needs, within) == []


@pytest.mark.timeout(150)
async def test_the_roles_of_each_half_are_enough_for_it_and_none_is_idle(new_halves: NewHalves) -> None:
    async with new_halves() as sites:
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(sites[0].joining())
            for site in sites:
                await stack.enter_async_context(site.working())
            await whole_life(sites[0].world)
        wrong = {site.control.party.half: site.control.verdict() for site in sites}
        assert not any(any(each.values()) for each in wrong.values()), json.dumps(wrong, indent=1)


@pytest.mark.kube
@pytest.mark.looptime(False)
async def test_references_that_hold_their_owner_are_admitted_because_of_the_finalizers_rule() -> None:
    """Where a cluster asks for it (OwnerReferencesPermissionEnforcement); most do not."""
    plugin = "--enable-admission-plugins=OwnerReferencesPermissionEnforcement"
    options, clock = Options(fsync=False, apiserver_flags=(plugin,)), SystemClock()
    async with RealKubernetes(find(), clock, options) as real_kubernetes, AsyncExitStack() as stack:
        cluster = await real_cluster(real_kubernetes, clock, stack, CONTROL)
        admin = cluster.admin
        for crd in crds():
            await admin.create(dynamic(CRD.resource), crd)
        owner = {"metadata": {"name": "s", "namespace": "default"}, "spec": {"replicas": 0}}
        reference = {"apiVersion": "machine.sapcloud.io/v1alpha1", "kind": "MachineSet", "name": "s"}
        path = MACHINE.resource.path("default")

        async def refusal() -> str:
            try:
                await cluster.account.send(
                    cluster.account.request(
                        "POST", path, json.dumps(machine).encode(), query=(("dryRun", "All"),)
                    )
                )
            except ApiError as error:
                return str(error)
            return ""

        made = await eventually(clock, lambda: created(admin, owner), bool, "the kinds are served")
        held = {**reference, "uid": made, "blockOwnerDeletion": True}
        machine = {
            "apiVersion": "machine.sapcloud.io/v1alpha1",
            "kind": "Machine",
            "metadata": {"name": "m", "ownerReferences": [held]},
            "spec": {"class": {"kind": "MachineClass", "name": "small"}},
        }
        await eventually(clock, refusal, lambda said: not said, "the machine is admitted")
        role = next(each for each in EVERYTHING.manifests([CONTROL]) if each["kind"] == "ClusterRole")
        rules = [rule for rule in role["rules"] if "machinesets/finalizers" not in rule["resources"]]
        await admin.patch(RBAC["ClusterRole"], Key("", role["metadata"]["name"]), {"rules": rules})
        await eventually(
            clock, refusal, lambda said: "blockOwnerDeletion" in said, "it is refused without the rule"
        )


async def created(admin: Client, machine_set: dict[str, Any]) -> str:
    """The uid of a set; empty while its kind is not served yet."""
    try:
        return (await admin.create(MACHINE_SET, machine_set)).metadata.uid
    except NotFound:
        return ""


# ---------------------------------------------------------------- the life


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


async def pods_are_drained(world: World) -> None:
    """One pod is evicted, one is kept by its budget until the drain timeout is over; one has a volume."""
    await world.make("drained")
    await up(world, "drained", 1)
    await guard(world, "held", "drained")
    await attach(world, "drained")
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    await world.run_pod("free", "drained", volumes=[volume])
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
