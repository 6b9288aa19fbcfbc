"""The world of nested control planes: lists its controllers and wires them.

Theory.      All controllers work under the Lease of Cluster API Provider Nested, so this program and that
             provider never work on the same objects at once. Each controller can be left out by name, where
             another program does its work.
Invariants.  The hosts are looked up anew for each term of leadership, because a host that runs pods uses the
             informers of that term. The host inside this process outlives terms.
Source       S3-17, S3-34.
Called by    ``compose.worlds``.
"""

from collections.abc import Callable, Sequence
from functools import cache
from importlib.resources import files

from kubewright.api.cluster.names import WATCH_FILTER_LABEL
from kubewright.api.controlplane.manifests import crds
from kubewright.api.controlplane.names import LEASE
from kubewright.api.controlplane.snapshots import (
    CONTROL_PLANE_RESTORE,
    CONTROL_PLANE_SNAPSHOT,
    CONTROL_PLANE_SNAPSHOT_SCHEDULE,
)
from kubewright.api.controlplane.v1alpha4 import (
    CONTROL_PLANE_USER,
    NESTED_API_SERVER,
    NESTED_CLUSTER,
    NESTED_CONTROL_PLANE,
    NESTED_CONTROL_PLANE_TEMPLATE,
    NESTED_CONTROLLER_MANAGER,
    NESTED_ETCD,
)
from kubewright.controlplanes import etcd
from kubewright.controlplanes.component import wiring
from kubewright.controlplanes.component.look import ComponentSetup, ConnectToEtcd, Keeper
from kubewright.controlplanes.etcd import Members
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
from kubewright.runtime.world import ControllerInfo, Environment, Runnables, World

STABLE = "stable"
"""The default channel where our own API server cannot run; the name is that of upstream."""

CONTROLLERS = (
    ControllerInfo(
        plane.CONTROLLER,
        "NestedControlPlane",
        LEASE,
        "owns the components of a nested control plane, and reports and deletes them as one",
    ),
    ControllerInfo(
        nestedcluster.CONTROLLER,
        "NestedCluster",
        LEASE,
        "lets machines of a Cluster begin when its nested control plane is ready",
    ),
    ControllerInfo(
        "nestedetcd", "NestedEtcd", LEASE, "runs the etcd of a nested control plane, one member after another"
    ),
    ControllerInfo(
        "nestedapiserver", "NestedAPIServer", LEASE, "runs the API server of a nested control plane"
    ),
    ControllerInfo(
        "nestedcontrollermanager",
        "NestedControllerManager",
        LEASE,
        "runs the controller manager of a nested control plane",
    ),
    ControllerInfo(
        templated.CONTROLLER,
        "NestedControlPlane",
        LEASE,
        "makes the components of a nested control plane that names a template",
    ),
    ControllerInfo(
        snapshots.SNAPSHOTS,
        "ControlPlaneSnapshot",
        LEASE,
        "copies the data of a nested control plane into a file",
    ),
    ControllerInfo(
        snapshots.SCHEDULES,
        "ControlPlaneSnapshotSchedule",
        LEASE,
        "creates snapshots at their times, and deletes those beyond a number",
    ),
    ControllerInfo(
        users.CONTROLLER,
        "ControlPlaneUser",
        LEASE,
        "keeps a kubeconfig for each user of a nested control plane",
    ),
    ControllerInfo(
        restored.CONTROLLER,
        "NestedControlPlane",
        LEASE,
        "deletes what a restore has brought back of users that were deleted",
    ),
    ControllerInfo(
        snapshots.RESTORES,
        "ControlPlaneRestore",
        LEASE,
        "puts a snapshot in the place of the data of a nested control plane",
    ),
)

WORLD_KINDS = (
    NESTED_CONTROL_PLANE,
    NESTED_ETCD,
    NESTED_API_SERVER,
    NESTED_CONTROLLER_MANAGER,
    NESTED_CONTROL_PLANE_TEMPLATE,
    NESTED_CLUSTER,
    CONTROL_PLANE_SNAPSHOT,
    CONTROL_PLANE_SNAPSHOT_SCHEDULE,
    CONTROL_PLANE_RESTORE,
    CONTROL_PLANE_USER,
)

FindHosts = Callable[[Environment], Hosts]
"""The hosts of one term."""


def no_hosts(_environment: Environment) -> Hosts:
    """No hosts: for a program that only reports that it cannot run components."""
    return Hosts()


def world(
    find_hosts: FindHosts,
    keeper: Callable[[Environment], Keeper],
    connect: Connect = by_sockets,
    to_etcd: ConnectToEtcd = Members,
    stream: Stream = etcd.stream,
) -> World:
    """This world. ``find_hosts`` says where components run; ``keeper`` makes and renews their certificates.
    ``connect`` makes the transports to control planes, ``to_etcd`` the clients of members of an etcd, and
    ``stream`` copies the data of one into a file.

    A component that names neither version nor channel runs inside this process where that is possible.
    """

    def wire(environment: Environment, chosen: Sequence[str]) -> Runnables:
        hosts = find_hosts(environment)
        channel = STABLE if hosts.embedded is None else EMBEDDED
        setup = ComponentSetup(
            hosts, templates(), channel, keeper(environment), to_etcd, environment.entitled
        )
        made = []
        if plane.CONTROLLER in chosen:
            made.append(plane.wire(environment))
        if nestedcluster.CONTROLLER in chosen:
            made.append(nestedcluster.wire(environment))
        made += wiring.wire(environment, setup, chosen)
        others: dict[str, Callable[[], Controller]] = {
            templated.CONTROLLER: lambda: templated.wire(environment),
            snapshots.SNAPSHOTS: lambda: snapshots.wire_snapshots(environment, hosts, stream),
            snapshots.SCHEDULES: lambda: snapshots.wire_schedules(environment),
            users.CONTROLLER: lambda: users.wire(environment, connect),
            restored.CONTROLLER: lambda: restored.wire(environment, connect),
            snapshots.RESTORES: lambda: snapshots.wire_restores(environment, hosts),
        }
        return Runnables([*made, *(wired() for name, wired in others.items() if name in chosen)])

    return World(
        "controlplanes",
        CONTROLLERS,
        wire,
        kinds=WORLD_KINDS,
        definitions=crds,
        reads=("clusters",),
        on_request=True,
        filter_label=WATCH_FILTER_LABEL,
    )


@cache
def templates() -> catalog.Catalog:
    """The sets of templates that this package brings; read once."""
    return catalog.read(files("kubewright.controlplanes.templates") / "sets")
