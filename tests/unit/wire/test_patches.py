"""Patches: merge, JSON and strategic, as pure functions."""

import copy
import time
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubewright.wire.errors import ApiError, BadRequest, Invalid, TooLarge
from kubewright.wire.patch import GrowsTooMuch, MovesTooMuch, apply_json, apply_merge, apply_strategic

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", max_size=2), inner, max_size=3)
    ),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.text("abc", max_size=2), JSON, max_size=4)


@pytest.mark.parametrize(
    ("document", "patch", "result"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        (["a", "b"], ["c", "d"], ["c", "d"]),
        ({"a": "b"}, ["c"], ["c"]),
        ({"a": "foo"}, None, None),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
    ids=str,
)
def test_a_merge_patch_is_that_of_the_rfc(document: Any, patch: Any, result: Any) -> None:
    assert apply_merge(document, patch) == result


@given(OBJECTS, OBJECTS)
def test_a_merge_patch_twice_is_once_and_changes_no_argument(document: Any, patch: Any) -> None:
    before = copy.deepcopy((document, patch))
    once = apply_merge(document, patch)
    assert apply_merge(once, patch) == once
    assert (document, patch) == before


def test_a_json_patch_does_its_steps_in_order() -> None:
    document = {"a": {"b": [1, 2]}, "c": 1}
    steps = [
        {"op": "test", "path": "/c", "value": 1},
        {"op": "add", "path": "/a/b/-", "value": 3},
        {"op": "move", "from": "/c", "path": "/d"},
        {"op": "remove", "path": "/a/b/0"},
    ]
    assert apply_json(document, steps) == {"a": {"b": [2, 3]}, "d": 1}
    assert document == {"a": {"b": [1, 2]}, "c": 1}


@pytest.mark.parametrize(
    ("steps", "error"),
    [
        ({"op": "add"}, BadRequest),
        ([1], BadRequest),
        ([{"op": 1, "path": "/a"}], BadRequest),
        ([{"op": "add", "path": 1}], BadRequest),
        ([{"op": "foo", "path": "/a"}], Invalid),
        ([{"op": "add", "path": "/a"}], Invalid),
        ([{"op": "test", "path": "/a", "value": 2}], Invalid),
        ([{"op": "remove", "path": "/nope"}], Invalid),
        ([{"op": "add", "path": "/a/b/c", "value": 1}], Invalid),
        ([{"op": "add", "path": "/l/99", "value": 1}], Invalid),
        ([{"op": "replace", "path": "/l/x", "value": 1}], Invalid),
        ([{"op": "add", "path": "no slash", "value": 1}], Invalid),
        ([{"op": "test", "path": "/a"}] * 10_001, TooLarge),
    ],
    ids=lambda value: str(value)[:60],
)
def test_a_bad_json_patch_is_refused(steps: Any, error: type[ApiError]) -> None:
    with pytest.raises(error):
        apply_json({"a": 1, "l": [1]}, steps)


PATHS = st.sampled_from(["", "/", "/a", "/a/b", "/l/0", "/l/-", "/l/9", "a", "/~", "/a/~2"])
STEPS = st.fixed_dictionaries(
    {"op": st.sampled_from(["add", "remove", "replace", "move", "copy", "test", "x"]), "path": PATHS},
    optional={"from": PATHS, "value": JSON},
)


@given(OBJECTS, st.lists(STEPS | JSON, max_size=4))
def test_any_json_patch_applies_or_is_refused(document: Any, steps: Any) -> None:
    before = copy.deepcopy(document)
    with suppress(ApiError):
        apply_json(document, steps)
    assert document == before


def keys(path: tuple[str, ...]) -> tuple[str | None, frozenset[str]]:
    """A schema: ``items`` merge by ``name``, ``tags`` are plain values that merge, ``whole`` is replaced."""
    return {
        "items": ("name", frozenset({"merge"})),
        "tags": (None, frozenset({"merge"})),
        "whole": (None, frozenset({"replace"})),
    }.get(path[-1], (None, frozenset()))


A, B, C = ({"name": name, "v": 1} for name in "abc")


@pytest.mark.parametrize(
    ("document", "patch", "result"),
    [
        pytest.param({"x": 1}, {"y": 2}, {"x": 1, "y": 2}, id="a field is added"),
        pytest.param({"x": 1}, {"x": None}, {}, id="null removes"),
        pytest.param({"list": [1]}, {"list": [2]}, {"list": [2]}, id="a plain list is replaced"),
        pytest.param(
            {"items": [A, B]},
            {"items": [{"name": "b", "v": 2}]},
            {"items": [A, {"name": "b", "v": 2}]},
            id="an element merges by its key",
        ),
        pytest.param({"items": [A]}, {"items": [B]}, {"items": [A, B]}, id="a new element goes to the end"),
        pytest.param(
            {"items": [A, B]},
            {"items": [{"name": "a", "$patch": "delete"}]},
            {"items": [B]},
            id="an element is deleted",
        ),
        pytest.param(
            {"items": [A, B]},
            {"items": [{"$patch": "replace"}, C]},
            {"items": [C]},
            id="a list is replaced when told to",
        ),
        pytest.param(
            {}, {"items": [{"name": "z", "$patch": "delete"}]}, {"items": []}, id="nothing there to delete"
        ),
        pytest.param(
            {"tags": ["a"]}, {"tags": ["b", "a"]}, {"tags": ["a", "b"]}, id="plain values are united"
        ),
        pytest.param(
            {"tags": ["a", "b"]},
            {"$deleteFromPrimitiveList/tags": ["a"]},
            {"tags": ["b"]},
            id="a plain value is taken out",
        ),
        pytest.param(
            {"items": [A, B]},
            {"$setElementOrder/items": [{"name": "b"}, {"name": "a"}]},
            {"items": [B, A]},
            id="the order is set",
        ),
        pytest.param(
            {"items": [A, B, C]},
            {"$setElementOrder/items": [{"name": "c"}, {"name": "a"}], "items": [{"name": "c", "v": 2}]},
            {"items": [B, {"name": "c", "v": 2}, A]},
            id="what the sender does not name keeps its place",
        ),
        pytest.param(
            {"m": {"a": 1, "b": 2}},
            {"m": {"$retainKeys": ["b", "c"], "c": 3}},
            {"m": {"b": 2, "c": 3}},
            id="only the keys named are retained",
        ),
        pytest.param(
            {"m": {"a": 1}},
            {"m": {"$patch": "replace", "b": 2}},
            {"m": {"b": 2}},
            id="a map is replaced when told to",
        ),
        pytest.param({"m": {"a": 1}}, {"m": {"$patch": "delete"}}, {"m": {}}, id="a map is emptied"),
        pytest.param(
            {"whole": {"a": 1}},
            {"whole": {"b": 2}},
            {"whole": {"b": 2}},
            id="a map that is replaced by its schema",
        ),
        pytest.param(
            {"m": 1}, {"m": {"a": {"b": None, "c": 1}}}, {"m": {"a": {"c": 1}}}, id="nulls never get in"
        ),
        pytest.param(
            {"s": {"$ref": 1}},
            {"s": {"$ref": 2}},
            {"s": {"$ref": 2}},
            id="other names with a dollar are names",
        ),
    ],
)
def test_a_strategic_patch(document: Any, patch: Any, result: Any) -> None:
    before = copy.deepcopy((document, patch))
    assert apply_strategic(document, patch, keys) == result
    assert (document, patch) == before


@pytest.mark.parametrize(
    ("patch", "error"),
    [
        ([], BadRequest),
        ({"m": {"$patch": "foo"}}, BadRequest),
        ({"items": [{"v": 1}]}, Invalid),
        ({"items": [1]}, Invalid),
        ({"$setElementOrder/items": "x"}, BadRequest),
        ({"$retainKeys": "x"}, BadRequest),
        ({"$retainKeys": ["a"], "b": 1}, BadRequest),
    ],
    ids=str,
)
def test_a_bad_strategic_patch_is_refused(patch: Any, error: type[ApiError]) -> None:
    with pytest.raises(error):
        apply_strategic({"items": [A]}, patch, keys)


def test_elements_that_hold_numbers_of_any_size_are_compared() -> None:
    patch = {"tags": [[2**70], {"a": 2**70}]}
    assert apply_strategic({"tags": [[2**70], [1]]}, patch, keys)["tags"] == [[2**70], [1], {"a": 2**70}]


DIRECTIVES = st.dictionaries(
    st.sampled_from(["a", "items", "tags", "whole", "$patch", "$retainKeys", "$setElementOrder/items"]),
    JSON,
    max_size=4,
)


@given(OBJECTS, DIRECTIVES)
def test_any_strategic_patch_applies_or_is_refused(document: Any, patch: Any) -> None:
    try:
        result = apply_strategic(document, patch, keys)
    except ApiError:
        return
    assert not any(str(name).startswith("$") for name in result)


def doubling(times: int, first: str = "/a") -> list[dict[str, Any]]:
    """Each step copies what all steps before have made."""
    return [{"op": "copy", "from": "/a", "path": f"{first}/{number}"} for number in range(times)]


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param(doubling(22), id="copies that double a member"),
        pytest.param(
            [{"op": "copy", "from": "", "path": f"/x{n}"} for n in range(22)], id="copies of the whole"
        ),
        pytest.param([{"op": "copy", "from": "/l", "path": "/l/-"}] * 22, id="copies into a list"),
        pytest.param(
            [{"op": "add", "path": "/b", "value": "x" * 1_000_000}]
            + [{"op": "copy", "from": "/b", "path": f"/c{n}"} for n in range(9)],
            id="copies of what was added",
        ),
        pytest.param(
            [{"op": "add", "path": f"/b{n}", "value": "x" * 1_000_000} for n in range(4)], id="what is added"
        ),
        pytest.param(
            [{"op": "replace", "path": "/a", "value": "x" * 1_000_000}] * 4,
            id="what is put in another's place",
        ),
    ],
)
def test_a_json_patch_that_brings_too_much_is_refused_without_showing_the_object(steps: Any) -> None:
    with pytest.raises(GrowsTooMuch) as refused:
        apply_json({"a": {"secret": "s" * 100}, "l": ["s" * 100]}, steps)
    assert str(refused.value) == "the server rejected our request due to an error in our request"
    assert "exceeding the limit 3145728" in refused.value.why
    assert not refused.value.details


