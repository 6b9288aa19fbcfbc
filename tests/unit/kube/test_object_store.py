"""Objects by key with their indexes: what is counted, what is found, what stays decoded."""

import json
from typing import Any

import pytest

from kubewright.api.core import NODE
from kubewright.api.kinds import dynamic
from kubewright.kube import header
from kubewright.kube.cache import DECODED, Store
from kubewright.kube.header import Header
from kubewright.wire.gvk import Key, Resource

THING = dynamic(Resource("example.io", "v1", "things", "Thing"))


def thing(name: str, version: int, *, namespace: str = "n", owner: str = "", **fields: Any) -> Header:
    meta: dict[str, Any] = {"name": name, "namespace": namespace, "resourceVersion": str(version)}
    if owner:
        meta["ownerReferences"] = [{"uid": owner, "controller": True, "kind": "K", "name": "o"}]
    return header.read(json.dumps({"metadata": meta, **fields}).encode())


@pytest.fixture
def store() -> Store[Any]:
    return Store(THING)


def test_the_bytes_are_those_of_the_objects_that_are_there(store: Store[Any]) -> None:
    short, long, other = thing("a", 1), thing("a", 2, text="long" * 9), thing("b", 3, text="more")
    sizes = []
    for change in (store.put, short), (store.put, other), (store.put, long), (store.remove, other):
        change[0](change[1])
        sizes.append(store.bytes)
    a, a2, b = (len(each.data) for each in (short, long, other))
    assert sizes == [a, a + b, a2 + b, a2]


def test_the_index_of_owners_follows_an_object_to_another_owner(store: Store[Any]) -> None:
    store.put(thing("a", 1, owner="one"))
    store.put(thing("b", 2, owner="one"))
    store.put(thing("a", 3, owner="two"))
    assert [*store.keys_by("owner", "one")] == [Key("n", "b")]
    assert [*store.keys_by("owner", "two")] == [Key("n", "a")]
    store.put(thing("a", 4))
    assert [*store.keys_by("owner", "two")] == []


def test_the_index_of_namespaces(store: Store[Any]) -> None:
    store.put(thing("a", 1))
    store.put(thing("a", 2, namespace="m"))
    assert [*store.keys_by("namespace", "m")] == [Key("m", "a")]
    assert [obj["metadata"]["resourceVersion"] for obj in store.select("n")] == ["1"]


def test_a_declared_index_holds_what_was_there_and_what_comes(store: Store[Any]) -> None:
    store.put(thing("a", 1, colour="red"))
    store.index("colour", lambda obj: [obj["colour"]])
    store.put(thing("b", 2, colour="red"))
    assert [*store.keys_by("colour", "red")] == [Key("n", "a"), Key("n", "b")]
    store.put(thing("a", 3, colour="blue"))
    assert [*store.keys_by("colour", "red")] == [Key("n", "b")]
    assert [*store.keys_by("colour", "blue")] == [Key("n", "a")]


@pytest.mark.parametrize("name", ["owner", "namespace"])
def test_built_in_indexes_cannot_be_replaced(store: Store[Any], name: str) -> None:
    with pytest.raises(ValueError, match="built in"):
        store.index(name, lambda obj: [])


def test_of_too_many_decoded_objects_the_one_decoded_first_is_dropped() -> None:
    store = Store(NODE)
    for number in range(DECODED + 1):
        store.put(header.read(b'{"metadata":{"name":"w%d","resourceVersion":"5"}}' % number))
    first, second, *_, last = before = store.select("")
    assert len(before) == DECODED + 1
    again = [store.decode(each) for each in [*store][1:]]
    assert again[0] is second
    assert again[-1] is last
    assert store.decode(next(iter(store))) is not first


def _decoded(store: Store[Any], monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The objects that are decoded from now on."""
    seen: list[bytes] = []
    decode = type(store.kind).decode
    monkeypatch.setattr(
        type(store.kind), "decode", lambda kind, data: seen.append(data) or decode(kind, data)
    )
    return seen


@pytest.mark.parametrize(
    "looked_at_before",
    [pytest.param(True, id="that was looked at"), pytest.param(False, id="that was not looked at")],
)
@pytest.mark.parametrize("gone", [pytest.param(True, id="gone"), pytest.param(False, id="replaced")])
def test_what_was_replaced_is_decoded_once_for_all_listeners(
    looked_at_before: bool, gone: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(dynamic(THING.resource, shared=True))
    old, new = thing("a", 1, colour="red"), thing("a", 2, colour="blue")
    seen = _decoded(store, monkeypatch)
    store.put(old)
    if looked_at_before:
        store.decode(old)
    if gone:
        store.remove(old)
    else:
        store.put(new)
        store.decode(new)
    assert [store.decode(old)["colour"] for _ in range(3)] == ["red"] * 3
    assert seen.count(old.data) == 1


def test_plain_objects_are_shared_only_where_their_kind_says_so() -> None:
    for shared in (True, False):
        store = Store(dynamic(THING.resource, shared=shared))
        store.put(thing("a", 1))
        (one,), (two,) = store.select("n"), store.select("n")
        assert (one is two) == shared
