"""Quantities: what Kubernetes documents, and what must hold for all of them."""

from decimal import Decimal

import pytest

from kubewright.wire.quantity import parse, shown

VALUES = [
    ("0", 0), (4, 4), ("1", 1), ("+1", 1), ("-1", -1), ("1.", 1), (".5", "0.5"), ("500m", "0.5"),
    ("1.5Gi", 1610612736),
    ("2k", 2000), ("2Ki", 2048), ("1E", 10**18), ("1E3", 1000), ("1e3", 1000), ("1e-3", "0.001"),
    ("5n", "5e-9"),
    ("7u", "7e-6"), ("3Ei", 3 * 2**60), ("0.1n", "1e-9"), ("-0.1n", "-1e-9"), ("100Mi", 104857600),
    ("1e400", 2**63 - 1), ("-1e400", 1 - 2**63), ("9Ei", 2**63 - 1), ("1e99999999999", 2**63 - 1),
    ("0e999", 0), ("1e-99999999999", "1e-9"), ("9" * 120, 2**63 - 1),
]  # fmt: skip


@pytest.mark.parametrize(("text", "value"), VALUES)
def test_reads(text, value):
    assert parse(text) == Decimal(value)


@pytest.mark.parametrize(
    "text", ["", " 1", "1 Gi", "1gi", "Gi", "1K", "--1", "1e", "0x10", "1_000", "٣", "1" * 200, "nan"]
)
def test_refuses(text):
    with pytest.raises(ValueError, match="is not a quantity"):
        parse(text)


@pytest.mark.parametrize("text", [text for text, _ in VALUES])
def test_every_quantity_can_be_divided_and_shown(text: str) -> None:
    assert parse(text) % 1 < 1
    assert parse(shown(text)) == parse(text)
