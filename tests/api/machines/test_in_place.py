"""Nodes that are updated in place, from their machines' side: selected, drained, ready, and the agent's result.

Another program, or a user, labels the nodes here, as MCM's deployment controller does (INP-05).
"""

from kubewright.api.core import NODE, PDB, POD
from kubewright.api.machine import names
from kubewright.api.machine.names import Phase, UpdateReason
from kubewright.testing.faults import FORBIDDEN, Script
from kubewright.testing.world import World, embedded_world, in_phase, short_timeouts
from kubewright.wire.gvk import Key


async def label(world: World, name: str, **labels: str | None) -> None:
    """Label a node with marks of an update, by the last word of each label's name."""
    wanted = {f"node.machine.sapcloud.io/{key.replace('_', '-')}": value for key, value in labels.items()}
    await world.target.patch(NODE, Key("", name), {"metadata": {"labels": wanted}})


async def progress(world: World, name: str) -> tuple[str, str, bool]:
    """The reason of the node's condition, the machine's phase, and whether the node is cordoned."""
    node, machine = await world.target.get(NODE, Key("", name)), await world.machine(name)
    told = [each.reason for each in node.status.conditions if each.type == "InPlaceUpdate"]
    return (told or [""])[0], machine.status.current_status.phase, node.spec.unschedulable


async def selected(world: World) -> str:
    """A machine of two whose node, with a pod on it, is a candidate first and then selected."""
    await world.deploy("workers", 2)
    name = (await world.settled(2)).machines[0].metadata.name
    await world.run_pod("web", name)
    await label(world, name, candidate_for_update="true")
    await world.clock.sleep(5)
    assert await progress(world, name) == (UpdateReason.CANDIDATE, Phase.RUNNING, False)
    await label(world, name, selected_for_update="true")
    await world.until(in_phase(Phase.IN_PLACE_UPDATING), "its update begins", seconds=120)
    await world.clock.sleep(5)
    return name


async def test_a_selected_node_is_drained_before_its_agent_may_update_it() -> None:
    async with embedded_world(short_timeouts()) as world:
        name = await selected(world)
        assert await progress(world, name) == (UpdateReason.READY, Phase.IN_PLACE_UPDATING, True)
        assert not await world.target.list(POD, fields=f"spec.nodeName={name}")
        await label(world, name, update_result="successful")
        await world.until(lambda sight: sight.settled(2) and name in sight.names, "the machine runs again")
        await world.clock.sleep(5)
        assert await progress(world, name) == (UpdateReason.SUCCESSFUL, Phase.RUNNING, True)
        told = [each.reason for each in (await world.machine(name)).status.conditions]
        assert UpdateReason.SUCCESSFUL in told


async def test_an_update_that_fails_says_why_and_can_be_tried_again() -> None:
    async with embedded_world(short_timeouts()) as world:
        name = await selected(world)
        await world.note_node(name, {names.UPDATE_FAILED_REASON_ANNOTATION: "no space left"})
        await label(world, name, update_result="failed")
        await world.until(in_phase(Phase.IN_PLACE_UPDATE_FAILED), "it failed")
        last = (await world.machine(name)).status.last_operation
        assert last.description == f"Machine {name} failed to update dependencies: no space left"
        assert "FailedInPlaceUpdate" in await world.warnings()
        await label(world, name, update_result=None)
        await world.until(in_phase(Phase.IN_PLACE_UPDATING), "it is tried again")


async def test_a_node_whose_agent_is_silent_is_replaced_in_the_end() -> None:
    async with embedded_world(short_timeouts(in_place_update_timeout=60)) as world:
        name = await selected(world)
        await world.until(in_phase(Phase.IN_PLACE_UPDATE_FAILED), "its time is over", seconds=120)
        await world.until(
            lambda sight: sight.settled(2) and name not in sight.names, "it is replaced", seconds=600
        )


async def test_refused_evictions_are_counted_also_where_the_machines_status_is_refused() -> None:
    script = Script()
    async with embedded_world(short_timeouts(), faults=script) as world:
        await world.make("m1", maxEvictRetries=2)
        await world.settled(1)
        budget = {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}
        await world.target.create(PDB, {"metadata": {"name": "web", "namespace": "default"}, "spec": budget})
        await world.run_pod("web", "m1", labels={"app": "web"})
        script.on(FORBIDDEN, method="PATCH", path="/machines/m1/status", times=None)
        await label(world, "m1", candidate_for_update="true", selected_for_update="true")
        await world.clock.sleep(900)
        assert not await world.target.list(POD, fields="spec.nodeName=m1")
        script.calm()
