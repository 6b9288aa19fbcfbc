"""Which kubelet a Node has, and which addresses may be dialled."""

from typing import Any

import pytest

from kubewright.apiserver.http.kubelet_requests import Kubelet, kubelet_of, may_be_dialled


def node(*addresses: tuple[str, str], port: int | None = 10250, **status: Any) -> dict[str, Any]:
    endpoints = {} if port is None else {"daemonEndpoints": {"kubeletEndpoint": {"Port": port}}}
    listed = [{"type": kind, "address": address} for kind, address in addresses]
    return {"metadata": {"name": "n"}, "status": {"addresses": listed, **endpoints, **status}}


@pytest.mark.parametrize(
    ("addresses", "host"),
    [
        ([("Hostname", "n"), ("ExternalIP", "1.2.3.4"), ("InternalIP", "10.0.0.1")], "10.0.0.1"),
        ([("InternalIP", "10.0.0.1"), ("InternalIP", "fd00::1")], "10.0.0.1"),
        ([("Hostname", "n"), ("ExternalIP", "1.2.3.4")], "1.2.3.4"),
        ([("ExternalDNS", "n.example.com"), ("Hostname", "n")], "n"),
    ],
)
def test_addresses_come_before_names_and_what_is_inside_before_what_is_outside(
    addresses: list[tuple[str, str]], host: str
) -> None:
    assert kubelet_of(node(*addresses)) == Kubelet("n", host, 10250)


@pytest.mark.parametrize(
    "there",
    [
        pytest.param({"metadata": {"name": "n"}}, id="no status"),
        pytest.param(node(("InternalIP", "10.0.0.1"), port=None), id="no endpoints"),
        pytest.param(node(("InternalIP", "10.0.0.1"), port=0), id="no port"),
        pytest.param(node(("InternalIP", "10.0.0.1"), port=70_000), id="no such port"),
        pytest.param(node(), id="no address"),
        pytest.param(
            {"metadata": {"name": "n"}, "status": {"addresses": None, "daemonEndpoints": None}}, id="nulls"
        ),
    ],
)
def test_a_node_may_have_no_kubelet(there: dict[str, Any]) -> None:
    assert kubelet_of(there) is None


def test_what_a_node_says_of_itself_explains_an_error() -> None:
    address = ("InternalIP", "fd00::1")
    ready = {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown", "message": "it is gone"}
    found = kubelet_of(node(address, conditions=[ready]))
    assert found is not None
    assert (found.address, found.told) == ("[fd00::1]:10250", ' (node "n" is not ready: it is gone)')
    well = kubelet_of(node(address, conditions=[{**ready, "status": "True"}]))
    assert well is not None
    assert well.told == ""


@pytest.mark.parametrize(
    "address", ["10.0.0.1", "192.168.1.1", "8.8.8.8", "100.64.0.1", "fd00::1", "2001:db8::1"]
)
def test_machines_somewhere_may_be_dialled(address: str) -> None:
    assert may_be_dialled(address)


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "127.64.3.2", "0.0.0.0", "169.254.169.254", "224.0.0.1", "239.1.2.3", "255.255.255.255", "::", "::1",
        "fe80::1", "fe80::1%eth0", "ff02::1", "::ffff:127.0.0.1", "::ffff:169.254.169.254", "localhost", "",
    ],
)  # fmt: skip
def test_this_machine_its_link_and_groups_may_not_be_dialled(address: str) -> None:
    assert not may_be_dialled(address)
