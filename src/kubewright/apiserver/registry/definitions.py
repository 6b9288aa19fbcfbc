"""What a CustomResourceDefinition must be: validation and defaults.

Theory.      An invalid definition is refused with all causes at once, so what is stored can always
             be served. When all versions agree on a schema, kube-apiserver names the
             field ``spec.validation``, as in v1beta1; clients know those paths. Columns, subresources and
             selectable fields are judged by version (``VIEWS``), schemas by ``schema.structural``.
Called by    ``builtin.prepare`` and ``builtin.check``, as hooks of the kind.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

import jsonschema_rs
import orjson

from kubewright.apiserver.cel import rules
from kubewright.apiserver.schema import walk
from kubewright.apiserver.schema.causes import (
    MOST_CAUSES,
    Cause,
    duplicate,
    forbidden,
    invalid,
    required,
    unsupported,
)
from kubewright.apiserver.schema.node import Object, at
from kubewright.apiserver.schema.patterns import UNITS_A_SECOND, cost, least_cost
from kubewright.apiserver.schema.structural import Structural, patterns_in, violations
from kubewright.base.limits import OBJECT_BYTES
from kubewright.wire import gojson, naming

Spec = Mapping[str, Any]


Check = Callable[[Spec, str], Iterator[Cause]]

_PRESERVE_WORDS = (
    "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
)
_APPROVED = "api-approved.kubernetes.io"
_APPROVAL_PAGE = "https://github.com/kubernetes/enhancements/pull/1111"
LONGEST_WARNING = 256
_KEPT = 64
"""How many checked schemas are remembered: those of some thirty kinds, and of what they were before."""
MOST_PATTERN_COST = 2_000_000
"""A fifth of a second, in which no client is answered. That are ten thousand patterns of names."""
_NOTHING: Spec = {"type": "object"}
"""The schema of what is not there."""
_LABEL = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_LABEL_WORDS = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic "
    "character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for "
    "validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
)
_MIXED = f"may have mixed case, but should otherwise match: {_LABEL_WORDS}"


def prepare(new: Object, _old: Object | None) -> Object:
    """Defaults: singular and list kind from the kind, and no conversion."""
    spec = new.get("spec") or {}
    names = spec.get("names") or {}
    if not names.get("kind"):
        return new
    filled = {**names}
    filled["singular"] = names.get("singular") or names["kind"].lower()
    filled["listKind"] = names.get("listKind") or f"{names['kind']}List"
    conversion = _with_port(spec.get("conversion") or {"strategy": "None"})
    return {**new, "spec": {**spec, "names": filled, "conversion": conversion}}


def _with_port(conversion: Object) -> Object:
    """A conversion whose service has the port that is meant where none is named."""
    service = at(conversion, "webhook.clientConfig.service")
    if not isinstance(service, dict) or service.get("port") is not None:
        return conversion
    webhook = conversion["webhook"]
    config = {**webhook["clientConfig"], "service": {**service, "port": 443}}
    return {**conversion, "webhook": {**webhook, "clientConfig": config}}


def rule(new: Object, old: Object | None) -> Iterator[Cause]:
    """Everything that is wrong with a definition."""
    spec = new.get("spec") or {}
    yield from _identity(new, spec)
    yield from _names(spec.get("names") or {})
    yield from _versions(spec)
    same = old is not None and spec.get("versions") == (old.get("spec") or {}).get("versions")
    if same or (costly := _costly(spec.get("versions") or [])) is None:
        yield from _schemas(spec, with_rules=not same)
    else:
        yield costly
    yield from _conversion(spec.get("conversion") or {})
    if old is not None:
        yield from _unchanged(spec, old.get("spec") or {})
        if spec.get("versions") != (old.get("spec") or {}).get("versions"):
            yield from _still_there(spec, new.get("status") or {})


def _identity(new: Object, spec: Spec) -> Iterator[Cause]:
    group, plural = spec.get("group", ""), (spec.get("names") or {}).get("plural", "")
    name = (new.get("metadata") or {}).get("name", "")
    if name != f"{plural}.{group}":
        yield invalid("metadata.name", name, 'must be spec.names.plural+"."+spec.group')
    if not group:
        yield required("spec.group")
    elif not naming.is_subdomain(group):
        yield invalid("spec.group", group, naming.SUBDOMAIN_RULE)
    elif "." not in group:
        yield invalid("spec.group", group, "should be a domain with at least one dot")
    yield from _protected(new, group)
    scope = spec.get("scope") or ""
    if not scope:
        yield required("spec.scope")
    elif scope not in ("Cluster", "Namespaced"):
        yield unsupported("spec.scope", scope, ("Cluster", "Namespaced"))
    if spec.get("preserveUnknownFields"):
        yield invalid("spec.preserveUnknownFields", True, _PRESERVE_WORDS)


def _protected(new: Object, group: str) -> Iterator[Cause]:
    """CRDs in Kubernetes' own groups need the annotation of an API approval."""
    annotations = (new.get("metadata") or {}).get("annotations") or {}
    if group.endswith((".k8s.io", ".kubernetes.io")) and _APPROVED not in annotations:
        words = f'protected groups must have approval annotation "{_APPROVED}", see {_APPROVAL_PAGE}'
        yield required(f"metadata.annotations[{_APPROVED}]", words)


