"""Patches: pure functions from a document and a patch to the patched document.

Theory.      ``apply_merge`` (RFC 7386) is also what our own controllers send. ``apply_json`` (RFC 6902)
             refuses in kube-apiserver's words. ``apply_strategic`` is Kubernetes' own form for built-in
             kinds: whether a list is merged or replaced is defined by the schema, so a callback returns
             the merge key and strategy of each list.
Invariants.  Pure. Unchanged parts are shared with the document given, which is never changed. No directive of
             a strategic patch ever reaches the result. A patch takes time and memory in proportion to itself
             and the document: what a JSON patch copies is bounded, and how many items of lists it moves by
             adding and removing others before them; merged lists are looked up by key, never searched for
             each element.
"""

import copy
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import jsonpatch
import jsonpointer
import orjson

from kubewright.base.limits import PATCH_BYTES
from kubewright.wire import gojson
from kubewright.wire.errors import BadRequest, Invalid, TooLarge

Path = tuple[str, ...]
MergeKeys = Callable[[Path], tuple[str | None, frozenset[str]]]

_PATCH, _RETAIN = "$patch", "$retainKeys"
_ORDER, _DELETE = "$setElementOrder/", "$deleteFromPrimitiveList/"
MOST_OPERATIONS = 10_000
"""Operations that one JSON patch may have: kube-apiserver's bound."""
MOST_MOVED = 100_000_000
"""Items of lists that one JSON patch may move, in a tenth of a second. So 10,000 operations may
each add to the beginning of a list of 10,000."""


def apply_merge(document: Any, patch: Any) -> Any:
    """The document after a JSON merge patch (RFC 7386)."""
    if not isinstance(patch, Mapping):
        return patch
    merged: dict[str, Any] = dict(document) if isinstance(document, Mapping) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        elif isinstance(value, Mapping):
            merged[name] = apply_merge(merged.get(name), value)
        else:
            merged[name] = value
    return merged


class MovesTooMuch(TooLarge):
    """The operations of a JSON patch move more items of lists than they may."""

    def __init__(self) -> None:
        super().__init__(
            f"Request entity too large: The operations of a JSON patch may move {MOST_MOVED} items of lists; "
            "replace the list as a whole"
        )


class GrowsTooMuch(Invalid):
    """A JSON patch that brings more than it may. Its message is kube-apiserver's, which gives no reason;
    ``why`` does, for those who apply the patches of a spec."""

    def __init__(self, brought: int, most: int) -> None:
        super().__init__(_REFUSED, details={})
        self.why = (
            f"Unable to complete the copy, the accumulated size increase of copy is {brought}, "
            f"exceeding the limit {most}"
        )


_REFUSED = "the server rejected our request due to an error in our request"


def apply_json(document: Any, operations: Any, *, most: int = PATCH_BYTES) -> Any:
    """The document after a JSON patch (RFC 6902), which the ``jsonpatch`` library applies.

    A malformed patch is a bad request (400). A patch that does not fit the document
    (a failed ``test``, a path to nothing, an unknown operation) is refused with 422 Invalid, without
    details, as at kube-apiserver: they would quote the document, and a user who may patch a Secret must not
    read the Secret that way. Twenty copies that each double an object would make a gigabyte of it: what all
    operations bring, written as JSON, is ``most`` bytes at most.

    Raises:
        BadRequest: ``operations`` is not a list of JSON patch operations.
        TooLarge: there are more than ``MOST_OPERATIONS``, or (``MovesTooMuch``) they move too much.
        Invalid: an operation does not fit the document, or (``GrowsTooMuch``) they bring too much.
    """
    if not isinstance(operations, list):
        raise _undecodable(operations, "[]handlers.jsonPatchOp")
    if len(operations) > MOST_OPERATIONS:
        found = len(operations)
        said = f"The allowed maximum operations in a JSON patch is {MOST_OPERATIONS}, got {found}"
        raise TooLarge(f"Request entity too large: {said}")
    for operation in operations:
        _check(operation)
    try:
        return _applied(_twin(document), operations, most)
    except (jsonpatch.JsonPatchException, jsonpointer.JsonPointerException):
        raise _refused() from None
    except (TypeError, KeyError, IndexError, ValueError, AttributeError, RecursionError):
        # What the library raises when a path leads through a scalar, and what writes JSON, of deep nesting.
        raise _refused() from None


def json_difference(before: Any, after: Any) -> list[dict[str, Any]]:
    """The operations of a JSON patch that turns ``before`` into ``after``; none when they are equal."""
    found: list[dict[str, Any]] = jsonpatch.make_patch(before, after).patch
    return found


