"""Query parameters and bodies of options, parsed and validated as by kube-apiserver."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from kubewright.apiserver.http import bodies
from kubewright.apiserver.registry.lifecycle import DeleteOptions
from kubewright.apiserver.registry.reading import ListOptions
from kubewright.apiserver.registry.target import IGNORE, STRICT, WARN, Options
from kubewright.wire.errors import BadRequest, Invalid
from kubewright.wire.http import Request

LONGEST_MANAGER = 128
"""Most bytes of the name of a field manager."""

_POLICIES = ("Foreground", "Background", "Orphan")


@dataclass(frozen=True, slots=True)
class WatchOptions:
    """``since`` is the version to begin after; None: now. ``initial``: the objects that exist come
    first; ``marks_initial``: a bookmark ends them."""

    since: int | None
    initial: bool
    marks_initial: bool
    bookmarks: bool
    timeout: float | None


def options(request: Request, name: str) -> Options:
    """Options of a create, update or patch; ``name`` is what errors call them (``CreateOptions``).

    Raises:
        Invalid: a value is not supported.
    """
    dry_run = [value for key, value in request.query if key == "dryRun"]
    if any(value not in ("All", "") for value in dry_run):
        raise _bad_dry_run(name, dry_run)
    validation = request.param("fieldValidation") or WARN
    if validation not in (IGNORE, WARN, STRICT):
        said = f'Unsupported value: "{validation}": supported values: "", "Ignore", "Strict", "Warn"'
        raise _invalid(name, "FieldValueNotSupported", "fieldValidation", said)
    manager = request.param("fieldManager")
    if fault := _manager_fault(manager):
        raise _invalid(name, "FieldValueInvalid", "fieldManager", fault)
    writer = manager or _agent(request.headers.get("user-agent", ""))
    return Options("All" in dry_run, validation, manager=writer, named=bool(manager))


def apply_options(request: Request) -> Options:
    """Options of an apply.

    Raises:
        Invalid: there is no ``fieldManager``, or a value is not supported.
    """
    if not request.param("fieldManager"):
        said = "Required value: is required for apply patch"
        raise _invalid("PatchOptions", "FieldValueRequired", "fieldManager", said)
    found = options(request, "PatchOptions")
    found.force = flag(request, "force")
    return found


def patch_options(request: Request) -> Options:
    """Options of any other patch.

    Raises:
        Invalid
    """
    if request.param("force"):
        said = "Forbidden: may not be specified for non-apply patch"
        raise _invalid("PatchOptions", "FieldValueForbidden", "force", said)
    return options(request, "PatchOptions")


def _manager_fault(manager: str) -> str:
    if len(manager.encode()) > LONGEST_MANAGER:
        return f"Too long: may not be more than {LONGEST_MANAGER} bytes"
    for at, letter in enumerate(manager):
        if not letter.isprintable():
            said = f"invalid character U+{ord(letter):04X} (at position {at})"
            return f"Invalid value: {orjson.dumps(manager).decode()}: {said}"
    return ""


def _agent(user_agent: str) -> str:
    """The manager of a write that names none: what its User-Agent begins with."""
    name = user_agent.partition("/")[0]
    if not name.isprintable():
        name = "".join(letter for letter in name if letter.isprintable())
    return name.encode()[:LONGEST_MANAGER].decode(errors="ignore") or "unknown"


def delete_options(request: Request) -> tuple[DeleteOptions, Options]:
    """What a delete asks for, from its body or its query.

    Raises:
        BadRequest, Invalid
    """
    sent = bodies.read_options(request.body, request.headers.get("content-type", ""))
    return delete_options_of(request, sent)


def delete_options_of(request: Request, sent: Any) -> tuple[DeleteOptions, Options]:
    """The same from decoded DeleteOptions (an Eviction contains its own)."""
    if not isinstance(sent, Mapping) or sent.get("kind", "DeleteOptions") != "DeleteOptions":
        raise BadRequest("the body of a delete must be DeleteOptions")
    dry_run = sent.get("dryRun") or [value for key, value in request.query if key == "dryRun" and value]
    if dry_run not in ([], ["All"]):
        raise _bad_dry_run("DeleteOptions", dry_run)
    preconditions = sent.get("preconditions") or {}
    if not isinstance(preconditions, Mapping):
        raise BadRequest("preconditions must be an object")
    deletion = DeleteOptions(
        uid=_text(preconditions, "uid"),
        resource_version=_text(preconditions, "resourceVersion"),
        grace=_grace(sent, request),
        propagation=_propagation(sent, request),
    )
    return deletion, Options(bool(dry_run))


def list_options(request: Request) -> ListOptions:
    """Which part of a list is wanted.

    Raises:
        BadRequest, Invalid
    """
    limit, continue_token = _integer(request, "limit") or 0, request.param("continue")
    match, asked = request.param("resourceVersionMatch"), version(request)
    if match not in ("", "Exact", "NotOlderThan"):
        said = f'Unsupported value: "{match}": supported values: "Exact", "NotOlderThan", ""'
        raise _invalid("ListOptions", "FieldValueNotSupported", "resourceVersionMatch", said)
    if match and asked is None:
        raise _forbidden_match("resourceVersionMatch is forbidden unless resourceVersion is provided")
    if match == "Exact" and asked == 0:
        raise _forbidden_match('resourceVersionMatch "exact" is forbidden for resourceVersion "0"')
    if continue_token and asked:
        raise BadRequest("specifying resource version is not allowed when using continue")
    # As kube-apiserver: its cache answers, whole, what may be of any age; a limit with a version
    # means a page as of that version, which can be continued.
    exact = match == "Exact" or (limit > 0 and bool(asked) and not match)
    return ListOptions(
        limit=0 if asked == 0 and not continue_token else max(limit, 0),
        continue_token=continue_token,
        exact=asked if exact else None,
        at_least=0 if exact else asked or 0,
    )


def watch_options(request: Request) -> WatchOptions:
    """How a watch begins and ends.

    Raises:
        BadRequest, Invalid
    """
    asked, match = request.param("sendInitialEvents"), request.param("resourceVersionMatch")
    if asked and match != "NotOlderThan":
        raise _forbidden_match("sendInitialEvents requires setting resourceVersionMatch to NotOlderThan")
    if match and not asked:
        raise _forbidden_match(
            "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
        )
    after = version(request)
    bookmarks = flag(request, "allowWatchBookmarks")
    # Without a version, or with "0", a watch begins with the objects that exist, as at kube-apiserver.
    initial = asked != "false" if asked else not after
    timeout = _integer(request, "timeoutSeconds")
    return WatchOptions(
        since=None if initial or not after else after,
        initial=initial,
        marks_initial=initial and bool(asked) and bookmarks,
        bookmarks=bookmarks,
        timeout=float(timeout) if timeout else None,
    )


def flag(request: Request, name: str) -> bool:
    """A boolean parameter: given and not ``0`` or ``false``."""
    given = {key: value for key, value in request.query if key == name}
    return bool(given) and given[name].lower() not in ("0", "false")


def _integer(request: Request, name: str) -> int | None:
    text = request.param(name)
    if not text:
        return None
    if re.fullmatch(r"[+-]?[0-9]{1,18}", text) is None:
        raise BadRequest(f'strconv.ParseInt: parsing "{text}": invalid syntax')
    return int(text)


def version(request: Request) -> int | None:
    """The parameter ``resourceVersion``; None when it is not given.

    Raises:
        BadRequest: it is not a number.
    """
    text = request.param("resourceVersion")
    if not text:
        return None
    if re.fullmatch(r"[0-9]{1,19}", text) is None:
        said = f'Invalid value: "{text}": strconv.ParseUint: parsing "{text}": invalid syntax'
        raise BadRequest(f"invalid resource version: resourceVersion: {said}")
    return int(text)


def _grace(sent: Mapping[str, Any], request: Request) -> int | None:
    value = sent.get("gracePeriodSeconds")
    if value is None:
        return _integer(request, "gracePeriodSeconds")
    if not isinstance(value, int) or isinstance(value, bool):
        raise BadRequest("gracePeriodSeconds must be an integer")
    return value


def _propagation(sent: Mapping[str, Any], request: Request) -> str:
    policy = sent.get("propagationPolicy") or request.param("propagationPolicy")
    orphan = sent.get("orphanDependents")
    if isinstance(orphan, bool):
        if policy:
            said = f'Invalid value: "{policy}": orphanDependents and deletionPropagation cannot be both set'
            raise _invalid("DeleteOptions", "FieldValueInvalid", "propagationPolicy", said)
        return "Orphan" if orphan else "Background"
    if policy and policy not in _POLICIES:
        said = f'Unsupported value: "{policy}": supported values: "Foreground", "Background", "Orphan", "nil"'
        raise _invalid("DeleteOptions", "FieldValueNotSupported", "propagationPolicy", said)
    return str(policy or "")


def _text(values: Mapping[str, Any], name: str) -> str:
    value = values.get(name) or ""
    if not isinstance(value, str):
        raise BadRequest(f"preconditions.{name} must be a string")
    return value


def _bad_dry_run(name: str, given: Any) -> Invalid:
    shown = ", ".join(f'"{value}"' for value in given) if isinstance(given, list) else given
    said = f'Unsupported value: [{shown}]: supported values: "All"'
    return _invalid(name, "FieldValueNotSupported", "dryRun", said)


def _forbidden_match(said: str) -> Invalid:
    return _invalid("ListOptions", "FieldValueForbidden", "resourceVersionMatch", f"Forbidden: {said}")


def _invalid(name: str, reason: str, field: str, message: str) -> Invalid:
    causes = [{"reason": reason, "message": message, "field": field}]
    details = {"group": "meta.k8s.io", "kind": name, "causes": causes}
    return Invalid(f'{name}.meta.k8s.io "" is invalid: {field}: {message}', details=details)
