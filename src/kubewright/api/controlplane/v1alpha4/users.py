"""ControlPlaneUser: one user of one control plane, who gets a kubeconfig of their own.

Theory.      An administrator writes the object and gives the user the Secret that it names, or the right to
             read it. The kubeconfig has a client certificate with the name and groups of the user; roles in
             the control plane say what the user may do. The certificate is short-lived, and renewed when half
             of its life is over.
Invariants.  No object contains a credential.
Source       seed 003, S3-46 to S3-48; nested.md R-05; decision 0037. The kind is ours: upstream has none.
"""

from typing import Annotated

from msgspec import field

from kubewright.api.controlplane.v1alpha4.shared import Reported, resource
from kubewright.api.kinds import Kind
from kubewright.api.meta import ATOMIC, Duration, KubeObject, Time, Value, doc


class ControlPlaneUserSpec(Value, frozen=True, kw_only=True):
    """Who it is, where, and for how long."""

    control_plane_name: Annotated[
        str, doc("The NestedControlPlane, in the same namespace.", required=True)
    ] = ""
    user: Annotated[str, doc("The name of the user; that of this object when unset.")] = ""
    groups: Annotated[
        tuple[str, ...], doc("The groups of the user, one at least.", required=True, **ATOMIC)
    ] = ()
    lifetime: Annotated[
        Duration, doc("For how long a certificate is good: from 10m to 168h, such as 8h; 24h when unset.")
    ] = ""
    privileged: Annotated[
        bool, doc("Whether names that begin with system: are meant, such as the group system:masters.")
    ] = False


class ControlPlaneUserStatus(Reported, frozen=True, kw_only=True):
    """What became of it."""

    ready: Annotated[bool, doc("Whether the kubeconfig is there and good.")] = False
    secret_name: Annotated[str, doc("The Secret with the kubeconfig, under the key value.")] = ""
    expires_at: Annotated[
        Time | None,
        doc("Until when the kubeconfig is good, also if this object is deleted or a copy was made before."),
    ] = None


class ControlPlaneUser(KubeObject, frozen=True, kw_only=True):
    """One user of one control plane."""

    spec: Annotated[ControlPlaneUserSpec, doc("Who it is.", required=True)] = field(
        default_factory=ControlPlaneUserSpec
    )
    status: Annotated[ControlPlaneUserStatus, doc("What became of it.")] = field(
        default_factory=ControlPlaneUserStatus
    )


CONTROL_PLANE_USER = Kind(resource("ControlPlaneUser", "cpuser"), ControlPlaneUser)
