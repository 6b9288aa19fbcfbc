"""Faults of servers, networks and the Leases: outages, partitions, storms, a deposed leader.

Theory.      As in ``incidents``: each function returns when its harm and its late consequences are
             over. The long outages last longer than the product's time-outs (``world.OPTIONS``), and leave it
             time afterwards to act wrongly on what it could not see.
Called by    ``incidents``.
"""

from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from typing import Any

from kubewright.api.core import LEASE
from kubewright.kube.errors import TransportError
from kubewright.wire.errors import ApiError
from kubewright.wire.gvk import Key
from kubewright.wire.http import Request
from simulation.api_servers import SimServer
from simulation.clock import SimClock
from simulation.journal import LEASE_HALVES
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
