"""What a user may choose about components that run as processes, and who the programs of each run as.

Theory.      The programs need only to read their files and write their data. Programs of one user can read
             each other's files and memory (``/proc/<pid>``), so those of two control planes must not run as
             one, if the two belong to different people. Where kubewright is root, each control plane gets a
             number from a range that no account of the machine has, which is written to a file and stays as
             long as anything of the control plane is there; or all run as the account that the administrator
             names. The number is a hash of the name of the control plane and of a salt of the folder, as the
             addresses are: so two programs with a folder each rarely choose the same, and what one control
             plane may have left elsewhere on the machine hardly ever belongs to another one later.
             Elsewhere all programs run as kubewright's own user, because only root may start processes of
             others. Then control planes of a second namespace are refused, unless the administrator allows
             it: all who may write in a namespace are taken for one person. Where the numbers do not exist, as
             in a user namespace with few, they run as ``UNPRIVILEGED``.
Invariants.  No number is given twice at one time, nor one that an account has. A control plane has the same
             number after a restart, whatever the range is by then. The name of an account that does not
             exist, or a range that cannot be used, is refused before anything is started.
Called by    ``compose``; ``host`` has the settings.
"""

import os
import pwd
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import msgspec

from kubewright.base.errors import InvalidInput, Unwritten
from kubewright.controlplanes.hosting.contract import WorkloadIdentity
from kubewright.controlplanes.hosting.processes.addresses import RANGE, read_range
from kubewright.controlplanes.hosting.processes.binaries import Places, places
from kubewright.processes.program import STARTS
from kubewright.processes.record import Owner, replace_file

FILE = "users.json"
UIDS = "1900000000-1999999999"
"""A hundred million numbers that neither distributions, nor systemd, nor container runtimes give away."""
LEAST, MOST = 1000, 2**31 - 2
MOST_ACCOUNTS = 1000
"""Accounts of the machine that are passed over in a row."""
UID_MAP = Path("/proc/self/uid_map")


class Given(msgspec.Struct, frozen=True):
    """The content of the file: the salt, and numbers by ``<namespace>/<cluster>``."""

    salt: str
    uids: dict[str, int] = {}


def read_uids(text: str) -> range:
    """The range that an administrator asks for, ``FIRST-LAST``.

    Raises:
        InvalidInput: it is none, or has numbers of the system's own accounts.
    """
    first, dash, last = text.partition("-")
    if not (first.isdigit() and last.isdigit() and dash) or len(text) > 40:
        raise InvalidInput(f"{text[:40]!r} is no range of user ids, such as {UIDS}")
    found = range(int(first), int(last) + 1)
    if not found or found[0] < LEAST or found[-1] > MOST:
        raise InvalidInput(f"user ids of control planes are from {LEAST} to {MOST}, so not {text}")
    return found


def mapped(uids: range, uid_map: str) -> bool:
    """Whether a process may have these numbers: in a user namespace only those that its map has exist."""
    spans = [tuple(map(int, line.split())) for line in uid_map.splitlines() if line.strip()]
    return any(start <= uids[0] and uids[-1] < start + size for start, _, size in spans)


def choose_uid(key: str, salt: str, taken: Collection[int], uids: range) -> int:
    """The number for a key: the one of its hash, or the next one that is free.

    Raises:
        InvalidInput: all are taken.
    """
    begin = int.from_bytes(sha256(f"{salt}/{key}".encode()).digest()[:8]) % len(uids)
    for step in range(min(len(uids), len(taken) + MOST_ACCOUNTS)):
        uid = uids[(begin + step) % len(uids)]
        if uid not in taken and not _has_account(uid):
            return uid
    raise InvalidInput(f"there is no user id left for control plane {key}: name a larger range")


def mixed(namespace: str, present: Iterable[str]) -> str:
    """Why a control plane of this namespace cannot run beside those of others as one user; empty: it can.

    ``present``: the namespaces of which anything is there. If there are several already, because that was
    allowed before, the first by name goes on.
    """
    others = sorted({*present} - {namespace})
    if not others or (namespace in present and namespace < others[0]):
        return ""
    return (
        f"control planes of namespace {others[0]} run on this machine as the same user, so that programs of "
        "one could read the keys of the other: run kubewright as root, which gives each control plane a user "
        "of its own, or allow it with --share-component-user"
    )


