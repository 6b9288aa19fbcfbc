"""Replaces the data of an etcd whose members are processes, and do not run, by a snapshot.

Theory.      ``etcdutl`` makes new data for each member from the one file: together they are a new cluster
             with the content of the snapshot. The new data is made in the member's folder, which only we can
             write to, and gets a mark. Two renames put it in the place of the former data. So a call that was
             interrupted is completed by the next one with the same mark, member by member.
Invariants.  Only what an unfinished call has made is deleted. New revisions begin far above those of the
             snapshot, and all older ones count as compacted, so that no client takes old data for new.
Source       etcd's documentation of disaster recovery; etcdutl's ``snapshot restore``.
Called by    ``host``.
"""

import asyncio
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kubewright.base.errors import InvalidInput, KubewrightError
from kubewright.controlplanes.hosting.contract import Place
from kubewright.controlplanes.hosting.processes.binaries import Binaries, Missing
from kubewright.controlplanes.hosting.processes.instances import name_of, program_name
from kubewright.controlplanes.hosting.processes.volumes import DATA, VOLUMES

PROGRAM = "etcdutl"
MISSING = (
    f"there is no {PROGRAM} on this machine, which puts a snapshot in place: run `make kube`, or put it into "
    "a folder that KUBEWRIGHT_ASSETS names"
)
MARK = "restored"
"""The file in restored data that contains the ``mark`` of the call."""
PEER_PORT = 2380
"""The port for the other members."""
GAP = 1_000_000_000
"""By how much revisions are raised, as etcd's documentation advises."""
DEADLINE_SECONDS = 600.0
TOLD_CHARS = 300


class NotReplaced(KubewrightError):
    """The data could not be replaced; the message says why."""


@dataclass(frozen=True, slots=True)
class Member:
    """One member: its name, its peer URL, and the folder of its instance."""

    name: str
    peer: str
    folder: Path

    @property
    def data(self) -> Path:
        """The folder of its data."""
        return self.folder / VOLUMES / DATA / "data"


def needs(binaries: Binaries) -> str:
    """What this machine lacks, a sentence; empty: nothing."""
    return MISSING if isinstance(binaries.known(PROGRAM, ""), Missing) else ""


def members_of(place: Place, hosts: Mapping[int, str], programs: Path) -> list[Member]:
    """The members of an etcd, from its addresses by ordinal. ``programs``: above the folders of instances."""
    return [
        Member(
            place.instance(ordinal),
            f"https://{host}:{PEER_PORT}",
            programs / program_name(name_of(place), ordinal),
        )
        for ordinal, host in hosts.items()
    ]


async def replace(
    binaries: Binaries, members: Sequence[Member], source: Path, mark: str, user: tuple[int, int] | None
) -> str:
    """Replace the data of all members; returns where that of the first is kept, empty if there was none.

    Raises:
        InvalidInput: this machine lacks the program for it.
        NotReplaced: it did not work this time.
    """
    program = await binaries.find(PROGRAM, "")
    if isinstance(program, Missing):
        raise InvalidInput(MISSING)
    everyone = ",".join(f"{each.name}={each.peer}" for each in members)
    for member in members:
        if await asyncio.to_thread(_mark, member.data) == mark:
            continue
        new = member.folder / "restoring"
        flags = {
            "data-dir": str(new),
            "name": member.name,
            "initial-cluster": everyone,
            "initial-advertise-peer-urls": member.peer,
            "initial-cluster-token": mark,
            "bump-revision": str(GAP),
        }
        await asyncio.to_thread(shutil.rmtree, new, ignore_errors=True)
        await _run(program, source, flags)
        try:
            await asyncio.to_thread(_put, member, new, mark, user)
        except OSError as error:
            raise NotReplaced(f"the data of {member.name} cannot be replaced: {error}") from None
    former = _former(members[0], mark)
    return str(former) if await asyncio.to_thread(os.path.exists, former) else ""


async def _run(program: Path, source: Path, flags: Mapping[str, str]) -> None:
    words = [
        "snapshot",
        "restore",
        str(source),
        "--mark-compacted",
        *(f"--{k}={v}" for k, v in flags.items()),
    ]
    process = await asyncio.create_subprocess_exec(
        program,
        *words,
        env={},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(DEADLINE_SECONDS):
            _, said = await process.communicate()
    except TimeoutError:
        raise NotReplaced(f"{PROGRAM} did not end within {DEADLINE_SECONDS:g} seconds") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        told = said.decode(errors="replace").strip()[-TOLD_CHARS:]
        raise NotReplaced(f"{PROGRAM} refuses the snapshot: {told}")


def _put(member: Member, new: Path, mark: str, user: tuple[int, int] | None) -> None:
    (new / MARK).write_text(mark)
    for path in (new, *new.rglob("*")):
        if user is not None:
            os.chown(path, *user, follow_symlinks=False)
        if path.is_file():
            _synced(path)
    member.data.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    former = _former(member, mark)
    if member.data.exists():
        if former.exists():
            raise NotReplaced(f"{former} is there, and so is {member.data}: move one of them away")
        member.data.rename(former)
    new.rename(member.data)
    _synced(member.data.parent)


def _former(member: Member, mark: str) -> Path:
    """Where the former data is kept: beside the volumes of the instance, to be deleted with them."""
    return member.folder / VOLUMES / f"before-{mark}"


def _mark(data: Path) -> str:
    try:
        return (data / MARK).read_text()
    except OSError:
        return ""


def _synced(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