def test_a_json_patch_may_bring_as_much_as_its_bound() -> None:
    steps = [{"op": "add", "path": "/b", "value": "x" * 8}, {"op": "copy", "from": "/b", "path": "/c"}]
    assert apply_json({}, steps, most=20) == {"b": "x" * 8, "c": "x" * 8}
    with pytest.raises(GrowsTooMuch):
        apply_json({}, steps, most=19)


def test_a_json_patch_that_nests_without_end_is_refused() -> None:
    deeper = "/a" * 200
    with pytest.raises(BadRequest, match="exceeded max depth"):
        apply_json(
            {"a": {}}, [{"op": "copy", "from": "", "path": deeper[: 2 * n]} for n in range(1, 100)] * 9
        )


def test_a_copy_shares_nothing_with_what_was_copied() -> None:
    steps = [{"op": "copy", "from": "/a", "path": "/b"}, {"op": "add", "path": "/b/-", "value": 1}]
    assert apply_json({"a": []}, steps) == {"a": [], "b": [1]}


def test_large_lists_merge_in_time_that_grows_with_their_size() -> None:
    """A search for each element would take minutes here."""
    many = [f"t{n}" for n in range(100_000)]
    items = [{"name": n} for n in many]
    patch = {
        "tags": many,
        "$setElementOrder/tags": many[::-1],
        "$deleteFromPrimitiveList/tags": many[:50_000],
        "items": [*({"name": n, "$patch": "delete"} for n in many[:50_000]), *items[50_000:]],
    }
    merged = apply_strategic({"tags": many[:70_000], "items": items[:70_000]}, patch, keys)
    assert merged["tags"] == many[:49_999:-1]
    assert merged["items"] == items[50_000:]


