"""Simulated kubelets against the API server: nodes that join, live, suffer, fall silent and return.

Times are exact: nothing here waits for real.
"""

import asyncio
import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from kubewright.api.core import LEASE, NODE, POD
from kubewright.base.clock import rfc3339
from kubewright.providers.sim.registration import LEASE_NAMESPACE
from kubewright.wire.gvk import Key
from kubewright.wire.http import STRATEGIC_PATCH, Request

# ---------------------------------------------------------------- joining


async def test_a_vm_joins_as_a_node_with_what_its_class_says(world: Any) -> None:
    made = await world.vm(
        "m1", labels={"pool": "a"}, taints=[{"key": "k", "effect": "NoSchedule"}], capacity={"cpu": "4"}
    )
    await asyncio.sleep(1)
    node = await world.node("m1")
    assert node.spec.provider_id == made.provider_id
    assert [(taint.key, taint.effect) for taint in node.spec.taints if taint.key == "k"] == [
        ("k", "NoSchedule")
    ]
    assert node.metadata.labels["pool"] == "a"
    assert node.metadata.labels["kubernetes.io/hostname"] == "m1"
    assert node.status.capacity["cpu"] == "4"
    assert {c.type: c.status for c in node.status.conditions} == {
        "Ready": "True",
        "MemoryPressure": "False",
        "DiskPressure": "False",
        "PIDPressure": "False",
    }


async def test_a_node_joins_when_its_vm_has_booted_and_not_before(world: Any) -> None:
    await world.vm("m1", bootSeconds=60)
    await asyncio.sleep(59)
    assert await world.node("m1") is None
    await asyncio.sleep(2)
    assert await world.condition("m1", "Ready") == "True"


async def test_a_node_may_join_before_it_is_ready(world: Any) -> None:
    await world.vm("m1", readySeconds=30)
    await asyncio.sleep(29)
    assert await world.condition("m1", "Ready") == "False"
    await asyncio.sleep(2)
    assert await world.condition("m1", "Ready") == "True"


async def test_five_hundred_vms_join_with_two_writes_each(world: Any) -> None:
    await asyncio.gather(*(world.vm(f"m{number}") for number in range(500)))
    await asyncio.sleep(1)
    assert len(await world.client.list(NODE)) == 500
    assert world.writes == {"POST nodes": 500, "POST leases": 500}


@pytest.mark.parametrize("word", ["neverjoin", "slowboot", "partial"])
async def test_some_names_do_not_join(world: Any, word: str) -> None:
    await world.vm(f"{word}-a")
    await asyncio.sleep(60)
    assert await world.node(f"{word}-a") is None


# ---------------------------------------------------------------- staying


async def test_a_lease_is_owned_by_its_node_and_renewed(world: Any) -> None:
    await world.vm("m1")
    await asyncio.sleep(1)
    node, lease = await world.node("m1"), await world.lease("m1")
    assert [(owner.kind, owner.uid) for owner in lease.metadata.owner_references] == [
        ("Node", node.metadata.uid)
    ]
    assert (lease.spec.holder_identity, lease.spec.lease_duration_seconds) == ("m1", 40)
    await asyncio.sleep(60)
    assert await age(world, "m1") <= 10


async def test_a_node_at_rest_costs_its_lease_and_a_slow_heartbeat(world: Any) -> None:
    await world.vm("m1")
    await asyncio.sleep(1)
    world.writes.clear()
    await asyncio.sleep(600)
    assert 60 <= world.writes["PATCH leases"] <= 67
    assert 1 <= world.writes["PATCH nodes/status"] <= 3
    assert set(world.writes) == {"PATCH leases", "PATCH nodes/status"}


