"""Machines that go: their pods, volumes, VMs and nodes, in order, whatever stands in the way."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from kubewright.api.core import MIRROR_POD_ANNOTATION, NODE, PDB, POD
from kubewright.api.machine import names
from kubewright.api.machine.names import EventReason, OperationState, Phase
from kubewright.api.machine.v1alpha1 import MACHINE, MACHINE_CLASS, MACHINE_DEPLOYMENT
from kubewright.api.storage import VOLUME_ATTACHMENT
from kubewright.base.clock import rfc3339
from kubewright.driver.contract import Instance, MachineRequest
from kubewright.driver.errors import Code, DriverError
from kubewright.kube.client import Client
from kubewright.testing.faults import ExecuteLate, Script
from kubewright.testing.stage import Borrowed, stage
from kubewright.testing.world import World, embedded_world, in_phase, short_timeouts
from kubewright.wire.errors import NotFound
from kubewright.wire.gvk import Key

NO_DISRUPTION = {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}


async def pods(world: World) -> set[str]:
    return {pod.metadata.name for pod in await world.target.list(POD, "default")}


async def one_machine(world: World, **spec: Any) -> None:
    await world.make("m1", **spec)
    await world.settled(1)


async def gone(world: World, within: float = 60) -> None:
    await world.until(lambda s: not s.machines, "the machine is gone", seconds=within, every=0.25)
    assert await world.left() == []


async def description(world: World) -> str:
    return (await world.machine("m1")).status.last_operation.description


async def guard(world: World, node: str = "m1") -> None:
    """A pod that its budget does not let go."""
    body = {"metadata": {"name": "web", "namespace": "default"}, "spec": NO_DISRUPTION}
    await world.target.create(PDB, body)
    await world.run_pod("web", node, labels={"app": "web"})
    await world.clock.sleep(2)


async def test_pods_are_evicted_and_what_belongs_to_the_node_is_left_alone() -> None:
    async with embedded_world(short_timeouts()) as world:
        await one_machine(world)
        await world.run_pod("web", "m1")
        await world.run_pod("agent", "m1", owner="DaemonSet")
        await world.run_pod("static", "m1", annotations={MIRROR_POD_ANNOTATION: "x"})
        await world.clock.sleep(1)
        await world.unmake("m1")
        await world.until(lambda s: not s.vms, "the VM goes")
        assert await pods(world) == {"agent", "static"}
        await gone(world)


async def test_a_machine_without_a_node_is_not_drained_and_its_vm_goes() -> None:
    async with embedded_world(short_timeouts()) as world:
        await world.make("neverjoin-1")
        await world.until(lambda seen: seen.vms == 1, "its VM is there")
        await world.clock.sleep(5)
        await world.unmake("neverjoin-1")
        await gone(world, within=5)
        told = {each.reason for each in await world.events("neverjoin-1")}
        assert EventReason.DELETED in told
        assert EventReason.DRAINING not in told


async def test_a_drain_that_lasts_is_reported_on_the_machine_and_the_node() -> None:
    async with embedded_world(short_timeouts()) as world:
        await one_machine(world)
        await guard(world)
        await world.unmake("m1")
        await world.until(in_phase(Phase.TERMINATING), "it drains")
        await world.clock.sleep(25)
        told = await description(world)
        assert "disruption budget" in told
        assert told.endswith("Initiate node drain")
        node = await world.target.get(NODE, Key("", "m1"))
        assert node.spec.unschedulable
        marks = {c.type: c.reason for c in node.status.conditions if c.status == "True"}
        assert marks["Terminating"] == "ScaleDown"
        assert await pods(world) == {"web"}
        await world.target.delete(PDB, Key("default", "web"))
        await gone(world)
        assert await pods(world) == set()


async def test_a_machine_that_failed_is_marked_unhealthy_while_it_drains() -> None:
    async with embedded_world(short_timeouts()) as world:
        await world.deploy("workers", 1)
        name = (await world.settled(1)).machines[0].metadata.name
        await guard(world, name)
        vm = world.cloud.named(name)
        assert vm is not None
        world.cloud.order(vm.id, {"disk-pressure"})
        await world.until(lambda s: len(s.machines) == 2, "it is replaced")
        await world.clock.sleep(1)
        node = await world.target.get(NODE, Key("", name))
        marks = {c.type: c.reason for c in node.status.conditions if c.status == "True"}
        assert marks["Terminating"] == "Unhealthy"


async def test_a_budget_holds_a_drain_only_until_its_timeout() -> None:
    async with embedded_world(short_timeouts(drain_timeout=60)) as world:
        await one_machine(world)
        await guard(world)
        began = world.clock.monotonic()
        await world.unmake("m1")
        await gone(world, within=90)
        assert 60 <= world.clock.monotonic() - began <= 75
        assert await pods(world) == set()


async def test_the_machines_own_drain_timeout_goes_first() -> None:
    async with embedded_world(short_timeouts()) as world:
        await one_machine(world, drainTimeout="5s")
        await guard(world)
        await world.unmake("m1")
        await gone(world, within=20)


async def test_a_person_can_force_a_deletion_that_drains_already() -> None:
    async with embedded_world(short_timeouts()) as world:
        await one_machine(world)
        await guard(world)
        await world.unmake("m1")
        await world.clock.sleep(10)
        label = {"metadata": {"labels": {names.FORCE_DELETION_LABEL: "True"}}}
        await world.client.patch(MACHINE, world.key("m1"), label)
        await gone(world, within=5)


async def test_too_many_refusals_end_in_a_deletion() -> None:
    async with embedded_world(short_timeouts()) as world:
        await one_machine(world, maxEvictRetries=2)
        await guard(world)
        await world.unmake("m1")
        await gone(world, within=60)
        assert await pods(world) == set()


async def bodies(world: World, reason: str) -> list[str]:
    """What the events with this reason on m1 say."""
    return [event.message for event in await world.events("m1") if event.reason == reason]


async def test_a_budget_that_never_yields_is_named_at_once_and_once() -> None:
    async with embedded_world(short_timeouts(drain_timeout=600)) as world:
        await one_machine(world)
        await guard(world)
        await world.unmake("m1")
        began = (await world.machine("m1")).metadata.deletion_timestamp
        assert began is not None
        await world.clock.sleep(5)
        told = (await world.machine("m1")).status.last_operation
        assert told.state == OperationState.FAILED
        assert told.description == (
            'Drain failed due to - error while evicting pod "default/web": pod disruption budget default/web '
            "is misconfigured and requires zero voluntary evictions; pods are deleted by force from "
            f"{rfc3339(began + timedelta(minutes=10))} on. Will retry in next sync. Initiate node drain"
        )
        version = (await world.machine("m1")).metadata.resource_version
        await world.clock.sleep(240)
        assert len(await bodies(world, EventReason.FAILED_DRAIN)) == 1
        assert (await world.machine("m1")).metadata.resource_version == version
        await gone(world, within=400)


async def test_two_budgets_on_one_pod_are_both_named() -> None:
    async with embedded_world(short_timeouts(drain_timeout=600)) as world:
        await one_machine(world)
        await guard(world)
        other = {"metadata": {"name": "other", "namespace": "default"}, "spec": NO_DISRUPTION}
        await world.target.create(PDB, other)
        await world.unmake("m1")
        await world.clock.sleep(5)
        told = (await world.machine("m1")).status.last_operation
        assert told.state == OperationState.FAILED
        assert "(default/other, default/web)" in told.description
        await world.target.delete(PDB, Key("default", "other"))
        await world.target.delete(PDB, Key("default", "web"))
        await gone(world)


async def test_a_failed_drain_is_reported_on_set_and_deployment() -> None:
    async with embedded_world(short_timeouts()) as world:
        await world.deploy("workers", 1)
        name = (await world.settled(1)).machines[0].metadata.name
        await guard(world, name)
        await world.unmake(name)
        await world.clock.sleep(10)
        deployment = await world.client.get(MACHINE_DEPLOYMENT, world.key("workers"))
        assert [each.name for each in deployment.status.failed_machines] == [name]
        assert "default/web" in deployment.status.failed_machines[0].last_operation.description


async def test_a_pod_that_does_not_end_in_its_grace_is_reported() -> None:
    async with embedded_world(short_timeouts()) as world:
        await one_machine(world)
        held = {"metadata": {"finalizers": ["example.com/held"]}}
        await world.run_pod("web", "m1", terminationGracePeriodSeconds=5)
        await world.target.patch(POD, Key("default", "web"), held)
        await world.unmake("m1")
        await world.clock.sleep(60)
        told = (await world.machine("m1")).status.last_operation
        assert told.state == OperationState.FAILED
        expected = 'timeout expired while waiting for pod "default/web" terminating scheduled on node m1'
        assert expected in told.description
        await world.target.patch(POD, Key("default", "web"), {"metadata": {"finalizers": None}})
        await gone(world)


async def attach(world: World) -> None:
    spec = {"attacher": "csi.sim", "nodeName": "m1", "source": {"persistentVolumeName": "pv-1"}}
    await world.target.create(VOLUME_ATTACHMENT, {"metadata": {"name": "a1"}, "spec": spec})


async def test_volumes_detach_before_their_vm_goes() -> None:
    async with embedded_world(short_timeouts(detach_timeout=60)) as world:
        await one_machine(world)
        await attach(world)
        await world.unmake("m1")
        await world.clock.sleep(20)
        assert (await description(world)).endswith("Delete Volume Attachments")
        assert (await world.look()).vms == 1
        await world.target.delete(VOLUME_ATTACHMENT, Key("", "a1"))
        await gone(world, within=3)


async def test_volumes_that_do_not_detach_hold_a_vm_only_so_long() -> None:
    async with embedded_world(short_timeouts(detach_timeout=60)) as world:
        await one_machine(world)
        await attach(world)
        await world.unmake("m1")
        await gone(world, within=70)


async def test_a_forced_deletion_takes_volumes_off() -> None:
    async with embedded_world(short_timeouts(detach_timeout=3600)) as world:
        await one_machine(world)
        await attach(world)
        label = {"metadata": {"labels": {names.FORCE_DELETION_LABEL: "true"}}}
        await world.client.patch(MACHINE, world.key("m1"), label)
        await world.unmake("m1")
        await gone(world, within=5)
        with pytest.raises(NotFound):
            await world.target.get(VOLUME_ATTACHMENT, Key("", "a1"))


async def test_where_a_forced_deletion_skips_the_drain_no_pod_is_asked_to_go_and_no_volume() -> None:
    options = short_timeouts(detach_timeout=3600)
    options = replace(options, machine=replace(options.machine, forced_deletion_drains=False))
    async with embedded_world(options) as world:
        await one_machine(world)
        await attach(world)
        await world.run_pod("web", "m1")
        await world.clock.sleep(1)
        label = {"metadata": {"labels": {names.FORCE_DELETION_LABEL: "true"}}}
        await world.client.patch(MACHINE, world.key("m1"), label)
        await world.unmake("m1")
        await gone(world, within=5)
        assert not (await world.target.get(VOLUME_ATTACHMENT, Key("", "a1"))).metadata.deleting
        assert not (await world.target.get(POD, Key("default", "web"))).metadata.deleting
        told = {event.reason for event in await world.events("m1")}
        assert "Draining" not in told


async def test_without_the_label_the_drain_is_not_skipped() -> None:
    options = short_timeouts(detach_timeout=3600)
    options = replace(options, machine=replace(options.machine, forced_deletion_drains=False))
    async with embedded_world(options) as world:
        await one_machine(world)
        await world.run_pod("web", "m1")
        await world.clock.sleep(1)
        await world.unmake("m1")
        await gone(world, within=60)
        with pytest.raises(NotFound):
            await world.target.get(POD, Key("default", "web"))


async def test_pods_of_a_vm_that_is_gone_are_not_waited_for() -> None:
    async with embedded_world(short_timeouts(health_timeout=3600)) as world:
        await one_machine(world)
        await world.run_pod("web", "m1")
        await world.clock.sleep(1)
        world.cloud.vanish(next(iter(world.cloud.vms)))
        await world.until(in_phase(Phase.UNKNOWN), "it is missed")
        await world.unmake("m1")
        await gone(world, within=5)


async def test_pods_of_a_vm_that_is_switched_off_are_waited_for_five_minutes() -> None:
    async with embedded_world(short_timeouts(health_timeout=3600)) as world:
        await one_machine(world)
        await world.run_pod("web", "m1")
        await world.clock.sleep(1)
        world.cloud.kill(next(iter(world.cloud.vms)))
        await world.until(in_phase(Phase.UNKNOWN), "it is missed")
        await world.unmake("m1")
        await world.clock.sleep(200)
        assert (await world.look()).vms == 1
        await gone(world, within=200)


async def test_a_vm_that_no_status_names_is_drained_too() -> None:
    """Its creation was never answered; when its machine goes, its node has joined and has pods."""
    async with embedded_world(short_timeouts()) as world:
        await world.make("lost-1")
        await world.until(lambda s: bool(s.nodes), "the node joins")
        assert not (await world.machine("lost-1")).spec.provider_id
        await guard(world, "lost-1")
        await world.unmake("lost-1")
        await world.until(in_phase(Phase.TERMINATING), "it drains")
        assert (await world.machine("lost-1")).spec.provider_id
        await world.clock.sleep(30)
        assert await pods(world) == {"web"}
        await world.target.delete(PDB, Key("default", "web"))
        await gone(world)
        assert await pods(world) == set()


async def test_an_uncertain_node_name_is_looked_up_before_a_late_vm_is_deleted() -> None:
    """As above, with a cloud that names nodes in its own way."""
    async with stage(short_timeouts()) as here, here.process():
        world = here.world
        patch = {"providerSpec": {"nodeNames": "address"}}
        await world.client.patch(MACHINE_CLASS, world.key("small"), patch)
        await world.make("lost-1")
        await world.clock.sleep(1)
        assert len(await world.target.list(NODE)) == 1
        await world.unmake("lost-1")
        await gone(world)


class Stubborn(Borrowed):
    """Never deletes while told so."""

    refuses = True

    async def delete(self, request: MachineRequest) -> None:
        if self.refuses:
            await self.cloud.clock.sleep(1000)
        await super().delete(request)


class Posthumous(Borrowed):
    """Its VMs' kubelets say their last word when they are gone already."""

    target: Client

    async def delete(self, request: MachineRequest) -> None:
        await super().delete(request)
        name = request.node_name
        node = {"metadata": {"name": name}, "spec": {"providerID": request.provider_id}}
        await self.target.create(NODE, node)


