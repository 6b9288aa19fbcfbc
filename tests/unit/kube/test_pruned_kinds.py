"""Caches of a pruned kind: what its type does not have is not kept."""

import msgspec

from kubewright.api.kinds import Kind
from kubewright.api.meta import KubeObject, Value
from kubewright.kube.cache import Cache
from kubewright.kube.client import Written
from kubewright.kube.header import read
from kubewright.kube.scope import Scope
from kubewright.wire.gvk import Key, Resource


class Spec(Value, frozen=True, kw_only=True):
    size: int = 0


class Thing(KubeObject, frozen=True, kw_only=True):
    spec: Spec = Spec()


RESOURCE = Resource("", "v1", "things", "Thing")
KEY = Key("ns", "a")


def cache(*, pruned: bool = True) -> Cache[Thing]:
    return Cache(Kind(RESOURCE, Thing, pruned), Scope(), lambda change: None)


def stored(version: int = 7, size: object = 3) -> bytes:
    metadata = {
        "name": "a",
        "namespace": "ns",
        "uid": "u",
        "resourceVersion": str(version),
        "labels": {"team": "red"},
        "selfLink": "x" * 100,
    }
    spec = {"size": size, "images": ["y" * 500] * 20}
    return msgspec.json.encode({"kind": "Thing", "apiVersion": "v1", "metadata": metadata, "spec": spec})


def test_an_event_leaves_only_what_the_type_has() -> None:
    kept = cache()
    kept.event("ADDED", read(stored()))
    header = kept.store.header(KEY)
    assert header is not None
    assert len(header.data) < 250
    assert kept.store.decode(header) == Kind(RESOURCE, Thing).decode(stored())
    assert header.labels == {"team": "red"}


def test_so_do_a_list_and_the_answer_to_a_write() -> None:
    kept = cache()
    kept.begin()
    kept.page(7, [read(stored())])
    kept.end()
    kept.wrote(Written(RESOURCE, KEY, stored(8, size=4)))
    header = kept.store.header(KEY)
    assert header is not None
    assert (header.version, kept.store.decode(header).spec.size) == (8, 4)
    assert kept.store.bytes < 250


def test_what_the_type_cannot_read_stays_whole_for_who_reports_it() -> None:
    kept = cache()
    kept.event("ADDED", read(stored(size="three")))
    header = kept.store.header(KEY)
    assert header is not None
    assert b'"three"' in header.data


def test_other_kinds_keep_every_byte() -> None:
    kept = cache(pruned=False)
    kept.event("ADDED", read(stored()))
    assert kept.store.bytes == len(stored())
