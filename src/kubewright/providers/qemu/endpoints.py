"""Addresses for the API servers of clusters whose control planes are VMs here: one and a balancer for each.

Theory.      The control plane of a cluster is several VMs, which come and go, and everything names one
             address. On the bridge this machine can have as many as it likes, and both VMs and this machine
             reach them. At each a balancer of ours listens (``processes.balancer``), a process of its own:
             like the VMs it goes on while no Kubewright runs, so a node does not lose its API server when
             Kubewright is upgraded. Which VMs are behind it stands in a file, which the balancer reads again
             all the time: what the driver knows is written there whenever a control plane's VM is made or
             goes, at each start, and again and again: a file may be deleted, and a disk full. Which of them
             are ready the balancer asks itself. A record that cannot be read is one cluster's misfortune, as
             that of a VM (``vms``): its balancer goes on, its address stays taken, and it is read again all
             the time.
             The bridge on which VMs meet each other and this machine, where the administrator wants one. A
             bridge of the kernel is all that is needed: each VM has one end of it (a tap, which its QEMU
             makes and which goes with it), this machine has the first address of the subnet, and a guest is
             told its own address in its seed, so that nothing has to be asked for and it is known before the
             boot. It needs the right to make network devices (CAP_NET_ADMIN): root has it, and so has anybody
             inside of a network namespace of their own (``unshare -rn``), in which Kubewright then runs
             whole. Who has it not may use a bridge of the administrator's by QEMU's own helper, which is
             allowed it. The bridge may be deleted while VMs run on it. Each use of it looks whether it is
             there, and makes it anew; who put something on it sees by ``times_made`` that it is another one.
             Which addresses are free is known by the records of one folder. So the bridge bears the name of
             the folder whose VMs are on it (its alias, which goes with it), and a Kubewright with another
             folder is refused until no VM is on it any more.
Layout       ``endpoints/<hash of namespace, name and owner>``: ``endpoint.json`` the record, ``instances``
             the addresses of VMs, and what ``processes.record`` keeps.
Invariants.  An endpoint keeps its address until it is released: it is on record before it is answered. One
             process at a time works here; the lock of the VMs' folder says which.
             Nothing here forwards packets or translates addresses: what lies beyond this machine a guest
             reaches only if the administrator has said so to the kernel. An address belongs to one VM, or to
             one endpoint.
Source       decisions 0032 and 0064.
Called by    ``driver``.
"""

import asyncio
import hashlib
import json
import re
import shutil
import socket
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

import msgspec
import structlog

from kubewright.base.clock import Clock
from kubewright.driver.contract import ClassRequest
from kubewright.driver.errors import Code, DriverError, Exhausted
from kubewright.processes import record
from kubewright.processes.program import balancer
from kubewright.processes.supervisor import Supervisor
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


PORT = 6443
"""That of an endpoint, and of the API servers behind it: kubeadm's."""
RECORD, INSTANCES = "endpoint.json", "instances"
READY = "/readyz"
START_SECONDS, END_SECONDS = 20.0, 20.0
"""How long a balancer may take to listen, and to end; its open connections have ten seconds."""

log = structlog.get_logger(__name__)


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """The record of one. ``owner``: the uid of the class that stands for the cluster (``contract``)."""

    namespace: str
    name: str
    owner: str
    address: str


@dataclass(frozen=True, slots=True)
class Known:
    """What the driver knows: ``taken`` addresses beside those here, and the ``members`` of a cluster's
    control plane, by the owner of its endpoint."""

    taken: Callable[[], Iterable[str]]
    members: Callable[[str], Iterable[str]]


