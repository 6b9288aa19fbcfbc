"""VMs that no machine wants, and their nodes: looked for, confirmed, collected; and what is left alone."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from tests.api.machines.ways import Way

from kubewright.api.core import CRD, EVENT, NODE, PDB, POD, SECRET
from kubewright.api.machine import names
from kubewright.api.machine.manifests import crds
from kubewright.api.machine.names import Phase
from kubewright.api.machine.v1alpha1 import MACHINE_CLASS
from kubewright.api.storage import VOLUME_ATTACHMENT
from kubewright.compose.options import Options
from kubewright.driver.contract import ClassRequest, Instance, MachineRequest, stub
from kubewright.driver.errors import Code, DriverError, NotFound, Unimplemented
from kubewright.driver.life.orphans import OrphanSettings
from kubewright.machines.orphans.nodes import WRITES
from kubewright.nodes.drain.decide import PODS_PER_PASS
from kubewright.providers.sim import manifests
from kubewright.providers.sim.cloud import Cloud
from kubewright.testing.clocks import LoopClock
from kubewright.testing.stage import Borrowed, Stage, stage
from kubewright.testing.world import World, in_phase, short_timeouts
from kubewright.wire.gvk import Key

SOON, CONFIRMATION, PERIOD = 5, 20, 120


def options(**seconds: float) -> Options:
    times = (timedelta(seconds=number) for number in (PERIOD, CONFIRMATION, SOON))
    period, confirmation, soon = times
    orphans = OrphanSettings(period=period, confirmation=confirmation, soon=soon)
    return replace(short_timeouts(**seconds), orphans=orphans)


async def conjure(
    here: Stage, name: str = "ghost", *, uid: str = "gone", machine_class: str = "small"
) -> Instance:
    """A VM as a creation leaves it that the cloud carried out after the process had ended."""
    found = await here.world.client.get(MACHINE_CLASS, here.world.key(machine_class))
    machine = stub(name, here.world.namespace, uid)
    return await Borrowed(here.cloud).create(ClassRequest(found).of(machine))


async def reasons(world: World) -> list[str]:
    found = await world.client.list(EVENT, world.namespace)
    return [event.reason for event in found if event.involved_object.kind == "MachineClass"]


async def test_a_vm_that_no_machine_wants_goes_after_confirmation_and_its_node_with_it() -> None:
    async with stage(options()) as here, here.process():
        world = here.world
        await world.deploy("workers", 2)
        before = await world.settled(2)
        await world.clock.sleep(2 * SOON)
        ghost = await conjure(here)
        await world.clock.sleep(PERIOD)
        assert world.cloud.named("ghost") is not None, "seen once is not enough"
        assert ghost.node_name in {node.metadata.name for node in await world.target.list(NODE)}
        after = await world.settled(2, seconds=2 * CONFIRMATION)
        assert after.uids == before.uids
        await world.clock.sleep(1)
        assert "ghost" not in {node.metadata.name for node in await world.target.list(NODE)}
        assert await reasons(world) == ["OrphanDeleted"], "two classes with the same tags tell it once"


async def made_by_hand(here: Stage, name: str, tags: Mapping[str, str]) -> Instance:
    """A VM of the same account that has these tags, whoever made it."""
    body = manifests.machine_class("by-hand", here.world.namespace, pace=0.1, more={"tags": dict(tags)})
    machine = stub(name, here.world.namespace, "")
    return await Borrowed(here.cloud).create(ClassRequest(MACHINE_CLASS.from_plain(body)).of(machine))


async def test_vms_without_all_tags_of_the_classes_are_never_collected() -> None:
    async with stage(options()) as here, here.process():
        world, (cluster, role) = here.world, manifests.CLUSTER_TAGS
        await made_by_hand(here, "without-tags", {"owner": "someone"})
        await made_by_hand(here, "of-another-cluster", {"kubernetes.io/cluster/other": "1", role: "1"})
        await made_by_hand(here, "without-a-role", {cluster: "1"})
        await made_by_hand(here, "with-both", {cluster: "1", role: "1", "owner": "someone"})
        await world.clock.sleep(3 * PERIOD + 2 * CONFIRMATION)
        left = {
            name
            for name in ("without-tags", "of-another-cluster", "without-a-role")
            if world.cloud.named(name)
        }
        assert left == {"without-tags", "of-another-cluster", "without-a-role"}
        assert world.cloud.named("with-both") is None


async def test_the_pods_of_such_a_vm_leave_before_it_goes() -> None:
    async with stage(options()) as here:
        ghost = await conjure(here)
        async with here.process():
            world = here.world
            await world.clock.sleep(SOON)
            await world.run_pod("web", ghost.node_name, terminationGracePeriodSeconds=3)
            while world.cloud.named("ghost"):
                node = await world.target.get(NODE, Key("", ghost.node_name))
                pods = await world.target.list(POD, "default")
                await world.clock.sleep(0.01)
            assert node.spec.unschedulable, "nothing new came"
            assert not pods, "and what was there was asked to leave, and left"
            await world.clock.sleep(1)
            assert await world.left() == []


async def test_a_node_with_many_pods_waits_for_no_look_between_two_hundreds_of_them() -> None:
    rare = replace(options(), orphans=replace(options().orphans, soon=timedelta(seconds=60)))
    async with stage(rare) as here:
        world, ghost = here.world, await conjure(here)
        async with here.process():
            await world.clock.sleep(60)
            for number in range(3 * PODS_PER_PASS):
                await world.run_pod(f"web-{number}", ghost.node_name, terminationGracePeriodSeconds=1)
            await world.clock.sleep(CONFIRMATION + 5)
            assert (await world.target.get(NODE, Key("", ghost.node_name))).spec.unschedulable
            await world.clock.sleep(5)
            assert not [pod for pod in await world.target.list(POD, "default") if not pod.metadata.deleting]


@pytest.mark.parametrize(
    ("detached", "goes_in"), [pytest.param(True, 2 * SOON, id="detached"), pytest.param(False, 45, id="late")]
)
async def test_its_volumes_are_awaited_for_the_detach_timeout_at_most(detached: bool, goes_in: int) -> None:
    async with stage(options(detach_timeout=60)) as here:
        world, ghost = here.world, await conjure(here)
        spec = {
            "attacher": "csi.sim",
            "nodeName": ghost.node_name,
            "source": {"persistentVolumeName": "pv-1"},
        }
        await world.target.create(VOLUME_ATTACHMENT, {"metadata": {"name": "a1"}, "spec": spec})
        async with here.process():
            await world.clock.sleep(SOON + CONFIRMATION + 25)
            assert world.cloud.named("ghost") is not None, "it is drained, and its volume is attached"
            if detached:
                await world.target.delete(VOLUME_ATTACHMENT, Key("", "a1"))
            await world.clock.sleep(goes_in)
            assert world.cloud.named("ghost") is None


async def test_it_is_found_soon_after_a_start() -> None:
    async with stage(options()) as here:
        await conjure(here)
        async with here.process():
            await here.world.clock.sleep(CONFIRMATION)
            assert here.cloud.vms
            await here.world.clock.sleep(SOON + 2)
            assert await here.world.left() == []


async def test_a_young_machine_that_goes_is_a_reason_to_look() -> None:
    async with stage(options()) as here, here.process():
        world = here.world
        await world.clock.sleep(PERIOD + SOON + 1)
        await world.make("m1")
        machine = (await world.settled(1)).machines[0]
        await world.unmake("m1")
        await world.until(lambda s: not s.machines, "it goes")
        await conjure(here, "m1", uid=machine.metadata.uid)
        await world.clock.sleep(SOON + CONFIRMATION + 2)
        assert await world.left() == []


async def test_a_late_cache_costs_no_vm() -> None:
    """Another process created the machine, and our watch has not told us yet: the server knows better."""
    async with stage(options(), lag=3 * CONFIRMATION) as here:
        world = here.world
        async with here.process():
            await world.clock.sleep(1)
            await world.make("m1", finalizers=())
            made = await world.machine("m1")
            vm = await conjure(here, "m1", uid=made.metadata.uid)
            await world.clock.sleep(SOON + 2 * CONFIRMATION)
            assert [found.provider_id for found in here.cloud.vms.values()] == [vm.provider_id]
            await world.until(lambda s: s.settled(1), "our watch has told us", seconds=10 * CONFIRMATION)
            assert [found.provider_id for found in here.cloud.vms.values()] == [vm.provider_id]


async def test_a_class_that_cannot_be_listed_holds_up_no_other() -> None:
    async with stage(options()) as here:
        world = here.world
        broken = {"faults": [{"operation": "list", "code": "Internal"}], "tags": None}
        await world.client.patch(MACHINE_CLASS, world.key("large"), {"providerSpec": broken})
        await conjure(here)
        await conjure(here, "other", machine_class="large")
        async with here.process():
            await world.clock.sleep(SOON + CONFIRMATION + 2)
            assert [vm.name for vm in here.cloud.vms.values()] == ["other"]
            await world.client.patch(MACHINE_CLASS, world.key("large"), {"providerSpec": {"faults": None}})
            await world.until(lambda s: not s.vms, "it is mended", seconds=600)


async def test_a_class_is_not_listed_without_its_secret_and_soon_after_it_is_there() -> None:
    async with stage(options()) as here:
        world = here.world
        for name in ("small", "large"):
            body = {"secretRef": {"name": "coming-soon"}}
            await world.client.patch(MACHINE_CLASS, world.key(name), body)
        await conjure(here)
        driver = Listing(here.cloud)
        async with here.process(driver):
            await world.clock.sleep(3 * PERIOD)
            assert driver.given == []
            secret = {**manifests.secret(world.namespace), "metadata": {"name": "coming-soon"}}
            await world.client.create(SECRET, secret, namespace=world.namespace)
            await world.clock.sleep(SOON + CONFIRMATION + 2)
            assert here.cloud.vms == {}
            assert {tuple(data) for data in driver.given} == {("userData",)}


class Listing(Borrowed):
    """A driver that notes which secrets it is given to list VMs with."""

    def __init__(self, cloud: Cloud) -> None:
        super().__init__(cloud)
        self.given: list[Mapping[str, bytes]] = []

    async def list(self, request: ClassRequest) -> Sequence[Instance]:
        self.given.append(request.secret.data)
        return await super().list(request)


class CannotList(Borrowed):
    """A driver that cannot list."""

    asked = 0

    async def list(self, request: ClassRequest) -> Sequence[Instance]:
        self.asked += 1
        raise Unimplemented("not here")


class Lacking(Borrowed):
    """A driver whose lists lack all VMs while ``lacks``, or fail while ``fails``."""

    lacks = False
    fails = False

    async def list(self, request: ClassRequest) -> Sequence[Instance]:
        found = await super().list(request)
        if self.fails:
            raise DriverError.of(Code.Unavailable, "no list now")
        return [] if self.lacks else found


async def hold_up_a_drain(here: Stage, ghost: Instance) -> None:
    """Have a pod on the node of a suspect that no eviction is allowed of, and wait until it is drained."""
    world = here.world
    await world.clock.sleep(SOON)
    never = {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "web"}}}
    meta = {"name": "keep", "namespace": "default"}
    await world.target.create(PDB, {"metadata": meta, "spec": never})
    await world.run_pod("web", ghost.node_name, labels={"app": "web"})
    await world.clock.sleep(CONFIRMATION + 2)
    assert (await world.target.get(NODE, Key("", ghost.node_name))).spec.unschedulable


async def test_one_list_without_a_vm_that_is_drained_ends_nothing() -> None:
    """The cloud's lists lag, or the answer was for another account: the VM runs, and its pods too."""
    async with stage(options(drain_timeout=90)) as here:
        world, ghost = here.world, await conjure(here)
        async with here.process(driver := Lacking(here.cloud)):
            await hold_up_a_drain(here, ghost)
            driver.lacks = True
            await world.clock.sleep(SOON + 2)
            driver.lacks = False
            await world.clock.sleep(2 * CONFIRMATION)
            assert ghost.node_name in {node.metadata.name for node in await world.target.list(NODE)}
            await world.clock.sleep(20)
            assert world.cloud.named("ghost") is not None, "a drain has its time"
            await world.clock.sleep(45)
            assert await world.left() == [], "which did not begin anew"


