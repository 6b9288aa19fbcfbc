"""Copies of the data of a simulated etcd: how a manager streams one, and how the machine puts one in place.

Theory.      A file has what users have written, and at its end the hash that etcd's own streams have, so the
             product verifies it as it verifies a real one. Data is put in place member by member, and each is
             a call of the host: a manager that is killed in between leaves some members with new data. Where
             ``HostMachine.in_pods`` is set, it answers after each that it waits, as pods make it do.
Called by    the controllers of snapshots and restores; ``setup`` passes it in.
"""

import asyncio
import hashlib
import json
import shutil
import tempfile
import weakref
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from kubewright.controlplanes.etcd import NoData, Streamed
from kubewright.controlplanes.hosting.contract import Replaced, Replacement, WorkloadIdentity
from kubewright.controlplanes.members import Credentials, Endpoint
from simulation.controlplanes.etcd import Content, Disk
from simulation.controlplanes.health import content, signed
from simulation.controlplanes.host import HostBusy, SimHost
from simulation.controlplanes.machine import HostMachine
from simulation.controlplanes.programs import Program, name_of

RESTORE = "restore"
"""The verb of the call that replaces the data of one member."""


class SnapshotFolder:
    """The folder of the programs for files of snapshots: real, and deleted with the world."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="kubewright-simulation-"))
        weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)


class CopyingHost(SimHost):
    """A host that can replace the data of an etcd (``hosting.contract.ReplacesData``)."""

    def lacks_to_replace(self) -> str:
        """As ``ReplacesData.lacks_to_replace``: nothing."""
        return ""

    async def replace_data(self, identity: WorkloadIdentity, by: Replacement) -> Replaced:
        """As ``ReplacesData.replace_data``."""
        async with by.fetch() as path:
            written = read(path)
            for ordinal in range(by.members):
                if self._has(identity, ordinal, by.mark):
                    continue
                call = self.ask(RESTORE, name_of(identity), ordinal)
                await self.call(call, partial(self._restore, identity, ordinal, by, written))
                if self.machine.in_pods:
                    return Replaced(waits=f"{identity.instance(ordinal)}: its pod is at work")
        return Replaced(f"before-{by.mark}")

    def _has(self, identity: WorkloadIdentity, ordinal: int, mark: str) -> bool:
        """Whether a member has the data of this restore."""
        hosted = self.machine.workloads.get(name_of(identity))
        return hosted is not None and hosted.data.get(ordinal, Disk()).cluster == mark

    def _restore(self, identity: WorkloadIdentity, ordinal: int, by: Replacement, written: Content) -> bool:
        machine, name, mark = self.machine, name_of(identity), by.mark
        found = machine.etcd_of(name)
        if found is None or found[0].programs:
            raise HostBusy("the etcd is not there, or it runs")
        hosted, etcd = found
        if etcd.cluster != mark:
            hosts = [machine.address(identity, each) for each in range(by.members)]
            etcd.begin(mark, [[identity.instance(i), f"https://{host}:2380"] for i, host in enumerate(hosts)])
        member = etcd.of(machine.address(identity, ordinal))
        if self._has(identity, ordinal, mark) or member is None:
            return False
        hosted.data[ordinal] = Disk(member.id, mark, written)
        return True


async def stream(
    machine: HostMachine, host: SimHost, members: Sequence[Endpoint], own: Credentials, target: Path
) -> Streamed:
    """As ``snapshots.streams.stream``; in two parts, between which things happen."""
    for member in members:
        one = machine.at(urlsplit(member.url).hostname or "")
        if one is None or not machine.serves(one) or not _is_trusted(own, one):
            continue
        data = json.dumps(machine.workloads[name_of(one.identity)].data[one.ordinal].content).encode()
        whole = data + hashlib.sha256(data).digest()
        await asyncio.to_thread(target.write_bytes, whole[: len(data) // 2])
        await host.leg()
        if machine.at(urlsplit(member.url).hostname or "") is not one or not one.up:
            raise NoData("the stream ended in the middle (simulated)")
        await asyncio.to_thread(target.write_bytes, whole)
        return Streamed(one.workload.version, member)
    raise NoData("no member of its etcd gives its data (simulated)")


def _is_trusted(own: Credentials, one: Program) -> bool:
    """Whether a client with these credentials and a member trust each other."""
    serving, authority = (content(one.workload.contents, end) for end in ("-etcd-server", "-etcd"))
    return signed(own.certificate, authority) and signed(serving, own.authority)


def read(path: Path) -> Content:
    """What the users of an etcd had written when it was copied."""
    return tuple(json.loads(path.read_bytes()[: -hashlib.sha256().digest_size]))
