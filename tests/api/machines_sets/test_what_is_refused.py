"""What sets and deployments may not do, or cannot do yet, is said; everything else goes on."""

from typing import TYPE_CHECKING, Any

from kubewright.api.core import EVENT
from kubewright.api.machine import names
from kubewright.api.machine.v1alpha1 import MACHINE, MACHINE_DEPLOYMENT, MACHINE_SET
from kubewright.wire.gvk import Key

if TYPE_CHECKING:
    from tests.api.machines_sets.conftest import World
else:
    World = Any

NS = "default"


def said(obj: Any, kind: str) -> tuple[str, str]:
    found = getattr(obj.status, "conditions", None) or getattr(obj.status, "machine_set_condition", ())
    return next(((c.status, c.reason) for c in found if c.type == kind), ("", ""))


async def sources(world: World) -> dict[str, set[str]]:
    """By reason, who the events come from."""
    await world.clock.sleep(5)
    found: dict[str, set[str]] = {}
    for event in await world.client.list(EVENT, NS):
        found.setdefault(event.reason, set()).add(event.source.component)
    return found


async def freeze(world: World, value: str | None = names.TRUE) -> Key:
    """Label the only set."""
    (only,) = await world.sets()
    key = Key(NS, only.name)
    await world.client.patch(MACHINE_SET, key, {"metadata": {"labels": {names.FREEZE_LABEL: value}}})
    return key


async def test_a_frozen_set_says_so_and_its_deployment_too(world: World) -> None:
    await world.deploy(replicas=2)
    await world.settle(2)
    await freeze(world)
    await world.clock.sleep(5)
    (frozen,) = await world.sets()
    assert said(frozen, "Frozen") == said(await world.deployment(), "Frozen") == ("True", "FreezeLabel")
    for told in (frozen.status.machine_set_condition, (await world.deployment()).status.conditions):
        (why,) = (each for each in told if each.type == "Frozen")
        assert 'No machine is made while the label "freeze"' in why.message
        assert why.last_transition_time is not None, "why, and since when"
    assert frozen.status.observed_generation == frozen.metadata.generation
    await freeze(world, None)
    await world.clock.sleep(5)
    (free,) = await world.sets()
    assert said(free, "Frozen") == said(await world.deployment(), "Frozen") == ("", "")
    told = [message for reason, message in await world.events() if "froze" in reason.lower()]
    assert len(told) == 2, "once each"
    assert (await sources(world))["FrozeMachineSet"] == {"machine-controller-manager"}


async def test_a_set_frozen_for_a_reason_keeps_it(world: World) -> None:
    await world.deploy(replicas=2)
    await world.settle(2)
    key = await freeze(world)
    reason = {"type": "Frozen", "status": "True", "reason": "Inventory", "message": "many"}
    body = {"status": {"machineSetCondition": [reason]}}
    await world.client.patch(MACHINE_SET, key, body, subresource="status")
    await world.clock.sleep(5)
    (frozen,) = await world.sets()
    assert said(frozen, "Frozen") == ("True", "Inventory")
    assert said(await world.deployment(), "Frozen") == ("True", "Inventory")


async def overshooting(world: World) -> None:
    """A pool of three whose machines do not go: the fourth that is deleted is not replaced."""
    world.machines.clinging = lambda _machine: True
    await world.deploy(replicas=3)
    await world.settle(3)
    for _ in range(4):
        victim = world.running()[0]
        await world.client.delete(MACHINE, Key(NS, victim.name))
        await world.clock.sleep(5)


async def test_a_set_with_too_many_machines_is_frozen_until_some_are_gone(world: World) -> None:
    await overshooting(world)
    (only,) = await world.sets()
    found = await world.deployment()
    assert (len(world.all()), len(world.running())) == (6, 2)
    assert only.metadata.labels[names.FREEZE_LABEL] == found.metadata.labels[names.FREEZE_LABEL] == "True"
    assert said(only, "Frozen") == said(found, "Frozen") == ("True", "OverShootingReplicaCount")
    told = f"The number of machines backing MachineSet: {only.name} is 6 >= 6 which is the Max-ScaleUp-Limit"
    assert [c.message for c in only.status.machine_set_condition if c.type == "Frozen"] == [told]
    world.machines.clinging = lambda _machine: False
    await world.settle(3)
    (free,) = await world.sets()
    assert said(free, "Frozen") == said(await world.deployment(), "Frozen") == ("", "")
    for each in (free, await world.deployment()):
        assert names.FREEZE_LABEL not in each.metadata.labels
    events = [message for _, message in await world.events()]
    assert f"SafetyController: Froze MachineSet {only.name} due to replica overshooting" in events
    assert f"SafetyController: Unfroze MachineSet {only.name}" in events