async def test_a_node_says_that_no_kubelet_listens(world: Any) -> None:
    """So no log and no command is asked of it; also a node of an earlier release, which named a port."""
    await world.vm("m1")
    await asyncio.sleep(1)
    ports = {"status": {"daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}}}}
    await world.client.patch(NODE, Key("", "m1"), ports, subresource="status", content_type=STRATEGIC_PATCH)
    await asyncio.sleep(600)
    answer = await world.client.transport.request(Request("GET", "/api/v1/nodes/m1"), timeout=5)
    assert json.loads(answer.body)["status"]["daemonEndpoints"] == {"kubeletEndpoint": {"Port": 0}}


async def test_what_others_say_of_a_living_node_is_corrected(world: Any) -> None:
    await world.vm("m1")
    await asyncio.sleep(1)
    await post_condition(world, "m1", type="Ready", status="Unknown", reason="NodeStatusUnknown")
    await asyncio.sleep(1)
    assert await world.condition("m1", "Ready") == "True"


async def test_a_node_that_was_deleted_comes_back_while_its_vm_lives(world: Any) -> None:
    await world.vm("m1")
    await asyncio.sleep(1)
    before = await world.node("m1")
    await world.client.delete(NODE, Key("", "m1"))
    await asyncio.sleep(9)
    assert await world.node("m1") is None
    await asyncio.sleep(2)
    after, lease = await world.node("m1"), await world.lease("m1")
    assert after.metadata.uid != before.metadata.uid
    assert lease.metadata.owner_references[0].uid == after.metadata.uid


async def test_a_node_of_another_vm_is_not_taken_over(world: Any) -> None:
    await world.start()
    foreign = {"metadata": {"name": "m1"}, "spec": {"providerID": "other:///1"}}
    await world.client.create(NODE, foreign)
    await world.vm("m1")
    await asyncio.sleep(300)
    assert (await world.node("m1")).spec.provider_id == "other:///1"
    await world.client.delete(NODE, Key("", "m1"))
    await asyncio.sleep(1)
    assert (await world.node("m1")).spec.provider_id.startswith("sim://")


async def test_an_api_server_that_was_away_finds_all_kubelets_again(world: Any) -> None:
    world.broken = True
    await asyncio.gather(*(world.vm(f"m{number}") for number in range(20)))
    await asyncio.sleep(300)
    world.broken = False
    await asyncio.sleep(31)
    assert len(await world.client.list(NODE)) == 20
    assert max([await age(world, f"m{number}") for number in range(20)]) <= 31


# ---------------------------------------------------------------- falling silent


@pytest.mark.parametrize("fault", ["die", "stop-kubelet"])
async def test_a_fault_on_the_node_silences_its_kubelet(world: Any, fault: str) -> None:
    await world.vm("m1")
    await asyncio.sleep(1)
    await world.annotate("m1", fault)
    await asyncio.sleep(120)
    assert await age(world, "m1") >= 110
    assert (await world.sim.status(world.request("m1"))).machine_name == "m1"


@pytest.mark.parametrize("word", ["dies", "silent"])
async def test_some_names_fall_silent_after_twenty_seconds(world: Any, word: str) -> None:
    await world.vm(f"{word}-a")
    await asyncio.sleep(19)
    assert await age(world, f"{word}-a") <= 10
    await asyncio.sleep(121)
    assert await age(world, f"{word}-a") >= 115


async def test_a_stopped_kubelet_talks_again_when_the_fault_is_taken_away(world: Any) -> None:
    await world.vm("m1")
    await asyncio.sleep(1)
    await world.annotate("m1", "stop-kubelet")
    await asyncio.sleep(120)
    await world.annotate("m1", None)
    await asyncio.sleep(1)
    assert await age(world, "m1") <= 1


async def test_a_restart_brings_a_dead_vm_back_and_clears_the_note(world: Any) -> None:
    await world.vm("m1", bootSeconds=30)
    await asyncio.sleep(31)
    await world.annotate("m1", "die")
    await asyncio.sleep(120)
    await world.annotate("m1", "restart")
    await asyncio.sleep(29)
    assert await age(world, "m1") >= 120
    await asyncio.sleep(2)
    assert await age(world, "m1") <= 2
    assert not (await world.node("m1")).metadata.annotations.get("sim.kubewright.dev/fault")


async def test_a_deleted_vm_does_not_come_back_as_a_node(world: Any) -> None:
    await world.vm("m1")
    await asyncio.sleep(1)
    await world.no_vm("m1")
    await world.client.delete(NODE, Key("", "m1"))
    await asyncio.sleep(600)
    assert await world.node("m1") is None
    assert world.sim.cloud.vms == {}


async def test_no_node_appears_after_a_deletion_returned_whenever_it_came(world: Any) -> None:
    """Deletions race with registrations: whatever joined is visible when the deletion returns."""
    names = [f"m{number}" for number in range(100)]

    async def make_and_delete(name: str) -> str:
        await world.vm(name, bootSeconds=1)
        await asyncio.sleep(world.clock.random.uniform(0.9, 1.1))
        await world.no_vm(name)
        return name if await world.node(name) is not None else ""

    joined = {name for name in await asyncio.gather(*map(make_and_delete, names)) if name}
    await asyncio.sleep(60)
    assert {node.name for node in await world.client.list(NODE)} == joined


# ---------------------------------------------------------------- suffering


async def test_a_condition_is_ordered_and_ended_by_annotation(world: Any) -> None:
    await world.vm("m1")
    await asyncio.sleep(1)
    await post_condition(world, "m1", type="Terminating", status="True", reason="ScaleDown")
    await world.annotate("m1", "disk-pressure, kernel-deadlock")
    await asyncio.sleep(1)
    assert await world.condition("m1", "DiskPressure") == "True"
    assert await world.condition("m1", "KernelDeadlock") == "True"
    await world.annotate("m1", None)
    await asyncio.sleep(1)
    assert await world.condition("m1", "DiskPressure") == "False"
    assert await world.condition("m1", "KernelDeadlock") == "False"
    assert await world.condition("m1", "Ready") == "True"
    assert await world.condition("m1", "Terminating") == "True", "what others wrote is not ours to remove"


@pytest.mark.parametrize(
    ("word", "kind", "status"),
    [
        ("diskpressure", "DiskPressure", "True"),
        ("readonly", "ReadonlyFilesystem", "True"),
        ("notready", "Ready", "False"),
    ],
)
async def test_some_names_suffer_after_twenty_seconds(world: Any, word: str, kind: str, status: str) -> None:
    await world.vm(f"{word}-a")
    await asyncio.sleep(19)
    assert await world.condition(f"{word}-a", kind) != status
    await asyncio.sleep(2)
    assert await world.condition(f"{word}-a", kind) == status


# ---------------------------------------------------------------- pods


async def test_a_pod_runs_on_a_living_node_and_ends_when_deleted(world: Any) -> None:
    await world.vm("m1")
    await asyncio.sleep(1)
    await world.bind_pod("p1", "m1")
    await asyncio.sleep(1)
    pod = await world.pod("p1")
    assert pod.status.phase == "Running"
    assert {c.type: c.status for c in pod.status.conditions}["Ready"] == "True"
    await world.client.delete(POD, Key("default", "p1"))
    await asyncio.sleep(0.5)
    assert (await world.pod("p1")).metadata.deleting
    await asyncio.sleep(1)
    assert await world.pod("p1") is None


async def test_a_pod_that_was_bound_early_starts_when_the_kubelet_does(world: Any) -> None:
    await world.vm("m1", bootSeconds=30)
    await world.bind_pod("p1", "m1")
    await asyncio.sleep(29)
    assert (await world.pod("p1")).status.phase in ("", "Pending")
    await asyncio.sleep(2)
    assert (await world.pod("p1")).status.phase == "Running"


async def test_a_pod_on_a_dead_node_stays_as_it_is(world: Any) -> None:
    await world.vm("m1")
    await world.bind_pod("p1", "m1")
    await asyncio.sleep(1)
    world.sim.cloud.kill(world.vm_id("m1"))
    await world.client.delete(POD, Key("default", "p1"))
    await asyncio.sleep(300)
    assert (await world.pod("p1")).metadata.deleting


async def test_a_kubelet_that_is_back_says_again_that_its_pods_are_ready(world: Any) -> None:
    async def is_ready() -> str:
        pod = await world.pod("p1")
        return str({each.type: each.status for each in pod.status.conditions}["Ready"])

    await world.vm("m1")
    await world.bind_pod("p1", "m1")
    await asyncio.sleep(2)
    await world.annotate("m1", "stop-kubelet")
    await asyncio.sleep(60)
    since = rfc3339(world.clock.now())  # what the node life cycle writes
    lost = {"conditions": [{"type": "Ready", "status": "Unknown", "lastTransitionTime": since}]}
    unready = {"conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": since}]}
    for kind, key, status in ((NODE, Key("", "m1"), lost), (POD, Key("default", "p1"), unready)):
        patch = {"status": status}
        await world.client.patch(kind, key, patch, subresource="status", content_type=STRATEGIC_PATCH)
    await asyncio.sleep(30)
    assert await is_ready() == "False"
    await world.annotate("m1", None)
    await asyncio.sleep(15)
    assert await is_ready() == "True"


