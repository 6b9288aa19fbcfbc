"""Machines in two worlds: the embedded server on virtual time, and a real Kubernetes.

The same controllers, the same simulated cloud, the same words. Run with ``make test`` (embedded)
and ``make test-kube`` (real).
"""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any

import pytest

from kubewright.api.core import NODE, PDB, POD
from kubewright.api.machine import names
from kubewright.api.machine.names import EventReason, OperationState, Phase
from kubewright.api.machine.v1alpha1 import MACHINE, MACHINE_CLASS, MACHINE_DEPLOYMENT, MACHINE_SET
from kubewright.providers.sim import manifests
from kubewright.testing.real_kubernetes import RealKubernetes
from kubewright.testing.world import Snapshot, World, real_world
from kubewright.wire.gvk import Key

NewWorld = Callable[[], AbstractAsyncContextManager[World]]


async def test_machines_come_up(new_world: NewWorld) -> None:
    async with new_world() as world:
        await world.deploy("workers", 3)
        snapshot = await world.settled(3)
        for machine in snapshot.machines:
            assert machine.spec.provider_id.startswith("sim:///")
            assert names.FINALIZER in machine.metadata.finalizers
            assert names.node_name(machine.metadata.labels) == machine.metadata.name
            assert machine.status.last_operation.description.startswith(
                f"Machine {machine.metadata.name} successfully joined the cluster in "
            )
        assert {node.metadata.labels[names.MACHINE_NAME_LABEL] for node in snapshot.nodes} == snapshot.names


async def test_machines_scale_up_and_down(new_world: NewWorld) -> None:
    async with new_world() as world:
        await world.deploy("workers", 2)
        first = (await world.settled(2)).names
        await world.change("workers", {"replicas": 5})
        assert first < (await world.settled(5)).names
        await world.change("workers", {"replicas": 1})
        await world.settled(1)
        await world.change("workers", {"replicas": 0})
        await world.settled(0)


async def test_machines_roll_to_another_class_within_their_bounds(new_world: NewWorld) -> None:
    async with new_world() as world:
        await world.deploy("workers", 4)
        before = (await world.settled(4)).names
        seen: list[tuple[int, int]] = []

        def rolled(snapshot: Snapshot) -> bool:
            running = sum(m.status.current_status.phase == Phase.RUNNING for m in snapshot.machines)
            seen.append((len(snapshot.machines), running))
            return snapshot.settled(4, "large")

        await world.roll("workers", "large")
        after = await world.until(rolled, "all machines are large")
        assert not before & after.names
        assert max(total for total, _ in seen) <= 5
        assert min(running for _, running in seen) >= 3


async def test_a_node_gets_the_virtual_capacity_of_its_class_and_loses_the_taint_of_an_unready_instance(
    new_world: NewWorld,
) -> None:
    async with new_world() as world:
        unready = {"key": names.INSTANCE_NOT_READY_TAINT, "effect": "NoSchedule"}
        body = manifests.machine_class("tainted", world.namespace, pace=0.1, more={"taints": [unready]})
        body["nodeTemplate"]["virtualCapacity"] = {"example.com/dongle": "4"}
        await world.client.create(MACHINE_CLASS, body)
        await world.deploy("workers", 1, "tainted")
        sight = await world.settled(1, "tainted")
        taints = [taint.key for node in sight.nodes for taint in node.spec.taints]
        assert names.INSTANCE_NOT_READY_TAINT not in taints  # Kubernetes may still have its own, not-ready

        def offered(sight: Snapshot) -> list[str]:
            found = (each.status.capacity.get("example.com/dongle") for each in sight.nodes)
            return [str(amount) for amount in found if amount is not None]

        await world.until(lambda s: offered(s) == ["4"], "the node offers it")
        patch = {"nodeTemplate": {"virtualCapacity": None}}
        await world.client.patch(MACHINE_CLASS, world.key("tainted"), patch)
        await world.until(lambda s: offered(s) == [], "it offers it no longer")


