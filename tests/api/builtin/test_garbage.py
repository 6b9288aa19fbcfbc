"""Garbage collection against the embedded server."""

import asyncio
import random
from contextlib import suppress

import pytest

from kubewright.api.core import CRD, NODE
from kubewright.api.kinds import dynamic
from kubewright.compose.plane_controllers import has_work
from kubewright.wire.errors import NotFound
from kubewright.wire.gvk import Resource

CONFIG_MAPS, CRDS, NODES = (
    dynamic(Resource("", "v1", "configmaps", "ConfigMap")),
    dynamic(CRD.resource),
    dynamic(NODE.resource),
)
WIDGETS = dynamic(Resource("example.org", "v1", "widgets", "Widget"))
SETTLED = 12.0
"""Virtual seconds after which everything that is going to happen has happened."""


def widget_crd():
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "metadata": {"name": "widgets.example.org"},
        "spec": {
            "group": "example.org",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
            "versions": [
                {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
            ],
        },
    }


async def test_dependents_follow_their_owner_down_the_line(run):
    a = await run.config_map("a")
    b = await run.config_map("b", a)
    await run.config_map("c", b)
    await run.config_map("other")
    await run.delete(CONFIG_MAPS, "a")
    await run.gone(CONFIG_MAPS, "a", "b", "c", seconds=2)
    assert await run.get(CONFIG_MAPS, "other")


async def test_a_dependent_whose_owner_never_was_goes(run):
    ghost = {"metadata": {"name": "ghost", "uid": "0000"}}
    await run.config_map("b", ghost)
    await run.gone(CONFIG_MAPS, "b")


async def test_an_owner_of_the_same_name_is_not_the_owner(run):
    a = await run.config_map("a")
    await run.config_map("b", a, finalizers=["example.org/hold"])
    await run.delete(CONFIG_MAPS, "a")
    await run.config_map("a")
    await run.config_map("c", a)
    await run.gone(CONFIG_MAPS, "c")
    assert (await run.get(CONFIG_MAPS, "b"))["metadata"]["deletionTimestamp"]
    assert await run.get(CONFIG_MAPS, "a")


async def test_one_living_owner_is_enough_and_the_dead_one_is_forgotten(run):
    a, b = await run.config_map("a"), await run.config_map("b")
    await run.config_map("c", a, b)
    await run.delete(CONFIG_MAPS, "a")
    await asyncio.sleep(SETTLED)
    kept = await run.get(CONFIG_MAPS, "c")
    assert [ref["name"] for ref in kept["metadata"]["ownerReferences"]] == ["b"]
    await run.delete(CONFIG_MAPS, "b")
    await run.gone(CONFIG_MAPS, "c")


async def test_foreground_deletion_takes_the_dependents_first(run):
    a = await run.config_map("a")
    b = await run.config_map("b", a)
    await run.config_map("c", b, finalizers=["example.org/hold"])
    await run.delete(CONFIG_MAPS, "a", propagation="Foreground")
    await asyncio.sleep(SETTLED)
    assert await run.names(CONFIG_MAPS) >= {"a", "b", "c"}
    await run.patch(CONFIG_MAPS, "c", {"metadata": {"finalizers": None}})
    await run.gone(CONFIG_MAPS, "a", "b", "c", seconds=3)


async def test_foreground_deletion_does_not_wait_for_those_that_do_not_block(run):
    a = await run.config_map("a")
    await run.config_map("b", a, blocks=False, finalizers=["example.org/hold"])
    await run.delete(CONFIG_MAPS, "a", propagation="Foreground")
    await run.gone(CONFIG_MAPS, "a", seconds=3)
    assert (await run.get(CONFIG_MAPS, "b"))["metadata"]["deletionTimestamp"]


async def test_a_circle_deleted_in_the_foreground_ends(run):
    a = await run.config_map("a")
    b = await run.config_map("b", a)
    await run.patch(CONFIG_MAPS, "a", {"metadata": {"ownerReferences": [run.owner_reference(b)]}})
    await run.delete(CONFIG_MAPS, "a", propagation="Foreground")
    await run.gone(CONFIG_MAPS, "a", "b")


async def test_orphans_survive_without_their_owner(run):
    a = await run.config_map("a")
    for name in ("b", "c"):
        await run.config_map(name, a)
    await run.delete(CONFIG_MAPS, "a", propagation="Orphan")
    await run.gone(CONFIG_MAPS, "a", seconds=3)
    await asyncio.sleep(SETTLED)
    for name in ("b", "c"):
        assert "ownerReferences" not in (await run.get(CONFIG_MAPS, name))["metadata"]


async def test_an_impossible_reference_protects(run):
    a = await run.config_map("a")
    await run.create(NODES, "n", metadata={"ownerReferences": [run.owner_reference(a)]})
    await run.delete(CONFIG_MAPS, "a")
    await asyncio.sleep(SETTLED)
    assert await run.get(NODES, "n")


async def test_an_owner_of_a_kind_that_is_not_served_protects_until_it_is(run):
    ghost = {"apiVersion": "example.org/v1", "kind": "Widget", "metadata": {"name": "w", "uid": "0000"}}
    await run.config_map("b", ghost)
    await asyncio.sleep(SETTLED)
    assert await run.get(CONFIG_MAPS, "b")
    await run.user.create(CRDS, widget_crd())
    await run.gone(CONFIG_MAPS, "b")


