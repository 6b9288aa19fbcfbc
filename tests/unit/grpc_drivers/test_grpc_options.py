"""Where drivers dial: a socket unless the administrator says otherwise, and no open port by mistake."""

from pathlib import Path

import grpc
import pytest

from kubewright.base.errors import InvalidInput
from kubewright.providers.grpc import client, dispatch
from kubewright.providers.grpc.messages import Options, check_address, parse_options

FILES = {"certificate": "a", "key": "b", "clientAuthorities": "c"}


def test_without_options_there_is_a_socket_in_the_data_folder() -> None:
    assert parse_options({}, Path("/data")) == Options(socket=Path("/data/grpc/drivers.sock"))
    assert parse_options({"listen": "unix:/run/d.sock"}, None).address == "unix:/run/d.sock"


def test_a_port_is_mcms_unless_it_is_named() -> None:
    plain = {"plaintext": "secrets-can-be-read"}
    assert parse_options({"listen": "10.0.0.1", **plain}, None).address == "10.0.0.1:5000"
    assert parse_options({"listen": "[::1]:7000", **plain}, None).address == "[::1]:7000"


def test_with_certificates_those_who_may_come_can_be_named(tmp_path: Path) -> None:
    files = {name: str(tmp_path / file) for name, file in FILES.items()}
    for each in files.values():
        Path(each).touch()
    found = parse_options({"listen": "0.0.0.0:5000", "clients": "aws, gcp,", **files}, None)
    assert found.clients == {"aws", "gcp"}


@pytest.mark.parametrize(
    ("options", "folder", "why"),
    [
        ({}, None, "name one"),
        ({"port": "5000"}, "/d", "has no option port; it has listen"),
        ({"listen": "0.0.0.0:5000"}, "/d", "certificate, key, clientAuthorities.*gets the secrets"),
        ({"listen": "0.0.0.0:5000", "plaintext": "yes"}, "/d", "wants the word secrets-can-be-read"),
        ({"listen": "h:1", "plaintext": "secrets-can-be-read", **FILES}, "/d", "contradict"),
        ({"listen": "h:1", "certificate": "a"}, "/d", "key, clientAuthorities"),
        ({"listen": "h:1", **FILES}, "/d", "certificate: there is no file a"),
        ({"listen": "h:x"}, "/d", "HOST:PORT"),
        ({"listen": "h:70000"}, "/d", "HOST:PORT"),
        ({"listen": ":5000"}, "/d", "HOST:PORT"),
        ({"listen": "http://h:5000"}, "/d", "HOST:PORT"),
        ({"plaintext": "secrets-can-be-read"}, "/d", "goes with listen=HOST:PORT"),
        ({}, "/" + "d" * 120, "at most 107 bytes"),
    ],
)
def test_what_cannot_be_served_is_refused_at_the_start(
    options: dict[str, str], folder: str | None, why: str
) -> None:
    with pytest.raises(InvalidInput, match=why):
        parse_options(options, None if folder is None else Path(folder))


@pytest.mark.parametrize(
    "address",
    ["unix:/srv/d.sock", "unix:d.sock", "unix:///srv/d.sock", "m:5000", "10.0.0.1:5000", "[::1]:7000",
     "[fe80::1%eth0]:7000", "manager.ns.svc:65535", "a_b:1"],
)  # fmt: skip
def test_a_driver_dials_sockets_and_ports(address: str) -> None:
    check_address(address)


@pytest.mark.parametrize(
    "address",
    ["", "http://foo", "http://foo:5000", "https://foo:5000/", "foo", "foo:", ":5000", "foo:0", "foo:65536",
     "foo:http", "::1:7000", "[::1]", "unix:", "unix://", "/srv/d.sock", "tcp://m:5000", "m:5000/x", "m :5000",
     "foo:\u0665"],
)  # fmt: skip
def test_an_address_that_can_never_be_reached_is_refused_before_it_is_dialled(address: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        check_address(address)
    assert str(refused.value) == (
        f"a manager is dialled at unix:PATH or HOST:PORT, such as unix:/srv/manager/grpc/drivers.sock, "
        f"manager.example:5000 or [::1]:5000, not at {address!r}"
    )


def test_a_path_that_is_too_long_for_a_socket_is_refused_before_it_is_dialled() -> None:
    with pytest.raises(InvalidInput, match=r"has at most 107 bytes, and /d+ has 121"):
        check_address(f"unix:/{'d' * 120}")


@pytest.mark.parametrize("option", sorted({name for name, _ in (*client.CHANNEL, *dispatch.CHANNEL)}))
def test_each_option_of_a_channel_is_one_that_grpc_knows(option: str) -> None:
    (library,) = Path(grpc.__file__).parent.glob("_cython/cygrpc*.so")
    assert option.encode() in library.read_bytes(), "gRPC takes unknown options and says nothing"
