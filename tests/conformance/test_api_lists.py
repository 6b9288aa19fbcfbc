"""Lists: order, selectors, pages that all show one moment, and which moment may be asked for."""

import asyncio
import base64
import json
from typing import Any

import pytest

from kubewright.testing.api import Api, Object

NUMBER = 'strconv.ParseUint: parsing "{0}": invalid syntax'


@pytest.fixture
async def filled(api: Api) -> Api:
    """Seven ConfigMaps: a to g; colours red, blue; every other one marked."""
    for n, name in enumerate("gfedcba"):
        labels = {"colour": "red" if n < 4 else "blue", "size": str(n)}
        metadata = {"name": name, "labels": labels | ({"marked": "yes"} if n % 2 else {})}
        (await api.post(api.at("configmaps"), {"metadata": metadata})).ok()
    return api


def names(body: Object) -> str:
    return "".join(item["metadata"]["name"] for item in body["items"])


async def test_a_list_is_ordered_by_name_and_carries_a_version(filled: Api) -> None:
    body = (await filled.get(filled.at("configmaps"))).ok()
    assert (body["kind"], body["apiVersion"]) == ("ConfigMapList", "v1")
    assert names(body) == "abcdefg"
    newest = max(int(item["metadata"]["resourceVersion"]) for item in body["items"])
    assert int(body["metadata"]["resourceVersion"]) >= newest
    assert "continue" not in body["metadata"]


async def test_an_empty_list_has_no_items_but_a_version(api: Api) -> None:
    body = (await api.get(api.at("secrets"))).ok()
    assert body["items"] == []
    assert int(body["metadata"]["resourceVersion"]) > 0


async def test_all_namespaces_are_listed_together_in_order(filled: Api) -> None:
    other = f"{filled.namespace}-b"
    (await filled.post("/api/v1/namespaces", {"metadata": {"name": other}})).ok()
    (await filled.post(f"/api/v1/namespaces/{other}/configmaps", {"metadata": {"name": "x"}})).ok()
    body = (await filled.get("/api/v1/configmaps")).ok()
    found = [(i["metadata"]["namespace"], i["metadata"]["name"]) for i in body["items"]]
    mine = [pair for pair in found if pair[0] in (filled.namespace, other)]
    assert sorted(mine) == [*((filled.namespace, name) for name in "abcdefg"), (other, "x")]
    assert found == sorted(found, key="/".join)  # as their paths sort: "a-b/" before "a/"


SELECTORS = [
    ("colour=red", "defg"),
    ("colour==blue", "abc"),
    ("colour!=red", "abc"),
    ("marked", "bdf"),
    ("!marked", "aceg"),
    ("marked,colour=red", "df"),
    ("colour in (red,green),!marked", "eg"),
    ("colour notin (red)", "abc"),
    ("size in (0,1,6)", "afg"),
    ("size>4", "ab"),
    ("size<2", "fg"),
    ("nothing=x", ""),
    ("nothing!=x", "abcdefg"),
    ("", "abcdefg"),
]


@pytest.mark.parametrize(("selector", "expected"), SELECTORS, ids=[s or "empty" for s, _ in SELECTORS])
async def test_label_selectors(filled: Api, selector: str, expected: str) -> None:
    body = (await filled.get(filled.at("configmaps"), labelSelector=selector)).ok()
    assert names(body) == expected


@pytest.mark.parametrize(
    ("selector", "message"),
    [
        ("a in", "unable to parse requirement: found '' expected: '('"),
        ("a==b==c", "found '==', expected: ',' or 'end of string'"),
        ("!!a", "unable to parse requirement: found '!', expected: identifier"),
        ("a in (b", "unable to parse requirement: found '', expected: ',' or ')'"),
        ("bad key=1", "unable to parse requirement: found 'key', expected: in, notin, =, ==, !=, gt, lt"),
        ("a=b c", "found 'c', expected: ',' or 'end of string'"),
        (
            "a>x",
            "unable to parse requirement: values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, "
            "the value must be an integer",
        ),
    ],
)
async def test_bad_label_selectors(api: Api, selector: str, message: str) -> None:
    answer = await api.get(api.at("configmaps"), labelSelector=selector)
    assert (answer.code, answer.reason, answer.message) == (400, "BadRequest", message)


async def test_field_selectors_know_name_and_namespace_everywhere(filled: Api) -> None:
    path = filled.at("configmaps")
    assert names((await filled.get(path, fieldSelector="metadata.name=c")).ok()) == "c"
    assert names((await filled.get(path, fieldSelector="metadata.name!=c")).ok()) == "abdefg"
    both = f"metadata.name==c,metadata.namespace={filled.namespace}"
    assert names((await filled.get("/api/v1/configmaps", fieldSelector=both)).ok()) == "c"


