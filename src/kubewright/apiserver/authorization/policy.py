"""From what a request asks for to a decision, by roles and bindings. Pure.

Theory.      A rule is five sets of strings: verbs, and either API groups, resources and perhaps object
             names, or non-resource paths. ``*`` matches everything; ``*/scale`` a
             subresource of every resource; a path may end in ``*``.
             A binding gives the rules of one role to subjects, everywhere (ClusterRoleBinding) or in
             its namespace (RoleBinding). What a user may do in a namespace are the rules of all
             bindings that name the user or one of the user's groups. The policy collects these once per
             user and namespace. Per user, namespace, verb and resource it caches the decision for all
             objects, and the rules that could allow single objects by name (resourceNames). When a role or
             a binding changes, ``registry.policies`` makes a new policy, whose caches are empty.
             Escalation: a user who writes a role must hold every right that it gives, and a user who writes a
             binding every right of its role. Otherwise a user who may write roles could get every
             right. A user with the verb ``escalate`` (on roles) or ``bind`` (on the role that a
             binding names) may grant more. A ClusterRole with an aggregationRule could get any right
             later, so only a user who has every right may write one.
Invariants.  The same roles and bindings give the same answer. The caches are bounded. A binding
             whose role is missing allows nothing, and the refusal says so. Stored objects may be older than
             our validation, so reading never fails: a set that is missing or no list counts as empty. An
             empty set allows nothing, except ``names``: no names means every object. An update that changes
             only finalizers and owner references is no escalation, so that the garbage collector needs no
             rights of the role.
Called by    ``registry.policies``, which makes the policy, and everything that asks it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import orjson

from kubewright.wire.errors import Forbidden
from kubewright.wire.http import User

GROUP = "rbac.authorization.k8s.io"
"""The API group of roles and bindings."""

ACCOUNT = "system:serviceaccount:"
"""What the user name of a service account begins with; ``<namespace>:<name>`` follows."""

MASTERS = "system:masters"
"""The group whose members may do everything, whatever the roles say, so that they can repair a wrong role."""


@dataclass(frozen=True, slots=True)
class Attributes:
    """One request: for a resource or, when ``url`` is set, for a non-resource path (``/healthz``).

    ``namespace`` is empty at the cluster scope, ``name`` when the request names no single object. ``node``:
    by which node a list or a watch selects.
    """

    user: User
    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    url: str = ""
    node: str = ""

    @property
    def combined(self) -> str:
        """The resource as rules name it: ``pods``, ``pods/eviction``."""
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


def forbidden(asked: Attributes, reason: str = "") -> Forbidden:
    """The refusal, in kube-apiserver's words; ``reason`` names missing roles that bindings refer to."""
    if asked.url:
        said = f'forbidden: User "{asked.user.name}" cannot {asked.verb} path "{asked.url}"'
        return Forbidden(f"{said}: {reason}" if reason else said)
    resource = f"{asked.resource}.{asked.group}" if asked.group else asked.resource
    subject = f'{resource} "{asked.name}"' if asked.name else resource
    where = f'in the namespace "{asked.namespace}"' if asked.namespace else "at the cluster scope"
    what = f'cannot {asked.verb} resource "{asked.combined}" in API group "{asked.group}" {where}'
    said = f'{subject} is forbidden: User "{asked.user.name}" {what}'
    about = {"name": asked.name, "group": asked.group}
    details = {name: value for name, value in about.items() if value} | {"kind": asked.resource}
    return Forbidden(f"{said}: {reason}" if reason else said, details=details)


