"""The CustomResourceDefinitions of ``cluster.x-k8s.io/v1beta1``.

Theory.      Names, columns, subresources, labels, field names, types and required fields equal those of
             Cluster API v1.7.1, so either set of CRDs serves either core; the sentences are ours.
             Drain rules, which came later, are those of v1.10. The versions v1alpha3 and v1alpha4 are left
             out: nothing serves them any more (capi.md §2.1).
Called by    ``kubewright crds`` and the world of clusters.
"""

from collections.abc import Mapping
from typing import Any

from kubewright.api.cluster import names
from kubewright.api.cluster.v1beta1 import (
    CATEGORIES,
    CLUSTER,
    CONTRACT_VERSIONS,
    MACHINE,
    MACHINE_DEPLOYMENT,
    MACHINE_DRAIN_RULE,
    MACHINE_HEALTH_CHECK,
    MACHINE_SET,
)
from kubewright.api.crd import Column, Definition, crd
from kubewright.api.kinds import Kind

AGE = Column(
    "Age",
    ".metadata.creationTimestamp",
    type="date",
    description="How long ago the object was created.",
)
OF_CLUSTER = Column("Cluster", ".spec.clusterName", description="The cluster that the object belongs to.")
DESIRED = Column("Desired", ".spec.replicas", "integer", "How many machines there should be.", priority=10)
REPLICAS = Column("Replicas", ".status.replicas", "integer", "How many machines there are.")
READY = Column("Ready", ".status.readyReplicas", "integer", "How many machines have a Node that is ready.")
TEMPLATE_VERSION = Column(
    "Version", ".spec.template.spec.version", description="The version of Kubernetes of new machines."
)
SCALE = (".spec.replicas", ".status.replicas", ".status.selector")


def provider_labels(provider: str) -> Mapping[str, str]:
    """The labels of the CRDs of a provider: whose they are, that clusterctl moves their objects, and which of
    their versions follow the contract."""
    return {names.PROVIDER_LABEL: provider, names.CLUSTERCTL_LABEL: "", **CONTRACT_VERSIONS}


def definition(
    kind: Kind[Any], *columns: Column, status: bool = True, scale: tuple[str, str, str] | None = None
) -> Definition:
    """The definition of a kind of the core."""
    labels = provider_labels(names.CORE_PROVIDER)
    return Definition(kind, columns, status=status, scale=scale, categories=CATEGORIES, labels=labels)


DEFINITIONS = (
    definition(
        CLUSTER,
        Column("ClusterClass", ".spec.topology.class", description="The class of a topology; not supported."),
        Column("Phase", ".status.phase", description="The phase of the cluster."),
        AGE,
        Column("Version", ".spec.topology.version", description="The version of a topology; not supported."),
    ),
    definition(
        MACHINE,
        OF_CLUSTER,
        Column("NodeName", ".status.nodeRef.name", description="The Node that the machine became."),
        Column("ProviderID", ".spec.providerID", description="The cloud's id of the host."),
        Column("Phase", ".status.phase", description="The phase of the machine."),
        AGE,
        Column("Version", ".spec.version", description="The version of Kubernetes."),
    ),
    definition(
        MACHINE_SET,
        OF_CLUSTER,
        DESIRED,
        REPLICAS,
        READY,
        Column("Available", ".status.availableReplicas", "integer", "How many machines are available."),
        AGE,
        TEMPLATE_VERSION,
        scale=SCALE,
    ),
    definition(
        MACHINE_DEPLOYMENT,
        OF_CLUSTER,
        DESIRED,
        REPLICAS,
        READY,
        Column("Updated", ".status.updatedReplicas", "integer", "How many have the current template."),
        Column("Unavailable", ".status.unavailableReplicas", "integer", "How many available ones lack."),
        Column("Phase", ".status.phase", description="What the deployment is doing."),
        AGE,
        TEMPLATE_VERSION,
        scale=SCALE,
    ),
    definition(
        MACHINE_HEALTH_CHECK,
        OF_CLUSTER,
        Column("ExpectedMachines", ".status.expectedMachines", "integer", "How many machines are watched."),
        Column(
            "MaxUnhealthy",
            ".spec.maxUnhealthy",
            description="While more machines are unhealthy, none is replaced.",
        ),
        Column("CurrentHealthy", ".status.currentHealthy", "integer", "How many machines are healthy."),
        AGE,
    ),
    definition(
        MACHINE_DRAIN_RULE,
        Column("Behavior", ".spec.drain.behavior", description="What a drain does with the pods."),
        Column("Order", ".spec.drain.order", description="Pods with lower orders leave before."),
        AGE,
        status=False,
    ),
)


def crds() -> tuple[dict[str, Any], ...]:
    """All of them, in the order in which to install them."""
    return tuple(crd(each) for each in DEFINITIONS)
