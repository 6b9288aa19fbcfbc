"""Convert a driver's answers and errors to the types of the contract, or to an error that says why not. Pure.

Theory.      Python checks no types: a driver may answer None, a dict, a VM whose id is a number, and raise an
             error without a message. Each would fail later, in a controller, far from the driver. So every
             answer is converted to the type that the contract names. If that is impossible the call has
             failed, and the error says what was wrong with the answer. It names types and places and no
             values, because an answer may contain what the Secret of the class contains.
Invariants.  What these functions return has the declared types, at run time too.
             The other way round a driver reads a class's ``providerSpec`` into a type of its own
             (``provider_spec``).
Called by    ``guard``, around every call; drivers for ``provider_spec``.
"""

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from kubewright.base.limits import DRIVER_MESSAGE_CHARS, MESSAGE_CHARS
from kubewright.driver.errors import Code, DriverError, InvalidArgument

T = TypeVar("T")
_TEXTS = ("message", "last_known_state", "provider_id", "node_name")
"""The attributes of errors that go into objects; the last two are those of ``Uninitialized``."""


def checked(answer: object, kind: type[T], call: str) -> T:
    """The answer as a ``kind``: a dataclass of ``contract``, a list of one, a text.

    Args:
        answer: what the driver has answered.
        kind: the type of the contract.
        call: which call it is the answer to, for the message.

    Raises:
        DriverError: it is something else (``Internal``).
    """
    try:
        return msgspec.convert(msgspec.to_builtins(answer), kind)
    except (msgspec.ValidationError, TypeError, ValueError, RecursionError) as error:
        found = type(answer).__name__
        text = f"the driver's answer to {call} ({found}) is not what the contract says: {error}"
        raise DriverError.of(Code.Internal, text[:MESSAGE_CHARS], broken=True) from None


def checked_error(error: DriverError, call: str) -> DriverError:
    """The driver's error, if its code is that of an error and its texts are texts; else one that tells the
    driver's author which of them is not."""
    wrong = [name for name in _TEXTS if not isinstance(getattr(error, name, ""), str)]
    if not hasattr(error, "message"):
        wrong.append("message (missing: __init__ of DriverError was not called)")
    code: object = error.code
    if not isinstance(code, Code) or code is Code.OK:
        wrong.append("code")
    if wrong:
        text = f"the driver raised a {type(error).__name__} for {call} with an invalid {', '.join(wrong)}"
        return DriverError.of(Code.Unknown, text, broken=True)
    error.message = error.message[:DRIVER_MESSAGE_CHARS]
    return error


def unknown_error(error: BaseException) -> DriverError:
    """The ``Unknown`` error for an exception that is no ``DriverError``."""
    return DriverError.of(Code.Unknown, f"{type(error).__name__}: {error}"[:MESSAGE_CHARS], broken=True)


def provider_spec(raw: Mapping[str, Any], kind: type[T]) -> T:
    """A class's ``providerSpec`` as the driver's own type.

    Raises:
        InvalidArgument: an unknown field, a wrong type or a value out of range; names the field.
    """
    try:
        return msgspec.convert(raw, kind)
    except msgspec.ValidationError as error:
        raise InvalidArgument(f"providerSpec: {plainly(str(error))}") from None


def plainly(text: str) -> str:
    """msgspec's sentence with the field first: ``faults[0].code: ...``."""
    reason, _, path = text.partition(" - at `$")
    return f"{path.rstrip('`').lstrip('.')}: {reason}" if path else reason
