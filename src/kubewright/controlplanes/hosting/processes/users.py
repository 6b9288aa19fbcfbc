"""Who the programs of each control plane run as.

Theory.      Programs of one user can read each other's files and memory (``/proc/<pid>``), so those of two
             control planes must not run as one, if the two belong to different people. Where kubewright is
             root, each control plane gets a number from a range that no account of the machine has, which is
             written to a file and stays as long as anything of the control plane is there. A number that has
             become free is given again only after all others were, so that what a program may have left
             elsewhere is found by no other for as long as possible.
             Elsewhere all programs run as one user. Then control planes of a second namespace are refused,
             unless the administrator allows it: whoever may write in a namespace is taken for one person.
Invariants.  No number is given twice at one time, nor one that an account has. A control plane has the same
             number after a restart, whatever the range is by then.
Called by    ``host``; ``options`` for the range.
"""

import pwd
from collections.abc import Callable, Collection, Iterable
from pathlib import Path

import msgspec

from kubewright.base.errors import InvalidInput
from kubewright.controlplanes.hosting.contract import WorkloadIdentity
from kubewright.processes.beneath import Owner
from kubewright.processes.record import replace_file

FILE = "users.json"
RANGE = "1900000000-1900009999"
"""Ten thousand numbers that neither distributions, nor systemd, nor container runtimes give away."""
LEAST, MOST = 1000, 2**31 - 2
LARGEST_RANGE = 1_000_000
UID_MAP = Path("/proc/self/uid_map")


class Given(msgspec.Struct, frozen=True):
    """The content of the file: numbers by ``<namespace>/<cluster>``, and the one that was given last."""

    uids: dict[str, int] = {}
    last: int = 0


def read_range(text: str) -> range:
    """The range that an administrator asks for, ``FIRST-LAST``.

    Raises:
        InvalidInput: it is none, or has numbers of the system's own accounts.
    """
    first, dash, last = text.partition("-")
    if not (first.isdigit() and last.isdigit() and dash) or len(text) > 40:
        raise InvalidInput(f"{text[:40]!r} is no range of user ids, such as {RANGE}")
    found = range(int(first), int(last) + 1)
    if not found or found[0] < LEAST or found[-1] > MOST or len(found) > LARGEST_RANGE:
        told = f"user ids of control planes are from {LEAST} to {MOST}, and at most {LARGEST_RANGE}"
        raise InvalidInput(f"{told}, so not {text}")
    return found


def mapped(uids: range, uid_map: str) -> bool:
    """Whether a process may have these numbers: in a user namespace only those that its map has exist."""
    spans = [tuple(map(int, line.split())) for line in uid_map.splitlines() if line.strip()]
    return any(start <= uids[0] and uids[-1] < start + size for start, _, size in spans)


def choose(last: int, taken: Collection[int], uids: range, exists: Callable[[int], bool]) -> int | None:
    """The number after the last one that is free; None: all are taken."""
    begin = last + 1 - uids[0] if last in uids else 0
    numbers = (uids[(begin + step) % len(uids)] for step in range(len(uids)))
    return next((each for each in numbers if each not in taken and not exists(each)), None)


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
    """The users of control planes. ``uids``: the range; None: nothing is given."""

    def __init__(self, folder: Path, uids: range | None, exists: Callable[[int], bool] | None = None) -> None:
        self._file = folder / FILE
        self._uids = uids
        self._exists = exists or _has_account
        self._given = _read(self._file)

    def of(self, identity: WorkloadIdentity) -> Owner | None:
        """The uid and gid of a control plane, given now if it has none; None: nothing is given.

        Raises:
            InvalidInput: there is none left, or it cannot be written down.
        """
        if self._uids is None:
            return None
        key, given = _key(identity), self._given
        if key not in given.uids:
            uid = choose(given.last, set(given.uids.values()), self._uids, self._exists)
            if uid is None:
                raise InvalidInput(f"there is no user id left for control plane {key}: name a larger range")
            self._write(Given({**given.uids, key: uid}, uid))
        return self._given.uids[key], self._given.uids[key]

    def free(self, identity: WorkloadIdentity) -> None:
        """Free the number of a control plane of which nothing is there any more.

        Raises:
            InvalidInput: it cannot be written down.
        """
        if (key := _key(identity)) in self._given.uids:
            left = {other: uid for other, uid in self._given.uids.items() if other != key}
            self._write(Given(left, self._given.last))

    def _write(self, given: Given) -> None:
        try:
            replace_file(self._file, msgspec.json.encode(given))
        except OSError as error:
            raise InvalidInput(f"cannot write {self._file}: {error.strerror or error}") from None
        self._given = given


def _key(identity: WorkloadIdentity) -> str:
    return f"{identity.namespace}/{identity.cluster}"


def _has_account(uid: int) -> bool:
    try:
        pwd.getpwuid(uid)
    except KeyError:
        return False
    return True


def _read(file: Path) -> Given:
    try:
        return msgspec.json.decode(file.read_bytes(), type=Given)
    except FileNotFoundError:
        return Given()
    except (OSError, msgspec.DecodeError) as error:
        raise InvalidInput(f"cannot read {file}, which says who programs run as: {error}") from None
