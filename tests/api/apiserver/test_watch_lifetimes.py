"""How watches end and resume: history, bookmarks, timeouts, slow readers. On virtual time."""

import json

import pytest

from kubewright.kube.transport import Transport
from kubewright.testing.api import Api
from kubewright.wire.errors import Gone
from kubewright.wire.http import Request

CHURN = 10_100
"""Writes that push everything before them out of the history."""


def cm(name: str, value: str = "") -> dict[str, object]:
    return {"metadata": {"name": name}, "data": {"v": value}}


async def churn(api: Api) -> None:
    path = api.at("configmaps", "busy")
    await api.post(api.at("configmaps"), cm("busy"))
    for n in range(CHURN):
        await api.patch(path, {"data": {"v": str(n)}})


async def test_a_busy_kind_forgets_and_a_quiet_one_remembers(bare: Api) -> None:
    version = (await bare.get(bare.at("secrets"))).ok()["metadata"]["resourceVersion"]
    await bare.post(bare.at("secrets"), {"metadata": {"name": "s"}})
    await churn(bare)
    async with bare.watch(bare.at("secrets"), resourceVersion=version) as watch:
        assert (await watch.next("ADDED"))["object"]["metadata"]["name"] == "s"
    with pytest.raises(Gone) as refused:
        async with bare.watch(bare.at("configmaps"), resourceVersion=version):
            pass
    assert (refused.value.code, refused.value.reason) == (410, "Expired")


async def test_a_quiet_watch_gets_a_bookmark_every_minute(bare: Api) -> None:
    start = bare.clock.monotonic()
    asked = {"resourceVersion": "0", "allowWatchBookmarks": "true", "timeoutSeconds": "200"}
    async with bare.watch(bare.at("secrets"), **asked) as watch:
        await bare.post(bare.at("configmaps"), cm("elsewhere"))
        versions = [(await watch.bookmark())["object"]["metadata"]["resourceVersion"] for _ in range(3)]
        assert bare.clock.monotonic() - start == 180
        newest = (await bare.get(bare.at("configmaps"))).ok()["metadata"]["resourceVersion"]
        assert versions == [newest] * 3
        assert await watch.rest() == []
        assert bare.clock.monotonic() - start == 200


async def test_bookmarks_come_also_to_a_watch_that_sees_nothing_of_what_happens(bare: Api) -> None:
    asked = {
        "resourceVersion": "0",
        "allowWatchBookmarks": "true",
        "timeoutSeconds": "100",
        "labelSelector": "none",
    }
    async with bare.watch(bare.at("configmaps"), **asked) as watch:
        await bare.post(bare.at("configmaps"), cm("a"))
        for _ in range(7):
            await bare.clock.sleep(10)
            answer = await bare.patch(
                bare.at("configmaps", "a"), {"data": {"v": str(bare.clock.monotonic())}}
            )
        version = (await watch.bookmark())["object"]["metadata"]["resourceVersion"]
        assert int(version) >= int(answer.ok()["metadata"]["resourceVersion"]) - 1


async def test_a_watch_without_a_timeout_ends_within_the_hour(bare: Api) -> None:
    start = bare.clock.monotonic()
    request = Request("GET", "/api/v1/namespaces", (("watch", "1"),))
    transport: Transport = bare.transport
    async with transport.stream(request) as chunks:
        seen = b"".join([chunk async for chunk in chunks])
    assert seen.count(b'"ADDED"') == 4
    assert 1800 <= bare.clock.monotonic() - start <= 3600


async def begun_slowly(api: Api, changes: int) -> bytes:
    """A watch that has got its first bytes, and reads on only after so many changes of what it watches."""
    for n in range(40):
        (await api.post(api.at("configmaps"), cm(f"large{n:02}", "x" * 100_000))).ok()
    request = Request("GET", api.at("configmaps"), (("watch", "1"), ("timeoutSeconds", "5")))
    transport: Transport = api.transport
    async with transport.stream(request) as chunks:
        first = await anext(chunks)
        assert len(first) < 200_000
        for n in range(changes):
            await api.patch(api.at("configmaps", "large39"), {"data": {"v": str(n)}})
        return first + b"".join([chunk async for chunk in chunks])