async def test_pods_are_found_by_their_node_and_phase(api: Api) -> None:
    for name, node in (("a", "n1"), ("b", "n1"), ("c", "n2")):
        spec = {"nodeName": node, "containers": [{"name": "c", "image": "i"}]}
        (await api.post(api.at("pods"), {"metadata": {"name": name}, "spec": spec})).ok()
    (await api.patch(api.at("pods", "a") + "/status", {"status": {"phase": "Running"}})).ok()
    path = api.at("pods")
    assert names((await api.get(path, fieldSelector="spec.nodeName=n1")).ok()) == "ab"
    assert names((await api.get(path, fieldSelector="spec.nodeName=n1,status.phase!=Running")).ok()) == "b"


@pytest.mark.parametrize(
    ("plural", "selector", "message"),
    [
        (
            "configmaps",
            "data.k=v",
            '"data.k" is not a known field selector: only "metadata.name", "metadata.namespace"',
        ),
        (
            "configmaps",
            "metadata.name",
            "invalid selector: 'metadata.name'; can't understand 'metadata.name'",
        ),
        (
            "configmaps",
            "metadata.name in (a)",
            "invalid selector: 'metadata.name in (a)'; can't understand 'metadata.name in (a)'",
        ),
        ("pods", "spec.foo=a", "field label not supported: spec.foo"),
    ],
)
async def test_bad_field_selectors(api: Api, plural: str, selector: str, message: str) -> None:
    answer = await api.get(api.at(plural), fieldSelector=selector)
    assert (answer.code, answer.reason, answer.message) == (400, "BadRequest", message)


async def pages(api: Api, path: str, **query: str) -> list[Object]:
    found = [(await api.get(path, **query)).ok()]
    while token := found[-1]["metadata"].get("continue"):
        found.append((await api.get(path, **{**query, "continue_": token})).ok())
    return found


async def test_pages_hold_their_limit_and_say_how_much_is_left(filled: Api) -> None:
    found = await pages(filled, filled.at("configmaps"), limit="3")
    assert [names(page) for page in found] == ["abc", "def", "g"]
    assert [page["metadata"].get("remainingItemCount") for page in found] == [4, 1, None]


async def test_pages_show_one_moment(filled: Api) -> None:
    path = filled.at("configmaps")
    first = (await filled.get(path, limit="3")).ok()
    await filled.delete(f"{path}/e")
    await filled.post(path, {"metadata": {"name": "ca"}})
    await filled.patch(f"{path}/f", {"data": {"new": "1"}})
    second = (await filled.get(path, limit="9", continue_=first["metadata"]["continue"])).ok()
    assert names(second) == "defg"
    assert second["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
    assert "data" not in next(i for i in second["items"] if i["metadata"]["name"] == "f")


async def test_a_list_that_may_be_of_any_age_is_whole(filled: Api) -> None:
    page = (await filled.get(filled.at("configmaps"), limit="3", resourceVersion="0")).ok()
    assert names(page) == "abcdefg"
    assert "continue" not in page["metadata"]


async def test_a_limit_makes_a_version_exact(filled: Api) -> None:
    path = filled.at("configmaps")
    version = (await filled.get(path)).ok()["metadata"]["resourceVersion"]
    await filled.delete(f"{path}/a")
    assert names((await filled.get(path, resourceVersion=version)).ok()) == "bcdefg"
    page = (await filled.get(path, limit="3", resourceVersion=version)).ok()
    assert (names(page), page["metadata"]["resourceVersion"]) == ("abc", version)
    not_older = {"resourceVersion": version, "resourceVersionMatch": "NotOlderThan"}
    assert names((await filled.get(path, limit="3", **not_older)).ok()) == "bcd"


async def test_pages_of_a_selection(filled: Api) -> None:
    found = await pages(filled, filled.at("configmaps"), limit="2", labelSelector="colour=red")
    assert "".join(names(page) for page in found) == "defg"
    assert all(len(page["items"]) <= 2 for page in found)
    assert all("remainingItemCount" not in page["metadata"] for page in found)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ({"limit": "x"}, 'strconv.ParseInt: parsing "x": invalid syntax'),
        (
            {"limit": "1", "continue_": "e30"},
            "invalid continue token: continue key is not valid: server does not recognize this encoded version ",
        ),
        ({"resourceVersion": "abc"}, f'invalid resource version: resourceVersion: Invalid value: "abc": {NUMBER.format("abc")}'),
        ({"resourceVersion": "-1"}, f'invalid resource version: resourceVersion: Invalid value: "-1": {NUMBER.format("-1")}'),
    ],
    ids=["limit", "continue", "version", "negative version"],
)  # fmt: skip
async def test_bad_parameters_are_refused(api: Api, query: dict[str, str], message: str) -> None:
    answer = await api.get(api.at("configmaps"), **query)
    assert (answer.code, answer.reason, answer.message) == (400, "BadRequest", message)


