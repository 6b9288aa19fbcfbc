"""Messages as bytes: what other programs write is read, and nothing that a peer sends does harm."""

import re
import time
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubewright.providers import grpc
from kubewright.providers.grpc import messages
from kubewright.providers.grpc.messages import (
    MESSAGE_BYTES,
    Address,
    Content,
    Created,
    Deleted,
    DriverSide,
    Initialized,
    Listed,
    ListedVm,
    MachineClassMeta,
    Malformed,
    MCMside,
    Params,
    Registration,
    Sized,
    Status,
    Updated,
    Validated,
    VolumeIds,
    decode,
    encode,
)

INT32 = st.integers(-(1 << 31), (1 << 31) - 1)
TEXT = st.text(max_size=20)
TEXTS = st.lists(TEXT, max_size=3).map(tuple)
ADDRESSES = st.lists(st.builds(Address, TEXT, TEXT), max_size=2).map(tuple)
VMS = st.lists(st.builds(ListedVm, TEXT, TEXT, TEXT, TEXT, TEXT, ADDRESSES, st.booleans()), max_size=3).map(
    tuple
)
FAILED = {"error": TEXT, "error_code": INT32}
VM = {
    "provider_id": TEXT,
    "node_name": TEXT,
    "addresses": ADDRESSES,
    "interruptible": st.booleans(),
    **FAILED,
}
RESPONSES = st.one_of(
    st.none(),
    st.builds(Registration, TEXT, TEXT, TEXT, TEXT, TEXTS, INT32, TEXTS),
    *(st.builds(kind, **VM) for kind in (Created, Initialized, Status)),
    st.builds(Deleted, last_known_state=TEXT, **FAILED),
    st.builds(Listed, vms=VMS, **FAILED),
    st.builds(VolumeIds, ids=TEXTS, **FAILED),
    st.builds(Updated, **FAILED),
    st.builds(Validated, **FAILED),
    st.builds(Sized, data=TEXT, **FAILED),
)


@given(st.builds(DriverSide, INT32, TEXT, RESPONSES))
def test_what_is_written_is_read_again(message: DriverSide) -> None:
    assert decode(DriverSide, encode(message)) == message


@given(st.binary(max_size=200))
def test_no_bytes_do_more_than_to_be_refused(data: bytes) -> None:
    for kind in (DriverSide, MCMside):
        with suppress(Malformed):
            decode(kind, data)


@given(st.builds(DriverSide, INT32, TEXT, RESPONSES))
def test_a_message_that_is_cut_off_anywhere_is_refused_or_a_smaller_one(message: DriverSide) -> None:
    data = encode(message)
    for end in range(len(data)):
        with suppress(Malformed):
            decode(DriverSide, data[:end])


def test_the_bytes_are_those_of_protocol_buffers() -> None:
    """Written by the Python code that protoc (grpcio-tools 1.85.1) makes of ``driver.proto``."""
    registration = DriverSide(1, "register", Registration("externalDriver", "g", "AWSMachineClass", "v1"))
    assert encode(registration).hex() == (
        "080112087265676973746572" "1a28" "0a0e65787465726e616c447269766572" "120167"
        "1a0f4157534d616368696e65436c617373" "22027631"
    )  # fmt: skip
    assert encode(MCMside(-1, "list", Params(machine_class=MachineClassMeta("c", 300)))).hex() == (
        "08ffffffffffffffffff01" "12046c697374" "1a08" "0a06" "0a0163" "10ac02"
    )  # fmt: skip


def test_fields_of_later_versions_are_passed_over() -> None:
    known = encode(Content("data"))
    later = b"\xa0\x06\x01" + b"\xaa\x06\x02hi" + b"\xb1\x06" + b"8bytes!!" + b"\xbd\x06" + b"four"
    assert decode(Content, later + known + later) == Content("data")


def test_of_two_responses_the_last_counts_and_parts_of_one_are_one() -> None:
    created, deleted = (
        encode(DriverSide(response=Created(provider_id="p"))),
        encode(DriverSide(response=Deleted("e"))),
    )
    assert decode(DriverSide, created + deleted).response == Deleted("e")
    node = encode(DriverSide(response=Created(node_name="n")))
    assert decode(DriverSide, created + node).response == Created(provider_id="p", node_name="n")


def test_a_response_without_content_is_one() -> None:
    assert decode(DriverSide, encode(DriverSide(response=Deleted()))).response == Deleted()
    assert decode(DriverSide, encode(DriverSide())).response is None


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\x00\x01", "number 0"),
        (b"\x08", "no end"),
        (b"\x08" + b"\xff" * 11, "no end"),
        (b"\x12\x05ab", "after the message"),
        (b"\x12\x02\xff\xfe", "UTF-8"),
        (b"\x0a\x01a", "wire type 2"),
        (b"\x0b", "wire type 3"),
        (b"\x12\xff\xff\xff\xff\x0f", "after the message"),
        (b"\x00" * (MESSAGE_BYTES + 1), "the most is"),
    ],
)
def test_what_is_no_message_is_refused_with_its_reason(data: bytes, reason: str) -> None:
    with pytest.raises(Malformed, match=reason):
        decode(DriverSide, data)


def test_a_secret_is_in_no_repr() -> None:
    assert "c2VjcmV0" not in repr(Content('{"data": {"key": "c2VjcmV0"}}'))


def test_the_proto_file_has_the_same_numbers_and_kinds() -> None:
    """Both are written by hand; the example in Go reads the file alone."""
    proto = re.sub("//.*", "", (Path(grpc.__file__).parent / "driver.proto").read_text())
    names = {
        "registerationResp": messages.Registration,
        "address": messages.Address,
        "createResp": messages.Created,
        "deleteResp": messages.Deleted,
        "machine": messages.ListedVm,
        "listResp": messages.Listed,
        "vmResp": messages.Status,
        "volumeIdsResp": messages.VolumeIds,
        "updateResp": messages.Updated,
        "validateResp": messages.Validated,
        "sizeResp": messages.Sized,
        "consoleResp": messages.Shown,
        "MachineClassMeta": messages.MachineClassMeta,
        "SecretMeta": messages.SecretMeta,
        "operationParams": messages.Params,
    }
    scalars = {"string": str, "int32": int, "bool": bool}
    for name, kind in names.items():
        body = proto.split(f"message {name} {{")[1].split("}")[0]
        fields = [line.split() for line in body.splitlines() if "=" in line]
        written = {(int(each[-1].rstrip(";")), "repeated" in each, each[-4]) for each in fields}
        ours = {
            (field.number, field.many, next((n for n, k in {**scalars, **names}.items() if k is field.kind)))
            for field in kind.FIELDS
        }
        assert written == ours, name
    oneof = proto.split("oneof response {")[1].split("}")[0]
    numbers = {int(line.split("=")[1].strip(" ;")) for line in oneof.splitlines() if "=" in line}
    assert numbers == {field.number for field in DriverSide.FIELDS if field.name == "response"}


def seconds_to_read(parts: int) -> float:
    data = b"\x1a\x02\x0a\x00" * parts
    began = time.process_time()
    assert decode(DriverSide, data).response == Registration()
    return time.process_time() - began


def test_a_message_in_many_parts_costs_by_its_length_and_not_by_its_square() -> None:
    assert seconds_to_read(200_000) < 9 * min(seconds_to_read(50_000) for _ in range(3))