async def test_a_dead_vm_is_replaced(new_world: NewWorld) -> None:
    async with new_world() as world:
        await world.deploy("workers", 2)
        before = await world.settled(2)
        victim = before.machines[0].metadata.name
        vm = world.cloud.named(victim, world.namespace)
        assert vm is not None
        world.cloud.kill(vm.id)
        after = await world.until(lambda s: s.settled(2) and victim not in s.names, "the victim is replaced")
        assert before.names - {victim} <= after.names


async def test_everything_goes_when_the_deployment_does(new_world: NewWorld) -> None:
    async with new_world() as world:
        await world.deploy("workers", 3)
        await world.settled(3)
        await world.delete("workers")
        await world.settled(0)


async def test_a_machine_that_is_deleted_by_hand_is_replaced(new_world: NewWorld) -> None:
    async with new_world() as world:
        await world.deploy("workers", 2)
        before = await world.settled(2)
        victim = before.machines[0]
        await world.client.delete(MACHINE, world.key(victim.metadata.name))
        after = await world.until(
            lambda s: s.settled(2) and victim.metadata.name not in s.names, "the victim is replaced"
        )
        assert victim.spec.provider_id not in {machine.spec.provider_id for machine in after.machines}


async def test_a_machine_is_replaced_when_its_node_is_annotated(new_world: NewWorld) -> None:
    """For users who may write nodes and no machines."""
    async with new_world() as world:
        await world.deploy("workers", 2)
        before = await world.settled(2)
        stays, goes = before.machines[0].metadata.name, before.machines[1].metadata.name
        await world.note_node(stays, {names.TRIGGER_DELETION_ANNOTATION: "false"})
        await world.note_node(goes, {names.TRIGGER_DELETION_ANNOTATION: "true"})
        after = await world.until(lambda s: s.settled(2) and goes not in s.names, "it is replaced")
        assert stays in after.names
        assert EventReason.DELETION_TRIGGERED in {event.reason for event in await world.events(goes)}


async def test_a_machine_whose_node_asks_to_be_kept_outlives_its_failure(new_world: NewWorld) -> None:
    async with new_world() as world:
        await world.deploy("workers", 1)
        name = (await world.settled(1)).machines[0].metadata.name
        await world.note_node(name, {names.PRESERVE_ANNOTATION: "when-failed"})
        vm = world.cloud.named(name, world.namespace)
        assert vm is not None
        world.cloud.order(vm.id, {"disk-pressure"})

        def marked(snapshot: Snapshot) -> bool:
            (node,) = snapshot.nodes
            conditions = [each for each in node.status.conditions if each.type == "Preserved"]
            return any(
                each.status == "True" and each.message.startswith("Preserved node drained")
                for each in conditions
            )

        snapshot = await world.until(marked, "it is preserved")
        (machine,), (node,) = snapshot.machines, snapshot.nodes
        assert machine.status.current_status.phase == Phase.FAILED
        assert machine.status.current_status.preserve_expiry_time is not None
        assert node.metadata.annotations[names.SCALE_DOWN_DISABLED_ANNOTATION] == "true"
        assert names.PRESERVED_TAINT in {taint.key for taint in node.spec.taints}
        await world.note_node(name, {names.PRESERVE_ANNOTATION: None})
        await world.until(lambda s: s.settled(1) and name not in s.names, "it is replaced")


async def test_a_cloud_without_quota_is_reported_and_waited_for(new_world: NewWorld) -> None:
    async with new_world() as world:
        await world.deploy("quota-workers", 1)
        snapshot = await world.until(
            lambda s: any(m.status.current_status.phase == Phase.CRASH_LOOP_BACK_OFF for m in s.machines),
            "the refusal is reported",
        )
        operation = snapshot.machines[0].status.last_operation
        assert operation.error_code == "ResourceExhausted"
        assert operation.description.startswith(
            "Cloud provider message - machine codes error: code = [ResourceExhausted]"
        )
        await world.clock.sleep(3)
        found = await world.client.get(MACHINE_DEPLOYMENT, world.key("quota-workers"))
        said = {each.type: (each.reason, each.message) for each in found.status.conditions}
        assert said["ResourceExhausted"] == (
            "ResourceExhausted",
            f"Machines without a VM: 1. {operation.description}",
        )
        await world.delete("quota-workers")
        await world.settled(0)


