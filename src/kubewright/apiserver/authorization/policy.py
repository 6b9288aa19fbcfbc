"""Roles and bindings, indexed so that the server can decide about a request quickly.

Theory.      A binding gives the rules of one role to subjects, everywhere (ClusterRoleBinding) or in
             its namespace (RoleBinding). What a user may do in a namespace are the rules of all
             bindings that name the user or one of the user's groups. The policy collects these once per
             user and namespace. Per user, namespace, verb and resource it caches the decision for all
             objects, and the rules that could allow single objects by name (resourceNames). When a role or
             a binding changes, ``registry.policies`` makes a new policy, whose caches are empty.
Invariants.  The same roles and bindings give the same answer. The caches are bounded. A binding
             whose role is missing allows nothing, and the refusal says so.
Called by    ``registry.policies``, which makes it, and everything that asks it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kubewright.apiserver.authorization.attributes import ACCOUNT, GROUP, MASTERS, Attributes
from kubewright.apiserver.authorization.rules import Rule
from kubewright.wire.http import User

REMEMBERED = 4096
"""Entries in each of the policy's two caches; a full cache is cleared."""

ROLE, CLUSTER_ROLE = "Role", "ClusterRole"
RoleKey = tuple[str, str]
"""Namespace (empty for a ClusterRole) and name."""

Roles = Mapping[RoleKey, Sequence[Rule]]


@dataclass(frozen=True, slots=True)
class Subject:
    """A user, group or service account that a binding names; only the last has a ``namespace``."""

    kind: str
    name: str
    namespace: str = ""

    @property
    def lookup_key(self) -> tuple[str, str]:
        """Kind and name under which it is indexed: a service account is indexed as a user."""
        if self.kind == "ServiceAccount":
            return "User", f"{ACCOUNT}{self.namespace}:{self.name}"
        return self.kind, self.name

    def __str__(self) -> str:
        name = f"{self.name}/{self.namespace}" if self.kind == "ServiceAccount" else self.name
        return f'{self.kind} "{name}"'


@dataclass(frozen=True, slots=True)
class Binding:
    """``namespace`` is empty for a ClusterRoleBinding; ``role_kind`` is Role or ClusterRole."""

    namespace: str
    name: str
    role_kind: str
    role: str
    subjects: tuple[Subject, ...] = ()

    @property
    def role_key(self) -> RoleKey:
        return (self.namespace if self.role_kind == ROLE else "", self.role)

    def reason_for(self, subject: Subject) -> str:
        """Why a request is allowed, as a SubjectAccessReview tells it."""
        kind, name = ("RoleBinding", f"{self.name}/{self.namespace}") if self.namespace else (
            "ClusterRoleBinding", self.name,
        )  # fmt: skip
        return f'RBAC: allowed by {kind} "{name}" of {self.role_kind} "{self.role}" to {subject}'


@dataclass(frozen=True, slots=True)
class Decision:
    """``reason``: the binding that allows, or the missing roles that bindings name; it may be empty."""

    allowed: bool
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Rights:
    """What a user may do in a namespace (empty: at the cluster scope): rules, each with its reason.
    ``missing``: one message for each role that a binding names and that does not exist."""

    rules: tuple[tuple[Rule, str], ...]
    missing: tuple[str, ...] = ()

    @property
    def held(self) -> list[Rule]:
        return [rule for rule, _ in self.rules]

    @property
    def complaint(self) -> str:
        """All of ``missing`` in one text."""
        return f"[{', '.join(self.missing)}]" if len(self.missing) > 1 else "".join(self.missing)


_ALLOWED = Decision(True)

Beside = Callable[[Attributes], bool]
"""What else allows a request that no role does: a node has rights that follow from its pods."""


