"""When the kubeconfig of a cluster is made anew, where no provider of a control plane keeps it. Pure.

Theory.      With the key of the cluster's certificate authority (Secret ``<cluster>-ca``) the controller
             signs a certificate for an administrator; by it controllers and users reach the cluster. It is
             good for a year, and is made anew when half of its life is over, and when the authority or the
             endpoint changes.
Invariants.  A Secret that the Cluster does not own is a user's or a provider's, and is never written.
Source       capi.md §6.3.
Called by    ``decide``. ``signing`` reads and makes the Secrets.
"""

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from kubewright.api.cluster.v1beta1 import ApiEndpoint
from kubewright.api.meta import ObjectMeta, OwnerReference
from kubewright.base.clock import rfc3339


@dataclass(frozen=True, slots=True)
class Authority:
    """A cluster's certificate authority.

    ``certificate`` and ``key``  PEM
    ``problem``  why it cannot sign, as the end of a sentence about its Secret; empty if it can
    ``not_after``  when it expires
    """

    certificate: bytes
    key: bytes = field(default=b"", repr=False)
    problem: str = ""
    not_after: datetime | None = None

    def cannot_sign(self, now: datetime) -> str:
        """Why it cannot sign now; empty if it can."""
        if self.problem or self.not_after is None or now < self.not_after:
            return self.problem
        return f"has a certificate that expired on {rfc3339(self.not_after)}"


@dataclass(frozen=True, slots=True)
class Kubeconfig:
    """A Secret with a kubeconfig, as far as decisions look at it.

    ``owners``     of the Secret
    ``server``     URL; empty if the content cannot be read
    ``authority``  the certificate that it trusts (PEM)
    ``not_before``, ``not_after``  of the client's certificate; None if there is none
    """

    metadata: ObjectMeta
    server: str = ""
    authority: bytes = b""
    not_before: datetime | None = None
    not_after: datetime | None = None

    def owned_by(self, owner: OwnerReference) -> bool:
        """Whether the Cluster is an owner of the Secret, so that it is ours to keep."""
        mine = owner.kind, owner.name
        return any((each.kind, each.name) == mine for each in self.metadata.owner_references)


def renewal(
    found: Kubeconfig, authority: Authority, endpoint: ApiEndpoint, now: datetime
) -> tuple[str, timedelta | None]:
    """Why a kubeconfig of ours is to be made anew now, or in how long it will be."""
    if found.not_before is None or found.not_after is None:
        return "the kubeconfig cannot be read", None
    if found.server != url(endpoint):
        return f"the API server is at {endpoint} now", None
    if found.authority.strip() != authority.certificate.strip():
        return "the cluster has another certificate authority now", None
    half = found.not_before + (found.not_after - found.not_before) / 2
    return ("half of the kubeconfig's life is over", None) if half <= now else ("", half - now)


def url(endpoint: ApiEndpoint) -> str:
    """Where clients reach the API server."""
    return f"https://{endpoint}"