_INDEX = re.compile(r"[+-]?[0-9]{1,9}")


class _Pointer(jsonpointer.JsonPointer):
    """A pointer as Go reads it: an index may have zeros and a sign before it, and -1 is the last item."""

    beyond = 0
    """How many more places than items a list has."""

    def to_last(self, doc: Any) -> Any:
        if not self.parts:
            return doc, None
        for part in self.parts[:-1]:
            doc = self.walk(doc, part)
        return doc, self.get_part(doc, _place(doc, self.parts[-1], self.beyond))

    def walk(self, doc: Any, part: Any) -> Any:
        return super().walk(doc, _place(doc, part, 0))


class _Gap(_Pointer):
    """A pointer to where an item is added: also after the last one, which is -1 here."""

    beyond = 1


def _place(doc: Any, part: Any, beyond: int) -> Any:
    """An index without a sign; any other part as it is."""
    if not isinstance(doc, list) or _INDEX.fullmatch(str(part)) is None:
        return part
    index = int(part)
    return str(index + len(doc) + beyond if index < 0 else index)


class _Moved:
    """Counts the items that operations move in lists, to make a gap or to close one."""

    def __init__(self) -> None:
        self._left = MOST_MOVED

    def count(self, pointer: jsonpointer.JsonPointer, document: Any) -> None:
        """What it takes to add or remove at a pointer.

        Raises:
            MovesTooMuch
        """
        inside, place = pointer.to_last(document)
        if isinstance(inside, list):
            self._left -= max(0, len(inside) - place) if isinstance(place, int) else 0
        if self._left < 0:
            raise MovesTooMuch


class _Add(jsonpatch.AddOperation):
    moved: _Moved

    def apply(self, obj: Any) -> Any:
        self.pointer = _Gap(self.location)
        self.moved.count(self.pointer, obj)
        return super().apply(obj)


class _Remove(jsonpatch.RemoveOperation):
    moved: _Moved

    def apply(self, obj: Any) -> Any:
        self.moved.count(self.pointer, obj)
        return super().apply(obj)


class _Move(jsonpatch.MoveOperation):
    """As the library does it, to a place that is read after the value is gone from its old one."""

    moved: _Moved

    def apply(self, obj: Any) -> Any:
        source = _Pointer(self.operation["from"])
        if self.pointer == source:
            return super().apply(obj)
        if self.pointer.contains(source):
            raise _refused()
        value = source.resolve(obj)
        removing = _Remove({"op": "remove", "path": self.operation["from"]}, pointer_cls=_Pointer)
        adding = _Add({"op": "add", "path": self.location, "value": None}, pointer_cls=_Pointer)
        removing.moved = adding.moved = self.moved
        left = removing.apply(obj)
        if not self.pointer.parts:
            return value
        inside, place = _Gap(self.location).to_last(left)
        left = adding.apply(left)  # the library copies what it adds, however large: so the value comes after
        inside[-1 if isinstance(inside, list) and place == "-" else place] = value
        return left


class _Replace(jsonpatch.ReplaceOperation):
    """As kube-apiserver does it: a member that is not there is added."""

    def apply(self, obj: Any) -> Any:
        inside, member = self.pointer.to_last(obj)
        if isinstance(inside, dict) and member is not None and member not in inside:
            inside[member] = self.operation["value"]
            return obj
        return super().apply(obj)


class _Test(jsonpatch.TestOperation):
    """As kube-apiserver does it: a member that is not there is null."""

    def apply(self, obj: Any) -> Any:
        inside, member = self.pointer.to_last(obj)
        absent = isinstance(inside, dict) and member is not None and member not in inside
        return obj if absent and self.operation.get("value", ...) is None else super().apply(obj)


_OPERATIONS: Mapping[str, type[jsonpatch.PatchOperation]] = {
    **jsonpatch.JsonPatch.operations,
    "add": _Add,
    "move": _Move,
    "remove": _Remove,
    "replace": _Replace,
    "test": _Test,
}


def _applied(document: Any, operations: Sequence[Mapping[str, Any]], most: int) -> Any:
    """The document after the operations, which change it in place.

    Raises:
        Invalid, BadRequest: and whatever the library raises.
    """
    brought, moved = 0, _Moved()
    for each in operations:
        operation, name = each, each.get("op", "")
        if name == "copy":
            operation = {"op": "add", "path": each["path"], "value": _found(document, each["from"])}
        if name in ("add", "copy", "replace"):
            written = _written(operation["value"])
            brought += len(written)
            if brought > most:
                raise GrowsTooMuch(brought, most)
            operation = {**operation, "value": orjson.loads(written)}  # shared with nothing
        if (known := _OPERATIONS.get(operation.get("op", ""))) is None:
            raise _refused()
        step: Any = known(operation, pointer_cls=_Pointer)
        step.moved = moved
        document = step.apply(document)
    return document


