"""One version of an object from another: a table of moves as data, and the engine that makes them. Pure.

Theory.      Two versions of a kind hold the same in other places and forms. A ``Table`` says which: what is
             not named stays where it is. The newer version is the hub. What the older one cannot hold
             survives there in an annotation: the whole object as the newer version has it, as Cluster API's
             webhooks write it, byte for byte, so that theirs and ours can take turns on living objects.
             Upstream decodes into Go's types and encodes them again, which drops empty values; ``Shape`` does
             that here, and it follows from our types, whose fields stand in upstream's order.
Invariants.  Arguments are never changed. Without its annotation an object converts as if it never had one; a
             damaged annotation counts as none (upstream fails, and the object can be read no more). What the
             newer version says always wins over the annotation, but for fields that only it can say.
Called by    ``cluster.conversion`` and ``bootstrap.conversion``, whose tables these are.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cache
from typing import Any, cast

import orjson
from msgspec import NODEFAULT, inspect

from kubewright.api.kinds import Kind
from kubewright.base.durations import format_duration, parse_duration

Obj = dict[str, Any]
ANNOTATION = "cluster.x-k8s.io/conversion-data"
INT32_MAX = 2**31 - 1
NO_CONTENT: Obj = {"metadata": {}}
"""What upstream writes of an object that has nothing but metadata: these, without what they say."""
_MISSING = object()


@dataclass(frozen=True, slots=True)
class Context:
    """What a value's form may depend on.

    ``namespace``   of the object
    ``version_of``  the apiVersion in which the objects of a group and kind are read, by their contract
    """

    namespace: str
    version_of: Callable[[str, str], str]


Codec = Callable[[Any, Context], Any]
"""From one form of a value to the other; None: there is nothing to write."""


def same(value: Any, _context: Context) -> Any:
    """The value as it is."""
    return value


@dataclass(frozen=True, slots=True)
class Move:
    """One value in both versions: its paths, and the way from one form to the other.

    An empty ``old``: the older version has no such value.
    """

    old: str
    new: str
    up: Codec = same
    down: Codec = same


@dataclass(frozen=True, slots=True)
class Intent:
    """A plain value in the older version, one that may be unset in the newer.

    False and 0 of the older version mean unset, unless the annotation says that they were written on purpose.
    ``guarded``: only where the object around it is there, which stays when this is its only value.
    """

    old: str
    new: str
    guarded: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """How two versions of a kind differ.

    ``kind``       the newer version
    ``moves``      what stands elsewhere or in another form
    ``intents``    plain values that may be unset in the newer version
    ``restored``   paths of the newer version that only the annotation knows
    ``zeros``      paths of the older version that upstream always writes, with what for; where the object
                   around is missing, only those marked by a leading ``+`` are written
    ``new_zeros``  the same of the newer version
    ``finish_up``, ``finish_down``  what no row can say, given source and result; and the hub's object
    ``keeps``      whether the annotation is written
    """

    kind: Kind[Any]
    old_version: str
    moves: Sequence[Move] = ()
    intents: Sequence[Intent] = ()
    restored: Sequence[str] = ()
    zeros: Mapping[str, Any] = field(default_factory=dict)
    new_zeros: Mapping[str, Any] = field(default_factory=dict)
    finish_up: Callable[[Obj, Obj, Obj | None], None] | None = None
    finish_down: Callable[[Obj, Obj], None] | None = None
    keeps: bool = True


Version = Callable[[str, str], str]


def upgraded(table: Table, obj: Mapping[str, Any], version_of: Version) -> Obj:
    """An object of the older version in the newer."""
    metadata, hub = _unpacked(table, _metadata(obj))
    context = Context(metadata.get("namespace", ""), version_of)
    result = _content(obj)
    found = [(move, _taken(result, move.old)) for move in table.moves if move.old]
    plain = [(intent, _taken(result, intent.old)) for intent in table.intents]
    for move, value in found:
        if value is not None and (value := move.up(value, context)) is not None:
            put(result, move.new, value)
    _write_zeros(result, table.new_zeros)
    for intent, value in plain:
        _restore_intent(obj, result, intent, value, hub)
    for path in table.restored if hub is not None else ():
        taken = at(hub, path)
        if _taken(result, path) is not None or taken is not None:
            put(result, path, taken)
    if table.finish_up is not None:
        table.finish_up(_content(obj), result, hub)
    pruned = shape_of(table.kind.type).pruned(result) or {}
    return {**_named(table.kind.resource.api_version, obj), "metadata": metadata, **pruned}


def downgraded(table: Table, obj: Mapping[str, Any], version_of: Version) -> Obj:
    """An object of the newer version in the older."""
    metadata = _metadata(obj)
    context = Context(metadata.get("namespace", ""), version_of)
    source = shape_of(table.kind.type).pruned(_content(obj)) or {}
    result = _copy(source)
    found = [(move, _taken(result, move.new)) for move in table.moves]
    plain = [(intent, _taken(result, intent.new, clean=not intent.guarded)) for intent in table.intents]
    for move, value in found:
        if move.old and value is not None and (value := move.down(value, context)) is not None:
            put(result, move.old, value)
    for intent, value in plain:
        if value:
            put(result, intent.old, value)
    if table.finish_down is not None:
        table.finish_down(source, result)
    _write_zeros(result, table.zeros)
    if table.keeps:
        named = {"kind": obj["kind"], "apiVersion": table.kind.resource.api_version, **(source or NO_CONTENT)}
        annotations = metadata.get("annotations") or {}
        metadata["annotations"] = {**annotations, ANNOTATION: go_json(named)}
    old = f"{table.kind.resource.group}/{table.old_version}"
    return {**_named(old, obj), "metadata": metadata, **result}


def converter(table: Table, version_of: Version) -> Callable[[Obj, str], Obj]:
    """``convert(object, version)`` of a kind: what a server calls. An object that has the version stays."""

    def convert(obj: Obj, to: str) -> Obj:
        version = to.rpartition("/")[2]
        if obj.get("apiVersion", "").rpartition("/")[2] == version:
            return obj
        change = upgraded if version == table.kind.resource.version else downgraded
        return change(table, obj, version_of)

    return convert


def go_json(value: Any) -> str:
    """A value as Go's ``json.Marshal`` writes it: no blanks, and what HTML could read is escaped."""
    text = orjson.dumps(value).decode()
    for letter in "<>&\u2028\u2029":
        if letter in text:
            text = text.replace(letter, f"\\u{ord(letter):04x}")
    return text


