"""Requests for certificates: what is read in them, and which certificate answers them."""

import ssl
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import dsa, ec, ed25519, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from kubewright.pki.certificates import new_authority, new_request
from kubewright.pki.clusters import new_cluster_authority
from kubewright.pki.facts import facts_of, is_signed_by, read_user
from kubewright.pki.keys import Algorithm, KeyPair
from kubewright.pki.requests import LONGEST_REQUEST, USAGES, Asked, asked_in, signed
from kubewright.wire.http import User

NOW = datetime(2030, 1, 1, tzinfo=UTC)
ISSUER = new_authority("test", NOW, timedelta(days=3650))
CA = KeyPair(ISSUER.certificate, ISSUER.key)
YEAR = timedelta(days=365)


def request(*names, key=None, subject=True, extra=()):
    """A request for ann of the group people, with these names."""
    entries = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, "people")]
    entries += [x509.NameAttribute(NameOID.COMMON_NAME, "ann")]
    built = x509.CertificateSigningRequestBuilder().subject_name(x509.Name(entries if subject else []))
    if names:
        built = built.add_extension(x509.SubjectAlternativeName(names), critical=False)
    for each in extra:
        built = built.add_extension(each, critical=False)
    key = key or ec.generate_private_key(ec.SECP256R1())
    algorithm = None if isinstance(key, ed25519.Ed25519PrivateKey) else hashes.SHA256()
    return built.sign(key, algorithm).public_bytes(serialization.Encoding.PEM)


def certificate(pem):
    return x509.load_pem_x509_certificate(pem)


def test_a_request_says_whom_it_is_for_and_under_which_names():
    names = (
        x509.DNSName("a.example"), x509.IPAddress(ip_address("10.0.0.1")),
        x509.RFC822Name("a@example.org"), x509.UniformResourceIdentifier("spiffe://a"),
    )  # fmt: skip
    assert asked_in(request(*names)) == Asked(
        "ann", ("people",), ("a.example",), ("10.0.0.1",), ("a@example.org",), ("spiffe://a",)
    )
    assert asked_in(request(subject=False)) == Asked("")


def of_bits():
    """A well signed request whose organization is no text: bits."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.ORGANIZATION_NAME, "\0people")])
    made = x509.CertificateSigningRequestBuilder().subject_name(name).sign(key, hashes.SHA256())
    body = made.tbs_certrequest_bytes.replace(b"\x0c\x07\0people", b"\x03\x07\0people")
    signature = key.sign(body, ec.ECDSA(hashes.SHA256()))
    ecdsa_with_sha256 = bytes.fromhex("300a06082a8648ce3d040302")
    bits = bytes((3, len(signature) + 1, 0)) + signature
    whole = body + ecdsa_with_sha256 + bits
    return x509.load_der_x509_csr(bytes((0x30, 0x81, len(whole))) + whole).public_bytes(
        serialization.Encoding.PEM
    )


def spoiled():
    """A request whose name was changed after it was signed."""
    pem = new_request(User("ann", ()))[0]
    der = x509.load_pem_x509_csr(pem).public_bytes(serialization.Encoding.DER).replace(b"ann", b"bob")
    return x509.load_der_x509_csr(der).public_bytes(serialization.Encoding.PEM)


@pytest.mark.parametrize(
    "pem",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"hello", id="words"),
        pytest.param(CA.certificate, id="a certificate"),
        pytest.param(b"-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n", id="no DER"),
        pytest.param(b"-----BEGIN CERTIFICATE REQUEST-----\n" + b"A" * LONGEST_REQUEST, id="too long"),
        pytest.param(spoiled(), id="a signature of something else"),
        pytest.param(of_bits(), id="a name that is no text"),
        pytest.param(request(key=dsa.generate_private_key(1024)), id="a key that nobody here takes"),
    ],
)  # fmt: skip
def test_what_is_no_good_request_is_refused(pem):
    with pytest.raises(ValueError, match=r"\w"):
        asked_in(pem)
    with pytest.raises(ValueError, match=r"\w"):
        signed(CA, pem, ["client auth"], NOW, YEAR)


def test_a_certificate_whose_subject_is_no_text_is_refused_too():
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "\0people")])
    key = ec.generate_private_key(ec.SECP256R1())
    built = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    built = built.serial_number(1).not_valid_before(NOW).not_valid_after(NOW + YEAR)
    made = built.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.DER)
    der = made.replace(b"\x0c\x07\0people", b"\x03\x07\0people")
    with pytest.raises(ValueError, match="BitString"):
        read_user(der)
    with pytest.raises(ValueError, match="BitString"):
        facts_of(ssl.DER_cert_to_PEM_cert(der).encode())


@pytest.mark.parametrize(
    "key",
    [
        ec.generate_private_key(ec.SECP384R1()),
        rsa.generate_private_key(65537, 2048),
        ed25519.Ed25519PrivateKey.generate(),
    ],
    ids=["EC", "RSA", "Ed25519"],
)
@pytest.mark.parametrize("algorithm", list(Algorithm))
def test_a_certificate_is_for_the_key_of_its_request_and_signed_by_the_authority(key, algorithm):
    made = new_cluster_authority(NOW, algorithm)
    authority = made
    pem = signed(authority, request(x509.DNSName("a.example"), key=key), ["client auth"], NOW, YEAR)
    found = certificate(pem)
    assert found.public_key() == key.public_key()
    assert is_signed_by(pem, authority.certificate)
    assert facts_of(pem).user == User("ann", ("people",))
    assert facts_of(pem).names == {"a.example"}


def test_uses_are_those_that_were_asked_for():
    pem = signed(CA, request(), ["digital signature", "key encipherment", "server auth"], NOW, YEAR)
    usage = certificate(pem).extensions.get_extension_for_class(x509.KeyUsage).value
    assert (usage.digital_signature, usage.key_encipherment, usage.key_cert_sign) == (True, True, False)
    extended = certificate(pem).extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(extended) == [ExtendedKeyUsageOID.SERVER_AUTH]
    for use in USAGES:
        certificate(signed(CA, request(), [use], NOW, YEAR))
    with pytest.raises(ValueError, match="flying"):
        signed(CA, request(), ["flying"], NOW, YEAR)


def test_no_request_makes_an_authority():
    asks = request(extra=[x509.BasicConstraints(ca=True, path_length=None)])
    pem = signed(CA, asks, ["client auth"], NOW, YEAR)
    assert certificate(pem).extensions.get_extension_for_class(x509.BasicConstraints).value.ca is False
    assert facts_of(pem).no_authority


@pytest.mark.parametrize(
    ("asked", "ends"),
    [
        (timedelta(minutes=10), timedelta(minutes=10)),
        (timedelta(hours=7), timedelta(hours=7)),
        (timedelta(hours=8), timedelta(hours=7, minutes=55)),
        (YEAR, YEAR - timedelta(minutes=5)),
        (timedelta(days=9999), timedelta(days=3650)),
    ],
)
def test_a_certificate_lives_as_long_as_asked_for_and_not_longer_than_its_authority(asked, ends):
    facts = facts_of(signed(CA, request(), ["client auth"], NOW, asked))
    assert facts.not_before == NOW - timedelta(minutes=5)
    assert facts.not_after == NOW + ends


def test_an_authority_that_has_expired_signs_nothing():
    with pytest.raises(ValueError, match="has expired"):
        signed(CA, request(), ["client auth"], NOW + timedelta(days=3651), YEAR)