def _found(document: Any, pointer: str) -> Any:
    found = _Pointer(pointer).resolve(document)
    if isinstance(found, jsonpointer.EndOfList):
        raise _refused()
    return found


def _written(value: Any) -> bytes:
    try:
        return orjson.dumps(value)
    except orjson.JSONEncodeError:
        raise BadRequest(str(gojson.TooDeep())) from None


def _twin(document: Any) -> Any:
    """A copy that shares nothing. By way of JSON it takes a tenth of the time of ``deepcopy``."""
    try:
        return orjson.loads(orjson.dumps(document))
    except orjson.JSONEncodeError:  # numbers that only Python writes
        return copy.deepcopy(document)


def _check(operation: Any) -> None:
    """Check the types in an operation; all else is checked when it is applied."""
    if not isinstance(operation, Mapping):
        raise _undecodable(operation, "handlers.jsonPatchOp")
    for name in ("op", "path", "from"):
        if not isinstance(operation.get(name, ""), str):
            raise _undecodable(operation[name], "string")


def _undecodable(value: Any, wanted: str) -> BadRequest:
    return BadRequest(f"error decoding patch: {gojson.cannot_unmarshal(value, wanted)}")


def _refused() -> Invalid:
    return Invalid(_REFUSED, details={})


def apply_strategic(document: Mapping[str, Any], patch: Any, merge_keys: MergeKeys) -> dict[str, Any]:
    """The document after a strategic merge patch: one that knows which lists merge, and by which key.

    ``merge_keys`` answers for each path: the merge key (None for lists of plain values) and the strategies,
    of which ``merge`` makes a list merge and ``replace`` makes a map be replaced. Otherwise it works like a
    JSON merge patch, with directives inside the patch:

    ``$patch: delete|replace|merge``       on a map, or on an element of a merging list
    ``$retainKeys: [names]``               drop every other key of the map
    ``$setElementOrder/<list>: [...]``     the order that the sender wants
    ``$deleteFromPrimitiveList/<list>``    plain values to take out

    Raises:
        BadRequest: the patch is not an object, or a directive is malformed.
        Invalid: an element of a merging list lacks its merge key.
    """
    if not isinstance(patch, Mapping):
        raise BadRequest("error decoding patch: a strategic merge patch is an object")
    return _map(document, patch, (), merge_keys)


def _map(old: Mapping[str, Any], patch: Mapping[str, Any], path: Path, keys: MergeKeys) -> dict[str, Any]:
    match patch.get(_PATCH):
        case None | "merge":
            return _merged(old, patch, path, keys)
        case "replace":
            return _cleaned(patch)
        case "delete":
            return {}
        case unknown:
            raise BadRequest(f"Unknown patch type found: {unknown}")


def _merged(old: Mapping[str, Any], patch: Mapping[str, Any], path: Path, keys: MergeKeys) -> dict[str, Any]:
    result = _retained(old, patch)
    for name, value in patch.items():
        if _is_directive(name):
            continue
        if value is None:
            result.pop(name, None)
        else:
            result[name] = _value(result.get(name), value, (*path, name), keys)
    for name, removed in _directives(patch, _DELETE):
        if isinstance(kept := result.get(name), list):
            gone = {_identity(each) for each in removed}
            result[name] = [each for each in kept if _identity(each) not in gone]
    for name, order in _directives(patch, _ORDER):
        if isinstance(found := result.get(name), list):
            key, _ = keys((*path, name))
            result[name] = _ordered(found, _list(old.get(name)), order, key)
    return result


def _is_directive(name: str) -> bool:
    return name in (_PATCH, _RETAIN) or name.startswith((_ORDER, _DELETE))


def _value(old: Any, new: Any, path: Path, keys: MergeKeys) -> Any:
    if isinstance(new, Mapping):
        replaces = isinstance(old, Mapping) and "replace" in keys(path)[1]
        return _map(old if isinstance(old, Mapping) and not replaces else {}, new, path, keys)
    if isinstance(new, list):
        key, strategies = keys(path)
        if "merge" not in strategies:
            return _clean(new)
        return _elements(_list(old), new, path, keys) if key else _union(_list(old), new)
    return new


