"""From a CustomResourceDefinition to the kinds that the server then serves. Pure.

Theory.      A definition is an ordinary object in the store; this module reads one as kinds of the
             catalog, one for each version that is served; ``versions`` says what an object of one is in
             another. Where a kind has defaults and rules of its own (``api.admission``), they are called
             here, in process: elsewhere they are webhooks.
             Its status (``established``): names must be free in their group: plural, singular and short names
             share one space, kind and list kind another. The first definition with a name keeps it. A
             definition whose names are accepted is established and served from then on.
JSONPath.    Printer columns, scale and selectable fields are paths: a sequence of steps, each of which turns
             one value into any number. Missing things yield nothing instead of an error, so a half-filled
             object still prints. ``.name``  ``.a\\.b`` (a dot in a name)  ``['name']``  ``[0]``  ``[-1]``
             ``[1:3]``
             ``[*]``  ``.*``  ``..name``  ``[?(@.type=="Ready")]`` with == != < <= > >=
Called by    ``admission``, whenever a definition was created, changed or read at start-up; ``http.answers``,
for
             the paths of columns.
Continues    in ``definitions`` (validation).
"""

import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Any

from kubewright.api.admission import Rules, defaulted, violations, warned
from kubewright.api.conditions import with_json_conditions
from kubewright.apiserver.registry.kind import Column, Scale, ServedKind
from kubewright.apiserver.registry.versions import Schema
from kubewright.apiserver.schema.causes import Cause, invalid, quoted
from kubewright.apiserver.schema.formats import is_known
from kubewright.apiserver.schema.node import Object, at
from kubewright.apiserver.schema.structural import Structural
from kubewright.base.clock import rfc3339
from kubewright.base.errors import InvalidInput
from kubewright.base.limits import remembered
from kubewright.wire import gojson
from kubewright.wire.gvk import Resource, by_preference

Version = Mapping[str, Any]
Check = Callable[[Object, Object | None], list[Cause]]
_LARGEST = 2**31 - 1
_GO = {bool: "bool", float: "float64", str: "string", list: "[]interface {}"}


Admission = Mapping[Resource, Rules[Any]]
"""The defaults and rules of custom kinds."""
NO_ADMISSION: Admission = MappingProxyType({})


def kinds(crd: Object, admission: Admission = NO_ADMISSION) -> list[ServedKind]:
    """One kind per served version, the storage version first. The definition is valid."""
    versions = [version for version in crd["spec"]["versions"] if version.get("served")]
    versions.sort(key=lambda version: not version.get("storage"))
    return [_kind(crd, version, admission) for version in versions]


def _kind(crd: Object, version: Version, admission: Admission) -> ServedKind:
    spec, names = crd["spec"], crd["spec"]["names"]
    subresources = version.get("subresources") or {}
    scale = _scale(subresources.get("scale"))
    resource = Resource(
        spec["group"], version["name"], names["plural"], names["kind"],
        spec["scope"] == "Namespaced", tuple(names.get("shortNames") or ()),
    )  # fmt: skip
    rules = admission.get(resource)
    schema = _schema(version)
    return ServedKind(
        resource=resource,
        schema=schema,
        singular=names.get("singular") or names["kind"].lower(),
        list_kind=names.get("listKind") or f"{names['kind']}List",
        categories=tuple(names.get("categories") or ()),
        columns=tuple(_column(given) for given in version.get("additionalPrinterColumns") or ()),
        has_status="status" in subresources,
        scale=scale,
        custom=True,
        prepare=_as_sent if rules is None else _defaults(rules),
        check=_counts(scale) if rules is None else _all(_counts(scale), _checks(rules)),
        warn=_warnings(schema, rules),
        fields=_selectable(version.get("selectableFields") or ()),
        deprecated=_deprecation(spec, version),
    )


def _deprecation(spec: Mapping[str, Any], version: Version) -> str:
    """What clients of a version are warned of: its own words, or which version to use."""
    if not version.get("deprecated"):
        return ""
    group, kind, name = spec["group"], spec["names"]["kind"], version["name"]
    said = version.get("deprecationWarning") or f"{group}/{name} {kind} is deprecated"
    later = [v["name"] for v in spec["versions"] if v.get("served") and not v.get("deprecated")]
    best = by_preference([*later, name])[0]
    return said if version.get("deprecationWarning") or best == name else f"{said}; use {group}/{best} {kind}"


