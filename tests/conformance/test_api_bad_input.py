"""Bad input: each mistake gets the code, reason and message that kube-apiserver gives; never a 500.

Expected messages were read from a real kube-apiserver and hold there too (that run is marked
``kube``). ``EMBEDDED`` lists, per case, where ours answers otherwise and why that is listed in
docs/reference/api-differences.md.
"""

import re
from dataclasses import dataclass, field
from typing import Any

import pytest

from kubewright.testing.api import Api, Object

SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', "
    "and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
LABEL_NAME = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
LABEL_VALUE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must "
    "start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for "
    "validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"
NOT_ALLOWED = "the server does not allow this method on the requested resource"
NO_RESOURCE = "the server could not find the requested resource"
UNRECOGNIZED = "the object provided is unrecognized (must be of type ConfigMap): "
HANDLED = 'ConfigMap in version "v1" cannot be handled as a ConfigMap: '


NESTED = b'{"kind":"ConfigMap","apiVersion":"v1","a":' + b'{"a":' * 20_000 + b"1" + b"}" * 20_001
"""Deeper than any server reads."""


def cm(**members: Any) -> Object:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, **members}


def named(name: str = "a", **metadata: Any) -> Object:
    return cm(metadata={"name": name, **metadata})


@dataclass(frozen=True)
class Case:
    """A mistake and its answer. ``message`` is exact, or a pattern when it starts with ``~``.

    ``embedded`` is a difference that is listed, and the answer's code there.
    """

    name: str
    code: int
    reason: str
    message: str
    body: Any = None
    path: str = "configmaps"
    method: str = "POST"
    query: dict[str, str] = field(default_factory=dict)
    content_type: str = "application/json"
    accept: str = "application/json"
    causes: list[tuple[str, str]] | None = None
    embedded: tuple[str, int, str] | None = None


def invalid(name: str, path: str, why: str, body: Any, *, reason: str = "FieldValueInvalid") -> Case:
    """A 422 with one cause about ConfigMap a."""
    return Case(
        name, 422, "Invalid", f'ConfigMap "a" is invalid: {path}: {why}', body, causes=[(reason, path)]
    )


