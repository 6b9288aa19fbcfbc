"""The TLS contexts of this program, client and server: the one place that makes them.

Theory.      Go, and so every other program of Kubernetes, trusts any certificate that it is given as an
             authority, also an intermediate one whose root it does not know. OpenSSL does so with a flag,
             which Python sets by itself from 3.13 on only. Go reads every certificate of a bundle that it
             can, and passes over what stands between them. And it does not refuse authorities that predate
             the rules of ``VERIFY_X509_STRICT``, which Python 3.13 sets as well.
Invariants.  TLS 1.2 and up. A client checks names, unless it is ``unchecked``. Nothing here reads a file, but
             ``client`` without anchors takes the authorities of this machine.
Called by    whatever connects or listens with TLS.
"""

import re
import ssl

_CERTIFICATE = re.compile(rb"-----BEGIN CERTIFICATE-----[^-]*+-----END CERTIFICATE-----")


def client(anchors: bytes | None = None) -> ssl.SSLContext:
    """TLS of a client that trusts these certificates (PEM); None: the authorities of this machine.

    Raises:
        ValueError: there is no certificate in ``anchors``.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if anchors is None:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    else:
        _trust(context, anchors)
    return _like_go(context)


def server(anchors: bytes | None = None, *, required: bool = False) -> ssl.SSLContext:
    """TLS of a server. A client's certificate is asked for if there are anchors to check it with.

    Raises:
        ValueError: there is no certificate in ``anchors``.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    if anchors is not None:
        context.verify_mode = ssl.CERT_REQUIRED if required else ssl.CERT_OPTIONAL
        _trust(context, anchors)
    return _like_go(context)


def unchecked() -> ssl.SSLContext:
    """TLS of a client that believes any certificate, as a kubelet's probes do.

    Without the machine's authorities, which take a megabyte and 20 ms to read. To be made once, and kept.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return _like_go(context)


def _trust(context: ssl.SSLContext, anchors: bytes) -> None:
    loaded, problem = 0, "there is no certificate in it"
    for each in _CERTIFICATE.findall(anchors):
        try:
            context.load_verify_locations(cadata=each.decode("ascii"))
        except (ssl.SSLError, ValueError) as error:
            problem = getattr(error, "reason", None) or "a certificate in it cannot be read"
        else:
            loaded += 1
    if not loaded:
        raise ValueError(problem)


def _like_go(context: ssl.SSLContext) -> ssl.SSLContext:
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context
