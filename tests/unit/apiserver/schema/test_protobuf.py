"""Protobuf bodies: what a real kube-apiserver wrote, we read as its own JSON says."""

import base64
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubewright.apiserver.schema import protobuf
from kubewright.apiserver.schema.builtin import BuiltinSchema

RECORDED = orjson.loads((Path(__file__).parent / "protobuf_cases.json").read_bytes())


@pytest.mark.parametrize("kind", sorted(RECORDED))
def test_recorded_objects_read_as_their_json(kind: str) -> None:
    assert protobuf.decode(base64.b64decode(RECORDED[kind]["protobuf"])) == RECORDED[kind]["json"]


def message(*fields: tuple[int, bytes | int]) -> bytes:
    """A small writer: varints below 128 and short bytes."""
    written = b""
    for number, value in fields:
        if isinstance(value, int):
            written += bytes([number << 3, value])
        else:
            written += bytes([number << 3 | 2, len(value)]) + value
    return written


def body(api_version: str, kind: str, *fields: tuple[int, bytes | int]) -> bytes:
    head = message((1, api_version.encode()), (2, kind.encode()))
    return b"k8s\x00" + message((1, head), (2, message(*fields)))


def test_a_csinode_of_a_kubelet_without_drivers_is_valid() -> None:
    """The field is there and empty, as a kubelet 1.36 sends it."""
    sent = body("storage.k8s.io/v1", "CSINode", (1, message((1, b"node-1"))), (2, b""))
    schema = BuiltinSchema("storage.v1.CSINode")
    for found in (protobuf.decode(sent), {"metadata": {"name": "node-1"}, "spec": {"drivers": None}}):
        assert schema.validate(schema.default(found)) == []


def test_zeros_count_only_behind_pointers() -> None:
    spec = message((1, 0), (5, 0))  # replicas is a pointer, minReadySeconds is none
    read = protobuf.decode(body("apps/v1", "Deployment", (2, spec)))
    assert read["spec"] == {"replicas": 0}


def test_delete_options_belong_to_every_group() -> None:
    read = protobuf.decode(body("policy/v1", "DeleteOptions", (1, 0), (4, b"Background")))
    assert read == {
        "apiVersion": "policy/v1",
        "kind": "DeleteOptions",
        "gracePeriodSeconds": 0,
        "propagationPolicy": "Background",
    }


BROKEN: list[tuple[str, bytes, str]] = [
    ("no magic word", b"{}", "expected prefix 6b 38 73 00"),
    ("cut short", b"k8s\x00\x0a\x05ab", "unexpected EOF"),
    ("an unknown kind", body("v1", "Frob"), 'no kind "Frob" is registered for version "v1"'),
    ("a custom kind", body("example.com/v1", "Pod"), 'no kind "Pod" is registered'),
    ("text that is none", body("v1", "Namespace", (1, message((1, b"\xff")))), "cannot read protobuf"),
]


@pytest.mark.parametrize(("data", "why"), [c[1:] for c in BROKEN], ids=[c[0] for c in BROKEN])
def test_broken_bodies_are_refused(data: bytes, why: str) -> None:
    with pytest.raises(protobuf.Undecodable, match=why):
        protobuf.decode(data)


@given(st.data())
def test_any_bytes_are_an_object_or_refused(data: Any) -> None:
    good = bytearray(base64.b64decode(RECORDED[data.draw(st.sampled_from(sorted(RECORDED)))]["protobuf"]))
    for at, byte in data.draw(
        st.lists(st.tuples(st.integers(4, len(good) - 1), st.integers(0, 255)), max_size=8)
    ):
        good[at] = byte
    with suppress(protobuf.Undecodable):
        assert isinstance(protobuf.decode(bytes(good[: data.draw(st.integers(0, len(good)))])), dict)
