"""Who a machine belongs to and what it needs: classes, secrets, sets, VMs that were there before."""

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from kubewright.api.core import SECRET
from kubewright.api.machine import names
from kubewright.api.machine.names import Phase
from kubewright.api.machine.v1alpha1 import (
    MACHINE,
    MACHINE_CLASS,
    MACHINE_DEPLOYMENT,
    MACHINE_SET,
    ClassSpec,
    Machine,
    MachineSpec,
)
from kubewright.api.meta import ObjectMeta
from kubewright.driver.life.seen import Verb
from kubewright.kube.informer import Informers
from kubewright.machines.caches import Caches
from kubewright.machines.machine.act import Incomplete, Requests
from kubewright.machines.settings import MachineSettings
from kubewright.providers.sim import manifests
from kubewright.providers.sim.inventory import VmRequest
from kubewright.providers.sim.spec import SimSpec
from kubewright.testing.world import World, embedded_world, in_phase, short_timeouts
from kubewright.wire.errors import NotFound


async def test_a_machine_without_a_set() -> None:
    async with embedded_world(short_timeouts()) as world:
        await world.make("m1")
        machine = (await world.settled(1)).machines[0]
        assert names.FINALIZER in machine.metadata.finalizers
        assert names.priority(machine.metadata.annotations) == names.DEFAULT_PRIORITY
        world.cloud.kill(next(iter(world.cloud.vms)))
        await world.until(in_phase(Phase.FAILED), "it fails, and no set replaces it")
        world.cloud.restart(next(iter(world.cloud.vms)))
        await world.settled(1)
        await world.unmake("m1")
        await world.settled(0)
        assert await world.left() == []


async def test_a_set_without_a_deployment() -> None:
    async with embedded_world(short_timeouts()) as world:
        labels = {"pool": "s"}
        template = {
            "metadata": {"labels": labels},
            "spec": {"class": {"kind": "MachineClass", "name": "small"}},
        }
        spec = {"replicas": 3, "selector": {"matchLabels": labels}, "template": template}
        body = {"metadata": {"name": "s", "namespace": world.namespace}, "spec": spec}
        await world.client.create(MACHINE_SET, body)
        before = await world.settled(3)
        for vm in list(world.cloud.vms)[:2]:
            world.cloud.kill(vm)
        await world.until(lambda s: s.settled(3) and len(before.names - s.names) == 2, "both are replaced")
        await world.client.delete(MACHINE_SET, world.key("s"))
        await world.settled(0)


@pytest.mark.parametrize("propagation", ["Foreground", "Background", ""])
async def test_a_deployment_takes_its_machines_with_it(propagation: str) -> None:
    async with embedded_world(short_timeouts()) as world:
        await world.deploy("workers", 2)
        await world.settled(2)
        await world.delete("workers", propagation=propagation)
        await world.settled(0)
        await world.clock.sleep(2)
        assert await world.left() == []
        assert await world.client.list(MACHINE_SET, world.namespace) == []
        with pytest.raises(NotFound):
            await world.client.get(MACHINE_DEPLOYMENT, world.key("workers"))


async def test_an_orphaned_deployment_leaves_its_machines_running_and_a_new_one_takes_them_over() -> None:
    async with embedded_world(short_timeouts()) as world:
        await world.deploy("workers", 2)
        before = await world.settled(2)
        await world.delete("workers", propagation="Orphan")
        await world.clock.sleep(10)
        assert (await world.settled(2)).uids == before.uids
        assert await world.client.list(MACHINE_DEPLOYMENT, world.namespace) == []
        await world.deploy("workers", 2)
        await world.clock.sleep(10)
        assert (await world.settled(2)).uids == before.uids