async def test_a_vm_that_two_lists_lack_is_gone() -> None:
    """A user deleted it in the cloud while it was drained."""
    async with stage(options(drain_timeout=600)) as here:
        world, ghost = here.world, await conjure(here)
        async with here.process():
            await hold_up_a_drain(here, ghost)
            found = await world.client.get(MACHINE_CLASS, world.key("small"))
            vm = stub("ghost", world.namespace, "gone", provider_id=ghost.provider_id)
            await Borrowed(here.cloud).delete(ClassRequest(found).of(vm))
            await world.clock.sleep(CONFIRMATION - 1)
            assert ghost.node_name in {node.metadata.name for node in await world.target.list(NODE)}
            await world.clock.sleep(2 * SOON)
            assert ghost.node_name not in {node.metadata.name for node in await world.target.list(NODE)}


async def test_a_driver_that_cannot_list_is_asked_once() -> None:
    async with stage(options()) as here:
        await conjure(here)
        driver = CannotList(here.cloud)
        async with here.process(driver):
            await here.world.clock.sleep(3 * PERIOD)
            assert 1 <= driver.asked <= 2, "both classes may ask at the same moment"
            assert len(here.cloud.vms) == 1


class Twins(Borrowed):
    """A cloud that has carried out two creations for one machine; ``twin`` is the second VM."""

    twin: Instance | None = None
    shows_first = True

    def __init__(self, cloud: Cloud) -> None:
        super().__init__(cloud)
        self.deleted: list[tuple[str, str]] = []

    async def list(self, request: ClassRequest) -> Sequence[Instance]:
        found = await super().list(request)
        seen = [vm for vm in found if self.shows_first or vm.machine_name != "m1"]
        return [*seen, *([self.twin] if self.twin else [])]

    async def delete(self, request: MachineRequest) -> None:
        self.deleted.append((request.provider_id, request.owner_uid))
        if request.provider_id != "sim:///sim-1a/vm-99":
            await super().delete(request)
        elif self.twin is None:
            raise NotFound("it is gone")
        self.twin = None


