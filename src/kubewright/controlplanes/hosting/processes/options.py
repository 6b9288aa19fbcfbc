"""What a user may choose about components that run as processes of this machine.

Theory.      The programs need only to read their files and write their data. So where kubewright is root they
             run as ``UNPRIVILEGED``, unless the user names another account; elsewhere they run as
             kubewright's own user, because only root may start processes of others.
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
from kubewright.controlplanes.hosting.processes.addresses import RANGE, read_range
from kubewright.controlplanes.hosting.processes.binaries import Places, places
from kubewright.processes.supervisor import STARTS

UNPRIVILEGED = "nobody"
ROOT = 0


@dataclass(frozen=True, slots=True)
class ProcessOptions:
    """``programs``: folders with programs, looked into before any other. ``addresses``: a loopback range.

    ``user``   who programs run as, by name; empty: ``UNPRIVILEGED`` where we are root, else ourselves
    """

    programs: tuple[str, ...] = ()
    user: str = ""
    addresses: str = RANGE

    def __post_init__(self) -> None:
        """Raises InvalidInput for a range that cannot be used."""
        read_range(self.addresses)


@dataclass(frozen=True, slots=True)
class Settings:
    """``addresses``: the range of loopback addresses. ``user``: uid and gid that programs run as; None: ours.

    ``starts``  how many programs may be starting at one time
    """

    folder: Path
    where: Places
    addresses: str = RANGE
    user: tuple[int, int] | None = None
    starts: int = STARTS


def settings(
    options: ProcessOptions, folder: Path, environ: Mapping[str, str], *, uid: int | None = None
) -> Settings:
    """The settings of a host with its files in ``folder``. ``uid``: who we are; None: as the kernel says.

    Raises:
        InvalidInput: there is no such user, or we may not become it.
    """
    user = user_of(options.user, os.geteuid() if uid is None else uid)
    return Settings(folder.absolute(), places(environ, options.programs), options.addresses, user)


def user_of(name: str, uid: int) -> tuple[int, int] | None:
    """The uid and gid of the user that programs run as; None: ours.

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
    return found.pw_uid, found.pw_gid
