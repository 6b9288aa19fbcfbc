"""Watches: no event missing, none twice, in order; bookmarks; and the end of history."""

import asyncio
from contextlib import AsyncExitStack

import pytest

from kubewright.testing.api import Api, Object
from kubewright.wire.errors import ApiError


async def make(api: Api, name: str, **labels: str) -> Object:
    body = {"metadata": {"name": name, "labels": labels}, "data": {"k": "v"}}
    return (await api.post(api.at("configmaps"), body)).ok()


async def version_of(api: Api) -> str:
    return str((await api.get(api.at("configmaps"))).ok()["metadata"]["resourceVersion"])


def name_and_type(event: Object) -> tuple[str, str]:
    return event["type"], event["object"]["metadata"]["name"]


async def test_a_watch_sends_what_happens_after_its_version(api: Api) -> None:
    await make(api, "before")
    path = api.at("configmaps")
    async with api.watch(path, resourceVersion=await version_of(api)) as watch:
        made = await make(api, "a")
        changed = (await api.patch(f"{path}/a", {"data": {"k": "2"}})).ok()
        await api.delete(f"{path}/a")
        events = [await watch.next() for _ in range(3)]
    assert [name_and_type(event) for event in events] == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]
    assert events[0]["object"] == made
    assert events[1]["object"] == changed
    gone = events[2]["object"]
    assert gone["data"] == {"k": "2"}
    assert int(gone["metadata"]["resourceVersion"]) > int(changed["metadata"]["resourceVersion"])


@pytest.mark.parametrize("version", ["", "0"])
async def test_a_watch_without_a_version_begins_with_what_is_there(api: Api, version: str) -> None:
    await make(api, "a")
    await make(api, "b")
    query = {"resourceVersion": version} if version else {}
    async with api.watch(api.at("configmaps"), **query) as watch:
        events = [await watch.next() for _ in range(2)]
        await make(api, "c")
        events.append(await watch.next())
    assert [name_and_type(event) for event in events] == [("ADDED", name) for name in "abc"]


async def test_what_happened_since_a_version_is_sent_first(api: Api) -> None:
    await make(api, "a")
    version = await version_of(api)
    await make(api, "b")
    await api.delete(api.at("configmaps", "a"))
    async with api.watch(api.at("configmaps"), resourceVersion=version) as watch:
        events = [await watch.next() for _ in range(2)]
    assert [name_and_type(event) for event in events] == [("ADDED", "b"), ("DELETED", "a")]


async def test_many_watches_get_the_same_events_in_the_same_order(api: Api) -> None:
    path, version = api.at("configmaps"), await version_of(api)

    async def listen() -> list[tuple[str, str]]:
        async with api.watch(path, resourceVersion=version) as watch:
            return [name_and_type(await watch.next()) for _ in range(20)]

    listeners = [asyncio.ensure_future(listen()) for _ in range(5)]
    await asyncio.gather(*(make(api, f"m{n}") for n in range(20)))
    stories = await asyncio.gather(*listeners)
    assert len(stories[0]) == 20
    assert all(story == stories[0] for story in stories)


async def test_versions_in_a_watch_only_grow(api: Api) -> None:
    async with api.watch(api.at("configmaps"), resourceVersion=await version_of(api)) as watch:
        for n in range(10):
            await make(api, f"m{n}")
        versions = [int((await watch.next())["object"]["metadata"]["resourceVersion"]) for _ in range(10)]
    assert versions == sorted(set(versions))


async def test_a_selective_watch_sees_objects_come_and_go(api: Api) -> None:
    path = api.at("configmaps")
    async with api.watch(path, resourceVersion=await version_of(api), labelSelector="x=y") as watch:
        await make(api, "other", x="z")
        await make(api, "a")
        await api.patch(f"{path}/a", {"metadata": {"labels": {"x": "y"}}})
        await api.patch(f"{path}/a", {"data": {"k": "2"}})
        await api.patch(f"{path}/a", {"metadata": {"labels": None}})
        events = [await watch.next() for _ in range(3)]
    assert [name_and_type(event) for event in events] == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]
    assert events[2]["object"]["data"] == {"k": "2"}


async def test_one_object_is_watched_by_its_name(api: Api) -> None:
    version = await version_of(api)
    async with api.watch(
        api.at("configmaps"), resourceVersion=version, fieldSelector="metadata.name=b"
    ) as watch:
        await make(api, "a")
        await make(api, "b")
        assert name_and_type(await watch.next()) == ("ADDED", "b")


async def test_a_watch_gets_nothing_of_another_namespace(api: Api) -> None:
    other = f"{api.namespace}-b"
    (await api.post("/api/v1/namespaces", {"metadata": {"name": other}})).ok()
    async with api.watch(api.at("configmaps"), resourceVersion=await version_of(api)) as watch:
        await api.post(f"/api/v1/namespaces/{other}/configmaps", {"metadata": {"name": "theirs"}})
        await make(api, "mine")
        assert name_and_type(await watch.next()) == ("ADDED", "mine")