async def drained_under(world: World, spec: dict[str, Any], **status: int) -> str:
    """A machine whose pod a budget keeps is deleted; returns its name. Where no controller counts the
    budget's pods, ``status`` has the counts."""
    await world.deploy("workers", 1)
    name = (await world.settled(1)).machines[0].metadata.name
    labels = {"app": world.namespace}
    body = {
        "metadata": {"name": world.namespace, "namespace": "default"},
        "spec": {"selector": {"matchLabels": labels}, **spec},
    }
    budget = await world.target.create(PDB, body)
    await world.run_pod(f"{world.namespace}-web", name, labels=labels)
    nowhere = {"kubewright.test/no-node-has-this": "true"}  # so that no scheduler places it
    await world.run_pod(f"{world.namespace}-waits", "", labels=labels, nodeSelector=nowhere)
    await world.clock.sleep(2)
    counted = {"observedGeneration": budget.metadata.generation, "disruptionsAllowed": 0, **status}
    key = Key("default", world.namespace)
    await world.target.patch(PDB, key, {"status": counted}, subresource="status")
    await world.unmake(name)
    return name


async def drain_report(world: World, name: str, state: OperationState) -> str:
    def is_reported(snapshot: Snapshot) -> bool:
        found = {m.metadata.name: m.status.last_operation for m in snapshot.machines}
        return name in found and found[name].state == state and "budget" in found[name].description

    snapshot = await world.until(is_reported, "the budget is named", seconds=20)
    found = {m.metadata.name: m.status.last_operation.description for m in snapshot.machines}
    return found[name]


async def let_go(world: World, name: str) -> None:
    """Delete the machine by force, and what the test created with it."""
    label = {"metadata": {"labels": {names.FORCE_DELETION_LABEL: "True"}}}
    await world.client.patch(MACHINE, world.key(name), label)
    await world.until(lambda s: name not in s.names, "it is gone")
    await world.target.delete(PDB, Key("default", world.namespace))
    await world.target.delete(POD, Key("default", f"{world.namespace}-waits"), grace=0)


async def test_a_budget_that_holds_a_drain_is_named_with_what_is_missing(new_world: NewWorld) -> None:
    async with new_world() as world:
        counts = {"expectedPods": 2, "currentHealthy": 1, "desiredHealthy": 1}
        name = await drained_under(world, {"minAvailable": 1}, **counts)
        description = await drain_report(world, name, OperationState.PROCESSING)
        assert f'while evicting pod "default/{world.namespace}-web"' in description
        assert (
            f"pod disruption budget default/{world.namespace} allows no eviction now: of its pods "
            "1 must stay healthy and 1 are, so 1 more must become healthy; pods are deleted by force from 2"
        ) in description
        reasons = {event.reason for event in await world.events(name)}
        assert EventReason.DRAIN_HELD in reasons
        await let_go(world, name)


@pytest.mark.kube
@pytest.mark.looptime(False)
async def test_a_budget_that_cannot_count_its_pods_fails_a_drain(real_kubernetes: RealKubernetes) -> None:
    """Its pods have no controller, and it says how many may be missing: kube-controller-manager counts none."""
    async with real_world(real_kubernetes, "machines-unmanaged") as world:
        name = await drained_under(world, {"maxUnavailable": 1})
        description = await drain_report(world, name, OperationState.FAILED)
        assert (
            f"pod disruption budget default/{world.namespace} is misconfigured: no controller manages its pods"
        ) in description
        await let_go(world, name)


async def test_a_budget_that_never_yields_fails_a_drain(new_world: NewWorld) -> None:
    async with new_world() as world:
        counts = {"expectedPods": 2, "currentHealthy": 1, "desiredHealthy": 2}
        name = await drained_under(world, {"maxUnavailable": 0}, **counts)
        description = await drain_report(world, name, OperationState.FAILED)
        assert description.startswith("Drain failed due to - error while evicting pod ")
        assert (
            f"default/{world.namespace} is misconfigured and requires zero voluntary evictions" in description
        )
        assert description.endswith("Initiate node drain")
        node = await world.target.get(NODE, Key("", name))
        conditions = {each.type: each for each in node.status.conditions}
        assert conditions["DrainFailed"].message.endswith("requires zero voluntary evictions")
        assert EventReason.FAILED_DRAIN in {event.reason for event in await world.events(name)}
        await let_go(world, name)


