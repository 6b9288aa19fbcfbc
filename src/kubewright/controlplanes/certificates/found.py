"""The content of one Secret of a control plane, as far as decisions read it. Pure.

Invariants.  No field that a repr shows has a part of a key in it.
Called by    ``look`` makes it; ``decide``, ``reasons``, ``rotation`` and ``act`` read it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from kubewright.api.meta import ObjectMeta, OwnerReference
from kubewright.pki.facts import Facts
from kubewright.pki.keys import KeyPair
from kubewright.runtime.credentials.values import Kubeconfig
from kubewright.wire.gvk import split_api_version


@dataclass(frozen=True, slots=True)
class Found:
    """A Secret that exists.

    ``contents``    its data
    ``pair``        the certificate or public key, and the private key; empty where there is none
    ``problem``     why the pair can never be used, as the end of a sentence about the Secret
    ``facts``       what the certificate says; None: there is no certificate
    ``kubeconfig``  what the kubeconfig says; None: there is none
    """

    metadata: ObjectMeta
    contents: Mapping[str, bytes] = field(repr=False)
    pair: KeyPair
    problem: str = ""
    facts: Facts | None = None
    kubeconfig: Kubeconfig | None = None

    def owned_by(self, owner: OwnerReference) -> bool:
        """Whether this object controls the Secret. API version and uid are not compared."""
        mine = self.metadata.controller
        return mine is not None and _named(mine) == _named(owner)


def _named(owner: OwnerReference) -> tuple[str, str, str]:
    return split_api_version(owner.api_version)[0], owner.kind, owner.name