async def with_a_twin(here: Stage, driver: Twins) -> str:
    """A Running machine with two VMs; the id of the one on record."""
    await here.world.make("m1")
    [of] = (await here.world.until(in_phase(Phase.RUNNING), "it runs")).machines
    driver.twin = Instance("sim:///sim-1a/vm-99", "m1", "m1", of.metadata.uid)
    return of.spec.provider_id


async def test_the_second_vm_of_a_living_machine_goes_and_the_first_stays() -> None:
    async with stage(options()) as here, here.process(driver := Twins(here.cloud)):
        world = here.world
        first = await with_a_twin(here, driver)
        await world.clock.sleep(SOON + CONFIRMATION / 2)
        assert driver.deleted == [], "seen once is not enough"
        await world.clock.sleep(2 * CONFIRMATION)
        assert set(driver.deleted) == {("sim:///sim-1a/vm-99", "")}, "by its id alone"
        assert [vm.provider_id for vm in here.cloud.vms.values()] == [first]
        [machine] = (await world.settled(1)).machines
        assert machine.spec.provider_id == first
        events = await world.client.list(EVENT, world.namespace)
        told = [event.message for event in events if event.reason == "OrphanDeleted"]
        assert told == ["Deleted VM sim:///sim-1a/vm-99 of machine m1: its machine has another VM"]


