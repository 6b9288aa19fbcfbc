"""One kind as our code sees it: where it is served, and which type its objects have.

Theory.      Caches hold bytes; the code that looks at an object decodes it then.
             A ``Kind`` is the pair of a place on the wire and a Struct, and it does the decoding.
             Go clients write ``null`` for an empty map, list or string here and there. Most of
             these are typed ``| None``; for all others decoding is tried as it is, and only when
             that fails once more without the nulls, so that the common object pays nothing.
             An object that has not the form of its kind is not lost to those who must finish with it:
             ``part`` reads what can be read, for a deletion, for an index, for the answer to a write. What is
             left out counts as not there, but for the fields in ``Kind.unread``: a brake that cannot be read
             is not off.
Invariants.  ``decode`` raises ``Undecodable`` or returns a whole value, never a part of one; ``part`` says by
             its name that it may.
             ``encode`` always writes ``apiVersion`` and ``kind``. Two kinds are equal when their
             resource and type are, and caches treat their objects alike.
Called by    ``kube`` (client and caches) and all code that holds JSON of a known kind.
"""

import re
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Generic, TypeVar, cast

import msgspec
from msgspec import inspect

from kubewright.base import delays
from kubewright.base.errors import InvalidInput, Retry
from kubewright.wire import gojson
from kubewright.wire.gvk import Resource

T = TypeVar("T")
_PATH = re.compile(r" - at `(?:key in )?\$\.?([^`]*)`$")
_STEP = re.compile(r"([^.\[\]]+)|\[(\d+|\.\.\.)\]")
DROPPED = 100
"""The most fields that are left out of an object in order to read the rest."""
_TREE = (inspect.StructType, inspect.ListType, inspect.VarTupleType, inspect.DictType)


class Undecodable(InvalidInput, ValueError):
    """These bytes are not an object of the kind.

    ``path``: the wrong field (``spec.replicas``), or empty; ``reason``: what is wrong with it.
    """

    retry: Retry = delays.UNREADABLE

    def __init__(self, resource: Resource, cause: str, name: str = "") -> None:
        self._resource, self._cause = resource, cause
        found = _PATH.search(cause)
        self.path = found[1] if found else ""
        self.reason = cause[: found.start()] if found else cause
        what = f"{resource.kind} {name}" if name else resource.kind
        super().__init__(f"cannot read {what}: {self.path + ': ' if self.path else ''}{self.reason}")

    def of(self, name: str) -> "Undecodable":
        """The same, with the name of the object: for a reader that looked for another one's sake."""
        return Undecodable(self._resource, self._cause, name)


