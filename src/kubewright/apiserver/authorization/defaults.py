"""The roles and bindings of every cluster, made when they are missing.

Theory.      Those that people and tools refer to by name, and those of programs that could stand
             beside this server (a scheduler, a kubelet). Roles of controllers and add-ons that have
             no place here are left out; docs/reference/api-differences.md says which.
             ``admin``, ``edit`` and ``view`` have no rules of their own: they gather those of all
             ClusterRoles with their label, so that every API group can add to them.
Invariants.  Data only. All carry the mark of defaults, and the annotation that keeps them up to date.
Called by    ``bootstrap``.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kubewright.apiserver.authorization.attributes import MASTERS
from kubewright.apiserver.authorization.default_rules import READER, RULES
from kubewright.apiserver.authorization.escalation import GROUP
from kubewright.apiserver.authorization.reconciliation import AUTOUPDATE
from kubewright.apiserver.authorization.rules import Rule

AGGREGATE_TO = "rbac.authorization.k8s.io/aggregate-to-"
"""The label of ClusterRoles that ``admin``, ``edit`` or ``view`` gather, but for its last word."""

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
"""Which ClusterRole is gathered by which."""

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
"""ClusterRoles that are bound from the start, and to whom."""

_READER = "extension-apiserver-authentication-reader"
_SYSTEM = "kube-system"

Object = dict[str, Any]


def objects() -> list[Object]:
    """All of them, roles before bindings."""
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
