"""Quantities: what Kubernetes documents, and what must hold for all of them."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubewright.wire.quantity import canonical, compare, parse

VALUES = [
    ("0", 0), (4, 4), ("1", 1), ("+1", 1), ("-1", -1), ("1.", 1), (".5", "0.5"), ("500m", "0.5"),
    ("1.5Gi", 1610612736),
    ("2k", 2000), ("2Ki", 2048), ("1E", 10**18), ("1E3", 1000), ("1e3", 1000), ("1e-3", "0.001"),
    ("5n", "5e-9"),
    ("7u", "7e-6"), ("3Ei", 3 * 2**60), ("0.1n", "1e-9"), ("-0.1n", "-1e-9"), ("100Mi", 104857600),
]  # fmt: skip


@pytest.mark.parametrize(("text", "value"), VALUES)
def test_reads(text, value):
    assert parse(text) == Decimal(value)


@pytest.mark.parametrize(
    "text", ["", " 1", "1 Gi", "1gi", "Gi", "1K", "--1", "1e", "0x10", "1_000", "٣", "1" * 200, "nan"]
)
def test_refuses(text):
    with pytest.raises(ValueError, match="is no quantity"):
        parse(text)


@pytest.mark.parametrize(
    ("text", "short"),
    [("1500m", "1500m"), ("1.5", "1500m"), ("2000", "2k"), ("2048Mi", "2Gi"), ("1000Ki", "1000Ki"),
     ("1e3", "1k"), ("0.0", "0"), ("-3000m", "-3"), ("0.5Gi", "512Mi"), ("1.5Ki", "1536")],
)  # fmt: skip
def test_canonical_form(text, short):
    assert canonical(text) == short


SUFFIXES = st.sampled_from(
    ["", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "e3", "E-2"]
)
NUMBERS = st.decimals(min_value=-1_000_000, max_value=1_000_000, places=3).map(lambda number: f"{number:f}")
QUANTITIES = st.builds(lambda number, suffix: number + suffix, NUMBERS, SUFFIXES)


@given(QUANTITIES)
def test_the_canonical_form_means_the_same(text):
    assert parse(canonical(text)) == parse(text)
    assert canonical(canonical(text)) == canonical(text)


@given(QUANTITIES, QUANTITIES)
def test_comparing_is_an_order(one, other):
    assert compare(one, other) == -compare(other, one)
    assert (compare(one, other) == 0) == (parse(one) == parse(other))