async def test_a_second_vm_stays_while_the_first_is_not_listed() -> None:
    async with stage(options()) as here, here.process(driver := Twins(here.cloud)):
        world = here.world
        await with_a_twin(here, driver)
        driver.shows_first = False
        await world.clock.sleep(3 * PERIOD)
        assert driver.deleted == []


async def test_the_node_of_a_vm_that_a_process_deleted_before_it_ended() -> None:
    async with stage(options()) as here:
        world = here.world
        marks = {names.ORPHAN_OF_ANNOTATION: str(world.key("small"))}
        body: dict[str, Any] = {
            "metadata": {"name": "left", "annotations": marks},
            "spec": {"providerID": "sim:///x/vm-9"},
        }
        await world.target.create(NODE, body)
        async with here.process():
            await world.clock.sleep(CONFIRMATION)
            assert [node.metadata.name for node in await world.target.list(NODE)] == ["left"]
            await world.clock.sleep(SOON + 2)
            assert await world.left() == []


async def test_a_mark_on_the_node_of_a_machine_means_nothing() -> None:
    async with stage(options()) as here, here.process():
        world = here.world
        await world.deploy("workers", 1)
        sight = await world.settled(1)
        wrong = {"metadata": {"annotations": {names.ORPHAN_OF_ANNOTATION: str(world.key("large"))}}}
        await world.target.patch(NODE, Key("", sight.nodes[0].metadata.name), wrong)
        await world.clock.sleep(2 * PERIOD)
        assert (await world.settled(1)).uids == sight.uids


