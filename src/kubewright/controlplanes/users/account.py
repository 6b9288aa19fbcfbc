"""What a user has in the control plane, and the kubeconfig that goes with it, as values. Pure.

Theory.      A token is one of a ServiceAccount that may do one thing: impersonate this user in these groups.
             The kubeconfig names them in ``as`` and ``as-groups``. So a request with the token has the name
             and the groups of the user, and kube-apiserver checks at each that the account exists and may
             impersonate them. The account is in kube-system, where none but administrators make tokens.
Invariants.  No repr shows a token. Names follow from that of the ControlPlaneUser, which is
             unique for a control plane: all its users are in its namespace.
Source       decision 0038; kube-apiserver's impersonation and bound tokens.
Called by    ``tokens``, which decides; ``connection``, which reads and writes them; ``kubeconfigs``.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from kubewright.api.controlplane.names import USER_LABEL
from kubewright.api.controlplane.v1alpha4 import ControlPlaneUser
from kubewright.api.core import CLUSTER_ROLE
from kubewright.api.kinds import dynamic
from kubewright.wire.gvk import Key, Resource
from kubewright.wire.http import User

Json = Mapping[str, Any]

RBAC = "rbac.authorization.k8s.io"
ACCOUNT = dynamic(Resource("", "v1", "serviceaccounts", "ServiceAccount"))
ROLE = CLUSTER_ROLE
BINDING = dynamic(Resource(RBAC, "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False))
NAMESPACE = "kube-system"
ACCOUNT_PREFIX, ROLE_PREFIX = "kubewright-user-", "kubewright:user:"


def account_key(user: str) -> Key:
    """The ServiceAccount of a ControlPlaneUser of this name."""
    return Key(NAMESPACE, f"{ACCOUNT_PREFIX}{user}")


def role_key(user: str) -> Key:
    """Its ClusterRole, and the ClusterRoleBinding of the same name."""
    return Key("", f"{ROLE_PREFIX}{user}")


def identity(user: ControlPlaneUser) -> User:
    """Who the user is in the control plane."""
    return User(user.spec.user or user.name, user.spec.groups)


def account(user: ControlPlaneUser) -> dict[str, Any]:
    """The ServiceAccount."""
    return {"metadata": _metadata(account_key(user.name)), "automountServiceAccountToken": False}


def role(user: ControlPlaneUser) -> dict[str, Any]:
    """The ClusterRole: it may impersonate this name and these groups, and nothing else."""
    who = identity(user)
    named = {"users": [who.name], "groups": list(who.groups)}
    rules = [_rule(resource, names) for resource, names in named.items() if names]  # no name would mean all
    return {"metadata": _metadata(role_key(user.name)), "rules": rules}


def binding(user: ControlPlaneUser) -> dict[str, Any]:
    """The ClusterRoleBinding of both."""
    key = account_key(user.name)
    return {
        "metadata": _metadata(role_key(user.name)),
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role_key(user.name).name},
        "subjects": [{"kind": "ServiceAccount", "name": key.name, "namespace": key.namespace}],
    }


def is_ours(found: Json) -> bool:
    """Whether we have created this object: it has our label."""
    return USER_LABEL in (found["metadata"].get("labels") or {})


def _metadata(key: Key) -> dict[str, Any]:
    place = {"namespace": key.namespace} if key.namespace else {}
    return {"name": key.name, "labels": {USER_LABEL: ""}, **place}


def _rule(resource: str, names: list[str]) -> dict[str, Any]:
    return {"apiGroups": [""], "resources": [resource], "resourceNames": names, "verbs": ["impersonate"]}


@dataclass(frozen=True, slots=True)
class AccountObjects:
    """The objects that a user has in the control plane; None: that one does not exist.

    ``refuses``  whether the API server does not accept the token that is in the Secret
    """

    account: Json | None = None
    role: Json | None = None
    binding: Json | None = None
    refuses: bool = False

    @property
    def uid(self) -> str:
        """The uid of the account; empty: there is none."""
        return str((self.account or {}).get("metadata", {}).get("uid", ""))


@dataclass(frozen=True, slots=True)
class TokenKubeconfig:
    """A kubeconfig with a token.

    ``server``, ``authority``  the URL of the API server, and the authority that it trusts (PEM)
    ``user``        whom it impersonates
    ``account``     the uid of the account that the token is of
    ``issued``, ``expires``  the life of the token
    """

    token: str = field(repr=False)
    server: str
    authority: bytes
    user: User
    account: str
    issued: datetime
    expires: datetime
