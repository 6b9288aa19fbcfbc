"""Which changes of a provider's object its owner can see: those of what the contract names. Pure.

Theory.      A provider writes its object several times before it is done: finalizers and annotations of its
             own, a spec that it completes, a providerID that counts only once the object is ready. The core
             reads none of these, so a Machine or a Cluster is not reconciled for them.
Invariants.  What ``object`` and ``provided`` read is compared, and the whole status. An object that is
             claimed, labelled, paused or deleted is another one.
Source       capi.md §3.2, by the paths in ``fields``.
Called by    the wiring of ``machine`` and ``cluster``, for ``runtime.references``.
"""

from collections.abc import Mapping
from typing import Any

from kubewright.api.cluster import names
from kubewright.api.cluster.v1beta1 import ObjectReference
from kubewright.clusters.external import fields
from kubewright.clusters.external.object import External, JsonObject, mapping, text

NAMELESS = ObjectReference()


def same_for_machine(before: JsonObject, after: JsonObject, contract: str) -> bool:
    """Whether a Machine cannot tell the two states of its bootstrap or infrastructure object apart."""
    return _of_machine(before, contract) == _of_machine(after, contract)


def same_for_cluster(before: JsonObject, after: JsonObject, contract: str) -> bool:
    """Whether a Cluster cannot tell the two states of its infrastructure or control plane apart."""
    return _of_cluster(before, contract) == _of_cluster(after, contract)


def _of_machine(found: JsonObject, contract: str) -> tuple[Any, ...]:
    external = External(NAMELESS, found, contract=contract)
    told = (external.text(fields.PROVIDER_ID), external.text(fields.FAILURE_DOMAIN)) if external.ready else ()
    expiry = text(mapping(external.metadata, "annotations"), names.CERTIFICATES_EXPIRY_ANNOTATION)
    return *_of_any(external), told, expiry


def _of_cluster(found: JsonObject, contract: str) -> tuple[Any, ...]:
    external = External(NAMELESS, found, contract=contract)
    return *_of_any(external), external.struct(fields.CONTROL_PLANE_ENDPOINT)


def _of_any(external: External) -> tuple[Any, ...]:
    labels = mapping(external.metadata, "labels")
    status: Mapping[str, Any] = mapping(external.found, "status")
    return (
        external.uid,
        external.deleting,
        external.paused,
        external.owners,
        labels.get(names.CLUSTER_NAME_LABEL),
        status,
    )