def _names(names: Spec) -> Iterator[Cause]:
    path = "spec.names"
    for field, lower in (("plural", False), ("singular", False), ("kind", True), ("listKind", True)):
        value = names.get(field) or ""
        if not value:
            yield required(f"{path}.{field}")
        elif not _LABEL.fullmatch(value.lower() if lower else value):
            yield invalid(f"{path}.{field}", value, _MIXED if lower else _LABEL_WORDS)
    for field in ("shortNames", "categories"):
        for index, value in enumerate(names.get(field) or ()):
            if not _LABEL.fullmatch(value):
                yield invalid(f"{path}.{field}[{index}]", value, _LABEL_WORDS)
    if names.get("kind") and names.get("kind") == names.get("listKind"):
        yield invalid(f"{path}.listKind", names["listKind"], "kind and listKind may not be the same")


def _versions(spec: Spec) -> Iterator[Cause]:
    versions = spec.get("versions") or []
    named = [version.get("name", "") for version in versions]
    for index, name in enumerate(named):
        if not _LABEL.fullmatch(name):
            yield invalid(f"spec.versions[{index}].name", name, _LABEL_WORDS)
        yield from _deprecation(versions[index], f"spec.versions[{index}].deprecationWarning")
    if len(set(named)) != len(named):
        yield invalid("spec.versions", named, "must contain unique version names")
    if sum(bool(version.get("storage")) for version in versions) != 1:
        yield invalid("spec.versions", named, "must have exactly one version marked as storage version")


def _deprecation(version: Spec, path: str) -> Iterator[Cause]:
    """What clients of a deprecated version are told."""
    if (said := version.get("deprecationWarning")) is None:
        return
    if not version.get("deprecated"):
        yield invalid(path, said, "can only be set for deprecated versions")
        return
    if len(said.encode()) > LONGEST_WARNING:
        yield invalid(path, said, f"must be <= {LONGEST_WARNING} characters long")
    if not said:
        yield invalid(path, said, "must not be an empty string")
    if (wrong := next((at for at, letter in enumerate(said) if not letter.isprintable()), None)) is not None:
        words = "must only contain printable UTF-8 characters; non-printable character found at index"
        yield invalid(path, said, f"{words} {len(said[:wrong].encode())}")


def shared(versions: list[Spec], field: str) -> bool:
    """Whether ``field`` is equal in all versions, so that causes name it only once."""
    return all(version.get(field) == versions[0].get(field) for version in versions)


def _costly(versions: list[Spec]) -> Cause | None:
    """A cause if the patterns of all schemas would hold up the server when they are compiled."""
    schemas = [(version.get("schema") or {}).get("openAPIV3Schema") for version in versions]
    found = {pattern for schema in schemas for pattern in patterns_in(schema)}
    if sum(map(least_cost, found)) <= MOST_PATTERN_COST and sum(map(cost, found)) <= MOST_PATTERN_COST:
        return None
    most = MOST_PATTERN_COST * 1_000 // UNITS_A_SECOND
    words = f"its schemas have patterns that take more than {most} ms to compile, as they are estimated"
    advice = r"each counts once however often it occurs; repetitions of \p{...} and of . cost most"
    return forbidden("spec.versions", f"{words}: {advice}")


