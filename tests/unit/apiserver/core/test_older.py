"""Objects that are older than the schema of their kind: how they read, and what is remembered of them."""

import orjson
import pytest

from kubewright.apiserver.registry import versions as kinds
from kubewright.apiserver.registry.versions import Older
from kubewright.apiserver.schema.structural import Structural
from kubewright.apiserver.store import Record

SCHEMA = Structural(
    {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "properties": {"size": {"type": "string"}, "kept": {"type": "string", "default": "yes"}},
            }
        },
    }
)


def record(name: str, version: int = 1, **spec: str) -> Record:
    body = {"apiVersion": "b.io/v1", "kind": "Thing", "metadata": {"name": name}, "spec": spec}
    return Record("things.b.io", name, version, "", {}, False, orjson.dumps(body))


def older() -> Older:
    return Older(SCHEMA, "b.io/v1", 5, 10)


def spec_of(data: bytes) -> object:
    return orjson.loads(data)["spec"]


def test_an_older_object_has_the_present_defaults_and_a_newer_one_stays_as_it_is() -> None:
    them = older()
    for _ in range(2):
        assert spec_of(them.data(record("a", 1, size="s"))) == {"size": "s", "kept": "yes"}
        assert spec_of(them.data(record("a", 11, size="s"))) == {"size": "s"}
    assert spec_of(them.data(record("a", 2, size="m"))) == {"size": "m", "kept": "yes"}
    assert spec_of(them.data(record("a", 1, size="s"))) == {"size": "s", "kept": "yes"}
    assert them.remembered[0] == 1


def test_what_reads_as_it_is_stored_takes_no_bytes() -> None:
    them = older()
    same = record("a", 1, kept="no")
    assert them.data(same) == same.data
    assert them.remembered == (1, 0)


@pytest.mark.parametrize(("number", "size"), [(200, 400_000), (60_000, 0)], ids=["large ones", "many"])
def test_objects_that_come_and_go_are_not_remembered_without_end(number: int, size: int) -> None:
    """Each of them is deleted before the next one is asked for, and nobody says so."""
    them = older()
    for each in range(number):
        assert b'"kept"' in them.data(
            record(f"a{each}", 1, **({"size": "s" * size} if size else {"kept": "n"}))
        )
    count, held = them.remembered
    assert 0 < count <= kinds.MOST_READ
    assert held <= kinds.MOST_READ_BYTES
    assert spec_of(them.data(record("a0", 1, size="s"))) == {"size": "s", "kept": "yes"}
