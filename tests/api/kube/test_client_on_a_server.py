"""Client and informers on a real API server: the embedded one here, kube-apiserver under `make test-kube`."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kubewright.api.core import CRD, NAMESPACE, POD
from kubewright.api.diff import merge_patch
from kubewright.api.kinds import dynamic
from kubewright.kube import patches
from kubewright.kube.client import Client
from kubewright.kube.informer import Informers
from kubewright.kube.scope import Namespaces
from kubewright.testing.api import Api
from kubewright.testing.faults import Faulty, Lag, Script
from kubewright.wire.errors import AlreadyExists, Conflict, Invalid, NotFound
from kubewright.wire.gvk import Key, Resource

MAPS = dynamic(Resource("", "v1", "configmaps", "ConfigMap"))


@pytest.fixture
def client(api: Api) -> Client:
    return Client(api.transport, api.clock)


@asynccontextmanager
async def running(informers: Informers) -> AsyncIterator[Informers]:
    task = asyncio.create_task(informers.run())
    try:
        yield informers
    finally:
        task.cancel()
        await asyncio.wait([task])


def unmanaged(obj: dict[str, Any]) -> dict[str, Any]:
    """As caches hold it: who manages which field is cut out."""
    metadata = {name: value for name, value in obj["metadata"].items() if name != "managedFields"}
    return {**obj, "metadata": metadata}


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "data": data}


async def test_an_object_from_birth_to_end(api: Api, client: Client) -> None:
    key = Key(api.namespace, "a")
    made = await client.create(MAPS, config_map("a", x="1"), namespace=api.namespace)
    with pytest.raises(AlreadyExists):
        await client.create(MAPS, config_map("a"), namespace=api.namespace)
    changed = await client.patch(MAPS, key, merge_patch(made, {**made, "data": {"y": "2"}}))
    assert changed["data"] == {"y": "2"}
    stale = patches.with_version({"data": {"z": "3"}}, made["metadata"]["resourceVersion"])
    with pytest.raises(Conflict):
        await client.patch(MAPS, key, stale)
    with pytest.raises(Conflict):
        await client.patch(
            MAPS, key, patches.with_uid({"data": {"z": "3"}}, "00000000-0000-0000-0000-000000000000")
        )
    with pytest.raises(Conflict):
        await client.delete(MAPS, key, uid="00000000-0000-0000-0000-000000000000")
    assert [
        each["metadata"]["name"] for each in await client.list(MAPS, api.namespace, fields="metadata.name=a")
    ] == ["a"]
    await client.delete(MAPS, key, uid=made["metadata"]["uid"])
    with pytest.raises(NotFound):
        await client.get(MAPS, key)


async def test_what_is_wrong_with_an_object_is_said_field_by_field(api: Api, client: Client) -> None:
    with pytest.raises(Invalid) as refused:
        await client.create(MAPS, config_map("Not A Name"), namespace=api.namespace)
    assert [cause["field"] for cause in refused.value.causes] == ["metadata.name"]


async def test_lists_are_paged_to_the_end(api: Api, client: Client) -> None:
    await asyncio.gather(
        *(client.create(MAPS, config_map(f"c{number}"), namespace=api.namespace) for number in range(520))
    )
    found = await client.list(MAPS, api.namespace, fields="metadata.name!=kube-root-ca.crt")
    assert len({each["metadata"]["name"] for each in found}) == 520


async def test_own_writes_show_while_the_watch_is_late(api: Api) -> None:
    late = Faulty(api.transport, api.clock, Script().on(Lag(2.0), watch=True, times=None))
    client = Client(late, api.clock)
    informers = Informers(client, only=Namespaces((api.namespace,)))
    maps = informers.get(MAPS, labels="kubewright-test=yes")
    key = Key(api.namespace, "a")
    labelled = config_map("a")
    labelled["metadata"]["labels"] = {"kubewright-test": "yes"}
    async with running(informers):
        await informers.wait_synced(10)
        made = await client.create(MAPS, labelled, namespace=api.namespace)
        assert maps.get(key) == unmanaged(made)
        held = await client.patch(MAPS, key, {"metadata": {"finalizers": ["example.com/hold"]}})
        assert maps.get(key) == unmanaged(held)
        await client.delete(MAPS, key)
        header = maps.header(key)
        assert header is not None
        assert header.deleting
        await client.patch(MAPS, key, {"metadata": {"finalizers": None}})
        assert maps.get(key) is None
        again = await client.create(MAPS, labelled, namespace=api.namespace)
        assert maps.get(key) == unmanaged(again)
        await client.patch(MAPS, key, {"metadata": {"labels": {"kubewright-test": "no"}}})
        assert maps.get(key) is None
        await client.patch(MAPS, key, {"metadata": {"labels": {"kubewright-test": "yes"}}})
        await client.delete(MAPS, key, uid=again["metadata"]["uid"])
        assert maps.get(key) is None
        await api.clock.sleep(15)  # every late event has come by now
        assert maps.get(key) is None
        assert maps.statistics().events >= 6


async def test_changes_by_others_arrive(api: Api, client: Client) -> None:
    informers = Informers(client, only=Namespaces((api.namespace,)))
    maps = informers.get(MAPS, fields="metadata.name=a")
    heard: asyncio.Queue[str] = asyncio.Queue()
    maps.subscribe(
        lambda change: heard.put_nowait("gone" if change.new is None else change.after()["data"]["x"])
    )
    path = f"/api/v1/namespaces/{api.namespace}/configmaps"
    async with running(informers), asyncio.timeout(20):
        await informers.wait_synced(10)
        (await api.post(path, {"apiVersion": "v1", "kind": "ConfigMap", **config_map("a", x="1")})).ok()
        assert await heard.get() == "1"
        await Client(api.transport, api.clock).patch(MAPS, Key(api.namespace, "a"), {"data": {"x": "2"}})
        assert await heard.get() == "2"
        await Client(api.transport, api.clock).delete(MAPS, Key(api.namespace, "a"))
        assert await heard.get() == "gone"


@pytest.mark.parametrize(
    ("wanted", "excluded"),
    [("{}-a,{}-b", ""), ("{}-*", "{}-c"), ("{}-*", "{}-c*"), ("", "default,kube-*,{}-c,{}")],
    ids=["a list", "a beginning but a name", "a beginning but a longer one", "all but some"],
)
async def test_an_informer_of_some_namespaces_holds_what_is_in_them(
    api: Api, client: Client, wanted: str, excluded: str
) -> None:
    only = Namespaces.parsed(
        wanted.format(api.namespace, api.namespace), excluded.replace("{}", api.namespace)
    )
    informers = Informers(client, only=only)
    maps = informers.get(MAPS, labels=f"kubewright-test={api.namespace}")
    labelled = {"labels": {"kubewright-test": api.namespace}}
    user = Client(api.transport, api.clock)

    async def make(name: str, namespace: str) -> None:
        await user.create(MAPS, {"metadata": {"name": name, **labelled}}, namespace=namespace)

    spaces = {end: f"{api.namespace}-{end}" for end in "abc"}
    for each in spaces.values():
        await user.create(NAMESPACE, {"metadata": {"name": each}})
        await make("before", each)
    async with running(informers):
        await informers.wait_synced(10)
        for each in spaces.values():
            await make("after", each)
        written = await client.create(MAPS, {"metadata": {"name": "own", **labelled}}, namespace=spaces["a"])
        assert maps.get(Key(spaces["a"], "own")) == unmanaged(written)
        await client.create(MAPS, {"metadata": {"name": "own", **labelled}}, namespace=spaces["c"])
        await user.delete(MAPS, Key(spaces["b"], "before"))
        await api.clock.sleep(2)
        held = {str(header.key).removeprefix(f"{api.namespace}-") for header in maps.headers()}
        assert held == {"a/before", "a/after", "a/own", "b/after"}
        assert [each["metadata"]["name"] for each in maps.by("namespace", spaces["b"])] == ["after"]
    for each in spaces.values():
        await user.delete(NAMESPACE, Key("", each))


async def test_a_namespace_that_ends_slowly_is_not_taken_for_gone(api: Api, client: Client) -> None:
    """What holds it stands in its spec, not among its finalizers."""
    informers = Informers(client)
    namespaces, maps = informers.get(NAMESPACE), informers.get(MAPS)
    held, key = config_map("held"), Key(api.namespace, "held")
    held["metadata"]["finalizers"] = ["example.com/hold"]
    async with running(informers):
        await informers.wait_synced(10)
        await client.create(MAPS, held, namespace=api.namespace)
        await client.delete(NAMESPACE, Key("", api.namespace))
        header = namespaces.header(Key("", api.namespace))
        assert header is not None
        assert header.deleting
        with contextlib.suppress(NotFound, Conflict):
            await client.delete(MAPS, key)
        await client.patch(MAPS, key, {"metadata": {"finalizers": None}})
        assert maps.header(key) is None


async def test_a_kind_is_picked_up_soon_after_it_is_installed(api: Api, client: Client) -> None:
    group = f"{api.namespace}.example.com"
    things = dynamic(Resource(group, "v1", "things", "Thing"))
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    definition = {
        "metadata": {"name": f"things.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        },
    }
    informers = Informers(client)
    informer = informers.get(things)
    async with running(informers):
        await api.clock.sleep(3)
        assert informer.statistics().trouble.startswith("NotFound")
        await client.create(CRD, definition)
        await informers.wait_synced(10)
        await client.create(things, {"metadata": {"name": "a"}}, namespace=api.namespace)
        assert informer.get(Key(api.namespace, "a"))["kind"] == "Thing"
        await client.delete(CRD, Key("", f"things.{group}"))


async def test_an_eviction_of_nothing_is_not_found(api: Api, client: Client) -> None:
    with pytest.raises(NotFound):
        await client.evict(Key(api.namespace, "none"))
    assert await client.list(POD, api.namespace) == []
