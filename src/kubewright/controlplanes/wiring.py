"""How the controllers of nested control planes are put together, for one term.

Invariants.  A controller that was not chosen is not made, and listens to nothing: another program does its
             work.
Called by    ``controlplanes.world``, which is imported without it: a program that only lists controllers
             wires none.
"""

from collections.abc import Callable, Sequence
from functools import cache
from importlib.resources import files

from kubewright.controlplanes import etcd
from kubewright.controlplanes.component import wiring as components
from kubewright.controlplanes.component.look import ComponentSetup, ConnectToEtcd, Keeper
from kubewright.controlplanes.hosting.contract import EMBEDDED, Hosts
from kubewright.controlplanes.nestedcluster import wiring as nestedcluster
from kubewright.controlplanes.plane import wiring as plane
from kubewright.controlplanes.snapshots import wiring as snapshots
from kubewright.controlplanes.snapshots.act import Stream
from kubewright.controlplanes.templated import wiring as templated
from kubewright.controlplanes.templates import catalog
from kubewright.controlplanes.users import restored
from kubewright.controlplanes.users import wiring as users
from kubewright.controlplanes.users.connection import Connect, by_sockets
from kubewright.runtime.controller import Controller
from kubewright.runtime.world import Environment, Runnables

STABLE = "stable"
"""The default channel where our own API server cannot run; the name is that of upstream."""


def wire(
    environment: Environment,
    chosen: Sequence[str],
    hosts: Hosts,
    keeper: Keeper,
    *,
    connect: Connect | None = None,
    to_etcd: ConnectToEtcd | None = None,
    stream: Stream | None = None,
) -> Runnables:
    """The controllers of these names; what is None is as ``world`` says."""
    connect, stream = connect or by_sockets, stream or etcd.stream
    channel = STABLE if hosts.embedded is None else EMBEDDED
    setup = ComponentSetup(hosts, templates(), channel, keeper, to_etcd or etcd.Members, environment.entitled)
    first: dict[str, Callable[[], Controller]] = {
        plane.CONTROLLER: lambda: plane.wire(environment),
        nestedcluster.CONTROLLER: lambda: nestedcluster.wire(environment),
    }
    others: dict[str, Callable[[], Controller]] = {
        templated.CONTROLLER: lambda: templated.wire(environment),
        snapshots.SNAPSHOTS: lambda: snapshots.wire_snapshots(environment, hosts, stream),
        snapshots.SCHEDULES: lambda: snapshots.wire_schedules(environment),
        users.CONTROLLER: lambda: users.wire(environment, connect),
        restored.CONTROLLER: lambda: restored.wire(environment, connect),
        snapshots.RESTORES: lambda: snapshots.wire_restores(environment, hosts),
    }
    return Runnables(
        [
            *(wired() for name, wired in first.items() if name in chosen),
            *components.wire(environment, setup, chosen),
            *(wired() for name, wired in others.items() if name in chosen),
        ]
    )


@cache
def templates() -> catalog.Catalog:
    """The sets of templates that this package brings; read once."""
    return catalog.read(files("kubewright.controlplanes.templates") / "sets")
