"""KubewrightCluster, KubewrightMachine and their templates: what stands behind a Cluster and a Machine.

Map.         ``provision`` (what a driver is told) ``clusters`` ``machines``; import from here.
Continues    in ``infra.names``, ``validate`` and ``crds``.
"""

from kubewright.api.infra.v1beta1.clusters import (
    KUBEWRIGHT_CLUSTER,
    KUBEWRIGHT_CLUSTER_TEMPLATE,
    FailureDomainSpec,
    KubewrightCluster,
    KubewrightClusterSpec,
    KubewrightClusterStatus,
    KubewrightClusterTemplate,
    KubewrightClusterTemplateResource,
    KubewrightClusterTemplateSpec,
)
from kubewright.api.infra.v1beta1.machines import (
    KUBEWRIGHT_MACHINE,
    KUBEWRIGHT_MACHINE_TEMPLATE,
    KubewrightMachine,
    KubewrightMachineSpec,
    KubewrightMachineStatus,
    KubewrightMachineTemplate,
    KubewrightMachineTemplateResource,
    KubewrightMachineTemplateSpec,
    KubewrightMachineTemplateStatus,
    NodeInfo,
)
from kubewright.api.infra.v1beta1.provision import GROUP, VERSION, LocalSecretReference, Provision

__all__ = [
    "GROUP",
    "VERSION",
    "Provision",
    "LocalSecretReference",
    "KUBEWRIGHT_CLUSTER",
    "KubewrightCluster",
    "KubewrightClusterSpec",
    "KubewrightClusterStatus",
    "FailureDomainSpec",
    "KUBEWRIGHT_CLUSTER_TEMPLATE",
    "KubewrightClusterTemplate",
    "KubewrightClusterTemplateSpec",
    "KubewrightClusterTemplateResource",
    "KUBEWRIGHT_MACHINE",
    "KubewrightMachine",
    "KubewrightMachineSpec",
    "KubewrightMachineStatus",
    "KUBEWRIGHT_MACHINE_TEMPLATE",
    "KubewrightMachineTemplate",
    "KubewrightMachineTemplateSpec",
    "KubewrightMachineTemplateResource",
    "KubewrightMachineTemplateStatus",
    "NodeInfo",
]
