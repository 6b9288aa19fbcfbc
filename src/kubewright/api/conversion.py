"""One version of an object from another: a table of moves as data, and the engine that makes them. Pure.

Theory.      Two versions of a kind hold the same in other places and forms. A ``Table`` says which: what is
             not named stays where it is. The newer version is the hub. What the older one cannot hold
             survives there in an annotation: the whole object as the newer version has it, as Cluster API's
             webhooks write it, byte for byte, so that theirs and ours can take turns on living objects.
             Upstream decodes into Go's types and encodes them again, which drops empty values; ``as_written``
             does that here, and it follows from our types, whose fields stand in upstream's order.
Speed.       What a table and a type say is compiled once, into closures: the paths of all rows into one tree,
             so that an object is walked once, and a part that it has not costs one look. Only what a row
             names is copied before the moves; what is written at the end is made anew.
Invariants.  Arguments are never changed. Without its annotation an object converts as if it never had one; a
             damaged annotation counts as none (upstream fails, and the object can be read no more). What the
             newer version says always wins over the annotation, but for fields that only it can say.
Called by    ``cluster.conversion`` and ``bootstrap.conversion``, whose tables these are.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cache, cached_property
from typing import Any, cast

import orjson
from msgspec import NODEFAULT, inspect, to_builtins

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


@dataclass(frozen=True, eq=False)
class Table:
    """How two versions of a kind differ.

    ``kind``       the newer version
    ``moves``      what stands elsewhere or in another form
    ``intents``    plain values that may be unset in the newer version
    ``restored``   paths of the newer version that only the annotation knows
    ``zeros``      paths of the older version that upstream always writes, with what for; where the object
                   around is missing, only those marked by a leading ``+`` are written
    ``new_zeros``  the same of the newer version
    ``finish_up``    what no row can say, given source, result and the hub's object; of the result it may
                     change what rows name, and writes the rest by ``put``
    ``finish_down``  the same, given the result
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
    finish_down: Callable[[Obj], None] | None = None
    keeps: bool = True

    @cached_property
    def ups(self) -> Sequence[Move]:
        """The moves of a value that the older version has."""
        return [move for move in self.moves if move.old]

    @cached_property
    def take_old(self) -> "Take":
        """What the rows name is taken from an object of the older version."""
        plain = ((intent.old, True) for intent in self.intents)
        return _take_all([*((move.old, True) for move in self.ups), *plain])

    @cached_property
    def take_new(self) -> "Take":
        """The same of the newer version."""
        plain = ((intent.new, not intent.guarded) for intent in self.intents)
        return _take_all([*((move.new, True) for move in self.moves), *plain])

    @cached_property
    def written(self) -> "Pruned":
        """The content of an object of the newer version as it is written."""
        return as_written(self.kind.type)


Version = Callable[[str, str], str]


def upgraded(table: Table, obj: Mapping[str, Any], version_of: Version) -> Obj:
    """An object of the older version in the newer."""
    metadata, hub = _unpacked(table, _metadata(obj))
    context = Context(metadata.get("namespace", ""), version_of)
    result = _content(obj)
    found = table.take_old(result)
    for move, value in zip(table.ups, found, strict=False):
        if value is not None and (value := move.up(value, context)) is not None:
            put(result, move.new, value)
    _write_zeros(result, table.new_zeros)
    for intent, value in zip(table.intents, found[len(table.ups) :], strict=True):
        _restore_intent(obj, result, intent, value, hub)
    for path in table.restored if hub is not None else ():
        put(result, path, at(hub, path))
    if table.finish_up is not None:
        table.finish_up(cast("Obj", obj), result, hub)
    named = _named(table.kind.resource.api_version, obj)
    return {**named, "metadata": metadata, **table.written(result)}


def downgraded(table: Table, obj: Mapping[str, Any], version_of: Version) -> Obj:
    """An object of the newer version in the older."""
    metadata = _metadata(obj)
    context = Context(metadata.get("namespace", ""), version_of)
    result = table.written(obj)
    if table.keeps:
        named = {"kind": obj["kind"], "apiVersion": table.kind.resource.api_version, **(result or NO_CONTENT)}
        annotations = metadata.get("annotations") or {}
        metadata["annotations"] = {**annotations, ANNOTATION: go_json(named)}
    found = table.take_new(result)
    for move, value in zip(table.moves, found, strict=False):
        if move.old and value is not None and (value := move.down(value, context)) is not None:
            put(result, move.old, value)
    for intent, value in zip(table.intents, found[len(table.moves) :], strict=True):
        if value:
            put(result, intent.old, value)
    if table.finish_down is not None:
        table.finish_down(result)
    _write_zeros(result, table.zeros)
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


Take = Callable[[Obj], list[Any]]
"""Takes values out of an object, in the order of rows; None for what is not there."""


@cache
def _steps(path: str) -> tuple[tuple[str, ...], str]:
    *way, last = path.split(".")
    return tuple(way), last


def at(obj: Any, path: str) -> Any:
    """What stands at a path; None for nothing."""
    way, last = _steps(path)
    for step in way:
        if not isinstance(obj, dict):
            return None
        obj = obj.get(step)
    return obj.get(last) if isinstance(obj, dict) else None


def put(obj: Obj, path: str, value: Any) -> None:
    """Write a value at a path (None: take it away). Objects on the way are copied, as they may be shared, and
    made where they are missing."""
    way, last = _steps(path)
    for step in way:
        inner = obj.get(step)
        if isinstance(inner, dict):
            inner = obj[step] = inner.copy()
        elif value is None:
            return
        else:
            inner = obj[step] = {}
        obj = inner
    if value is None:
        obj.pop(last, None)
    else:
        obj[last] = value