def schemas(crd: Object, served: Iterable[ServedKind]) -> dict[str, Schema]:
    """The schemas of all versions, also of those that are not served, by their ``apiVersion``."""
    known = {kind.resource.version: kind.schema for kind in served}
    return {
        f"{crd['spec']['group']}/{version['name']}": known.get(version["name"]) or _schema(version)
        for version in crd["spec"]["versions"]
    }


def _schema(version: Version) -> Structural:
    return Structural(gojson.whole((version.get("schema") or {}).get("openAPIV3Schema")))


def _as_sent(new: Object, _old: Object | None) -> Object:
    return new


def _defaults(rules: Rules[Any]) -> Callable[[Object, Object | None], Object]:
    return lambda new, old: defaulted(rules, new, old)


def _checks(rules: Rules[Any]) -> Check:
    return lambda new, old: [
        Cause(error.fault.reason, error.path, error.explanation) for error in violations(rules, new, old)
    ]


def _warnings(schema: Structural, rules: Rules[Any] | None) -> Callable[[Object, Object | None], list[str]]:
    """What the kind's own rules say, and what those in its schema say of parts that did not change."""
    if rules is None:
        return lambda new, _old: schema.excused(new)
    return lambda new, old: schema.excused(new) + warned(rules, new, old)


def _all(*checks: Check) -> Check:
    return lambda new, old: [cause for check in checks for cause in check(new, old)]


def storage_version(crd: Object) -> str:
    """The name of the version that objects are stored in."""
    return next((str(v["name"]) for v in crd["spec"]["versions"] if v.get("storage")), "")


def _column(given: Mapping[str, Any]) -> Column:
    return Column(
        name=given["name"],
        type=given["type"],
        format=given.get("format") or "",
        description=given.get("description") or "",
        priority=given.get("priority") or 0,
        json_path=given["jsonPath"],
    )


def _scale(given: Mapping[str, Any] | None) -> Scale | None:
    if given is None:
        return None
    paths = (given["specReplicasPath"], given["statusReplicasPath"], given.get("labelSelectorPath") or "")
    return Scale(*(path.removeprefix(".") for path in paths))


def _counts(scale: Scale | None) -> Check:
    """The rule for the counts at both paths of ``scale``, if there is one: whole, not negative.

    The schema alone would let ``-1`` through, and then ``kubectl scale`` and autoscalers fail
    on the object. kube-apiserver checks the two paths; so do we, in its words.
    """
    paths = (scale.spec_path, scale.status_path) if scale else ()
    return lambda new, _old: [cause for path in paths for cause in _count(path, at(new, path))]


def _count(path: str, value: Any) -> Iterator[Cause]:
    if value is None:
        return
    if not isinstance(value, int) or isinstance(value, bool):
        yield _no_count(path, value)
    elif value < 0:
        yield invalid(f".{path}", value, "should be a non-negative integer")
    elif value > _LARGEST:
        yield invalid(f".{path}", value, f"should be less than or equal to {_LARGEST}")


def float_count(path: str, value: Any) -> Iterator[Cause]:
    """A count that was sent as a float, be it ``2.0``: before its number is made whole."""
    if isinstance(value, float):
        yield _no_count(path, value)


def _no_count(path: str, value: Any) -> Cause:
    found = quoted(value).removesuffix(".0").strip('"')
    kind = _GO.get(type(value), "map[string]interface {}")
    words = f".{path} accessor error: {found} is of the type {kind}, expected int64"
    return invalid(f".{path}", 0, words)


def _selectable(given: Any) -> Callable[[Object], Mapping[str, str]]:
    paths = {entry["jsonPath"].removeprefix("."): parse(entry["jsonPath"]) for entry in given}

    def fields(obj: Object) -> Mapping[str, str]:
        found = {label: first(path, obj) for label, path in paths.items()}
        return {label: _as_label(value) for label, value in found.items()}

    return fields