BODIES = [
    Case("cut off JSON", 400, "BadRequest", f'{UNRECOGNIZED}couldn\'t get version/kind; json parse error: unexpected end of JSON input ({{"a":)', b'{"a":'),
    Case("no JSON", 400, "BadRequest", f"~{re.escape(UNRECOGNIZED)}couldn't get version/kind; json parse error: .*", b"not json"),
    Case("no body", 400, "BadRequest", f"{UNRECOGNIZED}couldn't get version/kind; json parse error: unexpected end of JSON input (<empty>)", b""),
    Case("a list", 400, "BadRequest", f"~{re.escape(UNRECOGNIZED)}couldn't get version/kind; json parse error: json: cannot unmarshal array .*", b"[]"),
    Case("a string", 400, "BadRequest", f"~{re.escape(UNRECOGNIZED)}couldn't get version/kind; json parse error: json: cannot unmarshal string .*", b'"x"'),
    Case("null", 422, "Invalid", 'ConfigMap "" is invalid: metadata.name: Required value: name or generateName is required', b"null"),
    Case("not UTF-8", 400, "BadRequest", "~.*", b'{"metadata":{"name":"\xff\xfe"}'),
    Case("nested too deep", 400, "BadRequest", f"{UNRECOGNIZED}couldn't get version/kind; json parse error: invalid character '{{' exceeded max depth ({NESTED[:30].decode()} ...)", NESTED),
    Case("nested too deep and cut off", 400, "BadRequest", "~.*invalid character '{' exceeded max depth .*", b'{"a":' * 100_000),
    Case("lists nested too deep", 400, "BadRequest", "~.*invalid character '\\[' exceeded max depth .*", b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}"),
    Case("nested too deep in YAML", 400, "BadRequest", f"~{re.escape(UNRECOGNIZED)}yaml: exceeded max depth of \\d+ .*", NESTED, content_type="application/yaml"),
    Case("broken YAML", 400, "BadRequest", f"~{re.escape(UNRECOGNIZED)}yaml: line \\d+: .*", b"apiVersion: v1\nkind: [ConfigMap\n", content_type="application/yaml"),
    Case("badly indented YAML", 400, "BadRequest", f"~{re.escape(UNRECOGNIZED)}yaml: line 2: mapping values are not allowed in this context.*", b"a: b\n c: d\n- e", content_type="application/yaml"),
    Case("YAML sent as JSON", 400, "BadRequest", f"~{re.escape(UNRECOGNIZED)}couldn't get version/kind; json parse error: .*", b"kind: ConfigMap\n"),
    Case("an unknown media type", 415, "UnsupportedMediaType", "~the body of the request was in an unknown format - accepted media types include: application/json, application/yaml.*", b"x", content_type="text/plain"),
    Case("another kind", 400, "BadRequest", '~Secret in version "v1" cannot be handled as a ConfigMap: .*', {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}}),
    Case("an unknown kind", 400, "BadRequest", '~Foo in version "v1" cannot be handled as a ConfigMap: no kind "Foo" is registered for version "v1".*', {"apiVersion": "v1", "kind": "Foo", "metadata": {"name": "a"}}),
    Case("an unknown version", 400, "BadRequest", '~ConfigMap in version "v2" cannot be handled as a ConfigMap: no kind "ConfigMap" is registered for version "v2".*', {"apiVersion": "v2", "kind": "ConfigMap", "metadata": {"name": "a"}}),
    Case("larger than the limit", 413, "RequestEntityTooLarge", "Request entity too large: limit is 3145728", b'{"data":{"k":"' + b"x" * (3 << 20) + b'"}}'),
    Case("a map of more than a megabyte", 422, "Invalid", 'ConfigMap "a" is invalid: []: Too long: may not be more than 1048576 bytes', cm(data={"k": "x" * (1 << 20), "l": "y"}), causes=[("FieldValueTooLong", "[]")]),
]  # fmt: skip

TYPES = [
    Case("a string for a map", 400, "BadRequest", f"~{re.escape(HANDLED)}json: cannot unmarshal string into Go struct field ConfigMap\\.data of type map\\[string\\]string", cm(data="x")),
    Case("a number for a string", 400, "BadRequest", f"~{re.escape(HANDLED)}json: cannot unmarshal number into Go struct field ConfigMap\\.data of type string", cm(data={"k": 5})),
    Case("a string for an object", 400, "BadRequest", f"~{re.escape(HANDLED)}json: cannot unmarshal string into Go struct field ConfigMap\\.metadata of type .*ObjectMeta", cm(metadata="x")),
    Case("a number for a label", 400, "BadRequest", f"~{re.escape(HANDLED)}json: cannot unmarshal number into Go struct field ObjectMeta\\.metadata\\.labels of type string", named(labels={"x": 1})),
    Case("a string for a number", 400, "BadRequest", '~Deployment in version "v1" cannot be handled as a Deployment: json: cannot unmarshal string into Go struct field DeploymentSpec\\.spec\\.replicas of type int32', {"spec": {"replicas": "x"}}, path="deployments.apps"),
    Case("no base64", 400, "BadRequest", 'Secret in version "v1" cannot be handled as a Secret: illegal base64 data at input byte 0', {"metadata": {"name": "a"}, "data": {"a": "!!"}}, path="secrets"),
]  # fmt: skip

