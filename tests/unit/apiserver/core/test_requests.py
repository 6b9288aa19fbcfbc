"""Parsing of requests: paths, bodies, parameters and Accept headers."""

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubewright.apiserver.http import answers, requests
from kubewright.apiserver.http.answers import Form
from kubewright.apiserver.http.requests import ResourcePath
from kubewright.apiserver.registry.strategy import DeleteOptions
from kubewright.wire.errors import BadRequest, Invalid, NotAcceptable, TooLarge, UnsupportedMedia
from kubewright.wire.http import Query, Request


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("/api/v1/pods", ResourcePath("", "v1", "pods")),
        ("/api/v1/namespaces", ResourcePath("", "v1", "namespaces")),
        ("/api/v1/namespaces/n", ResourcePath("", "v1", "namespaces", "", "n")),
        ("/api/v1/namespaces/n/status", ResourcePath("", "v1", "namespaces", "", "n", "status")),
        ("/api/v1/namespaces/n/finalize", ResourcePath("", "v1", "namespaces", "", "n", "finalize")),
        ("/api/v1/namespaces/n/pods", ResourcePath("", "v1", "pods", "n")),
        ("/api/v1/namespaces/n/pods/p", ResourcePath("", "v1", "pods", "n", "p")),
        ("/api/v1/namespaces/n/pods/p/eviction", ResourcePath("", "v1", "pods", "n", "p", "eviction")),
        ("/api/v1/namespaces/n/status/s", ResourcePath("", "v1", "status", "n", "s")),
        ("/apis/apps/v1/deployments/", ResourcePath("apps", "v1", "deployments")),
        ("/apis/g.io/v1/things/t/scale", ResourcePath("g.io", "v1", "things", "", "t", "scale")),
        ("/apis/g.io/v1", None),
        ("/api/v1", None),
        ("/api", None),
        ("/", None),
        ("/healthz", None),
        ("/api/v1/namespaces/n/pods/p/a/b", None),
        ("/api/v1//pods", None),
    ],
)
def test_a_path(path: str, found: ResourcePath | None) -> None:
    assert requests.parse_path(path) == found


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (b'{"a":1,"b":{"c":[1,2]}}', []),
        (b'{ "a" : 1 }', []),
        (b'{"a":1,"a":2}', ["a"]),
        (b'{"a":{"b":1,"b":2},"c":[{"d":1,"d":1}]}', ["a.b", "c[0].d"]),
        (b'{"a":1.0,"a":1}', ["a"]),
        ('{"a":"é","b":"\\u00e9"}'.encode(), []),
        (b"a: 1\na: 2", []),
    ],
)
def test_fields_that_stand_twice_are_found(body: bytes, found: list[str]) -> None:
    value = json.loads(body) if body.startswith(b"{") else {"a": 2}
    assert requests.duplicate_fields(body, value) == found


