"""Where the server listens, by which names it is known, and which words of a user are refused."""

import pytest

from kubewright.apiserver.http.reach import Reach, reach
from kubewright.base.errors import InvalidInput


@pytest.mark.parametrize(
    ("address", "names", "certified", "local", "others"),
    [
        pytest.param("127.0.0.1", (), ("127.0.0.1",), "127.0.0.1", "", id="loopback is for this machine"),
        pytest.param(
            "192.0.2.1", (), ("192.0.2.1",), "192.0.2.1", "192.0.2.1", id="an address is for all machines"
        ),
        pytest.param(
            "192.0.2.1",
            ("box.example", "10.0.0.1"),
            ("192.0.2.1", "box.example", "10.0.0.1"),
            "192.0.2.1",
            "box.example",
            id="the first name is told to others",
        ),
        pytest.param(
            "127.0.0.1",
            ("10.0.2.2",),
            ("127.0.0.1", "10.0.2.2"),
            "127.0.0.1",
            "10.0.2.2",
            id="others may reach loopback by another name",
        ),
        pytest.param(
            "0.0.0.0", ("box.example",), ("box.example",), "127.0.0.1", "box.example", id="all addresses"
        ),
        pytest.param("::", ("2001:DB8::1",), ("2001:db8::1",), "[::1]", "[2001:db8::1]", id="all of IPv6"),
        pytest.param("2001:db8:0::1", (), ("2001:db8::1",), "[2001:db8::1]", "[2001:db8::1]", id="IPv6"),
        pytest.param(
            "127.0.0.1", ("Box.Example.", "box.example"), ("127.0.0.1", "box.example"), "127.0.0.1",
            "box.example", id="a name is written in one way",
        ),
        pytest.param(
            "127.0.0.1", ("*.example", "a.example"), ("127.0.0.1", "*.example", "a.example"), "127.0.0.1",
            "a.example", id="a name for all of a domain is no place to go to",
        ),
    ],
)  # fmt: skip
def test_what_follows_from_an_address_and_names(address, names, certified, local, others):
    found = reach(address, names)
    assert (found.certified, found.local, found.others) == (certified, local, others)


@pytest.mark.parametrize(
    ("address", "names", "told"),
    [
        pytest.param("box.example", (), "--address 'box.example' is no IP address", id="a name to listen on"),
        pytest.param("", (), "--address '' is no IP address", id="nothing to listen on"),
        pytest.param("1.2.3.4:80", (), "is no IP address", id="an address with a port"),
        pytest.param("1.2.3", (), "is no IP address", id="half an address"),
        pytest.param("fe80::1%eth0", (), "an address with a zone", id="an address of one network"),
        pytest.param("0.0.0.0", (), "add one with --tls-san", id="all addresses and no name"),
        pytest.param("::", ("*.example",), "add one with --tls-san", id="no name to go to"),
        pytest.param("127.0.0.1", ("",), "no host name and no IP address", id="an empty name"),
        pytest.param("127.0.0.1", ("a b",), "no host name and no IP address", id="a name with a blank"),
        pytest.param("127.0.0.1", ("a.b:443",), "no host name and no IP address", id="a name with a port"),
        pytest.param("127.0.0.1", ("300.1.1.1",), "no host name and no IP", id="an address that is none"),
        pytest.param("127.0.0.1", ("a.*.b",), "no host name and no IP address", id="a star inside"),
        pytest.param("127.0.0.1", ("x" * 64 + ".example",), "no host name", id="a part that is too long"),
        pytest.param("127.0.0.1", (".".join("abcdefgh" for _ in range(40)),), "no host name", id="too long"),
        pytest.param("127.0.0.1", ("bücher.example",), "xn--", id="a name that is not ASCII"),
        pytest.param("127.0.0.1", ("0.0.0.0",), "no certificate can be for this address", id="no address"),
        pytest.param("127.0.0.1", ("fe80::1%2",), "no certificate can be for this", id="a name with a zone"),
        pytest.param(
            "127.0.0.1", tuple(f"a{n}" for n in range(65)), "65 names are more than the 64", id="too many"
        ),
    ],
)
def test_words_that_make_no_certificate_are_refused_in_one_sentence(address, names, told):
    with pytest.raises(InvalidInput, match=r".*") as refused:
        reach(address, names)
    assert told in str(refused.value)
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 250


def test_without_a_word_the_server_is_for_this_machine():
    assert Reach() == reach("127.0.0.1", ())
