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

Blow = Callable[[World, Person, SimClock], Coroutine[Any, Any, None]]

UNREACHABLE_SECONDS = 20.0
SLOW_SECONDS = 20.0
STORM_SECONDS = 4.0
FREEZE_SECONDS = 50.0
STEP_SECONDS = 90.0
TIDY_SECONDS = 70.0


async def strike(world: World, person: Person) -> None:
    """Let each fault happen at its moment."""
    clock = world.clock("fate")
    for moment, word in world.plot.schedule.moments():
        await clock.sleep(max(0.0, world.began + moment - clock.monotonic()))
        world.counts.strike(f"at:{word}")
        world.journal.say("fate", word)
        world.fate.spawn(_WORDS[word](world, person, clock))


async def _kill(world: World, _person: Person, _clock: SimClock) -> None:
    if world.leader is not None:
        world.kill_manager(world.leader)


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


async def _slow_watches(world: World, _person: Person, clock: SimClock) -> None:
    world.slow_until = clock.monotonic() + SLOW_SECONDS


def _storm(word: str) -> Blow:
    async def blow(world: World, _person: Person, clock: SimClock) -> None:
        world.storm, world.storm_until = word, clock.monotonic() + STORM_SECONDS

    return blow


async def _freeze(world: World, _person: Person, clock: SimClock) -> None:
    """The manager that works stands still, for longer than its lease; then it goes on, unaware."""
    process = world.leader
    if process is not None and not process.frozen:
        process.freeze()
        await clock.sleep(FREEZE_SECONDS)
        world.journal.say("fate", f"{process.name} goes on")
        process.thaw()


def _victim(person: Person, clock: SimClock) -> Vm | None:
    return clock.random.choice(person.vms) if person.vms else None


_WORDS: Mapping[str, Blow] = {
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
    "freeze": _freeze,
    "slow-watches": _slow_watches,
    "storm-lose": _storm("lose"),
    "storm-lose-answer": _storm("lose-answer"),
    "storm-error": _storm("error"),
}