# ---------------------------------------------------------------- codecs


def seconds_of(text: Any, _context: Context) -> int | None:
    """The whole seconds of a duration, at most what 32 bits hold; None for a text that is no duration."""
    try:
        whole = int(parse_duration(text).total_seconds())
    except (ValueError, TypeError, OverflowError):
        return None
    return min(whole, INT32_MAX)


def duration_of(seconds: Any, _context: Context) -> str:
    """Seconds as a duration."""
    return format_duration(timedelta(seconds=int(seconds)))


def short_reference(found: Mapping[str, Any], _context: Context) -> Obj:
    """A reference by apiVersion as one by group."""
    group, slash, _ = (found.get("apiVersion") or "").rpartition("/")
    named = {"kind": found.get("kind"), "name": found.get("name"), "apiGroup": group if slash else ""}
    return {key: value for key, value in named.items() if value}


def long_reference(found: Mapping[str, Any], context: Context) -> Obj | None:
    """A reference by group as one by apiVersion, in the object's namespace; None for an empty one."""
    if not found:
        return None
    group, kind = found.get("apiGroup", ""), found.get("kind", "")
    named = {
        "apiVersion": context.version_of(group, kind),
        "kind": kind,
        "name": found.get("name", ""),
        "namespace": context.namespace,
    }
    return {key: value for key, value in named.items() if value}


