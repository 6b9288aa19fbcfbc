"""What our controllers may do on the clusters they work on: the least that they need.

Theory.      Two tables of rules, one for the control cluster (the machine objects) and one for
             the target cluster (the nodes); on one cluster both are bound to the same account.
             We never PUT, so ``update`` stands only where a Lease is renewed, and where admission
             asks for it. Secrets of the target cluster are touched in ``kube-system`` alone,
             where bootstrap tokens live.
Source       mcm.md §10.6, less what only upstream needs.
Called by    ``make gen``, which writes ``deploy/rbac``.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kubewright.api.machine.crds import HEADER, as_yaml
from kubewright.api.machine.v1alpha1 import GROUP

ACCOUNT, NAMESPACE = "kubewright", "kubewright-system"

READ = ("get", "list", "watch")


@dataclass(frozen=True, slots=True)
class Rule:
    """Some verbs on some resources of one group; ``why`` is for readers of the manifest's source."""

    group: str
    resources: Sequence[str]
    verbs: Sequence[str]
    why: str


KINDS = ("machineclasses", "machines", "machinesets", "machinedeployments")

CONTROL = (
    Rule(GROUP, KINDS, (*READ, "create", "patch", "delete"), "the machines and what they are made from"),
    Rule(GROUP, [f"{kind}/status" for kind in KINDS[1:]], ("patch",), "what became of them"),
    Rule(
        GROUP,
        ("machinesets/finalizers", "machinedeployments/finalizers"),
        ("update",),
        "owner references that hold their owner, where admission checks them",
    ),
    Rule(
        "", ("secrets",), (*READ, "patch"), "user data and credentials; a finalizer while a class needs them"
    ),
    Rule("", ("events",), ("create", "patch"), "what people should know"),
    Rule("coordination.k8s.io", ("leases",), ("get", "create", "update"), "which replica works"),
)

TARGET = (
    Rule("", ("nodes",), (*READ, "patch", "delete"), "labels, taints, cordon; gone when the VM is"),
    Rule("", ("nodes/status",), ("patch",), "the Terminating condition"),
    Rule("", ("pods",), (*READ, "delete"), "draining; deletion only when eviction no longer helps"),
    Rule("", ("pods/eviction",), ("create",), "draining"),
    Rule("", ("persistentvolumes", "persistentvolumeclaims"), READ, "which volumes a pod holds"),
    Rule("policy", ("poddisruptionbudgets",), READ, "why an eviction is refused"),
    Rule("storage.k8s.io", ("volumeattachments",), (*READ, "delete"), "volumes that must detach first"),
)

TOKENS = (Rule("", ("secrets",), ("get", "create", "delete"), "bootstrap tokens"),)


def files() -> dict[str, str]:
    """The manifests as files of ``deploy/rbac``: name to text."""
    return {name: HEADER + as_yaml(objects) for name, objects in manifests().items()}


def manifests() -> dict[str, list[dict[str, Any]]]:
    """The objects to apply, by file name: one file for each cluster."""
    return {
        "control.yaml": _granted("ClusterRole", "kubewright-control", CONTROL),
        "target.yaml": [
            *_granted("ClusterRole", "kubewright-target", TARGET),
            *_granted("Role", "kubewright-bootstrap-tokens", TOKENS, namespace="kube-system"),
        ],
    }


def _granted(kind: str, name: str, rules: Sequence[Rule], namespace: str = "") -> list[dict[str, Any]]:
    """A role and its binding to our account."""
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    group = "rbac.authorization.k8s.io"
    role = {
        "apiVersion": f"{group}/v1",
        "kind": kind,
        "metadata": metadata,
        "rules": [
            {"apiGroups": [rule.group], "resources": list(rule.resources), "verbs": list(rule.verbs)}
            for rule in rules
        ],
    }
    binding = {
        "apiVersion": f"{group}/v1",
        "kind": f"{kind}Binding",
        "metadata": dict(metadata),
        "roleRef": {"apiGroup": group, "kind": kind, "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE}],
    }
    return [role, binding]
