"""Suffixes and hashes: they never change, because existing objects have them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubewright.base.names import NAME_LIMIT, child_name, fnv32a, safe_encode

# The published test vectors of FNV-1a, 32 bit.
VECTORS = [(b"", 0x811C9DC5), (b"a", 0xE40C292C), (b"foobar", 0xBF9CF968)]


@pytest.mark.parametrize(("data", "value"), VECTORS)
def test_the_hash_is_fnv_1a(data: bytes, value: int) -> None:
    assert fnv32a(data) == value


def test_digits_are_encoded_as_kubernetes_encodes_them() -> None:
    assert safe_encode("0123456789") == "456789bcdf"


@given(st.from_regex(r"\A[a-z0-9]([-a-z0-9.]{0,80}[a-z0-9])?\Z"))
def test_a_child_fits_into_a_dns_label_and_keeps_its_tail(parent: str) -> None:
    child = child_name(parent, "x7k2p")
    assert len(child) <= NAME_LIMIT
    assert child.endswith("-x7k2p")
    assert child[0] == parent[0]
    assert not child.removesuffix("-x7k2p").endswith((".", "-"))
