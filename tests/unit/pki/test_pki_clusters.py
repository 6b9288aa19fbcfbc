"""The authorities and keys of workload clusters: what is made, how it is hashed, and what is found wrong."""

import hashlib
import ssl
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.x509.oid import NameOID

from kubewright.api.core import Secret
from kubewright.pki import certificates
from kubewright.pki.certificates import Identity
from kubewright.pki.clusters import LIFETIME, new_cluster_authority, new_service_account_keys
from kubewright.pki.credentials import authority_is_unfit, problem_of
from kubewright.pki.facts import facts_of, is_signed_by, public_key_hashes, read_user, validity
from kubewright.pki.keys import Algorithm, KeyPair
from kubewright.runtime.credentials.contents import read_secret
from kubewright.testing.keys import Odd, odd, unusual_authority
from kubewright.wire.http import User

NOW = datetime(2030, 1, 1, tzinfo=UTC)
EC = Algorithm.EC


def read_user_of(pem: bytes) -> Any:
    return read_user(ssl.PEM_cert_to_DER_cert(pem.decode().partition("-----BEGIN EC")[0]))


READERS = (
    facts_of,
    validity,
    public_key_hashes,
    Identity.from_pem,
    read_user_of,
    lambda pem: is_signed_by(pem, authority(EC).certificate),
    lambda pem: is_signed_by(authority(EC).certificate, pem),
)


def parsed(pair: KeyPair) -> x509.Certificate:
    return x509.load_pem_x509_certificate(pair.certificate)


@cache
def authority(algorithm: Algorithm) -> KeyPair:
    """One of each for all tests: an RSA key, which is the default, takes a tenth of a second."""
    return new_cluster_authority(NOW) if algorithm is Algorithm.RSA else new_cluster_authority(NOW, algorithm)


@pytest.mark.parametrize("algorithm", list(Algorithm))
def test_an_authority_is_called_kubernetes_and_lasts_ten_years(algorithm: Algorithm) -> None:
    pair = authority(algorithm)
    made = parsed(pair)
    assert [str(each.value) for each in made.subject.get_attributes_for_oid(NameOID.COMMON_NAME)] == [
        "kubernetes"
    ]
    assert made.not_valid_after_utc == NOW + LIFETIME
    assert made.not_valid_before_utc < NOW
    constraints = made.extensions.get_extension_for_class(x509.BasicConstraints).value
    assert (constraints.ca, constraints.path_length) == (True, 0)
    assert made.extensions.get_extension_for_class(x509.KeyUsage).value.key_cert_sign
    assert problem_of(pair, NOW) == ""


def test_an_rsa_key_has_the_form_that_go_providers_read() -> None:
    assert authority(Algorithm.RSA).key.startswith(b"-----BEGIN RSA PRIVATE KEY-----")
    assert authority(EC).key.startswith(b"-----BEGIN EC PRIVATE KEY-----")


@pytest.mark.parametrize("algorithm", list(Algorithm))
def test_service_accounts_have_a_public_key_in_the_place_of_a_certificate(algorithm: Algorithm) -> None:
    pair = new_service_account_keys(algorithm)
    assert pair.certificate.startswith(b"-----BEGIN PUBLIC KEY-----")
    assert problem_of(pair, NOW) == ""


@pytest.mark.parametrize("algorithm", list(Algorithm))
def test_a_cluster_authority_signs_a_client(algorithm: Algorithm) -> None:
    pair = authority(algorithm)
    signer = Identity(pair.certificate, pair.key)
    client = certificates.new_client(signer, User("ann", ("devs",)), NOW, timedelta(days=1))
    assert certificates.has_signed(signer, client)


def test_the_hash_is_of_the_public_key_alone() -> None:
    pair = new_cluster_authority(NOW, EC)
    der = (
        parsed(pair)
        .public_key()
        .public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    )
    assert public_key_hashes(pair.certificate) == (f"sha256:{hashlib.sha256(der).hexdigest()}",)


def test_a_bundle_has_a_hash_for_each_certificate() -> None:
    old, new = new_cluster_authority(NOW, EC).certificate, new_cluster_authority(NOW, EC).certificate
    assert public_key_hashes(old + new) == (*public_key_hashes(old), *public_key_hashes(new))


def test_what_is_no_certificate_has_no_hash() -> None:
    with pytest.raises(ValueError):
        public_key_hashes(b"rubbish")


ONE, OTHER = new_cluster_authority(NOW, EC), new_cluster_authority(NOW, EC)
LATER = NOW + LIFETIME
ED25519 = Ed25519PrivateKey.generate().private_bytes(
    serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
)


