"""The world of nested control planes: lists its controllers; ``wiring`` puts them together.

Theory.      All controllers work under the Lease of Cluster API Provider Nested, so this program and that
             provider never work on the same objects at once. Each controller can be left out by name, where
             another program does its work.
Invariants.  The hosts are looked up anew for each term of leadership, because a host that runs pods uses the
             informers of that term. The host inside this process outlives terms.
Source       S3-17, S3-34.
Called by    ``compose.worlds``.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

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
from kubewright.controlplanes.hosting.contract import Hosts
from kubewright.runtime.world import ControllerInfo, Environment, Runnables, World

if TYPE_CHECKING:
    from kubewright.controlplanes.component.look import ConnectToEtcd, Keeper
    from kubewright.controlplanes.snapshots.act import Stream
    from kubewright.controlplanes.users.connection import Connect

CONTROLLERS = (
    ControllerInfo(
        "nestedcontrolplane",
        "NestedControlPlane",
        LEASE,
        "owns the components of a nested control plane, and reports and deletes them as one",
    ),
    ControllerInfo(
        "nestedcluster",
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
        "nestedcontrolplanetemplate",
        "NestedControlPlane",
        LEASE,
        "makes the components of a nested control plane that names a template",
    ),
    ControllerInfo(
        "controlplanesnapshot",
        "ControlPlaneSnapshot",
        LEASE,
        "copies the data of a nested control plane into a file",
    ),
    ControllerInfo(
        "controlplanesnapshotschedule",
        "ControlPlaneSnapshotSchedule",
        LEASE,
        "creates snapshots at their times, and deletes those beyond a number",
    ),
    ControllerInfo(
        "controlplaneuser",
        "ControlPlaneUser",
        LEASE,
        "keeps a kubeconfig for each user of a nested control plane",
    ),
    ControllerInfo(
        "restoredusers",
        "NestedControlPlane",
        LEASE,
        "deletes what a restore has brought back of users that were deleted",
    ),
    ControllerInfo(
        "controlplanerestore",
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
    keeper: "Callable[[Environment], Keeper]",
    connect: "Connect | None" = None,
    to_etcd: "ConnectToEtcd | None" = None,
    stream: "Stream | None" = None,
) -> World:
    """This world. ``find_hosts`` says where components run; ``keeper`` makes and renews their certificates.
    ``connect`` makes the transports to control planes, ``to_etcd`` the clients of members of an etcd, and
    ``stream`` copies the data of one into a file; None: the real ones.

    A component that names neither version nor channel runs inside this process where that is possible.
    """

    def wire(environment: Environment, chosen: Sequence[str]) -> Runnables:
        from kubewright.controlplanes import wiring

        hosts, kept = find_hosts(environment), keeper(environment)
        return wiring.wire(environment, chosen, hosts, kept, connect=connect, to_etcd=to_etcd, stream=stream)

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
