"""What the infrastructure provider may do on the management cluster; and what users may.

Theory.      It reads Clusters and Machines, and writes its own kinds alone: a Cluster is written by its own
             controller (S2-18). Of Secrets it reads bootstrap data and credentials, and puts a finalizer onto
             these. VMs are the cloud's, and need no rule here.
Source       capi.md §3.2, §3.4; S2-18.
Called by    ``make gen``, which writes ``deploy/clusters`` and ``deploy/one-namespace``; ``compose.embedded``
             (the roles of users).
"""

from typing import Any

from kubewright.api.cluster.v1beta1 import GROUP as CORE
from kubewright.api.infra.v1beta1 import GROUP
from kubewright.api.machine.crds import HEADER, as_yaml
from kubewright.api.rbac import ONE_NAMESPACE, READ, WRITE, Rule, granted, of_users, within

KINDS = ("kubewrightclusters", "kubewrightmachines", "kubewrightmachinetemplates")
TEMPLATES = (*KINDS[2:], "kubewrightclustertemplates")
STATUS = tuple(f"{kind}/status" for kind in KINDS)

PROVIDER = (
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
    found = within(ONE_NAMESPACE, "kubewright-infrastructure", PROVIDER)
    return {"infrastructure-rbac.yaml": HEADER + as_yaml(found)}


def manifest() -> list[dict[str, Any]]:
    """The role of the provider, bound to our account."""
    return granted("ClusterRole", "kubewright-infrastructure", PROVIDER)


def roles_of_users() -> list[dict[str, Any]]:
    """What users may do with infrastructure: as with clusters. Credentials are in Secrets, not here."""
    kinds = (*KINDS[:2], *TEMPLATES)
    return [
        of_users("infrastructure", "view", GROUP, [*kinds, *STATUS], READ),
        of_users("infrastructure", "edit", GROUP, kinds, WRITE),
    ]
