"""What is seen of one user of a control plane, what it has there, and the steps, as values. Pure.

Theory.      A token is one of a ServiceAccount that may do one thing: impersonate this user in these groups.
             The kubeconfig names them in ``as`` and ``as-groups``. So a request with the token has the name
             and the groups of the user, and kube-apiserver checks at each that the account exists and may
             impersonate them. The account is in kube-system, where none but administrators make tokens
             (decision 0038).
Invariants.  No repr shows a token or what is in a Secret. Names follow from that of the ControlPlaneUser,
             which is unique for a control plane: all its users are in its namespace.
Called by    ``decide``; ``wiring`` makes a ``Seen``; ``connection`` reads and writes what is in the control
             plane; ``kubeconfigs``.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from kubewright.api.cluster.names import KUBECONFIG_SUFFIX
from kubewright.api.controlplane.names import USER_LABEL
from kubewright.api.controlplane.v1alpha4 import API_VERSION, CONTROL_PLANE_USER, ControlPlaneUser, Credential
from kubewright.api.core import CLUSTER_ROLE
from kubewright.api.kinds import dynamic
from kubewright.api.meta import OwnerReference, owner_of
from kubewright.base import plan
from kubewright.controlplanes.family import Family, Pause
from kubewright.pki.credentials import Purpose, secret_name
from kubewright.pki.keyring import Make
from kubewright.runtime.credentials.values import Found, url
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


def account_of(user: ControlPlaneUser) -> dict[str, Any]:
    """The ServiceAccount."""
    return {"metadata": _metadata(account_key(user.name)), "automountServiceAccountToken": False}


def role_of(user: ControlPlaneUser) -> dict[str, Any]:
    """The ClusterRole: it may impersonate this name and these groups, and nothing else."""
    who = identity(user)
    named = {"users": [who.name], "groups": list(who.groups)}
    rules = [_rule(resource, names) for resource, names in named.items() if names]  # no name would mean all
    return {"metadata": _metadata(role_key(user.name)), "rules": rules}


def binding_of(user: ControlPlaneUser) -> dict[str, Any]:
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


@dataclass(frozen=True, slots=True)
class AddFinalizer:
    """Add our finalizer, before there is anything of the user in the control plane."""


@dataclass(frozen=True, slots=True)
class Grant:
    """Create the account, and let it impersonate exactly this user and these groups."""


@dataclass(frozen=True, slots=True)
class Issue:
    """Ask for a token, and write a kubeconfig with it into the Secret. ``because``: a clause."""

    because: str


@dataclass(frozen=True, slots=True)
class Revoke:
    """Delete the account and what it may do, so that no token of it is good any more."""


@dataclass(frozen=True, slots=True)
class RemoveFinalizer:
    """Remove our finalizer."""


Step = AddFinalizer | Grant | Issue | Revoke | RemoveFinalizer | Make


@dataclass(frozen=True, slots=True)
class Plan(plan.Plan[Step]):
    """What to do now with a user.

    ``waiting``   what has to happen first elsewhere, a clause each
    ``problems``  what a user has to mend, a sentence each
    ``silent``    not even the status is written
    """

    waiting: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    silent: bool = False


@dataclass(frozen=True, slots=True)
class Seen:
    """One user, and all around it. ``family`` None: the control plane does not exist.

    ``pause``    by what it is paused; None: it is not
    ``problem``  how its spec breaks the rules of its kind, a sentence
    ``found``    the Secrets of the kubeconfig and of its authority that exist, by name
    ``held``     the kubeconfig with a token that is in the Secret; None: there is none
    ``objects``  what the user has in the control plane; None: it was not asked
    ``unreachable``  why the control plane cannot be asked now, a clause; empty: it can
    ``unheard``  whether no event tells when it can
    ``refused``  why the API server of the control plane refused us, a clause
    """

    user: ControlPlaneUser
    now: datetime
    family: Family | None = None
    pause: Pause | None = None
    problem: str = ""
    found: Mapping[str, Found] = field(default_factory=dict, repr=False)
    held: TokenKubeconfig | None = None
    objects: AccountObjects | None = None
    unreachable: str = ""
    unheard: bool = False
    refused: str = ""

    @property
    def owner(self) -> OwnerReference:
        """The owner reference of the Secret, so that it is deleted with the object."""
        return owner_of(self.user, API_VERSION, CONTROL_PLANE_USER.resource.kind)

    @property
    def by_token(self) -> bool:
        """Whether the kubeconfig is to have a token."""
        return self.user.spec.credential != Credential.CERTIFICATE

    @property
    def cluster(self) -> str:
        """The name with which names of Secrets begin; empty: there is no control plane."""
        return self.family.name if self.family is not None else ""

    @property
    def secret(self) -> str:
        """The name of the user's Secret; empty: there is no control plane."""
        return f"{self.cluster}-user-{self.user.name}" if self.cluster else ""

    @property
    def authority(self) -> str:
        """The name of the Secret with the authority that the kubeconfig trusts."""
        return secret_name(self.cluster, Purpose.CA)

    @property
    def administrator(self) -> str:
        """The name of the Secret with the kubeconfig of the administrator, which we use."""
        return f"{self.cluster}{KUBECONFIG_SUFFIX}"

    @property
    def endpoint(self) -> str:
        """The URL of the API server; empty: it is not known."""
        found = self.family.plane.spec.control_plane_endpoint if self.family is not None else None
        return url(found) if found is not None and found.valid else ""