async def test_a_missing_class_is_reported_and_waited_for() -> None:
    async with embedded_world(short_timeouts()) as world:
        await world.make("m1", "coming-soon")
        told = (await world.until(in_phase(Phase.CRASH_LOOP_BACK_OFF), "it says so")).machines[0]
        assert 'MachineClass "coming-soon" not found' in told.status.last_operation.description
        await world.clock.sleep(5)
        assert "FailedValidation" in await world.warnings()
        body = manifests.machine_class("coming-soon", world.namespace, pace=0.1)
        await world.client.create(MACHINE_CLASS, body)
        await world.settled(1, seconds=5)


async def test_the_controller_of_machines_works_alone() -> None:
    """No set, no deployment, none of their controllers: a Machine is made, joins and goes."""
    async with embedded_world(replace(short_timeouts(), controllers=("machine",))) as world:
        await world.make("m1")
        await world.until(in_phase(Phase.RUNNING), "it runs")
        await world.deploy("workers", 1)
        await world.clock.sleep(5)
        assert [each.metadata.name for each in (await world.look()).machines] == ["m1"]
        await world.unmake("m1")
        await world.until(lambda seen: not seen.machines and not seen.vms, "it goes")


async def test_a_missing_secret_is_reported_and_waited_for() -> None:
    async with embedded_world(short_timeouts()) as world:
        body = manifests.machine_class("poor", world.namespace, pace=0.1)
        body["credentialsSecretRef"] = {"name": "coming-soon"}
        await world.client.create(MACHINE_CLASS, body)
        await world.make("m1", "poor")
        told = (await world.until(in_phase(Phase.CRASH_LOOP_BACK_OFF), "it says so")).machines[0]
        assert "machines/coming-soon" in told.status.last_operation.description
        secret = {**manifests.secret(world.namespace), "metadata": {"name": "coming-soon"}}
        await world.client.create(SECRET, secret, namespace=world.namespace)
        await world.settled(1, seconds=5)


async def test_a_secret_without_user_data_is_reported_and_waited_for() -> None:
    async with embedded_world(short_timeouts()) as world:
        await world.client.patch(SECRET, world.key("sim-secret"), {"data": {"userData": None}})
        await world.make("m1")
        told = (await world.until(in_phase(Phase.CRASH_LOOP_BACK_OFF), "it says so")).machines[0]
        assert "userdata field not found in secret" in told.status.last_operation.description
        await world.client.patch(SECRET, world.key("sim-secret"), {"stringData": {"userData": "x"}})
        await world.settled(1, seconds=5)


async def test_a_class_whose_node_template_is_incomplete_is_reported_and_waited_for() -> None:
    async with embedded_world(short_timeouts(), admission=()) as world:
        body = manifests.machine_class("vague", world.namespace, pace=0.1)
        complete = body["nodeTemplate"]["capacity"]
        body["nodeTemplate"]["capacity"] = {key: text for key, text in complete.items() if key != "memory"}
        await world.client.create(MACHINE_CLASS, body)
        await world.make("m1", "vague")
        told = (await world.until(in_phase(Phase.CRASH_LOOP_BACK_OFF), "it says so")).machines[0]
        words = "MachineClass NodeTemplate Capacity should mandatorily have CPU, GPU and Memory configured"
        assert words in told.status.last_operation.description
        await world.clock.sleep(5)
        assert "FailedValidation" in await world.warnings()
        mended = {"nodeTemplate": {"capacity": complete}}
        await world.client.patch(MACHINE_CLASS, world.key("vague"), mended)
        await world.settled(1, seconds=5)


async def test_a_missing_class_does_not_suspend_the_creation_timeout() -> None:
    async with embedded_world(short_timeouts(creation_timeout=10)) as world:
        await world.make("m1", "never")
        await world.until(in_phase(Phase.FAILED), "it is given up", seconds=15)


async def test_a_machine_of_a_foreign_kind_of_class_that_was_stored_before_rules_says_so_and_can_go() -> None:
    async with embedded_world(short_timeouts(), admission=()) as world:
        spec = {"class": {"kind": "AWSMachineClass", "name": "small"}}
        body = {"metadata": {"name": "m1", "namespace": world.namespace}, "spec": spec}
        await world.client.create(MACHINE, body)
        told = (await world.until(in_phase(Phase.CRASH_LOOP_BACK_OFF), "it says so")).machines[0]
        assert "AWSMachineClass" in told.status.last_operation.description
        await world.unmake("m1")
        await world.settled(0)


