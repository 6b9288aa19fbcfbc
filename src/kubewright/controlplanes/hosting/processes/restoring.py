"""Replaces the data of an etcd whose members are processes, and do not run, by a snapshot.

Theory.      ``etcdutl`` makes the new data of each member in the member's folder, which only this program can
             write to, and ``member_data.put`` puts it in the place of the former data. So a call that was
             interrupted is completed by the next one with the same mark, member by member.
Invariants.  Only what an unfinished call has made is deleted.
Called by    ``host``.
"""

import asyncio
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kubewright.base.errors import InvalidInput
from kubewright.controlplanes.hosting.contract import Replacement, WorkloadIdentity
from kubewright.controlplanes.hosting.member_data import NotReplaced, mark_of, put
from kubewright.controlplanes.hosting.processes.allowed import VOLUMES
from kubewright.controlplanes.hosting.processes.binaries import Binaries, Missing
from kubewright.controlplanes.hosting.processes.instances import DATA, name_of, program_name
from kubewright.controlplanes.members import ETCDUTL, etcdutl_arguments, former_name, peer_url

MISSING = (
    f"there is no {ETCDUTL} on this machine, which puts a snapshot in place: run `make kube`, or put it into "
    "a folder that KUBEWRIGHT_ASSETS names"
)
DEADLINE_SECONDS = 600.0
TOLD_CHARS = 300
NEW = "restoring"
"""In the folder of an instance: its new data, while that is made."""


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

    def former(self, mark: str) -> Path:
        """Where the former data is kept: beside the volumes of the instance, to be deleted with them."""
        return self.folder / VOLUMES / former_name(mark)


def needs(binaries: Binaries) -> str:
    """What this machine lacks, a sentence; empty: nothing."""
    return MISSING if isinstance(binaries.known(ETCDUTL, ""), Missing) else ""


def members_of(identity: WorkloadIdentity, hosts: Mapping[int, str], programs: Path) -> list[Member]:
    """The members of an etcd, from its addresses by ordinal. ``programs``: above the folders of instances."""
    return [
        Member(
            identity.instance(ordinal),
            peer_url(host),
            programs / program_name(name_of(identity), ordinal),
        )
        for ordinal, host in hosts.items()
    ]


async def replace(
    binaries: Binaries, members: Sequence[Member], by: Replacement, user: tuple[int, int] | None
) -> Path | None:
    """Replace the data of all members; returns where that of the first is kept, None if there was none.

    The snapshot is fetched only if a member lacks its data.

    Raises:
        InvalidInput: this machine lacks the program for it.
        NotReplaced: it did not work this time.
    """
    program = await binaries.find(ETCDUTL, "")
    if isinstance(program, Missing):
        raise InvalidInput(MISSING)
    peers = {each.name: each.peer for each in members}
    lacking = [each for each in members if await asyncio.to_thread(mark_of, each.data) != by.mark]
    if lacking:
        async with by.fetch() as source:
            for member in lacking:
                new = member.folder / NEW
                await asyncio.to_thread(shutil.rmtree, new, ignore_errors=True)
                await _run(
                    program, etcdutl_arguments(str(source), str(new), member.name, peers, by.mark), source
                )
                await _put(new, member, by.mark, user)
    former = members[0].former(by.mark)
    return former if await asyncio.to_thread(os.path.exists, former) else None


async def _put(new: Path, member: Member, mark: str, user: tuple[int, int] | None) -> None:
    try:
        await asyncio.to_thread(put, new, member.data, member.former(mark), mark, user)
    except OSError as error:
        told = error.strerror or type(error).__name__
        raise NotReplaced(f"the data of {member.name} cannot be replaced: {told}") from None


async def _run(program: Path, arguments: Sequence[str], source: Path) -> None:
    """Run ``etcdutl``. What it says of the file ``source`` is told without its path."""
    process = await asyncio.create_subprocess_exec(
        program,
        *arguments,
        env={},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(DEADLINE_SECONDS):
            _, said = await process.communicate()
    except TimeoutError:
        raise NotReplaced(f"{ETCDUTL} did not end within {DEADLINE_SECONDS:g} seconds") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        told = said.decode(errors="replace").replace(str(source), "the snapshot").strip()[-TOLD_CHARS:]
        raise NotReplaced(f"{ETCDUTL} refuses the snapshot: {told}")