async def test_nodes_are_marked_while_a_deployment_rolls_out(new_world: NewWorld) -> None:
    """The scheduler prefers new nodes, the autoscaler takes none away, and a user's annotation stays."""
    async with new_world() as world:
        await world.deploy("workers", 2, strategy={"rollingUpdate": {"maxUnavailable": 0}})
        first = sorted((await world.settled(2)).names)
        disabled, ours = names.SCALE_DOWN_DISABLED_ANNOTATION, names.SCALE_DOWN_DISABLED_BY_US_ANNOTATION
        await world.note_node(first[0], {disabled: "true"})
        seen: dict[str, tuple[bool, bool, bool]] = {}

        def rolled(snapshot: Snapshot) -> bool:
            for node in snapshot.nodes:
                taints = [(taint.key, taint.value, taint.effect) for taint in node.spec.taints]
                marked = (names.PREFER_NO_SCHEDULE, "True", "PreferNoSchedule") in taints
                has = node.metadata.annotations
                before = seen.get(node.metadata.name, (False, False, False))
                found = (marked, disabled in has, ours in has)
                seen[node.metadata.name] = (
                    before[0] or found[0],
                    before[1] or found[1],
                    before[2] or found[2],
                )
            clean = all(ours not in node.metadata.annotations for node in snapshot.nodes)
            return snapshot.settled(2, "large") and clean

        await world.roll("workers", "large")
        after = await world.until(rolled, "all machines are large, and no mark is left")
        assert {name: seen[name] for name in first} == {
            first[0]: (True, True, False),
            first[1]: (True, True, True),
        }
        assert all(seen[name][0] is False for name in after.names)
        assert not any(disabled in node.metadata.annotations for node in after.nodes)


def running_and_going(running: int, going: int, snapshot: Snapshot) -> bool:
    """So many machines run, and so many others are being deleted."""
    leaving = [machine.metadata.deleting for machine in snapshot.machines]
    phases = [m.status.current_status.phase for m in snapshot.machines if not m.metadata.deleting]
    return (phases, sum(leaving)) == ([Phase.RUNNING] * running, going)


async def test_a_set_with_too_many_machines_is_frozen_until_some_are_gone(new_world: NewWorld) -> None:
    async with new_world() as world:
        kept = {"labels": {"pool": "workers"}, "finalizers": ["kubewright.test/inventory"]}
        small = {"class": {"kind": "MachineClass", "name": "small"}}
        await world.deploy("workers", 4, template={"metadata": kept, "spec": small})
        await world.until(partial(running_and_going, 4, 0), "four machines")
        await world.change("workers", {"replicas": 1})
        found = await world.until(
            partial(running_and_going, 1, 3), "three go, and something keeps their objects"
        )
        (running,) = (machine for machine in found.machines if not machine.metadata.deleting)
        await world.unmake(running.metadata.name)
        await world.until(partial(running_and_going, 0, 4), "the last one goes, too")
        await world.clock.sleep(3)
        held = await world.look()
        (only,) = await world.client.list(MACHINE_SET, world.namespace)
        above = await world.client.get(MACHINE_DEPLOYMENT, world.key("workers"))
        assert len(held.machines) == 4, "a fifth would be one too many"
        for each, conditions in ((only, only.status.machine_set_condition), (above, above.status.conditions)):
            assert each.metadata.labels[names.FREEZE_LABEL] == "True"
            assert [c.reason for c in conditions if c.type == "Frozen"] == ["OverShootingReplicaCount"]
        for machine in held.machines:
            body = {
                "metadata": {
                    "finalizers": [names.FINALIZER]
                    if names.FINALIZER in machine.metadata.finalizers
                    else None
                }
            }
            await world.client.patch(MACHINE, world.key(machine.metadata.name), body)
        await world.until(partial(running_and_going, 1, 0), "a new one is there, and no other")
        await world.clock.sleep(3)
        above = await world.client.get(MACHINE_DEPLOYMENT, world.key("workers"))
        assert names.FREEZE_LABEL not in above.metadata.labels
