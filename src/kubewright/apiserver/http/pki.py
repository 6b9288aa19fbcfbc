"""The certificates of the embedded server: a private CA, and the identities that it has issued.

Theory.      Made at the first start, kept in the data folder and used again at later starts, so that a
             kubeconfig that a user copied stays valid. One file per identity holds the
             certificate and its key: it is replaced as a whole, so the two always match.
             At each start, certificates that expire within a year are issued anew; so a server may
             run for a year without its certificate expiring. The authority alone cannot be made again, since
             all that clients hold is signed by it; so where there was one, its loss is told.
Files.       In the folder, mode 0700: ``ca.pem``, ``server.pem``, ``admin.pem``, ``kubelet-client.pem``, mode
             0600.
Invariants.  Every identity is signed by the authority that is there now. Keys never leave this
             machine, and no client trusts the authority unless a kubeconfig says so.
Called by    ``listener`` (TLS), ``kubeconfig``, the server at start-up.
"""

import os
import ssl
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from kubewright.apiserver.authorization.defaults import KUBELET_CLIENT
from kubewright.apiserver.store.log import WAY_OUT
from kubewright.base.clock import Clock
from kubewright.base.errors import InvalidInput, Unwritten
from kubewright.pki import tls
from kubewright.pki.certificates import Identity, has_signed, new_authority, new_client, new_server
from kubewright.pki.credentials import Renewal
from kubewright.pki.facts import validity
from kubewright.wire.http import User

OWNER_ONLY_FOLDER = 0o700


def write_private(path: Path, content: bytes) -> None:
    """Put ``content`` into ``path`` with mode 0600, all of it or nothing; missing folders are made.

    A symbolic link is followed: what it points to is replaced, not the link.

    Raises:
        Unwritten: the file cannot be written there.
    """
    target = Path(os.path.realpath(path))
    try:
        target.parent.mkdir(mode=OWNER_ONLY_FOLDER, parents=True, exist_ok=True)
        _replace(target, content)
    except OSError as error:
        raise Unwritten(f"cannot write {path}: {error.strerror or error}") from None


def make_private_folder(folder: Path) -> None:
    """Make ``folder`` if it is missing; set its mode to 0700.

    Raises:
        InvalidInput: it cannot be made, or is not ours.
    """
    try:
        folder.mkdir(mode=OWNER_ONLY_FOLDER, parents=True, exist_ok=True)
        folder.chmod(OWNER_ONLY_FOLDER)
    except OSError as error:
        raise InvalidInput(f"cannot use the folder {folder}: {error.strerror or error}") from None


def _replace(target: Path, content: bytes) -> None:
    descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")  # its mode is 0600
    try:
        with open(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


LIFETIME = timedelta(days=3650)
"""Of the authority; what it signs lasts as long by default."""

RENEWAL = Renewal(margin=timedelta(days=365), with_authority=False)
"""At a start, what ends within a year is made anew."""

NAMES = ("127.0.0.1", "::1", "localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")
"""Always in the server's certificate: names and addresses; the last three are those inside of a cluster."""

LOSS = "with another certificate authority no kubeconfig and no client certificate is good any more"
"""What it means that the authority is missing."""

ADMIN = User("kubewright-admin", ("system:masters",))
"""The owner of the data folder; members of ``system:masters`` may do everything."""

TO_KUBELETS = User(KUBELET_CLIENT, ())
"""As whom the server asks kubelets, which ask it in turn what this user may do. In no group: a Node may give
the address of this server itself for its kubelet's."""


@dataclass(frozen=True, slots=True)
class Pki:
    """The authority's certificate, which clients must trust (PEM), the server's identity and the admin's.

    ``to_kubelets``: as whom the server asks kubelets; None: it asks none.
    ``signer``: the authority with its key, where more is to be signed than these.
    """

    authority: bytes
    server: Identity
    admin: Identity
    signer: Identity | None = None
    to_kubelets: Identity | None = field(default=None, kw_only=True)

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
        return RENEWAL.due(*validity(identity.certificate)) > now

    def ours(identity: Identity) -> bool:
        return lasting(identity) and has_signed(authority, identity)

    def complete(identity: Identity) -> bool:
        return ours(identity) and identity.names() == set(known)

    authority = _kept(ca, lasting, lambda: new_authority("kubewright", now, LIFETIME))
    server = _kept(folder / "server.pem", complete, lambda: new_server(authority, known, now, LIFETIME))
    admin = _kept(folder / "admin.pem", ours, lambda: new_client(authority, ADMIN, now, LIFETIME))
    kubelets = _kept(
        folder / "kubelet-client.pem", ours, lambda: new_client(authority, TO_KUBELETS, now, LIFETIME)
    )
    return Pki(authority.certificate, server, admin, authority, to_kubelets=kubelets)


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