async def test_a_user_unfreezes_the_sets_of_a_deployment_by_an_annotation(world: World) -> None:
    await overshooting(world)
    body = {"metadata": {"annotations": {names.UNFREEZE_ANNOTATION: "true"}}}
    await world.client.patch(MACHINE_DEPLOYMENT, Key(NS, "md"), body)
    await world.until(lambda: len(world.running()) == 3)
    await world.clock.sleep(10)
    (only,) = await world.sets()
    found = await world.deployment()
    assert len(world.all()) == 7
    for each in (only, found):
        assert names.FREEZE_LABEL not in each.metadata.labels
        assert names.UNFREEZE_ANNOTATION not in each.metadata.annotations
        assert said(each, "Frozen") == ("", "")


async def test_a_set_that_is_scaled_down_while_machines_cling_is_not_frozen(world: World) -> None:
    await world.deploy(replicas=9)
    await world.settle(9)
    world.machines.clinging = lambda _machine: True
    await world.change({"replicas": 1})
    await world.clock.sleep(90)
    (only,) = await world.sets()
    assert (len(world.all()), said(only, "Frozen")) == (9, ("", ""))


async def test_a_controller_that_dies_in_the_middle_of_a_freeze_leaves_none_behind(world: World) -> None:
    await overshooting(world)
    world.machines.clinging = lambda _machine: False
    for _ in range(6):
        await world.clock.sleep(0.4)
        await world.restart()
    await world.settle(3)
    (free,) = await world.sets()
    assert (said(free, "Frozen"), names.FREEZE_LABEL in free.metadata.labels) == (("", ""), False)


async def test_events_come_from_who_the_original_says(world: World) -> None:
    await world.deploy(replicas=2)
    await world.settle(2)
    await world.change({"replicas": 1})
    await world.settle(1)
    found = await sources(world)
    assert found["SuccessfulCreate"] == found["SuccessfulDelete"] == {"machineset-controller"}
    assert found["ScalingMachineSet"] == {"machine-controller-manager"}


async def test_a_generation_is_observed_only_when_a_pass_over_it_has_succeeded(world: World) -> None:
    await world.deploy(replicas=2)
    await world.settle(2)
    good = await world.deployment()
    (only,) = await world.sets()
    key, set_key = Key(NS, good.name), Key(NS, only.name)
    wrong = {"spec": {"selector": {"matchLabels": {"no": "machine"}}}}
    await world.client.patch(MACHINE_DEPLOYMENT, key, wrong)
    await world.client.patch(MACHINE_SET, set_key, wrong)
    await world.clock.sleep(30)
    bad, (bad_set,) = await world.deployment(), await world.sets()
    assert bad.metadata.generation > bad.status.observed_generation == good.metadata.generation
    assert bad_set.metadata.generation > bad_set.status.observed_generation == only.metadata.generation
    for kind, where, before in ((MACHINE_DEPLOYMENT, key, good), (MACHINE_SET, set_key, only)):
        labels = {"no": None, **before.spec.selector.match_labels}
        await world.client.patch(kind, where, {"spec": {"selector": {"matchLabels": labels}}})
    await world.clock.sleep(30)
    mended, (mended_set,) = await world.deployment(), await world.sets()
    assert mended.status.observed_generation == mended.metadata.generation
    assert mended_set.status.observed_generation == mended_set.metadata.generation


async def test_a_set_and_a_deployment_without_replicas_are_those_with_none(world: World) -> None:
    """As in MCM, whose field is no pointer: what is not given cannot be told from 0."""
    await world.deploy(replicas=2)
    await world.settle(2)
    key = Key(NS, (await world.deployment()).name)
    await world.client.patch(MACHINE_DEPLOYMENT, key, {"spec": {"replicas": None}})
    await world.settle(0)
