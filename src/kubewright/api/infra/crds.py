"""The four CustomResourceDefinitions of ``infrastructure.cluster.x-k8s.io/v1beta1``.

Theory.      Category, contract label and provider label are what Cluster API's core and clusterctl look for;
             the columns are those that infrastructure providers usually have.
Called by    ``kubewright crds`` and the world of infrastructure.
"""

from collections.abc import Sequence
from typing import Any

from kubewright.api.cluster.crds import AGE, provider_labels
from kubewright.api.cluster.v1beta1 import CATEGORIES
from kubewright.api.crd import Column, Definition, crd
from kubewright.api.infra.names import PROVIDER
from kubewright.api.infra.v1beta1 import (
    KUBEWRIGHT_CLUSTER,
    KUBEWRIGHT_CLUSTER_TEMPLATE,
    KUBEWRIGHT_MACHINE,
    KUBEWRIGHT_MACHINE_TEMPLATE,
)
from kubewright.api.kinds import Kind

OF_CLUSTER = Column(
    "Cluster",
    r".metadata.labels['cluster\.x-k8s\.io/cluster-name']",
    description="The cluster that the object belongs to.",
)
OF_MACHINE = Column(
    "Machine",
    '.metadata.ownerReferences[?(@.kind=="Machine")].name',
    description="The Machine whose VM it is.",
)


def _definition(kind: Kind[Any], columns: Sequence[Column] = (), *, status: bool = True) -> Definition:
    labels = provider_labels(PROVIDER)
    return Definition(kind, columns, status=status, categories=CATEGORIES, labels=labels)


DEFINITIONS = (
    _definition(
        KUBEWRIGHT_CLUSTER,
        (
            OF_CLUSTER,
            Column("Ready", ".status.ready", "boolean", "Whether machines of the cluster can be made."),
            Column("Host", ".spec.controlPlaneEndpoint.host", description="Where its API server is reached."),
            Column("Port", ".spec.controlPlaneEndpoint.port", "integer", "The port of its API server."),
            AGE,
        ),
    ),
    _definition(KUBEWRIGHT_CLUSTER_TEMPLATE, (AGE,), status=False),
    _definition(
        KUBEWRIGHT_MACHINE,
        (
            OF_CLUSTER,
            OF_MACHINE,
            Column("ProviderID", ".spec.providerID", description="The cloud's id of the VM."),
            Column("Ready", ".status.ready", "boolean", "Whether the VM exists and is complete."),
            AGE,
        ),
    ),
    _definition(KUBEWRIGHT_MACHINE_TEMPLATE, (AGE,)),
)


def crds() -> tuple[dict[str, Any], ...]:
    """All four, in the order in which to install them."""
    return tuple(crd(each) for each in DEFINITIONS)
