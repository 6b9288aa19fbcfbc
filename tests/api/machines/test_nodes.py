"""What of a machine reaches its node: name, template, taints; and the token that its kubelet joins with."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from kubewright.api.core import NODE, SECRET
from kubewright.api.machine import names
from kubewright.api.machine.names import Phase
from kubewright.api.machine.v1alpha1 import MACHINE, MACHINE_CLASS
from kubewright.driver.contract import Instance, MachineRequest
from kubewright.driver.errors import Code, DriverError, Uninitialized
from kubewright.machines.machine.act import TOKEN_NAMESPACE
from kubewright.providers.sim import manifests
from kubewright.testing.stage import Borrowed, stage
from kubewright.testing.world import World, embedded_world, in_phase, short_timeouts
from kubewright.wire.gvk import Key

TAINT = {"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}


def template(labels: dict[str, str], annotations: dict[str, str], *taints: dict[str, str]) -> dict[str, Any]:
    return {"metadata": {"labels": labels, "annotations": annotations}, "spec": {"taints": list(taints)}}


async def test_a_template_reaches_the_node_and_what_it_drops_is_removed() -> None:
    async with embedded_world(short_timeouts()) as world:
        first = template({"pool": "a", "tier": "1"}, {"owner": "me"}, TAINT)
        await world.make("m1", nodeTemplate=first)
        await world.settled(1)
        others = {"metadata": {"labels": {"theirs": "stays"}, "annotations": {"also": "stays"}}}
        await world.client.patch(NODE, Key("", "m1"), others)
        second = {
            "metadata": {"labels": {"tier": "2", "pool": None}, "annotations": {"owner": None}},
            "spec": None,
        }
        await world.client.patch(MACHINE, world.key("m1"), {"spec": {"nodeTemplate": second}})
        await world.clock.sleep(1)
        node = await world.client.get(NODE, Key("", "m1"))
        assert node.metadata.labels["tier"] == "2"
        assert "pool" not in node.metadata.labels
        assert node.metadata.labels["theirs"] == "stays"
        assert "owner" not in node.metadata.annotations
        assert node.metadata.annotations["also"] == "stays"
        assert not node.spec.taints


UNREADY = {"key": names.INSTANCE_NOT_READY_TAINT, "effect": "NoSchedule"}


class LateToInitialize(Borrowed):
    """A cloud whose VMs boot at once, and whose initialization succeeds at the fourth try."""

    tries = 0

    async def initialize(self, request: MachineRequest) -> Instance:
        self.tries += 1
        if self.tries < 4:
            raise DriverError.of(Code.Uninitialized, "not yet")
        return await super().initialize(request)

    async def status(self, request: MachineRequest) -> Instance:
        found = await super().status(request)
        if self.tries < 4:
            names = {"provider_id": found.provider_id, "node_name": found.node_name}
            raise Uninitialized("not yet", **names)
        return found


async def test_the_taint_of_an_instance_that_is_not_ready_goes_when_its_initialization_is_done() -> None:
    """Its kubelet registers with it before that (NOD-03)."""
    async with stage(short_timeouts()) as here, here.process(driver := LateToInitialize(here.cloud)):
        world = here.world
        more = {"taints": [UNREADY, TAINT]}
        await world.client.create(
            MACHINE_CLASS, manifests.machine_class("tainted", world.namespace, pace=0.1, more=more)
        )
        await world.make("m1", machine_class="tainted")
        await world.until(lambda s: bool(s.nodes), "its kubelet registers")
        while driver.tries < 3:
            [node] = (await world.look()).nodes
            assert [taint.key for taint in node.spec.taints] == [UNREADY["key"], TAINT["key"]]
            await world.clock.sleep(0.1)
        sight = await world.until(in_phase(Phase.RUNNING), "it runs")
        assert [taint.key for taint in sight.nodes[0].spec.taints] == [TAINT["key"]]
        await world.target.patch(NODE, Key("", "m1"), {"spec": {"taints": [UNREADY]}})
        await world.clock.sleep(1)
        assert (await world.look()).nodes[0].spec.taints == (), "also from a kubelet that registers again"


async def test_the_virtual_capacity_of_a_class_reaches_its_nodes_and_leaves_them() -> None:
    async with embedded_world(short_timeouts()) as world:
        await world.make("m1")
        await world.settled(1)

        async def offered(amounts: dict[str, str | None] | None) -> dict[str, str]:
            body = {"nodeTemplate": {"virtualCapacity": amounts}}
            await world.client.patch(MACHINE_CLASS, world.key("small"), body)
            await world.clock.sleep(1)
            node = await world.target.get(NODE, Key("", "m1"))
            known = node.metadata.annotations.get(names.LAST_APPLIED_CAPACITY_ANNOTATION)
            assert known == (json.dumps(wanted, separators=(",", ":")) if (wanted := amounts or {}) else None)
            return {key: str(value) for key, value in node.status.capacity.items() if "/" in key}

        assert await offered({"example.com/a": "3"}) == {"example.com/a": "3"}
        changed = {"example.com/a": "4", "example.com/b": "1"}
        assert await offered({**changed}) == changed
        assert await offered(None) == {}


async def test_a_deployments_node_template_reaches_living_nodes_without_a_rollout() -> None:
    async with embedded_world(short_timeouts()) as world:
        await world.deploy("workers", 2)
        before = await world.settled(2)
        wanted = template({"tier": "gold"}, {}, TAINT)
        await world.change("workers", {"template": {"spec": {"nodeTemplate": wanted}}})
        await world.until(
            lambda s: all(n.metadata.labels.get("tier") == "gold" and n.spec.taints for n in s.nodes),
            "the nodes have it",
        )
        assert (await world.settled(2)).names == before.names


async def test_a_label_that_a_user_took_off_a_node_comes_back() -> None:
    async with embedded_world(short_timeouts()) as world:
        await world.make("m1", nodeTemplate=template({"tier": "gold"}, {}, TAINT))
        await world.settled(1)
        empty = {
            "metadata": {"labels": {"tier": None, names.MACHINE_NAME_LABEL: None}},
            "spec": {"taints": None},
        }
        await world.client.patch(NODE, Key("", "m1"), empty)
        await world.clock.sleep(1)
        node = await world.client.get(NODE, Key("", "m1"))
        assert node.metadata.labels[names.MACHINE_NAME_LABEL] == "m1"
        assert node.metadata.labels["tier"] == "gold"
        assert [taint.key for taint in node.spec.taints] == ["dedicated"]


async def test_a_template_that_no_node_can_have_is_reported_and_holds_up_nothing() -> None:
    async with embedded_world(short_timeouts()) as world:
        await world.make("m1", nodeTemplate=template({"tier": "not a label"}, {}))
        await world.settled(1)
        await world.clock.sleep(2)
        assert "FailedNodeSync" in await world.warnings()


async def test_a_vm_whose_node_would_take_over_an_old_node_object_is_replaced() -> None:
    async with embedded_world(short_timeouts()) as world:
        patch = {"providerSpec": {"nodeNames": "address"}}
        await world.client.patch(MACHINE_CLASS, world.key("small"), patch)
        old = {"metadata": {"name": "ip-10-0-0-1"}, "spec": {"providerID": "sim:///elsewhere/vm-9"}}
        await world.client.create(NODE, old)
        await world.deploy("workers", 1)
        await world.until(lambda s: s.phases == ["Running"], "another VM does it")
        (machine,) = (await world.look()).machines
        assert names.node_name(machine.metadata.labels) == "ip-10-0-0-2"
        assert "MachineFailed" in await world.warnings()
        assert (
            await world.client.get(NODE, Key("", "ip-10-0-0-1"))
        ).spec.provider_id == "sim:///elsewhere/vm-9"


async def test_a_provider_id_that_a_user_changed_is_written_again() -> None:
    async with embedded_world(short_timeouts()) as world:
        await world.make("m1")
        before = (await world.settled(1)).machines[0]
        await world.client.patch(MACHINE, world.key("m1"), {"spec": {"providerID": "sim:///nowhere"}})
        await world.clock.sleep(1)
        after = (await world.settled(1)).machines[0]
        assert after.spec.provider_id == before.spec.provider_id


async def guarded(world: World) -> None:
    """A machine whose kubelet registers with the taint that its node's own components take off."""
    taint = {"key": names.CRITICAL_COMPONENTS_TAINT, "effect": "NoSchedule"}
    body = manifests.machine_class("guarded", world.namespace, pace=0.1, more={"taints": [taint]})
    await world.client.create(MACHINE_CLASS, body)
    await world.make("m1", "guarded")
    await world.until(lambda s: bool(s.nodes), "the node joins")