STRICT = [
    Case("an unknown field", 400, "BadRequest", f'{HANDLED}strict decoding error: unknown field "dat"', cm(dat={"k": "v"}), query={"fieldValidation": "Strict"}),
    Case("unknown fields inside", 400, "BadRequest", 'Pod in version "v1" cannot be handled as a Pod: strict decoding error: unknown field "spec.containers[0].imagee", unknown field "spec.foo"', {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "i", "imagee": "x"}], "foo": 1}}, path="pods", query={"fieldValidation": "Strict"}),
    Case("a field twice", 400, "BadRequest", f'{HANDLED}strict decoding error: duplicate field "metadata.name"', b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","name":"b"}}', query={"fieldValidation": "Strict"}),
    Case("an unknown kind of validation", 422, "Invalid", 'CreateOptions.meta.k8s.io "" is invalid: fieldValidation: Unsupported value: "Foo": supported values: "", "Ignore", "Strict", "Warn"', cm(), query={"fieldValidation": "Foo"}, causes=[("FieldValueNotSupported", "fieldValidation")]),
    Case("an unknown dry run", 422, "Invalid", 'CreateOptions.meta.k8s.io "" is invalid: dryRun: Unsupported value: ["Foo"]: supported values: "All"', cm(), query={"dryRun": "Foo"}, causes=[("FieldValueNotSupported", "dryRun")]),
]  # fmt: skip

NAMES = [
    Case("no name", 422, "Invalid", 'ConfigMap "" is invalid: metadata.name: Required value: name or generateName is required', cm(metadata={}), causes=[("FieldValueRequired", "metadata.name")]),
    *(
        Case(f"the name {text[:12]!r}", 422, "Invalid", f'ConfigMap "{text}" is invalid: metadata.name: Invalid value: "{text}": {why}', named(text), causes=[("FieldValueInvalid", "metadata.name")])
        for text, why in {"Bad_Name": SUBDOMAIN, "-a": SUBDOMAIN, "a/b": SUBDOMAIN, "a%b": SUBDOMAIN, "..": SUBDOMAIN, "a" * 254: "must be no more than 253 characters"}.items()
    ),
    Case("a bad prefix to generate from", 422, "Invalid", '~ConfigMap "Bad_.*" is invalid: \\[metadata.generateName: Invalid value: "Bad_": .*, metadata.name: .*', cm(metadata={"generateName": "Bad_"})),
    Case("a namespace with a dot", 422, "Invalid", 'Namespace "a.b" is invalid: metadata.name: Invalid value: "a.b": must not contain dots', {"metadata": {"name": "a.b"}}, path="/api/v1/namespaces"),
    Case("a namespace of 64 letters", 422, "Invalid", "~Namespace .* is invalid: .*metadata.name: Invalid value: .*: must be no more than 63 characters.*", {"metadata": {"name": "a" * 64}}, path="/api/v1/namespaces"),
    invalid("a bad label key", "metadata.labels", f'Invalid value: "bad key!": {LABEL_NAME}', named(labels={"bad key!": "x"})),
    invalid("a bad label value", "metadata.labels", f'Invalid value: "not ok!": {LABEL_VALUE}', named(labels={"k": "not ok!"})),
    invalid("a bad annotation key", "metadata.annotations", f'Invalid value: "bad key!": {LABEL_NAME}', named(annotations={"bad key!": "x"})),
    invalid("annotations beyond 256 KiB", "metadata.annotations", "Too long: may not be more than 262144 bytes", named(annotations={"k": "x" * 300_000}), reason="FieldValueTooLong"),
    invalid("a finalizer without a domain", "metadata.finalizers[0]", 'Invalid value: "nope": name is neither a standard finalizer name nor is it fully qualified', named(finalizers=["nope"])),
    Case("an owner without name and uid", 422, "Invalid", 'ConfigMap "a" is invalid: [metadata.ownerReferences.name: Invalid value: "": must not be empty, metadata.ownerReferences.uid: Invalid value: "": must not be empty]', named(ownerReferences=[{"apiVersion": "v1", "kind": "Pod", "name": ""}]), causes=[("FieldValueInvalid", "metadata.ownerReferences.name"), ("FieldValueInvalid", "metadata.ownerReferences.uid")]),
    Case("two controllers", 422, "Invalid", '~ConfigMap "a" is invalid: metadata.ownerReferences: Invalid value: \\[{"apiVersion":"v1","kind":"Pod","name":"x","uid":"1","controller":true},{"apiVersion":"v1","kind":"Pod","name":"y","uid":"2","controller":true}\\]: Only one reference can have Controller set to true. Found "true" in references for Pod/x and Pod/y', named(ownerReferences=[{"apiVersion": "v1", "kind": "Pod", "name": n, "uid": u, "controller": True} for n, u in (("x", "1"), ("y", "2"))])),
    Case("another namespace than the URL's", 400, "BadRequest", "the namespace of the provided object does not match the namespace sent on the request", named(namespace="other")),
    Case("a namespace that is not there", 404, "NotFound", 'namespaces "nope" not found', cm(), path="/api/v1/namespaces/nope/configmaps"),
    Case("a resourceVersion on what is new", 500, "", "resourceVersion should not be set on objects to be created", named(resourceVersion="5"), embedded=("refusals that are 500 upstream", 400, "BadRequest")),
]  # fmt: skip

