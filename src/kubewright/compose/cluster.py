"""``run``: the controllers against real API servers.

Theory.      Connect, wait until the servers answer and the CRDs are installed (saying so), elect a
             leader if asked to, work until told to stop. What goes wrong on the way is waited out;
             what a person must mend is said in one sentence.
Called by    ``cli.run``; ``testing`` for the suites on a real Kubernetes.
"""

import asyncio
import socket
from dataclasses import dataclass
from pathlib import Path

import structlog

from kubewright.base.clock import Clock
from kubewright.compose.folder import private_folder
from kubewright.compose.halves import elected, together
from kubewright.compose.kit import Kit, close
from kubewright.compose.options import Election, Options
from kubewright.driver import registry
from kubewright.driver.contract import Driver
from kubewright.kube import config
from kubewright.kube.client import Client
from kubewright.runtime.group import Settings
from kubewright.runtime.health import HealthServer
from kubewright.runtime.leader import identity
from kubewright.runtime.manager import Manager
from kubewright.runtime.metered import Metered
from kubewright.runtime.metrics import Metrics

DATA_DIR = "dataDir"
"""The one option that every driver has."""

log = structlog.get_logger("kubewright.compose")


@dataclass(frozen=True, slots=True)
class Clusters:
    """Kubeconfigs of the control and the target cluster. None: in-cluster, and the control cluster."""

    control: Path | None = None
    target: Path | None = None


async def run_on(
    clusters: Clusters, options: Options, election: Election, clock: Clock, stop: asyncio.Event
) -> None:
    """Run until ``stop`` is set.

    Raises:
        InvalidInput: a kubeconfig, driver or controller that does not exist or cannot be used.
        LostLease: another replica leads now.
    """
    metrics = Metrics()
    driver = load_driver(options, clock)
    control = connect(clusters.control, clock, "control", metrics)
    try:
        target = control if clusters.target is None else connect(clusters.target, clock, "target", metrics)
        try:
            await run_with(
                control,
                target,
                driver,
                options,
                election=election,
                stop=stop,
                metrics=metrics,
                tune_gc=True,
            )
        finally:
            if target is not control:
                await target.transport.close()
    finally:
        await control.transport.close()


def load_driver(options: Options, clock: Clock) -> Driver:
    """The driver that the options name; its option ``dataDir`` is the folder that it may write to.

    Raises:
        InvalidInput: there is none, or its own options are wrong.
    """
    own = dict(options.driver_options)
    folder = private_folder(Path(own.pop(DATA_DIR))) if DATA_DIR in own else None
    if folder is None and options.driver == "sim":
        log.warning("the simulated cloud is in memory and ends with this process", keep=f"{DATA_DIR}=DIR")
    return registry.load(options.driver, registry.Settings(clock, folder, own))


async def run_with(
    control: Client,
    target: Client,
    driver: Driver,
    options: Options,
    *,
    election: Election,
    stop: asyncio.Event,
    metrics: Metrics | None = None,
    tune_gc: bool = False,
) -> None:
    """The same with clients and a driver that exist already; the clients stay open.

    ``tune_gc`` changes the garbage collector of the whole process: for processes that do nothing else.
    """
    try:
        kit, settings = Kit(control, target, driver, options, metrics or Metrics()), Settings(tune_gc=tune_gc)
        if election.enabled:
            who = identity(socket.gethostname(), control.clock)
            groups = elected(kit, control, election, who, settings)
        else:
            groups = together(kit, settings)
        manager = Manager(control.clock, (), kit.informers, services=kit.services, groups=groups)
        if options.health_port is not None:
            kit.services.append(_health(manager, kit, options).run)
        await manager.run(stop)
    finally:
        await close(driver)


def connect(path: Path | None, clock: Clock, name: str, metrics: Metrics | None = None) -> Client:
    """A client of the cluster that a kubeconfig names; None means the usual places, or our own pod.

    Raises:
        InvalidInput: there is no such kubeconfig, or something in it is wrong.
    """
    transport = config.load(path, clock=clock)
    return Client(transport if metrics is None else Metered(transport, metrics, name), clock, name=name)


def _health(manager: Manager, kit: Kit, options: Options) -> HealthServer:
    ready = {"manager": manager.not_ready}
    host, port = options.health_host, options.health_port or 0
    return HealthServer(host=host, port=port, ready=ready, metrics=kit.metrics, status=manager.status)