async def test_a_watch_of_all_namespaces_gets_everything(api: Api) -> None:
    async with api.watch("/api/v1/secrets", resourceVersion=await version_of(api)) as watch:
        (await api.post(api.at("secrets"), {"metadata": {"name": "s"}})).ok()
        while (event := await watch.next())["object"]["metadata"]["namespace"] != api.namespace:
            pass
        assert name_and_type(event) == ("ADDED", "s")


async def test_the_last_finalizer_ends_in_one_deletion(api: Api) -> None:
    path = api.at("configmaps", "a")
    body = {"metadata": {"name": "a", "finalizers": ["example.io/hold"]}}
    (await api.post(api.at("configmaps"), body)).ok()
    async with api.watch(api.at("configmaps"), resourceVersion=await version_of(api)) as watch:
        await api.delete(path)
        await api.patch(path, {"metadata": {"finalizers": None}})
        events = [await watch.next() for _ in range(2)]
    assert [name_and_type(event) for event in events] == [("MODIFIED", "a"), ("DELETED", "a")]
    assert "deletionTimestamp" in events[0]["object"]["metadata"]


async def test_a_watch_ends_cleanly_when_its_time_is_over(api: Api) -> None:
    async with api.watch(
        api.at("configmaps"), resourceVersion=await version_of(api), timeoutSeconds="1"
    ) as watch:
        await make(api, "a")
        events = await watch.rest()
    assert [name_and_type(event) for event in events if event["type"] != "BOOKMARK"] == [("ADDED", "a")]


async def test_streaming_lists_begin_with_what_is_there_and_mark_its_end(api: Api) -> None:
    await make(api, "a")
    await make(api, "b")
    query = {
        "sendInitialEvents": "true",
        "resourceVersionMatch": "NotOlderThan",
        "allowWatchBookmarks": "true",
    }
    async with api.watch(api.at("configmaps"), **query) as watch:
        assert [name_and_type(await watch.next()) for _ in range(2)] == [("ADDED", "a"), ("ADDED", "b")]
        mark = (await watch.bookmark())["object"]
        await make(api, "c")
        assert name_and_type(await watch.next()) == ("ADDED", "c")
    assert (mark["kind"], mark["apiVersion"]) == ("ConfigMap", "v1")
    assert mark["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert int(mark["metadata"]["resourceVersion"]) > 0


@pytest.mark.parametrize(
    ("query", "code", "reason", "message"),
    [
        pytest.param(
            {"resourceVersionMatch": "NotOlderThan"},
            422,
            "Invalid",
            'ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden: '
            "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
            id="a version match",
        ),
        pytest.param(
            {"sendInitialEvents": "true"},
            422,
            "Invalid",
            'ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden: '
            "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
            id="initial events without a match",
        ),
        pytest.param(
            {"labelSelector": "a in"},
            400,
            "BadRequest",
            "unable to parse requirement: found '' expected: '('",
            id="a selector",
        ),
        pytest.param(
            {"timeoutSeconds": "x"},
            400,
            "BadRequest",
            'strconv.ParseInt: parsing "x": invalid syntax',
            id="a timeout",
        ),
    ],
)
async def test_bad_watches_are_refused(
    api: Api, query: dict[str, str], code: int, reason: str, message: str
) -> None:
    with pytest.raises(ApiError) as refusal:
        async with api.watch(api.at("configmaps"), **query):
            pass
    assert (refusal.value.code, refusal.value.reason) == (code, reason)
    assert refusal.value.message == message


async def test_no_number_as_version_is_refused(api: Api) -> None:
    with pytest.raises(ApiError) as refusal:
        async with api.watch(api.at("configmaps"), resourceVersion="abc"):
            pass
    assert refusal.value.code == (400 if api.differs("refusals that are 500 upstream") else 500)
    assert 'strconv.ParseUint: parsing "abc": invalid syntax' in refusal.value.message


async def test_a_watch_can_be_of_tables_or_of_metadata_only(api: Api) -> None:
    version = await version_of(api)
    partial = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
    table = "application/json;as=Table;v=v1;g=meta.k8s.io"
    async with (
        api.watch(api.at("configmaps"), accept=partial, resourceVersion=version) as headers,
        api.watch(api.at("configmaps"), accept=table, resourceVersion=version) as rows,
    ):
        await make(api, "a")
        header, row = (await headers.next("ADDED"))["object"], (await rows.next("ADDED"))["object"]
    assert (header["kind"], header["metadata"]["name"]) == ("PartialObjectMetadata", "a")
    assert "data" not in header
    assert row["kind"] == "Table"
    assert [r["cells"][0] for r in row["rows"]] == ["a"]


async def test_a_hundred_watches_leave_room_for_requests(api: Api) -> None:
    """A client whose watches used up its connections could not even renew its lease."""
    version = await version_of(api)
    async with AsyncExitStack() as watches:
        for _ in range(100):
            watch = api.watch(api.at("configmaps"), resourceVersion=version)
            await watches.enter_async_context(watch)
        async with asyncio.timeout(10):
            assert (await api.get(api.at("configmaps"))).code == 200