async def test_critical_components_hold_a_machine_back_until_they_are_ready() -> None:
    async with embedded_world(short_timeouts(creation_timeout=60)) as world:
        await guarded(world)
        await world.clock.sleep(10)
        assert (await world.look()).phases == ["Pending"]
        await world.client.patch(NODE, Key("", "m1"), {"spec": {"taints": None}})
        await world.settled(1)


async def test_critical_components_do_not_hold_back_for_ever() -> None:
    async with embedded_world(short_timeouts(creation_timeout=20)) as world:
        await guarded(world)
        await world.until(in_phase(Phase.FAILED), "it is given up")


async def tokens(world: World) -> list[str]:
    secrets = await world.target.list(SECRET, TOKEN_NAMESPACE)
    return [s.metadata.name for s in secrets if s.metadata.name.startswith("bootstrap-token-")]


class Curious(Borrowed):
    """Remembers the user data that VMs were made with."""

    seen: bytes = b""

    async def create(self, request: MachineRequest) -> Instance:
        self.seen = request.secret.data["userData"]
        return await super().create(request)


async def test_a_token_is_made_handed_to_the_vm_and_dropped(capsys: pytest.CaptureFixture[str]) -> None:
    async with stage(short_timeouts()) as here:
        driver = Curious(here.cloud)
        async with here.process(driver):
            world = here.world
            await world.make("m1")
            await world.until(lambda s: s.vms == 1, "the VM is there")
            (name,) = await tokens(world)
            secret = (await world.client.get(SECRET, Key(TOKEN_NAMESPACE, name))).data
            token = secret["token-id"] + b"." + secret["token-secret"]
            assert token in driver.seen
            assert b"<<" not in driver.seen
            await world.settled(1)
            assert await tokens(world) == []
    assert secret["token-secret"].decode() not in "".join(capsys.readouterr())


