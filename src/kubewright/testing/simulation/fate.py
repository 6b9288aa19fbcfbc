"""What befalls the world as a whole, at its moments: the ``at`` faults of a schedule.

Called by    ``run``, when the story begins.
"""

from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from kubewright.providers.sim.vm import Vm
from kubewright.testing.simulation.clock import SimClock
from kubewright.testing.simulation.journal import NODES
from kubewright.testing.simulation.person import Person
from kubewright.testing.simulation.world import World

UNREACHABLE_SECONDS = 20.0
BLIND_SECONDS = 6.0
"""How long a second manager works beside the first."""
STEP_SECONDS = 90.0
TIDY_SECONDS = 70.0


async def strike(world: World, person: Person) -> None:
    """Let each fault happen at its moment."""
    clock = world.clock("fate")
    for moment, word in sorted(world.plot.schedule.at("at").items()):
        await clock.sleep(max(0.0, world.began + moment - clock.monotonic()))
        world.counts.strike(f"at:{word}")
        world.journal.say("fate", word)
        world.fate.spawn(_WORDS[word](world, person, clock))


async def _kill(world: World, _person: Person, _clock: SimClock) -> None:
    for process in tuple(world.managers):
        world.kill_manager(process)


async def _restart_server(world: World, _person: Person, _clock: SimClock) -> None:
    await world.restart_server()


async def _cut_all(world: World, _person: Person, _clock: SimClock) -> None:
    world.host.cut()


async def _unreachable(world: World, _person: Person, clock: SimClock) -> None:
    world.host.reachable = False
    world.host.cut()
    await clock.sleep(UNREACHABLE_SECONDS)
    world.host.reachable = True


async def _vm_dies(world: World, person: Person, clock: SimClock) -> None:
    if vm := _victim(person, clock):
        world.cloud.kill(vm.id)


async def _kubelet_stops(world: World, person: Person, clock: SimClock) -> None:
    if vm := _victim(person, clock):
        world.cloud.stop_kubelet(vm.id)


async def _vm_vanishes(world: World, person: Person, clock: SimClock) -> None:
    """Gone without a trace; a real cloud's controller manager takes its Node away some time later."""
    if vm := _victim(person, clock):
        world.cloud.vanish(vm.id)
        await clock.sleep(TIDY_SECONDS)
        node = world.journal.objects[NODES].get(vm.node_name)
        if node is not None and node["spec"].get("providerID") == vm.provider_id:
            await person.delete_node(vm.node_name)


async def _node_deleted(_world: World, person: Person, clock: SimClock) -> None:
    if vm := _victim(person, clock):
        await person.delete_node(vm.node_name)


async def _clock_ahead(world: World, _person: Person, _clock: SimClock) -> None:
    world.step_clocks(STEP_SECONDS)


async def _clock_behind(world: World, _person: Person, _clock: SimClock) -> None:
    world.step_clocks(-STEP_SECONDS)


async def _second_manager(world: World, _person: Person, clock: SimClock) -> None:
    process = world.start_manager()
    await clock.sleep(BLIND_SECONDS)
    world.kill_manager(process, again=False)


def _victim(person: Person, clock: SimClock) -> Vm | None:
    return clock.random.choice(person.vms) if person.vms else None


_WORDS: Mapping[str, Callable[[World, Person, SimClock], Coroutine[Any, Any, None]]] = {
    "kill": _kill,
    "restart-server": _restart_server,
    "cut-all": _cut_all,
    "unreachable": _unreachable,
    "vm-dies": _vm_dies,
    "kubelet-stops": _kubelet_stops,
    "vm-vanishes": _vm_vanishes,
    "node-deleted": _node_deleted,
    "clock-ahead": _clock_ahead,
    "clock-behind": _clock_behind,
    "second-manager": _second_manager,
}
