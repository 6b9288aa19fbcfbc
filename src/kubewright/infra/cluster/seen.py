"""Everything that is read about one KubewrightCluster, as one frozen value; what may be done, as a plan.

Called by    ``endpoints`` and ``look`` (make ``Seen``), ``decide`` (makes plans), ``act`` (performs them).
             Nothing here reads or waits.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum

from kubewright.api.cluster.v1beta1 import ApiEndpoint, Cluster
from kubewright.api.controlplane.v1alpha4 import NESTED_CONTROL_PLANE
from kubewright.api.infra.v1beta1 import KubewrightCluster
from kubewright.driver.errors import DriverError
from kubewright.infra.plan import ReportingPlan
from kubewright.wire.gvk import Key


@dataclass(frozen=True, slots=True)
class EndpointSeen:
    """What is known of a cluster's endpoint from the last call.

    ``address``   host and port, once the driver has told them
    ``released``  the driver has taken it back
    ``releasing`` the last call was to give it back
    ``error``     what the last call failed with, and ``again`` when it is repeated
    """

    running: bool = False
    address: tuple[str, int] | None = None
    released: bool = False
    releasing: bool = False
    error: DriverError | None = None
    again: datetime | None = None

    def left(self, now: datetime) -> timedelta:
        """How long the pause after a failed call still lasts; zero or less: it is over."""
        return self.again - now if self.again is not None else timedelta(0)


NOTHING = EndpointSeen()
"""Of a cluster about which this process has made no call yet."""


@dataclass(frozen=True, slots=True)
class Seen:
    """One KubewrightCluster and all that decides about it.

    ``owner``     the Cluster that controls it; None: none names it, or it is not there
    ``lives``     a Cluster of the name that its machines carry is there, and is not being deleted
    ``paused``    the object or its cluster is paused
    ``machines``  the KubewrightMachines of its cluster; ``unowned``: those that no object owns and no
                  Machine names, and that are not being deleted
    ``original``  the KubewrightCluster whose endpoint this one has, too, being a copy of it; empty: it is
                  none
    ``problem``   why the driver cannot be told of this cluster
    ``offers_endpoints``  the driver gives endpoints
    """

    cluster: KubewrightCluster
    now: datetime
    owner: Cluster | None = None
    lives: bool = False
    paused: bool = False
    machines: tuple[Key, ...] = ()
    unowned: tuple[Key, ...] = ()
    original: str = ""
    problem: str = ""
    offers_endpoints: bool = False
    endpoint: EndpointSeen = NOTHING

    @property
    def api_server(self) -> ApiEndpoint | None:
        """Where the API server is going to be, as the object or its Cluster says; None: neither does."""
        own = self.cluster.spec.control_plane_endpoint
        if own is not None and own.valid:
            return own
        theirs = self.owner.spec.control_plane_endpoint if self.owner is not None else None
        return theirs if theirs is not None and theirs.valid else None

    @property
    def control_plane(self) -> str:
        """The control plane that runs on no machine, and so says itself where it is; empty: it has none."""
        ref = self.owner.spec.control_plane_ref if self.owner is not None else None
        kind = NESTED_CONTROL_PLANE.resource
        ours = ref is not None and (ref.group, ref.kind) == (kind.group, kind.kind)
        return f"{ref.kind} {ref.name}" if ref is not None and ours else ""


class Step(Enum):
    """The effects on one KubewrightCluster."""

    ADD_FINALIZER = "add finalizer"
    RESERVE = "ask the driver for an endpoint"
    RECORD = "write the endpoint"
    DELETE_MACHINES = "delete the machines that nothing owns"
    RELEASE = "give the endpoint back"
    REMOVE_FINALIZER = "remove finalizer"


@dataclass(frozen=True, slots=True)
class Plan(ReportingPlan[Step]):
    """What to do now with a KubewrightCluster, and what to report of its endpoint."""
