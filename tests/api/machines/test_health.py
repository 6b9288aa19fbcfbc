"""Machines whose nodes fall ill, vanish or never come: who is replaced, when, and how many at once."""

from dataclasses import dataclass

import pytest

from kubewright.api.core import NODE, PDB
from kubewright.api.machine import names
from kubewright.api.machine.names import Phase
from kubewright.api.machine.v1alpha1 import MACHINE, Machine
from kubewright.testing.faults import Delay, Fault
from kubewright.testing.world import Snapshot, World, embedded_world, in_phase, short_timeouts
from kubewright.wire.gvk import Key
from kubewright.wire.http import Request

NO_DISRUPTION = {"minAvailable": 2, "selector": {"matchLabels": {"app": "web"}}}


async def test_machines_that_cannot_be_made_in_time_are_replaced() -> None:
    async with embedded_world(short_timeouts(creation_timeout=20)) as world:
        await world.deploy("denied-workers", 1)
        first = await world.until(in_phase(Phase.CRASH_LOOP_BACK_OFF), "it is refused")
        again = await world.until(lambda s: bool(s.uids) and not s.uids & first.uids, "it is replaced")
        assert len(again.machines) == 1
        created = again.machines[0].metadata.creation_timestamp
        before = first.machines[0].metadata.creation_timestamp
        assert created is not None
        assert before is not None
        assert 20 <= (created - before).total_seconds() <= 22


async def test_machines_that_do_not_join_in_time_are_replaced() -> None:
    async with embedded_world(short_timeouts(creation_timeout=20)) as world:
        await world.deploy("neverjoin-workers", 1)
        first = await world.until(in_phase(Phase.PENDING), "it waits")
        await world.until(lambda s: bool(s.uids) and not s.uids & first.uids, "it is replaced")
        await world.deploy("workers", 1)
        await world.change("neverjoin-workers", {"replicas": 0})
        await world.settled(1)


async def test_of_three_machines_that_die_at_once_one_is_replaced_after_the_other() -> None:
    async with embedded_world(short_timeouts()) as world:
        await world.deploy("workers", 5)
        before = await world.settled(5)
        victims = sorted(before.names)[:3]
        for name in victims:
            kill(world, name)
        in_work: list[int] = []

        def healed(snapshot: Snapshot) -> bool:
            in_work.append(len(set(victims) - settled(snapshot)) - len(settled(snapshot) - before.names))
            return snapshot.settled(5) and not snapshot.names & set(victims)

        await world.until(healed, "all three are replaced", seconds=120, every=0.05)
        assert max(in_work) == 1


def settled(snapshot: Snapshot) -> set[str]:
    """Machines that no set replaces: Running, or Unknown and waiting for their turn."""
    steady = [m for m in snapshot.machines if m.status.current_status.phase in (Phase.RUNNING, Phase.UNKNOWN)]
    return {m.metadata.name for m in steady if not m.metadata.deleting}


async def test_machines_of_different_deployments_do_not_wait_for_each_other() -> None:
    async with embedded_world(short_timeouts()) as world:
        await world.deploy("here", 2)
        await world.deploy("there", 2)
        before = await world.settled(4)
        for name in sorted(before.names)[::2]:
            kill(world, name)
        await world.until(lambda s: s.phases.count("Unknown") == 2, "both are Unknown")
        await world.until(lambda s: len(before.names - s.names) == 2, "both go at once", seconds=5)


async def test_a_node_that_recovers_in_time_keeps_its_machine() -> None:
    async with embedded_world(short_timeouts(health_timeout=30)) as world:
        await world.deploy("workers", 1)
        before = (await world.settled(1)).machines[0]
        vm = next(iter(world.cloud.vms))
        world.cloud.order(vm, {"not-ready"})
        sick = (await world.until(in_phase(Phase.UNKNOWN), "it is ill")).machines[0]
        assert "Ready is False" in sick.status.last_operation.description
        assert {c.type: c.status for c in sick.status.conditions}["Ready"] == "False"
        world.cloud.order(vm, set())
        after = (await world.settled(1)).machines[0]
        assert after.metadata.uid == before.metadata.uid
        assert after.status.last_operation.description == (
            f"Machine {after.metadata.name} successfully re-joined the cluster"
        )


async def test_conditions_that_flap_do_not_postpone_the_health_timeout() -> None:
    async with embedded_world(short_timeouts(health_timeout=20)) as world:
        await world.deploy("workers", 1)
        before = await world.settled(1)
        vm = next(iter(world.cloud.vms))
        for number in range(50):
            world.cloud.order(vm, {"not-ready", *(["disk-pressure"] if number % 2 else [])})
            await world.clock.sleep(1)
            if not (await world.look()).names & before.names:
                break
        assert number < 30


async def test_a_machine_without_health_timeout_is_never_replaced() -> None:
    async with embedded_world(short_timeouts()) as world:
        await world.make("m1", disableHealthTimeout=True)
        await world.settled(1)
        kill(world, "m1")
        await world.until(in_phase(Phase.UNKNOWN), "it is ill")
        await world.clock.sleep(60)
        assert (await world.look()).phases == ["Unknown"]


async def test_the_conditions_that_matter_are_the_machines_own() -> None:
    async with embedded_world(short_timeouts()) as world:
        await world.make("m1", nodeConditions="KernelDeadlock, MemoryPressure")
        await world.settled(1)
        vm = next(iter(world.cloud.vms))
        world.cloud.order(vm, {"disk-pressure"})
        await world.clock.sleep(5)
        assert (await world.look()).phases == ["Running"]
        world.cloud.order(vm, {"memory-pressure"})
        await world.until(in_phase(Phase.UNKNOWN), "it is ill")