async def test_a_node_that_joins_too_late_for_our_cache_goes_too() -> None:
    async with stage(short_timeouts(), lag=0.5) as here:
        driver, world = Posthumous(here.cloud), here.world
        driver.target = world.target
        async with here.process(driver):
            await world.make("neverjoin-1")
            await world.until(in_phase(Phase.PENDING), "the VM is there")
            await world.unmake("neverjoin-1")
            await gone(world)


class Tardy(Borrowed):
    """Makes VMs a second after it has said that it failed."""

    async def create(self, request: MachineRequest) -> Instance:
        self.late = asyncio.create_task(self._later(request))
        raise DriverError.of(Code.Unavailable, "connection reset")

    async def _later(self, request: MachineRequest) -> None:
        await self.cloud.clock.sleep(1)
        await super().create(request)


async def test_a_vm_that_its_cloud_makes_after_the_deletion_began_goes_too() -> None:
    async with stage(short_timeouts()) as here, here.process(Tardy(here.cloud)):
        world = here.world
        await world.make("m1")
        await world.clock.sleep(0.1)
        await world.unmake("m1")
        await world.until(lambda s: s.vms == 1, "the VM comes late")
        await gone(world)
        await world.clock.sleep(20)
        assert await world.left() == []


async def test_a_deletion_that_hangs_is_reported_and_ends() -> None:
    async with stage(short_timeouts()) as here:
        driver = Stubborn(here.cloud)
        async with here.process(driver):
            world = here.world
            await one_machine(world)
            await world.unmake("m1")
            await world.clock.sleep(300)
            assert "DeadlineExceeded" in await description(world)
            driver.refuses = False
            await gone(world, within=600)


