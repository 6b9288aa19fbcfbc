"""Patches: pure functions from a document and a patch to the patched document.

Theory.      ``apply_merge`` (RFC 7386) is also what our own controllers send. ``apply_json`` (RFC 6902)
             refuses in kube-apiserver's words. ``apply_strategic`` is Kubernetes' own form for built-in
             kinds: whether a list is merged or replaced is defined by the schema, so a callback returns
             the merge key and strategy of each list.
Invariants.  Pure. Unchanged parts are shared with the document given, which is never changed. No directive of
             a strategic patch ever reaches the result.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import jsonpatch
import jsonpointer

from kubewright.wire import gojson
from kubewright.wire.errors import BadRequest, Invalid, TooLarge

Path = tuple[str, ...]
MergeKeys = Callable[[Path], tuple[str | None, frozenset[str]]]

_PATCH, _RETAIN = "$patch", "$retainKeys"
_ORDER, _DELETE = "$setElementOrder/", "$deleteFromPrimitiveList/"
MOST_OPERATIONS = 10_000
"""Operations that one JSON patch may have: kube-apiserver's bound."""


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


def apply_json(document: Any, operations: Any) -> Any:
    """The document after a JSON patch (RFC 6902), which the ``jsonpatch`` library applies.

    A malformed patch is a bad request (400). A patch that does not fit the document
    (a failed ``test``, a path to nothing, an unknown operation) is refused with 422 Invalid, without
    details, as at kube-apiserver: they would quote the document, and a user who may patch a Secret must not
    read the Secret that way.

    Raises:
        BadRequest: ``operations`` is not a list of JSON patch operations.
        TooLarge: there are more than ``MOST_OPERATIONS``.
        Invalid: an operation does not fit the document.
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
        return _Patch(operations).apply(document)
    except (jsonpatch.JsonPatchException, jsonpointer.JsonPointerException):
        raise _refused() from None
    except (TypeError, KeyError, IndexError, ValueError, AttributeError):
        # What the library raises when a path leads through a scalar.
        raise _refused() from None


def json_difference(before: Any, after: Any) -> list[dict[str, Any]]:
    """The operations of a JSON patch that turns ``before`` into ``after``; none when they are equal."""
    found: list[dict[str, Any]] = jsonpatch.make_patch(before, after).patch
    return found


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


class _Patch(jsonpatch.JsonPatch):
    operations = MappingProxyType({**jsonpatch.JsonPatch.operations, "replace": _Replace, "test": _Test})


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
    return Invalid("the server rejected our request due to an error in our request", details={})


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
            result[name] = [each for each in kept if each not in removed]
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
    result = list(old)
    for each in patch:
        if key not in each:
            raise Invalid(f"map: {dict(each)} does not contain declared merge key: {key}")
        at = _index(result, key, each[key])
        if each.get(_PATCH) == "delete":
            result = [one for one in result if not (isinstance(one, Mapping) and one.get(key) == each[key])]
        elif at is None:
            result.append(_map({}, each, path, keys))
        else:
            result[at] = _map(result[at], each, path, keys)
    return result


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
    ids = [each.get(key) if isinstance(each, Mapping) and key else each for each in order]
    places = [_id(each, key) for each in before]
    named = sorted((e for e in found if _id(e, key) in ids), key=lambda each: ids.index(_id(each, key)))
    others = [each for each in found if _id(each, key) not in ids]
    result = []
    while named and others:
        first, other = _id(named[0], key), _id(others[0], key)
        earlier = first in places and other in places and places.index(first) < places.index(other)
        result.append(named.pop(0) if earlier else others.pop(0))
    return result + named + others


def _id(element: Any, key: str | None) -> Any:
    return element.get(key) if key and isinstance(element, Mapping) else element


def _union(old: list[Any], new: Sequence[Any]) -> list[Any]:
    result = list(old)
    for each in new:
        if each not in result:
            result.append(each)
    return result


def _index(elements: list[Any], key: str, value: Any) -> int | None:
    found = (i for i, one in enumerate(elements) if isinstance(one, Mapping) and one.get(key) == value)
    return next(found, None)


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
