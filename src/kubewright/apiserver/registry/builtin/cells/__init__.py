"""Cells of ``kubectl get``: small functions from an object and the time to what is printed.

Theory.      Most cells show a field, a count or an age; this file makes those, and ``columns`` puts them
             together. Cells of single kinds: ``nodes``, ``pods``, ``others``.
Invariants.  A cell never fails: objects may lack fields, and a list must print anyway.
"""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

from kubewright.apiserver.registry.kind import Object
from kubewright.base.clock import parse_rfc3339

Cell = Callable[[Object, datetime], Any]
NONE = "<none>"


def at(obj: Any, path: str, otherwise: Any = None) -> Any:
    """The value at a dotted path, or ``otherwise`` where something on the way is missing or null."""
    for name in path.split("."):
        obj = obj.get(name) if isinstance(obj, dict) else None
    return otherwise if obj is None else obj


def human(age: timedelta) -> str:
    """A duration the way Kubernetes shortens it: ``59s``, ``3m12s``, ``47h``, ``6d2h``, ``2y1d``.

    The finer unit disappears as the age grows. Up to two seconds in the future are now.
    """
    seconds = int(age.total_seconds())
    if seconds < 0:
        return "0s" if seconds > -2 else "<invalid>"
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if seconds < 120:
        return f"{seconds}s"
    if minutes < 10:
        return _two(minutes, "m", seconds % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return _two(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    if days < 8:
        return _two(days, "d", hours % 24, "h")
    if days < 730:
        return f"{days}d"
    return _two(days // 365, "y", days % 365, "d") if days < 8 * 365 else f"{days // 365}y"


def _two(big: int, big_unit: str, small: int, small_unit: str) -> str:
    return f"{big}{big_unit}{small}{small_unit}" if small else f"{big}{big_unit}"


def since(text: object, now: datetime) -> str:
    """The age of a time in RFC 3339; ``<unknown>`` when there is none, ``<invalid>`` when it is no time."""
    if not text:
        return "<unknown>"
    try:
        return human(now - parse_rfc3339(str(text)))
    except ValueError:
        return "<invalid>"


def field(path: str, otherwise: Any = "") -> Cell:
    """The field itself, or ``otherwise`` when it is missing."""
    return lambda obj, _now: at(obj, path, otherwise)


def text(path: str, otherwise: str = NONE) -> Cell:
    """The field as text, or ``otherwise`` when it is missing or empty."""
    return lambda obj, _now: str(at(obj, path) or otherwise)


def number(path: str) -> Cell:
    return field(path, 0)


def count(*paths: str) -> Cell:
    """The total number of items at the paths."""
    return lambda obj, _now: sum(len(at(obj, path, ())) for path in paths)


def age(path: str = "metadata.creationTimestamp") -> Cell:
    return lambda obj, now: since(at(obj, path), now)


def ratio(part: str, whole: str) -> Cell:
    """``2/3``: a count of a total."""
    return lambda obj, _now: f"{at(obj, part, 0)}/{at(obj, whole, 0)}"


def names(path: str, key: str) -> Cell:
    """One field of each item of a list, with commas."""
    return lambda obj, _now: ",".join(str(item.get(key, "")) for item in at(obj, path, ()))


def labels(path: str) -> Cell:
    """A map of labels as ``a=b,c=d``, sorted; ``<none>`` when empty."""
    return lambda obj, _now: format_labels(at(obj, path, {})) or NONE


def format_labels(given: Mapping[str, str]) -> str:
    return ",".join(f"{name}={value}" for name, value in sorted(given.items()))


def selector(path: str) -> Cell:
    """A label selector as kubectl writes it: ``app=web,tier in (a,b),!legacy``."""
    return lambda obj, _now: format_selector(at(obj, path, {})) or NONE


_REQUIREMENTS = {"In": "{} in ({})", "NotIn": "{} notin ({})", "Exists": "{}", "DoesNotExist": "!{}"}


def format_selector(given: Mapping[str, Any]) -> str:
    parts = [(name, f"{name}={value}") for name, value in (given.get("matchLabels") or {}).items()]
    for rule in given.get("matchExpressions") or ():
        form = _REQUIREMENTS.get(rule.get("operator"), "{}")
        parts.append(
            (
                rule.get("key", ""),
                form.format(rule.get("key", ""), ",".join(sorted(rule.get("values") or ()))),
            )
        )
    return ",".join(words for _, words in sorted(parts))


_MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}


def access_modes(path: str) -> Cell:
    """``RWO,ROX``: in a fixed order, each once."""
    return lambda obj, _now: ",".join(short for mode, short in _MODES.items() if mode in at(obj, path, ()))


def unless_deleting(path: str) -> Cell:
    """The phase, or ``Terminating`` once the object is being deleted."""
    return lambda obj, _now: "Terminating" if at(obj, "metadata.deletionTimestamp") else at(obj, path, "")