async def test_a_machine_whose_class_never_existed_can_be_deleted() -> None:
    async with embedded_world(short_timeouts()) as world:
        await world.make("m1", "never")
        await world.until(in_phase(Phase.CRASH_LOOP_BACK_OFF), "it says so")
        await world.unmake("m1")
        await world.settled(0, seconds=5)


async def test_a_class_stays_while_machines_need_it_and_so_does_its_secret() -> None:
    async with embedded_world(short_timeouts()) as world:
        await world.deploy("workers", 1)
        await world.settled(1)
        await world.client.delete(MACHINE_CLASS, world.key("small"))
        await world.client.delete(MACHINE_CLASS, world.key("large"))
        await world.client.delete(SECRET, world.key("sim-secret"))
        await world.clock.sleep(5)
        assert [c.metadata.name for c in await world.client.list(MACHINE_CLASS, world.namespace)] == ["small"]
        assert (await world.client.get(SECRET, world.key("sim-secret"))).metadata.deleting
        await world.delete("workers")
        await world.settled(0)
        await world.clock.sleep(2)
        assert await world.client.list(MACHINE_CLASS, world.namespace) == []
        with pytest.raises(NotFound):
            await world.client.get(SECRET, world.key("sim-secret"))


async def torn_off(world: World) -> None:
    """A running machine is being deleted, and its class was forced away before."""
    await world.make("m1")
    await world.settled(1)
    await world.client.patch(MACHINE_CLASS, world.key("small"), {"metadata": {"finalizers": None}})
    await world.client.delete(MACHINE_CLASS, world.key("small"))
    while True:
        try:
            found = await world.client.get(MACHINE_CLASS, world.key("small"))
        except NotFound:
            break
        await world.client.patch(
            MACHINE_CLASS, world.key(found.metadata.name), {"metadata": {"finalizers": None}}
        )
    await world.unmake("m1")
    await world.until(in_phase(Phase.TERMINATING), "it cannot go")


async def test_a_vm_whose_class_was_forced_away_waits_for_it() -> None:
    async with embedded_world(short_timeouts()) as world:
        await torn_off(world)
        operation = (await world.machine("m1")).status.last_operation
        assert operation.description.startswith("VM deletion is blocked: MachineClass")
        assert len(world.cloud.vms) == 1
        await world.client.create(MACHINE_CLASS, manifests.machine_class("small", world.namespace, pace=0.1))
        await world.settled(0, seconds=10)
        assert await world.left() == []


async def test_a_person_can_leave_a_vm_behind_whose_class_was_forced_away() -> None:
    async with embedded_world(short_timeouts()) as world:
        await torn_off(world)
        label = {"metadata": {"labels": {names.FORCE_DELETION_LABEL: "True"}}}
        await world.client.patch(MACHINE, world.key("m1"), label)
        await world.until(lambda s: not s.machines, "it goes")
        await world.clock.sleep(2)
        assert "VMLeftBehind" in await world.warnings()


async def force_secret_away(world: World) -> None:
    await world.client.delete(SECRET, world.key("sim-secret"))
    await world.client.patch(SECRET, world.key("sim-secret"), {"metadata": {"finalizers": None}})
    with pytest.raises(NotFound):
        await world.client.get(SECRET, world.key("sim-secret"))