def _schemas(spec: Spec, *, with_rules: bool) -> Iterator[Cause]:
    """``with_rules``: what is served already keeps rules that this release would refuse."""
    versions = spec.get("versions") or []
    one = bool(versions) and shared(versions, "schema")
    for index, version in enumerate(versions[:1] if one else versions):
        schema = (version.get("schema") or {}).get("openAPIV3Schema")
        where = f"spec.versions[{index}].schema.openAPIV3Schema"
        if schema is None:
            yield required(where)
            continue
        where = "spec.validation.openAPIV3Schema" if one else where
        yield from _causes(orjson.dumps(schema), where, with_rules=with_rules)
    for field, check in VIEWS.items():
        together = bool(versions) and shared(versions, field)
        if field == "selectableFields" and one and not together:
            yield from _without_schema(versions)
            continue
        for index, version in enumerate(versions[:1] if together else versions):
            place = f"spec.{field}" if together else f"spec.versions[{index}].{field}"
            yield from check(version, place)


def _without_schema(versions: Sequence[Spec]) -> Iterator[Cause]:
    """Fields that only some versions select by, though all have the same schema: then that is one of the
    definition and not of a version, and kube-apiserver does not find the fields in it."""
    words = "may only be set when `version.schema.openAPIV3Schema` is not included"
    for index, version in enumerate(versions):
        if version.get("selectableFields"):
            yield invalid(f"spec.versions[{index}].selectableFields", "", words)


@lru_cache(maxsize=_KEPT)
def _causes(source: bytes, path: str, *, with_rules: bool) -> tuple[Cause, ...]:
    """What is wrong with a schema, given as JSON: each server of a process checks the same ones again."""
    schema = gojson.whole(orjson.loads(source))
    wrong = list(violations(schema, path)) or list(_compiled(schema, path)) or list(_defaults(schema, path))
    return tuple(wrong or (rules.violations(schema, path) if with_rules else ()))


def _compiled(schema: Spec, path: str) -> Iterator[Cause]:
    """A schema that the validator cannot compile is refused."""
    try:
        Structural(schema).strict.is_valid({})
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as error:
        yield Cause(
            "FieldValueInvalid", path, f"Invalid value: the schema cannot be used: {error}".splitlines()[0]
        )


def _defaults(schema: Spec, path: str) -> Iterator[Cause]:
    """Every default must be valid by its own schema, without unknown fields.

    A validator for each of thousands takes seconds, so one looks at all of them first.
    """
    found = [(where, _touched(each, [each["default"]])) for where, each in _with_default(schema, path)]
    if sum(len(orjson.dumps(each)) for _, each in found) > OBJECT_BYTES:
        yield forbidden(path, "it has too many defaults that are inside of others")
        return
    together = Structural.of_value(
        {"type": "object", "properties": {str(number): each for number, (_, each) in enumerate(found)}}
    )
    values = {str(number): each["default"] for number, (_, each) in enumerate(found)}
    wrong = sorted(set(_wrong(together, values))) if found else []
    for number in wrong[:MOST_CAUSES]:
        yield from _default(found[number][1], found[number][0])


def _with_default(schema: Spec, path: str) -> Iterator[tuple[str, Spec]]:
    """Each schema that has a default, with its path."""
    if schema.get("default") is not None:
        yield path, schema
    for name, inner in (schema.get("properties") or {}).items():
        yield from _with_default(inner, f"{path}.properties[{name}]")
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), Mapping):
            yield from _with_default(schema[key], f"{path}.{key}")


def _touched(schema: Spec, values: Sequence[Any]) -> Spec:
    """A schema without what it says of fields that none of the values has.

    Each schema on the way to a default may have one, too: as wholes, a hundred of them took gigabytes.
    """
    of_fields, items = dict[str, list[Any]](), list[Any]()
    for value in values:
        if isinstance(value, Mapping):
            for name, inner in value.items():
                of_fields.setdefault(name, []).append(inner)
        elif isinstance(value, list):
            items += value
    kept = dict(schema)
    if "properties" in schema:
        kept["properties"] = {
            name: _touched(inner, of_fields[name])
            for name, inner in (schema["properties"] or {}).items()
            if name in of_fields
        }
    others = [each for inner in of_fields.values() for each in inner]
    for key, inside in (("items", items), ("additionalProperties", others)):
        if isinstance(schema.get(key), Mapping):
            kept[key] = _touched(schema[key], inside) if inside else _NOTHING
    return kept


def _wrong(together: Structural, values: Object) -> Iterator[int]:
    """The numbers of the values that have an error or an unknown field."""
    if together.strict.is_valid(values):
        fields = [cause.field for cause in walk.duplicates(together.node, values)]
    else:
        yield from (int(error.instance_path[0]) for error in together.errors(values))
        fields = [cause.field for cause in walk.duplicates(together.node, values)]
        fields += together.unknown_fields(values)
    yield from (int(re.split(r"[.\[]", field, maxsplit=1)[0]) for field in fields)


