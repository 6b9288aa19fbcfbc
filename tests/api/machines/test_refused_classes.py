"""Classes that no driver accepts: their machines can be deleted, and rollouts lead away from them."""

from dataclasses import replace
from typing import Any

import pytest

from kubewright.api.core import CRD, NAMESPACE, SECRET
from kubewright.api.kinds import dynamic
from kubewright.api.machine import names
from kubewright.api.machine.names import Phase
from kubewright.api.machine.v1alpha1 import MACHINE, MACHINE_CLASS
from kubewright.providers.sim import manifests
from kubewright.testing.stage import Stage, stage
from kubewright.testing.world import World, embedded_world, in_phase, short_timeouts
from kubewright.wire.errors import NotFound
from kubewright.wire.gvk import Key

REFUSED: dict[str, dict[str, Any]] = {
    "a typo in providerSpec": {"providerSpec": {"regoin": "sim-1"}},
    "a provider without a driver": {"provider": "clowd", "providerSpec": {}},
    "credentials that the cloud does not know": {
        "providerSpec": {
            "faults": [
                {"operation": each, "code": "Unauthenticated", "message": "who are you?"}
                for each in ("create", "delete", "status")
            ]
        }
    },
}


async def refused_class(world: World, changes: dict[str, Any], name: str = "wrong") -> None:
    reference = {"name": "sim-secret", "namespace": world.namespace}
    body = {"metadata": {"name": name, "namespace": world.namespace}, "secretRef": reference, **changes}
    await world.client.create(MACHINE_CLASS, body)


async def accepted(world: World, name: str = "wrong") -> tuple[str, str, str] | None:
    """Status, reason and message of the condition Accepted."""
    found = (await world.client.get(MACHINE_CLASS, world.key(name))).status.conditions
    return next(((each.status, each.reason, each.message) for each in found if each.type == "Accepted"), None)


TOLD = {
    "a typo in providerSpec": ("InvalidArgument", "providerSpec: Object contains unknown field `regoin`"),
    "a provider without a driver": ("InvalidArgument", "class wrong is for provider 'clowd', not 'sim'"),
}


@pytest.mark.parametrize("kind", TOLD)
async def test_the_class_says_so_the_moment_it_is_written(kind: str) -> None:
    async with embedded_world(short_timeouts()) as world:
        await refused_class(world, REFUSED[kind])
        await world.clock.sleep(2)
        assert await accepted(world) == ("False", *TOLD[kind])
        events = [(each.reason, each.type, each.message) for each in await world.events("wrong")]
        assert events == [("FailedValidation", "Warning", TOLD[kind][1])]


async def test_when_the_class_is_mended_it_says_that_too() -> None:
    async with embedded_world(short_timeouts()) as world:
        await refused_class(world, REFUSED["a typo in providerSpec"])
        await world.clock.sleep(1)
        await world.client.patch(MACHINE_CLASS, world.key("wrong"), {"providerSpec": {"regoin": None}})
        await world.clock.sleep(1)
        assert await accepted(world) == ("True", "Accepted", "")


async def test_a_class_that_nothing_ever_spoke_against_is_not_written() -> None:
    async with embedded_world(short_timeouts()) as world:
        before = await world.client.get(MACHINE_CLASS, world.key("small"))
        await world.clock.sleep(5)
        assert await world.client.get(MACHINE_CLASS, world.key("small")) == before
        assert await accepted(world, "small") is None


async def test_a_class_whose_secret_is_missing_says_so_at_once_and_no_more_when_it_is_there() -> None:
    async with embedded_world(short_timeouts()) as world:
        right = {"providerSpec": {}, "secretRef": {"name": "later", "namespace": world.namespace}}
        await refused_class(world, right)
        await world.clock.sleep(1)
        message = 'Secret "machines/later" of MachineClass "wrong" not found'
        assert await accepted(world) == ("Unknown", "SecretMissing", message)
        events = [(each.reason, each.type, each.message) for each in await world.events("wrong")]
        assert events == [("FailedValidation", "Warning", message)]
        await world.client.create(SECRET, {"metadata": {"name": "later", "namespace": world.namespace}})
        await world.clock.sleep(1)
        assert await accepted(world) == ("True", "Accepted", "")


async def test_a_class_whose_secret_comes_later_is_judged_then() -> None:
    async with embedded_world(short_timeouts()) as world:
        later = {"secretRef": {"name": "later", "namespace": "machines"}}
        await refused_class(world, {**REFUSED["a typo in providerSpec"], **later})
        await world.clock.sleep(1)
        assert (await accepted(world))[:2] == ("Unknown", "SecretMissing")
        await world.client.create(SECRET, {"metadata": {"name": "later", "namespace": world.namespace}})
        await world.clock.sleep(1)
        assert await accepted(world) == ("False", *TOLD["a typo in providerSpec"])


