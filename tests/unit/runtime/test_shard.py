"""Which objects a shard has, what its Leases are called, and when it has its turn."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubewright.base.errors import InvalidInput
from kubewright.runtime.lease import APART, MOST, TURN, WHOLE, Shard

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
GOOD = [("0/1", WHOLE), ("0/3", Shard(0, 3)), ("2/3", Shard(2, 3)), ("63/64", Shard(63, 64))]
BAD = [
    ("no number", "", "it must be INDEX/COUNT, such as 0/3"),
    ("one number", "3", "it must be INDEX/COUNT, such as 0/3"),
    ("words", "a/b", "it must be INDEX/COUNT, such as 0/3"),
    ("a negative number", "-1/3", "it must be INDEX/COUNT, such as 0/3"),
    ("a fraction", "0.5/3", "it must be INDEX/COUNT, such as 0/3"),
    ("another alphabet's digits", "١/٣", "it must be INDEX/COUNT, such as 0/3"),
    ("more digits than any count has", f"0/{'9' * 5000}", "it must be INDEX/COUNT, such as 0/3"),
    ("of none", "0/0", "COUNT must be between 1 and 64"),
    ("of too many", "0/65", "COUNT must be between 1 and 64"),
    ("counted from one", "3/3", "the last of 3 is 2/3"),
]
shards = st.integers(1, 8).flatmap(lambda n: st.builds(Shard, st.integers(0, n - 1), st.just(n)))
moments = st.integers(0, 10**6).map(lambda seconds: NOON + timedelta(seconds=seconds))


@pytest.mark.parametrize(("text", "shard"), GOOD, ids=[text for text, _ in GOOD])
def test_a_shard_is_read(text, shard):
    assert Shard.parsed(text) == shard


@pytest.mark.parametrize(("text", "why"), [c[1:] for c in BAD], ids=[c[0] for c in BAD])
def test_what_is_no_shard_is_refused_with_what_would_be_one(text, why):
    with pytest.raises(InvalidInput) as refused:
        Shard.parsed(text)
    assert str(refused.value) == f"--shard {text!r}: {why}"


def test_its_leases_name_it_and_its_number():
    assert Shard(1, 3).lease("machine-controller") == "machine-controller-1-of-3"
    assert Shard(1, 3).shared_identity == Shard(0, 3).shared_identity != Shard(0, 2).shared_identity


@given(st.uuids().map(str), st.integers(1, MOST))
def test_each_object_is_in_exactly_one_shard(uid, count):
    assert sum(Shard(index, count).has(uid) for index in range(count)) == 1


def test_shards_have_about_as_much_to_do():
    uids = [f"{number:08x}-0000-4000-8000-000000000000" for number in range(10_000)]
    for count in (2, 3, 7):
        counts = [sum(Shard(index, count).has(uid) for uid in uids) for index in range(count)]
        assert max(counts) < 1.1 * len(uids) / count


def test_the_only_one_has_everything_and_always_its_turn():
    assert WHOLE.has("any")
    assert WHOLE.until_turn("group", NOON) == timedelta()


@given(shards, st.text(max_size=8), moments)
def test_a_turn_comes_within_a_round_and_is_no_other_shards_within_the_time_that_clocks_differ(
    shard, group, now
):
    wait = shard.until_turn(group, now)
    assert timedelta() <= wait <= shard.count * TURN + APART
    assert shard.until_turn(group, now + wait) == timedelta()
    for other in range(shard.count):
        if other != shard.index:
            for differs in (-APART, timedelta(), APART - timedelta(milliseconds=1)):
                assert Shard(other, shard.count).until_turn(group, now + wait + differs) > timedelta()


@pytest.mark.parametrize(
    ("seconds", "wait"),
    [(0, 10), (9, 1), (10, 0), (49, 0), (50, 80), (59, 71), (60, 70)],
    ids=[
        "its minute begins",
        "it waits",
        "it has it",
        "until then",
        "it is over",
        "it waits long",
        "another's",
    ],
)
def test_a_minute_of_the_first_of_two(seconds, wait):
    shard = Shard(0, 2)
    its_minute = next(at for at in (NOON, NOON + TURN) if shard.until_turn("g", at) == APART)
    assert shard.until_turn("g", its_minute + timedelta(seconds=seconds)) == timedelta(seconds=wait)