ALL = "*"
Words = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Rule:
    """``names`` empty: every object. ``urls`` are non-resource paths (``/healthz``)."""

    verbs: Words
    groups: Words = ()
    resources: Words = ()
    names: Words = ()
    urls: Words = ()

    def allows(self, asked: Attributes) -> bool:
        """Whether the rule allows a request."""
        if not _has(self.verbs, asked.verb):
            return False
        if asked.url:
            return any(_path_covers(url, asked.url) for url in self.urls)
        return (
            _has(self.groups, asked.group)
            and _resource_covered(self.resources, asked.combined)
            and (not self.names or asked.name in self.names)
        )

    def covers(self, other: "Rule") -> bool:
        """Whether everything that ``other`` allows is allowed by this rule."""
        if not all(_has(self.verbs, verb) for verb in other.verbs):
            return False
        if other.urls:
            return all(any(_path_covers(own, url) for own in self.urls) for url in other.urls)
        return (
            all(_has(self.groups, group) for group in other.groups)
            and all(_resource_covered(self.resources, resource) for resource in other.resources)
            and (not self.names or (bool(other.names) and set(other.names) <= set(self.names)))
        )

    def parts(self) -> Iterator["Rule"]:
        """The rule, split into rules of one verb, group, resource and name (or path) each."""
        for group in self.groups:
            for resource in self.resources:
                for verb in self.verbs:
                    for name in self.names or ("",):
                        yield Rule((verb,), (group,), (resource,), (name,) if name else ())
        for url in self.urls:
            for verb in self.verbs:
                yield Rule((verb,), urls=(url,))

    def wire(self) -> dict[str, list[str]]:
        """The rule in the JSON of a role."""
        named = zip(_FIELDS, (self.verbs, self.groups, self.resources, self.names, self.urls), strict=True)
        return {field: list(words) for field, words in named if words or field == "verbs"}

    def __str__(self) -> str:
        """The rule as kube-apiserver writes it into refusals."""
        sets = (self.groups, self.resources, self.urls, self.names, self.verbs)
        shown = (f"{title}:{listed(words)}" for title, words in zip(_TITLES, sets, strict=True) if words)
        return f"{{{', '.join(shown)}}}"


_FIELDS = ("verbs", "apiGroups", "resources", "resourceNames", "nonResourceURLs")
_TITLES = ("APIGroups", "Resources", "NonResourceURLs", "ResourceNames", "Verbs")


def listed(words: Iterable[str]) -> str:
    """Strings as Go prints a list of them: quoted, in brackets, without commas."""
    return f"[{' '.join(orjson.dumps(word).decode() for word in words)}]"


def rules_in(role: Mapping[str, Any]) -> tuple[Rule, ...]:
    """The rules of a Role or ClusterRole."""
    return tuple(rule_of(each) for each in _list(role.get("rules")) if isinstance(each, Mapping))


def rule_of(written: Mapping[str, Any]) -> Rule:
    """A rule from its JSON."""
    verbs, groups, resources, names, urls = (_words(written.get(field)) for field in _FIELDS)
    return Rule(verbs, groups, resources, names, urls)


def compact(rules: Iterable[Rule]) -> list[Rule]:
    """Rules that differ only in their verbs, joined to one, so that the refusal is shorter."""
    found: dict[tuple[Words, ...], Rule] = {}
    for rule in rules:
        alone = rule.verbs if rule.urls else ()  # paths stay as they are
        key = (rule.groups, rule.resources, rule.names, rule.urls, alone)
        known = found.get(key)
        found[key] = replace(known, verbs=(*known.verbs, *rule.verbs)) if known and not alone else rule
    return list(found.values())


def missing(held: Iterable[Rule], wanted: Iterable[Rule]) -> list[Rule]:
    """The parts of ``wanted`` that no rule of ``held`` covers."""
    known = list(held)
    return [part for rule in wanted for part in rule.parts() if not any(own.covers(part) for own in known)]


def _has(words: Words, word: str) -> bool:
    return word in words or ALL in words


def _resource_covered(resources: Words, wanted: str) -> bool:
    if _has(resources, wanted):
        return True
    _, slash, part = wanted.partition("/")
    return bool(slash) and f"*/{part}" in resources


def _path_covers(url: str, wanted: str) -> bool:
    return url in (ALL, wanted) or (url.endswith("*") and wanted.startswith(url.rstrip("*")))


def _words(value: Any) -> Words:
    return tuple(each for each in _list(value) if isinstance(each, str))


def _list(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list) else ()


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


KINDS_OF_ROLES = frozenset(("roles", "clusterroles"))
EVERYTHING = (Rule((ALL,), (ALL,), (ALL,)), Rule((ALL,), urls=(ALL,)))

Object = Mapping[str, Any]


class MissingRole(LookupError):
    """A binding names a role that does not exist, so its rules are unknown. ``args[0]``: its name."""


def fault_of_role(policy: Policy, writing: Attributes, new: Object, old: Object | None) -> str:
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
    if lacking := missing(rights.held, rules_in(new)):
        return _refusal(writing.user, rights, lacking)
    aggregates = new.get("aggregationRule") or (old or {}).get("aggregationRule")
    if aggregates and missing(rights.held, EVERYTHING):
        return "must have cluster-admin privileges to use the aggregationRule"
    return ""


def fault_of_binding(policy: Policy, writing: Attributes, new: Object, old: Object | None) -> str:
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
