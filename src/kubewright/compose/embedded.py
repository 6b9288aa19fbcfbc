"""``up``: an API server, all controllers and a simulated cloud in one process and one folder.

Theory.      Our own controllers call the server in process, all other clients over TLS. A start goes in
             this order: the API server, the drivers, its listener, the kubeconfig, CRDs and classes; then the
             manager runs until it is told to stop. The simulated cloud is always there; another driver that
             is named comes beside it, and then a class or an object without a driver's name means that one.
             Everything is in the data folder, so stopping and starting again continues with the same machines
             and the same VMs.
Invariants.  One process per folder (the store's lock). Nothing listens beyond loopback, unless a user names
             another address, or a driver that a user has named makes VMs that have to reach this machine.
             Later starts use the same port. Objects that exist (CRDs, roles, classes) are not written again
             on a restart, so what users changed in them stays. When the folder is deleted, ``serve`` ends
             within seconds.
Called by    ``cli.up``, ``cli.demo`` and ``testing`` (without a folder: all in memory, no listener).
"""

import asyncio
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec

from kubewright import builtin
from kubewright.api.admission import Rules
from kubewright.api.bootstrap import manifests as bootstrap_manifests
from kubewright.api.capacity import manifests as capacity
from kubewright.api.catalog import EMBEDDED_RULES, with_migrated
from kubewright.api.cluster import manifests as cluster_manifests
from kubewright.api.controlplane import manifests as controlplane_manifests
from kubewright.api.core import CLUSTER_ROLE, CRD, LEASE, SECRET
from kubewright.api.infra import manifests as infra_manifests
from kubewright.api.kinds import Kind
from kubewright.api.machine import manifests as machine_manifests
from kubewright.api.machine.v1alpha1 import MACHINE_CLASS
from kubewright.apiserver.http import kubeconfig, pki
from kubewright.apiserver.http.answers import failure
from kubewright.apiserver.http.authn import Authenticator
from kubewright.apiserver.http.connections import Connections
from kubewright.apiserver.http.listener import Listener, PortTaken
from kubewright.apiserver.http.reach import LOOPBACK
from kubewright.apiserver.http.requests import ResourcePath, parse_path
from kubewright.apiserver.server import ApiServer
from kubewright.apiserver.store.log import DATA_FILE, LOCK_FILE
from kubewright.base.clock import Clock
from kubewright.base.errors import InvalidInput, single
from kubewright.bootstrap import joining
from kubewright.builtin.nodelife import Settings as NodeSettings
from kubewright.compose.assembly import Assembly, close
from kubewright.compose.folder import (
    COMPONENTS_FOLDER,
    PKI_FOLDER,
    SERVER_FOLDER,
    SNAPSHOTS_FOLDER,
    Address,
    Claims,
    DiskFailed,
    Presence,
    check_server_folder,
    private_folder,
    recall,
    remember,
    snapshots_folder,
)
from kubewright.compose.options import DATA_DIR, Election, Options, ServerConfig
from kubewright.compose.own_planes import OwnPlanes
from kubewright.compose.worlds import migrated_by
from kubewright.controlplanes.hosting.contract import Hosting, Hosts
from kubewright.controlplanes.hosting.processes import options as processes
from kubewright.controlplanes.hosting.processes.addresses import covers
from kubewright.controlplanes.hosting.processes.host import ProcessHosting
from kubewright.driver import registry
from kubewright.driver.contract import Driver, Local
from kubewright.driver.errors import DriverError
from kubewright.kube.client import Client
from kubewright.kube.transport import InProcess
from kubewright.pki.certificates import Identity
from kubewright.providers import CLOUD_FILE
from kubewright.providers.sim import manifests
from kubewright.providers.sim.vm import SCHEME as SIMULATED
from kubewright.runtime.leader import Elector
from kubewright.runtime.manager import Manager, Settings
from kubewright.runtime.metrics import Metered, Metrics
from kubewright.runtime.records import PATH, wanted_waits
from kubewright.runtime.world import World
from kubewright.wire.errors import AlreadyExists, Unavailable
from kubewright.wire.gvk import Key
from kubewright.wire.http import Handler, Request, Response


