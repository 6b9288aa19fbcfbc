"""Certificates that an authority signs: for whom, for which names, for which side of a handshake."""

import shutil
import subprocess
from datetime import timedelta
from functools import cache

import pytest

from kubewright.base.errors import InvalidInput
from kubewright.pki.certificates import Identity, has_signed, new_leaf
from kubewright.pki.clusters import new_cluster_authority
from kubewright.pki.facts import facts_of
from kubewright.pki.keys import Algorithm
from kubewright.testing.clocks import BEGIN as START
from kubewright.wire.http import User

YEAR = timedelta(days=365)
NAMES = frozenset({"localhost", "demo-etcd-0.demo-etcd.ns.svc", "127.0.0.1", "::1"})


def authority(algorithm=Algorithm.EC, name="etcd-ca"):
    made = new_cluster_authority(START, algorithm, name)
    return Identity(made.certificate, made.key)


CA = authority()
authority_of = cache(authority)
"""One of each algorithm: an RSA key takes a tenth of a second."""


@pytest.mark.parametrize(
    ("names", "client", "uses"),
    [
        pytest.param(NAMES, True, (True, True), id="a member of etcd: a server and a client"),
        pytest.param(NAMES, False, (True, False), id="a server"),
        pytest.param((), True, (False, True), id="a client"),
    ],
)
def test_a_leaf_says_what_it_is_good_for(names, client, uses):
    made = new_leaf(CA, User("kube-etcd", ("a", "b")), START, YEAR, names=sorted(names), client=client)
    said = facts_of(made.certificate)
    assert (said.server, said.client) == uses
    assert (said.user, said.names) == (User("kube-etcd", ("a", "b")), frozenset(names))
    assert (said.not_before, said.not_after) == (START - timedelta(hours=1), START + YEAR)
    assert has_signed(CA, made)
    assert not has_signed(authority(), made)


@pytest.mark.parametrize("of_authority", list(Algorithm))
def test_openssl_trusts_a_leaf_strictly_for_each_of_its_names(tmp_path, of_authority):
    program = shutil.which("openssl")
    if program is None:
        pytest.skip("there is no openssl")
    ca = authority_of(of_authority)
    made = new_leaf(ca, User("kube-etcd", ()), START, YEAR, names=sorted(NAMES))
    (tmp_path / "ca.crt").write_bytes(ca.certificate)
    (tmp_path / "tls.crt").write_bytes(made.certificate)
    at = ["-attime", str(int(START.timestamp()) + 60), "-x509_strict", "-CAfile", str(tmp_path / "ca.crt")]
    for purpose in ("sslserver", "sslclient"):
        for name in (["-verify_hostname", "localhost"], ["-verify_ip", "127.0.0.1"]):
            words = [program, "verify", *at, "-purpose", purpose, *name, str(tmp_path / "tls.crt")]
            done = subprocess.run(words, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr


def test_a_leaf_does_not_outlive_its_authority():
    made = new_leaf(CA, User("late", ()), START + timedelta(days=3600), YEAR)
    assert made.expires == START + timedelta(days=3650)


def test_a_name_that_a_certificate_cannot_carry_is_refused():
    with pytest.raises(InvalidInput, match="1 to 64 characters"):
        new_leaf(CA, User("x" * 65, ()), START, YEAR)


@pytest.mark.parametrize("pem", [b"", b"no certificate", CA.key], ids=["nothing", "a text", "a key"])
def test_what_is_no_certificate_says_nothing(pem):
    with pytest.raises(ValueError):
        facts_of(pem)


def test_an_authority_has_the_name_that_it_is_given():
    assert facts_of(new_cluster_authority(START, Algorithm.EC, "front-proxy-ca").certificate).user == User(
        "front-proxy-ca", ()
    )


@pytest.mark.parametrize("name", ["ü.example", "\N{FULLWIDTH DIGIT ONE}.example"])
def test_a_host_name_that_is_not_ascii_is_refused_with_what_helps(name):
    with pytest.raises(InvalidInput, match=r"cannot carry the host name .* write it as DNS has it"):
        new_leaf(CA, User("kube-apiserver", ()), START, YEAR, names=["localhost", name])