PATHS = [
    Case("a resource that is not there", 404, "NotFound", NO_RESOURCE, path="foos", method="GET"),
    Case("a group that is not there", 404, "", "404 page not found\n", path="/apis/foo.io/v1/bars", method="GET"),
    Case("a version that is not there", 404, "NotFound", NO_RESOURCE, path="/apis/apps/v9/deployments", method="GET"),
    Case("a path that is not there", 404, "", "404 page not found\n", path="/nope", method="GET"),
    Case("an object that is not there", 404, "NotFound", 'configmaps "zz" not found', path="configmaps/zz", method="GET"),
    Case("an object of a group that is not there", 404, "NotFound", 'deployments.apps "zz" not found', path="deployments.apps/zz", method="GET"),
    Case("a subresource that is not there", 404, "NotFound", NO_RESOURCE, path="configmaps/a/status", method="GET"),
    Case("a path too deep", 404, "NotFound", NO_RESOURCE, path="configmaps/a/status/x", method="GET"),
    Case("create at a name", 405, "MethodNotAllowed", NOT_ALLOWED, cm(), path="configmaps/a"),
    Case("replace a collection", 405, "MethodNotAllowed", NOT_ALLOWED, cm(), method="PUT"),
    Case("patch a collection", 405, "MethodNotAllowed", NOT_ALLOWED, {}, method="PATCH", content_type="application/merge-patch+json"),
    Case("delete in all namespaces", 405, "MethodNotAllowed", NOT_ALLOWED, path="/api/v1/configmaps", method="DELETE"),
    Case("a method that is none", 405, "MethodNotAllowed", NOT_ALLOWED, method="FOO"),
    Case("a media type that the server does not write", 406, "NotAcceptable", "~406: Not Acceptable\n\nAvailable representations: application/json, application/yaml.*", method="GET", accept="text/html"),
    Case("a view that the server does not have", 406, "NotAcceptable", "~only the following media types are accepted: application/json, application/yaml.*", method="GET", accept="application/json;as=Foo;v=v1;g=meta.k8s.io"),
    Case("a Table with unknown objects", 400, "BadRequest", "Unable to convert to Table as requested: includeObject: Invalid value: \"Foo\": must be 'Metadata', 'Object', 'None', or empty", method="GET", query={"includeObject": "Foo"}, accept="application/json;as=Table;v=v1;g=meta.k8s.io"),
]  # fmt: skip

REPLACEMENTS = [
    Case("another name than the URL's", 400, "BadRequest", "the name of the object (b) does not match the name on the URL (a)", named("b"), "configmaps/a", "PUT"),
    Case("no name", 400, "BadRequest", "the name of the object (a based on URL) was undeterminable: name must be provided", cm(metadata={}), "configmaps/a", "PUT"),
    Case("another namespace than the URL's", 400, "BadRequest", "the namespace of the provided object does not match the namespace sent on the request", named(namespace="b"), "configmaps/a", "PUT"),
    Case("nothing there to replace", 404, "NotFound", 'configmaps "zz" not found', named("zz"), "configmaps/zz", "PUT"),
    Case("nothing there of that version", 404, "NotFound", 'configmaps "zz" not found', named("zz", resourceVersion="1"), "configmaps/zz", "PUT"),
    Case("an old resourceVersion", 409, "Conflict", f'Operation cannot be fulfilled on configmaps "a": {MODIFIED}', named(resourceVersion="1"), "configmaps/a", "PUT"),
    Case("no number as resourceVersion", 500, "", 'strconv.ParseUint: parsing "abc": invalid syntax', named(resourceVersion="abc"), "configmaps/a", "PUT", embedded=("refusals that are 500 upstream", 400, "BadRequest")),
]  # fmt: skip


