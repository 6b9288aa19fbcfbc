"""The bridge on which VMs meet each other and this machine, where the administrator wants one.

Theory.      A bridge of the kernel is all that is needed: each VM has one end of it (a tap, which its QEMU
             makes and which goes with it), this machine has the first address of the subnet, and a guest is
             told its own address in its seed, so that nothing has to be asked for and it is known before the
             boot. It needs the right to make network devices (CAP_NET_ADMIN): root has it, and so has anybody
             inside of a network namespace of their own (``unshare -rn``), in which Kubewright then runs
             whole. Who has it not may use a bridge of the administrator's by QEMU's own helper, which is
             allowed it.
             The bridge may be deleted while VMs run on it. Each use of it looks whether it is there, and
             makes it anew; who put something on it sees by ``times_made`` that it is another one.
             Which addresses are free is known by the records of one folder. So the bridge bears the name of
             the folder whose VMs are on it (its alias, which goes with it), and a Kubewright with another
             folder is refused until no VM is on it any more.
Invariants.  Nothing here forwards packets or translates addresses: what lies beyond this machine a guest
             reaches only if the administrator has said so to the kernel. An address belongs to one VM, or to
             one endpoint.
Called by    ``driver``, ``endpoints``, ``vms``.
"""

import json
import shutil
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

from kubewright.driver.errors import Code, DriverError, Exhausted
from kubewright.providers.qemu.command import tap_of
from kubewright.providers.qemu.host import Shared, said_by
from kubewright.providers.qemu.spec import Options

CLAIM, LONGEST_ALIAS = "VMs of Kubewright in ", 255


@dataclass
class Bridge:
    """The bridge of this machine, made when the first VM needs it."""

    options: Options
    folder: Path = Path()
    times_made: int = 0

    def __post_init__(self) -> None:
        self._ready = Shared(self._open)
        self.held: set[str] = set()
        """Addresses that this machine is to have on it beside the first one."""
        self._there: set[str] = set()
        """Those that it had when it was looked at last: not all of them need be on a record of ours."""

    @property
    def gateway(self) -> IPv4Address:
        """This machine's own address on it."""
        return next(self.options.addresses.hosts())

    async def open(self) -> None:
        """See to it that it is there; once for all callers.

        Raises:
            DriverError: it is not, and may not be made (``FailedPrecondition``).
        """
        if self._ready.ended and not _exists(self.options.bridge):
            self._ready = Shared(self._open)
        await self._ready.done()
        if not self.options.helper:
            await self._claim()

    async def hold(self, address: str) -> None:
        """Give this machine a further address on it.

        Raises:
            DriverError: this may not be done (``FailedPrecondition``).
        """
        if self.options.helper:
            raise DriverError.of(
                Code.FailedPrecondition,
                "Kubewright may not add addresses to the bridge of driver option helper: let a load balancer "
                "of yours stand before the API servers, and name it in spec.controlPlaneEndpoint",
            )
        self.held.add(address)
        try:
            await self.open()
            await self._add_missing()
        except BaseException:
            self.held.discard(address)
            raise

    async def let_go(self, address: str) -> None:
        """The opposite of ``hold``; an address that is not there is success."""
        self.held.discard(address)
        links = json.loads(await _ip("-json", "addr", "show") or "[]")
        if any(address in _addresses(each) for each in links if each.get("ifname") == self.options.bridge):
            await _ip("addr", "del", f"{address}/32", "dev", self.options.bridge)
        self._there.discard(address)

    async def join(self, vm_id: str) -> None:
        """Put the end of a VM whose QEMU runs on the bridge; the helper has done that already.

        Raises:
            DriverError: this may not be done (``Internal``).
        """
        if not self.options.helper:
            await _ip("link", "set", "dev", tap_of(vm_id), "master", self.options.bridge, "up")

    def free(self, taken: Iterable[str]) -> str:
        """An address that no VM has.

        Raises:
            Exhausted: there is none left.
        """
        used = {*taken, *self._there, str(self.gateway)}
        for each in self.options.addresses.hosts():
            if str(each) not in used:
                return str(each)
        raise Exhausted(f"all addresses of {self.options.subnet} are taken (driver option subnet)")

    async def _open(self) -> None:
        name = self.options.bridge
        if self.options.helper:
            return
        try:
            if not _exists(name):
                await _ip("link", "add", name, "type", "bridge")
                self.times_made += 1
            await self._add_missing()
            await _ip("link", "set", name, "up")
            await _ip("link", "set", "lo", "up")  # by which this machine reaches its own addresses
        except DriverError as error:
            raise DriverError.of(
                Code.FailedPrecondition,
                f"bridge {name} cannot be made: {error.message}. Run Kubewright as root or in a network "
                f"namespace of its own (unshare -rn), or let QEMU's helper do it (driver option helper)",
            ) from None

    async def _claim(self) -> None:
        """Write on the bridge whose VMs are on it. What an administrator has written there stays."""
        name, own = self.options.bridge, f"{CLAIM}{self.folder}"[:LONGEST_ALIAS]
        links = json.loads(await _ip("-json", "link", "show") or "[]")
        said = next((each.get("ifalias", "") for each in links if each.get("ifname") == name), own)
        if said == own or (said and not said.startswith(CLAIM)):
            return
        if said and any(each.get("master") == name for each in links):
            raise DriverError.of(
                Code.FailedPrecondition,
                f"on bridge {name} are VMs of another Kubewright, whose folder is "
                f"{said.removeprefix(CLAIM)}: both would give out the same addresses. Name this one another "
                "bridge and another subnet (driver options bridge, subnet)",
            )
        await _ip("link", "set", "dev", name, "alias", own)

    async def _add_missing(self) -> None:
        name = self.options.bridge
        links = json.loads(await _ip("-json", "addr", "show") or "[]")
        self._there = {each for link in links if link.get("ifname") == name for each in _addresses(link)}
        lengths = dict.fromkeys(self.held, 32) | {str(self.gateway): self.options.addresses.prefixlen}
        for address, length in lengths.items():
            if address not in self._there:
                await _ip("addr", "add", f"{address}/{length}", "dev", name)


def _exists(name: str) -> bool:
    """Whether a link of this name is there, in the network namespace of this process."""
    try:
        return bool(socket.if_nametoindex(name))
    except OSError:
        return False


def _addresses(link: Any) -> list[str]:
    return [each.get("local", "") for each in link.get("addr_info", ())]


async def _ip(*arguments: str) -> str:
    if (program := shutil.which("ip")) is None:
        raise DriverError.of(
            Code.FailedPrecondition, "ip is not installed on this machine (Debian: iproute2)"
        )
    return await said_by(program, *arguments)