class Busy(Borrowed):
    """Refuses to create VMs until it is told that it is no longer busy."""

    busy = True

    async def create(self, request: MachineRequest) -> Instance:
        if self.busy:
            raise DriverError.of(Code.Unavailable, "busy")
        return await super().create(request)


async def test_a_token_is_used_again_by_the_next_try_and_its_end_moves() -> None:
    async with stage(short_timeouts()) as here:
        driver = Busy(here.cloud)
        async with here.process(driver):
            world = here.world
            await world.make("m1")
            await world.until(in_phase(Phase.CRASH_LOOP_BACK_OFF), "it is refused")
            first = await only_token(world)
            await world.clock.sleep(600)
            driver.busy = False
            await world.until(lambda s: s.vms == 1, "the VM is there", seconds=600)
            second = await only_token(world)
    assert second["expiration"] > first["expiration"]
    assert {**second, "expiration": b""} == {**first, "expiration": b""}


async def test_a_token_of_another_machine_is_not_handed_out_or_changed_or_deleted() -> None:
    """Ids are short hashes, so two machines may have one. The second waits until it is replaced."""
    async with stage(short_timeouts()) as here:
        driver = Busy(here.cloud)
        async with here.process(driver):
            world = here.world
            await world.make("m1")
            await world.until(in_phase(Phase.CRASH_LOOP_BACK_OFF), "it is refused")
            (name,) = await tokens(world)
            theirs = {"stringData": {"description": "another machine's"}}
            await world.client.patch(SECRET, Key(TOKEN_NAMESPACE, name), theirs)
            before = await only_token(world)
            driver.busy = False
            await world.clock.sleep(300)
            assert (
                "the bootstrap token of another machine"
                in (await world.machine("m1")).status.last_operation.description
            )
            assert not world.cloud.vms
            assert await only_token(world) == before
            await world.unmake("m1")
            await world.until(lambda s: not s.machines, "it is gone", seconds=300)
            assert await only_token(world) == before


async def only_token(world: World) -> Mapping[str, bytes]:
    (name,) = await tokens(world)
    return (await world.client.get(SECRET, Key(TOKEN_NAMESPACE, name))).data


class Forgetful(Borrowed):
    """Keeps nothing in mind: what it must know with its next call it leaves with the last one."""

    told: tuple[str, ...] = ()

    async def create(self, request: MachineRequest) -> Instance:
        self.told += (request.last_known_state,)
        if not request.last_known_state:
            raise DriverError.of(Code.Unavailable, "busy", last_known_state="disks made")
        return replace(await super().create(request), last_known_state="VM made")

    async def delete(self, request: MachineRequest) -> str | None:
        self.told += (request.last_known_state,)
        if request.last_known_state == "VM made":
            raise DriverError.of(Code.Unavailable, "busy", last_known_state="disks left")
        return await super().delete(request)


async def test_what_a_driver_leaves_comes_back_with_its_next_call() -> None:
    async with stage(short_timeouts()) as here:
        driver = Forgetful(here.cloud)
        async with here.process(driver):
            world = here.world
            await world.make("m1")
            await world.settled(1)
            assert (await world.machine("m1")).status.last_known_state == "VM made"
            await world.unmake("m1")
            await world.until(lambda s: not s.machines, "it is gone")
    assert driver.told == ("", "disks made", "VM made", "disks left")


async def test_the_tokens_of_machines_that_never_joined_go_with_them() -> None:
    never = ("neverjoin-1", "quota-1", "hang-1")
    async with embedded_world(short_timeouts()) as world:
        for name in never:
            await world.make(name)
        await world.clock.sleep(3)
        assert len(await tokens(world)) == 3
        for name in never:
            await world.unmake(name)
        await world.until(lambda s: not s.machines, "they are gone", seconds=300, every=1)
        assert await world.left() == []


async def test_the_token_goes_even_if_its_class_is_gone() -> None:
    async with embedded_world(short_timeouts()) as world:
        await world.make("quota-1")
        await world.until(in_phase(Phase.CRASH_LOOP_BACK_OFF), "it is refused")
        await world.client.delete(MACHINE_CLASS, world.key("small"))
        await world.client.patch(MACHINE_CLASS, world.key("small"), {"metadata": {"finalizers": None}})
        await world.unmake("quota-1")
        await world.until(lambda s: not s.machines, "it is gone")
        assert await world.left() == []
