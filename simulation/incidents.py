"""Faults of the world as a whole: the ``at``, ``write`` and ``await`` faults of a schedule.

Theory.      A fault is a function that does harm and returns when the harm and its late consequences are
             over; until then the run does not check whether the world is at rest. A fault begins at a moment,
             or between two steps of a manager: then a kill is done right there, since a task of its own would
             run too late. Here are the faults of managers, machines and the cloud; those of servers, networks
             and Leases follow: outages, partitions, storms, a deposed leader. The long ones last longer than
             the product's time-outs (``world.OPTIONS``), and leave it time afterwards to act wrongly on what
             it could not see.
Called by    ``run``, when the story begins.
"""

from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from kubewright.api.core import LEASE
from kubewright.api.machine import names
from kubewright.kube.errors import TransportError
from kubewright.providers.sim.vm import STOP_KUBELET, Vm
from kubewright.wire.errors import ApiError
from kubewright.wire.gvk import Key
from kubewright.wire.http import Request
from simulation.journal import LEASE_HALVES, NODES
from simulation.loop import Process, SimClock
from simulation.network import SimServer
from simulation.person import Person
from simulation.tally import INTRUDER
from simulation.world import World

Incident = Callable[[World, Person, SimClock], Coroutine[Any, Any, None]]

UNREACHABLE_SECONDS = 20.0
OUTAGE_SECONDS = 150.0
"""Longer than a node may be silent, and than the health time-out."""
TARGET_OUTAGE_SECONDS = 400.0
"""Longer than the creation time-out."""
AFTERMATH_SECONDS = 130.0
"""From the end of an outage until everything that it could have triggered would have happened."""
PARTITION_SECONDS = 40.0
"""Longer than a Lease lasts."""
RENEWALS_LOST_SECONDS = 45.0
SLOW_SECONDS = 20.0
SILENT_SECONDS = 12.0
"""Longer than any action of a user in a story takes."""
STORM_SECONDS = 4.0

LEASE_KEYS = tuple(Key(*lease.split("/")) for lease in LEASE_HALVES)


async def _restart_server(world: World, _person: Person, _clock: SimClock) -> None:
    await world.control.restart()


async def _restart_target(world: World, _person: Person, _clock: SimClock) -> None:
    await world.target.restart()


async def _cut_all(world: World, _person: Person, _clock: SimClock) -> None:
    for cluster in world.clusters:
        cluster.host.cut()


async def _unreachable(world: World, _person: Person, clock: SimClock) -> None:
    await _vanish(world.control, clock, UNREACHABLE_SECONDS)


async def _target_unreachable(world: World, _person: Person, clock: SimClock) -> None:
    """Where nodes have a cluster of their own, it is away for a while, and the machines' cluster is not."""
    await _vanish(world.target, clock, UNREACHABLE_SECONDS)


async def _outage(world: World, _person: Person, clock: SimClock) -> None:
    await _vanish(world.control, clock, OUTAGE_SECONDS)
    await clock.sleep(AFTERMATH_SECONDS)


async def _target_outage(world: World, _person: Person, clock: SimClock) -> None:
    """No kubelet reaches its server, and no manager sees a node, for very long."""
    await _vanish(world.target, clock, TARGET_OUTAGE_SECONDS)
    await clock.sleep(AFTERMATH_SECONDS)


async def _vanish(cluster: SimServer, clock: SimClock, seconds: float) -> None:
    cluster.host.refuse()
    await clock.sleep(seconds)
    cluster.host.admit()


async def _partition(world: World, _person: Person, clock: SimClock) -> None:
    """The manager that works reaches no API server and gets no error; it still reaches the cloud."""
    if (process := world.managers.one_that_works()) is not None:
        world.injector.cut_off(process.name, PARTITION_SECONDS)
        await clock.sleep(PARTITION_SECONDS)


async def _silent_watches(world: World, _person: Person, clock: SimClock) -> None:
    """Watches are silent, and then the server loses the history of the events that they did not send."""
    world.injector.silence_watches(SILENT_SECONDS)
    await clock.sleep(SILENT_SECONDS)
    for cluster in world.clusters:
        cluster.host.expire(world.managers.living)


async def _slow_watches(world: World, _person: Person, clock: SimClock) -> None:
    world.injector.slow(SLOW_SECONDS)
    await clock.sleep(SLOW_SECONDS)


def _storm(word: str) -> Incident:
    async def storm(world: World, _person: Person, clock: SimClock) -> None:
        world.injector.fail_requests(word, STORM_SECONDS)
        await clock.sleep(STORM_SECONDS)

    return storm


