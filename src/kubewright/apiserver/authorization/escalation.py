"""A user grants only rights that this user has (privilege escalation prevention).

Theory.      A user who writes a role must hold every right that it gives, and a user who writes a
             binding every right of its role. Otherwise a user who may write roles could get every
             right. A user with the verb ``escalate`` (on roles) or ``bind`` (on the role that a
             binding names) may grant more. A ClusterRole with an aggregationRule could get any right
             later, so only a user who has every right may write one.
Invariants.  Pure. An update that changes only finalizers and owner references is always allowed, so that
             the garbage collector does not need the rights of the role.
Called by    ``registry.policies``, for writes of the four RBAC kinds.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from kubewright.apiserver.authorization.attributes import GROUP, MASTERS, Attributes
from kubewright.apiserver.authorization.policy import CLUSTER_ROLE, Policy, Rights, RoleKey
from kubewright.apiserver.authorization.rules import ALL, Rule, compact, listed, missing, read
from kubewright.wire.http import User

ROLES = frozenset(("roles", "clusterroles"))
EVERYTHING = (Rule((ALL,), (ALL,), (ALL,)), Rule((ALL,), urls=(ALL,)))

Object = Mapping[str, Any]


class MissingRole(LookupError):
    """A binding names a role that does not exist, so its rules are unknown. ``args[0]``: its name."""


def of_role(policy: Policy, writing: Attributes, new: Object, old: Object | None) -> str:
    """Why a role may not be written like this; empty when it may.

    ``writing`` is the request, with the resource (``roles``, ``clusterroles``) and the name in the URL.
    """
    if (
        MASTERS in writing.user.groups
        or _only_ownership_changed(new, old)
        or _may(policy, writing, "escalate")
    ):
        return ""
    rights = policy.rights(writing.user, writing.namespace)
    if lacking := missing(rights.held, read(new)):
        return _refusal(writing.user, rights, lacking)
    aggregates = new.get("aggregationRule") or (old or {}).get("aggregationRule")
    if aggregates and missing(rights.held, EVERYTHING):
        return "must have cluster-admin privileges to use the aggregationRule"
    return ""


def of_binding(policy: Policy, writing: Attributes, new: Object, old: Object | None) -> str:
    """Why a binding may not be written like this; empty when it may.

    Raises:
        MissingRole: the role that it names does not exist, and the user has no right to ``bind`` it.
    """
    if MASTERS in writing.user.groups or _only_ownership_changed(new, old):
        return ""
    kind, name = _referred(new)
    resource = "clusterroles" if kind == CLUSTER_ROLE else "roles"
    binding = Attributes(writing.user, "bind", GROUP, resource, namespace=writing.namespace, name=name)
    if policy.decide(binding).allowed:
        return ""
    granted = policy.rules_of(_key(kind, name, writing.namespace))
    if granted is None:
        raise MissingRole(name)
    rights = policy.rights(writing.user, writing.namespace)
    lacking = missing(rights.held, granted)
    return _refusal(writing.user, rights, lacking) if lacking else ""


def _may(policy: Policy, writing: Attributes, verb: str) -> bool:
    asked = Attributes(
        writing.user, verb, writing.group, writing.resource, namespace=writing.namespace, name=writing.name
    )
    return policy.decide(asked).allowed


def _refusal(user: User, rights: Rights, lacking: Sequence[Rule]) -> str:
    shown = "\n".join(sorted({str(rule) for rule in compact(lacking)}))
    who = f'user "{user.name}" (groups={listed(user.groups)})'
    said = f"{who} is attempting to grant RBAC permissions not currently held:\n{shown}"
    return f"{said}; resolution errors: [{rights.complaint}]" if rights.missing else said


def _referred(binding: Object) -> tuple[str, str]:
    ref = binding.get("roleRef")
    ref = ref if isinstance(ref, Mapping) else {}
    return str(ref.get("kind", "")), str(ref.get("name", ""))


def _key(kind: str, name: str, namespace: str) -> RoleKey:
    return ("" if kind == CLUSTER_ROLE else namespace, name)


def _only_ownership_changed(new: Object, old: Object | None) -> bool:
    """Whether nothing but finalizers and owner references differs."""
    return old is not None and _without_ownership(new) == _without_ownership(old)


def _without_ownership(obj: Object) -> dict[str, Any]:
    loose = ("finalizers", "ownerReferences", "resourceVersion", "managedFields")
    metadata = {name: value for name, value in obj.get("metadata", {}).items() if name not in loose}
    return {**obj, "metadata": metadata}
