"""Lists by an index: they find what a look through all objects finds, and decode no others."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace

import orjson
from hypothesis import given
from hypothesis import strategies as st

from kubewright.apiserver.registry.builtin import builtin_catalog
from kubewright.apiserver.registry.kind import ServedKind, Target
from kubewright.apiserver.registry.reading import ListOptions, Reading, filter_of
from kubewright.apiserver.schema.node import Object
from kubewright.apiserver.store import Record, Store, record_of

PODS = next(kind for kind in builtin_catalog() if kind.resource.plural == "pods")
COLLECTION = Target(PODS).collection
KEYS = st.sampled_from(["a/p", "a/q", "b/p", "b/q"])
NODES = st.sampled_from(["", "n1", "n2"])


def pod(store: Store, key: str, node: str) -> Record:
    namespace, _, name = key.partition("/")
    version = store.next_version()
    metadata = {"name": name, "namespace": namespace, "resourceVersion": str(version)}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"nodeName": node}}
    return record_of(COLLECTION, key, version, orjson.dumps(body), body)


async def write(store: Store, key: str, node: str | None) -> None:
    """Bind a pod to a node, or to another; None: delete it."""
    old = store.latest(COLLECTION, key)
    if node is not None:
        await store.put(pod(store, key, node), old)
    elif old is not None:
        await store.remove(pod(store, key, "gone"), old)


def listed(reading: Reading, kind: ServedKind, namespace: str, fields: str) -> list[str]:
    page = reading.list(Target(kind, namespace), filter_of(kind, "", fields), ListOptions())
    return [record.key for record in page.records]


@given(
    before=st.lists(st.tuples(KEYS, st.none() | NODES)),
    after=st.lists(st.tuples(KEYS, st.none() | NODES)),
    node=NODES,
    namespace=st.sampled_from(["", "a", "b"]),
)
def test_a_list_by_an_index_finds_what_is_on_the_node_whatever_was_written_before_and_after_it_was_made(
    before: list[tuple[str, str | None]], after: list[tuple[str, str | None]], node: str, namespace: str
) -> None:
    async def told() -> None:
        store, now = Store(), dict[str, str]()
        reading = Reading(store)
        for writes in (before, after):
            for key, where in writes:
                await write(store, key, where)
                now.pop(key, None)
                now |= {} if where is None else {key: where}
            wanted = [key for key, where in sorted(now.items()) if where == node]
            found = listed(reading, PODS, namespace, f"spec.nodeName={node}")
            assert found == [key for key in wanted if key.startswith(namespace)]

    asyncio.run(told())


def test_ten_lists_of_the_pods_of_a_node_read_all_pods_once_and_then_those_of_the_node_alone() -> None:
    read = []

    def fields(obj: Object) -> Mapping[str, str]:
        if "spec" in obj:  # and not the empty object, of which a selector asks what fields there are
            read.append(obj["metadata"]["name"])
        return PODS.fields(obj)

    async def told() -> None:
        store, counted = Store(), replace(PODS, fields=fields)
        for number in range(100):
            await write(store, f"a/p{number:03}", f"n{number // 2}")
        reading = Reading(store)
        for _ in range(10):
            assert listed(reading, counted, "", "spec.nodeName=n7") == ["a/p014", "a/p015"]

    asyncio.run(told())
    assert read == [f"p{number:03}" for number in range(100)] + 10 * ["p014", "p015"]


def test_a_pod_that_moved_and_was_deleted_stands_on_no_node() -> None:
    async def told() -> None:
        store = Store()
        reading = Reading(store)
        await write(store, "a/p", "n1")
        assert listed(reading, PODS, "", "spec.nodeName=n1") == ["a/p"]
        await write(store, "a/p", "n2")
        assert listed(reading, PODS, "", "spec.nodeName=n1") == []
        assert listed(reading, PODS, "", "spec.nodeName=n2") == ["a/p"]
        await write(store, "a/p", None)
        assert [listed(reading, PODS, "", f"spec.nodeName={node}") for node in ("n1", "n2")] == [[], []]

    asyncio.run(told())
