"""Go durations: what Go reads we read, what Go prints we print."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubewright.base.durations import format_duration, parse_duration, time_left

US = timedelta(microseconds=1)
READ = [
    ("0", timedelta()),
    ("+0", timedelta()),
    ("5s", timedelta(seconds=5)),
    ("1h30m", timedelta(minutes=90)),
    ("20m0s", timedelta(minutes=20)),
    ("150ms", timedelta(milliseconds=150)),
    ("1.5h", timedelta(minutes=90)),
    (".5s", timedelta(milliseconds=500)),
    ("1.s", timedelta(seconds=1)),
    ("-2m", timedelta(minutes=-2)),
    ("3us", 3 * US),
    ("3µs", 3 * US),
    ("3μs", 3 * US),
    ("2m3m", timedelta(minutes=5)),
    ("1000ns", US),
]
WRITTEN = [
    (timedelta(), "0s"),
    (timedelta(hours=2), "2h0m0s"),
    (timedelta(minutes=20), "20m0s"),
    (timedelta(seconds=90), "1m30s"),
    (timedelta(seconds=1.5), "1.5s"),
    (timedelta(milliseconds=150), "150ms"),
    (timedelta(milliseconds=1.5), "1.5ms"),
    (7 * US, "7µs"),
    (timedelta(seconds=-30), "-30s"),
    (timedelta(days=10), "240h0m0s"),
    (timedelta(hours=1, milliseconds=1), "1h0m0.001s"),
]


@pytest.mark.parametrize(("text", "value"), READ, ids=[text for text, _ in READ])
def test_durations_are_read(text: str, value: timedelta) -> None:
    assert parse_duration(text) == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        "5",
        "1d",
        "s",
        "-",
        "+",
        ".",
        ".s",
        "1h 30m",
        "1,5s",
        "--1s",
        "1hm",
        "0x1s",
        "٣s",
        "1S",
        "9999999h",
        "1" + "0" * 400 + "h",
    ],
)
def test_what_go_refuses_is_refused_and_quoted(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration") as caught:
        parse_duration(text)
    assert repr(text if len(text) <= 64 else f"{text[:64]}...") in str(caught.value)


@pytest.mark.parametrize(("value", "text"), WRITTEN, ids=[text for _, text in WRITTEN])
def test_durations_are_written_as_go_prints_them(value: timedelta, text: str) -> None:
    assert format_duration(value) == text


@given(st.integers(min_value=-(10**14), max_value=10**14))
def test_what_is_written_reads_back_the_same(micros: int) -> None:
    value = micros * US
    assert parse_duration(format_duration(value)) == value


@pytest.mark.parametrize(
    ("left", "told"),
    [
        pytest.param(timedelta(minutes=2, seconds=56.999952), "2m57s", id="rounded up"),
        pytest.param(timedelta(seconds=3), "3s", id="whole seconds"),
        pytest.param(timedelta(microseconds=1), "1s", id="less than one"),
        pytest.param(timedelta(seconds=-4), "0s", id="a time that has come"),
    ],
)
def test_what_is_left_is_told_in_whole_seconds(left: timedelta, told: str) -> None:
    assert time_left(left) == told


@pytest.mark.parametrize("text", ["0" * 1_000_000, "0." * 500_000, "1h" * 500_000 + "x", "." * 1_000_000])
def test_a_long_text_is_refused_in_time_that_grows_with_its_length(text: str) -> None:
    """A search of each place from each other would take hours here."""
    with pytest.raises(ValueError, match=r"^'.{64}\.\.\.' is not a duration"):
        parse_duration(text)


def test_many_terms_are_added_up() -> None:
    assert parse_duration("1s" * 500_000) == timedelta(seconds=500_000)