class Policy:
    """What all roles and bindings of one moment allow; see the module."""

    def __init__(
        self, roles: Roles, bindings: Iterable[Binding], beside: Beside = lambda _asked: False
    ) -> None:
        self._roles, self._beside = roles, beside
        self._bindings: dict[tuple[str, tuple[str, str]], list[tuple[Binding, Subject]]] = {}
        for binding in sorted(bindings, key=lambda each: (each.namespace, each.name)):
            for subject in binding.subjects:
                place = (binding.namespace, subject.lookup_key)
                self._bindings.setdefault(place, []).append((binding, subject))
        self._rights: dict[tuple[str, tuple[str, ...], str], Rights] = {}
        self._answers: dict[tuple[Any, ...], tuple[Decision, tuple[tuple[Rule, str], ...]]] = {}

    def decide(self, asked: Attributes) -> Decision:
        """Whether the user may do what the request asks for."""
        if MASTERS in asked.user.groups:
            return _ALLOWED
        decision = self._by_rules(asked)
        return _ALLOWED if not decision.allowed and self._beside(asked) else decision

    def _by_rules(self, asked: Attributes) -> Decision:
        user = asked.user
        if asked.url:
            return self._first(asked, self.rights(user, "").rules) or self._refused(asked)
        key = (
            user.name,
            user.groups,
            asked.namespace,
            asked.verb,
            asked.group,
            asked.resource,
            asked.subresource,
        )
        known = self._answers.get(key)
        if known is None:
            known = self._answer(asked)
            _remember(self._answers, key, known)
        whole, named = known
        return (self._first(asked, named) or whole) if named and asked.name else whole

    def rights(self, user: User, namespace: str) -> Rights:
        """Every rule that bindings give to a user in a namespace, those of ClusterRoleBindings first."""
        key = (user.name, user.groups, namespace)
        found = self._rights.get(key)
        if found is None:
            found = self._gathered(user, namespace)
            _remember(self._rights, key, found)
        return found

    def rules_of(self, role: RoleKey) -> Sequence[Rule] | None:
        """The rules of a role; None when the role does not exist."""
        return self._roles.get(role)

    def _answer(self, asked: Attributes) -> tuple[Decision, tuple[tuple[Rule, str], ...]]:
        """The answer for a request without a name, and the rules that could allow it for a name."""
        rules = self.rights(asked.user, asked.namespace).rules
        nameless = Attributes(
            asked.user, asked.verb, asked.group, asked.resource, asked.subresource, asked.namespace
        )
        whole = self._first(nameless, rules)
        if whole is not None:
            return whole, ()
        named = tuple(
            (rule, why)
            for rule, why in rules
            if rule.names and Rule(rule.verbs, rule.groups, rule.resources).allows(nameless)
        )
        return self._refused(asked), named

    def _first(self, asked: Attributes, rules: Iterable[tuple[Rule, str]]) -> Decision | None:
        return next((Decision(True, why) for rule, why in rules if rule.allows(asked)), None)

    def _refused(self, asked: Attributes) -> Decision:
        complaint = self.rights(asked.user, asked.namespace).complaint
        return Decision(False, f"RBAC: {complaint}" if complaint else "")

    def _gathered(self, user: User, namespace: str) -> Rights:
        rules: list[tuple[Rule, str]] = []
        missing: dict[str, None] = {}
        for binding, subject in self._bound(user, namespace):
            found = self._roles.get(binding.role_key)
            if found is None:
                missing[not_found(binding.role_kind, binding.role)] = None
            else:
                rules += ((rule, binding.reason_for(subject)) for rule in found)
        return Rights(tuple(rules), tuple(missing))

    def _bound(self, user: User, namespace: str) -> list[tuple[Binding, Subject]]:
        """The bindings that name the user or a group of the user, each once, with the subject that does."""
        known = [("User", user.name), *(("Group", group) for group in user.groups)]
        found: dict[tuple[str, str], tuple[Binding, Subject]] = {}
        for place in ("", namespace) if namespace else ("",):
            for name in known:
                for binding, subject in self._bindings.get((place, name), ()):
                    found.setdefault((binding.namespace, binding.name), (binding, subject))
        return [found[key] for key in sorted(found)]


def not_found(kind: str, name: str) -> str:
    """The message about a role that a binding names and that does not exist."""
    return f'{kind.lower()}.{GROUP} "{name}" not found'


def _remember(memory: dict[Any, Any], key: Any, value: Any) -> None:
    if len(memory) >= REMEMBERED:
        memory.clear()
    memory[key] = value
