"""The Secret with the kubeconfig of a cluster, where no provider of a control plane keeps it.

Theory.      With the key of the cluster's certificate authority (Secret ``<cluster>-ca``) the controller
             signs a certificate for an administrator; by it controllers and users reach the cluster.
Invariants.  Only the key is drawn at random: otherwise the same arguments make the same Secret.
Source       capi.md §6.3. Upstream's key is RSA-2048; ours is on P-256, which every client takes, and is made
             in a hundredth of the time.
Called by    ``act``. When it is made anew: ``runtime.credentials.values``.
"""

from base64 import b64encode
from datetime import datetime
from typing import Any

from msgspec import to_builtins

from kubewright.api.cluster import names
from kubewright.api.cluster.v1beta1 import ApiEndpoint
from kubewright.api.meta import OwnerReference
from kubewright.pki.certificates import Identity, new_client
from kubewright.runtime.credentials.contents import render
from kubewright.runtime.credentials.values import ADMIN, LIFETIME, Authority, url


def secret(
    cluster: str, owner: OwnerReference, endpoint: ApiEndpoint, authority: Authority, now: datetime
) -> dict[str, Any]:
    """The Secret, without a namespace, with a new certificate.

    Raises:
        ValueError: the authority cannot sign (``Authority.cannot_sign`` says why).
    """
    identity = new_client(Identity(authority.certificate, authority.key), ADMIN, now, LIFETIME)
    value = render(cluster, f"{cluster}-admin", url(endpoint), authority.certificate, identity)
    return {
        "metadata": {
            "name": names.kubeconfig_secret(cluster),
            "labels": {names.CLUSTER_NAME_LABEL: cluster},
            "ownerReferences": [{**to_builtins(owner), "controller": False}],
        },
        "type": names.SECRET_TYPE,
        "data": {names.SECRET_VALUE_KEY: b64encode(value).decode()},
    }