TO_THE_BEGINNING = {
    "adding": {"op": "add", "path": "/l/0", "value": 0},
    "adding by a negative index": {"op": "add", "path": "/l/-200000", "value": 0},
    "copying": {"op": "copy", "from": "/l/1", "path": "/l/0"},
    "removing": {"op": "remove", "path": "/l/0"},
    "moving": {"op": "move", "from": "/l/0", "path": "/l/1"},
}


@pytest.mark.parametrize("step", TO_THE_BEGINNING.values(), ids=TO_THE_BEGINNING)
def test_a_json_patch_that_moves_a_large_list_again_and_again_is_refused(step: Any) -> None:
    with pytest.raises(MovesTooMuch):
        apply_json({"l": [0] * 200_000}, [step] * 1_000)


def test_a_json_patch_may_change_a_large_list_at_its_end_and_a_small_one_anywhere() -> None:
    """And ask for items of a large one."""
    steps = [
        *[{"op": "add", "path": "/l/-", "value": 1}, {"op": "test", "path": "/l/0", "value": 0}] * 4_000,
        *[{"op": "add", "path": "/s/0", "value": 1}] * 1_000,
    ]
    found = apply_json({"l": [0] * 200_000, "s": []}, steps)
    assert (len(found["l"]), len(found["s"])) == (204_000, 1_000)


def test_a_large_value_that_moves_to_and_fro_is_not_copied_each_time() -> None:
    document = {"a": {str(number): "x" for number in range(10_000)}, "l": [1]}
    there = [{"op": "move", "from": "/a", "path": "/l/-"}, {"op": "move", "from": "/l/1", "path": "/l/0"}]
    back = [{"op": "move", "from": "/l/-2", "path": "/b"}, {"op": "move", "from": "/b", "path": "/a"}]
    begin = time.process_time()
    assert apply_json(document, [*there, *back] * 500) == document
    assert time.process_time() - begin < 2


def test_what_moves_to_the_root_is_the_document() -> None:
    assert apply_json({"a": {"b": 1}, "c": 2}, [{"op": "move", "from": "/a", "path": ""}]) == {"b": 1}
