"""RBAC manifests of ours: rules, and the roles and bindings that grant them. Pure.

Theory.      A controller's account gets what one table of rules says, and each API has its own table. Users
             get theirs through the roles ``view``, ``edit`` and ``admin`` of Kubernetes, which gather the
             rules of labelled ClusterRoles.
Invariants.  We never PUT, so ``update`` stands only where a Lease is renewed, and where admission asks for
             it.
Called by    the module ``rbac`` of ``machine``, ``cluster``, ``bootstrap``, ``infra`` and ``webhooks``: each
             has the tables of its API.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

ACCOUNT, NAMESPACE = "kubewright", "kubewright-system"

RBAC = "rbac.authorization.k8s.io"
ONE_NAMESPACE = "clusters"
"""The namespace of the examples for a program that works in one; readers put theirs in its place."""

READ = ("get", "list", "watch")
WRITE = ("create", "delete", "deletecollection", "patch", "update")


@dataclass(frozen=True, slots=True)
class Rule:
    """Some verbs on some resources of one group; ``why`` is for readers of the manifest's source.

    ``everywhere``: the resources have no namespace, so no Role can grant it.
    ``names``: only on objects of these names; empty: on all.
    """

    group: str
    resources: Sequence[str]
    verbs: Sequence[str]
    why: str
    everywhere: bool = False
    names: Sequence[str] = ()

    def plain(self) -> dict[str, Any]:
        """The rule as it stands in a role."""
        only = {"resourceNames": list(self.names)} if self.names else {}
        return {
            "apiGroups": [self.group],
            "resources": list(self.resources),
            **only,
            "verbs": list(self.verbs),
        }


def granted(kind: str, name: str, rules: Sequence[Rule], namespace: str = "") -> list[dict[str, Any]]:
    """A role and its binding to our account."""
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    role = {
        "apiVersion": f"{RBAC}/v1",
        "kind": kind,
        "metadata": metadata,
        "rules": [rule.plain() for rule in rules],
    }
    return [role, bound(kind, name, namespace)]


def within(namespace: str, name: str, rules: Sequence[Rule]) -> list[dict[str, Any]]:
    """The same rules for a program that works in one namespace; what has none is granted as it is."""
    apart = [each for each in rules if each.everywhere]
    return [
        *granted("Role", name, [each for each in rules if not each.everywhere], namespace),
        *(granted("ClusterRole", f"{name}-everywhere", apart) if apart else ()),
    ]


def gathered(name: str, labels: Mapping[str, str]) -> list[dict[str, Any]]:
    """A ClusterRole that has the rules of all those with these labels, and its binding to our account."""
    role = {
        "apiVersion": f"{RBAC}/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name},
        "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": dict(labels)}]},
        "rules": [],
    }
    return [role, bound("ClusterRole", name)]


def bound(kind: str, name: str, namespace: str = "") -> dict[str, Any]:
    """The binding of a role to our account."""
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": f"{kind}Binding",
        "metadata": {"name": name, **({"namespace": namespace} if namespace else {})},
        "roleRef": {"apiGroup": RBAC, "kind": kind, "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE}],
    }


def of_users(
    name: str, role: str, group: str, resources: Sequence[str], verbs: Sequence[str]
) -> dict[str, Any]:
    """A ClusterRole that becomes part of a role of users: of ``view``, ``edit`` or ``admin``."""
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": "ClusterRole",
        "metadata": {"name": f"kubewright-{name}-{role}", "labels": {f"{RBAC}/aggregate-to-{role}": "true"}},
        "rules": [{"apiGroups": [group], "resources": list(resources), "verbs": list(verbs)}],
    }
