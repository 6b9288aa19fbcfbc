"""What our controllers may do on the clusters they work on: the least that they need; and what users may.

Theory.      Two tables of rules, one for the control cluster (the machine objects) and one for
             the target cluster (the nodes); on one cluster both are bound to the same account.
             Secrets of the target cluster are touched in ``kube-system`` alone,
             where bootstrap tokens live.
Invariants.  A verb stands here when a life of machines needs it, and only then: a test runs that life
             under these very roles, and fails for what is refused and for what was never asked.
Source       mcm.md §10.6, less what only upstream needs.
Called by    ``make gen``, which writes ``deploy/rbac``; ``compose.embedded`` (the roles of users).
"""

from typing import Any

from kubewright.api.machine.crds import HEADER, as_yaml
from kubewright.api.machine.v1alpha1 import GROUP
from kubewright.api.rbac import READ, WRITE, Rule, granted, of_users

RESOURCES = ("machineclasses", "machines", "machinesets", "machinedeployments")

CLASSES, *FLEET = RESOURCES
SCALES = [f"{kind}/scale" for kind in FLEET[1:]]

CONTROL = (
    Rule(GROUP, RESOURCES, ("list", "watch", "patch"), "what is wanted; finalizers, sizes, VM names"),
    Rule(GROUP, RESOURCES[1:], ("get",), "live reads before an adoption, or the collection of a VM"),
    Rule(
        GROUP, ("machines", "machinesets"), ("create", "delete"), "deployments make sets, sets make machines"
    ),
    Rule(GROUP, [f"{kind}/status" for kind in RESOURCES[1:]], ("patch",), "what became of them"),
    Rule(
        GROUP,
        ("machinesets/finalizers", "machinedeployments/finalizers"),
        ("update",),
        "owner references that block the deletion of their owner, where admission checks them",
    ),
    Rule(
        "",
        ("secrets",),
        ("list", "watch", "patch"),
        "user data and credentials; a finalizer while a class needs them",
    ),
    Rule("", ("events",), ("create", "patch"), "what users should know"),
    Rule("coordination.k8s.io", ("leases",), ("get", "create", "update"), "which replica works"),
)

TARGET = (
    Rule("", ("nodes",), (*READ, "patch", "delete"), "labels, taints, cordon; gone when the VM is"),
    Rule("", ("nodes/status",), ("patch",), "the Terminating condition"),
    Rule("", ("pods",), ("list", "delete"), "draining; deletion only when eviction no longer helps"),
    Rule("", ("pods/eviction",), ("create",), "draining"),
    Rule("", ("persistentvolumeclaims",), ("get",), "which volumes a pod leaves behind"),
    Rule("policy", ("poddisruptionbudgets",), ("list",), "which budget blocks a drain"),
    Rule(
        "storage.k8s.io",
        ("volumeattachments",),
        ("list", "watch", "delete"),
        "volumes that must detach before their VM goes",
    ),
)

TOKENS = (Rule("", ("secrets",), ("create", "patch", "delete"), "bootstrap tokens; a retry moves their end"),)


def files() -> dict[str, str]:
    """The manifests as files of ``deploy/rbac``: name to text."""
    return {name: HEADER + as_yaml(objects) for name, objects in manifests().items()}


def manifests() -> dict[str, list[dict[str, Any]]]:
    """The objects to apply, by file name: one file for each cluster."""
    return {
        "control.yaml": granted("ClusterRole", "kubewright-control", CONTROL),
        "target.yaml": [
            *granted("ClusterRole", "kubewright-target", TARGET),
            *granted("Role", "kubewright-bootstrap-tokens", TOKENS, namespace="kube-system"),
        ],
    }


def roles_of_users() -> list[dict[str, Any]]:
    """What users may do with machine objects: parts of the roles ``view``, ``edit`` and ``admin``.

    Kubernetes' roles for users gather the rules of labelled ClusterRoles, and ``admin`` gathers ``edit``,
    which gathers ``view``. Who may see what is in a namespace may see its machines; who may change its
    workloads may change machines, sets and deployments. A MachineClass is different: it names Secrets of
    any namespace and decides what is bought with them, so to write one is left to cluster admins.
    """
    seen = [CLASSES, *FLEET, *(f"{kind}/status" for kind in FLEET), *SCALES]
    return [
        of_users("machines", "view", GROUP, seen, READ),
        of_users("machines", "edit", GROUP, [*FLEET, *SCALES], WRITE),
    ]
