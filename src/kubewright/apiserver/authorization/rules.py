"""One rule of a role: what it allows, and which other rules it covers.

Theory.      A rule is five sets of strings: verbs, and either API groups, resources and perhaps object
             names, or non-resource paths. ``*`` matches everything; ``*/scale`` for a
             subresource of every resource; a path may end in ``*``.
Invariants.  Pure. Stored objects may be older than our validation, so reading never fails: a set that is
             missing or not a list counts as empty. An empty set allows nothing, except ``names``: no
             names means every object.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import orjson

from kubewright.apiserver.authorization.attributes import Attributes

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


def read(role: Mapping[str, Any]) -> tuple[Rule, ...]:
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
