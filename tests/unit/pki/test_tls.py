"""Handshakes in memory, between contexts of ours: which certificates are trusted, and what is sent."""

import ssl
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from kubewright.base.errors import InvalidInput
from kubewright.kube.access import Access
from kubewright.kube.sockets import tls_context
from kubewright.pki import tls
from kubewright.pki.certificates import Identity
from kubewright.pki.facts import is_trusted

NOW = datetime.now(UTC)
HOST = "api.example.com"


def signed(name: str, issuer: Identity | None = None, *, authority: bool = True) -> Identity:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    above = None if issuer is None else x509.load_pem_x509_certificate(issuer.certificate)
    signer = key if issuer is None else serialization.load_pem_private_key(issuer.key, None)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject if above is None else above.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(NOW - timedelta(hours=1))
        .not_valid_after(NOW + timedelta(hours=1))
        .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(HOST)]), critical=False)
        .sign(signer, hashes.SHA256())
    )
    form = serialization.Encoding.PEM
    plain = (form, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return Identity(certificate.public_bytes(form), key.private_bytes(*plain))


ROOT = signed("root")
MIDDLE = signed("intermediate", ROOT)
LEAF = signed("leaf", MIDDLE, authority=False)
CHAIN = Identity.from_pem(LEAF.certificate + MIDDLE.certificate + LEAF.key)
OTHER = signed("another root")


def serving(identity: Identity, anchors: bytes | None = None) -> ssl.SSLContext:
    context = tls.server(anchors, required=anchors is not None)
    identity.load_into(context)
    return context


def handshake(server: ssl.SSLContext, client: ssl.SSLContext) -> str:
    """Why two contexts do not shake hands; empty if they do."""
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [client.wrap_bio(down, up, server_hostname=HOST), server.wrap_bio(up, down, server_side=True)]
    try:
        for _ in range(8):
            for side in sides:
                try:
                    side.do_handshake()
                except ssl.SSLWantReadError:
                    continue
    except ssl.SSLError as error:
        return str(error.reason)
    return ""


TRUSTED = {
    "an intermediate authority": (LEAF, MIDDLE.certificate, True),
    "a root, with the chain": (CHAIN, ROOT.certificate, True),
    "a root, without the chain": (LEAF, ROOT.certificate, False),
    "the certificate itself": (LEAF, LEAF.certificate, True),
    "another root": (CHAIN, OTHER.certificate, False),
    "one of a bundle": (LEAF, OTHER.certificate + MIDDLE.certificate, True),
    "a bundle with words in it": (LEAF, "für uns\n".encode() + MIDDLE.certificate + b"\nend", True),
    "a bundle with one that is broken": (
        LEAF,
        b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n" + MIDDLE.certificate,
        True,
    ),
    "one that is there twice": (LEAF, MIDDLE.certificate * 2, True),
}


@pytest.mark.parametrize(("shown", "anchors", "trusted"), TRUSTED.values(), ids=TRUSTED)
def test_a_client_trusts_whatever_certificate_it_is_given(
    shown: Identity, anchors: bytes, trusted: bool
) -> None:
    assert (handshake(serving(shown), tls.client(anchors)) == "") is trusted


@pytest.mark.parametrize(("shown", "anchors", "trusted"), TRUSTED.values(), ids=TRUSTED)
def test_a_server_trusts_the_same_certificates_of_clients(
    shown: Identity, anchors: bytes, trusted: bool
) -> None:
    client = tls.unchecked()
    shown.load_into(client)
    assert (handshake(serving(LEAF, anchors), client) == "") is trusted


@pytest.mark.parametrize(("shown", "anchors", "trusted"), TRUSTED.values(), ids=TRUSTED)
def test_what_is_decided_without_a_handshake_is_the_same(
    shown: Identity, anchors: bytes, trusted: bool
) -> None:
    if b"AAAA" not in anchors:
        assert is_trusted(shown.certificate, anchors) is trusted


def test_the_client_of_a_kubeconfig_sends_its_chain_and_trusts_an_intermediate_authority() -> None:
    access = Access(f"https://{HOST}", ca=MIDDLE.certificate, certificate=CHAIN.certificate, key=CHAIN.key)
    client = tls_context(access, access.certificate, access.key)
    assert client is not None
    assert handshake(serving(LEAF, ROOT.certificate), client) == ""


@pytest.mark.parametrize("anchors", [b"", b"no certificate", LEAF.key], ids=["nothing", "words", "a key"])
def test_anchors_without_a_certificate_are_refused(anchors: bytes) -> None:
    for make in (tls.client, tls.server):
        with pytest.raises(ValueError, match="there is no certificate in it"):
            make(anchors)


def test_a_kubeconfig_whose_authority_is_none_says_so() -> None:
    with pytest.raises(InvalidInput, match="the certificate authority is not valid PEM"):
        tls_context(Access(f"https://{HOST}", ca=b"none"), b"", b"")


def test_who_connects_with_less_than_tls_1_2_is_refused() -> None:
    for context in (tls.client(), tls.client(ROOT.certificate), tls.server(), tls.unchecked()):
        assert context.minimum_version is ssl.TLSVersion.TLSv1_2
