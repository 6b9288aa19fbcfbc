"""What an administrator installs for the bootstrap provider: its CRDs, and what it and users may do.

Theory.      Names, columns, subresources, labels, field names, types and required fields equal those of
             Cluster API v1.7.1, so either set of CRDs serves either provider; the sentences are ours. The
             provider reads clusters and machines, writes its own kind, and makes Secrets; the core has its
             rules in a table of its own, since the two may run apart. Workload clusters are reached by their
             kubeconfigs, and need no rule here.
Called by    ``kubewright crds``, ``make gen`` (``deploy/clusters``, ``deploy/one-namespace``), the world of
             the bootstrap provider, and ``compose.embedded`` (the roles of users).
"""

from dataclasses import replace
from typing import Any

from kubewright.api.bootstrap import v1beta2
from kubewright.api.bootstrap.names import GROUP
from kubewright.api.bootstrap.v1beta1 import KUBEADM_CONFIG, KUBEADM_CONFIG_TEMPLATE
from kubewright.api.cluster.manifests import AGE, PAUSED, provider_labels
from kubewright.api.cluster.names import CLUSTER_NAME_LABEL, KUBEADM_BOOTSTRAP_PROVIDER
from kubewright.api.cluster.v1beta1 import CATEGORIES
from kubewright.api.cluster.v1beta1 import GROUP as CORE
from kubewright.api.crd import Column, Definition, crd
from kubewright.api.machine.manifests import HEADER, as_yaml
from kubewright.api.rbac import ONE_NAMESPACE, READ, WRITE, Rule, granted, of_users, within

LABELS = provider_labels(KUBEADM_BOOTSTRAP_PROVIDER)
OF_CLUSTER = Column(
    "Cluster",
    ".metadata.labels['" + CLUSTER_NAME_LABEL.replace(".", "\\.") + "']",
    description="The cluster that the machine belongs to, from the object's label.",
)


def _owner(kind: str) -> Column:
    path = f'.metadata.ownerReferences[?(@.kind=="{kind}")].name'
    return Column(kind, path, description=f"The {kind} that owns it.")


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

V1BETA2 = (
    replace(
        DEFINITIONS[0],
        kind=v1beta2.KUBEADM_CONFIG,
        columns=(
            OF_CLUSTER,
            PAUSED,
            Column(
                "Data secret created",
                ".status.initialization.dataSecretCreated",
                description="Whether the data has been in its Secret.",
            ),
            AGE,
        ),
    ),
    replace(
        DEFINITIONS[1],
        kind=v1beta2.KUBEADM_CONFIG_TEMPLATE,
        columns=(_owner("ClusterClass"), _owner("Cluster"), AGE),
    ),
)
"""The same kinds as they are served today."""


def crds() -> tuple[dict[str, Any], ...]:
    """Both, in the order in which to install them."""
    return tuple(crd(each) for each in DEFINITIONS)


def crds_of_today() -> tuple[dict[str, Any], ...]:
    """The same with v1beta2 beside: for servers that convert."""
    return tuple(map(crd, DEFINITIONS, V1BETA2))


KINDS = ("kubeadmconfigs", "kubeadmconfigtemplates")

PROVIDER = (
    Rule(GROUP, KINDS[:1], (*READ, "patch"), "how machines join; what is filled in"),
    Rule(GROUP, ("kubeadmconfigs/status",), ("patch",), "whether the data is there"),
    Rule(GROUP, KINDS[1:], READ, "the kind is served: what starting up waits for"),
    Rule(CORE, ("clusters", "machines"), READ, "whose data it is, and when it can be made"),
    Rule("", ("secrets",), (*READ, "create", "patch"), "data, certificates, kubeconfigs"),
    Rule("", ("configmaps",), (*READ, "create", "delete"), "the init locks"),
    Rule("", ("events",), ("create", "patch"), "what users should know"),
    Rule("coordination.k8s.io", ("leases",), ("get", "create", "update"), "which replica works"),
)


def files() -> dict[str, str]:
    """The manifests as files of ``deploy/clusters``: name to text."""
    return {"bootstrap-rbac.yaml": HEADER + as_yaml(manifest())}


def files_of_one_namespace() -> dict[str, str]:
    """The same for a program that works in one namespace, as files of ``deploy/one-namespace``."""
    return {"bootstrap-rbac.yaml": HEADER + as_yaml(within(ONE_NAMESPACE, "kubewright-bootstrap", PROVIDER))}


def manifest() -> list[dict[str, Any]]:
    """The role of the provider, bound to our account."""
    return granted("ClusterRole", "kubewright-bootstrap", PROVIDER)


def roles_of_users() -> list[dict[str, Any]]:
    """Who may edit what is in a namespace may do so with how its machines join.

    Nothing for those who may only view: a KubeadmConfig may hold a bootstrap token, files and passwords, so
    it is shown to those who may read Secrets.
    """
    return [of_users("bootstrap", "edit", GROUP, [*KINDS, "kubeadmconfigs/status"], (*READ, *WRITE))]