async def test_a_class_that_was_refused_says_that_its_secret_is_gone() -> None:
    async with embedded_world(short_timeouts()) as world:
        secret = {"metadata": {"name": "later", "namespace": world.namespace}}
        reference = {"secretRef": {"name": "later", "namespace": world.namespace}}
        await world.client.create(SECRET, secret)
        await refused_class(world, {**REFUSED["a typo in providerSpec"], **reference})
        await world.clock.sleep(1)
        assert await accepted(world) == ("False", *TOLD["a typo in providerSpec"])
        await world.client.patch(SECRET, world.key("later"), {"metadata": {"finalizers": None}})
        await world.client.delete(SECRET, world.key("later"))
        await world.clock.sleep(1)
        status, reason, message = await accepted(world)
        assert (status, reason) == ("Unknown", "SecretMissing")
        assert "later" in message
        await world.client.create(SECRET, secret)
        await world.clock.sleep(1)
        assert await accepted(world) == ("False", *TOLD["a typo in providerSpec"])


async def test_where_the_server_has_upstreams_class_an_event_says_it() -> None:
    async with embedded_world(short_timeouts()) as world:
        name = Key("", "machineclasses.machine.sapcloud.io")
        versions = (await world.client.get(dynamic(CRD.resource), name))["spec"]["versions"]
        upstream = [{each: part for each, part in one.items() if each != "subresources"} for one in versions]
        await world.client.patch(CRD, name, {"spec": {"versions": upstream}})
        await world.clock.sleep(1)
        await refused_class(world, REFUSED["a typo in providerSpec"])
        await world.clock.sleep(2)
        assert await accepted(world) is None
        assert [each.reason for each in await world.events("wrong")] == ["FailedValidation"]


async def test_a_machine_whose_name_is_too_long_for_its_nodes_label_gets_no_vm() -> None:
    async with embedded_world(short_timeouts(), admission=()) as world:
        await world.make("m" * 64)
        await world.until(in_phase(Phase.CRASH_LOOP_BACK_OFF), "it is refused")
        told = (await world.machine("m" * 64)).status.last_operation.description
        assert told.startswith("metadata.name: Invalid value:")
        await world.make("m" * 63)
        await world.until(in_phase(Phase.RUNNING), "the other one runs")
        await world.unmake("m" * 64)
        await world.settled(1)


async def exists(world: World, name: str) -> bool:
    try:
        await world.client.get(MACHINE_CLASS, world.key(name))
    except NotFound:
        return False
    return True


@pytest.mark.parametrize("changes", REFUSED.values(), ids=REFUSED)
async def test_its_machines_can_be_deleted_and_then_the_class_itself(changes: dict[str, Any]) -> None:
    async with embedded_world(short_timeouts()) as world:
        await refused_class(world, changes)
        await world.make("m1", "wrong")
        await world.until(in_phase(Phase.CRASH_LOOP_BACK_OFF), "the driver refuses it")
        await world.client.delete(MACHINE_CLASS, world.key("wrong"))
        await world.unmake("m1")
        await world.until(lambda s: not s.machines, "it goes", seconds=10)
        await world.clock.sleep(1)
        assert not await exists(world, "wrong")
        assert await world.left() == []


@pytest.mark.parametrize("changes", REFUSED.values(), ids=REFUSED)
async def test_a_rollout_leads_away_from_it(changes: dict[str, Any]) -> None:
    async with embedded_world(short_timeouts()) as world:
        await refused_class(world, changes)
        strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}
        await world.deploy("pool", 3, "wrong", strategy=strategy)
        await world.until(lambda s: s.phases == [Phase.CRASH_LOOP_BACK_OFF] * 3, "the driver refuses them")
        await world.roll("pool", "small")
        await world.settled(3, "small", seconds=30)


async def test_the_namespace_of_such_machines_can_be_deleted() -> None:
    async with embedded_world(short_timeouts()) as world:
        await refused_class(world, REFUSED["a typo in providerSpec"])
        await world.deploy("pool", 2, "wrong")
        await world.until(lambda s: s.phases == [Phase.CRASH_LOOP_BACK_OFF] * 2, "the driver refuses them")
        await world.client.delete(NAMESPACE, Key("", world.namespace))
        await world.until(lambda s: not s.machines, "they go", seconds=30)


async def forced(world: World, name: str) -> None:
    label = {"metadata": {"labels": {names.FORCE_DELETION_LABEL: "True"}}}
    await world.client.patch(MACHINE, world.key(name), label)