async def _storm_conflict(world: World, _person: Person, clock: SimClock) -> None:
    """Every other write meets a conflict."""
    world.injector.fail_requests("conflict", STORM_SECONDS, aim=lambda _client, asked: asked.method != "GET")
    await clock.sleep(STORM_SECONDS)


async def _lease_deleted(world: World, _person: Person, clock: SimClock) -> None:
    """The Lease of one half, as in all that follow: the other half must go on."""
    with suppress(ApiError, TransportError):
        await world.client.delete(LEASE, clock.random.choice(LEASE_KEYS))


async def _lease_cleared(world: World, _person: Person, clock: SimClock) -> None:
    """A user asks the leader to step down; another must not lead before the leader can know."""
    await _rewrite(world, clock, None)


async def _lease_stolen(world: World, _person: Person, clock: SimClock) -> None:
    """A holder that does not exist takes the Lease from a leader that lives and is connected."""
    await _rewrite(world, clock, f"{INTRUDER}_by-hand")


async def _rewrite(world: World, clock: SimClock, holder: str | None) -> None:
    with suppress(ApiError, TransportError):
        key = clock.random.choice(LEASE_KEYS)
        await world.client.patch(LEASE, key, {"spec": {"holderIdentity": holder}})


async def _renewals_lost(world: World, _person: Person, clock: SimClock) -> None:
    """A leader reaches everything, but cannot renew one Lease: another manager takes it in the end."""
    lease, half = clock.random.choice(tuple(LEASE_HALVES.items()))
    process = world.managers.leader(half)
    name, place = process.name if process is not None else "", f"/leases/{Key(*lease.split('/')).name}"

    def renews(client: str, asked: Request) -> bool:
        return client == name and asked.method != "GET" and asked.path.endswith(("/leases", place))

    world.injector.fail_requests("lose", RENEWALS_LOST_SECONDS, share=1.0, aim=renews)
    await clock.sleep(RENEWALS_LOST_SECONDS)


OUTAGES: Mapping[str, Incident] = {
    "restart-server": _restart_server,
    "restart-target": _restart_target,
    "cut-all": _cut_all,
    "unreachable": _unreachable,
    "target-unreachable": _target_unreachable,
    "outage": _outage,
    "target-outage": _target_outage,
    "partition": _partition,
    "slow-watches": _slow_watches,
    "silent-watches": _silent_watches,
    "storm-lose": _storm("lose"),
    "storm-lose-answer": _storm("lose-answer"),
    "storm-error": _storm("error"),
    "storm-throttle": _storm("throttle"),
    "storm-conflict": _storm_conflict,
    "lease-deleted": _lease_deleted,
    "lease-cleared": _lease_cleared,
    "lease-stolen": _lease_stolen,
    "renewals-lost": _renewals_lost,
}
"""By their words in ``schedule.AT``."""


FREEZE_SECONDS = 50.0
"""Longer than a Lease lasts."""
SLOW_PROCESS_SECONDS = 20.0
PAUSE_SECONDS, RUN_SECONDS = (1.0, 3.0), (0.1, 1.0)
"""A slow process stands still for so long, then runs for so long, and again."""
STEP_SECONDS = 90.0
LEAP_SECONDS = 3600.0
LEAP_LASTS_SECONDS = 300.0
TIDY_SECONDS = 70.0
TIDY_LATE_SECONDS = 900.0
NO_CAPACITY_SECONDS = 40.0
CLOUD_DOWN_SECONDS = 30.0
LAGGING_SECONDS = 20.0


def begin(world: World, person: Person) -> None:
    """The story begins: let each fault happen at its moment, after its write, before its step."""
    schedule, clock = world.plot.schedule, world.clock("fate")

    def inject(word: str) -> None:
        world.counts.note_fault(f"at:{word}")
        world.journal.say("world", word)
        if word == "kill":
            world.managers.kill_leader()
        else:
            world.faults.spawn(WORDS[word](world, person, clock))

    world.faults.spawn(_inject_in_time(world, clock, inject))
    for number, word in schedule.at("await").items():
        world.managers.before_step(int(number), partial(inject, word))
    writes = schedule.at("write")

    def after_write() -> None:
        if word := writes.pop(world.counts.writes, ""):
            inject(word)

    if writes:
        world.tally.on_write.append(after_write)
    if world.plot.stale:
        Process(world.loop, "cloud controller").spawn(_tidy(world, person, world.clock("tidy")))


async def _inject_in_time(world: World, clock: SimClock, inject: Callable[[str], None]) -> None:
    for moment, word in world.plot.schedule.moments():
        await clock.sleep(max(0.0, world.began + moment - clock.monotonic()))
        inject(word)