async def test_pods_elsewhere_are_not_touched(world: Any) -> None:
    await world.vm("m1")
    await world.bind_pod("p1", "not-simulated")
    await asyncio.sleep(60)
    assert (await world.pod("p1")).status.phase in ("", "Pending")


# ---------------------------------------------------------------- restarts


async def test_after_a_restart_the_same_vms_are_the_same_nodes(universe: Any, tmp_path: Path) -> None:
    async with universe.process(folder=tmp_path) as world:
        for name in ("m1", "m2", "m3"):
            await world.vm(name, bootSeconds=20)
        await asyncio.sleep(21)
        before = {name: (await world.node(name)).metadata.uid for name in ("m1", "m2", "m3")}
        world.sim.cloud.kill(world.vm_id("m3"))
    await asyncio.sleep(100)
    async with universe.process(folder=tmp_path) as world:
        await world.start()
        await asyncio.sleep(30)
        assert {name: (await world.node(name)).metadata.uid for name in before} == before
        assert await age(world, "m1") <= 10
        assert await age(world, "m3") >= 130
        assert world.writes["POST nodes"] == 0


async def test_a_vm_that_booted_while_no_process_ran_joins_at_once(universe: Any, tmp_path: Path) -> None:
    async with universe.process(folder=tmp_path) as world:
        await world.vm("m1", bootSeconds=60)
    await asyncio.sleep(100)
    async with universe.process(folder=tmp_path) as world:
        await world.start()
        await asyncio.sleep(1)
        assert await world.condition("m1", "Ready") == "True"


async def test_leases_as_short_as_a_demo_needs(universe: Any) -> None:
    async with universe.process({"leaseSeconds": "4"}) as world:
        await world.vm("m1")
        await asyncio.sleep(20)
        assert await age(world, "m1") <= 1
        lease = await world.client.get(LEASE, Key(LEASE_NAMESPACE, "m1"))
        assert lease.spec.lease_duration_seconds == 4


async def age(world: Any, node: str) -> float:
    """Seconds since a node's Lease was renewed."""
    renewed: datetime = (await world.lease(node)).spec.renew_time
    seconds: float = (world.clock.now() - renewed).total_seconds()
    return seconds


async def post_condition(world: Any, node: str, **condition: str) -> None:
    """Another component writes a condition of a node."""
    body = {"status": {"conditions": [condition]}}
    await world.client.patch(NODE, Key("", node), body, subresource="status", content_type=STRATEGIC_PATCH)