@dataclass(slots=True)
class _Branch:
    """Where the ways of several rows part: what stands below, and the row that ends here.

    ``row``    its number
    ``clean``  whether objects around it go that have become empty
    """

    below: "dict[str, _Branch]" = field(default_factory=dict)
    row: int | None = None
    clean: bool = True


def _take_all(rows: Sequence[tuple[str, bool]]) -> Take:
    """What takes the values at some paths, each with whether it is clean: one walk over the object. Objects
    on the way are copied, as they may be shared; of two paths the inner one comes first."""
    tree = _Branch()
    for number, (path, clean) in enumerate(rows):
        branch = tree
        for step in path.split("."):
            branch = branch.below.setdefault(step, _Branch())
        branch.row, branch.clean = number, clean
    walk = _walk(tree)

    def take(obj: Obj) -> list[Any]:
        found: list[Any] = [None] * len(rows)
        walk(obj, found)
        return found

    return take


def _walk(tree: _Branch) -> Callable[[Obj, list[Any]], bool]:
    """Takes what stands below a branch; answers whether that has left an object that is empty and goes."""
    branches = [
        (step, _walk(branch) if branch.below else None, branch.row, branch.clean)
        for step, branch in tree.below.items()
    ]

    def walk(obj: Obj, found: list[Any]) -> bool:
        for step, inside, row, clean in branches:
            inner = obj.get(step)
            if inside is not None and isinstance(inner, dict):
                inner = obj[step] = inner.copy()
                if inside(inner, found):
                    del obj[step]
                    if not obj:
                        return True
                    continue
            if row is not None and step in obj:
                found[row] = obj.pop(step)
                if clean and inner is not None and not obj:
                    return True
        return False

    return walk


def _write_zeros(obj: Obj, zeros: Mapping[str, Any]) -> None:
    for marked, value in zeros.items():
        path = marked.removeprefix("+")
        way, last = _steps(path)
        around: Any = obj
        for step in way:
            around = around.get(step) if isinstance(around, dict) else None
        missing = last not in around if isinstance(around, dict) else path != marked
        if missing:
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

_NAMES = frozenset(("apiVersion", "kind", "metadata"))


def _named(api_version: str, obj: Mapping[str, Any]) -> Obj:
    return {"apiVersion": api_version, "kind": obj["kind"]}


def _metadata(obj: Mapping[str, Any]) -> Obj:
    found = obj.get("metadata")
    return dict(found) if isinstance(found, dict) else {}


def _content(obj: Mapping[str, Any]) -> Obj:
    """All but names and metadata."""
    return {key: value for key, value in obj.items() if key not in _NAMES}


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
        hub = to_builtins(table.kind.decode(str(annotations[ANNOTATION]).encode()))
    except (ValueError, UnicodeError):
        return kept, None
    return kept, hub


# ---------------------------------------------------------------- what is written

Pruned = Callable[[Any], Any]
"""A value as it is written: made anew, fields in their order, without those that say nothing."""


@dataclass(frozen=True, slots=True)
class _Field:
    """A field of an object.

    ``written``  its value as it is written; None: as it is
    ``kept``     whether an empty value is written, too
    ``unset``    what is written if it is not there (``_MISSING``: nothing is)
    """

    name: str
    written: Pruned | None
    kept: bool
    unset: Any


def as_written(kind: type) -> Pruned:
    """The content of a kind's objects as it is written, without names and metadata."""
    return _whole(cast("Hashable", kind))


@cache
def _whole(kind: Hashable) -> Pruned:
    info = cast("inspect.StructType", inspect.type_info(cast("Any", kind)))
    return _object([found for found in _fields(info) if found.name not in _NAMES])


def _written(info: inspect.Type) -> Pruned | None:
    """What makes of a type's value the one that is written; None: it is written as it is."""
    while isinstance(info, inspect.Metadata):
        info = info.type
    if isinstance(info, inspect.UnionType):
        inner = [part for part in info.types if isinstance(part, (inspect.Metadata, *_PRESENT))]
        return _written(inner[0]) if len(inner) == 1 else _copy
    if isinstance(info, inspect.StructType):
        if info.cls.__name__ == "ObjectMeta":
            return _object([_Field(name, _in_order, False, _MISSING) for name in ("labels", "annotations")])
        return _object(_fields(info))
    if isinstance(info, (inspect.ListType, inspect.VarTupleType)):
        return _items(_written(info.item_type) or _copy)
    if isinstance(info, inspect.DictType) and not isinstance(info.value_type, inspect.AnyType):
        return _in_order
    return None if isinstance(info, _SCALARS) else _copy


def _fields(info: inspect.StructType) -> list[_Field]:
    return [_Field(item.encode_name, _written(item.type), *_emptiness(item)) for item in info.fields]


def _object(fields: Sequence[_Field]) -> Pruned:
    if not fields:
        return _copy
    rows = [(each.name, each.written, each.kept or each.unset is not _MISSING, each.unset) for each in fields]

    def written(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        found: Obj = {}
        get = value.get
        for name, change, kept, unset in rows:
            inner = get(name)
            if inner is None:
                if unset is not _MISSING:
                    found[name] = unset
                continue
            if change is not None:
                inner = change(inner)
            if inner or kept:
                found[name] = inner
        return found

    return written


def _items(change: Pruned) -> Pruned:
    return lambda value: [change(item) for item in value] if isinstance(value, list) else value


def _in_order(value: Any) -> Any:
    return {key: value[key] for key in sorted(value)} if isinstance(value, dict) else value


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


_SCALARS = (inspect.StrType, inspect.IntType, inspect.BoolType, inspect.DateTimeType)
_PRESENT = (
    inspect.StructType,
    inspect.ListType,
    inspect.VarTupleType,
    inspect.DictType,
    *_SCALARS,
)
