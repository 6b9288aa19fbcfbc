"""Whether a control plane sleeps: by hand, by schedule, in time zones and over changes of clocks."""

from datetime import UTC, datetime, timedelta

import pytest

from kubewright.api.controlplane.v1alpha4 import NestedControlPlaneSpec, SleepSchedule
from kubewright.base.errors import InvalidInput
from kubewright.controlplanes.plane.seen import Rest, rest_of

NIGHTS = SleepSchedule(sleep="0 20 * * 1-5", wake="0 7 * * 1-5", time_zone="Europe/Berlin")
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


def at(text):
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def rest(now, *schedule, asleep=None, made=LONG_AGO):
    return rest_of(NestedControlPlaneSpec(schedule=schedule, asleep=asleep), made, at(now))


@pytest.mark.parametrize(
    ("now", "asleep", "until"),
    [
        pytest.param("2026-11-23 18:59:59", False, "2026-11-23 19:00", id="Monday, a second before eight in the evening"),
        pytest.param("2026-11-23 19:00", True, "2026-11-24 06:00", id="Monday, eight in the evening"),
        pytest.param("2026-11-24 05:59:59.9", True, "2026-11-24 06:00", id="Tuesday, just before seven"),
        pytest.param("2026-11-24 06:00:00.1", False, "2026-11-24 19:00", id="Tuesday, just after seven"),
        pytest.param("2026-11-28 12:00", True, "2026-11-30 06:00", id="Saturday: until Monday"),
        pytest.param("2026-07-20 18:30", True, "2026-07-21 05:00", id="in summer clocks are an hour ahead"),
    ],
)  # fmt: skip
def test_a_schedule_of_nights(now, asleep, until):
    assert rest(now, NIGHTS) == Rest(asleep, at(until))


def entry(sleep="", wake="", time_zone="Europe/Berlin"):
    return SleepSchedule(sleep=sleep, wake=wake, time_zone=time_zone)


GAP = entry(sleep="0 1 * * *", wake="30 2 * * *")
TWICE = entry(sleep="0 1 * * *", wake="30 2 * * *")


@pytest.mark.parametrize(
    ("now", "schedule", "asleep", "until"),
    [
        # On 2026-03-29 clocks in Berlin go from 2 to 3 at 01:00 UTC; on 2026-10-25 from 3 to 2, also at 01:00 UTC.
        pytest.param("2026-03-29 00:30", GAP, True, "2026-03-29 01:00", id="half past two is left out: it wakes at three"),
        pytest.param("2026-03-29 00:59", GAP, True, "2026-03-29 01:00", id="a minute before the gap"),
        pytest.param("2026-03-29 01:00", GAP, False, "2026-03-29 23:00", id="after the gap"),
        pytest.param("2026-10-25 00:29", TWICE, True, "2026-10-25 00:30", id="before the first half past two"),
        pytest.param("2026-10-25 00:30", TWICE, False, "2026-10-26 00:00", id="the first half past two"),
        pytest.param("2026-10-25 01:15", TWICE, False, "2026-10-26 00:00", id="between the two"),
        pytest.param("2026-10-25 01:30", TWICE, False, "2026-10-26 00:00", id="the second one counts no more"),
        pytest.param("2026-10-25 01:05", entry(sleep="45 2 * * *", wake="0 7 * * *"), True, "2026-10-25 06:00", id="a sleep in the first of the two hours, seen in the second"),
        pytest.param("2026-11-23 19:00", entry("0 20 * * *", "0 7 * * *", "America/New_York"), False, "2026-11-24 01:00", id="another zone"),
        pytest.param("2026-11-23 19:00", entry("0 20 * * *", "0 7 * * *", ""), False, "2026-11-23 20:00", id="no zone is UTC"),
        pytest.param("2026-11-23 19:00", entry(sleep="0 12 * * *"), True, None, id="nothing wakes it"),
        pytest.param("2026-11-23 19:00", entry(wake="0 12 * * *"), False, None, id="nothing lets it sleep"),
        pytest.param("2026-11-23 19:00", entry("0 12 * * *", "0 12 * * *"), False, "2026-11-24 11:00", id="both at once: it wakes"),
        pytest.param("2026-11-23 19:00", entry("* * */20 * 1L", "0 7 * * *"), False, None, id="a day that never comes"),
    ],
)  # fmt: skip
def test_over_changes_of_clocks_and_in_zones(now, schedule, asleep, until):
    assert rest(now, schedule) == Rest(asleep, at(until) if until else None)


def test_the_last_moment_of_all_entries_counts():
    noons = entry("0 12 * * *", "0 13 * * *")
    assert rest("2026-11-23 11:30", NIGHTS, noons) == Rest(True, at("2026-11-23 12:00"))
    assert rest("2026-11-23 12:30", NIGHTS, noons) == Rest(False, at("2026-11-23 19:00"))


@pytest.mark.parametrize("asleep", [True, False])
def test_what_is_said_by_hand_counts_more_than_a_schedule(asleep):
    for now in ("2026-11-23 12:00", "2026-11-23 22:00"):
        assert rest(now, NIGHTS, asleep=asleep) == Rest(asleep, by_hand=True)


def test_what_is_made_in_the_evening_is_awake_until_the_next_one():
    made = at("2026-11-23 20:00")
    assert rest("2026-11-23 21:00", NIGHTS, made=made) == Rest(False, at("2026-11-24 19:00"))
    assert rest("2026-11-24 21:00", NIGHTS, made=made).asleep


def test_without_a_schedule_it_is_awake():
    assert rest("2026-11-23 21:00") == Rest()


def test_who_looks_only_when_told_sees_every_night():
    now, nights = at("2026-03-20 12:00"), 0
    while now < at("2026-04-20 12:00"):
        found = rest_of(NestedControlPlaneSpec(schedule=(NIGHTS,)), LONG_AGO, now)
        assert found.until is not None
        assert timedelta() < found.until - now <= timedelta(days=3)
        after = rest_of(NestedControlPlaneSpec(schedule=(NIGHTS,)), LONG_AGO, found.until)
        assert after.asleep is not found.asleep
        nights, now = nights + after.asleep, found.until
    assert nights == 22


@pytest.mark.parametrize(
    ("broken", "told"),
    [
        pytest.param(entry("0 20 * *"), "a schedule has five fields: minute, hour, day of month, month, day of week", id="four fields"),
        pytest.param(entry("61 20 * * *"), "it cannot be read: bad minute", id="no minute"),
        pytest.param(entry("0 20 * * *", "", "Europe"), "there is no time zone 'Europe', such as Europe/Berlin", id="a part of a zone"),
        pytest.param(entry("0 20 * * *", "", "../etc"), "there is no time zone '../etc', such as Europe/Berlin", id="a path"),
        pytest.param(entry("0 20 * * *", "", "Moon/Base"), "there is no time zone 'Moon/Base', such as Europe/Berlin", id="an unknown zone"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_told(broken, told):
    with pytest.raises(InvalidInput) as error:
        rest("2026-11-23 19:00", broken)
    assert str(error.value) == told
