"""What the bootstrap provider may do on the management cluster; and what users may.

Theory.      It reads clusters and machines, writes its own kind, and makes Secrets; the core has its rules in
             a table of its own, since the two may run apart. Workload clusters are reached by their
             kubeconfigs, and need no rule here.
Source       capi.md §9; S1-31. Less than upstream: no owner of a machine but a Machine is read.
Called by    ``make gen``, which writes ``deploy/clusters`` and ``deploy/one-namespace``; ``compose.embedded``
             (the roles of users).
"""

from typing import Any

from kubewright.api.bootstrap.names import GROUP
from kubewright.api.cluster.v1beta1 import GROUP as CORE
from kubewright.api.machine.crds import HEADER, as_yaml
from kubewright.api.rbac import ONE_NAMESPACE, READ, WRITE, Rule, granted, of_users, within

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