@pytest.mark.parametrize(
    "trouble", ["disk-pressure", "kernel-deadlock", "readonly-filesystem", "network-unavailable", "not-ready"]
)
async def test_a_machine_that_names_no_conditions_is_judged_by_those_of_mcm(trouble: str) -> None:
    async with embedded_world(short_timeouts()) as world:
        await world.make("m1")
        await world.settled(1)
        vm = next(iter(world.cloud.vms))
        world.cloud.order(vm, {"memory-pressure"})
        await world.clock.sleep(5)
        assert (await world.look()).phases == ["Running"]
        world.cloud.order(vm, {trouble})
        await world.until(in_phase(Phase.UNKNOWN), "it is ill", seconds=5)


async def test_a_node_that_a_person_deleted_comes_back_while_its_vm_lives() -> None:
    async with embedded_world(short_timeouts(health_timeout=30)) as world:
        await world.deploy("workers", 1)
        before = await world.settled(1)
        node = before.nodes[0].metadata
        await world.client.delete(NODE, Key("", node.name))
        lost = await world.until(in_phase(Phase.UNKNOWN), "the node is missed")
        assert "Node object went missing" in lost.machines[0].status.last_operation.description
        after = await world.settled(1)
        assert after.names == before.names
        assert after.nodes[0].metadata.uid != node.uid
        assert after.nodes[0].metadata.labels[names.MACHINE_NAME_LABEL] == node.name


async def test_a_node_that_a_person_deleted_is_replaced_when_its_vm_is_dead() -> None:
    async with embedded_world(short_timeouts()) as world:
        await world.deploy("workers", 1)
        before = await world.settled(1)
        kill(world, before.machines[0].metadata.name)
        await world.client.delete(NODE, Key("", before.nodes[0].metadata.name))
        await world.until(lambda s: s.settled(1) and not s.names & before.names, "it is replaced")


async def test_a_vm_that_vanished_is_replaced() -> None:
    async with embedded_world(short_timeouts()) as world:
        await world.deploy("workers", 2)
        before = await world.settled(2)
        world.cloud.vanish(next(iter(world.cloud.vms)))
        await world.until(lambda s: s.settled(2) and s.names != before.names, "it is replaced")


async def test_machines_made_by_hand_share_a_ration_by_their_label() -> None:
    async with embedded_world(short_timeouts()) as world:
        for name in ("a", "b"):
            await world.make(name)
            label = {"metadata": {"labels": {names.DEPLOYMENT_NAME_LABEL: "pool"}}}
            await world.client.patch(MACHINE, world.key(name), label)
        await world.settled(2)
        for name in ("a", "b"):
            kill(world, name)
        await world.until(in_phase(Phase.FAILED), "one fails")
        await world.clock.sleep(30)
        assert (await world.look()).phases == ["Failed", "Unknown"]


async def test_a_status_that_a_user_emptied_is_written_again() -> None:
    async with embedded_world(short_timeouts()) as world:
        await world.deploy("workers", 1)
        before = (await world.settled(1)).machines[0]
        body = {"status": {"currentStatus": None, "lastOperation": None, "conditions": None}}
        await world.client.patch(MACHINE, world.key(before.metadata.name), body, subresource="status")
        after: Machine = (await world.settled(1)).machines[0]
        assert after.spec.provider_id == before.spec.provider_id


def kill(world: World, name: str) -> None:
    vm = world.cloud.named(name, world.namespace)
    assert vm is not None
    world.cloud.kill(vm.id)


@dataclass(frozen=True)
class SlowPods:
    """Only lists of one node's pods are late."""

    def __call__(self, request: Request) -> Fault | None:
        return Delay(0.5) if "spec.nodeName" in str(request.param("fieldSelector")) else None


async def test_machines_whose_pods_are_listed_meanwhile_are_not_replaced_at_once_either() -> None:
    """Two looks that began together decide one after the other."""
    async with embedded_world(short_timeouts(), faults=SlowPods()) as world:
        await world.deploy("workers", 2)
        names_of_both = sorted((await world.settled(2)).names)
        await world.target.create(
            PDB, {"metadata": {"name": "web", "namespace": "default"}, "spec": NO_DISRUPTION}
        )
        for name in names_of_both:
            await world.run_pod(name, name, labels={"app": "web"})
            labels = {names.CANDIDATE_LABEL: "true", names.SELECTED_LABEL: "true"}
            await world.target.patch(NODE, Key("", name), {"metadata": {"labels": labels}})
        await world.clock.sleep(10)
        for name in names_of_both:
            kill(world, name)
        in_work: list[int] = []

        def one_goes(snapshot: Snapshot) -> bool:
            in_work.append(len(set(names_of_both) - settled(snapshot)))
            return in_work[-1] > 0

        await world.until(one_goes, "one is replaced", every=0.05)
        await world.clock.sleep(0.5)
        one_goes(await world.look())
        assert max(in_work) == 1


async def test_before_a_machine_is_given_up_the_node_is_read_that_it_has_under_whatever_name() -> None:
    """The label names a node that does not exist; the machine's node is found by its provider id."""
    async with embedded_world(short_timeouts()) as world:
        await world.make("m1")
        await world.settled(1)
        await world.client.patch(MACHINE, world.key("m1"), {"metadata": {"labels": {"node": "another"}}})
        vm = world.cloud.named("m1", world.namespace)
        assert vm is not None
        world.cloud.order(vm.id, {"not-ready"})
        failed = await world.until(in_phase(Phase.FAILED), "it is given up")
        assert "no conditions" not in failed.machines[0].status.last_operation.description
