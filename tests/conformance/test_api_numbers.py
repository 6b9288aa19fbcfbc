"""Numbers with a fraction or an exponent: which are integers, on every path, and which are refused."""

import json
from typing import Any

import pytest
from tests.conformance.own_kinds import OwnKind

from kubewright.testing.api import Api, Object
from kubewright.wire.http import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH

SPEC = {
    "count": {"type": "integer"},
    "small": {"type": "integer", "format": "int32"},
    "number": {"type": "number"},
    "share": {"x-kubernetes-int-or-string": True},
    "few": {"type": "integer", "enum": [1, 2]},
    "step": {"type": "integer", "multipleOf": 5},
    "list": {"type": "array", "items": {"type": "integer"}},
    "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    "some": {"type": "integer", "default": 7.0},
    "replicas": {"type": "integer"},
}


@pytest.fixture
async def things(api: Api) -> OwnKind:
    found = OwnKind(api, group="numbers.example.io")
    if (await api.get(found.path)).code == 404:
        await found.define(SPEC, status={"seen": {"type": "integer"}})
    return found


def shown(value: Any) -> str:
    """JSON, in which 3 and 3.0 differ."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


STORED = [
    ('{"count":1.0}', '{"count":1,"some":7}'),
    ('{"count":1e3}', '{"count":1000,"some":7}'),
    ('{"count":-1.2E1}', '{"count":-12,"some":7}'),
    ('{"count":-0.0}', '{"count":0,"some":7}'),
    ('{"count":9007199254740991.0}', '{"count":9007199254740991,"some":7}'),
    ('{"count":9223372036854775807}', '{"count":9223372036854775807,"some":7}'),
    ('{"small":2147483647.0}', '{"small":2147483647,"some":7}'),
    ('{"number":2.0}', '{"number":2,"some":7}'),
    ('{"number":2.5}', '{"number":2.5,"some":7}'),
    ('{"share":1.0}', '{"share":1,"some":7}'),
    ('{"few":1.0}', '{"few":1,"some":7}'),
    ('{"step":1e1}', '{"some":7,"step":10}'),
    ('{"list":[1.0,2e0]}', '{"list":[1,2],"some":7}'),
    ('{"free":{"a":1.0,"b":[1e3,2.5]}}', '{"free":{"a":1,"b":[1000,2.5]},"some":7}'),
    ('{"some":null}', '{"some":7}'),
]
REFUSED = [
    ('{"count":1.5}', "spec.count"),
    ('{"count":9223372036854775808}', "spec.count"),
    ('{"count":-9223372036854775809}', "spec.count"),
    ('{"count":18446744073709551616}', "spec.count"),
    ('{"count":1e16}', "spec.count"),
    ('{"count":9007199254740992.0}', "spec.count"),
    ('{"share":1.5}', "spec.share"),
    ('{"share":9223372036854775808}', "spec.share"),
    ('{"few":3.0}', "spec.few"),
    ('{"step":1.1e1}', "spec.step"),
    ('{"list":[1.5]}', "spec.list[0]"),
    ('{"replicas":2.0}', ".spec.replicas"),
]


@pytest.mark.parametrize(("sent", "stored"), STORED, ids=[sent for sent, _ in STORED])
async def test_a_whole_number_is_stored_as_an_integer(things: OwnKind, sent: str, stored: str) -> None:
    made = (await things.post("a", sent)).ok()
    assert shown(made["spec"]) == stored
    assert shown((await things.get("a"))["spec"]) == stored


@pytest.mark.parametrize(("sent", "field"), REFUSED, ids=[sent for sent, _ in REFUSED])
async def test_what_is_no_integer_is_refused(things: OwnKind, sent: str, field: str) -> None:
    answer = await things.post("a", sent)
    assert (answer.code, answer.reason) == (422, "Invalid")
    assert field in [found for _, found, _ in answer.causes]


async def test_what_no_float_holds_is_refused(things: OwnKind) -> None:
    assert (await things.post("a", '{"count":1e400}')).code == 400


@pytest.mark.parametrize(
    ("media", "body"),
    [
        (MERGE_PATCH, b'{"spec":{"count":4.0}}'),
        (JSON_PATCH, b'[{"op":"add","path":"/spec/count","value":4e0}]'),
    ],
    ids=["merge patch", "JSON patch"],
)
async def test_a_patch_stores_an_integer(things: OwnKind, media: str, body: bytes) -> None:
    (await things.post("a", '{"count":1}')).ok()
    changed = (await things.api.patch(f"{things.path}/a", body, content_type=media)).ok()
    assert shown(changed["spec"]) == '{"count":4,"some":7}'
    assert changed["metadata"]["generation"] == 2


async def test_a_replacement_stores_an_integer(things: OwnKind) -> None:
    made = (await things.post("a", '{"count":1}')).ok()
    changed = (await things.api.put(f"{things.path}/a", {**made, "spec": {"count": 4.0}})).ok()
    assert shown(changed["spec"]) == '{"count":4,"some":7}'


async def test_an_apply_stores_an_integer_and_owns_it(things: OwnKind) -> None:
    made = (await things.apply("a", '{"count":4.0,"replicas":2.0}')).ok()
    assert shown(made["spec"]) == '{"count":4,"replicas":2,"some":7}'
    again = (await things.apply("a", '{"count":4e0,"replicas":2}')).ok()
    assert again["metadata"]["generation"] == 1
    assert (await things.apply("a", '{"count":9223372036854775808}')).code == 422


async def test_a_status_stores_an_integer(things: OwnKind) -> None:
    (await things.post("a", '{"count":1}')).ok()
    changed = (await things.api.patch(f"{things.path}/a/status", b'{"status":{"seen":3.0}}')).ok()
    assert shown(changed["status"]) == '{"seen":3}'
    refused = await things.api.patch(f"{things.path}/a/status", b'{"status":{"replicas":3.0}}')
    assert [field for _, field, _ in refused.causes] == [".status.replicas"]


YAML_WORDS = {
    "12:30": '"12:30"',
    "1e3": "1000",
    "0o17": "15",
    "017": "15",
    "y": "true",
    "on": "true",
    "=": '"="',
    "<<": '"<<"',
    "1e16": "10000000000000000",
    "2001-01-01": '"2001-01-01"',
    ".inf": "",
    ".nan": "",
}


@pytest.mark.parametrize(("word", "read"), YAML_WORDS.items(), ids=YAML_WORDS)
async def test_a_word_in_yaml_is_what_go_takes_it_for(things: OwnKind, word: str, read: str) -> None:
    head = f"apiVersion: {things.group}/v1\nkind: Thing\nmetadata: {{name: a}}\n"
    sent = f"{head}spec: {{free: {{a: {word}}}}}\n".encode()
    made = await things.api.call("POST", things.path, sent, content_type="application/yaml")
    applied = await things.api.patch(
        f"{things.path}/a", sent, content_type=APPLY_PATCH, fieldManager="m", force="true"
    )
    if not read:
        assert (made.code, applied.code < 300) == (400, False)
        return
    assert shown(made.ok()["spec"]["free"]["a"]) == read
    assert shown(applied.ok()["spec"]["free"]["a"]) == read


async def test_numbers_in_yaml_are_integers_before_they_are_looked_at(things: OwnKind) -> None:
    sent = f"apiVersion: {things.group}/v1\nkind: Thing\nmetadata: {{name: a}}\nspec: {{replicas: 2.0, count: 1e3}}\n"
    made = (await things.api.call("POST", things.path, sent.encode(), content_type="application/yaml")).ok()
    assert shown(made["spec"]) == '{"count":1000,"replicas":2,"some":7}'


@pytest.mark.parametrize("number", ["3.0", "3e0", "2.5", "2147483648", '"3"'])
async def test_a_scale_takes_integers_only(things: OwnKind, number: str) -> None:
    (await things.post("a", '{"replicas":1}')).ok()
    scale = f"{things.path}/a/scale"
    patched = await things.api.patch(scale, f'{{"spec":{{"replicas":{number}}}}}'.encode())
    assert (patched.code, patched.reason) == (422, "Invalid")
    assert patched.message.endswith("into Go struct field ScaleSpec.spec.replicas of type int32")
    body = f'{{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{{"name":"a"}},"spec":{{"replicas":{number}}}}}'
    assert (await things.api.call("PUT", scale, body.encode())).code == 400
    assert (await things.get("a"))["spec"]["replicas"] == 1


def deployment(replicas: str) -> bytes:
    rest = '"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}}'
    pod = '"spec":{"containers":[{"name":"c","image":"x"}]}}'
    head = '"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d"}'
    return f'{{{head},"spec":{{"replicas":{replicas},{rest},{pod}}}}}'.encode()


@pytest.mark.parametrize("number", ["1.0", "1.5", "2147483648", "9223372036854775808"])
async def test_a_built_in_kind_takes_no_number_that_is_none_in_go(api: Api, number: str) -> None:
    refused = await api.call("POST", api.at("deployments", group="apps"), deployment(number))
    assert (refused.code, refused.reason) == (400, "BadRequest")
    assert refused.message.endswith(
        f"cannot unmarshal number {number} into Go struct field DeploymentSpec.spec.replicas of type int32"
    )


async def test_a_strategic_patch_and_an_apply_of_a_built_in_kind_do(api: Api) -> None:
    path = api.at("deployments", "d", group="apps")
    (await api.call("POST", api.at("deployments", group="apps"), deployment("0"))).ok()

    async def patched(media: str, body: bytes, **query: str) -> Object:
        return (await api.patch(path, body, content_type=media, **query)).ok()

    assert (
        shown(
            (await patched(STRATEGIC_PATCH, b'{"spec":{"paused":true,"replicas":1.0}}'))["spec"]["replicas"]
        )
        == "1"
    )
    owned = await patched(APPLY_PATCH, deployment("0.0"), fieldManager="m", force="true")
    assert shown(owned["spec"]["replicas"]) == "0"
    for media in (MERGE_PATCH, STRATEGIC_PATCH):
        assert (await api.patch(path, b'{"spec":{"replicas":0.5}}', content_type=media)).code == 422
    assert (await api.patch(path, b'{"spec":{"replicas":1.0}}')).code == 422
