"""Keys for tests: an authority in memory, certificates for any user, and TLS contexts for clients.

``apiserver.http.pki`` keeps its authority in a folder and gives out two identities, the server's and the
admin's. A test needs no folder and more users.
"""

import ssl
from dataclasses import dataclass
from datetime import timedelta

from kubewright.apiserver.http.pki import ADMIN, LIFETIME, NAMES, Pki
from kubewright.base.clock import Clock
from kubewright.pki import tls
from kubewright.pki.certificates import Identity, new_authority, new_client, new_server
from kubewright.wire.http import User


@dataclass(frozen=True, slots=True)
class Keys(Pki):
    """A ``Pki`` with the key of its authority, so that it can sign more."""

    signer: Identity
    clock: Clock

    def issue(self, user: str, *groups: str, lifetime: timedelta = LIFETIME) -> Identity:
        """A client certificate.

        Raises:
            InvalidInput: a name is empty or too long for a certificate.
        """
        return new_client(self.signer, User(user, groups), self.clock.now(), lifetime)

    def client_context(self, identity: Identity | None = None) -> ssl.SSLContext:
        """TLS for a client that trusts this server; with ``identity`` it shows who it is."""
        context = tls.client(self.authority)
        if identity is not None:
            identity.load_into(context)
        return context


def in_memory(clock: Clock) -> Keys:
    """An authority that is gone with the process.

    TLS itself goes by the real time, so the clock must not be far from it.
    """
    now = clock.now()
    authority = new_authority("kubewright", now, LIFETIME)
    server = new_server(authority, NAMES, now, LIFETIME)
    return Keys(authority.certificate, server, new_client(authority, ADMIN, now, LIFETIME), authority, clock)