async def _tidy(world: World, person: Person, clock: SimClock) -> None:
    """What a cloud's own controller manager does, only much later: Nodes go whose VM does not exist.

    The managers cannot know of a Node that no list has shown while it had a machine. They must have annotated
    it as one without a machine.
    """
    while True:
        await clock.sleep(TIDY_LATE_SECONDS)
        there = {vm.node_name for vm in world.journal.vms.values()}
        for name, node in tuple(world.journal.objects[NODES].items()):
            if name not in there and names.NOT_MANAGED_ANNOTATION in node["metadata"].get("annotations", {}):
                await person.delete_node(name)


async def _kill(world: World, _person: Person, _clock: SimClock) -> None:
    world.managers.kill_leader()


async def _freeze(world: World, _person: Person, clock: SimClock) -> None:
    """The manager that works stands still, for longer than its Lease; then it goes on and cannot know it."""
    process = world.managers.one_that_works()
    if process is not None and not process.frozen:
        process.freeze()
        await clock.sleep(FREEZE_SECONDS)
        world.journal.say("world", f"{process.name} goes on")
        process.thaw()


async def _slow_process(world: World, _person: Person, clock: SimClock) -> None:
    """The manager that works gets CPU time only now and then."""
    process, until = world.managers.one_that_works(), clock.monotonic() + SLOW_PROCESS_SECONDS
    while process is not None and not process.frozen and clock.monotonic() < until:
        process.freeze()
        await clock.sleep(clock.random.uniform(*PAUSE_SECONDS))
        process.thaw()
        await clock.sleep(clock.random.uniform(*RUN_SECONDS))


async def _clock_ahead(world: World, _person: Person, _clock: SimClock) -> None:
    world.managers.step_clocks(STEP_SECONDS)


async def _clock_behind(world: World, _person: Person, _clock: SimClock) -> None:
    world.managers.step_clocks(-STEP_SECONDS)


async def _clock_leap(world: World, _person: Person, clock: SimClock) -> None:
    """All clocks of managers are an hour wrong, for some minutes."""
    world.managers.step_clocks(LEAP_SECONDS)
    await clock.sleep(LEAP_LASTS_SECONDS)
    world.journal.say("world", "the clocks are right again")
    world.managers.step_clocks(-LEAP_SECONDS)


async def _clock_skew(world: World, _person: Person, clock: SimClock) -> None:
    """The clock of one manager is wrong for good, and those of the others are not."""
    process = clock.random.choice(world.managers.living) if world.managers.living else None
    if process is not None:
        world.managers.skew_clock(process, clock.random.choice((STEP_SECONDS, -STEP_SECONDS)))


async def _vm_dies(world: World, person: Person, clock: SimClock) -> None:
    if vm := _victim(person, clock):
        world.cloud.kill(vm.id)


async def _kubelet_stops(world: World, person: Person, clock: SimClock) -> None:
    if vm := _victim(person, clock):
        world.cloud.order(vm.id, {*vm.orders, STOP_KUBELET})


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


async def _no_capacity(world: World, _person: Person, clock: SimClock) -> None:
    """The cloud refuses new VMs for a while."""
    world.injector.fail_calls("quota", NO_CAPACITY_SECONDS, "create")
    await clock.sleep(NO_CAPACITY_SECONDS)


async def _cloud_down(world: World, _person: Person, clock: SimClock) -> None:
    """No driver call reaches the cloud for a while."""
    world.injector.fail_calls("fail", CLOUD_DOWN_SECONDS)
    await clock.sleep(CLOUD_DOWN_SECONDS)


async def _lagging_cloud(world: World, _person: Person, clock: SimClock) -> None:
    """For a while the cloud's lists and looks are those of some seconds ago."""
    world.injector.fail_calls("stale", LAGGING_SECONDS, "status", "list")
    await clock.sleep(LAGGING_SECONDS)


def _victim(person: Person, clock: SimClock) -> Vm | None:
    return clock.random.choice(person.vms) if person.vms else None


WORDS: Mapping[str, Incident] = {
    **OUTAGES,
    "kill": _kill,
    "freeze": _freeze,
    "slow-process": _slow_process,
    "clock-ahead": _clock_ahead,
    "clock-behind": _clock_behind,
    "clock-leap": _clock_leap,
    "clock-skew": _clock_skew,
    "vm-dies": _vm_dies,
    "kubelet-stops": _kubelet_stops,
    "vm-vanishes": _vm_vanishes,
    "node-deleted": _node_deleted,
    "no-capacity": _no_capacity,
    "cloud-down": _cloud_down,
    "lagging-cloud": _lagging_cloud,
}
"""The function of each word in ``schedule.AT``."""
