"""The certificates with which this program is a client of an etcd whose data it copies or replaces.

Invariants.  No content of a Secret is in a message.
Called by    ``taking``; ``restoring``, for hosts that send a snapshot to pods.
"""

from kubewright.api.core import SECRET
from kubewright.base.errors import KubewrightError
from kubewright.controlplanes.certificates.sets import etcd_health_client
from kubewright.controlplanes.family import Family
from kubewright.controlplanes.members.decide import Credentials
from kubewright.kube.client import Client
from kubewright.wire.errors import NotFound
from kubewright.wire.gvk import Key


class NoCredentials(KubewrightError):
    """A Secret for clients of an etcd is missing; the message says which."""


async def credentials_of(client: Client, family: Family) -> Credentials:
    """The client certificate that probes of etcd have; where there is none, that of the API server.

    Raises:
        NoCredentials: a Secret is missing, or has no certificate.
        ApiError, TransportError: the server could not be asked for it.
    """
    authority = await _secret(client, family, f"{family.name}-etcd", "tls.crt")
    own = await _secret(client, family, etcd_health_client(family.name), "tls.crt", "tls.key")
    own = own or await _secret(client, family, f"{family.name}-apiserver-etcd-client", "tls.crt", "tls.key")
    if authority is None or own is None:
        told = f"there is no Secret {family.name}-etcd, or none with a client's certificate for it"
        raise NoCredentials(told)
    return Credentials(authority["tls.crt"], own["tls.crt"], own["tls.key"])


async def _secret(client: Client, family: Family, name: str, *keys: str) -> dict[str, bytes] | None:
    try:
        found = await client.get(SECRET, Key(family.plane.namespace, name))
    except NotFound:
        return None
    return {key: found.data[key] for key in keys} if all(key in found.data for key in keys) else None
