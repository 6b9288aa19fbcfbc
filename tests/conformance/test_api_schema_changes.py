"""Objects that are older than the schema of their kind: its defaults and fields hold for them as well, unwritten."""

import pytest
from tests.conformance.own_kinds import OwnKind

from kubewright.testing.api import Api, Object
from kubewright.wire.errors import ApiError
from kubewright.wire.http import APPLY_PATCH

TEXT = {"type": "string"}
BEFORE = {
    "x": TEXT,
    "lost": TEXT,
    "null": {"type": "string", "nullable": True},
    "list": {"type": "array", "items": {"type": "object", "properties": {"a": TEXT}}},
    "retyped": TEXT,
}
AFTER = {
    "x": TEXT,
    "new": {"type": "string", "default": "D"},
    "null": TEXT,
    "list": {
        "type": "array",
        "items": {"type": "object", "properties": {"a": TEXT, "b": {"type": "integer", "default": 3.0}}},
    },
    "part": {"type": "object", "default": {}, "properties": {"e": {"type": "string", "default": "E"}}},
    "retyped": {"type": "integer"},
}
SENT = {"x": "1", "lost": "o", "null": None, "list": [{"a": "1"}], "retyped": "text"}
READ = {
    "x": "1",
    "list": [{"a": "1", "b": 3}],
    "new": "D",
    "part": {"e": "E"},
    "retyped": "text",
}


@pytest.fixture
async def things(api: Api) -> OwnKind:
    """A kind whose schema has changed since its object ``x`` was made."""
    found = OwnKind(api)
    await found.define(BEFORE)
    (await found.post("x", SENT)).ok()
    (await found.post("y", {"x": "2"})).ok()
    await found.redefine(AFTER, status={"seen": {"type": "string", "default": "S"}})
    return found


async def test_an_object_that_is_got_listed_or_watched_is_as_its_kind_is_now(things: OwnKind) -> None:
    assert (await things.get("x"))["spec"] == READ
    listed = (await things.api.get(things.path)).ok()["items"]
    assert [item["spec"] for item in listed] == [READ, {"x": "2", "new": "D", "part": {"e": "E"}}]
    async with things.api.watch(things.path) as watch:
        assert (await watch.next("ADDED"))["object"]["spec"] == READ


async def test_a_label_changes_nothing_else(things: OwnKind) -> None:
    before = await things.get("x")
    after = (await things.api.patch(f"{things.path}/x", {"metadata": {"labels": {"a": "b"}}})).ok()
    assert after["spec"] == READ
    assert after["metadata"]["generation"] == before["metadata"]["generation"] == 1


async def test_a_status_gets_its_defaults_when_there_is_one(things: OwnKind) -> None:
    assert "status" not in await things.get("y")
    after = (await things.api.patch(f"{things.path}/y/status", {"status": {"replicas": 1}})).ok()
    assert after["status"] == {"replicas": 1, "seen": "S"}
    assert after["metadata"]["generation"] == 1


async def test_who_deletes_it_is_told_what_it_was_by_its_present_schema(things: OwnKind) -> None:
    listed = (await things.api.get(things.path)).ok()["metadata"]["resourceVersion"]
    async with things.api.watch(things.path, resourceVersion=listed) as watch:
        (await things.api.delete(f"{things.path}/x")).ok()
        assert (await watch.next("DELETED"))["object"]["spec"] == READ


async def test_a_default_that_changes_does_not_reach_what_was_written_since(things: OwnKind) -> None:
    (await things.api.patch(f"{things.path}/x", {"metadata": {"labels": {"a": "b"}}})).ok()
    await things.redefine({"x": TEXT, "new": {"type": "string", "default": "D2"}})
    assert (await things.get("x"))["spec"] == {"x": "1", "new": "D"}
    assert (await things.get("y"))["spec"] == {"x": "2", "new": "D2"}


async def test_an_apply_finds_the_default(things: OwnKind) -> None:
    applied: Object = things.thing("y", {"new": "mine"})
    answer = await things.api.patch(
        f"{things.path}/y", applied, content_type=APPLY_PATCH, fieldManager="m", force="true"
    )
    assert answer.ok()["spec"] == {"x": "2", "new": "mine", "part": {"e": "E"}}


async def test_who_watches_from_before_must_list_anew(api: Api) -> None:
    things = OwnKind(api)
    await things.define(BEFORE)
    listed = (await api.get(things.path)).ok()["metadata"]["resourceVersion"]
    await things.redefine(AFTER)
    try:
        async with api.watch(things.path, resourceVersion=listed) as watch:
            said = (await watch.next("ERROR"))["object"]["code"]
    except ApiError as error:
        said = error.code
    assert said == 410