class RenewalHandler:
    """A ``Handler`` that tells ``electors`` of each request for their Lease, and then passes it on."""

    def __init__(self, handler: Handler) -> None:
        self.electors: Sequence[Elector] = ()
        self._handler = handler

    async def handle(self, request: Request) -> Response:
        """Answer one request of another process."""
        path = parse_path(request.path)
        if path is not None and (path.group, path.plural) == (LEASE.resource.group, LEASE.resource.plural):
            concerned = [each for each in self.electors if _names(path, each.key)]
            ready = await asyncio.gather(*(each.renew_for_others() for each in concerned))
            if not all(ready):
                return failure(Unavailable("the leader cannot renew its lease", retry_after=1))
        return await self._handler(request)


def _names(path: ResourcePath, key: Key) -> bool:
    """Whether a request to this path may read or write this Lease; an empty part of a path means any."""
    return path.namespace in ("", key.namespace) and path.name in ("", key.name)


IDENTITY = "kubewright-up"
"""Our identity as a candidate: the holder in the Leases while we lead."""

READY_SECONDS = 30.0
"""How long caches may take to fill before ``serve`` gives up: short, since the server is in this process."""


class Embedded:
    """``async with Embedded(...) as embedded: await embedded.serve(stop)``.

    ``admission``: the rules that its server calls; none, as on a server where nobody has installed webhooks.

    Raises:
        InvalidInput: the folder is in use or cannot be used, the port is taken, an option is wrong.
    """

    def __init__(
        self,
        config: ServerConfig | None,
        options: Options,
        clock: Clock,
        *,
        admission: Iterable[Rules[Any]] = EMBEDDED_RULES,
    ) -> None:
        self.clock = clock
        self.config = config
        accept_loss = config is not None and config.accept_loss
        self._drivers: dict[str, Driver] = {}
        self.server = _api_server(config, clock, with_migrated(admission, lambda: migrated_by(self._drivers)))
        self._complete = self.server.used_before and not accept_loss
        """The folder has all that a start makes in it; what is missing is lost."""
        self.metrics = Metrics()
        self.server.counts.beside.append(self.metrics.render)
        transport = Metered(InProcess(self.server.handle), self.metrics, "embedded")
        self.client = Client(transport, clock, name="embedded", one_clock=True)
        self.others = RenewalHandler(self.server.handle)
        """The server as other processes reach it."""
        self.url = ""
        self._authority: Identity | None = None  # of a server in memory, to which no client connects by TLS
        self._options = options
        self._stack = AsyncExitStack()
        self._connections = Connections(clock)
        self._own = OwnPlanes(
            clock,
            None if config is None else config.data_dir,
            accept_loss=accept_loss,
            listens=config is not None,
            grace=options.grace,
            connections=self._connections,
            claims=Claims(self.server),
        )
        self.planes = self._own.planes
        """The control planes of clusters in this process: at sockets and in the data folder, or in memory."""
        self.nested = self._own.nested
        """Those of them that NestedControlPlanes describe, whose components are therefore in this process."""
        self.manager: Manager

    @property
    def driver(self) -> Driver:
        """The one that the options name."""
        return self._drivers[self._options.driver]

    @property
    def kubeconfig(self) -> Path:
        """Where the kubeconfig is.

        Raises:
            InvalidInput: this server is in memory and has none.
        """
        if self.config is None:
            raise InvalidInput("a server in memory has no kubeconfig")
        return self.config.kubeconfig_path

    async def __aenter__(self) -> Self:
        try:
            await self.server.start()
            self._stack.push_async_callback(self.server.close)
            self._stack.push_async_callback(self._own.close)
            self._load_drivers()
            await self._listen_where_vms_are()
            await self._start_listener()
            beside = server_worlds(self._options, self._authority)
            hosts = Hosts(self.nested, await self._processes(), self._snapshots())
            assembly = Assembly(
                self.client,
                self.client,
                self.driver,
                self._options,
                self.metrics,
                beside=beside,
                others=self._drivers,
                connect=self._own.connect(),
                hosts=lambda _environment: hosts,
            )
            await self._create_objects(assembly)
            await self._let_machines_join()
            self.manager = self._manager(assembly)
            self.server.pages[PATH] = self._plans
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    async def serve(self, stop: asyncio.Event, ready: Callable[[], None] = lambda: None) -> None:
        """Run everything until ``stop`` is set; ``ready`` is called once every group works or stands by.

        Raises:
            FolderGone: the data folder was deleted while it was served.
            DiskFailed: the data folder cannot be written any more.
        """
        try:
            async with asyncio.TaskGroup() as group:
                watchers = (self._until_working(ready), self._until_folder_gone(), self._until_broken())
                beside = [group.create_task(each) for each in watchers]
                await self.manager.run(stop)
                for task in beside:
                    task.cancel()
        except BaseExceptionGroup as errors:
            raise single(errors) from None

    async def _until_working(self, ready: Callable[[], None]) -> None:
        async with asyncio.timeout(READY_SECONDS):
            await self.manager.settled()
        ready()

    async def _until_broken(self) -> None:
        """Raise the store's own error, before its effects are seen, such as Leases that cannot be renewed."""
        raise DiskFailed(await self.server.broken())

    async def _until_folder_gone(self) -> None:
        """Raise when the lock or a database file is deleted or moved away; SQLite would not notice."""
        if self.config is None:
            return
        server = self.config.data_dir / SERVER_FOLDER
        files = (server / LOCK_FILE, server / DATA_FILE, self.config.data_dir / CLOUD_FILE)
        await Presence(files).watch(self.clock)

    async def _start_listener(self) -> None:
        if self.config is None:
            return
        keys = pki.in_folder(
            self.config.data_dir / PKI_FOLDER,
            self.clock,
            had_one=self._complete,
            names=self.config.reach.certified,
        )
        self._authority = keys.signer
        self.server.reach_kubelets(keys.to_kubelets, self._own.planes.streams)
        listener = await self._listening(self.config, keys)
        self._stack.push_async_callback(listener.close)
        self.url = listener.url
        content = kubeconfig.render(self.url, keys.authority, keys.admin)
        kubeconfig.write(self.config.kubeconfig_path, content, self.config.data_dir)
        where = str(self.config.kubeconfig_path.absolute())
        remember(self.config.data_dir, Address(listener.port, self.url, where, self.clock.now()))

    async def _listening(self, config: ServerConfig, keys: pki.Pki) -> Listener:
        """A listener at the port of the options, else at that of the last start, else at a free one."""
        kept = recall(config.data_dir) if config.port is None else None
        port = kept.port if kept is not None else config.port or 0
        authenticator = Authenticator(self.clock, self.server.user_of_token)
        listener = Listener(
            self.others.handle,
            authenticator,
            keys,
            port=port,
            reach=config.reach,
            connections=self._connections,
        )
        try:
            await listener.start()
        except PortTaken:
            if kept is None:
                raise
            raise InvalidInput(
                f"port {port}, where {config.data_dir} was served so far, is taken by another program; end "
                "that one, or let --port 0 pick another; copies of the kubeconfig will not have it"
            ) from None
        return listener

    async def _processes(self) -> Hosting | None:
        """The host that runs components as processes, which go on when this one ends. None: no folder."""
        if self.config is None:
            return None
        folder = private_folder(self.config.data_dir / COMPONENTS_FOLDER)
        chosen = processes.settings(self._options.processes, folder, os.environ)
        self.planes.served_by_process = partial(covers, chosen.addresses)
        return await self._stack.enter_async_context(ProcessHosting(chosen, self.clock))

    def _snapshots(self) -> Path | None:
        """The folder for snapshots of control planes; it is this process's alone, as the data folder is."""
        return None if self.config is None else snapshots_folder(self.config.data_dir / SNAPSHOTS_FOLDER)

    def _plans(self, request: Request) -> bytes:
        """The page of the controllers' last passes."""
        found = self.manager.plans(
            namespace=request.param("namespace"),
            name=request.param("name"),
            waits=wanted_waits(request.param("waits")),
            provider=dict(request.query).get("provider"),
        )
        return msgspec.json.encode(found)

    def _load_drivers(self) -> None:
        """The one that the options name, and the simulated cloud."""
        named, given = self._options.driver, dict(self._options.driver_options)
        folder = None if self.config is None else self.config.data_dir
        names = dict.fromkeys((SIMULATED, named))
        for name in names:
            place, options = folder, given if name == named else {}
            if name != SIMULATED and (own := options.pop(DATA_DIR, None)):
                place = private_folder(Path(own))
            beside = frozenset(names) - {name}
            settings = registry.Settings(self.clock, place, options, self._complete, beside)
            loaded = self._drivers[name] = self._own.under(registry.load(name, settings))
            self._stack.push_async_callback(close, loaded)

    async def _listen_where_vms_are(self) -> None:
        """Where VMs of a driver reach this machine, unless the user says where."""
        hosts = await self._host_addresses()
        if hosts and self.config is not None and self.config.reach.address == LOOPBACK:
            self.config = replace(self.config, reach=replace(self.config.reach, address=hosts[0]))

    async def _host_addresses(self) -> list[str]:
        """Those at which VMs of the drivers reach this machine, and so this server.

        Raises:
            InvalidInput: a driver cannot have its own.
        """
        found = []
        for name, driver in self._drivers.items():
            try:
                found += [await driver.host_address()] if isinstance(driver, Local) else []
            except DriverError as error:
                raise InvalidInput(f"driver {name}: {error.message}") from None
        return [each for each in found if each]

    async def _create_objects(self, assembly: Assembly) -> None:
        """Create the CRDs of the worlds that run, ClusterRoles, and the first classes where machines run.

        Objects that exist stay as they are.
        """
        for crd in assembly.definitions():
            await self._ensure(CRD, crd)
        for api in (
            machine_manifests,
            cluster_manifests,
            bootstrap_manifests,
            infra_manifests,
            controlplane_manifests,
            capacity,
        ):
            for role in api.roles_of_users():
                await self._ensure(CLUSTER_ROLE, role)
        for body in manifests.objects() if assembly.runs(MACHINE_CLASS) else ():
            await self._ensure(SECRET if body["kind"] == "Secret" else MACHINE_CLASS, body)

    async def _let_machines_join(self) -> None:
        """Create what ``kubeadm init`` makes for machines that join, where they can reach this server."""
        if self.config is None or self._authority is None or not self.config.reach.others:
            return
        where = f"{self.config.reach.others}:{self.url.rpartition(':')[2]}"
        await joining.ensure(
            self.client, joining.Joining(where, self._authority.certificate, kubeconfig.NAME)
        )

    async def _ensure(self, kind: Kind[Any], body: Mapping[str, Any]) -> None:
        with suppress(AlreadyExists):
            await self.client.create(kind, body)

    def _manager(self, assembly: Assembly) -> Manager:
        """In memory no other process can reach the server. A folder's server can be reached, so there our
        controllers work under Leases, which are renewed when another process asks for them.

        The folder's lock allows one ``up`` per folder, so its identity in the Leases can stay the same: an
        ``up`` after one that was killed need not wait until the Leases expire.
        """
        settings = Settings(sync_seconds=READY_SECONDS, tune_gc=self.config is not None)
        election = Election(enabled=self.config is not None, renew_on_request=True)
        groups = assembly.groups(election, IDENTITY, settings)
        self.others.electors = [each.elector for each in groups if isinstance(each.elector, Elector)]
        driver_of, services = assembly.driver_of, assembly.services
        return Manager(assembly.informers, groups, services=services, driver_of=driver_of)


def _api_server(config: ServerConfig | None, clock: Clock, admission: Iterable[Rules[Any]]) -> ApiServer:
    if config is None:
        return ApiServer(clock, admission=admission)
    path = private_folder(config.data_dir) / SERVER_FOLDER
    if not config.accept_loss:
        check_server_folder(config.data_dir)
    return ApiServer(clock, path=path, accept_loss=config.accept_loss, admission=admission)


def server_worlds(options: Options, authority: Identity | None = None) -> tuple[World, ...]:
    """The worlds that only an embedded server runs: elsewhere, Kubernetes' own programs do their work.

    ``authority``: the server's; None: it has none.
    """
    nodes = NodeSettings(grace=options.grace)
    settings = builtin.Settings(nodes=nodes, schedule_pods=True, run_apps=True, authority=authority)
    return (builtin.world(settings),)
