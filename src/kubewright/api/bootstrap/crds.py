"""The CustomResourceDefinitions of ``bootstrap.cluster.x-k8s.io/v1beta1``.

Theory.      Names, columns, subresources, labels, field names, types and required fields equal those of
             Cluster API v1.7.1, so either set of CRDs serves either provider; the sentences are ours.
Source       S1-01 to S1-14; capi.md §2.1.
Called by    ``kubewright crds`` and the world of the bootstrap provider.
"""

from typing import Any

from kubewright.api.bootstrap.v1beta1 import KUBEADM_CONFIG, KUBEADM_CONFIG_TEMPLATE
from kubewright.api.cluster.crds import AGE, provider_labels
from kubewright.api.cluster.names import CLUSTER_NAME_LABEL, KUBEADM_BOOTSTRAP_PROVIDER
from kubewright.api.cluster.v1beta1 import CATEGORIES
from kubewright.api.crd import Column, Definition, crd

LABELS = provider_labels(KUBEADM_BOOTSTRAP_PROVIDER)
OF_CLUSTER = Column(
    "Cluster",
    ".metadata.labels['" + CLUSTER_NAME_LABEL.replace(".", "\\.") + "']",
    description="The cluster that the machine belongs to, from the object's label.",
)

DEFINITIONS = (
    Definition(
        KUBEADM_CONFIG,
        columns=(OF_CLUSTER, AGE),
        categories=CATEGORIES,
        labels=LABELS,
    ),
    Definition(
        KUBEADM_CONFIG_TEMPLATE,
        columns=(AGE,),
        status=False,
        categories=CATEGORIES,
        labels=LABELS,
    ),
)


def crds() -> tuple[dict[str, Any], ...]:
    """Both, in the order in which to install them."""
    return tuple(crd(each) for each in DEFINITIONS)