def _default(schema: Spec, path: str) -> Iterator[Cause]:
    value = Structural.of_value(schema)
    for cause in value.validate(schema["default"]):
        dot = "." if cause.field and not cause.field.startswith("[") else ""
        yield Cause(cause.reason, f"{path}.default{dot}{cause.field}", cause.message)
    if value.unknown_fields(schema["default"]):
        yield invalid(f"{path}.default", schema["default"], "must not have unknown fields")


def _conversion(conversion: Spec) -> Iterator[Cause]:
    path, strategy = "spec.conversion", conversion.get("strategy") or ""
    config = (conversion.get("webhook") or {}).get("clientConfig")
    spoken = (conversion.get("webhook") or {}).get("conversionReviewVersions") or []
    if not strategy:
        yield required(f"{path}.strategy")
    elif strategy not in ("None", "Webhook"):
        yield unsupported(f"{path}.strategy", strategy, ("None", "Webhook"))
    if strategy == "Webhook":
        yield from _webhook(config, f"{path}.webhookClientConfig")
        yield from _reviews(spoken, f"{path}.conversionReviewVersions")
        return
    words = "should not be set when strategy is not set to Webhook"
    if config is not None:
        yield forbidden(f"{path}.webhookClientConfig", words)
    if spoken:
        yield forbidden(f"{path}.conversionReviewVersions", words)


def _webhook(config: Spec | None, path: str) -> Iterator[Cause]:
    """Where a webhook is. The path is that of v1beta1, as everywhere in a definition."""
    if config is None:
        yield required(path, "required when strategy is set to Webhook")
        return
    url, service = config.get("url"), config.get("service")
    if (url is None) == (service is None):
        yield required(path, "exactly one of url or service is required")
    elif url is not None:
        yield from _url(url, f"{path}.url")
    else:
        yield from _service(service or {}, f"{path}.service")


def _url(url: str, path: str) -> Iterator[Cause]:
    form = "; desired format: https://host[/path]"
    try:
        parts = urlsplit(url)
        host, user = parts.netloc.rpartition("@")[2], parts.netloc.rpartition("@")[0]
        _ = parts.port
    except ValueError as error:
        yield required(path, f"url must be a valid URL: {error}{form}")
        return
    if parts.scheme != "https":
        yield invalid(path, parts.scheme, f"'https' is the only allowed URL scheme{form}")
    if not host:
        yield invalid(path, "", f"host must be specified{form}")
    if user:
        yield invalid(path, user, "user information is not permitted in the URL")
    if parts.fragment:
        yield invalid(path, parts.fragment, "fragments are not permitted in the URL")
    if parts.query:
        yield invalid(path, parts.query, "query parameters are not permitted in the URL")


def _service(service: Spec, path: str) -> Iterator[Cause]:
    """Its name and its namespace the schema requires."""
    port = service.get("port", 443)
    if not 1 <= port <= 65535:
        yield invalid(f"{path}.port", port, "port is not valid: must be between 1 and 65535, inclusive")
    where = service.get("path") or "/"
    if where == "/":
        return
    if not where.startswith("/"):
        yield invalid(f"{path}.path", where, "must start with a '/'")
    steps = ["", ""] if where == "//" else where[1:].removesuffix("/").split("/")
    for index, step in enumerate(steps[:1] if where == "//" else steps):
        if not step:
            yield invalid(f"{path}.path", where, f"segment[{index}] may not be empty")
        elif not naming.is_subdomain(step):
            yield invalid(f"{path}.path", where, f"segment[{index}]: {naming.SUBDOMAIN_RULE}")


_REVIEWS = ("v1", "v1beta1")


def _reviews(spoken: Sequence[str], path: str) -> Iterator[Cause]:
    """The versions of ConversionReview that a webhook takes."""
    if not spoken:
        yield required(path)
        return
    for index, version in enumerate(spoken):
        if version in spoken[:index]:
            yield invalid(f"{path}[{index}]", version, "duplicate version")
        elif not _LABEL.fullmatch(version):
            yield invalid(f"{path}[{index}]", version, _LABEL_WORDS)
    if not set(_REVIEWS) & set(spoken):
        yield invalid(path, list(spoken), f"must include at least one of {', '.join(_REVIEWS)}")


