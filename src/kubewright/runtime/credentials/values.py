"""What is in the Secrets of a cluster's authorities, keys and kubeconfig, as values. Pure.

Theory.      What a Secret holds is a value of ``pki.credentials``, and its metadata: whose it is, and in
             which version a write has to find it. What is made, and when it is made anew, ``pki.keyring``
             decides.
Called by    ``bootstrap``, ``clusters`` and ``controlplanes``. ``contents`` reads Secrets.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from kubewright.api.cluster.names import CLUSTER_NAME_LABEL, SECRET_TYPE
from kubewright.api.cluster.v1beta1 import ApiEndpoint
from kubewright.api.core import Secret
from kubewright.api.meta import ObjectMeta, OwnerReference
from kubewright.pki.credentials import CERTIFICATE_KEY, PRIVATE_KEY, Held
from kubewright.pki.keys import KeyPair
from kubewright.wire.gvk import split_api_version


@dataclass(frozen=True, slots=True)
class Found(Held):
    """A Secret that exists."""

    metadata: ObjectMeta = field(kw_only=True)

    def controlled_by(self, owner: OwnerReference) -> bool:
        """Whether this object controls the Secret. API version and uid are not compared."""
        mine = self.metadata.controller
        return mine is not None and _named(mine) == _named(owner)

    def owned_by(self, owner: OwnerReference) -> bool:
        """Whether this object is an owner of the Secret, so that it is ours to keep: by kind and name, since
        its uid is another one after ``clusterctl move`` or from a backup."""
        mine = owner.kind, owner.name
        return any((each.kind, each.name) == mine for each in self.metadata.owner_references)


def _named(owner: OwnerReference) -> tuple[str, str, str]:
    return split_api_version(owner.api_version)[0], owner.kind, owner.name


def controlled(secrets: Mapping[str, Found], owner: OwnerReference) -> frozenset[str]:
    """The names of those of the Secrets that this object controls."""
    return frozenset(name for name, each in secrets.items() if each.controlled_by(owner))


def url(endpoint: ApiEndpoint) -> str:
    """Where clients reach an API server."""
    return f"https://{endpoint}"


def pair_of(secret: Secret) -> KeyPair:
    """What is in a Secret; empty where a key is missing."""
    return KeyPair(secret.data.get(CERTIFICATE_KEY, b""), secret.data.get(PRIVATE_KEY, b""))


def secret_of(
    name: str, namespace: str, cluster: str, owners: tuple[OwnerReference, ...], data: Mapping[str, bytes]
) -> Secret:
    """A Secret by Cluster API's contract: with its type, and the label of the cluster."""
    labels = {CLUSTER_NAME_LABEL: cluster}
    meta = ObjectMeta(name=name, namespace=namespace, labels=labels, owner_references=owners)
    return Secret(metadata=meta, type=SECRET_TYPE, data=dict(data))