def where(api: Api, path: str) -> str:
    """``configmaps/a`` and ``deployments.apps`` in the test's namespace; a path stays one."""
    if path.startswith("/"):
        return path
    resource, _, rest = path.partition("/")
    plural, _, group = resource.partition(".")
    return "/".join(part for part in (api.at(plural, group=group), rest) if part)


async def refused(api: Api, case: Case) -> None:
    answer = await api.call(
        case.method,
        where(api, case.path),
        case.body,
        query=case.query,
        content_type=case.content_type,
        accept=case.accept,
    )
    code, reason = case.code, case.reason
    if case.embedded and api.differs(case.embedded[0]):
        _, code, reason = case.embedded
    assert (answer.code, answer.reason) == (code, reason), answer.message
    if case.message.startswith("~"):
        assert re.fullmatch(case.message[1:], answer.message, re.DOTALL), answer.message
    else:
        assert answer.message == case.message
    if answer.reason:
        status = answer.body
        assert (status["kind"], status["apiVersion"], status["status"]) == ("Status", "v1", "Failure")
        assert (status["code"], status["metadata"]) == (code, {})
    if case.causes is not None:
        assert [(reason, path) for reason, path, _ in answer.causes] == case.causes


def cases(table: list[Case]) -> Any:
    return pytest.mark.parametrize("case", table, ids=[case.name for case in table])


@cases(BODIES)
async def test_a_body_is_refused(api: Api, case: Case) -> None:
    await refused(api, case)


@cases(TYPES)
async def test_a_wrong_type_is_refused(api: Api, case: Case) -> None:
    await refused(api, case)


@cases(STRICT)
async def test_strictness_is_refused(api: Api, case: Case) -> None:
    await refused(api, case)


@cases(NAMES)
async def test_metadata_is_refused(api: Api, case: Case) -> None:
    await refused(api, case)


@cases(PATHS)
async def test_a_path_or_method_is_refused(api: Api, case: Case) -> None:
    await refused(api, case)


@cases(REPLACEMENTS)
async def test_a_replacement_is_refused(api: Api, case: Case) -> None:
    await api.post(api.at("configmaps"), cm())
    before = (await api.get(api.at("configmaps", "a"))).ok()
    await refused(api, case)
    assert (await api.get(api.at("configmaps", "a"))).ok() == before


@pytest.mark.parametrize("mode", ["", "Warn"])
async def test_unknown_fields_are_dropped_with_a_warning_unless_strict(api: Api, mode: str) -> None:
    query = {"fieldValidation": mode} if mode else {}
    answer = await api.post(api.at("configmaps"), cm(dat={"k": "v"}), **query)
    assert "dat" not in answer.ok()
    assert answer.headers["warning"] == '299 - "unknown field \\"dat\\""'


async def test_unknown_fields_are_dropped_in_silence_when_asked_to(api: Api) -> None:
    answer = await api.post(api.at("configmaps"), cm(dat={"k": "v"}), fieldValidation="Ignore")
    assert "dat" not in answer.ok()
    assert "warning" not in answer.headers


async def test_what_was_refused_left_nothing_behind(api: Api) -> None:
    for case in (*BODIES, *TYPES, *STRICT, *NAMES):
        await api.call(
            case.method, where(api, case.path), case.body, query=case.query, content_type=case.content_type
        )
    assert (await api.get(api.at("configmaps"))).ok()["items"] == []
