"""JSON patch (RFC 6902): the ``jsonpatch`` library applies it, we say what is wrong as kube does.

A patch that cannot even be read is the sender's mistake (400). A patch that does not fit the document —
a failed ``test``, a path to nothing, an unknown operation — is refused with 422 Invalid. Why stays
untold, as at kube-apiserver: the reason would quote the document, and who may patch a Secret may
not read it by that.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import jsonpatch
import jsonpointer

from kubewright.wire import gojson
from kubewright.wire.errors import BadRequest, Invalid, TooLarge

MOST_OPERATIONS = 10_000
"""Operations that one patch may have: kube-apiserver's bound."""


def apply(document: Any, operations: Any) -> Any:
    """The patched document.

    Raises:
        BadRequest: ``operations`` is no list of JSON patch operations.
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
        # The library walks into scalars and finds no container there; to the sender it is one thing.
        raise _refused() from None


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
    """The types of an operation; whether it makes sense is seen when it is applied."""
    if not isinstance(operation, Mapping):
        raise _undecodable(operation, "handlers.jsonPatchOp")
    for name in ("op", "path", "from"):
        if not isinstance(operation.get(name, ""), str):
            raise _undecodable(operation[name], "string")


def _undecodable(value: Any, wanted: str) -> BadRequest:
    return BadRequest(f"error decoding patch: {gojson.cannot_unmarshal(value, wanted)}")


def _refused() -> Invalid:
    return Invalid("the server rejected our request due to an error in our request", details={})
