"""What a user may choose about components that run as processes of this machine.

Theory.      The programs need only to read their files and write their data. So where kubewright is root,
             those of each control plane run as a user of its own (``users``), or all as the account that the
             administrator names; elsewhere they run as kubewright's own user, because only root may start
             processes of others. Where the numbers for that do not exist, as in a user namespace with few,
             they run as ``UNPRIVILEGED``.
Invariants.  The name of an account that does not exist, or an address range that cannot be used, is refused
             before anything is started.
Called by    ``compose``; ``host`` has the settings.
"""

import os
import pwd
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from kubewright.base.errors import InvalidInput
from kubewright.controlplanes.hosting.processes import users
from kubewright.controlplanes.hosting.processes.addresses import RANGE, read_range
from kubewright.controlplanes.hosting.processes.binaries import Places, places
from kubewright.controlplanes.hosting.processes.users import RANGE as USERS
from kubewright.processes.supervisor import STARTS

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
    users: str = USERS
    shared: bool = False

    def __post_init__(self) -> None:
        """Raises InvalidInput for a range that cannot be used."""
        read_range(self.addresses)
        users.read_range(self.users)


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
    uids = users.read_range(options.users) if us == ROOT and not options.user else None
    if uids is not None and not users.mapped(uids, here):
        if options.users != USERS:
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
        return users.UID_MAP.read_text()
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
    if not users.mapped(range(found.pw_uid, found.pw_uid + 1), uid_map):
        if name:
            raise InvalidInput(f"the user {name} does not exist in this user namespace")
        return None
    return found.pw_uid, found.pw_gid
