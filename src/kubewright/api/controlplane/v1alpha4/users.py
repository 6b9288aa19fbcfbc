"""ControlPlaneUser: one user of one control plane, who gets a kubeconfig of their own.

Theory.      An administrator writes the object and gives the user the Secret that it names, or the right to
             read it. The kubeconfig has a token or a client certificate; either way its bearer has the name
             and the groups of the user, and roles in the control plane say what the user may do. It is
             short-lived, and renewed when half of its life is over. A token ends with the object, a
             certificate when it expires.
Invariants.  No object contains a credential.
Source       seed 003, S3-46 to S3-48; nested.md R-05; decisions 0037 and 0038. The kind is ours: upstream has
             none.
"""

from enum import StrEnum
from typing import Annotated

from msgspec import field

from kubewright.api.controlplane.v1alpha4.shared import Reported, resource
from kubewright.api.kinds import Kind
from kubewright.api.meta import ATOMIC, Duration, KubeObject, Time, Value, doc


class Credential(StrEnum):
    """What a kubeconfig has to log in with."""

    TOKEN = "Token"
    """A token of a service account in the control plane that may only impersonate the user."""
    CERTIFICATE = "Certificate"
    """A client certificate with the name and the groups."""


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
        Duration, doc("For how long a kubeconfig is good: from 10m to 168h, such as 8h; 24h when unset.")
    ] = ""
    credential: Annotated[
        str,
        doc(
            "Token (when unset): ends with this object, also in copies; the kubeconfig names the user in the "
            "fields as and as-groups, which the client has to know. Certificate: for clients that do not, "
            "and for an API server that the controllers cannot reach; a copy is good until it expires.",
            enum=[each.value for each in Credential],
        ),
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
        doc("Until when the kubeconfig is good; one with a certificate is, also if this object is deleted."),
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
