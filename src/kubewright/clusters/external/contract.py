"""Which version of a provider's kind the core uses: the one that the labels of its CRD name.

Theory.      A provider labels its CRDs with the versions that follow a contract:
             ``cluster.x-k8s.io/v1beta1: v1alpha4_v1beta1``. Of those the preferred one is used, whatever
             version the reference names, and the reference is not rewritten: users keep it under version
             control.
             The core's own contract goes first. A provider that follows only the next one is read by that
             one's fields.
Source       capi.md §3.1, appendix F (references are resolved in memory).
Called by    ``runtime.references``, through ``Contracts``.
"""

from collections.abc import Mapping

from kubewright.api.cluster.names import CONTRACT, CONTRACT_LABEL_PREFIX
from kubewright.runtime.references.reference import Version
from kubewright.wire import plurals
from kubewright.wire.versions import preferred

NEXT_CONTRACT = "v1beta2"
CONTRACTS = (CONTRACT, NEXT_CONTRACT)
"""The contracts that the core can read, its own first."""

SEPARATOR = "_"


class Contracts:
    """The ``runtime.references.reference.VersionPolicy`` of Cluster API."""

    def crd_name(self, group: str, kind: str) -> str:
        """The name that Cluster API gives the CRD of a kind."""
        return plurals.crd_name(group, kind)

    def choose(self, labels: Mapping[str, str]) -> Version | str:
        """The version to use of a CRD with these labels, or why there is none, as a clause."""
        for contract in CONTRACTS:
            named = labels.get(f"{CONTRACT_LABEL_PREFIX}{contract}", "")
            if (version := preferred(named.split(SEPARATOR))) is not None:
                return Version(version, contract)
        label = f"{CONTRACT_LABEL_PREFIX}{CONTRACT}"
        if label in labels:
            return f"names no version in its label {label}: {labels[label]!r}"
        return f"has no versions matching contract {CONTRACT}: it lacks the label {label}"