@pytest.mark.parametrize(
    ("pair", "now", "problem"),
    [
        pytest.param(ONE, NOW, "", id="a good pair has no problem"),
        pytest.param(KeyPair(ONE.certificate), NOW, "", id="a certificate alone may be all that is known"),
        pytest.param(ONE, LATER, "expired on 2039-12-30T00:00:00Z", id="a certificate expires"),
        pytest.param(KeyPair(b"x", ONE.key), NOW, "tls.crt that is neither", id="rubbish is no certificate"),
        pytest.param(KeyPair(b"", ONE.key), NOW, "tls.crt that is neither", id="nothing is no certificate"),
        pytest.param(
            KeyPair(ONE.certificate, b"x"), NOW, "tls.key that is no private key", id="rubbish is no key"
        ),
        pytest.param(
            KeyPair(ONE.certificate, OTHER.key), NOW, "does not belong", id="a key belongs to its certificate"
        ),
        pytest.param(
            KeyPair(ONE.certificate, ED25519), NOW, "of RSA or an elliptic curve", id="a key that cannot sign"
        ),
    ],
)
def test_what_is_wrong_with_a_pair(pair: KeyPair, now: datetime, problem: str) -> None:
    found = problem_of(pair, now)
    assert (problem in found) if problem else (found == "")


UNUSUAL = {
    "CA:FALSE": (
        {"basic": False},
        "has a certificate that is no authority: its basic constraints do not say CA:TRUE",
    ),
    "no basic constraints": (
        {"basic": None},
        "has a certificate that is no authority: its basic constraints do",
    ),
    "no certSign": (
        {"signs": False},
        "has a certificate that may sign no others: its key usage lacks certSign",
    ),
    "no key usage": ({"signs": None}, ""),
    "not yet valid": (
        {"begins": timedelta(days=1)},
        "has a certificate that is valid only from 2030-01-02T00:00:00Z",
    ),
    "valid from now on": ({}, ""),
}


@pytest.mark.parametrize(("given", "problem"), UNUSUAL.values(), ids=UNUSUAL)
def test_an_authority_that_signs_nothing_is_refused_with_the_reason(
    given: dict[str, Any], problem: str
) -> None:
    pair = unusual_authority(NOW, **given)
    found = problem_of(pair, NOW, signs=True)
    assert found.startswith(problem) if problem else found == ""
    held = read_secret(Secret(data={"tls.crt": pair.certificate, "tls.key": pair.key}))
    assert authority_is_unfit(held, NOW, signs=True) == found


def test_what_signs_nothing_need_not_be_an_authority() -> None:
    assert problem_of(unusual_authority(NOW, basic=False, signs=False), NOW) == ""


def test_a_public_key_is_no_authority() -> None:
    assert problem_of(new_service_account_keys(EC), NOW, signs=True) == "has no certificate in its tls.crt"


def test_a_private_key_is_not_shown() -> None:
    assert b"PRIVATE" not in repr(new_cluster_authority(NOW, EC)).encode()


SERIAL_ZERO = b"""\
-----BEGIN CERTIFICATE-----
MIIBbTCCARKgAwIBAgIBADAKBggqhkjOPQQDAjAVMRMwEQYDVQQDDAprdWJlcm5l
dGVzMB4XDTI2MTEyMjIyMTMwM1oXDTQ2MTExNzIyMTMwM1owFTETMBEGA1UEAwwK
a3ViZXJuZXRlczBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABHYcq2ed9E0eIKds
0a817zFVOqxf+V01NDIVmdu9Gx6N8Udljdc6UpgoYo12WCHLE+a/yAo3jP2YXfUA
oD9IwXCjUzBRMB0GA1UdDgQWBBS5kOzeOjVYCi+uywDMd+NcIT91VjAfBgNVHSME
GDAWgBS5kOzeOjVYCi+uywDMd+NcIT91VjAPBgNVHRMBAf8EBTADAQH/MAoGCCqG
SM49BAMCA0kAMEYCIQDlS1+NtqS8cLY10c2iBPhao/spLKoyNcGBGDPNqOY/ZgIh
ANV+32IaANhiS9Mbcgniilq9TwzLZsyFfVU9PFn7ONX8
-----END CERTIFICATE-----
"""


def test_an_authority_with_the_serial_number_zero_is_read_as_cluster_api_makes_them() -> None:
    assert problem_of(KeyPair(SERIAL_ZERO), NOW) == ""
    assert len(public_key_hashes(SERIAL_ZERO)) == 1


@pytest.mark.parametrize("how", list(Odd))
def test_what_a_user_brings_may_be_odd_and_is_told_as_any_that_cannot_be_read(how: Odd) -> None:
    found = odd(authority(EC).certificate, how)
    told = problem_of(KeyPair(found, authority(EC).key), NOW, signs=True)
    assert told == "has a tls.crt that is neither a certificate nor a public key in PEM"


@pytest.mark.parametrize("how", list(Odd))
@pytest.mark.parametrize("read", READERS)
def test_whatever_reads_a_certificate_reads_an_odd_one_or_raises_a_value_error(
    read: Callable[[bytes], object], how: Odd
) -> None:
    with suppress(ValueError):
        assert read(odd(authority(EC).certificate, how) + authority(EC).key) is not None


def test_an_authority_with_a_key_of_an_unknown_curve_has_signed_nothing() -> None:
    assert not is_signed_by(authority(EC).certificate, odd(authority(EC).certificate, Odd.CURVE))
