"""Addresses of VMs on the bridge, and what their guests and QEMUs are told of it."""

import json

import pytest

from kubewright.base.errors import InvalidInput
from kubewright.driver.errors import Exhausted
from kubewright.providers.qemu.command import Guest, Host, argv, seed_files, tap_of
from kubewright.providers.qemu.endpoints import Bridge
from kubewright.providers.qemu.spec import parse_options, parse_spec

GUEST = Guest("m1-0a", "m1", "p", address="10.1.2.3/28", gateway="10.1.2.1", name_servers=("10.1.2.1",))


def bridge(subnet: str = "10.1.2.0/29") -> Bridge:
    return Bridge(parse_options({"network": "bridge", "subnet": subnet}))


@pytest.mark.parametrize(
    ("taken", "free"),
    [
        ([], "10.1.2.2"),
        (["10.1.2.2", "10.1.2.4"], "10.1.2.3"),
        (["", "10.1.2.2", "10.1.2.3", "10.1.2.4", "10.1.2.5"], "10.1.2.6"),
    ],
)
def test_a_vm_gets_the_first_address_that_nobody_has(taken, free):
    assert bridge().free(taken) == free


def test_addresses_come_to_an_end():
    with pytest.raises(Exhausted, match=r"all addresses of 10\.1\.2\.0/29 are taken"):
        bridge().free(f"10.1.2.{number}" for number in range(8))


def test_this_machine_has_the_first_address():
    assert str(bridge().gateway) == "10.1.2.1"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"subnet": "10.1.2.1/29"}, "subnet: 10.1.2.1/29 has host bits set"),
        ({"subnet": "10.1.2.0/30"}, "subnet: 10.1.2.0/30 has to have between 8"),
        ({"subnet": "fd00::/64"}, "subnet: Expected 4 octets"),
        ({"nameServers": "dns"}, "nameServers: Expected 4 octets"),
        ({"bridge": "a-name-of-16-char"}, "bridge: Expected `str` matching regex"),
        ({"bridge": "br0,helper=x"}, "bridge: Expected `str` matching regex"),
    ],
)
def test_what_no_bridge_can_be(options, says):
    with pytest.raises(InvalidInput, match="driver qemu") as refused:
        parse_options(options)
    assert says in str(refused.value)


def test_a_guest_is_told_its_address():
    card = json.loads(seed_files(GUEST)["network-config"])["ethernets"]["net"]
    assert card.pop("match")["macaddress"].startswith("52:54:00:")
    assert card == {
        "dhcp4": False,
        "addresses": ["10.1.2.3/28"],
        "routes": [{"to": "0.0.0.0/0", "via": "10.1.2.1"}],
        "nameservers": {"addresses": ["10.1.2.1"]},
    }


@pytest.mark.parametrize(
    ("helper", "says"),
    [
        ("", f"-netdev tap,id=net,ifname={tap_of('m1-0a')},script=no,downscript=no -device"),
        ("/a,b", "-netdev bridge,id=net,br=br0,helper=/a,,b -device"),
    ],
)
def test_how_qemu_comes_to_the_bridge(helper, says):
    host = Host("q", "tcg", network="bridge", bridge="br0", helper=helper)
    assert says in " ".join(argv(parse_spec({"image": "i"}), host, GUEST))


def test_ends_of_the_bridge_have_names_that_the_kernel_takes():
    names = {tap_of(f"m{number}") for number in range(100)}
    assert len(names) == 100
    assert all(len(each) <= 15 for each in names)
