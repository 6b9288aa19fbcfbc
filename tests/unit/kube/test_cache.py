"""The cache's rules one by one; ``test_cache_model`` tries them all together."""

import json
from typing import Any

import pytest

from kubewright.api.core import NODE
from kubewright.api.kinds import Undecodable, dynamic
from kubewright.base import delays
from kubewright.kube import header
from kubewright.kube.cache import BARS, Cache, Change
from kubewright.kube.client import Written
from kubewright.kube.scope import Scope
from kubewright.wire.gvk import Key, Resource

THING = dynamic(Resource("example.io", "v1", "things", "Thing"))
A = Key("n", "a")


def body(version: int, uid: str = "u", colour: str = "red", **metadata: Any) -> bytes:
    meta = {
        "name": "a",
        "namespace": "n",
        "uid": uid,
        "resourceVersion": str(version),
        "labels": {"colour": colour},
    }
    return json.dumps({"metadata": {**meta, **metadata}}).encode()


def cache(scope: Scope | None = None, *, listed: int = 10, items: tuple[bytes, ...] = ()) -> Cache[Any]:
    made: Cache[Any] = Cache(THING, scope or Scope(), lambda change: None)
    relist(made, listed, *items)
    return made


def relist(made: Cache[Any], version: int, *items: bytes) -> None:
    made.begin()
    made.page(version, [header.read(item) for item in items])
    made.end()


def tell(made: Cache[Any], kind: str, data: bytes) -> None:
    made.event(kind, header.read(data))


def wrote(made: Cache[Any], data: bytes = b"", **more: Any) -> None:
    made.wrote(Written(THING.resource, A, data, **more))


def shown(made: Cache[Any]) -> int | None:
    found = made.store.header(A)
    return None if found is None else found.version


def test_a_write_shows_before_its_watch_event_and_older_events_do_not_undo_it() -> None:
    made = cache(items=(body(5),))
    wrote(made, body(13))
    tell(made, "MODIFIED", body(12))
    assert shown(made) == 13


def test_an_answer_that_comes_after_the_watch_event_of_the_end_is_ignored() -> None:
    made = cache(items=(body(5),))
    tell(made, "DELETED", body(13))
    wrote(made, body(12))
    assert shown(made) is None


def test_a_deleted_object_does_not_come_back_with_late_events() -> None:
    made = cache(items=(body(5),))
    wrote(made, uid="u", deleted=True)
    tell(made, "MODIFIED", body(12))
    assert shown(made) is None
    assert made.bars == 1
    tell(made, "DELETED", body(13))
    assert made.bars == 0


def test_a_delete_that_only_marks_shows_the_mark() -> None:
    made = cache(items=(body(5),))
    wrote(made, body(12, finalizers=["f"], deletionTimestamp="2030-01-01T00:00:00Z"), deleted=True)
    assert made.store.header(A).deleting
    wrote(made, body(13, finalizers=[], deletionTimestamp="2030-01-01T00:00:00Z"))
    assert shown(made) is None


def test_an_object_made_again_is_not_removed_by_the_end_of_the_first() -> None:
    made = cache(items=(body(5),))
    wrote(made, body(13, uid="v"))
    tell(made, "DELETED", body(12))
    assert made.store.header(A).uid == "v"


def test_a_list_takes_away_what_it_does_not_name_but_not_what_was_written_since() -> None:
    made = cache(items=(body(5),))
    made.begin()
    wrote(made, body(25, uid="v"))
    made.page(20, [])
    made.end()
    assert shown(made) == 25
    relist(made, 30)
    assert shown(made) is None


def test_an_end_during_a_list_outlives_it_even_if_the_object_was_barred_before() -> None:
    """Found by the model: a bar that was raised while a list ran was dropped with those before it."""
    made = cache(Scope(labels="colour=red"))
    wrote(made, body(11, colour="blue"))
    made.begin()
    wrote(made, uid="u", deleted=True)
    made.page(12, [])
    made.end()
    tell(made, "ADDED", body(13))
    assert shown(made) is None


def test_leaving_a_selector_is_not_the_end_that_we_wait_for() -> None:
    """Found by the model: under a selector DELETED may be followed by ADDED of the same object."""
    made = cache(Scope(labels="colour=red"), items=(body(5),))
    wrote(made, uid="u", deleted=True)
    tell(made, "DELETED", body(12))
    tell(made, "ADDED", body(13))
    assert shown(made) is None


def test_a_write_that_takes_an_object_out_of_the_selector_removes_it_until_it_comes_back() -> None:
    made = cache(Scope(labels="colour=red"), items=(body(5),))
    wrote(made, body(14, colour="blue"))
    tell(made, "MODIFIED", body(13))
    assert shown(made) is None
    tell(made, "ADDED", body(15))
    assert shown(made) == 15


def test_writes_to_other_namespaces_are_not_ours() -> None:
    made = cache(Scope(namespace="m"))
    wrote(made, body(12))
    assert shown(made) is None


def test_a_list_of_an_older_version_replaces_everything() -> None:
    """A user restored a backup."""
    made = cache(listed=500, items=(body(400),))
    relist(made, 100, body(50))
    assert (shown(made), made.seen) == (50, 100)
    relist(made, 60)
    assert shown(made) is None


