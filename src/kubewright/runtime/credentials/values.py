"""What is in the Secrets of a cluster's authorities, keys and kubeconfig, as values. Pure.

Theory.      A kubeconfig has a certificate of one user, signed with the key of the cluster's certificate
             authority; it is good for a year, and is made anew when half of its life is over, and when the
             authority or the endpoint changes.
Source       capi.md §6.3, §9.3; nested.md A6, A7.
Called by    ``bootstrap``, ``clusters`` and ``controlplanes``. ``contents`` reads and makes them.
"""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from kubewright.api.cluster.v1beta1 import ApiEndpoint
from kubewright.api.core import Secret
from kubewright.api.meta import ObjectMeta, OwnerReference
from kubewright.pki.clusters import out_of_date
from kubewright.pki.keys import KeyPair
from kubewright.wire.http import User

CERTIFICATE_KEY, PRIVATE_KEY = "tls.crt", "tls.key"
ADMIN = User("kubernetes-admin", ("system:masters",))
LIFETIME = timedelta(days=365)
"""Of the certificates in kubeconfigs."""


class Purpose(StrEnum):
    """What a pair is for; the value ends the name of its Secret."""

    CA = "ca"
    ETCD = "etcd"
    FRONT_PROXY = "proxy"
    SERVICE_ACCOUNT = "sa"
    ETCD_CLIENT = "apiserver-etcd-client"


@dataclass(frozen=True, slots=True)
class Authority:
    """A cluster's certificate authority.

    ``certificate`` and ``key``  PEM
    ``problem``  why it cannot sign, as the end of a sentence about its Secret; empty if it can
    ``not_before``, ``not_after``  when it is valid; None if that cannot be read
    """

    certificate: bytes
    key: bytes = field(default=b"", repr=False)
    problem: str = ""
    not_before: datetime | None = None
    not_after: datetime | None = None

    def cannot_sign(self, now: datetime) -> str:
        """Why it cannot sign now; empty if it can."""
        if self.problem or self.not_before is None or self.not_after is None:
            return self.problem
        return out_of_date(self.not_before, self.not_after, now)


@dataclass(frozen=True, slots=True)
class Kubeconfig:
    """A Secret with a kubeconfig, as far as decisions look at it.

    ``metadata``   of the Secret
    ``server``     URL; empty if the content cannot be read
    ``authority``  the certificate that it trusts (PEM)
    ``not_before``, ``not_after``  of the client's certificate; None if there is none
    ``certificate``  of the client (PEM)
    """

    metadata: ObjectMeta
    server: str = ""
    authority: bytes = b""
    not_before: datetime | None = None
    not_after: datetime | None = None
    certificate: bytes = b""

    def owned_by(self, owner: OwnerReference) -> bool:
        """Whether the Cluster is an owner of the Secret, so that it is ours to keep: by kind and name, since
        its uid is another one after ``clusterctl move`` or from a backup."""
        mine = owner.kind, owner.name
        return any((each.kind, each.name) == mine for each in self.metadata.owner_references)


def secret_name(cluster: str, purpose: Purpose) -> str:
    """The Secret of a pair, in the namespace of the Cluster."""
    return f"{cluster}-{purpose.value}"


def url(endpoint: ApiEndpoint) -> str:
    """Where clients reach an API server."""
    return f"https://{endpoint}"


def pair_of(secret: Secret) -> KeyPair:
    """What is in a Secret; empty where a key is missing."""
    return KeyPair(secret.data.get(CERTIFICATE_KEY, b""), secret.data.get(PRIVATE_KEY, b""))


def data_of(certificate: bytes, key: bytes) -> dict[str, bytes]:
    """What the Secret of a pair holds."""
    return {CERTIFICATE_KEY: certificate, PRIVATE_KEY: key}


def mismatch(found: Kubeconfig, server: str, authority: bytes) -> str:
    """Why a kubeconfig does not lead to this server; empty if it does.

    ``server``     URL of the API server
    ``authority``  the certificate that signs and is trusted (PEM)
    """
    if found.not_before is None or found.not_after is None:
        return "the kubeconfig cannot be read"
    if found.server != server:
        return f"the API server is at {server.removeprefix('https://')} now"
    return "the cluster has another certificate authority now" if trusts_another(found, authority) else ""


def trusts_another(found: Kubeconfig, authority: bytes) -> bool:
    """Whether a kubeconfig that can be read trusts another authority than this one (PEM)."""
    return found.not_before is not None and found.authority.strip() != authority.strip()


def half_time(found: Kubeconfig) -> datetime | None:
    """When half of a kubeconfig's life is over; None: it cannot be read."""
    if found.not_before is None or found.not_after is None:
        return None
    return found.not_before + (found.not_after - found.not_before) / 2


def renewal(found: Kubeconfig, server: str, authority: bytes, now: datetime) -> tuple[str, timedelta | None]:
    """Why a kubeconfig of ours is to be made anew now, or in how long it will be; see ``mismatch``."""
    told, half = mismatch(found, server, authority), half_time(found)
    if told or half is None:
        return told, None
    return ("half of the kubeconfig's life is over", None) if half <= now else ("", half - now)
