"""From a CustomResourceDefinition to the kinds that the server then serves.

Theory.      A definition is an ordinary object in the store; this module reads one as kinds of the
             catalog. All versions share a collection in the store, and converting between them means
             changing ``apiVersion``: there are no conversion webhooks. Where a kind has defaults and rules
             of its own (``api.admission``), they are called here, in process: elsewhere they are webhooks.
Called by    the registry, whenever a definition was created, changed or read at start-up.
Continues    in ``definition`` (validation) and ``status`` (its conditions).
"""

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from kubewright.api.admission import Rules, defaulted, violations, warned
from kubewright.apiserver.registry.builtin.cells import at
from kubewright.apiserver.registry.custom.jsonpath import first, parse
from kubewright.apiserver.registry.kind import Cause, Column, Object, Scale, ServedKind
from kubewright.apiserver.schema.causes import invalid, quoted
from kubewright.apiserver.schema.formats import is_known
from kubewright.apiserver.schema.structural import Structural
from kubewright.wire import gojson
from kubewright.wire.gvk import Resource

Version = Mapping[str, Any]
Check = Callable[[Object, Object | None], list[Cause]]
_RULES = "x-kubernetes-validations"
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
    return ServedKind(
        resource=resource,
        schema=Structural(gojson.whole((version.get("schema") or {}).get("openAPIV3Schema"))),
        singular=names.get("singular") or names["kind"].lower(),
        list_kind=names.get("listKind") or f"{names['kind']}List",
        categories=tuple(names.get("categories") or ()),
        columns=tuple(_column(given) for given in version.get("additionalPrinterColumns") or ()),
        has_status="status" in subresources,
        scale=scale,
        custom=True,
        prepare=_as_sent if rules is None else _defaults(rules),
        check=_counts(scale) if rules is None else _all(_counts(scale), _checks(rules)),
        warn=_silent if rules is None else _warnings(rules),
        fields=_selectable(version.get("selectableFields") or ()),
    )


def _as_sent(new: Object, _old: Object | None) -> Object:
    return new


def _defaults(rules: Rules[Any]) -> Callable[[Object, Object | None], Object]:
    return lambda new, old: defaulted(rules, new, old)


def _checks(rules: Rules[Any]) -> Check:
    return lambda new, old: [
        Cause(error.fault.reason, error.path, error.explanation) for error in violations(rules, new, old)
    ]


def _silent(_new: Object, _old: Object | None) -> list[str]:
    return []


def _warnings(rules: Rules[Any]) -> Callable[[Object, Object | None], list[str]]:
    return lambda new, old: warned(rules, new, old)


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
        if count := sum(len(part.get(_RULES) or ()) for part in parts):
            name = version.get("name")
            found.append(f"version {name}: {count} {_RULES} rules are stored but not enforced by this server")
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
