"""What the core controllers of Cluster API may do on the management cluster; and what users may.

Theory.      As upstream's, the role of the core has everything in the groups of its providers, because a
             provider's kinds are not known beforehand; a provider of another group adds its rules in a
             ClusterRole with the label ``cluster.x-k8s.io/aggregate-to-manager``, which ours gathers.
             Workload clusters are reached by their kubeconfigs, and need no rule here.
Source       capi.md appendix E; S1-31 to S1-33; less what only upstream needs.
Called by    ``make gen``, which writes ``deploy/clusters`` and ``deploy/one-namespace``; ``compose.embedded``
             (the roles of users).
"""

from typing import Any

from kubewright.api.cluster import names
from kubewright.api.cluster.v1beta1 import GROUP
from kubewright.api.machine.crds import HEADER, as_yaml
from kubewright.api.rbac import ONE_NAMESPACE, READ, WRITE, Rule, gathered, granted, of_users, within

KINDS = ("clusters", "machines", "machinesets", "machinedeployments", "machinehealthchecks")
RULES = ("machinedrainrules",)
SCALES = ("machinesets/scale", "machinedeployments/scale")
PROVIDERS = tuple(f"{part}.{GROUP}" for part in ("infrastructure", "bootstrap", "controlplane"))

CORE = (
    Rule(GROUP, KINDS, (*READ, "patch"), "what is wanted; finalizers, owners, labels"),
    Rule(GROUP, KINDS[1:4], ("create", "delete"), "deployments make sets, sets make machines"),
    Rule(GROUP, [f"{kind}/status" for kind in KINDS], ("patch",), "what became of them"),
    Rule(
        GROUP,
        [f"{kind}/finalizers" for kind in KINDS],
        ("update",),
        "owner references that block the deletion of their owner, where admission checks them",
    ),
    Rule(GROUP, RULES, ("list",), "which pods a drain leaves alone, and which leave first"),
    *(
        Rule(group, ("*",), (*READ, "create", "patch", "delete"), "objects of providers")
        for group in PROVIDERS
    ),
    Rule(
        "apiextensions.k8s.io",
        ("customresourcedefinitions",),
        READ,
        "which kinds providers have",
        everywhere=True,
    ),
    Rule(
        "",
        ("secrets",),
        (*READ, "create", "patch"),
        "kubeconfigs of clusters, and the authorities that sign them",
    ),
    Rule("", ("events",), ("create", "patch"), "what users should know"),
    Rule("coordination.k8s.io", ("leases",), ("get", "create", "update"), "which replica works"),
)


def files() -> dict[str, str]:
    """The manifests as files of ``deploy/clusters``: name to text."""
    return {"core-rbac.yaml": HEADER + as_yaml(manifest())}


def files_of_one_namespace() -> dict[str, str]:
    """The same for a program that works in one namespace, as files of ``deploy/one-namespace``."""
    return {"core-rbac.yaml": HEADER + as_yaml(within(ONE_NAMESPACE, "kubewright-clusters", CORE))}


def manifest() -> list[dict[str, Any]]:
    """The roles of the core controllers, bound to our account."""
    label = {names.AGGREGATE_TO_MANAGER_LABEL: "true"}
    return [
        *granted("ClusterRole", "kubewright-clusters", CORE),
        *gathered("kubewright-clusters-providers", label),
    ]


def roles_of_users() -> list[dict[str, Any]]:
    """What users may do with clusters: who may see or edit what is in a namespace may do so with them too."""
    seen = [*KINDS, *RULES, *(f"{kind}/status" for kind in KINDS), *SCALES]
    return [
        of_users("clusters", "view", GROUP, seen, READ),
        of_users("clusters", "edit", GROUP, [*KINDS, *RULES, *SCALES], WRITE),
    ]