class Balancers:
    """All endpoints of this machine."""

    def __init__(self, root: Path, clock: Clock, bridge: Bridge, known: Known) -> None:
        self._root, self._bridge, self._known = root, bridge, known
        self._supervisor = Supervisor(root, clock)
        self._supervisor.listen(lambda _name: self._changed.set())
        self._changed, self._stop = asyncio.Event(), asyncio.Event()
        self._keeping: asyncio.Task[None] | None = None
        self._all: dict[str, Endpoint] = {}
        self._aside: dict[str, str] = {}
        """The addresses of those whose record cannot be read; empty where it does not say it."""
        self._files = asyncio.Lock()
        self._releasing: dict[str, asyncio.Task[None]] = {}

    @property
    def addresses(self) -> list[str]:
        """Those that are taken."""
        return [*(each.address for each in self._all.values()), *filter(None, self._aside.values())]

    async def open(self) -> None:
        """Go on with the endpoints that are on record; the VMs have been found already."""
        self._aside = dict.fromkeys(await asyncio.to_thread(self._folders), "")
        await self.tend()
        for key in self._aside:
            log.warning("an endpoint is set aside: its record cannot be read", folder=str(self._root / key))
        self._keeping = asyncio.create_task(self._supervisor.run(self._stop), name="balancers of endpoints")

    async def tend(self) -> None:
        """See to it that all are on the bridge and on record, and that their balancers know their VMs."""
        for key, found in (await asyncio.to_thread(self._readable, list(self._aside))).items():
            if self._aside.pop(key, None) is not None:
                self._all[key] = found
                await self._listen(key, found)
        for key, each in list(self._all.items()):
            if not (self._root / key / RECORD).exists():
                await self._begin_again(key, each)
            await self._tell(key, each)
            try:
                if each.address not in self._bridge.held:
                    await self._bridge.hold(each.address)
            except DriverError as error:
                log.warning("an endpoint is not on the bridge", endpoint=each.address, why=error.message)

    async def close(self) -> None:
        """Leave the balancers running."""
        releasing = list(self._releasing.values())
        for task in releasing:
            task.cancel()
        await asyncio.gather(*releasing, return_exceptions=True)
        self._stop.set()
        if self._keeping is not None:
            await asyncio.gather(self._keeping, return_exceptions=True)

    async def reserve(self, request: ClassRequest) -> str:
        """The address of this cluster's endpoint, at which its balancer listens.

        Raises:
            DriverError: no address is left (``ResourceExhausted``), the bridge may not have it
                (``FailedPrecondition``), or the balancer does not listen yet (``Unavailable``).
        """
        key = key_of(request)
        if key in self._releasing:
            await self.release(request)
        await self._bridge.open()
        if key in self._aside:
            path = self._root / key / RECORD
            raise DriverError.of(Code.DataLoss, f"{path} cannot be read; put it right, or delete the cluster")
        if (found := self._all.get(key)) is None:
            found = self._all[key] = self._new(request)
        try:
            await self._bridge.hold(found.address)
            async with self._files:
                await asyncio.to_thread(self._write, key, found)
        except (DriverError, OSError) as error:
            if not (self._root / key / RECORD).exists() and self._all.pop(key, None) is not None:
                with suppress(DriverError):
                    await self._bridge.let_go(found.address)
            raise _told(error) from None
        await self._listen(key, found)
        if not await self._until(lambda: self._listens(key), START_SECONDS):
            status = self._supervisor.status(key)
            why = status.message if status is not None and status.message else "it starts"
            message = f"the balancer at {found.address}:{PORT} does not listen yet: {why}"
            raise DriverError.of(Code.Unavailable, message)
        return found.address

    async def release(self, request: ClassRequest) -> None:
        """End the balancer and give the address back; one that is not there is success.

        Raises:
            DriverError: it does not end, or something of it cannot be removed (``Internal``).
        """
        key = key_of(request)
        if not any(key in each for each in (self._all, self._aside, self._releasing)):
            return
        if key not in self._releasing:
            task = self._releasing[key] = asyncio.create_task(self._released(key))
            task.add_done_callback(lambda _: self._releasing.pop(key, None))
        await asyncio.shield(self._releasing[key])

    async def follow(self, owner: str) -> None:
        """The VMs of a control plane are others now."""
        for key, each in list(self._all.items()):
            if owner and each.owner == owner:
                await self._tell(key, each)

    def _new(self, request: ClassRequest) -> Endpoint:
        meta = request.machine_class.metadata
        address = self._bridge.free((*self._known.taken(), *self.addresses))
        return Endpoint(namespace=meta.namespace, name=meta.name, owner=meta.uid, address=address)

    def _write(self, key: str, endpoint: Endpoint) -> None:
        """The record and the VMs, where they do not stand there already."""
        lines = "".join(f"{each}\n" for each in sorted(self._known.members(endpoint.owner)))
        record.make_folder(self._root / key)
        for name, content in ((RECORD, msgspec.json.encode(endpoint)), (INSTANCES, lines.encode())):
            path = self._root / key / name
            if not path.exists() or path.read_bytes() != content:
                record.replace_file(path, content)

    async def _listen(self, key: str, endpoint: Endpoint) -> None:
        await self._tell(key, endpoint)
        asked = (f"--ready={READY}", f"--instances={self._root / key / INSTANCES}")
        self._supervisor.want(balancer(key, (endpoint.address, PORT), asked, {}))

    async def _begin_again(self, key: str, endpoint: Endpoint) -> None:
        """With its folder the record of its process is gone, without which no later supervisor finds it."""
        log.warning("the folder of an endpoint was deleted", endpoint=endpoint.address)
        self._supervisor.drop(key)
        await self._until(lambda: self._supervisor.status(key) is None, END_SECONDS)
        if key in self._all and key not in self._releasing:
            await self._listen(key, endpoint)

    async def _tell(self, key: str, endpoint: Endpoint) -> None:
        try:
            async with self._files:
                if key in self._all:  # else it was released meanwhile
                    await asyncio.to_thread(self._write, key, endpoint)
        except OSError as error:
            why = error.strerror
            log.warning("an endpoint does not learn of its VMs", endpoint=endpoint.address, why=why)

    async def _released(self, key: str) -> None:
        address = self._all[key].address if key in self._all else self._aside[key]
        self._supervisor.drop(key)
        if not await self._until(lambda: self._supervisor.status(key) is None, END_SECONDS):
            raise DriverError.of(Code.Internal, f"the balancer at {address} does not end")
        if address:
            await self._bridge.let_go(address)
        async with self._files:
            try:
                with suppress(FileNotFoundError):  # deleted by a user
                    await asyncio.to_thread(shutil.rmtree, self._root / key)
            except OSError as error:
                raise _told(error) from None
            self._all.pop(key, None)
            self._aside.pop(key, None)

    def _listens(self, key: str) -> bool:
        status = self._supervisor.status(key)
        return status is not None and status.ready

    async def _until(self, fits: Callable[[], bool], seconds: float) -> bool:
        """Wait for so many seconds; whether it fits then."""
        try:
            async with asyncio.timeout(seconds):
                while not fits():
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            return False
        return True

    def _folders(self) -> list[str]:
        """Those that have a record, or a balancer: one with neither was never answered."""
        record.make_folder(self._root)
        return sorted(
            {each.parent.name for each in self._root.glob(f"*/{RECORD}")} | {*self._supervisor.recorded()}
        )

    def _readable(self, keys: Iterable[str]) -> dict[str, Endpoint]:
        """Those of these endpoints whose record can be read."""
        found = {}
        for key in keys:
            content = b""
            try:
                content = (self._root / key / RECORD).read_bytes()
                found[key] = msgspec.json.decode(content, type=Endpoint)
            except (OSError, msgspec.DecodeError):
                address = re.search(r'"address":\s*"([0-9.]{7,15})"', content.decode(errors="replace"))
                if key in self._aside and address is not None:
                    self._aside[key] = address[1]
        return found


def key_of(request: ClassRequest) -> str:
    """The name of an endpoint's folder."""
    meta = request.machine_class.metadata
    return hashlib.sha256("\0".join((meta.namespace, meta.name, meta.uid)).encode()).hexdigest()[:16]


def _told(error: Exception) -> DriverError:
    if isinstance(error, DriverError):
        return error
    said = error.strerror if isinstance(error, OSError) else str(error)
    return DriverError.of(Code.Internal, f"the record of the endpoint cannot be kept: {said}")
