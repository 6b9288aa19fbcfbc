"""Lists by an index: they find what a look through all objects finds, and decode no others."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace

import orjson
from hypothesis import given
from hypothesis import strategies as st

from kubewright.apiserver.registry.builtin import builtin_catalog
from kubewright.apiserver.registry.kind import ServedKind, Target
from kubewright.apiserver.registry.reading import ListOptions, Reading, filter_of
from kubewright.apiserver.schema.node import Object
from kubewright.apiserver.store import Having, Record, Store, record_of
from kubewright.apiserver.store.store import FEW, MOST_INDEXES

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


LABELS = st.dictionaries(st.sampled_from(["app", "tier"]), st.sampled_from(["", "a", "b"]))
VALUES = st.sets(st.sampled_from(["", "a", "b", "none"]), min_size=1).map(
    lambda values: tuple(sorted(values))
)
THINGS = "things"


def thing(store: Store, key: str, labels: Mapping[str, str]) -> Record:
    version = store.next_version()
    body = {"metadata": {"name": key, "labels": labels, "resourceVersion": str(version)}}
    return record_of(THINGS, key, version, orjson.dumps(body), body)


def by_label(name: str, values: tuple[str, ...], *, kept: bool = False) -> Having:
    return Having(name, values, lambda record: record.labels.get(name), kept)


def has(record: Record, wanted: Sequence[Having]) -> bool:
    return all(each.value_of(record) in each.values for each in wanted)


@given(
    steps=st.lists(st.tuples(KEYS, st.none() | LABELS), max_size=30),
    asked_at=st.integers(0, 30),
    version=st.integers(0, 30),
    wanted=st.tuples(st.none() | VALUES, st.none() | VALUES),
    place=st.tuples(st.sampled_from(["", "a/", "b/"]), st.sampled_from(["", "a/p", "b/p"])),
)
def test_an_index_of_labels_leads_to_all_that_have_the_values_now_and_in_every_older_version(
    steps: list[tuple[str, dict[str, str] | None]],
    asked_at: int,
    version: int,
    wanted: tuple[tuple[str, ...] | None, tuple[str, ...] | None],
    place: tuple[str, str],
) -> None:
    both = zip(("app", "tier"), wanted, strict=True)
    having = [by_label(name, values, kept=True) for name, values in both if values is not None]

    async def told() -> None:
        store, moments = Store(), {0: list[Record]()}
        for number, (key, labels) in enumerate(steps):
            if number == asked_at:
                list(store.scan_at(store.version, THINGS, having=having))  # the indexes are made
            old = store.latest(THINGS, key)
            if labels is not None:
                await store.put(thing(store, key, labels), old)
            elif old is not None:
                await store.remove(thing(store, key, old.labels), old)
            moments[store.version] = list(store.scan(THINGS))
        at = min(version, store.version)
        found = list(store.scan_at(at, THINGS, *place, having))
        there = [r for r in moments[at] if r.key.startswith(place[0]) and r.key > place[1]]
        assert [each.key for each in found] == sorted({each.key for each in found})
        assert [each for each in found if has(each, having)] == [each for each in there if has(each, having)]
        assert all(each in there for each in found)

    asyncio.run(told())


def test_of_the_indexes_that_lists_have_asked_for_those_of_the_last_are_kept_and_each_answers_as_a_scan() -> (
    None
):
    names = [f"l{number}" for number in range(MOST_INDEXES + 4)]

    async def told() -> None:
        store = Store()
        for number in range(2 * FEW):
            labels = {name: str(number % (2 + at)) for at, name in enumerate(names)}
            await store.put(thing(store, f"k{number:04}", labels), None)
        for turn in range(3):
            for name in names:
                old = store.latest(THINGS, f"k{turn:04}")
                assert old is not None
                await store.put(thing(store, old.key, {**old.labels, name: "1"}), old)
                wanted = by_label(name, ("1",))
                found = [each.key for each in store.scan_at(store.version, THINGS, having=[wanted])]
                assert found == [each.key for each in store.scan(THINGS) if has(each, [wanted])]
                assert store.count_having([wanted], THINGS) == len(found)

    asyncio.run(told())


def test_a_list_by_label_looks_at_no_other_objects() -> None:
    looked_at = []

    def value_of(record: Record) -> str | None:
        looked_at.append(record.key)
        return record.labels.get("app")

    async def told() -> None:
        store, wanted = Store(), Having("app", ("a7",), value_of)
        for number in range(2 * FEW):
            await store.put(thing(store, f"k{number:04}", {"app": f"a{number % 100}"}), None)
        assert store.count_having([wanted], THINGS) == 2 * FEW, "to count makes no index"
        assert len(list(store.scan_at(store.version, THINGS, having=[wanted]))) == 2 * FEW // 100
        assert store.count_having([wanted], THINGS) == 2 * FEW // 100
        looked_at.clear()
        assert len(list(store.scan_at(store.version, THINGS, having=[wanted]))) == 2 * FEW // 100
        await store.put(thing(store, "k0000", {"app": "a7"}), store.latest(THINGS, "k0000"))
        assert [each.key for each in store.scan_at(store.version, THINGS, having=[wanted])][:2] == [
            "k0000",
            "k0007",
        ]

    asyncio.run(told())
    assert looked_at == ["k0000"]


def test_lists_of_a_small_namespace_by_a_thousand_labels_never_make_an_index_of_the_whole_collection() -> (
    None
):
    read = list[str]()

    def by(name: str) -> Having:
        def value_of(record: Record) -> str | None:
            read.append(record.key)
            return record.labels.get(name)

        return Having(name, ("1",), value_of)

    async def told() -> None:
        store = Store()
        for number in range(4 * FEW):
            await store.put(thing(store, f"big/k{number:04}", {"app": "1"}), None)
        for number in range(3):
            await store.put(thing(store, f"small/k{number}", {"app": "1"}), None)
        for number in range(1_000):
            assert len(list(store.scan_at(store.version, THINGS, "small/", "", [by(f"l{number}")]))) == 3
        for _ in range(100):
            assert len(list(store.scan_at(store.version, THINGS, "small/", "", [by("app")]))) == 3

    asyncio.run(told())
    assert read == []


def test_lists_of_a_large_namespace_by_one_label_make_its_index_once_they_have_looked_at_as_much() -> None:
    read = list[str]()

    def value_of(record: Record) -> str | None:
        read.append(record.key)
        return record.labels.get("app")

    async def told() -> list[int]:
        store, wanted = Store(), Having("app", ("a1",), value_of)
        for namespace in ("a", "b", "c"):
            for number in range(FEW):
                await store.put(thing(store, f"{namespace}/k{number:03}", {"app": f"a{number % 100}"}), None)
        asked = (list(store.scan_at(store.version, THINGS, "b/", "", [wanted])) for _ in range(4))
        return [len(records) for records in asked]

    assert asyncio.run(told()) == [FEW, FEW, FEW // 100, FEW // 100]
    assert len(read) == 3 * FEW, "each object is read once"


@given(
    steps=st.lists(st.tuples(st.integers(0, 7), st.booleans()), max_size=40),
    ask_every=st.integers(1, 5),
    after=st.integers(-1, 7),
)
def test_pages_of_an_old_version_are_the_same_however_often_they_are_asked_for_while_writes_go_on(
    steps: list[tuple[int, bool]], ask_every: int, after: int
) -> None:
    async def told() -> None:
        store = Store()
        for number in range(4):
            await store.put(thing(store, f"k{number}", {}), None)
        then, start = [each.key for each in store.scan(THINGS)], store.version
        last = f"k{after}" if after >= 0 else ""
        for at, (number, stays) in enumerate(steps):
            key = f"k{number}"
            old = store.latest(THINGS, key)
            if stays or old is None:
                await store.put(thing(store, key, {}), old)
            else:
                await store.remove(thing(store, key, {}), old)
            if at % ask_every == 0:
                wanted = [key for key in then if key > last]
                assert [each.key for each in store.scan_at(start, THINGS, "", last)] == wanted
                assert store.count_at(start, THINGS, "", last) == len(wanted)

    asyncio.run(told())