@pytest.mark.parametrize("force", [False, True], ids=["as usual", "by force"])
async def test_a_vm_whose_secret_was_forced_away_waits_for_it(force: bool) -> None:
    async with embedded_world(short_timeouts()) as world:
        await world.make("m1")
        await world.settled(1)
        await force_secret_away(world)
        if force:
            label = {"metadata": {"labels": {names.FORCE_DELETION_LABEL: "True"}}}
            await world.client.patch(MACHINE, world.key("m1"), label)
        await world.unmake("m1")
        await world.until(in_phase(Phase.TERMINATING), "it cannot go")
        await world.clock.sleep(30)
        operation = (await world.machine("m1")).status.last_operation
        told = 'VM deletion is blocked: Secret "machines/sim-secret" of MachineClass "small" not found'
        assert operation.description.startswith(told)
        assert "FailedDeleteVM" in await world.warnings()
        assert len(world.cloud.vms) == 1
        await world.client.create(SECRET, manifests.secret(world.namespace))
        await world.settled(0, seconds=10)
        assert await world.left() == []


async def test_no_request_is_made_when_a_secret_has_gone_since_the_call_was_planned() -> None:
    async with embedded_world(short_timeouts()) as world:
        informers = Informers(world.client)
        caches = Caches(informers, informers, MachineSettings())
        requests = Requests(caches, world.target, world.clock, MachineSettings())
        running = asyncio.create_task(informers.run())
        await informers.wait_synced(5)
        machine = Machine(
            metadata=ObjectMeta(name="m1", namespace=world.namespace),
            spec=MachineSpec(machine_class=ClassSpec(name="small")),
        )
        assert (await requests.make(machine, Verb.DELETE, timedelta(0))).secret.data
        await force_secret_away(world)
        await world.clock.sleep(1)
        for verb in Verb:
            with pytest.raises(Incomplete, match='Secret "machines/sim-secret" of MachineClass "small"'):
                await requests.make(machine, verb, timedelta(0))
        running.cancel()


def ask(world: World, name: str, owner: str) -> VmRequest:
    return VmRequest(name, world.namespace, owner, "small", SimSpec(boot_seconds=0.2))


async def test_a_vm_that_a_creation_made_before_is_adopted() -> None:
    """The machine is made after its VM: as if all we know had been restored from a backup."""
    async with embedded_world(short_timeouts()) as world:
        await world.make("m1", "coming-soon")
        uid = (await world.machine("m1")).metadata.uid
        vm = await world.cloud.create(ask(world, "m1", uid))
        body = manifests.machine_class("coming-soon", world.namespace, pace=0.1)
        await world.client.create(MACHINE_CLASS, body)
        assert (await world.settled(1)).machines[0].spec.provider_id == vm.provider_id


async def test_a_vm_of_another_owner_is_not_touched() -> None:
    async with embedded_world(short_timeouts()) as world:
        vm = await world.cloud.create(ask(world, "m1", "another owner"))
        await world.make("m1")
        told = (await world.until(in_phase(Phase.CRASH_LOOP_BACK_OFF), "it says so")).machines[0]
        assert told.status.last_operation.error_code == "AlreadyExists"
        await world.unmake("m1")
        await world.until(lambda s: not s.machines, "it goes")
        assert list(world.cloud.vms) == [vm.id]


async def test_a_machine_in_a_wrong_state_is_reported_what_is_wrong() -> None:
    async with embedded_world(short_timeouts(), admission=()) as world:
        await world.make("m1", healthTimeout="10 minutes")
        told = (await world.until(in_phase(Phase.CRASH_LOOP_BACK_OFF), "it says so")).machines[0]
        assert "spec.healthTimeout" in told.status.last_operation.description
        await world.client.patch(MACHINE, world.key("m1"), {"spec": {"healthTimeout": "10m"}})
        await world.settled(1)
        assert (await world.look()).phases == ["Running"]


async def test_a_secret_is_let_go_with_its_last_class() -> None:
    """So that it, and its namespace, can be deleted when no controller runs any more."""
    async with embedded_world(short_timeouts()) as world:
        await world.clock.sleep(1)
        assert (await world.client.get(SECRET, world.key("sim-secret"))).metadata.finalizers
        for name in ("small", "large"):
            await world.client.delete(MACHINE_CLASS, world.key(name))
        await world.clock.sleep(1)
        assert not (await world.client.get(SECRET, world.key("sim-secret"))).metadata.finalizers