def _as_label(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else str(value)


def warnings(crd: Object, _old: Object | None) -> list[str]:
    """The warnings about a valid definition."""
    found: list[str] = []
    for version in crd.get("spec", {}).get("versions") or ():
        schema = (version.get("schema") or {}).get("openAPIV3Schema") or {}
        parts = list(_parts(schema))
        formats = {part["format"] for part in parts if isinstance(part.get("format"), str)}
        found += [f'unrecognized format "{name}"' for name in sorted(formats) if not is_known(name)]
    return list(dict.fromkeys(found))


def _parts(schema: Any) -> Iterator[Mapping[str, Any]]:
    """The schema and every schema inside of it."""
    if isinstance(schema, Mapping):
        yield schema
        for name, inner in schema.items():
            if name not in ("default", "example", "enum"):
                yield from _parts(inner)
    elif isinstance(schema, list):
        for item in schema:
            yield from _parts(item)


Step = Callable[[Any], Iterator[Any]]
Path = tuple[Step, ...]

_NAME = re.compile(r"\.((?:[^\s.\[\]\\(){}'\"]|\\.)+)")
_DEEP = re.compile(r"\.\.((?:[^\s.\[\]\\(){}'\"]|\\.)+)?")
_QUOTED = re.compile(r"""\[\s*(?:'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)")\s*\]""")
_INDEX = re.compile(r"\[\s*(-?\d+)\s*\]")
_SLICE = re.compile(r"\[\s*+(-?\d*+)\s*+:\s*+(-?\d*+)\s*+(?::\s*+(\d++)\s*+)?\]")
"""Each part takes all it can and gives nothing back: blanks could be divided among them in very many ways."""

_ALL = re.compile(r"\[\s*\*\s*\]|\.\*")
_FILTER = re.compile(
    r"""\[\s*\?\(\s*@((?:[^\s=!<>)'"\\]|\\.)*+)\s*+(?:(==|!=|<=|>=|<|>)\s*('[^']*'|"[^"]*"|[^\s)]+)\s*)?\)\s*\]"""
)
_COMPARE = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def field(name: str) -> Step:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, dict) and name in value:
            yield value[name]

    return step


def deep(name: str) -> Step:
    """Every value of that name anywhere below; without a name everything below."""

    def step(value: Any) -> Iterator[Any]:
        inner: Iterable[Any] = (
            value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        )
        if not name:
            yield value
        elif isinstance(value, dict) and name in value:
            yield value[name]
        for child in inner:
            yield from step(child)

    return step


def every(value: Any) -> Iterator[Any]:
    yield from value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


def chosen(given: slice) -> Step:
    def step(value: Any) -> Iterator[Any]:
        yield from value[given] if isinstance(value, list) else ()

    return step


def where(path: Path, compare: Callable[[Any, Any], bool] | None, literal: Any) -> Step:
    """Items for which the comparison holds, or where the path exists."""

    def holds(item: Any) -> bool:
        found = next(follow(path, item), None)
        if compare is None or found is None:
            return found is not None and compare is None
        try:
            return compare(found, literal)
        except TypeError:
            return False

    def step(value: Any) -> Iterator[Any]:
        yield from (item for item in every(value) if holds(item))

    return step


def _literal(text: str) -> Any:
    if text[0] in "'\"":
        return text[1:-1]
    if text in ("true", "false"):
        return text == "true"
    try:
        return int(text)
    except ValueError:
        return float(text)


def _number(text: str) -> int | None:
    return int(text) if text else None


def _name(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text)


def _item(match: re.Match[str]) -> Step:
    index = int(match[1])
    return chosen(slice(index, index + 1 or None))


def _filter(match: re.Match[str]) -> Step:
    literal = _literal(match[3]) if match[3] else None
    return where(parse(match[1] or "."), _COMPARE.get(match[2]), literal)


_STEPS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], Step]], ...] = (
    (_ALL, lambda _: every),
    (_DEEP, lambda match: deep(_name(match[1] or ""))),
    (_NAME, lambda match: field(_name(match[1]))),
    (_QUOTED, lambda match: field(_name(match[1] or match[2] or ""))),
    (_INDEX, _item),
    (_SLICE, lambda match: chosen(slice(*(_number(part or "") for part in match.groups())))),
    (_FILTER, _filter),
)


