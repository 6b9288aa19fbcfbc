"""Requests for certificates (PKCS #10): what one asks for, and the certificate that answers it. Pure.

Theory.      The key stays with who asks; an authority signs the public half, the subject and the names of the
             request. What the certificate may be used for comes from the object that carries the request, in
             the words of certificates.k8s.io, and nothing else of a request gets into a certificate.
Invariants.  No certificate that is made here is an authority, outlives its authority, or is for a request
             whose signature is not by its own key. Nothing here keeps a file or asks for the time.
Source       kube-controller-manager's signer: backdated by five minutes; the end of a certificate that lives
             for eight hours and more is, too.
Called by    ``apiserver`` (validation of requests), ``builtin`` (approval and signing).
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID, ObjectIdentifier

from kubewright.pki.facts import issued_by, texts_of
from kubewright.pki.keys import KeyPair, read_certificates, read_private_key, value_errors

BACKDATED = timedelta(minutes=5)
SHORT = timedelta(hours=8)
"""Of a certificate that lives for less than this, five minutes are too much to take away."""

LONGEST_REQUEST = 64 * 1024
"""Bytes of a request that is looked at; one with a key of 16,384 bits has four thousand."""

_LABEL = b"-----BEGIN CERTIFICATE REQUEST-----"

_BITS: Mapping[str, str] = {
    "signing": "digital_signature",
    "digital signature": "digital_signature",
    "content commitment": "content_commitment",
    "key encipherment": "key_encipherment",
    "key agreement": "key_agreement",
    "data encipherment": "data_encipherment",
    "cert sign": "key_cert_sign",
    "crl sign": "crl_sign",
    "encipher only": "encipher_only",
    "decipher only": "decipher_only",
}
_EXTENDED: Mapping[str, ObjectIdentifier] = {
    "any": ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE,
    "server auth": ExtendedKeyUsageOID.SERVER_AUTH,
    "client auth": ExtendedKeyUsageOID.CLIENT_AUTH,
    "code signing": ExtendedKeyUsageOID.CODE_SIGNING,
    "email protection": ExtendedKeyUsageOID.EMAIL_PROTECTION,
    "s/mime": ExtendedKeyUsageOID.EMAIL_PROTECTION,
    "ipsec end system": ObjectIdentifier("1.3.6.1.5.5.7.3.5"),
    "ipsec tunnel": ObjectIdentifier("1.3.6.1.5.5.7.3.6"),
    "ipsec user": ObjectIdentifier("1.3.6.1.5.5.7.3.7"),
    "timestamping": ExtendedKeyUsageOID.TIME_STAMPING,
    "ocsp signing": ExtendedKeyUsageOID.OCSP_SIGNING,
    "microsoft sgc": ObjectIdentifier("1.3.6.1.4.1.311.10.3.3"),
    "netscape sgc": ObjectIdentifier("2.16.840.1.113730.4.1"),
}
USAGES = frozenset(_BITS) | frozenset(_EXTENDED)
"""What certificates.k8s.io knows as uses of a certificate."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What a request asks for: the subject's common name and organizations, and names of four sorts."""

    common_name: str
    organizations: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    addresses: tuple[str, ...] = ()
    emails: tuple[str, ...] = ()
    uris: tuple[str, ...] = ()


def asked_in(pem: bytes) -> Asked:
    """What a request (PEM) asks for.

    Raises:
        ValueError: it is no request, or its signature is not by the key in it.
    """
    request = _read(pem)
    common = texts_of(request, NameOID.COMMON_NAME)
    organizations = tuple(texts_of(request, NameOID.ORGANIZATION_NAME))
    names = _names(request)
    if names is None:
        return Asked(common[-1] if common else "", organizations)
    return Asked(
        common[-1] if common else "",
        organizations,
        hosts=tuple(names.get_values_for_type(x509.DNSName)),
        addresses=tuple(map(str, names.get_values_for_type(x509.IPAddress))),
        emails=tuple(names.get_values_for_type(x509.RFC822Name)),
        uris=tuple(names.get_values_for_type(x509.UniformResourceIdentifier)),
    )


def signed(
    authority: KeyPair, pem: bytes, usages: Collection[str], now: datetime, lifetime: timedelta
) -> bytes:
    """The certificate (PEM) that answers a request, for these uses.

    Raises:
        ValueError: the request cannot be read, a use is unknown, or the authority has expired or cannot sign.
    """
    request = _read(pem)
    issuer, key = read_certificates(authority.certificate)[0], read_private_key(authority.key)
    if now >= issuer.not_valid_after_utc:
        raise ValueError(f"the authority has expired at {issuer.not_valid_after_utc}")
    if unknown := sorted(set(usages) - USAGES):
        raise ValueError(f"there is no use {unknown[0]!r} of a certificate")
    ends = now + lifetime - (timedelta() if lifetime < SHORT else BACKDATED)
    with value_errors():
        builder = (
            x509.CertificateBuilder()
            .subject_name(request.subject)
            .issuer_name(issuer.subject)
            .public_key(_public_key(request))
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - BACKDATED)
            .not_valid_after(min(ends, issuer.not_valid_after_utc))
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        )
        for extension, critical in _extensions(request, usages):
            builder = builder.add_extension(extension, critical=critical)
        made = builder.add_extension(issued_by(issuer), critical=False).sign(key, hashes.SHA256())
    return made.public_bytes(serialization.Encoding.PEM)


def _extensions(
    request: x509.CertificateSigningRequest, usages: Collection[str]
) -> Iterable[tuple[x509.ExtensionType, bool]]:
    """The uses and names of a certificate, and whether who does not know the extension must refuse it."""
    bits = {_BITS[each] for each in usages if each in _BITS}
    if not bits & {"key_agreement"}:
        bits -= {"encipher_only", "decipher_only"}  # they say something of an agreement only
    if bits:
        every = dict.fromkeys(sorted(set(_BITS.values())), False)
        yield x509.KeyUsage(**{**every, **dict.fromkeys(bits, True)}), True
    extended = list(dict.fromkeys(_EXTENDED[each] for each in usages if each in _EXTENDED))
    if extended:
        yield x509.ExtendedKeyUsage(extended), False
    if (names := _names(request)) is not None:
        yield names, not list(request.subject)


def _read(pem: bytes) -> x509.CertificateSigningRequest:
    """The first request in a PEM.

    Raises:
        ValueError: there is none, it cannot be read, or its signature is not by the key in it.
    """
    if not pem.strip().startswith(_LABEL) or len(pem) > LONGEST_REQUEST:
        raise ValueError("PEM block type must be CERTIFICATE REQUEST")
    with value_errors():
        request = x509.load_pem_x509_csr(pem)
        if not request.is_signature_valid:
            raise ValueError("the signature of the request is not by its key")
        _names(request)
        texts_of(request, NameOID.COMMON_NAME)
        _public_key(request)
    return request


def _public_key(
    request: x509.CertificateSigningRequest,
) -> rsa.RSAPublicKey | ec.EllipticCurvePublicKey | ed25519.Ed25519PublicKey:
    key = request.public_key()
    if not isinstance(key, rsa.RSAPublicKey | ec.EllipticCurvePublicKey | ed25519.Ed25519PublicKey):
        raise ValueError("the key is neither RSA, ECDSA nor Ed25519")
    return key


def _names(request: x509.CertificateSigningRequest) -> x509.SubjectAlternativeName | None:
    try:
        return request.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return None