def _elements(old: list[Any], patch: Sequence[Any], path: Path, keys: MergeKeys) -> list[Any]:
    key = keys(path)[0]
    assert key is not None
    for each in patch:
        if not isinstance(each, Mapping):
            raise Invalid(f"{'.'.join(path)}: elements of this list must be objects with the key {key!r}")
    if any(each.get(_PATCH) == "replace" for each in patch):
        return [_clean(each) for each in patch if _PATCH not in each]
    result, places = list(old), _places(old, key)
    for each in patch:
        if key not in each:
            raise Invalid(f"map: {_shown(each)} does not contain declared merge key: {key}")
        found = places.get(name := _identity(each[key]))
        if each.get(_PATCH) == "delete":
            for at in places.pop(name, ()):
                result[at] = _GONE
        elif found is None:
            places[name] = [len(result)]
            result.append(_map({}, each, path, keys))
        else:
            result[found[0]] = _map(result[found[0]], each, path, keys)
    return [each for each in result if each is not _GONE]


_GONE: Any = object()
"""In the place of an element that is deleted, so that the others keep theirs."""

_MOST_SHOWN = 512
"""Characters of a sent element that a refusal shows."""


def _shown(element: Mapping[str, Any]) -> str:
    text = str(dict(element))
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}..."


def _places(elements: Sequence[Any], key: str) -> dict[Any, list[int]]:
    """Where the elements with each value of the merge key stand."""
    found: dict[Any, list[int]] = {}
    for at, each in enumerate(elements):
        if isinstance(each, Mapping) and key in each:
            found.setdefault(_identity(each[key]), []).append(at)
    return found


def _identity(value: Any) -> Any:
    """What two values have in common if and only if they are equal as JSON; it can be a key of a map."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool | int | float):
        return (isinstance(value, bool), value)
    return json.dumps(value, sort_keys=True)  # of integers of any size, which orjson does not write


def _retained(old: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    if _RETAIN not in patch:
        return dict(old)
    kept = patch[_RETAIN]
    if not isinstance(kept, list):
        raise BadRequest("$retainKeys must be a list of names")
    if strays := [name for name in patch if not _is_directive(name) and name not in kept]:
        raise BadRequest(f"$retainKeys must contain every key of the patch; it lacks {strays[0]!r}")
    return {name: value for name, value in old.items() if name in kept}


def _directives(patch: Mapping[str, Any], prefix: str) -> Iterable[tuple[str, list[Any]]]:
    for name, value in patch.items():
        if name.startswith(prefix):
            if not isinstance(value, list):
                raise BadRequest(f"{name} must be a list")
            yield name.removeprefix(prefix), value


def _ordered(found: list[Any], before: list[Any], order: list[Any], key: str | None) -> list[Any]:
    """The elements named in ``order`` in that order; the others keep their place among those before."""
    ranks = _ranks(order, key)
    places = _ranks(before, key)
    named = sorted(
        (each for each in found if _id(each, key) in ranks), key=lambda each: ranks[_id(each, key)]
    )
    others = [each for each in found if _id(each, key) not in ranks]
    result, at, beside = [], 0, 0
    while at < len(named) and beside < len(others):
        first, other = places.get(_id(named[at], key)), places.get(_id(others[beside], key))
        if first is not None and other is not None and first < other:
            result.append(named[at])
            at += 1
        else:
            result.append(others[beside])
            beside += 1
    return result + named[at:] + others[beside:]


def _ranks(elements: Iterable[Any], key: str | None) -> dict[Any, int]:
    """The first place of each element, by its identity."""
    found: dict[Any, int] = {}
    for at, each in enumerate(elements):
        found.setdefault(_id(each, key), at)
    return found


def _id(element: Any, key: str | None) -> Any:
    return _identity(element.get(key) if key and isinstance(element, Mapping) else element)


def _union(old: list[Any], new: Sequence[Any]) -> list[Any]:
    result, known = list(old), {_identity(each) for each in old}
    for each in new:
        if (name := _identity(each)) not in known:
            known.add(name)
            result.append(each)
    return result


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _clean(value: Any) -> Any:
    """The value without directives and nulls, as it is stored where there was nothing to merge with."""
    if isinstance(value, Mapping):
        return _cleaned(value)
    if isinstance(value, list):
        return [_clean(each) for each in value]
    return value


def _cleaned(value: Mapping[str, Any]) -> dict[str, Any]:
    kept = {name: each for name, each in value.items() if not _is_directive(name) and each is not None}
    return {name: _clean(each) for name, each in kept.items()}
