"""Clocks and wire times, on a virtual loop."""

import asyncio
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubewright.base.clock import SystemClock, new_uid, parse_rfc3339, rfc3339, rfc3339_micro
from kubewright.testing.clocks import LoopClock

MOMENT = datetime(2030, 1, 2, 3, 4, 5, 678_901, tzinfo=UTC)


async def test_wall_time_follows_the_virtual_loop_exactly() -> None:
    clock = LoopClock(MOMENT)
    before, started = clock.now(), clock.monotonic()
    await clock.sleep(86_400)
    assert clock.now() - before == timedelta(days=1)
    assert clock.monotonic() - started == 86_400


async def test_wall_time_starts_at_the_first_question() -> None:
    await asyncio.sleep(1_000)
    assert LoopClock(MOMENT).now() == MOMENT


async def test_sleepers_wake_in_the_order_of_their_times() -> None:
    clock, order = LoopClock(), []

    async def sleeper(seconds: float) -> None:
        await clock.sleep(seconds)
        order.append(seconds)

    await asyncio.gather(*(sleeper(s) for s in (3.0, 1.0, 2.0)))
    assert order == [1.0, 2.0, 3.0]


def test_system_time_is_aware_and_in_utc() -> None:
    assert SystemClock().now().utcoffset() == timedelta()


def test_one_seed_gives_one_sequence_of_uids() -> None:
    first, second, other = (new_uid(LoopClock(seed=seed)) for seed in (7, 7, 8))
    assert first == second != other
    assert first[14] == "4"


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        pytest.param("2030-01-02T03:04:05Z", MOMENT.replace(microsecond=0), id="whole seconds in UTC"),
        pytest.param("2030-01-02T03:04:05.678901Z", MOMENT, id="microseconds in UTC"),
        pytest.param("2030-01-02T04:04:05.678901+01:00", MOMENT, id="another zone is converted"),
    ],
)
def test_wire_times_are_read(text: str, moment: datetime) -> None:
    assert parse_rfc3339(text) == moment
    assert parse_rfc3339(text).tzinfo is UTC


@pytest.mark.parametrize("text", ["", "soon", "2030-01-02T03:04:05", "2030-13-01T00:00:00Z"])
def test_what_is_no_wire_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_rfc3339(text)


def test_wire_times_are_written_in_utc_whatever_the_zone() -> None:
    local = MOMENT.astimezone(timezone(timedelta(hours=-5)))
    assert rfc3339(local) == "2030-01-02T03:04:05Z"
    assert rfc3339_micro(local) == "2030-01-02T03:04:05.678901Z"


@given(st.datetimes(timezones=st.just(UTC)))
def test_what_is_written_reads_back_the_same(moment: datetime) -> None:
    assert parse_rfc3339(rfc3339_micro(moment)) == moment
    assert parse_rfc3339(rfc3339(moment)) == moment.replace(microsecond=0)
