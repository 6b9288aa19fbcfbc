"""What the server knows about one kind and its bytes, the catalog of all kinds, and the target of a request.

Theory.      Everything that differs between kinds is data here: names, scope, verbs, columns,
             schema, and a few pure hooks. The verbs of ``registry`` treat a Pod and a custom
             resource alike and never test for a kind by name.
             Bytes are stored in one version of a kind, and most are read in the same. Those that are older
             than the schema of their kind are read by that schema. A client that asks for another version
             (``versions``), or for another shape of the same objects (events.k8s.io), gets them decoded and
             converted.
Invariants.  A ``ServedKind`` is immutable; a changed CustomResourceDefinition replaces it. The
             catalog is the only mutable thing. Stored bytes begin with ``apiVersion``, then ``kind``, so the
             prefix tells the version. Only the code that decoded an object changes it in place.
Continues    in ``builtin`` (the built-in kinds), ``custom`` (those from CRDs), ``reading`` and
             ``writing`` (what can be done to them).
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import orjson

from kubewright.apiserver.registry.versions import Older, Schema, Versions, head_of, in_order, read_by
from kubewright.apiserver.schema.causes import Cause
from kubewright.apiserver.schema.node import Object
from kubewright.apiserver.store.history import Record, record_of
from kubewright.wire.gvk import Resource
from kubewright.wire.http import ADMIN, User

_NEVER_STORED = "selfLink"


@dataclass(frozen=True, slots=True)
class Column:
    """A printer column. Built-in kinds compute cells with ``cell``, CRDs by ``json_path``."""

    name: str
    type: str = "string"
    format: str = ""
    description: str = ""
    priority: int = 0
    json_path: str = ""
    cell: Callable[[Object, datetime], Any] | None = None


@dataclass(frozen=True, slots=True)
class Scale:
    """The JSON paths (dots, no leading dot) of a kind with a ``scale`` subresource."""

    spec_path: str
    status_path: str
    selector_path: str = ""


@dataclass(frozen=True, slots=True)
class Part:
    """What of an update counts that comes by one endpoint of a kind.

    ``limit``  the object as that update may make it, from the one that was sent, the stored one and the time
    ``check``  rules that hold for updates by this endpoint only
    """

    limit: Callable[[Object, Object, str], Object]
    check: Callable[[Object, Object | None], list[Cause]] = lambda _new, _old: []


@dataclass(frozen=True, slots=True)
class ServedKind:
    """One kind in one version.

    ``prepare``   fills in what the server owns on create (old is None) and update, after
                  defaulting: e.g. a Secret's ``stringData`` into ``data``, a Namespace's phase.
    ``check``     rules beyond the schema: immutable fields, names, cross-field rules.
    ``warn``      warnings (Warning headers) about an object that is valid.
    ``fields``    the values that field selectors may ask for, beside metadata.name/namespace:
                  label (``spec.nodeName``) to value.
    ``indexed``   those of ``fields`` by which lists look objects up in an index of the store, not in all
                  objects; the kind must be stored in one version.
    ``stored_as``     the resource as which the objects are stored, where it is another one, with the
                  conversions ``to_stored`` and ``from_stored``: events.k8s.io Events are stored as core
                  Events. (All versions of one CRD share a collection without this.)
    ``by_kubelet``    subresources that need a kubelet; where there is none, they are refused with a message
                      that says so. Discovery does not list them.
    ``requested_by``  writes the user into a new object; None: no object of the kind says who made it.
    ``parts``     what an update may change, by subresource (empty: the object itself), where that is more
                  than that a status has its own endpoint.
    ``older``     reads the objects that were stored before the kind had its schema; None: there are none.
    ``strict_names``  ``dns-label``, ``dns-subdomain`` or ``path`` (RBAC): what a name must be.
    """

    resource: Resource
    schema: Schema
    singular: str
    list_kind: str
    verbs: frozenset[str] = frozenset(
        ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
    )
    categories: tuple[str, ...] = ()
    columns: tuple[Column, ...] = ()
    has_status: bool = False
    scale: Scale | None = None
    subresources: frozenset[str] = frozenset()
    by_kubelet: frozenset[str] = frozenset()
    strategic: bool = False
    custom: bool = False
    strict_names: str = "dns-subdomain"
    has_generation: bool = True
    prepare: Callable[[Object, Object | None], Object] = lambda new, _old: new
    check: Callable[[Object, Object | None], list[Cause]] = lambda _new, _old: []
    warn: Callable[[Object, Object | None], list[str]] = lambda _new, _old: []
    fields: Callable[[Object], Mapping[str, str]] = field(default=lambda _obj: {})
    indexed: frozenset[str] = frozenset()
    stored_as: Resource | None = None
    to_stored: Callable[[Object], Object] = lambda obj: obj
    from_stored: Callable[[Object], Object] = lambda obj: obj
    requested_by: Callable[[Object, User], Object] | None = None
    parts: Mapping[str, Part] = field(default_factory=dict, hash=False)
    older: Older | None = None
    versions: Versions | None = None
    deprecated: str = ""
    grace_seconds: Callable[[Object], int] | None = None
    """Default grace period of a delete. Only Pods have one; None: deleted at once."""

    def encode(self, obj: Object, version: int | None) -> bytes:
        """The bytes of an object at a version; None leaves the version out (dry run)."""
        return orjson.dumps(self._stamped(obj, version))

    def encode_stored(self, obj: Object, version: int) -> bytes:
        """The bytes as they are kept: the same as ``encode`` but for kinds stored as another, or in another
        version."""
        stamped = self._stamped(obj, version)
        if self.versions is not None and not self.is_stored:
            stamped = in_order(self.versions.to_store(stamped))
        return _exact(orjson.dumps(self.to_stored(stamped)))

    def _stamped(self, obj: Object, version: int | None) -> Object:
        """The object with its version, and with its fields in the order in which they are stored.

        Empty fields of metadata are left out, as every Go server leaves them out.
        """
        given = obj["metadata"].items()
        metadata = {name: value for name, value in given if (value or value == 0) and name != _NEVER_STORED}
        if version is None:
            metadata.pop("resourceVersion", None)
        else:
            metadata["resourceVersion"] = str(version)
        head = {"apiVersion": self.resource.api_version, "kind": self.resource.kind, "metadata": metadata}
        return {**head, **{name: value for name, value in obj.items() if name not in head}}

    def same(self, new: Object, old: Object) -> bool:
        """Whether storing ``new`` would change nothing. ``old`` is the decoded stored object.

        The comparison of Python values is fast where both share parts. But Python holds ``1`` and ``true``
        for equal, so the JSON is compared as well.
        """
        return _equal(self._stamped(new, int(old["metadata"]["resourceVersion"])), old)

    def unchanged(self, new: Object, old: Object, record: Record) -> bool:
        """``same``, of an object that was decoded from a record; it is another if that is in another version
        than is stored now, or if what is stored differs though this version does not show it."""
        if not self.is_current(record):
            return False
        versions = self.versions
        if versions is None or self.is_stored:
            return self.same(new, old)
        stored = versions.to_store(self._stamped(new, record.version))
        return _equal(stored, orjson.loads(versions.data(record)))

    def is_current(self, record: Record) -> bool:
        """Whether a record is in the version that is stored now."""
        return self.versions is None or self.versions.is_current(record)

    def decode(self, record: Record) -> Object:
        """The object of a record in this version; a new one that the caller may change."""
        obj: Object = orjson.loads(self._data(record))
        if obj["apiVersion"] == self.resource.api_version:
            return obj
        if self.stored_as is not None:
            return self.from_stored(obj)
        if self.versions is not None:
            return self.versions.convert(obj, self.resource.api_version)
        obj["apiVersion"] = self.resource.api_version
        return read_by(self.schema, obj)

    def _data(self, record: Record) -> bytes:
        if self.versions is not None:
            return self.versions.data(record)
        return record.data if self.older is None else self.older.data(record)

    @property
    def by_webhook(self) -> bool:
        """Whether a webhook converts between this version and others."""
        return self.versions is not None and self.versions.hook is not None

    @property
    def is_stored(self) -> bool:
        """Whether objects are stored in this version."""
        return self.versions is None or self.versions.stored == self.resource.api_version

    def seen(self, record: Record) -> Record:
        """A record in this version, by which selectors select."""
        return record if self.versions is None else self.versions.record(record, self.resource.api_version)

    def field_of(self, name: str, record: Record) -> str:
        """The value of one field that field selectors may ask for; empty where it is missing."""
        return self.fields(self.decode(record)).get(name, "")

    def in_version(self, record: Record) -> bytes:
        """The bytes of a record in this version; the stored bytes where that is their version."""
        data = self._data(record)
        if data.startswith(head_of(self.resource.api_version)):
            return data
        return orjson.dumps(self.decode(record))

    def restamped(self, record: Record, version: int) -> Record:
        """The same state under another version: the last state of an object that was deleted."""
        obj: dict[str, Any] = orjson.loads(self._data(record))
        obj["metadata"]["resourceVersion"] = str(version)
        return record_of(record.resource, record.key, version, _exact(orjson.dumps(obj)), obj)


def _equal(one: Object, other: Object) -> bool:
    return one == other and _sorted(one) == _sorted(other)


def _sorted(obj: Object) -> bytes:
    return orjson.dumps(obj, option=orjson.OPT_SORT_KEYS)


def _exact(data: bytes) -> bytes:
    """A copy of exact size: bytes from orjson keep the buffer in which they were built, up to four times
    their length."""
    return bytes(memoryview(data))


class Catalog:
    """All kinds served now, by group, version and plural."""

    def __init__(self) -> None:
        self._kinds: dict[tuple[str, str, str], ServedKind] = {}

    def put(self, kind: ServedKind) -> None:
        """Serve a kind, in place of an earlier definition of it."""
        resource = kind.resource
        self._kinds[resource.group, resource.version, resource.plural] = kind

    def drop(self, group: str, version: str, plural: str) -> None:
        """Stop serving a kind; unknown ones are ignored."""
        self._kinds.pop((group, version, plural), None)

    def find(self, group: str, version: str, plural: str) -> ServedKind | None:
        return self._kinds.get((group, version, plural))

    def __iter__(self) -> Iterator[ServedKind]:
        return iter(tuple(self._kinds.values()))


Guard = Callable[[Object, Object | None], None]
"""Called with the object to be stored and the one that is there; raises when the user may not store it."""


@dataclass(frozen=True, slots=True)
class Target:
    """One object (or, without a name, a collection) of one kind."""

    kind: ServedKind
    namespace: str = ""
    name: str = ""

    @classmethod
    def at(cls, kind: ServedKind, key: str) -> "Target":
        """The object that the store has under ``key``."""
        namespace, _, name = key.rpartition("/")
        return cls(kind, namespace, name)

    @property
    def collection(self) -> str:
        """The store's collection; all versions of a kind share it."""
        return str(self.kind.stored_as or self.kind.resource)

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    @property
    def prefix(self) -> str:
        """What the keys of a list begin with; with a name, there is one such key (and those it begins)."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    def named(self, name: str) -> "Target":
        return Target(self.kind, self.namespace, name)


IGNORE, WARN, STRICT = "Ignore", "Warn", "Strict"


@dataclass(slots=True)
class Options:
    """Parameters of a write. ``warnings`` collects what the answer's Warning headers say; ``guard`` is
    called before validation.

    ``manager``      who will manage the changed fields; empty for the server itself, which manages none
    ``named``        the client named the manager: those of a new object are kept
    ``force``        an apply takes the fields that other managers have
    ``user``         who sends the request
    ``subresource``  through which an update of the whole object comes (scale)
    ``drawn``        the name that was generated for a new object
    """

    dry_run: bool = False
    validation: str = WARN
    warnings: list[str] = field(default_factory=list)
    guard: Guard | None = None
    manager: str = ""
    named: bool = False
    force: bool = False
    subresource: str = ""
    drawn: str = ""
    user: User = field(default=ADMIN)
