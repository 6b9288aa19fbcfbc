"""Numbers as a Go program without types for them leaves them."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubewright.wire import gojson

NUMBERS = st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    NUMBERS | st.booleans() | st.none() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize(
    ("sent", "left"),
    [
        ("3.0", "3"),
        ("1e3", "1000"),
        ("-0.0", "0"),
        ("2.5", "2.5"),
        ("9007199254740991.0", "9007199254740991"),
        ("9007199254740992.0", "9007199254740992.0"),
        ("9223372036854775807", "9223372036854775807"),
        ("9223372036854775808", "9.223372036854776e+18"),
        ("true", "true"),
        ('{"a":[1.0,{"b":"1.0"}]}', '{"a": [1, {"b": "1.0"}]}'),
    ],
)
def test_a_number_is_left_as_go_writes_it(sent: str, left: str) -> None:
    assert json.dumps(gojson.whole(json.loads(sent))) == left


@given(VALUES)
def test_a_second_time_nothing_changes(value: Any) -> None:
    once = gojson.whole(value)
    assert gojson.whole(once) is once
