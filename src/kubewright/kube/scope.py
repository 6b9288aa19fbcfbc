"""What part of a kind an informer holds: everything, some namespaces, or what selectors match.

The server applies the selectors to lists and watches. We apply them to the answers of our own
writes, which come unfiltered. Patterns of namespaces (``namespaces``), for
which the server has no selector, are applied by us alone.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import msgspec

from kubewright.kube.header import Header
from kubewright.kube.namespaces import EVERYWHERE, Namespaces
from kubewright.wire import selectors
from kubewright.wire.http import Query


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
