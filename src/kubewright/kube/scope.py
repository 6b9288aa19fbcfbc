"""What part of a kind an informer holds: everything, some namespaces, or what selectors match. Pure.

Theory.      A server should not send what the program does not work on. It applies the selectors to lists and
             watches; we apply them to the answers of our own writes, which come unfiltered. For one namespace
             the program watches that one; for several each of them, so roles in these namespaces suffice; for
             all but some it watches everything, and a field selector leaves the excluded ones out. For a
             pattern such as ``team-*`` a server has no selector: the program watches everything, and caches
             keep only what matches. A name or a pattern is also for namespaces that are created later.
Invariants.  Objects without a namespace (Nodes, CRDs) are in every choice.
Called by    ``feed``, ``cache``, ``informer``; ``compose`` and ``cli`` make the namespaces.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import msgspec

from kubewright.base.errors import InvalidInput
from kubewright.kube.header import Header
from kubewright.wire import selectors
from kubewright.wire.http import Query
from kubewright.wire.naming import dns_label

ANY = "*"


@dataclass(frozen=True, slots=True)
class Namespaces:
    """Names, and patterns: a prefix with ``*`` after it. ``wanted`` empty means all namespaces."""

    wanted: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()

    @classmethod
    def parsed(cls, wanted: str, excluded: str = "") -> Self:
        """Of comma-separated names and patterns, as a user types them.

        Raises:
            InvalidInput: one of them is neither, or no namespace is left.
        """
        all_wanted, without = _patterns(wanted), _patterns(excluded)
        found = cls(() if ANY in all_wanted else all_wanted, without)
        if ANY in without or (found.wanted and all(_in(each, without) for each in found.wanted)):
            raise InvalidInput(f"no namespace is left of {wanted or 'all'!r} without {excluded!r}")
        return found

    def __contains__(self, namespace: str) -> bool:
        """Whether this namespace is one of them."""
        if not namespace:
            return True
        return (not self.wanted or _in(namespace, self.wanted)) and not _in(namespace, self.excluded)

    @property
    def named(self) -> tuple[str, ...]:
        """The names, if no pattern is among them; else empty: a pattern does not tell them."""
        if any(each.endswith(ANY) for each in self.wanted):
            return ()
        return tuple(each for each in self.wanted if each in self)

    @property
    def unwanted(self) -> tuple[str, ...]:
        """The names that a server can leave out."""
        return tuple(each for each in self.excluded if not each.endswith(ANY))

    def __str__(self) -> str:
        shown = ",".join(self.wanted) or "all"
        return f"{shown} but {','.join(self.excluded)}" if self.excluded else shown


EVERYWHERE = Namespaces()


def _in(name: str, patterns: Iterable[str]) -> bool:
    """Whether a name, or each name that a pattern matches, is matched by one of ``patterns``."""
    return any(name.startswith(each[:-1]) if each.endswith(ANY) else name == each for each in patterns)


def _patterns(typed: str) -> tuple[str, ...]:
    found = tuple(dict.fromkeys(each.strip() for each in typed.split(",") if each.strip()))
    for each in found:
        name = each.removesuffix(ANY)
        troubles = dns_label(name.rstrip("-") if each.endswith(ANY) else name) if each != ANY else ()
        if troubles:
            raise InvalidInput(f"namespace {each!r}: {troubles[0]}")
    return found


@dataclass(frozen=True)
class Scope:
    """``namespace`` empty means all of ``only``; ``labels``, ``fields``: selectors as kubectl writes them.

    Raises:
        BadRequest: a selector is not valid; raised on first use.
    """

    namespace: str = ""
    labels: str = ""
    fields: str = ""
    only: Namespaces = EVERYWHERE

    @property
    def selective(self) -> bool:
        """Whether objects can come into the scope and leave it while they live."""
        return bool(self.labels or self.fields)

    @property
    def query(self) -> Query:
        """The selectors as parameters of a list or watch."""
        fields = ",".join(self._field_requirements())
        given = (("labelSelector", self.labels), ("fieldSelector", fields))
        return tuple((name, value) for name, value in given if value)

    @property
    def parts(self) -> tuple["Scope", ...]:
        """The scopes that together are this one, each of which one watch can follow."""
        if self.namespace or not (named := self.only.named):
            return (self,)
        return tuple(replace(self, namespace=each, only=EVERYWHERE) for each in named)

    def has_namespace(self, namespace: str) -> bool:
        """Whether objects of this namespace can be in the scope."""
        return self.namespace == namespace if self.namespace else namespace in self.only

    def covers(self, header: Header) -> bool:
        """Whether the object is in the scope."""
        if not self.has_namespace(header.key.namespace):
            return False
        return self._labels.matches(header.labels) and (not self.fields or self._has_fields(header))

    def _field_requirements(self) -> Iterator[str]:
        if self.fields:
            yield self.fields
        if not self.namespace:
            yield from (f"metadata.namespace!={each}" for each in self.only.unwanted)

    @cached_property
    def _labels(self) -> selectors.Selector:
        return selectors.parse(self.labels)

    @cached_property
    def _fields(self) -> selectors.Selector:
        return selectors.parse_fields(self.fields)

    def _has_fields(self, header: Header) -> bool:
        """Field selectors name places in the object; an absent place counts as empty."""
        obj = msgspec.json.decode(header.data)
        return self._fields.matches({key: _at(obj, key.split(".")) for key in self._fields.keys})


def _at(value: Any, path: list[str]) -> str:
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else str(value)