async def test_finalizers_of_others_are_waited_for() -> None:
    async with embedded_world(short_timeouts()) as world:
        await one_machine(world)
        found = (await world.machine("m1")).metadata.finalizers
        both = {"metadata": {"finalizers": [*found, "example.com/mine"]}}
        await world.client.patch(MACHINE, world.key("m1"), both)
        await world.unmake("m1")
        await world.until(lambda s: not s.vms and not s.nodes, "ours is gone")
        left = await world.machine("m1")
        assert left.metadata.finalizers == ("example.com/mine",)
        await world.client.patch(MACHINE, world.key("m1"), {"metadata": {"finalizers": None}})
        await gone(world)


async def test_mcms_finalizer_does_not_hold_our_nodes() -> None:
    async with embedded_world(short_timeouts()) as world:
        await one_machine(world)
        held = {"metadata": {"finalizers": [names.NODE_FINALIZER]}}
        await world.client.patch(NODE, Key("", "m1"), held)
        await world.unmake("m1")
        await gone(world)


async def test_a_late_deletion_spares_the_machine_that_was_made_again() -> None:
    """A proxy keeps our request, and lets it through when its machine is gone and another has its name."""
    late = Script().on(ExecuteLate(30), method="DELETE", path="/machines/m1")
    async with embedded_world(faults=late) as world:
        await one_machine(world)
        await world.note_node("m1", {names.TRIGGER_DELETION_ANNOTATION: "true"})
        await gone(world, within=25)
        await one_machine(world)
        again = (await world.machine("m1")).metadata.uid
        await world.clock.sleep(40)
        machine = await world.machine("m1")
        assert (machine.metadata.uid, machine.metadata.deleting) == (again, False)


async def test_drains_that_are_held_up_hold_up_no_other_machine() -> None:
    """There are twenty of them, and two workers."""
    options = short_timeouts()
    options = replace(options, machine=replace(options.machine, workers=2))
    async with embedded_world(options) as world:
        names_of_held = [f"held-{number}" for number in range(20)]
        for name in (*names_of_held, "free"):
            await world.make(name)
        await world.settled(21)
        budget = {"minAvailable": 20, "selector": {"matchLabels": {"app": "web"}}}
        await world.target.create(PDB, {"metadata": {"name": "web", "namespace": "default"}, "spec": budget})
        for name in names_of_held:
            await world.run_pod(f"web-{name}", name, labels={"app": "web"})
        await world.run_pod("free", "free")
        await world.clock.sleep(2)
        for name in names_of_held:
            await world.unmake(name)
        await world.clock.sleep(30)
        assert len(await pods(world)) == 21
        await world.unmake("free")
        await world.until(lambda s: "free" not in s.names, "it goes meanwhile", seconds=5, every=0.25)
        label = {"metadata": {"labels": {names.FORCE_DELETION_LABEL: "True"}}}
        for name in names_of_held:
            await world.client.patch(MACHINE, world.key(name), label)
        await gone(world, within=10)
