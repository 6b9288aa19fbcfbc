"""``run``: the controllers against real API servers.

Theory.      Connect, wait until the servers answer and the CRDs are installed (saying so), elect a
             leader if asked to, work until told to stop. What goes wrong on the way is waited out;
             what a person must mend is said in one sentence.
Called by    ``cli.run``; ``testing`` for the suites on a real Kubernetes.
"""

import asyncio
import os
import socket
from dataclasses import dataclass
from pathlib import Path

from kubewright.base.clock import Clock
from kubewright.compose.kit import Kit, close, machine_kit
from kubewright.compose.options import Election, Options
from kubewright.driver import registry
from kubewright.driver.contract import Driver
from kubewright.kube import config
from kubewright.kube.client import Client
from kubewright.runtime.health import HealthServer
from kubewright.runtime.leader import Elector
from kubewright.runtime.manager import Manager, Settings
from kubewright.wire.gvk import Key


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
    control = connect(clusters.control, clock, "control")
    try:
        target = control if clusters.target is None else connect(clusters.target, clock, "target")
        try:
            await run_with(
                control, target, load_driver(options, clock), options, election=election, stop=stop
            )
        finally:
            if target is not control:
                await target.transport.close()
    finally:
        await control.transport.close()


def load_driver(options: Options, clock: Clock) -> Driver:
    """The driver that the options name.

    Raises:
        InvalidInput: there is none, or its own options are wrong.
    """
    return registry.load(options.driver, registry.Settings(clock, None, options.driver_options))


async def run_with(
    control: Client,
    target: Client,
    driver: Driver,
    options: Options,
    *,
    election: Election,
    stop: asyncio.Event,
) -> None:
    """The same with clients and a driver that exist already; the clients stay open."""
    clock = control.clock
    try:
        kit = machine_kit(control, target, driver, clock, options)
        manager = Manager(
            clock,
            kit.controllers,
            kit.informers,
            background=kit.background,
            services=kit.services,
            elector=_elector(control, clock, election),
            settings=Settings(tune_gc=True),
        )
        if options.health_port is not None:
            kit.services.append(_health(manager, kit, options.health_port).run)
        await manager.run(stop)
    finally:
        await close(driver)


def connect(path: Path | None, clock: Clock, name: str) -> Client:
    """A client of the cluster that a kubeconfig names; None means the usual places, or our own pod."""
    return Client(config.load(path, clock=clock), clock, name=name)


def _elector(control: Client, clock: Clock, election: Election) -> Elector | None:
    if not election.enabled:
        return None
    identity = f"{socket.gethostname()}_{os.getpid()}"
    return Elector(
        control, clock, Key(election.namespace, election.name), identity=identity, timings=election.timings
    )


def _health(manager: Manager, kit: Kit, port: int) -> HealthServer:
    return HealthServer(port=port, ready={"manager": manager.not_ready}, metrics=kit.metrics)
