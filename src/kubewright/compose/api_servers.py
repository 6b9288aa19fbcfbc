"""Control planes in this process: an embedded API server for each.

Theory.      A machine of the simulated cloud that runs ``kubeadm init`` gets an API server of its own, with
             the authority that its bootstrap data brought: so the kubeconfig that the core makes from the
             same authority works, and no other does. It listens on loopback at the address that the cluster
             was given as its endpoint. Without ``listens`` no socket is opened: tests on virtual time, and
             worlds with a thousand clusters, reach it in process.
             The life cycle of nodes runs beside it, which sees a machine die; the scheduler and what else
             kube-controller-manager has join it when there is work for them (``plane_controllers``). A hosted
             control plane, which objects describe, brings its own certificate, and its controllers are a
             component of their own (``task_hosting``): only its API server runs here.
Invariants.  Nothing listens beyond loopback. A reserved port is bound from then on: until its control plane
             listens, and while that pauses, no other program gets it, and no connection leaves from it.
             No machine starts a control plane at the address of a hosted one. A control plane that pauses
             keeps its objects; one that ends loses its folder. The control plane of an address begins,
             pauses and ends one step at a time, also where the step before was cancelled. Writes survive
             ``kill -9`` but not the loss of power, because a thousand control planes cannot wait for the disk
             at each write.
Called by    the simulated cloud (``providers.sim.boots``), by its port ``ControlPlanes``; ``task_hosting``.
"""

import asyncio
import shutil
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from pathlib import Path
from weakref import WeakValueDictionary

from kubewright import builtin
from kubewright.api.bootstrap.names import TOKEN_GROUPS, TOKEN_NAMESPACE, TOKEN_TYPE, token_secret_name
from kubewright.api.core import SECRET
from kubewright.apiserver.http.authn import Authenticator
from kubewright.apiserver.http.connections import Connections
from kubewright.apiserver.http.dialing import Streams
from kubewright.apiserver.http.kubelet_requests import may_be_dialled
from kubewright.apiserver.http.listener import HOST, Listener
from kubewright.apiserver.http.pki import ADMIN, NAMES, TO_KUBELETS, Pki
from kubewright.apiserver.server import ApiServer, opened
from kubewright.apiserver.store.log import DATA_FILE, SqliteLog
from kubewright.base.clock import Clock
from kubewright.base.errors import InvalidInput
from kubewright.builtin.nodelife import Settings as NodeSettings
from kubewright.compose.folder import CLUSTERS_FOLDER, Claims
from kubewright.compose.plane_controllers import (
    begun_again,
    concerns_controllers,
    controllers_of,
    when_needed,
)
from kubewright.kube.client import Client
from kubewright.kube.informer import Informers
from kubewright.kube.transport import InProcess
from kubewright.pki import clusters
from kubewright.pki.certificates import Identity, new_client, new_server
from kubewright.pki.keys import Algorithm
from kubewright.providers.sim.tls_bootstrap import PlaneRequest, hosted_already
from kubewright.runtime.manager import Group, Manager, Work
from kubewright.wire.errors import AlreadyExists
from kubewright.wire.http import Request, Response

LIFETIME = timedelta(days=365)
"""Of the certificates that a control plane makes for itself, as kubeadm's."""

TRIES = 100
"""How many free ports are tried before a reservation fails; almost always the first is good."""

FIRST_PORT = 20_000
"""Ports above this make addresses where nothing listens: they are only names."""

MOST_OPENING = 8
"""Data folders that are opened at the same time: each waits for the disk."""


@dataclass(slots=True)
class Plane:
    """A ``boot.control_planes.ControlPlane``. It serves while it has a ``task``; ``stop`` ends it.

    ``keys``    the authority of its clients, and its own certificate; made when it begins to listen
    ``hosted``  objects describe it, and no machine runs it; nothing of a controller manager runs beside it
    ``touched`` is set once a client has sent a request that concerns its controllers
    """

    address: str
    server: ApiServer
    authority: bytes
    keys: Callable[[], Pki]
    informers: Informers
    hosted: bool = False
    listener: Listener | None = None
    touched: asyncio.Event = field(default_factory=asyncio.Event)
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None

    @property
    def serves(self) -> bool:
        return self.task is not None

    @property
    def client(self) -> Client:
        return self.informers.client

    def accepts(self, token: str) -> bool:
        return self.server.user_of_token(token) is not None

    async def handle(self, request: Request) -> Response:
        """Answer a request of a client, at its socket or in process. Its kubelets have ``informers``."""
        if not self.touched.is_set() and concerns_controllers(request):
            self.touched.set()
        return await self.server.handle(request)