@pytest.mark.parametrize("token", ["nonsense", "!!!", "AAAA", base64.b64encode(b"[]").decode(), "ä"])
async def test_nonsense_as_continue_token_is_refused(api: Api, token: str) -> None:
    answer = await api.get(api.at("configmaps"), limit="1", continue_=token)
    assert (answer.code, answer.reason) == (400, "BadRequest")
    assert answer.message.startswith("invalid continue token: continue key is not valid: ")


async def test_a_continue_token_brings_its_own_version(filled: Api) -> None:
    path = filled.at("configmaps")
    token = (await filled.get(path, limit="1")).ok()["metadata"]["continue"]
    answer = await filled.get(path, limit="1", continue_=token, resourceVersion="5")
    assert (answer.code, answer.reason) == (400, "BadRequest")
    assert answer.message == "specifying resource version is not allowed when using continue"


async def test_the_token_of_a_lost_version_is_expired_and_another_is_offered(filled: Api) -> None:
    path = filled.at("configmaps")
    token = (await filled.get(path, limit="3")).ok()["metadata"]["continue"]
    padded = token + "=" * (-len(token) % 4)
    content = json.loads(base64.urlsafe_b64decode(padded))
    assert content["v"] == "meta.k8s.io/v1"


@pytest.mark.parametrize(
    ("query", "field", "message"),
    [
        pytest.param(
            {"resourceVersion": "1", "resourceVersionMatch": "foo"},
            "FieldValueNotSupported",
            'Unsupported value: "foo": supported values: "Exact", "NotOlderThan", ""',
            id="unknown",
        ),
        pytest.param(
            {"resourceVersionMatch": "Exact"},
            "FieldValueForbidden",
            "Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided",
            id="without a version",
        ),
        pytest.param(
            {"resourceVersion": "0", "resourceVersionMatch": "Exact"},
            "FieldValueForbidden",
            'Forbidden: resourceVersionMatch "exact" is forbidden for resourceVersion "0"',
            id="exactly any",
        ),
    ],
)
async def test_bad_version_matches_are_refused(
    api: Api, query: dict[str, str], field: str, message: str
) -> None:
    answer = await api.get(api.at("configmaps"), **query)
    assert (answer.code, answer.reason) == (422, "Invalid")
    assert answer.causes == [(field, "resourceVersionMatch", message)]
    assert answer.message.startswith('ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: ')


@pytest.mark.parametrize("version", ["0", "1"])
async def test_any_version_at_least_as_new_will_do(filled: Api, version: str) -> None:
    async def all_seven() -> bool:
        body = (await filled.get(filled.at("configmaps"), resourceVersion=version)).ok()
        return names(body) == "abcdefg"

    await filled.eventually(all_seven, "the server's cache has them")


async def test_an_exact_version_shows_that_moment(filled: Api) -> None:
    path = filled.at("configmaps")
    version = (await filled.get(path)).ok()["metadata"]["resourceVersion"]
    await filled.delete(f"{path}/a")
    then = (await filled.get(path, resourceVersion=version, resourceVersionMatch="Exact")).ok()
    assert names(then) == "abcdefg"
    assert then["metadata"]["resourceVersion"] == version


@pytest.mark.parametrize("name", ["", "a"])
async def test_a_version_from_the_future_is_waited_for_in_vain(filled: Api, name: str) -> None:
    version = int((await filled.get(filled.at("configmaps"))).ok()["metadata"]["resourceVersion"])
    answer = await filled.get(filled.at("configmaps", name), resourceVersion=str(version + 1_000_000))
    assert (answer.code, answer.reason) == (504, "Timeout")
    assert answer.message.startswith(f"Timeout: Too large resource version: {version + 1_000_000}, current: ")
    assert answer.body["details"] == {
        "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
        "retryAfterSeconds": 1,
    }


async def test_a_list_sees_every_write_before_it(api: Api) -> None:
    async def make(n: int) -> Any:
        return await api.post(api.at("configmaps"), {"metadata": {"name": f"m{n}"}})

    await asyncio.gather(*(make(n) for n in range(20)))
    assert len((await api.get(api.at("configmaps"))).ok()["items"]) == 20