async def test_kinds_that_come_later_own_and_are_owned(run):
    await run.user.create(CRDS, widget_crd())
    await asyncio.sleep(3)
    widget = await run.create(WIDGETS, "w")
    await run.config_map("b", widget)
    await run.create(WIDGETS, "v", metadata={"ownerReferences": [run.owner_reference(widget)]})
    await asyncio.sleep(SETTLED)
    assert await run.names(WIDGETS) == {"v", "w"}
    await run.delete(WIDGETS, "w")
    await run.gone(WIDGETS, "v", "w", seconds=3)
    await run.gone(CONFIG_MAPS, "b", seconds=3)


async def test_a_kind_that_goes_does_not_disturb_the_others(run):
    await run.user.create(CRDS, widget_crd())
    await asyncio.sleep(3)
    a = await run.config_map("a")
    await run.create(WIDGETS, "w", metadata={"ownerReferences": [run.owner_reference(a)]})
    await run.delete(CRDS, "widgets.example.org")
    await asyncio.sleep(SETTLED)
    await run.config_map("b", a)
    await run.delete(CONFIG_MAPS, "a")
    await run.gone(CONFIG_MAPS, "b")


async def test_dependents_of_an_owner_that_was_deleted_while_no_collector_ran(world):
    a = await world.config_map("a")
    await world.config_map("b", a)
    await world.delete(CONFIG_MAPS, "a")
    async with world.controlled():
        await world.gone(CONFIG_MAPS, "b")


async def test_at_rest_and_while_hundreds_are_made_nothing_is_asked(run):
    await asyncio.sleep(SETTLED)
    run.requests.take()
    owner = await run.config_map("owner")
    for number in range(300):
        await run.config_map(f"m{number}", owner)
    await asyncio.sleep(600)
    assert run.requests.take() == {}


async def test_each_dependent_of_a_dead_owner_costs_one_request(run):
    owner = await run.config_map("owner")
    for number in range(50):
        await run.config_map(f"m{number}", owner)
    await asyncio.sleep(SETTLED)
    run.requests.take()
    await run.delete(CONFIG_MAPS, "owner")
    await asyncio.sleep(SETTLED)
    asked = run.requests.take()
    assert {method for method, _ in asked} == {"DELETE"}
    assert sum(asked.values()) == 50


@pytest.mark.parametrize("trouble", [0.0, 0.3], ids=["a server that works", "a server that often fails"])
@pytest.mark.parametrize("seed", range(2))
async def test_random_families_end_as_the_rules_say(run, seed, trouble):
    """A dependent with an owner left stays; one that had owners and has none left is deleted."""
    chance = random.Random(seed)
    settled = 120.0 if trouble else SETTLED
    run.requests.trouble = trouble
    made = {}
    for number in range(40):
        owners = chance.sample(sorted(made), min(len(made), chance.choice([0, 1, 1, 1, 2])))
        name = f"m{number}"
        made[name] = (await run.config_map(name, *(made[each][0] for each in owners)), owners)
        if chance.random() < 0.3:
            await asyncio.sleep(chance.uniform(0, 2))
    alive, free = set(made), set()
    for name in chance.sample(sorted(made), 12):
        if name not in await run.names(CONFIG_MAPS):
            continue
        how = chance.choice(["Background", "Foreground", "Orphan"])
        await run.delete(CONFIG_MAPS, name, propagation=how)
        await asyncio.sleep(settled)
        alive.discard(name)
        if how == "Orphan":
            for child, (_, owners) in made.items():
                if name in owners:
                    owners.remove(name)
                    free |= {child} if not owners else set()
        _collect(made, alive, free)
        assert await run.names(CONFIG_MAPS) & set(made) == alive, f"after {how} of {name}"


@pytest.mark.parametrize("seed", range(3))
async def test_whatever_comes_together_no_dependent_with_an_owner_is_deleted(run, seed):
    """Makes and deletes without a pause, through an unreliable wire; then judges what is left."""
    chance, made, deleted = random.Random(seed), {}, set()
    run.requests.trouble = 0.1
    for number in range(80):
        if made and chance.random() < 0.25:
            name = chance.choice(sorted(made))
            how = chance.choice(["Background", "Foreground", "Orphan"])
            deleted.add(name)
            with suppress(NotFound):
                await run.delete(CONFIG_MAPS, name, propagation=how)
        else:
            owners = chance.sample(sorted(made), min(len(made), chance.choice([0, 1, 1, 2])))
            made[f"m{number}"] = await run.config_map(f"m{number}", *(made[each] for each in owners))
        await asyncio.sleep(chance.choice([0, 0, 0, 0.01, 1, 4]))
    await asyncio.sleep(200)

    left = {
        each["metadata"]["name"]: each["metadata"] for each in await run.user.list(CONFIG_MAPS, "default")
    }
    uids = {each["uid"] for each in left.values()}
    for name, obj in made.items():
        owners = {ref["uid"] for ref in obj["metadata"].get("ownerReferences", ())}
        if name not in deleted and (not owners or owners & uids):
            assert name in left, f"{name} had a living owner, or none, and died"
    for name in left.keys() & made.keys():
        assert "deletionTimestamp" not in left[name], f"{name} hangs"
        owners = {ref["uid"] for ref in left[name].get("ownerReferences", ())}
        assert not owners or owners & uids, f"{name} has no living owner and lives"


def _collect(made, alive, free):
    """What the rules say: to a fixed point, drop whom no living owner keeps; the others forget the dead."""
    while lost := {
        name for name in alive if name not in free and made[name][1] and not alive.intersection(made[name][1])
    }:
        alive -= lost
    for name in alive:
        owners = made[name][1]
        owners[:] = [owner for owner in owners if owner in alive]


async def test_a_deletion_in_the_foreground_that_was_begun_before_is_work(world):
    await world.config_map("owner")
    assert not await has_work(world.user)
    await world.delete(CONFIG_MAPS, "owner", propagation="Foreground")
    assert await has_work(world.user)