class Planes:
    """All control planes in this process: implements ``ControlPlanes``. ``folder`` None: in memory.

    ``connections``: those of all listeners of the process; None: these planes have the only ones.
    ``accept_loss``: start also those whose folders have less than was committed.
    ``claims``: where it stands that the data of machines' control planes must be there at each start; of
    nested ones ``kept_planes`` says so.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        folder: Path | None = None,
        listens: bool = False,
        nodes: NodeSettings | None = None,
        connections: Connections | None = None,
        accept_loss: bool = False,
        claims: Claims | None = None,
    ) -> None:
        self._clock = clock
        self._claims = claims or Claims()
        self._accept_loss = accept_loss
        self._connections = Connections(clock) if connections is None else connections
        self.streams = Streams()
        """To kubelets, of all servers of the process."""
        self._folder = folder
        self._listens = listens
        self._nodes = nodes or NodeSettings()
        beside = builtin.Settings(watch_nodes=False, schedule_pods=True, run_apps=True)
        self._run_controllers = begun_again(when_needed(controllers_of(beside, clock)))
        self._planes: dict[str, Plane] = {}
        self._reserved: dict[str, str] = {}
        self._owners: dict[str, str] = {}
        """The owners of addresses, by address."""
        self._hosted: set[str] = set()
        """The addresses of hosted control planes."""
        self._listeners: list[Callable[[str], None]] = []
        self.served_by_process: Callable[[str], bool] = lambda _address: False
        """As ``ControlPlanes.served_by_process``; set where other processes run control planes."""
        self._bound: dict[str, socket.socket] = {}
        self._last_port = FIRST_PORT
        self._threads = ThreadPoolExecutor(MOST_OPENING, thread_name_prefix="open")
        self._steps: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        """Held by who begins, pauses or ends the control plane of an address."""

    def reserve(self, owner: str, *, hosted: bool = False) -> str:
        """As ``ControlPlanes.reserve``. ``hosted``: for a hosted control plane."""
        if owner not in self._reserved:
            address = self._reserved[owner] = self._free_address()
            self._owners[address] = owner
            if hosted:
                self._hosted.add(address)
        return self._reserved[owner]

    def restore(self, owner: str, address: str) -> None:
        """Reserve the address that the owner of a hosted control plane got in an earlier process."""
        self.release(owner)
        self._reserved[owner], self._owners[address] = address, owner
        self._hosted.add(address)
        if self._listens:
            self._bind(address, int(address.rpartition(":")[2]))
        self._last_port = max(self._last_port, int(address.rpartition(":")[2]) if not self._listens else 0)

    def release(self, owner: str) -> None:
        """As ``ControlPlanes.release``."""
        if (address := self._reserved.pop(owner, None)) is not None:
            self._owners.pop(address, None)
            self._hosted.discard(address)
            self._unbind(address)

    def listen(self, changed: Callable[[str], None]) -> Callable[[], None]:
        """As ``ControlPlanes.listen``."""
        self._listeners.append(changed)
        return lambda: self._listeners.remove(changed)

    def is_ours(self, address: str) -> bool:
        """Whether this address is one of ours, whether or not an API server answers there now."""
        return address in self._planes or address in self._owners

    def has_data(self, address: str) -> bool:
        """Whether there is a folder with data of this address."""
        path = self._path(address)
        return path is not None and path.exists()

    def knows(self, address: str) -> bool:
        """Whether a cluster has this address, also one whose machines have not booted since our start."""
        return self.is_ours(address) or self.has_data(address)

    def data_folder(self, address: str) -> Path | None:
        """Where the data of this address is, or would be; None: it is in memory."""
        return self._path(address)

    def find(self, address: str) -> Plane | None:
        """As ``ControlPlanes.find``."""
        plane = self._planes.get(address)
        return plane if plane is not None and plane.serves else None

    async def begin(self, request: PlaneRequest) -> Plane:
        """As ``ControlPlanes.begin``.

        Raises:
            InvalidInput: the authority cannot be read, the address cannot be listened at, or it is that of
                a hosted control plane.
        """
        if request.address in self._hosted:
            raise InvalidInput(hosted_already(request.address))
        async with self._step(request.address):
            return await self._begin(request)

    async def _begin(self, request: PlaneRequest) -> Plane:
        plane = self._planes.get(request.address)
        if plane is None:
            identity = self._identity(request)
            made = partial(self._keys, request, identity)
            plane = self._planes[request.address] = await self._new_plane(
                request.address, identity.certificate, made
            )
            if self._folder is not None:
                self._claims.add(_data_file(request.address))
        if not plane.serves:
            await self._serve(plane)
            await self._create_tokens(plane, request.tokens)
        return plane

    async def begin_hosted(self, address: str, keys: Pki) -> Plane:
        """Start the API server of a hosted control plane with these keys; or answer the one that serves.

        Raises:
            InvalidInput: the address cannot be listened at.
        """
        async with self._step(address):
            plane = self._planes.get(address)
            if plane is None:
                plane = self._planes[address] = await self._new_plane(address, keys.authority, lambda: keys)
            if not plane.serves:
                plane.authority, plane.keys, plane.hosted = keys.authority, lambda: keys, True
                await self._serve(plane)
                self._tell(address)
            return plane

    async def pause(self, address: str) -> None:
        """As ``ControlPlanes.pause``."""
        async with self._step(address):
            await self._pause(address)

    async def _pause(self, address: str) -> None:
        if (plane := self._planes.get(address)) is None:
            return
        plane.stop.set()
        task, plane.task = plane.task, None
        listener, plane.listener = plane.listener, None
        if task is not None:
            await asyncio.wait([task])
        if listener is not None:
            await listener.close()
            self._bind(address, int(address.rpartition(":")[2]))
        if plane.hosted:
            self._tell(address)

    async def unload(self, address: str) -> None:
        """Stop it and free its memory; its folder stays. A control plane in memory is only paused."""
        async with self._step(address):
            await self._pause(address)
            if self._folder is not None and (plane := self._planes.pop(address, None)) is not None:
                await plane.server.close()

    async def end(self, address: str) -> None:
        """As ``ControlPlanes.end``. Data that a restore has put aside goes too."""
        async with self._step(address):
            await self._end(address)

    async def _end(self, address: str) -> None:
        await self._pause(address)
        if (plane := self._planes.pop(address, None)) is not None:
            await plane.server.close()
        if address not in self._owners:
            self._unbind(address)
        if (folder := self._path(address)) is not None:
            self._claims.drop(_data_file(address))
            for each in (folder, *folder.parent.glob(f"{folder.name}.*")):
                shutil.rmtree(each, ignore_errors=True)

    async def close(self) -> None:
        """Stop all of them, also those that are just beginning; what is in folders stays."""
        for address in {**self._planes, **self._steps}:
            async with self._step(address):
                await self._pause(address)
                if (plane := self._planes.pop(address, None)) is not None:
                    await plane.server.close()
        for address in list(self._bound):
            self._unbind(address)
        self._threads.shutdown(wait=False)

    def _step(self, address: str) -> asyncio.Lock:
        return self._steps.setdefault(address, asyncio.Lock())

    async def _new_plane(self, address: str, authority: bytes, keys: Callable[[], Pki]) -> Plane:
        path = self._path(address)
        log = None if path is None else await self._opened(path)
        try:
            server = ApiServer(self._clock, path=path, log=log, webhooks=may_be_dialled)
            await server.start()
        except BaseException:  # no caller gets the server, so its data folder is closed here
            if log is not None:
                log.close()
            raise
        client = Client(InProcess(server.handle), self._clock, name=f"cluster {address}")
        return Plane(address, server, authority, keys, Informers(client))

    async def _opened(self, path: Path) -> SqliteLog:
        """The log of a control plane. A thread opens it: a disk that is slow delays no other control plane.

        Raises:
            InvalidInput: as ``opened``.
        """
        work = partial(opened, path, power_loss=False, accept_loss=self._accept_loss)
        opening = asyncio.get_running_loop().run_in_executor(self._threads, work)
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            opening.add_done_callback(_close)  # its caller has left
            await asyncio.wait([opening])  # until then the folder can be neither opened nor deleted
            raise

    def _identity(self, request: PlaneRequest) -> Identity:
        if not request.authority:
            made = clusters.new_cluster_authority(self._clock.now(), Algorithm.EC)
            return Identity.from_pem(made.certificate + made.key)
        try:
            return Identity.from_pem(request.authority + b"\n" + request.authority_key)
        except ValueError:
            wrong = f"kubeadm init: ca.crt and ca.key of {request.address} are not a certificate and its key"
            raise InvalidInput(f"{wrong} in PEM") from None

    async def _serve(self, plane: Plane) -> None:
        if self._listens:
            plane.listener = await self._listening(plane)
        plane.stop = asyncio.Event()
        plane.task = asyncio.create_task(self._run(plane, plane.stop), name=f"control plane {plane.address}")

    async def _run(self, plane: Plane, stop: asyncio.Event) -> None:
        """Run the caches and the controllers of a control plane until ``stop`` is set."""
        hosted = plane.hosted
        nodes = () if hosted else (builtin.node_lifecycle(plane.informers, self._nodes, workers=1),)
        work = Work(nodes, [plane.informers])
        manager = Manager([plane.informers], [Group(plane.address, self._clock, lambda: work)])
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(manager.run(stop))
            if not hosted:
                tasks.create_task(self._run_controllers(plane, stop))

    def _keys(self, request: PlaneRequest, identity: Identity) -> Pki:
        """Certificates that the control plane makes for itself."""
        host, now = request.address.rpartition(":")[0], self._clock.now()
        names = dict.fromkeys((host.strip("[]"), *NAMES, *request.names))
        server = new_server(identity, names, now, LIFETIME)
        admin, kubelets = (new_client(identity, user, now, LIFETIME) for user in (ADMIN, TO_KUBELETS))
        return Pki(identity.certificate, server, admin, to_kubelets=kubelets)

    async def _listening(self, plane: Plane) -> Listener:
        port = plane.address.rpartition(":")[2]
        authenticator = Authenticator(self._clock, plane.server.user_of_token)
        held = self._bound.pop(plane.address, None)
        keys = plane.keys()
        tenant = f"the control plane at {plane.address}"
        plane.server.reach_kubelets(keys.to_kubelets, self.streams, tenant)
        listener = Listener(
            plane.handle,
            authenticator,
            keys,
            port=int(port),
            held=held,
            connections=self._connections,
            tenant=tenant,
        )
        await listener.start()
        return listener

    async def _create_tokens(self, plane: Plane, tokens: tuple[str, ...]) -> None:
        for token in tokens:
            token_id, _, secret = token.partition(".")
            data = {
                "token-id": token_id,
                "token-secret": secret,
                "usage-bootstrap-authentication": "true",
                "usage-bootstrap-signing": "true",
                "auth-extra-groups": TOKEN_GROUPS,
            }
            meta = {"name": token_secret_name(token_id), "namespace": TOKEN_NAMESPACE}
            body = {"metadata": meta, "type": TOKEN_TYPE, "stringData": data}
            with suppress(AlreadyExists):
                await plane.client.create(SECRET, body)

    def _free_address(self) -> str:
        """An address that no cluster has: at a free port; where no socket is opened, at the next number."""
        if not self._listens:
            self._last_port += 1
            return f"{HOST}:{self._last_port}"
        for _ in range(TRIES):
            address = self._bind()
            if address and not self.knows(address):
                return address
            self._unbind(address)
        raise InvalidInput(f"no port of {HOST} is free for another cluster")

    def _bind(self, address: str = "", port: int = 0) -> str:
        """Bind the port of an address, or a free one; the address, empty if another program has its port."""
        held = socket.socket()
        try:
            held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            held.bind((HOST, port))
        except OSError:
            held.close()
            return ""
        address = address or f"{HOST}:{held.getsockname()[1]}"
        self._bound[address] = held
        return address

    def _unbind(self, address: str) -> None:
        if (held := self._bound.pop(address, None)) is not None:
            held.close()

    def _tell(self, address: str) -> None:
        for changed in self._listeners:
            changed(address)

    def _path(self, address: str) -> Path | None:
        return None if self._folder is None else self._folder / _folder_of(address)


def _close(opening: "asyncio.Future[SqliteLog]") -> None:
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close()


def _folder_of(address: str) -> str:
    return address.replace(":", "-")


def _data_file(address: str) -> str:
    """From the data folder on."""
    return f"{CLUSTERS_FOLDER}/{_folder_of(address)}/{DATA_FILE}"
