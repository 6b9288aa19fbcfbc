"""The certificates of the embedded server: a private CA, and the identities that it has issued.

Theory.      Made at the first start, kept in the data folder and used again at later starts, so that a
             kubeconfig that a user copied stays valid. One file per identity holds the
             certificate and its key: it is replaced as a whole, so the two always match.
             At each start, certificates that expire within a year are issued anew; so a server may
             run for a year without its certificate expiring. The authority alone cannot be made again, since
             all that clients hold is signed by it; so where there was one, its loss is told.
Files.       In the folder, mode 0700: ``ca.pem``, ``server.pem``, ``admin.pem``, mode 0600.
Invariants.  Every identity is signed by the authority that is there now. Keys never leave this
             machine, and no client trusts the authority unless a kubeconfig says so.
Called by    ``listener`` (TLS), ``kubeconfig``, the server at start-up.
"""

import ssl
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from kubewright.apiserver.http.private_file import make_private_folder, write_private
from kubewright.apiserver.store.log import WAY_OUT
from kubewright.base.clock import Clock
from kubewright.base.errors import InvalidInput
from kubewright.pki import tls
from kubewright.pki.certificates import Identity, has_signed, new_authority, new_client, new_server
from kubewright.wire.http import User

LIFETIME = timedelta(days=3650)
"""Of the authority; what it signs lasts as long by default."""

RENEWED_BEFORE = timedelta(days=365)

NAMES = ("127.0.0.1", "::1", "localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")
"""Always in the server's certificate: names and addresses; the last three are those inside of a cluster."""

LOSS = "with another certificate authority no kubeconfig and no client certificate is good any more"
"""What it means that the authority is missing."""

ADMIN = User("kubewright-admin", ("system:masters",))
"""The owner of the data folder; members of ``system:masters`` may do everything."""


@dataclass(frozen=True, slots=True)
class Pki:
    """The authority's certificate, which clients must trust (PEM), the server's identity and the admin's.

    ``signer``: the authority with its key, where more is to be signed than these.
    """

    authority: bytes
    server: Identity
    admin: Identity
    signer: Identity | None = None

    def server_context(self) -> ssl.SSLContext:
        """TLS as the server speaks it: 1.2 and up; client certificates are optional.

        One that our CA did not sign, or that has expired, fails in the handshake.
        """
        context = tls.server(self.authority)
        context.set_alpn_protocols(["http/1.1"])
        context.num_tickets = 0  # our clients do not resume sessions, and tickets cost time in each handshake
        self.server.load_into(context)
        return context


def in_folder(folder: Path, clock: Clock, *, had_one: bool = False, names: Iterable[str] = ()) -> Pki:
    """The authority that lives in ``folder``; made if missing; certificates that expire soon are renewed.

    ``had_one``: there was an authority, and it must be there. ``names``: what the server's certificate names
    beside what it always does; if it names others, it is made anew.

    Raises:
        InvalidInput: the folder cannot be used, or a file in it is not what it should be, or the authority
            is lost.
    """
    ca = folder / "ca.pem"
    if had_one and not ca.exists():
        raise InvalidInput(f"{ca} is missing: {LOSS}. {WAY_OUT}")
    make_private_folder(folder)
    now, known = clock.now(), tuple(dict.fromkeys((*NAMES, *names)))

    def lasting(identity: Identity) -> bool:
        return identity.expires > now + RENEWED_BEFORE

    def ours(identity: Identity) -> bool:
        return lasting(identity) and has_signed(authority, identity)

    def complete(identity: Identity) -> bool:
        return ours(identity) and identity.names() == set(known)

    authority = _kept(ca, lasting, lambda: new_authority("kubewright", now, LIFETIME))
    server = _kept(folder / "server.pem", complete, lambda: new_server(authority, known, now, LIFETIME))
    admin = _kept(folder / "admin.pem", ours, lambda: new_client(authority, ADMIN, now, LIFETIME))
    return Pki(authority.certificate, server, admin, authority)


def _kept(path: Path, good: Callable[[Identity], bool], make: Callable[[], Identity]) -> Identity:
    """The identity in ``path`` if there is a good one, else a new one, which is put there."""
    found = _read(path)
    if found is not None and good(found):
        return found
    made = make()
    write_private(path, made.pem)
    return made


def _read(path: Path) -> Identity | None:
    try:
        content = path.read_bytes()
        path.chmod(0o600)  # a copy or a backup may have opened it to others
        return Identity.from_pem(content)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InvalidInput(f"cannot read {path}: {error.strerror or error}") from None
    except ValueError:
        raise InvalidInput(
            f"{path} is not a certificate with its key; put the file back, or delete it to get a new one. "
            "If it is ca.pem, that needs --accept-data-loss, since all that it has signed is lost"
        ) from None