@pytest.mark.parametrize(
    ("body", "media", "value"),
    [
        (b'{"a":1}', "", {"a": 1}),
        (b'{"a":1}', "application/json; charset=utf-8", {"a": 1}),
        (b"null", "application/json", {}),
        (b"a: 1\nb: [x]", "application/yaml", {"a": 1, "b": ["x"]}),
        (b"t: 2030-01-01T00:00:00Z", "application/yaml", {"t": "2030-01-01T00:00:00Z"}),
        (b"d: 2030-01-01", "application/yaml", {"d": "2030-01-01"}),
        (b"1: x", "application/yaml", {"1": "x"}),
        (
            b"t: 12:30\nk: 1e3\nb: y\no: 0o17\ne: =",
            "application/yaml",
            {"t": "12:30", "k": 1000, "b": True, "o": 15, "e": "="},
        ),
        (b"a: .inf", "application/yaml", BadRequest),
        (b"a: .nan", "application/yaml", BadRequest),
        (b"[]", "application/json", BadRequest),
        (b"", "application/json", BadRequest),
        (b"{", "application/json", BadRequest),
        (b"\xff", "application/yaml", BadRequest),
        (b"a: [", "application/yaml", BadRequest),
        (b"a: !!python/object:os.system {}", "application/yaml", {"a": {}}),
        (b"a: &x [1]\nb: *x", "application/yaml", BadRequest),
        (b"a: 1\n---\nb: 2", "application/yaml", {"a": 1}),
        (b"x", "text/plain", UnsupportedMedia),
        (b" " * (3 * 1024 * 1024 + 1), "application/json", TooLarge),
        (b"k8s\x00nonsense", "application/vnd.kubernetes.protobuf", BadRequest),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_body(body: bytes, media: str, value: Any) -> None:
    if isinstance(value, dict):
        assert requests.read(body, media, "Thing") == value
    else:
        with pytest.raises(value):
            requests.read(body, media, "Thing")


MEDIA = st.sampled_from(["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"])


@given(st.binary(max_size=60), MEDIA)
def test_any_body_is_an_object_or_a_bad_request(body: bytes, media: str) -> None:
    with suppress(BadRequest):
        assert isinstance(requests.read(body, media, "Thing"), dict)


def asking(*query: tuple[str, str], body: Any = None) -> Request:
    pairs: Query = query
    return Request("DELETE", "/", pairs, body=b"" if body is None else json.dumps(body).encode())


@pytest.mark.parametrize(
    ("request_", "deletion"),
    [
        (asking(), DeleteOptions()),
        (
            asking(("gracePeriodSeconds", "5"), ("propagationPolicy", "Orphan")),
            DeleteOptions(grace=5, propagation="Orphan"),
        ),
        (asking(body={"gracePeriodSeconds": 0}), DeleteOptions(grace=0)),
        (asking(body={"preconditions": {"uid": "u", "resourceVersion": "5"}}), DeleteOptions("u", "5")),
        (asking(body={"orphanDependents": True}), DeleteOptions(propagation="Orphan")),
        (asking(body={"orphanDependents": False}), DeleteOptions(propagation="Background")),
        (asking(body={"gracePeriodSeconds": "x"}), BadRequest),
        (asking(body={"preconditions": 5}), BadRequest),
        (asking(body={"preconditions": {"uid": 5}}), BadRequest),
        (asking(body={"kind": "Foo"}), BadRequest),
        (asking(body={"dryRun": ["x"]}), Invalid),
        (asking(body={"propagationPolicy": "x"}), Invalid),
        (asking(("gracePeriodSeconds", "x")), BadRequest),
    ],
    ids=str,
)
def test_what_a_delete_asks_for(request_: Request, deletion: Any) -> None:
    if isinstance(deletion, DeleteOptions):
        assert requests.delete_options(request_)[0] == deletion
    else:
        with pytest.raises(deletion):
            requests.delete_options(request_)


NAMES = st.sampled_from(
    [
        "limit",
        "continue",
        "resourceVersion",
        "resourceVersionMatch",
        "sendInitialEvents",
        "allowWatchBookmarks",
        "timeoutSeconds",
        "dryRun",
        "fieldValidation",
        "gracePeriodSeconds",
        "propagationPolicy",
        "watch",
    ]
)
VALUES = st.sampled_from(
    ["", "0", "1", "-1", "x", "true", "false", "All", "Exact", "NotOlderThan", "9" * 30, "é"]
)
READERS = (
    requests.list_options,
    requests.watch_options,
    requests.delete_options,
    lambda request: requests.options(request, "CreateOptions"),
)


@given(st.lists(st.tuples(NAMES, VALUES), max_size=5), st.sampled_from(READERS))
def test_any_query_is_read_or_refused(query: list[tuple[str, str]], reader: Any) -> None:
    with suppress(BadRequest, Invalid):
        reader(asking(*query))


TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        ("", Form()),
        ("*/*", Form()),
        ("application/json", Form()),
        (f"{TABLE},application/json", Form(shape="Table")),
        ("application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json", Form()),
        (
            "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
            Form(shape="PartialObjectMetadata"),
        ),
        ("application/vnd.kubernetes.protobuf,application/json", Form()),
        ("application/yaml", Form(media="application/yaml")),
        ("text/html", NotAcceptable),
        ("application/vnd.kubernetes.protobuf", NotAcceptable),
        ("application/json;as=Foo;v=v1;g=meta.k8s.io", NotAcceptable),
    ],
)
def test_an_accept_header(accept: str, form: Any) -> None:
    if isinstance(form, Form):
        assert answers.form(accept) == form
    else:
        with pytest.raises(form):
            answers.form(accept)
