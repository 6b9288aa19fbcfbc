"""Addresses for the API servers of clusters whose control planes are VMs here: one and a balancer for each.

Theory.      The control plane of a cluster is several VMs, which come and go, and everything names one
             address. On the bridge this machine can have as many as it likes, and both VMs and this machine
             reach them. At each a balancer of ours listens (``processes.balancer``), a process of its own:
             like the VMs it goes on while no Kubewright runs, so a node does not lose its API server when
             Kubewright is upgraded. Which VMs are behind it stands in a file, which the balancer reads again
             all the time: what the driver knows is written there whenever a control plane's VM is made or
             goes, at each start, and again and again: a file may be deleted, and a disk full. Which of them
             are ready the balancer asks itself.
             A record that cannot be read is one cluster's misfortune, as that of a VM (``vms``): its balancer
             goes on, its address stays taken, and it is read again all the time.
Invariants.  An endpoint keeps its address until it is released: it is on record before it is answered. One
             process at a time works here; the lock of the VMs' folder says which.
Layout       ``endpoints/<hash of namespace, name and owner>``: ``endpoint.json`` the record, ``instances``
             the addresses of VMs, and what ``processes.record`` keeps.
Source       decisions 0032 and 0064.
Called by    ``driver``.
"""

import asyncio
import hashlib
import re
import shutil
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec
import structlog

from kubewright.base.clock import Clock
from kubewright.driver.contract import ClassRequest
from kubewright.driver.errors import Code, DriverError
from kubewright.processes import record
from kubewright.processes.program import balancer
from kubewright.processes.supervisor import Supervisor
from kubewright.providers.qemu.bridge import Bridge

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