async def test_a_node_without_a_machine_says_so_once_and_stays() -> None:
    async with stage(options(creation_timeout=30)) as here:
        world = here.world
        label = {names.MACHINE_NAME_LABEL: "gone"}
        await world.target.create(NODE, {"metadata": {"name": "left", "labels": label}})
        await world.target.create(
            NODE, {"metadata": {"name": "foreign"}, "spec": {"providerID": "metal://7"}}
        )
        async with here.process():
            await world.clock.sleep(2 * PERIOD)
            nodes = {node.metadata.name: node for node in await world.target.list(NODE)}
            assert nodes["left"].metadata.annotations == {names.NOT_MANAGED_ANNOTATION: "1"}
            assert names.NOT_MANAGED_ANNOTATION not in nodes["foreign"].metadata.annotations
            await world.target.patch(NODE, Key("", "left"), {"metadata": {"annotations": None}})
            await world.clock.sleep(2 * PERIOD)
            left = await world.target.get(NODE, Key("", "left"))
            assert not left.metadata.annotations, "who takes it off is not argued with"


async def test_a_node_that_has_a_machine_after_all_says_so_no_longer() -> None:
    async with stage(options()) as here, here.process():
        world = here.world
        await world.deploy("workers", 1)
        node = (await world.settled(1)).nodes[0]
        wrong = {"metadata": {"annotations": {names.NOT_MANAGED_ANNOTATION: "1"}}}
        await world.target.patch(NODE, Key("", node.metadata.name), wrong)
        await world.clock.sleep(PERIOD + SOON)
        node = await world.target.get(NODE, Key("", node.metadata.name))
        assert names.NOT_MANAGED_ANNOTATION not in node.metadata.annotations


class Leaping(LoopClock):
    """The clock of a process whose wall time is ``ahead`` by so many seconds."""

    ahead = 0.0

    def now(self) -> datetime:
        return super().now() + timedelta(seconds=self.ahead)


HOURS = 3 * 3600.0
LEAPS = [
    pytest.param(0.0, id="while the wall clock is right"),
    pytest.param(HOURS, id="while the wall clock leaps ahead"),
    pytest.param(-HOURS, id="while the wall clock leaps back"),
]


@pytest.mark.parametrize("leap", LEAPS)
async def test_pods_of_a_vm_without_a_machine_have_their_time(leap: float) -> None:
    clock = Leaping()
    async with stage(options(drain_timeout=60)) as here:
        world, ghost = here.world, await conjure(here)
        async with replace(here, clock=clock).process():
            await world.clock.sleep(SOON)
            never = {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "web"}}}
            await world.target.create(
                PDB, {"metadata": {"name": "keep", "namespace": "default"}, "spec": never}
            )
            await world.run_pod("web", ghost.node_name, labels={"app": "web"})
            await world.clock.sleep(CONFIRMATION + 2)
            assert (await world.target.get(NODE, Key("", ghost.node_name))).spec.unschedulable
            clock.ahead = leap
            await world.clock.sleep(40)
            assert world.cloud.named("ghost") is not None, "a drain has a minute"
            await world.clock.sleep(40)
            assert world.cloud.named("ghost") is None, "and no longer"


