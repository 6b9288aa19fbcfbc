"""JSON patch (RFC 6902): the ``jsonpatch`` library applies it, we say what is wrong as kube does.

A patch that is none is the sender's mistake (400). A patch that does not fit the document — a
failed ``test``, a path to nothing — is refused with 422 Invalid; kube-apiserver hides the reason,
we add it as a cause.
"""

from collections.abc import Mapping
from typing import Any

import jsonpatch
import jsonpointer

from kubewright.wire.errors import BadRequest, Invalid, TooLarge

MOST_OPERATIONS = 10_000
"""Operations that one patch may have: kube-apiserver's bound."""

_NEEDS = {
    "add": "value",
    "replace": "value",
    "test": "value",
    "move": "from",
    "copy": "from",
    "remove": "path",
}


def apply(document: Any, operations: Any) -> Any:
    """The patched document.

    Raises:
        BadRequest: ``operations`` is no list of JSON patch operations.
        TooLarge: there are more than ``MOST_OPERATIONS``.
        Invalid: an operation does not fit the document.
    """
    if not isinstance(operations, list):
        raise BadRequest("error decoding patch: a JSON patch is a list of operations")
    if len(operations) > MOST_OPERATIONS:
        found = len(operations)
        raise TooLarge(f"The allowed maximum operations in a JSON patch is {MOST_OPERATIONS}, got {found}")
    for index, operation in enumerate(operations):
        _check(index, operation)
    try:
        return jsonpatch.apply_patch(document, operations)
    except (jsonpatch.JsonPatchException, jsonpointer.JsonPointerException) as error:
        raise _refused(str(error)) from None
    except (TypeError, KeyError, IndexError, ValueError, AttributeError) as error:
        # The library walks into scalars and finds no container there; to the sender it is one thing.
        raise _refused(f"a path leads nowhere: {error}") from None


def _check(index: int, operation: Any) -> None:
    if not isinstance(operation, Mapping):
        raise BadRequest(f"error decoding patch: operation {index} is no object")
    needed = _NEEDS.get(str(operation.get("op")))
    if needed is None:
        raise BadRequest(f"error decoding patch: operation {index} has no known op: {operation.get('op')!r}")
    for name in ("path", needed):
        if name not in operation:
            raise BadRequest(f"error decoding patch: operation {index} lacks {name!r}")
    if not all(isinstance(operation[name], str) for name in ("path", "from") if name in operation):
        raise BadRequest(f"error decoding patch: path and from of operation {index} must be strings")


def _refused(why: str) -> Invalid:
    return Invalid(
        "the server rejected our request due to an error in our request",
        details={"causes": [{"reason": "UnexpectedServerResponse", "message": why}]},
    )
