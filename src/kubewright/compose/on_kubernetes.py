"""``run``: the controllers against real API servers.

Theory.      Connect, check the clusters (``preflight``), elect a leader for each half if the options say
             so, serve webhooks if they say so, work until told to stop. When an API server cannot be reached
             later, each half gives up its Lease, and is a candidate for it again. With the simulated cloud
             this process hosts the control planes of its machines, as ``up`` does (``own_planes``).
Called by    ``cli.run``; ``testing`` for the suites on a real Kubernetes.
"""

import asyncio
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, fields, is_dataclass
from datetime import timedelta
from enum import Enum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import structlog

from kubewright.base.clock import Clock
from kubewright.base.durations import format_duration
from kubewright.base.errors import InvalidInput, single
from kubewright.clusters.sessions import by_sockets
from kubewright.compose.assembly import Assembly, close
from kubewright.compose.folder import private_folder, snapshots_folder
from kubewright.compose.options import DATA_DIR, Election, Options
from kubewright.compose.preflight import Endpoint, Intent, Preflight
from kubewright.compose.webhooks import Webhooks, webhooks_of
from kubewright.compose.worlds import chosen, idle, kinds, leases, makes_vms
from kubewright.controlplanes.hosting.contract import Hosts
from kubewright.driver import registry
from kubewright.driver.contract import Driver
from kubewright.kube import config
from kubewright.kube.client import Client
from kubewright.kube.transport import Nowhere
from kubewright.machines.world import Half
from kubewright.runtime.health import Check, HealthServer, Profiles
from kubewright.runtime.leader import identity
from kubewright.runtime.manager import Manager, Settings
from kubewright.runtime.metrics import Metered, Metrics
from kubewright.runtime.world import Environment

if TYPE_CHECKING:
    from kubewright.compose.own_planes import OwnPlanes

NAME = "kubewright"
HIDDEN = "<hidden>"


def configuration(options: Options, election: Election) -> Mapping[str, Any]:
    """Names as in ``Options`` and ``Election``; durations as Go writes them."""
    shown = plain(options)
    shown["driver_options"] = dict.fromkeys(sorted(options.driver_options), HIDDEN)
    return {NAME: {**shown, "election": plain(election)}}


def plain(value: Any) -> Any:
    """A value of the options as JSON has it."""
    match value:
        case timedelta():
            return format_duration(value)
        case Enum():
            return value.value
        case Path():
            return str(value)
        case Mapping():
            return {str(key): plain(each) for key, each in value.items()}
        case tuple() | list() | frozenset():
            return [plain(each) for each in value]
        case _ if is_dataclass(value):
            return {each.name: plain(getattr(value, each.name)) for each in fields(value)}
    return value


SIMULATED = "sim"
"""The driver of the simulated cloud."""

log = structlog.get_logger("kubewright.compose")


AT_WORK_SECONDS = 7200.0
"""A file on its way to or from a store is not as old as this: taking and restoring have shorter deadlines."""

IN_CLUSTER = "inClusterConfig"
"""What MCM's users write in place of a kubeconfig for the cluster of our own pod."""

NO_TARGET = Path("none")
"""As MCM's ``--target-kubeconfig``: VMs join no cluster."""


@dataclass(frozen=True, slots=True)
class Clusters:
    """Kubeconfigs of the two clusters.

    ``control`` None: ``$KUBECONFIG``, else the pod we run in, else ``~/.kube/config``. ``target`` None: the
    control cluster is the target cluster too, unless the options say that there is none.
    """

    control: Path | None = None
    target: Path | None = None


async def run_on(
    clusters: Clusters, options: Options, election: Election, clock: Clock, stop: asyncio.Event
) -> None:
    """Run until ``stop`` is set.

    Raises:
        InvalidInput: a kubeconfig, driver or controller that does not exist or cannot be used.
        LostLease: a Lease was lost, and the options say to end then.
    """
    metrics = Metrics()
    driver = load_driver(options, clock)
    own = own_planes(driver, options, clock)
    async with AsyncExitStack() as stack:
        if own is not None:
            stack.push_async_callback(own.close)
        control = reach(clusters.control, "--kubeconfig", clock, "control", metrics)
        stack.push_async_callback(control.client.close)
        target = control
        if not options.machine.joins:
            log.info("there is no target cluster: machines are Available when their VMs exist")
            target = Endpoint(
                Client(Nowhere(clock), clock, name="target"), "no cluster", "--target-kubeconfig"
            )
        elif clusters.target is not None:
            target = reach(clusters.target, "--target-kubeconfig", clock, "target", metrics)
            stack.push_async_callback(target.client.close)
        preflight = Preflight(control, target, intent(options, election))
        await run_with(
            control.client,
            target.client,
            driver,
            options,
            election=election,
            stop=stop,
            metrics=metrics,
            preflight=preflight,
            own=own,
        )


def intent(options: Options, election: Election) -> Intent:
    """What ``preflight`` must know of the options."""
    return Intent(
        kinds(options),
        namespace=next(iter(options.namespaces.named), ""),
        machines=options.machine.joins and Half.MACHINES in leases(chosen(options)),
        simulated=options.machine.joins and makes_vms(options) and options.driver == SIMULATED,
        allowed=options.simulate,
        elects=election.enabled,
        idle=idle(options),
        chosen=options.controllers,
    )