@dataclass(frozen=True, slots=True)
class Kind(Generic[T]):
    """A resource and the type of its objects: a msgspec Struct, or ``dict`` when known only at run time.

    ``pruned``: of each object caches keep what the type has, and drop the rest of what the server sent.
    ``shared``: readers of caches get one decoded object, and do not change it, though its type lets them.
    ``unread``: what counts in a ``part``, by path, where a field is there and cannot be read.
    """

    resource: Resource
    type: type[T]
    pruned: bool = False
    shared: bool = False
    unread: Mapping[str, Any] = field(default_factory=dict, compare=False)
    _decoder: msgspec.json.Decoder[T] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_decoder", msgspec.json.Decoder(self.type))

    def decode(self, data: bytes) -> T:
        """Read one object.

        Raises:
            Undecodable: not JSON, or a field has another type than the kind says.
        """
        try:
            return self._decoder.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return self.from_plain(self._parsed(data))

    def part(self, data: bytes) -> T:
        """As much of an object as can be read: without the fields that have not the form of the kind.

        Raises:
            Undecodable: nothing of it can be read.
        """
        try:
            return self.decode(data)
        except Undecodable as error:
            tree, fault = self._parsed(data), error
        for _ in range(DROPPED):
            if not _drop(tree, fault.path):
                break
            for path, value in self.unread.items():
                if f"{path}.".startswith(f"{fault.path}."):
                    _put(tree, path, value)
            try:
                return self.from_plain(tree)
            except Undecodable as error:
                fault = error
        raise fault

    def encode(self, obj: T) -> bytes:
        """Write one object; fields at their default are left out, ``apiVersion`` and ``kind`` never."""
        return msgspec.json.encode(self._named(obj))

    def from_plain(self, obj: Any) -> T:
        """Read an object that is already decoded JSON; nulls count as absent.

        Raises:
            Undecodable: as ``decode``.
        """
        try:
            return msgspec.convert(obj, self.type)
        except msgspec.ValidationError:
            return self._converted(_without_nulls(obj, _shape(cast("Hashable", self.type))))

    def to_plain(self, obj: T) -> dict[str, Any]:
        """The object as JSON values, as ``encode`` would write them."""
        return cast("dict[str, Any]", msgspec.json.decode(self.encode(obj)))

    def _parsed(self, data: bytes) -> Any:
        try:
            try:
                return msgspec.json.decode(data)
            except RecursionError:
                return msgspec.json.decode(gojson.shallow(data, gojson.LEVEL_OF_OBJECT))
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise Undecodable(self.resource, str(error)) from None

    def _converted(self, obj: Any) -> T:
        try:
            return msgspec.convert(obj, self.type)
        except msgspec.ValidationError as error:
            raise Undecodable(self.resource, str(error)) from None

    def _named(self, obj: T) -> Any:
        if isinstance(obj, Mapping):
            return {"apiVersion": self.resource.api_version, "kind": self.resource.kind, **obj}
        return msgspec.structs.replace(  # type: ignore[type-var]  # every other T is a Struct
            obj, api_version=self.resource.api_version, kind=self.resource.kind
        )

    def __str__(self) -> str:
        return str(self.resource)


def _drop(tree: Any, path: str) -> bool:
    """Take what stands at a path (``spec.taints[0].key``) out of a tree; whether something was. Of a map with
    a wrong value (``labels[...]``) it is not said which, so the whole map goes."""
    steps: list[str | int] = []
    for name, index in _STEP.findall(path):
        if index == "...":
            break
        steps.append(int(index) if index else name)
    if not steps:
        return False
    *way, last = steps
    for step in way:
        try:
            tree = tree[step]
        except (KeyError, IndexError, TypeError):
            return False
    try:
        del tree[last]
    except (KeyError, IndexError, TypeError):
        return False
    return True


def _put(tree: Any, path: str, value: Any) -> None:
    """Write a value at a path of names; the structs on the way are made where they are missing."""
    *way, last = path.split(".")
    for name in way:
        tree = tree.setdefault(name, {})
    tree[last] = value


def dynamic(resource: Resource, *, shared: bool = False) -> Kind[dict[str, Any]]:
    """A kind without a type of its own: its objects are plain dicts; ``shared`` as in ``Kind``."""
    return Kind(resource, dict[str, Any], shared=shared)


@cache
def _shape(kind: Hashable) -> inspect.Type:
    return inspect.type_info(kind)


def _without_nulls(value: Any, kind: inspect.Type) -> Any:
    """``value`` without the null members of typed parts; what is raw JSON by type stays as it is."""
    kind = _inner(kind)
    if isinstance(kind, inspect.StructType) and isinstance(value, dict):
        types = {item.encode_name: item.type for item in kind.fields}
        return {
            key: _without_nulls(item, types[key])
            for key, item in value.items()
            if key in types and item is not None
        }
    if isinstance(kind, inspect.DictType) and isinstance(value, dict):
        inner = kind.value_type
        keep = isinstance(_inner(inner), inspect.AnyType)
        return {key: _without_nulls(item, inner) for key, item in value.items() if keep or item is not None}
    if isinstance(kind, (inspect.ListType, inspect.VarTupleType)) and isinstance(value, list):
        return [_without_nulls(item, kind.item_type) for item in value if item is not None]
    return value


def _inner(kind: inspect.Type) -> inspect.Type:
    """The part of a type that can hold members: through ``Annotated`` and ``| None``."""
    while isinstance(kind, inspect.Metadata):
        kind = kind.type
    if isinstance(kind, inspect.UnionType):
        return next((_inner(part) for part in kind.types if isinstance(_inner(part), _TREE)), kind)
    return kind
