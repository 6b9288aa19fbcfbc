"""The roles and bindings that every cluster has; the server makes those that are missing.

Theory.      Those that people and tools refer to by name, and those of programs that could work with
             this server (a scheduler, a kubelet). Roles of controllers and add-ons that do not run
             here are left out; docs/reference/api-differences.md says which.
             ``admin``, ``edit`` and ``view`` have no rules of their own: a controller
             (``builtin.aggregation``) writes into them the rules of all ClusterRoles with their label,
             so that an API can add to them.
Invariants.  Data only. All carry the label of defaults, and the annotation that lets the server update them.
Called by    ``bootstrap``.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kubewright.apiserver.authorization.attributes import GROUP, MASTERS
from kubewright.apiserver.authorization.default_rules import READER, RULES
from kubewright.apiserver.authorization.reconciliation import AUTOUPDATE
from kubewright.apiserver.authorization.rules import Rule

AGGREGATE_TO = "rbac.authorization.k8s.io/aggregate-to-"
"""The label by which ``admin``, ``edit`` or ``view`` selects a ClusterRole, without that last word."""

_MARKS = {
    "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"},
    "annotations": {AUTOUPDATE: "true"},
}
_GATHERED: Mapping[str, str] = {
    "system:aggregate-to-admin": "admin",
    "system:aggregate-to-edit": "edit",
    "system:aggregate-to-view": "view",
    "edit": "admin",
    "view": "edit",
}
"""By a ClusterRole's name: the ClusterRole that aggregates its rules."""

_BOUND: Mapping[str, Sequence[tuple[str, str]]] = {
    "cluster-admin": [("Group", MASTERS)],
    "system:basic-user": [("Group", "system:authenticated")],
    "system:discovery": [("Group", "system:authenticated")],
    "system:kube-controller-manager": [("User", "system:kube-controller-manager")],
    "system:kube-scheduler": [("User", "system:kube-scheduler")],
    "system:monitoring": [("Group", "system:monitoring")],
    "system:node": [],
    "system:public-info-viewer": [("Group", "system:authenticated"), ("Group", "system:unauthenticated")],
    "system:volume-scheduler": [("User", "system:kube-scheduler")],
}
"""By a ClusterRole's name: the subjects of its default ClusterRoleBinding."""

_READER = "extension-apiserver-authentication-reader"
_SYSTEM = "kube-system"

Object = dict[str, Any]


def objects() -> list[Object]:
    """All default objects, roles before bindings."""
    roles = [_role("ClusterRole", name, rules) for name, rules in RULES.items()]
    gathering = [_gathering(name) for name in ("admin", "edit", "view")]
    bindings = [_binding("ClusterRole", name, name, subjects) for name, subjects in _BOUND.items()]
    programs = [("User", "system:kube-controller-manager"), ("User", "system:kube-scheduler")]
    return [
        *roles,
        *gathering,
        _role("Role", _READER, READER),
        *bindings,
        _binding("Role", f"system::{_READER}", _READER, programs),
    ]


def _role(kind: str, name: str, rules: Iterable[Rule]) -> Object:
    return {**_head(kind, name), "rules": [rule.wire() for rule in rules]}


def _gathering(name: str) -> Object:
    selector = {"matchLabels": {f"{AGGREGATE_TO}{name}": "true"}}
    return {
        **_head("ClusterRole", name),
        "aggregationRule": {"clusterRoleSelectors": [selector]},
        "rules": [],
    }


def _binding(kind: str, name: str, role: str, subjects: Iterable[tuple[str, str]]) -> Object:
    named = [{"kind": each, "apiGroup": GROUP, "name": subject} for each, subject in subjects]
    ref = {"apiGroup": GROUP, "kind": kind, "name": role}
    return {**_head(f"{kind}Binding", name), "roleRef": ref, **({"subjects": named} if named else {})}


def _head(kind: str, name: str) -> Object:
    labels = dict(_MARKS["labels"])
    if name in _GATHERED and kind == "ClusterRole":
        labels[f"{AGGREGATE_TO}{_GATHERED[name]}"] = "true"
    place = {} if kind.startswith("Cluster") else {"namespace": _SYSTEM}
    metadata = {"name": name, **place, "labels": labels, "annotations": dict(_MARKS["annotations"])}
    return {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": metadata}