def load_driver(options: Options, clock: Clock) -> Driver | None:
    """The driver that the options name; None where no VMs are made.

    The driver option ``dataDir`` is the folder that it may write to.

    Raises:
        InvalidInput: no driver is named where one is needed, none of that name is installed, or the driver
            refuses its options.
    """
    if not makes_vms(options):
        return None
    if not options.driver:
        known = ", ".join(registry.names())
        raise InvalidInput(f"which cloud? Name its driver with --driver NAME; installed: {known}")
    folder = _data_folder(options)
    if folder is None and options.driver == SIMULATED:
        log.warning("the simulated cloud is in memory and ends with this process", keep=f"{DATA_DIR}=DIR")
    own = {name: value for name, value in options.driver_options.items() if name != DATA_DIR}
    return registry.load(options.driver, registry.Settings(clock, folder, own))


def own_planes(driver: Driver | None, options: Options, clock: Clock) -> "OwnPlanes | None":
    """The control planes of a simulated cloud, in its folder; None for any other driver."""
    if driver is None or options.driver != SIMULATED:
        return None
    from kubewright.compose.own_planes import OwnPlanes  # an API server: only where one is served

    own = OwnPlanes(clock, _data_folder(options), listens=True, grace=options.grace)
    own.join_others_as_processes()
    return own


def _data_folder(options: Options) -> Path | None:
    """The folder that the driver option ``dataDir`` names.

    Raises:
        InvalidInput: it cannot be made.
    """
    named = options.driver_options.get(DATA_DIR)
    return None if named is None else private_folder(Path(named))


async def run_with(
    control: Client,
    target: Client,
    driver: Driver | None,
    options: Options,
    *,
    election: Election,
    stop: asyncio.Event,
    metrics: Metrics | None = None,
    preflight: Preflight | None = None,
    own: "OwnPlanes | None" = None,
) -> None:
    """Like ``run_on``, with clients and a driver of the caller; closes the driver, not the clients.

    ``own`` are control planes that this process hosts; the caller closes them.

    With ``preflight`` no controller starts before it passes, and Python's garbage collector is tuned for a
    process that does nothing else.
    """
    try:
        settings = Settings(tune_gc=preflight is not None)
        hosts = partial(_hosts, options, _snapshots(options, control.clock), own)
        cloud = driver if own is None or driver is None else own.under(driver)
        connect = by_sockets if own is None else own.connect()
        assembly = Assembly(
            control, target, cloud, options, metrics or Metrics(), connect=connect, hosts=hosts
        )
        groups = assembly.groups(election, identity(socket.gethostname(), control.clock), settings)
        webhooks = webhooks_of(control, options, election.namespace, assembly.metrics, driver)
        services = [*assembly.services, *([webhooks.run] if webhooks else ())]
        manager = Manager(assembly.informers, groups, services=services, driver_of=assembly.driver_of)
        ready = _checks(manager, preflight, webhooks)
        async with _served(_health(manager, assembly, ready, options, election)):
            if preflight is None or await preflight.passed(stop):
                await manager.run(stop)
    finally:
        await close(driver)


def _hosts(
    options: Options, snapshots: Path | None, own: "OwnPlanes | None", environment: Environment
) -> Hosts:
    """Programs of nested control planes run in pods of the control cluster; those of version ``embedded`` in
    this process, if it hosts control planes."""
    from kubewright.controlplanes.hosting.pods.host import PodHosting  # only where planes are run

    pods = PodHosting(environment.control.caches, restore_image=options.restore_image)
    return Hosts(None if own is None else own.nested, programs=pods, snapshots=snapshots)


def _snapshots(options: Options, clock: Clock) -> Path | None:
    """The folder for snapshots. Replicas share it, so what another one may be at work with stays."""
    if options.snapshot_folder is None:
        return None
    return snapshots_folder(options.snapshot_folder, clock.now().timestamp() - AT_WORK_SECONDS)


def reach(path: Path | None, switch: str, clock: Clock, name: str, metrics: Metrics) -> Endpoint:
    """The cluster of a kubeconfig, with its address and the switch that names it, for messages.

    Raises:
        InvalidInput: there is no such kubeconfig, or something in it is wrong.
    """
    own = path is not None and str(path) == IN_CLUSTER
    transport = config.in_cluster(clock=clock) if own else config.load(path, clock=clock)
    client = Client(Metered(transport, metrics, name), clock, name=name)
    return Endpoint(client, transport.access.server, switch)


def _checks(manager: Manager, preflight: Preflight | None, webhooks: Webhooks | None) -> Mapping[str, Check]:
    """What ``/readyz`` asks."""

    def not_ready() -> str:
        return (preflight.trouble if preflight is not None else "") or manager.not_ready()

    return {"manager": not_ready, **({"webhooks": webhooks.keeper.not_ready} if webhooks else {})}


def _health(
    manager: Manager, assembly: Assembly, ready: Mapping[str, Check], options: Options, election: Election
) -> HealthServer | None:
    if options.health_port is None:
        return None
    return HealthServer(
        host=options.health_host,
        port=options.health_port,
        ready=ready,
        metrics=assembly.metrics,
        status=manager.status,
        configuration=partial(configuration, options, election),
        plans=manager.plans,
        profiles=Profiles(assembly.clock) if options.profiling else None,
    )


@asynccontextmanager
async def _served(health: HealthServer | None) -> AsyncIterator[None]:
    """Serve health from before the first request to the clusters until the last controller has ended."""
    if health is None:
        yield
        return
    try:
        async with asyncio.TaskGroup() as group:
            serving = group.create_task(health.run(), name="health")
            yield
            serving.cancel()
    except BaseExceptionGroup as errors:
        raise single(errors) from None
