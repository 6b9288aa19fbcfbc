"""A TLS context from certificates in memory.

Theory.      Python reads client certificates only from files, so ours become files for milliseconds.
Invariants.  They are in a private folder (mode 0700), which is removed when the ``with`` ends.
"""

import os
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kubewright.base.errors import InvalidInput
from kubewright.kube.access import Access
from kubewright.pki import tls


@contextmanager
def _key_files(certificate: bytes, key: bytes) -> Iterator[tuple[str | None, str | None]]:
    """Paths of the certificate and the key while the block runs; None, None when there are none."""
    if not certificate:
        yield None, None
        return
    with tempfile.TemporaryDirectory(prefix="kubewright-") as folder:
        paths = []
        for name, data in (("tls.crt", certificate), ("tls.key", key)):
            path = Path(folder, name)
            with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(data)
            paths.append(str(path))
        yield paths[0], paths[1]


def context(access: Access, certificate: bytes, key: bytes) -> ssl.SSLContext | None:
    """What a connection to this server needs; None for plain HTTP.

    Raises:
        InvalidInput: the certificates are no certificates.
    """
    if not access.server.startswith("https://"):
        return None
    try:
        made = tls.unchecked() if access.insecure else tls.client(access.ca or None)
        with _key_files(certificate, key) as (certificate_path, key_path):
            if certificate_path:
                made.load_cert_chain(certificate_path, key_path)
    except (ssl.SSLError, ValueError) as error:
        what = "the client certificate or its key" if access.certificate else "the certificate authority"
        raise InvalidInput(f"{access.server}: {what} is not valid PEM, or they do not fit: {error}") from None
    return made