async def refused_before_a_restart(found: Stage) -> None:
    """A machine in deletion of which the process before may have made a VM, and a driver that refuses."""
    world = found.world
    await refused_class(world, REFUSED["a typo in providerSpec"])
    async with found.process():
        await world.make("m1", "wrong")
        await world.until(in_phase(Phase.CRASH_LOOP_BACK_OFF), "the driver refuses it")
    await world.unmake("m1")


async def test_after_a_restart_a_user_decides_about_a_vm_of_which_nothing_is_known() -> None:
    async with stage(short_timeouts()) as found:
        await refused_before_a_restart(found)
        world = found.world
        async with found.process():
            await world.until(in_phase(Phase.TERMINATING), "it waits for the driver")
            told = (await world.machine("m1")).status.last_operation
            assert f"label the machine {names.FORCE_DELETION_LABEL}=True" in told.description
            await forced(world, "m1")
            await world.until(lambda s: not s.machines, "it goes", seconds=10)
            await world.clock.sleep(2)
            assert "VMLeftBehind" in await world.warnings()


async def test_or_mends_the_class() -> None:
    async with stage(short_timeouts()) as found:
        await refused_before_a_restart(found)
        world = found.world
        async with found.process():
            await world.until(in_phase(Phase.TERMINATING), "it waits for the driver")
            mended = {"providerSpec": {"regoin": None}}
            await world.client.patch(MACHINE_CLASS, world.key("wrong"), mended)
            await world.until(lambda s: not s.machines, "it goes", seconds=10)


async def test_a_rollout_does_not_wait_for_machines_in_deletion_that_only_a_user_can_end() -> None:
    async with stage(short_timeouts()) as found:
        world = found.world
        await refused_class(world, REFUSED["a typo in providerSpec"])
        async with found.process():
            strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}
            await world.deploy("pool", 3, "wrong", strategy=strategy)
            await world.until(lambda s: s.phases == [Phase.CRASH_LOOP_BACK_OFF] * 3, "they are refused")
        async with found.process():
            await world.roll("pool", "small")
            await world.until(
                lambda s: s.phases.count(Phase.RUNNING) == 3, "the new machines come", seconds=120
            )


async def test_a_new_machine_whose_secret_is_missing_can_be_deleted_at_once() -> None:
    async with embedded_world(short_timeouts()) as world:
        await refused_class(world, {"providerSpec": {}})
        await world.client.delete(SECRET, world.key("sim-secret"))
        await world.client.patch(SECRET, world.key("sim-secret"), {"metadata": {"finalizers": None}})
        await world.make("m1", "wrong")
        await world.until(in_phase(Phase.CRASH_LOOP_BACK_OFF), "its Secret is missing")
        await world.unmake("m1")
        await world.until(lambda s: not s.machines, "it goes", seconds=10)
        assert "VMLeftBehind" not in await world.warnings()


async def test_where_the_table_of_codes_rules_a_creation_over_quota_waits_for_a_change_of_its_class() -> None:
    options = short_timeouts(creation_timeout=86400, resource_exhausted_retry=2)
    options = replace(options, machine=replace(options.machine, retry_all_errors=False))
    async with embedded_world(options) as world:
        full = [{"operation": "create", "code": "ResourceExhausted", "message": "no more", "times": 1}]
        body = manifests.machine_class("full", world.namespace, pace=0.1, more={"faults": full})
        await world.client.create(MACHINE_CLASS, body)
        await world.make("m1", "full")
        await world.clock.sleep(30)
        [machine] = (await world.look()).machines
        assert machine.status.last_operation.error_code == "ResourceExhausted"
        mended = {"providerSpec": {"faults": None}}
        await world.client.patch(MACHINE_CLASS, world.key("full"), mended)
        await world.settled(1, seconds=20)


async def test_where_the_table_of_codes_rules_a_mark_on_the_secret_has_a_creation_tried_again() -> None:
    options = short_timeouts(creation_timeout=86400)
    options = replace(options, machine=replace(options.machine, retry_all_errors=False))
    async with embedded_world(options) as world:
        full = [{"operation": "create", "code": "ResourceExhausted", "message": "no more", "times": 1}]
        body = manifests.machine_class("full", world.namespace, pace=0.1, more={"faults": full})
        await world.client.create(MACHINE_CLASS, body)
        await world.make("m1", "full")
        await world.clock.sleep(30)
        mark = {"metadata": {"annotations": {"retried": "now"}}}
        await world.client.patch(MACHINE_CLASS, world.key("full"), mark)
        await world.clock.sleep(30)
        assert not world.cloud.vms
        await world.client.patch(SECRET, world.key(manifests.SECRET_NAME), mark)
        await world.settled(1, seconds=20)
