"""What an administrator installs for the infrastructure provider: its CRDs, and what it and users may do.

Theory.      Category, contract label and provider label are what Cluster API's core and clusterctl look for;
             the columns are those that infrastructure providers usually have. The provider reads Clusters and
             Machines, and writes its own kinds alone: a Cluster is written by its own controller. Of Secrets
             it reads bootstrap data and credentials, and puts a finalizer onto these. VMs are the cloud's,
             and need no rule here.
Called by    ``kubewright crds``, ``make gen`` (``deploy/clusters``, ``deploy/one-namespace``), the world of
             infrastructure, and ``compose.embedded`` (the roles of users).
"""

from collections.abc import Sequence
from typing import Any

from kubewright.api.cluster.manifests import AGE, provider_labels
from kubewright.api.cluster.v1beta1 import CATEGORIES
from kubewright.api.cluster.v1beta1 import GROUP as CORE
from kubewright.api.crd import Column, Definition, crd
from kubewright.api.infra.names import PROVIDER
from kubewright.api.infra.v1beta1 import (
    GROUP,
    KUBEWRIGHT_CLUSTER,
    KUBEWRIGHT_CLUSTER_TEMPLATE,
    KUBEWRIGHT_MACHINE,
    KUBEWRIGHT_MACHINE_TEMPLATE,
)
from kubewright.api.kinds import Kind
from kubewright.api.machine.manifests import HEADER, as_yaml
from kubewright.api.rbac import ONE_NAMESPACE, READ, WRITE, Rule, granted, of_users, within

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


KINDS = ("kubewrightclusters", "kubewrightmachines", "kubewrightmachinetemplates")
TEMPLATES = (*KINDS[2:], "kubewrightclustertemplates")
STATUS = tuple(f"{kind}/status" for kind in KINDS)

PROVIDER_RULES = (
    Rule(GROUP, KINDS[:2], (*READ, "patch"), "what is wanted; finalizers, endpoints, providerIDs"),
    Rule(GROUP, KINDS[1:2], ("delete",), "machines of a cluster that is deleted, which nothing owns"),
    Rule(GROUP, KINDS[2:], READ, "templates whose nodes are described"),
    Rule(GROUP, STATUS, ("patch",), "what became of them"),
    Rule(CORE, ("clusters", "machines"), READ, "who owns them, and whether it is their turn"),
    Rule(
        "", ("secrets",), (*READ, "patch"), "bootstrap data; credentials, and the finalizer that keeps them"
    ),
    Rule("", ("events",), ("create", "patch"), "what users should know"),
    Rule("coordination.k8s.io", ("leases",), ("get", "create", "update"), "which replica works"),
)


def files() -> dict[str, str]:
    """The manifests as files of ``deploy/clusters``: name to text."""
    return {"infrastructure-rbac.yaml": HEADER + as_yaml(manifest())}


def files_of_one_namespace() -> dict[str, str]:
    """The same for a program that works in one namespace, as files of ``deploy/one-namespace``."""
    found = within(ONE_NAMESPACE, "kubewright-infrastructure", PROVIDER_RULES)
    return {"infrastructure-rbac.yaml": HEADER + as_yaml(found)}


def manifest() -> list[dict[str, Any]]:
    """The role of the provider, bound to our account."""
    return granted("ClusterRole", "kubewright-infrastructure", PROVIDER_RULES)


def roles_of_users() -> list[dict[str, Any]]:
    """What users may do with infrastructure: as with clusters. Credentials are in Secrets, not here."""
    kinds = (*KINDS[:2], *TEMPLATES)
    return [
        of_users("infrastructure", "view", GROUP, [*kinds, *STATUS], READ),
        of_users("infrastructure", "edit", GROUP, kinds, WRITE),
    ]