def _still_there(spec: Spec, status: Spec) -> Iterator[Cause]:
    """Every version in which objects may be stored; ``kubectl patch --subresource=status`` takes one off."""
    names = {version.get("name") for version in spec.get("versions") or ()}
    for index, name in enumerate(status.get("storedVersions") or ()):
        if name not in names:
            words = (
                f"missing from spec.versions; {name} was previously a storage version, and must remain in "
                f"spec.versions until a storage migration ensures no data remains persisted in {name} and "
                f"removes {name} from status.storedVersions"
            )
            yield invalid(f"status.storedVersions[{index}]", name, words)


def _unchanged(new: Spec, old: Spec) -> Iterator[Cause]:
    """The immutable fields: existing objects depend on them."""
    for path in ("group", "scope"):
        if new.get(path) != old.get(path):
            yield invalid(f"spec.{path}", new.get(path), "field is immutable")
    before, after = (spec.get("names") or {} for spec in (old, new))
    for path in ("plural", "kind"):
        if after.get(path) != before.get(path):
            yield invalid(f"spec.names.{path}", after.get(path), "field is immutable")


_SIMPLE = "must be a simple json path starting with ."
_TYPES = "must be one of boolean,date,integer,number,string"
_FORMATS = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")
_SELECTABLE = (
    "must point to a field of type string, boolean or integer. "
    "Enum string fields and strings with formats are allowed."
)
_PATH = re.compile(r"(\.[a-zA-Z_][a-zA-Z0-9_-]*)+")


def columns(version: Spec, place: str) -> Iterator[Cause]:
    """Printer columns: a name, a known type, a path that begins with a dot."""
    for index, column in enumerate(version.get("additionalPrinterColumns") or ()):
        where, path, kind = f"{place}[{index}]", column.get("jsonPath") or "", column.get("type") or ""
        if not column.get("name"):
            yield required(f"{where}.name")
        if not kind:
            yield required(f"{where}.type", _TYPES)
        elif kind not in _TYPES.rpartition(" ")[2].split(","):
            yield invalid(f"{where}.type", kind, _TYPES)
        if column.get("format") and column["format"] not in _FORMATS:
            yield invalid(f"{where}.format", column["format"], f"must be one of {','.join(_FORMATS)}")
        if not path:
            yield required(f"{where}.JSONPath")
        elif not path.startswith("."):
            yield invalid(f"{where}.JSONPath", path, _SIMPLE)


def subresources(version: Spec, place: str) -> Iterator[Cause]:
    """The paths of ``scale``: simple ones, below spec or status."""
    scale = (version.get("subresources") or {}).get("scale")
    if scale is None:
        return
    sides: Mapping[str, tuple[str | tuple[str, ...], str, bool]] = {
        "specReplicasPath": (".spec.", "should be a json path under .spec", True),
        "statusReplicasPath": (".status.", "should be a json path under .status", True),
        "labelSelectorPath": (
            (".spec.", ".status."),
            "should be a json path under either .spec or .status",
            False,
        ),
    }
    for field, (prefix, words, needed) in sides.items():
        path, where = scale.get(field) or "", f"{place}.scale.{field}"
        if not path:
            if needed:
                yield required(where)
        elif not path.startswith("."):
            yield invalid(where, path, _SIMPLE)
        elif not path.startswith(prefix):
            yield invalid(where, path, words)


def selectable(version: Spec, place: str) -> Iterator[Cause]:
    """Fields that selectors may ask for: existing ones, of simple types."""
    schema = (version.get("schema") or {}).get("openAPIV3Schema") or {}
    seen: set[str] = set()
    for index, entry in enumerate(version.get("selectableFields") or ()):
        path, where = entry.get("jsonPath") or "", f"{place}[{index}].jsonPath"
        if not path:
            yield required(where)
        elif not _PATH.fullmatch(path):
            yield invalid(where, path, "is an invalid path: must be a simple json path starting with .")
        elif path in seen:
            yield duplicate(where, path)
        else:
            yield from _selected(schema, path, where)
        seen.add(path)


def _selected(schema: Spec, path: str, where: str) -> Iterator[Cause]:
    if path.startswith(".metadata."):
        yield invalid(where, path, "must not point to fields in metadata")
        return
    for name in path[1:].split("."):
        schema = (schema.get("properties") or {}).get(name) or {}
    if not schema:
        yield invalid(where, path, "is an invalid path: does not refer to a valid field")
    elif schema.get("type") not in ("string", "boolean", "integer"):
        yield invalid(where, path, _SELECTABLE)


VIEWS: Mapping[str, Check] = {
    "additionalPrinterColumns": columns,
    "subresources": subresources,
    "selectableFields": selectable,
}
"""The checks, by the field of a version that they look at."""