@remembered(1024)
def parse(text: str) -> Path:
    """Read a path such as ``.status.conditions[?(@.type=="Ready")].status``.

    Raises:
        InvalidInput: the text is no path; the message quotes it.
    """
    steps, at = [], 0
    while at < len(text) and text != ".":
        for pattern, make in _STEPS:
            if (match := pattern.match(text, at)) is not None:
                steps.append(_made(make, match, text))
                at = match.end()
                break
        else:
            raise InvalidInput(f"{text!r} is not a JSON path: cannot read {text[at:]!r}")
    return tuple(steps)


def _made(make: Callable[[re.Match[str]], Step], match: re.Match[str], text: str) -> Step:
    try:
        return make(match)
    except ValueError:
        raise InvalidInput(f"{text!r} is not a JSON path: cannot read {match[0]!r}") from None


def follow(path: Path, value: Any) -> Iterator[Any]:
    """Every value that the path leads to."""
    if not path:
        yield value
        return
    for found in path[0](value):
        yield from follow(path[1:], found)


def first(path: Path, value: Any) -> Any:
    """The first value that the path leads to, or None."""
    return next(follow(path, value), None)


Names = Mapping[str, Any]


def established(crd: Object, others: Iterable[Object], now: datetime) -> Object:
    """The definition with its conditions, accepted names and stored versions brought up to date.

    ``others`` are all definitions there are; those of other groups do not matter.
    """
    names = crd["spec"]["names"]
    clash = next(_clashes(crd, others), None)
    old = crd.get("status") or {}
    accepted = old.get("acceptedNames") or {"plural": "", "kind": ""} if clash else dict(names)
    stored = old.get("storedVersions") or []
    version = storage_version(crd)
    status = {
        "conditions": with_json_conditions(old, *_wanted(crd, clash, now)),
        "acceptedNames": accepted,
        "storedVersions": stored if version in stored else [*stored, version],
    }
    return crd if status == old else {**crd, "status": status}


def is_established(crd: Object) -> bool:
    """Whether the definition is to be served."""
    conditions = (crd.get("status") or {}).get("conditions") or ()
    return any(c.get("type") == "Established" and c.get("status") == "True" for c in conditions)


def _wanted(crd: Object, clash: tuple[str, str] | None, now: datetime) -> list[dict[str, str]]:
    """The two conditions as they should be. A definition stays established."""

    def said(kind: str, status: str, reason: str, message: str) -> dict[str, str]:
        date = {"lastTransitionTime": rfc3339(now)}
        return {**date, "type": kind, "status": status, "reason": reason, "message": message}

    if clash is None:
        accepted = said("NamesAccepted", "True", "NoConflicts", "no conflicts found")
        served = said("Established", "True", "InitialNamesAccepted", "the initial names have been accepted")
    else:
        accepted = said("NamesAccepted", "False", f"{clash[0]}Conflict", f'"{clash[1]}" is already in use')
        served = said("Established", "False", "NotAccepted", "not all names are accepted")
    return [accepted] if is_established(crd) else [accepted, served]


def _clashes(crd: Object, others: Iterable[Object]) -> Iterator[tuple[str, str]]:
    """Names that another definition of the group has: field and name."""
    taken_resources: set[Any] = set()
    taken_kinds: set[Any] = set()
    for other in others:
        same = other["metadata"]["name"] == crd["metadata"]["name"]
        if not same and other["spec"]["group"] == crd["spec"]["group"]:
            accepted = (other.get("status") or {}).get("acceptedNames") or {}
            taken_resources |= {
                accepted.get("plural"),
                accepted.get("singular"),
                *(accepted.get("shortNames") or ()),
            }
            taken_kinds |= {accepted.get("kind"), accepted.get("listKind")}
    names = crd["spec"]["names"]
    wanted = [("Plural", names["plural"]), ("Singular", names.get("singular"))]
    wanted += [("ShortNames", name) for name in names.get("shortNames") or ()]
    for field, name in wanted:
        if name and name in taken_resources:
            yield field, name
    for field, name in (("Kind", names["kind"]), ("ListKind", names.get("listKind"))):
        if name and name in taken_kinds:
            yield field, name