def each(change: Codec) -> Codec:
    """A codec of lists from one of their items."""
    return lambda items, context: [change(item, context) for item in items]


def renamed(old: str, new: str, change: Codec = same) -> Codec:
    """A codec of objects in which one field has another name and form."""

    def move(item: Mapping[str, Any], context: Context) -> Obj:
        rest = {key: value for key, value in item.items() if key != old}
        value = item.get(old)
        changed = None if value is None else change(value, context)
        return rest if changed is None else {**rest, new: changed}

    return move


# ---------------------------------------------------------------- paths


@cache
def _steps(path: str) -> tuple[tuple[str, ...], str]:
    *way, last = path.split(".")
    return tuple(way), last


def at(obj: Any, path: str) -> Any:
    """What stands at a path; None for nothing."""
    for step in path.split("."):
        if not isinstance(obj, dict):
            return None
        obj = obj.get(step)
    return obj


def put(obj: Obj, path: str, value: Any) -> None:
    """Write a value at a path (None: take it away); objects on the way are made where they are missing."""
    way, last = _steps(path)
    for step in way:
        inner = obj.get(step)
        if not isinstance(inner, dict):
            if value is None:
                return
            inner = obj[step] = {}
        obj = inner
    if value is None:
        obj.pop(last, None)
    else:
        obj[last] = value


def _taken(obj: Obj, path: str, *, clean: bool = True) -> Any:
    """What stands at a path, which is taken away with the objects around it that have become empty."""
    way, last = _steps(path)
    parents = []
    for step in way:
        inner = obj.get(step)
        if not isinstance(inner, dict):
            return None
        parents.append((obj, step))
        obj = inner
    value = obj.pop(last, None)
    for parent, step in reversed(parents) if clean and value is not None else ():
        if parent[step]:
            break
        del parent[step]
    return value


def _write_zeros(obj: Obj, zeros: Mapping[str, Any]) -> None:
    for marked, value in zeros.items():
        path = marked.removeprefix("+")
        way, last = _steps(path)
        around = at(obj, ".".join(way)) if way else obj
        if isinstance(around, dict):
            around.setdefault(last, _copy(value))
        elif path != marked:
            put(obj, path, _copy(value))


def _restore_intent(source: Any, result: Obj, intent: Intent, value: Any, hub: Obj | None) -> None:
    if value:
        put(result, intent.new, value)
        return
    meant = at(hub, intent.new) if hub is not None else None
    around = not intent.guarded or isinstance(at(source, intent.old.rpartition(".")[0]), dict)
    if meant is not None and not meant and around:
        put(result, intent.new, meant)


# ---------------------------------------------------------------- objects


def _named(api_version: str, obj: Mapping[str, Any]) -> Obj:
    return {"apiVersion": api_version, "kind": obj["kind"]}


def _metadata(obj: Mapping[str, Any]) -> Obj:
    found = obj.get("metadata")
    return dict(found) if isinstance(found, dict) else {}


def _content(obj: Mapping[str, Any]) -> Obj:
    """A copy of all but names and metadata."""
    return {key: _copy(value) for key, value in obj.items() if key not in ("apiVersion", "kind", "metadata")}


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copy(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_copy(item) for item in value]
    return value


def _unpacked(table: Table, metadata: Obj) -> tuple[Obj, Obj | None]:
    """The metadata without the annotation, and the object that it holds; None if it holds none."""
    annotations = metadata.get("annotations")
    if not table.keeps or not isinstance(annotations, dict) or ANNOTATION not in annotations:
        return metadata, None
    rest = {key: value for key, value in annotations.items() if key != ANNOTATION}
    kept = {key: value for key, value in metadata.items() if key != "annotations"}
    if rest:
        kept["annotations"] = rest
    try:
        hub = table.kind.to_plain(table.kind.decode(str(annotations[ANNOTATION]).encode()))
    except (ValueError, UnicodeError):
        return kept, None
    return kept, hub


