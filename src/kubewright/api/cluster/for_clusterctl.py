"""Two kinds that no controller of ours works on, and that clusterctl v1.7.1 looks for.

Theory.      ``clusterctl describe cluster`` lists the MachinePools of a cluster, and fails where the server
             has no such kind. So there is one: a kube-apiserver refuses to create an object of it, with a
             sentence that says what to use instead, and keeps those that were made before as they are.
             A ``Provider`` says that a provider is installed: then clusterctl does not install another core,
             and moves clusters only to where the same providers are (``deploy/clusters/providers.yaml``).
             clusterctl makes this kind itself when it first needs it.
Invariants.  clusterctl moves no objects of these kinds: their CRDs have no label of its.
Source       capi.md §3.5, §3.6; decision 0027.
Called by    ``api.catalog``, for ``kubewright crds``.
"""

from collections.abc import Mapping
from typing import Annotated

from msgspec import field

from kubewright.api.cluster.crds import AGE, OF_CLUSTER
from kubewright.api.cluster.v1beta1 import CATEGORIES, resource
from kubewright.api.crd import Column, Definition
from kubewright.api.faults import Fault, FieldError
from kubewright.api.kinds import Kind
from kubewright.api.meta import PRESERVE, Json, KubeObject, doc
from kubewright.wire.gvk import Resource


class MachinePool(KubeObject, frozen=True, kw_only=True):
    """A MachinePool of Cluster API. It is not supported: use a MachineDeployment."""

    spec: Annotated[Mapping[str, Json], doc("What is wanted; no controller reads it.", **PRESERVE)] = field(
        default_factory=dict
    )
    status: Annotated[Mapping[str, Json], doc("What is; no controller writes it.", **PRESERVE)] = field(
        default_factory=dict
    )


class Provider(KubeObject, frozen=True, kw_only=True):
    """A provider that is installed here, as clusterctl lists it."""

    provider_name: Annotated[str, doc("The name of the provider, as clusterctl's configuration has it.")] = ""
    type: Annotated[str, doc("CoreProvider, BootstrapProvider, InfrastructureProvider or another.")] = ""
    version: Annotated[str, doc("The release that is installed, as a semantic version.")] = ""
    watched_namespace: Annotated[str, doc("Not used any more; empty.")] = ""


MACHINE_POOL = Kind(resource("machinepools", "MachinePool", "mp"), MachinePool)
PROVIDER = Kind(Resource("clusterctl.cluster.x-k8s.io", "v1alpha3", "providers", "Provider"), Provider)

UNSUPPORTED = "MachinePools are not supported here: no controller works on them. Use a MachineDeployment."
REFUSED = {
    "rule": "oldSelf.hasValue()",
    "optionalOldSelf": True,
    "reason": "FieldValueForbidden",
    "message": UNSUPPORTED,
}


def refuse_new_pool(_new: MachinePool, old: MachinePool | None) -> list[FieldError]:
    """The rule ``REFUSED`` of the CRD, for a server that does not evaluate it."""
    return [] if old is not None else [FieldError("<nil>", UNSUPPORTED, Fault.FORBIDDEN)]


DEFINITIONS = (
    Definition(MACHINE_POOL, (OF_CLUSTER, AGE), categories=CATEGORIES, rules=(REFUSED,)),
    Definition(
        PROVIDER,
        (
            AGE,
            Column("Type", ".type", description="Which part of Cluster API the provider is."),
            Column("Provider", ".providerName", description="The name of the provider."),
            Column("Version", ".version", description="The release that is installed."),
        ),
        status=False,
        categories=CATEGORIES,
        labels={"clusterctl.cluster.x-k8s.io/core": "inventory"},
    ),
)