class Users:
    """The users of control planes. ``uids``: the range; None: nothing is given. ``salt``: of a new folder."""

    def __init__(self, folder: Path, uids: range | None, salt: str) -> None:
        self._file = folder / FILE
        self._uids = uids
        self._given = _read_given(self._file) or Given(salt)

    def of(self, identity: WorkloadIdentity) -> Owner | None:
        """The uid and gid of a control plane, given now if it has none; None: nothing is given.

        Raises:
            InvalidInput: there is none left, or (``Unwritten``) it cannot be written down.
        """
        if self._uids is None:
            return None
        key, given = _key(identity), self._given
        if key not in given.uids:
            uid = choose_uid(key, given.salt, set(given.uids.values()), self._uids)
            self._write(Given(given.salt, {**given.uids, key: uid}))
        return self._given.uids[key], self._given.uids[key]

    def free(self, identity: WorkloadIdentity) -> None:
        """Free the number of a control plane of which nothing is there any more.

        Raises:
            Unwritten: it cannot be written down.
        """
        if (key := _key(identity)) in self._given.uids:
            left = {other: uid for other, uid in self._given.uids.items() if other != key}
            self._write(Given(self._given.salt, left))

    def _write(self, given: Given) -> None:
        try:
            replace_file(self._file, msgspec.json.encode(given))
        except OSError as error:
            raise Unwritten(f"cannot write {self._file}: {error.strerror or error}") from None
        self._given = given


def _key(identity: WorkloadIdentity) -> str:
    return f"{identity.namespace}/{identity.cluster}"


def _has_account(uid: int) -> bool:
    try:
        pwd.getpwuid(uid)
    except KeyError:
        return False
    return True


def _read_given(file: Path) -> Given | None:
    try:
        return msgspec.json.decode(file.read_bytes(), type=Given)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError) as error:
        raise InvalidInput(f"cannot read {file}, which says who programs run as: {error}") from None


UNPRIVILEGED = "nobody"
ROOT = 0


@dataclass(frozen=True, slots=True)
class ProcessOptions:
    """``programs``: folders with programs, looked into before any other. ``addresses``: a range of addresses.

    ``user``    who programs run as, by name; empty: a user for each control plane where we are root, else
                ourselves
    ``users``   the range of their numbers
    ``shared``  whether programs of several namespaces may run as one user
    """

    programs: tuple[str, ...] = ()
    user: str = ""
    addresses: str = RANGE
    users: str = UIDS
    shared: bool = False

    def __post_init__(self) -> None:
        """Raises InvalidInput for a range that cannot be used."""
        read_range(self.addresses)
        read_uids(self.users)


@dataclass(frozen=True, slots=True)
class Settings:
    """``addresses``: the range of addresses. ``user``: uid and gid that programs run as; None: ours.

    ``uids``    the numbers of users of control planes, which then count instead; None: all run as ``user``
    ``shared``  whether control planes of several namespaces may run as one user
    ``starts``  how many programs may be starting at one time
    """

    folder: Path
    where: Places
    addresses: str = RANGE
    user: tuple[int, int] | None = None
    starts: int = STARTS
    uids: range | None = None
    shared: bool = False


def settings(
    options: ProcessOptions,
    folder: Path,
    environ: Mapping[str, str],
    *,
    uid: int | None = None,
    uid_map: str | None = None,
) -> Settings:
    """The settings of a host with its files in ``folder``.

    ``uid``, ``uid_map``  who we are, and which users there are here; None: as the kernel says

    Raises:
        InvalidInput: there is no such user, or we may not become it.
    """
    us = os.geteuid() if uid is None else uid
    here = _uid_map() if uid_map is None else uid_map
    uids = read_uids(options.users) if us == ROOT and not options.user else None
    if uids is not None and not mapped(uids, here):
        if options.users != UIDS:
            raise InvalidInput(f"the user ids {options.users} do not exist in this user namespace")
        uids = None
    return Settings(
        folder.absolute(),
        places(environ, options.programs),
        options.addresses,
        None if uids is not None else user_of(options.user, us, here),
        uids=uids,
        shared=options.shared,
    )


def _uid_map() -> str:
    try:
        return UID_MAP.read_text()
    except OSError:  # no user namespaces here, so all numbers exist
        return f"0 0 {2**32 - 1}"


def user_of(name: str, uid: int, uid_map: str) -> tuple[int, int] | None:
    """The uid and gid of the user that programs run as; None: ours.

    So it is where a user namespace has no other user: root of it alone (``unshare -r``) is no more than an
    ordinary user outside.

    Raises:
        InvalidInput: there is no such user, or we may not become it.
    """
    if uid != ROOT and not name:
        return None
    try:
        found = pwd.getpwnam(name or UNPRIVILEGED)
    except KeyError:
        raise InvalidInput(f"there is no user {name or UNPRIVILEGED} for components to run as") from None
    if found.pw_uid == uid:
        return None
    if uid != ROOT:
        raise InvalidInput(f"components can run as user {name} only where kubewright runs as root")
    if not mapped(range(found.pw_uid, found.pw_uid + 1), uid_map):
        if name:
            raise InvalidInput(f"the user {name} does not exist in this user namespace")
        return None
    return found.pw_uid, found.pw_gid