def test_bars_are_limited() -> None:
    made = cache()
    for number in range(BARS + 5):
        wrote(made, uid=f"u{number}", deleted=True)
    assert made.bars == BARS
    tell(made, "ADDED", body(12, uid=f"u{BARS + 4}"))
    assert shown(made) is None, "one of the last"
    tell(made, "ADDED", body(12, uid="u0"))
    assert shown(made) == 12, "the first is forgotten"


def test_an_unreadable_object_is_an_error_to_readers_and_absent_from_indexes() -> None:
    made: Cache[Any] = Cache(NODE, Scope(), lambda change: None)
    made.store.index("provider", lambda node: [node.spec.provider_id])
    relist(made, 10, b'{"metadata":{"name":"w","resourceVersion":"5"},"spec":{"providerID":7}}')
    assert made.store.by("provider", "7") == []
    with pytest.raises(Undecodable):
        made.store.select("")


UNREADABLE = (
    b'{"metadata":{"name":"w","resourceVersion":"%d"%s},'
    b'"spec":{"providerID":"sim:///1","taints":[{"key":7,"effect":"NoExecute"}],"unschedulable":"yes"}}'
)
GOING = b',"deletionTimestamp":"2030-01-01T00:00:00Z"'


def test_an_unreadable_object_is_found_by_what_can_be_read_of_it() -> None:
    made: Cache[Any] = Cache(NODE, Scope(), lambda change: None)
    made.store.index("provider", lambda node: [node.spec.provider_id])
    relist(made, 10, UNREADABLE % (5, b""))
    (found,) = made.store.by("provider", "sim:///1")
    assert (found.spec.unschedulable, [(each.key, each.effect) for each in found.spec.taints]) == (
        False,
        [("", "NoExecute")],
    )


def test_an_unreadable_object_is_an_error_while_it_lives_and_a_part_in_its_deletion() -> None:
    made: Cache[Any] = Cache(NODE, Scope(), lambda change: None)
    relist(made, 10, UNREADABLE % (5, b""))
    living = next(iter(made.store))
    assert made.store.problem(living).startswith("cannot read Node: spec.")
    with pytest.raises(Undecodable, match=rf"^cannot read Node {living.key}: spec\.") as caught:
        made.store.decode(living)
    assert caught.value.retry == delays.UNREADABLE
    tell(made, "MODIFIED", UNREADABLE % (11, GOING))
    ending = next(iter(made.store))
    assert made.store.problem(ending)
    assert made.store.decode(ending).spec.provider_id == "sim:///1"


def test_a_change_from_or_to_an_unreadable_object_is_told() -> None:
    told: list[tuple[str, str]] = []

    def listener(change: Any) -> None:
        before, after = change.before(), change.after()
        told.append((before.spec.provider_id if before else "", after.spec.provider_id if after else ""))

    made: Cache[Any] = Cache(NODE, Scope(), listener)
    relist(made, 10, UNREADABLE % (5, b""))
    tell(made, "MODIFIED", b'{"metadata":{"name":"w","resourceVersion":"11"},"spec":{"providerID":"b"}}')
    tell(made, "MODIFIED", UNREADABLE % (12, b""))
    assert told == [("", "sim:///1"), ("sim:///1", "b"), ("b", "sim:///1")]


def test_frozen_objects_are_decoded_once_and_dicts_each_time() -> None:
    nodes: Cache[Any] = Cache(NODE, Scope(), lambda change: None)
    relist(nodes, 10, body(5))
    assert nodes.store.select("")[0] is nodes.store.select("")[0]
    things = cache(items=(body(5),))
    assert things.store.select("")[0] is not things.store.select("")[0]


def test_a_deletion_takes_what_is_as_old_as_itself() -> None:
    made = cache(items=(body(5),))
    tell(made, "DELETED", body(5))
    assert shown(made) is None


def test_a_list_takes_away_what_is_as_old_as_itself() -> None:
    made = cache()
    made.begin()
    wrote(made, body(20))
    made.page(20, [])
    made.end()
    assert shown(made) is None


def test_an_answer_as_old_as_the_last_event_is_ignored() -> None:
    made = cache(listed=13)
    wrote(made, body(13))
    assert shown(made) is None


def test_after_a_history_that_went_back_the_first_versions_count() -> None:
    made = cache(listed=500, items=(body(400),))
    relist(made, 3, body(1, colour="blue"))
    assert made.store.header(A) == header.read(body(1, colour="blue"))


def test_a_state_that_comes_twice_is_one_change() -> None:
    changes: list[Change[Any]] = []
    made: Cache[Any] = Cache(THING, Scope(), changes.append)
    relist(made, 10, body(5))
    tell(made, "MODIFIED", body(5))
    assert len(changes) == 1


def test_a_change_shows_the_object_as_it_was_and_as_it_is() -> None:
    changes: list[Change[Any]] = []
    made: Cache[Any] = Cache(THING, Scope(), changes.append)
    first, second = body(5), body(11, colour="blue")
    relist(made, 10, first)
    tell(made, "MODIFIED", second)
    tell(made, "DELETED", body(12, colour="blue"))
    red, blue = json.loads(first), json.loads(second)
    assert [(each.before(), each.after()) for each in changes] == [(None, red), (red, blue), (blue, None)]


def test_the_bar_of_an_object_that_left_the_selector_holds_up_to_that_version() -> None:
    made = cache(Scope(labels="colour=red"), items=(body(5),))
    wrote(made, body(14, colour="blue"))
    tell(made, "ADDED", body(14))
    assert (shown(made), made.bars) == (None, 1)
    tell(made, "DELETED", body(14, colour="blue"))
    assert made.bars == 0