async def test_a_watcher_that_begins_slowly_sees_what_there_was_and_then_what_changed(bare: Api) -> None:
    lines = [json.loads(line) for line in (await begun_slowly(bare, 3)).splitlines()]
    began = [(line["type"], line["object"]["metadata"]["name"]) for line in lines[:-3]]
    assert began == [("ADDED", f"large{n:02}") for n in range(40)]
    assert lines[-4]["object"]["data"]["v"] == "x" * 100_000
    assert [line["object"]["data"]["v"] for line in lines[-3:]] == ["0", "1", "2"]


async def test_a_watcher_that_begins_too_slowly_is_told_so(bare: Api) -> None:
    """Otherwise it would take the part that it has for the whole."""
    last = json.loads((await begun_slowly(bare, CHURN)).splitlines()[-1])
    assert (last["type"], last["object"]["code"], last["object"]["reason"]) == ("ERROR", 410, "Expired")


async def test_events_end_an_hour_after_their_last_write(bare: Api) -> None:
    about = {"kind": "Pod", "name": "p", "namespace": bare.namespace}
    for name in ("once", "again"):
        (await bare.post(bare.at("events"), {"metadata": {"name": name}, "involvedObject": about})).ok()
    await bare.clock.sleep(1800)
    await bare.patch(bare.at("events", "again"), {"count": 2})
    await bare.clock.sleep(
        2500
    )  # expired events go with the next sweep, or the one after it where times are rounded
    left = (await bare.get(bare.at("events"))).ok()["items"]
    assert [event["metadata"]["name"] for event in left] == ["again"]
    await bare.clock.sleep(1800)
    assert (await bare.get(bare.at("events"))).ok()["items"] == []


async def test_both_groups_of_events_show_the_same_ones(bare: Api) -> None:
    event = {
        "metadata": {"name": "e"},
        "regarding": {"kind": "Pod", "name": "p", "namespace": bare.namespace},
        "eventTime": "2030-01-01T00:00:00.000000Z",
        "note": "hello",
        "reason": "R",
        "action": "A",
        "type": "Normal",
        "reportingController": "c",
        "reportingInstance": "i",
    }
    new = bare.at("events", group="events.k8s.io")
    assert (await bare.post(new, event)).ok()["note"] == "hello"
    core = (await bare.get(bare.at("events", "e"))).ok()
    assert (core["apiVersion"], core["message"]) == ("v1", "hello")
    assert core["involvedObject"]["name"] == "p"
    found = (await bare.get(new, fieldSelector="regarding.name=p")).ok()["items"]
    assert [each["note"] for each in found] == ["hello"]
    async with bare.watch(new, resourceVersion="0") as watch:
        assert (await watch.next("ADDED"))["object"]["note"] == "hello"


async def test_a_new_description_of_a_field_ends_no_watch_and_a_new_default_does(bare: Api) -> None:
    names = {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"}

    def version(**field: str) -> dict[str, object]:
        properties = {"description": {"type": "string", **field}}
        spec = {"type": "object", "properties": properties}
        schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
        return {"name": "v1", "served": True, "storage": True, "schema": schema}

    crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    spec = {"group": "x.io", "scope": "Namespaced", "names": names, "versions": [version(description="old")]}
    meta = {"metadata": {"name": "things.x.io"}}
    kind = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
    (await bare.post(crds, {**kind, **meta, "spec": spec})).ok()
    things = "/apis/x.io/v1/namespaces/default/things"
    async with bare.watch(things, timeoutSeconds="60") as watch:
        (await bare.patch(f"{crds}/things.x.io", {"spec": {"versions": [version(description="new")]}})).ok()
        thing = {"apiVersion": "x.io/v1", "kind": "Thing", "metadata": {"name": "a"}, "spec": {}}
        (await bare.post(things, thing)).ok()
        assert (await watch.next("ADDED"))["object"]["metadata"]["name"] == "a"
        start = bare.clock.monotonic()
        (await bare.patch(f"{crds}/things.x.io", {"spec": {"versions": [version(default="x")]}})).ok()
        assert await watch.rest() == []
        assert bare.clock.monotonic() - start < 1