@pytest.mark.parametrize("leap", LEAPS)
async def test_a_node_without_a_machine_has_its_time_to_get_one(leap: float) -> None:
    clock = Leaping()
    async with stage(options(creation_timeout=2 * PERIOD)) as here:
        world = here.world
        label = {names.MACHINE_NAME_LABEL: "coming"}
        await world.target.create(NODE, {"metadata": {"name": "early", "labels": label}})

        async def annotated() -> bool:
            node = await world.target.get(NODE, Key("", "early"))
            return names.NOT_MANAGED_ANNOTATION in node.metadata.annotations

        async with replace(here, clock=clock).process():
            await world.clock.sleep(2 * SOON + 1)
            clock.ahead = leap
            await world.clock.sleep(PERIOD)
            assert not await annotated()
            await world.clock.sleep(2 * PERIOD)
            assert await annotated()


@pytest.mark.parametrize("leap", LEAPS)
async def test_a_machine_is_as_young_as_it_is(leap: float) -> None:
    clock = Leaping()
    async with stage(options()) as here, replace(here, clock=clock).process():
        world = here.world
        for name in ("m1", "m2"):
            await world.make(name)
            machine = (await world.settled(1)).machines[0]
            await world.unmake(name)
            await world.until(lambda s: not s.machines, "it goes")
            await conjure(here, name, uid=machine.metadata.uid)
            await world.clock.sleep(SOON + CONFIRMATION + 2)
            assert await world.left() == []
            await world.clock.sleep(2 * SOON)  # no look is due for long
            clock.ahead = leap


class Refusing(Borrowed):
    """A cloud that deletes no VM of a ``stuck`` machine; notes when each class asks it to."""

    def __init__(self, cloud: Cloud) -> None:
        super().__init__(cloud)
        self.asked: dict[str, list[float]] = {}

    async def delete(self, request: MachineRequest) -> str | None:
        if request.name.startswith("stuck"):
            times = self.asked.setdefault(request.machine_class.name, [])
            times.append(asyncio.get_running_loop().time())
            raise DriverError.of(Code.PermissionDenied, "deletion protection is on")
        return await super().delete(request)


async def test_vms_that_cannot_go_hold_up_no_other() -> None:
    few = replace(options(), orphans=replace(options().orphans, at_once=2))
    async with stage(few) as here:
        for name in ("stuck-1", "stuck-2", "stuck-3", "free"):
            await conjure(here, name)
        async with here.process(Refusing(here.cloud)):
            await here.world.clock.sleep(SOON + CONFIRMATION + 6 * SOON)
            assert {vm.name for vm in here.cloud.vms.values()} == {"stuck-1", "stuck-2", "stuck-3"}


async def test_a_deletion_that_failed_is_repeated_after_the_pause_of_its_error() -> None:
    async with stage(options()) as here:
        await conjure(here, "stuck")
        async with here.process(driver := Refusing(here.cloud)):
            await here.world.clock.sleep(SOON + CONFIRMATION + 1300)
            assert set(driver.asked) == {"small", "large"}, "both classes list it, each with its credentials"
            for times in driver.asked.values():
                gaps = [later - earlier for earlier, later in pairwise(times)]
                assert gaps == pytest.approx([600, 600], abs=SOON)


async def test_while_the_server_does_not_serve_machines_no_vm_goes() -> None:
    """The CRD is applied anew: until it is served every path of the kind answers 404, and no list has it."""
    async with stage(options()) as here:
        world, lost = here.world, await conjure(here, "m1", uid="before")
        [crd] = [each for each in crds() if each["spec"]["names"]["plural"] == "machines"]
        async with here.process():
            await world.clock.sleep(1)
            await world.client.delete(CRD, Key("", crd["metadata"]["name"]))
            await world.clock.sleep(SOON + 3 * CONFIRMATION)
            assert world.cloud.named("m1") is not None
            await world.client.create(CRD, crd)
            await world.until(lambda s: not s.machines, "it is served again")
            await world.make("m1", providerID=lost.provider_id)
            await world.clock.sleep(3 * CONFIRMATION)
            assert [vm.provider_id for vm in here.cloud.vms.values()] == [lost.provider_id]


