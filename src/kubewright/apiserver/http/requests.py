"""What a request says: the resource that its path names, its query and options, its body.

Paths.       /api/v1/…                       the core group
             /apis/GROUP/VERSION/…           all others
                 PLURAL[/NAME[/SUBRESOURCE]]                         cluster scope, or all namespaces
                 namespaces/NAMESPACE/PLURAL[/NAME[/SUBRESOURCE]]    one namespace
                 namespaces[/NAME[/status|finalize]]                 namespaces themselves
                 nodes/NAME/proxy[/…]                                whatever follows is the kubelet's
             The grammar is known here, and not the kinds.
Bodies.      JSON, YAML or protobuf to objects. orjson silently keeps the last of two equal keys. Finding
             duplicates needs a second, slower parse; it is skipped where encoding the value again gives the
             same bytes, since then there are no duplicates. Our own clients and most others write compact
             JSON, so they never need it.
Options.     Query parameters and bodies of options, validated as by kube-apiserver.
Invariants.  No I/O.
Called by    ``app``, ``resources`` and ``subresources``.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from kubewright.apiserver.registry.kind import IGNORE, STRICT, WARN, Options
from kubewright.apiserver.registry.reading import ListOptions
from kubewright.apiserver.registry.strategy import DeleteOptions
from kubewright.apiserver.schema import protobuf
from kubewright.base.limits import BODY_BYTES
from kubewright.wire import gojson, goyaml
from kubewright.wire.errors import BadRequest, Invalid, TooLarge, UnsupportedMedia
from kubewright.wire.http import JSON, Request


@dataclass(frozen=True, slots=True)
class ResourcePath:
    """Where a request points to. Empty: not given."""

    group: str
    version: str
    plural: str
    namespace: str = ""
    name: str = ""
    subresource: str = ""


def parse_path(path: str) -> ResourcePath | None:
    """The resource that a path names; None for all other paths (discovery, health, unknown ones)."""
    match path.strip("/").split("/"):
        case ["api", version, *rest] if rest:
            return _in_group("", version, rest)
        case ["apis", group, version, *rest] if rest:
            return _in_group(group, version, rest)
    return None


def group_of(path: str) -> str | None:
    """The group below which a path lies, resource or not; the core group is ``""``."""
    match path.strip("/").split("/"):
        case ["api", _, _, *_]:
            return ""
        case ["apis", group, _, _, *_]:
            return group
    return None


def _in_group(group: str, version: str, parts: list[str]) -> ResourcePath | None:
    namespace = ""
    if (
        parts[0] == "namespaces"
        and len(parts) > 2
        and (len(parts) > 3 or parts[2] not in ("status", "finalize"))
    ):
        namespace, parts = parts[1], parts[2:]
    if parts[0] == "nodes" and parts[2:3] == ["proxy"]:
        parts = parts[:3]
    if len(parts) > 3 or not all(parts) or (parts[0] == "namespaces" and namespace):
        return None
    return ResourcePath(group, version, parts[0], namespace, *parts[1:])


Object = dict[str, Any]

YAML = "application/yaml"
YAMLS = (YAML, "text/yaml", "application/x-yaml")
_ACCEPTED = f"{JSON}, {YAML}, {protobuf.MEDIA_TYPE}"
_TOO_DEEP = f"yaml: exceeded max depth of {gojson.MOST_DEPTH}"
_SHOWN = 30
"""Bytes of a body that a refusal shows."""

_HEAD = r'struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }'
"""The Go type into which kube-apiserver first decodes a body."""


class _Unreadable(ValueError):
    """Why a body cannot be decoded."""


def media_type(content_type: str) -> str:
    """The media type without parameters; JSON when none is given."""
    return content_type.partition(";")[0].strip().lower() or JSON


def read(body: bytes, content_type: str, kind: str) -> Object:
    """The object in a body that should be of ``kind``.

    Raises:
        TooLarge, UnsupportedMedia, BadRequest
    """
    try:
        return _read(body, content_type)
    except _Unreadable as error:
        said = f"the object provided is unrecognized (must be of type {kind}): {error} ({_summary(body)})"
        raise BadRequest(said) from None


def read_options(body: bytes, content_type: str) -> Object:
    """The object in a body of options; an empty object for an empty body.

    Raises:
        TooLarge, UnsupportedMedia, BadRequest
    """
    try:
        return _read(body, content_type) if body else {}
    except _Unreadable as error:
        raise BadRequest(str(error)) from None


def read_patch(body: bytes, *, plainly: bool = False) -> Any:
    """The value of a patch. ``plainly`` leaves ``error decoding patch:`` out of the message.

    Raises:
        TooLarge, BadRequest
    """
    bounded(len(body))
    try:
        return gojson.loads(body)
    except gojson.Unreadable as error:
        raise BadRequest(f"{error}" if plainly else f"error decoding patch: {error}") from None


def read_applied(body: bytes) -> Any:
    """The object of an apply patch, in YAML or JSON: both are read as YAML, in which ``3.0`` is 3.

    Raises:
        TooLarge, BadRequest
    """
    bounded(len(body))
    try:
        return gojson.whole(gojson.loads(body))
    except gojson.TooDeep:
        said = f"error decoding YAML: error converting YAML to JSON: {_TOO_DEEP}"
        raise BadRequest(said) from None
    except gojson.Unreadable:
        try:
            return _yaml(body)
        except _Unreadable as error:
            raise BadRequest(f"error decoding YAML: {error}") from None


def duplicate_fields(body: bytes, value: Any) -> list[str]:
    """Paths of the fields that occur more than once in the JSON ``body``, which decodes to ``value``."""
    if orjson.dumps(value) == body:
        return []
    try:
        pairs = json.loads(body, object_pairs_hook=_Pairs)
    except (ValueError, RecursionError):
        return []  # not JSON; in YAML and protobuf duplicates are not looked for
    return list(_duplicates(pairs, ""))


class _Pairs(list[tuple[str, Any]]):
    """The fields of an object in order, duplicates included."""


def _duplicates(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, _Pairs):
        seen = set()
        for name, inner in value:
            where = f"{path}.{name}" if path else name
            if name in seen:
                yield where
            seen.add(name)
            yield from _duplicates(inner, where)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _duplicates(inner, f"{path}[{index}]")


def _read(body: bytes, content_type: str) -> Object:
    bounded(len(body))
    media = media_type(content_type)
    if media == protobuf.MEDIA_TYPE:
        return _protobuf(body)
    if media != JSON and media not in YAMLS:
        said = "the body of the request was in an unknown format - accepted media types include:"
        raise UnsupportedMedia(f"{said} {_ACCEPTED}")
    value = _json(body) if media == JSON else _yaml(body)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise _Unreadable(
            f"couldn't get version/kind; json parse error: {gojson.cannot_unmarshal(value, _HEAD)}"
        )
    return value


def bounded(size: int) -> None:
    """Refuse a body that is too large.

    Raises:
        TooLarge
    """
    if size > BODY_BYTES:
        raise TooLarge(f"Request entity too large: limit is {BODY_BYTES}")


def _json(body: bytes) -> Any:
    try:
        return gojson.loads(body)
    except gojson.Unreadable as error:
        raise _Unreadable(f"couldn't get version/kind; json parse error: {error}") from None


def _yaml(body: bytes) -> Any:
    """The value of a body in YAML; without aliases, of which a few can expand to gigabytes."""
    try:
        return goyaml.loads(body, aliases=False)
    except goyaml.Unreadable as error:
        raise _Unreadable(str(error)) from None


def _protobuf(body: bytes) -> Object:
    try:
        return protobuf.decode(body)
    except protobuf.Undecodable as error:
        raise _Unreadable(str(error)) from None


def _summary(body: bytes) -> str:
    if not body:
        return "<empty>"
    shown, more = body[:_SHOWN], " ..." if len(body) > _SHOWN else ""
    return (shown.decode(errors="replace") if body.startswith(b"{") else shown.hex()) + more


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
    sent = read_options(request.body, request.headers.get("content-type", ""))
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
