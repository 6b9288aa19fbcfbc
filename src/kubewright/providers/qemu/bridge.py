"""The bridge on which VMs meet each other and this machine, where the administrator wants one.

Theory.      A bridge of the kernel is all that is needed: each VM has one end of it (a tap, which its QEMU
             makes and which goes with it), this machine has the first address of the subnet, and a guest is
             told its own address in its seed, so that nothing has to be asked for and it is known before the
             boot. It needs the right to make network devices (CAP_NET_ADMIN): root has it, and so has anybody
             inside of a network namespace of their own (``unshare -rn``), in which Kubewright then runs
             whole. Who has it not may use a bridge of the administrator's by QEMU's own helper, which is
             allowed it.
Invariants.  Nothing here forwards packets or translates addresses: what lies beyond this machine a guest
             reaches only if the administrator has said so to the kernel. An address belongs to one VM.
Called by    ``driver``, ``vms``.
"""

import json
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address
from typing import Any

from kubewright.driver.errors import Code, DriverError, Exhausted
from kubewright.providers.qemu.command import tap_of
from kubewright.providers.qemu.host import Shared, said_by
from kubewright.providers.qemu.spec import Options


@dataclass
class Bridge:
    """The bridge of this machine, made when the first VM needs it."""

    options: Options

    def __post_init__(self) -> None:
        self._ready = Shared(self._open)

    @property
    def gateway(self) -> IPv4Address:
        """This machine's own address on it."""
        return next(self.options.addresses.hosts())

    async def open(self) -> None:
        """See to it that it is there; once for all callers.

        Raises:
            DriverError: it is not, and may not be made (``FailedPrecondition``).
        """
        await self._ready.done()

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
        used = {*taken, str(self.gateway)}
        for each in self.options.addresses.hosts():
            if str(each) not in used:
                return str(each)
        raise Exhausted(f"all addresses of {self.options.subnet} are taken (driver option subnet)")

    async def _open(self) -> None:
        name, own = self.options.bridge, f"{self.gateway}/{self.options.addresses.prefixlen}"
        if self.options.helper:
            return
        known = json.loads(await _ip("-json", "addr", "show") or "[]")
        found = [each for each in known if each.get("ifname") == name]
        try:
            if not found:
                await _ip("link", "add", name, "type", "bridge")
            if not any(str(self.gateway) in _addresses(each) for each in found):
                await _ip("addr", "add", own, "dev", name)
            await _ip("link", "set", name, "up")
        except DriverError as error:
            raise DriverError.of(
                Code.FailedPrecondition,
                f"bridge {name} cannot be made: {error.message}. Run Kubewright as root or in a network "
                f"namespace of its own (unshare -rn), or let QEMU's helper do it (driver option helper)",
            ) from None


def _addresses(link: Any) -> list[str]:
    return [each.get("local", "") for each in link.get("addr_info", ())]


async def _ip(*arguments: str) -> str:
    if (program := shutil.which("ip")) is None:
        raise DriverError.of(
            Code.FailedPrecondition, "ip is not installed on this machine (Debian: iproute2)"
        )
    return await said_by(program, *arguments)
