"""Admission: what an API says about an object that is being written, beside its schema.

Theory.      Each kind may have defaults, which are written into what was sent, rules, which refuse
             it, and warnings about it. All are pure functions, so they work wherever an object is written:
             in the embedded server in process, and on a real Kubernetes as a webhook. Controllers do not
             rely on them: they read an object as if it had its defaults, and report what is wrong with it.
Invariants.  An object that its type cannot read gets no defaults and is refused: rules that were not asked
             are no rules, and no controller could read it either; but not for what could not be read before.
             An update that leaves everything but metadata and status as it was breaks no rule: so a
             finalizer can always be taken off, and a status written, however old an object is. What fields
             our types do not know stays in the object.
Called by    the API server's registry (``registry.custom``) and the webhooks (``api.webhooks``).
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic

from kubewright.api.diff import merge_patch
from kubewright.api.faults import Fault, FieldError
from kubewright.api.kinds import Kind, T, Undecodable
from kubewright.api.meta import Json
from kubewright.wire.patch import apply_merge

Plain = Mapping[str, Json]
"""An object as JSON gives it."""


def _as_it_is(new: Any) -> Any:
    return new


def _as_sent(new: Plain, _old: Plain | None) -> Plain:
    return new


@dataclass(frozen=True, slots=True)
class Rules(Generic[T]):
    """The admission of one kind.

    ``default``   fills in what was not sent, given the object that is there (None: it is new)
    ``prepare``   the same on plain JSON, before ``default``, for a field whose absence the type does not show
    ``check``     what is wrong with an object that has its defaults, and with the change from the old one
    ``warn``      what the user should know of an object in which nothing is wrong
    ``by_name``   whether a default is made of the object's name
    ``fields``    those that ``check`` and ``warn`` read: of a change of others no webhook is asked
    """

    kind: Kind[T]
    default: Callable[[T], T] = _as_it_is
    prepare: Callable[[Plain, Plain | None], Plain] = _as_sent
    check: Callable[[T, T | None], Iterable[FieldError]] = lambda _new, _old: ()
    warn: Callable[[T], Iterable[str]] = lambda _new: ()
    by_name: bool = False
    fields: tuple[str, ...] = ("spec",)

    @property
    def has_defaults(self) -> bool:
        """Whether the kind has defaults."""
        return self.default is not _as_it_is or self.prepare is not _as_sent


def defaulted(rules: Rules[Any], new: Plain, old: Plain | None) -> dict[str, Any]:
    """The object with its defaults; as it is when its type cannot read it, or only its status changes."""
    if old is not None and _content(new) == _content(old) and _marks(new) == _marks(old):
        return dict(new)
    try:
        prepared = rules.prepare(new, old)
        read = rules.kind.from_plain(prepared)
    except Undecodable:
        return dict(new)
    merged: dict[str, Any] = apply_merge(prepared, merge_patch(read, rules.default(read)))
    return merged


def violations(rules: Rules[Any], new: Plain, old: Plain | None) -> list[FieldError]:
    """What is wrong with an object that has its defaults; empty when it may be written."""
    if old is not None and _content(new) == _content(old):
        return []
    try:
        return list(rules.check(rules.kind.from_plain(new), _readable(rules.kind, old)))
    except Undecodable as error:
        if old is not None and (error.path, error.reason) == _unread(rules.kind, old):
            return []
        return [FieldError(error.path, error.reason, Fault.INVALID, _value_at(new, error.path))]


def warned(rules: Rules[Any], new: Plain, old: Plain | None) -> list[str]:
    """What its writer should know of an object that may be written; empty as for ``violations``."""
    if old is not None and _content(new) == _content(old):
        return []
    try:
        return list(rules.warn(rules.kind.from_plain(new)))
    except Undecodable:
        return []


def _readable(kind: Kind[Any], old: Plain | None) -> Any:
    """The old object, or None if there is none that the type can read."""
    try:
        return None if old is None else kind.from_plain(old)
    except Undecodable:
        return None


def _unread(kind: Kind[Any], old: Plain) -> tuple[str, str]:
    """What the type cannot read of the object that is there, and why; empty for nothing."""
    try:
        kind.from_plain(old)
    except Undecodable as error:
        return error.path, error.reason
    return "", ""


def _value_at(obj: Plain, path: str) -> Json:
    """The value at a path, or the list or map with it: what is inside of those has no name in the path."""
    value: Any = obj
    for name in path.partition("[")[0].split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def _content(obj: Plain) -> dict[str, Any]:
    """All but metadata and status."""
    return {key: value for key, value in obj.items() if key not in ("metadata", "status")}


def _marks(obj: Plain) -> tuple[Any, Any]:
    """Labels and annotations, which defaults may read."""
    metadata = obj.get("metadata") or {}
    return metadata.get("labels"), metadata.get("annotations")