async def test_the_node_of_a_vm_that_has_a_machine_again_takes_pods() -> None:
    """Machines are restored from a backup while their VMs are drained."""
    async with stage(options(drain_timeout=600)) as here:
        world, ghost = here.world, await conjure(here, "m1", uid="before")
        key = Key("", ghost.node_name)
        async with here.process():
            await world.clock.sleep(SOON)
            never = {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "web"}}}
            meta = {"name": "keep", "namespace": "default"}
            await world.target.create(PDB, {"metadata": meta, "spec": never})
            await world.run_pod("web", ghost.node_name, labels={"app": "web"})
            await world.clock.sleep(CONFIRMATION + 2)
            assert (await world.target.get(NODE, key)).spec.unschedulable
        labels = {names.NODE_LABEL: ghost.node_name}
        await world.make("m1", labels=labels, providerID=ghost.provider_id)
        async with here.process():
            await world.clock.sleep(2 * SOON)
            node = await world.target.get(NODE, key)
            assert not node.spec.unschedulable
            assert names.ORPHAN_OF_ANNOTATION not in node.metadata.annotations


async def test_such_a_node_takes_pods_also_if_it_said_that_no_machine_manages_it() -> None:
    """What says so is taken off before the next list succeeds, which takes off the cordon."""
    async with stage(options(drain_timeout=600)) as here:
        world, ghost = here.world, await conjure(here, "m1", uid="before")
        async with here.process(driver := Lacking(here.cloud)):
            await hold_up_a_drain(here, ghost)
            await world.note_node(ghost.node_name, {names.NOT_MANAGED_ANNOTATION: "1"})
            driver.fails = True
            labels = {names.NODE_LABEL: ghost.node_name}
            await world.make("m1", labels=labels, providerID=ghost.provider_id)
            await world.clock.sleep(2 * SOON)
            node = await world.target.get(NODE, Key("", ghost.node_name))
            assert names.NOT_MANAGED_ANNOTATION not in node.metadata.annotations
            driver.fails = False
            await world.clock.sleep(PERIOD)
            node = await world.target.get(NODE, Key("", ghost.node_name))
            assert not node.spec.unschedulable
            assert names.ORPHAN_OF_ANNOTATION not in node.metadata.annotations


async def test_no_vm_goes_while_its_cluster_is_not_visible() -> None:
    """Its node may have joined since our watch was lost; its pods would not be drained."""
    async with stage(options(), two=True) as here:
        world, way = here.world, Way(here.target)
        async with replace(here, target=way).process():
            await world.clock.sleep(1)
            way.severed.set()
            ghost = await conjure(here)
            await world.clock.sleep(PERIOD + 10 * CONFIRMATION)
            assert [vm.provider_id for vm in here.cloud.vms.values()] == [ghost.provider_id]
            way.severed.clear()
            await world.until(lambda s: not s.vms, "it is visible again", seconds=600)


async def test_nodes_whose_annotation_is_refused_hold_up_no_other() -> None:
    """A webhook refuses more nodes than a pass writes to."""
    async with stage(options(creation_timeout=30)) as here:
        world, way = here.world, Way(here.target)
        way.refuses = lambda request: request.method == "PATCH" and "/nodes/a-" in request.path
        label = {names.MACHINE_NAME_LABEL: "gone"}
        for name in (*(f"a-{number}" for number in range(WRITES)), "b"):
            await world.target.create(NODE, {"metadata": {"name": name, "labels": label}})
        async with replace(here, target=way).process():
            await world.clock.sleep(2 * PERIOD)
            node = await world.target.get(NODE, Key("", "b"))
            assert node.metadata.annotations == {names.NOT_MANAGED_ANNOTATION: "1"}