# ---------------------------------------------------------------- shapes


@dataclass(frozen=True, slots=True)
class Shape:
    """What of a value is written: fields in their order, without those that say nothing.

    ``fields``  of an object: name, shape, whether an empty value is written too, and what an unset one is
                written as (``_MISSING``: it is not)
    ``items``   the shape of each item of a list or map
    """

    fields: tuple[tuple[str, "Shape", bool, Any], ...] = ()
    items: "Shape | None" = None
    is_map: bool = False

    def pruned(self, value: Any) -> Any:
        """The value as it is written."""
        if self.fields and isinstance(value, dict):
            return self._object(value)
        if self.items is not None and isinstance(value, list):
            return [self.items.pruned(item) for item in value]
        if self.is_map and isinstance(value, dict):
            return {key: value[key] for key in sorted(value)}
        return value

    def _object(self, value: Obj) -> Obj:
        found: Obj = {}
        for name, shape, kept, zero in self.fields:
            inner = value.get(name)
            if inner is None:
                if zero is not _MISSING:
                    found[name] = zero
                continue
            if shape.fields or shape.items is not None or shape.is_map:
                inner = shape.pruned(inner)
            if inner or kept or zero is not _MISSING:
                found[name] = inner
        return found


def shape_of(kind: type) -> Shape:
    """The shape of a kind's objects, without names and metadata."""
    return _whole(cast("Hashable", kind))


@cache
def _whole(kind: Hashable) -> Shape:
    whole = _shape(inspect.type_info(kind))
    names = ("apiVersion", "kind", "metadata")
    return Shape(tuple(each for each in whole.fields if each[0] not in names))


def _shape(info: inspect.Type) -> Shape:
    while isinstance(info, inspect.Metadata):
        info = info.type
    if isinstance(info, inspect.UnionType):
        inner = [part for part in info.types if isinstance(part, (inspect.Metadata, *_PRESENT))]
        return _shape(inner[0]) if len(inner) == 1 else Shape()
    if isinstance(info, inspect.StructType):
        if info.cls.__name__ == "ObjectMeta":
            texts = Shape(is_map=True)
            return Shape(tuple((name, texts, False, _MISSING) for name in ("labels", "annotations")))
        return Shape(tuple((item.encode_name, _shape(item.type), *_emptiness(item)) for item in info.fields))
    if isinstance(info, (inspect.ListType, inspect.VarTupleType)):
        return Shape(items=_shape(info.item_type))
    if isinstance(info, inspect.DictType) and not isinstance(info.value_type, inspect.AnyType):
        return Shape(is_map=True)
    return Shape()


def _emptiness(item: inspect.Field) -> tuple[bool, Any]:
    """Whether a field is written if it is empty, as a pointer is, and a required scalar that may be empty;
    and what is written if it is unset."""
    info, required, zero = item.type, False, _MISSING
    while isinstance(info, inspect.Metadata):
        extra = info.extra or {}
        bounded = {"minLength", "enum"} & set(extra.get("schema", ()))
        required = required or bool(extra.get("required") and not bounded)
        zero = extra.get("written", zero)
        info = info.type
    if isinstance(info, inspect.UnionType):
        return any(not isinstance(part, (inspect.Metadata, *_PRESENT)) for part in info.types), zero
    scalar = isinstance(info, (inspect.StrType, inspect.IntType, inspect.BoolType))
    may_be_unset = not item.required and item.default is item.default_factory is NODEFAULT
    return may_be_unset or (required and scalar), zero


_PRESENT = (
    inspect.StructType,
    inspect.ListType,
    inspect.VarTupleType,
    inspect.DictType,
    inspect.StrType,
    inspect.IntType,
    inspect.BoolType,
    inspect.DateTimeType,
)
