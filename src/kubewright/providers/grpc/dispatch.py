"""The driver port on drivers in other processes: a request goes to the one that serves its class.

Theory.      A driver says which classes are its: the kind, and for MachineClass its own name, which classes
             give as their ``provider``. A driver of 2018 registers a kind of a cloud (AWSMachineClass); it
             gets the MachineClasses whose provider is that kind, or the cloud's name in it (AWS). Classes
             without a provider are those of the driver that registered as ``externalDriver``. What such a
             driver cannot do is made of what it can: the status of a VM is looked up in the list, and so is
             the provider id for a deletion that has none. Drivers are let in only while this process leads:
             who does not lead does not listen, so drivers go on dialling until they reach the one that does.
             gRPC on the manager's side: the listener, who may come, and the three calls. The handlers are
             generic: they get bytes, and ``messages`` reads them. Both names under which the service was ever
             known have the same handlers. There is a listener while this process leads and no other time;
             several terms of one process share it. Certificates are read anew for each connection, so they
             may be renewed while it runs.
Invariants.  A class has one driver at most: who registers for classes that another serves is refused, while
             the stream of that one lives, or because it runs in this process and is asked first. A class
             without a driver is told so, as ``Unavailable`` and not begun: nothing is in doubt, and the
             machine goes on by itself when one registers. Whatever a driver answers, a caller gets an answer
             of the contract or a ``DriverError``.
             A Unix socket is in a folder of this user alone, and only this user can open it. No message above
             ``MESSAGE_BYTES`` is taken. A port that cannot be had is tried again, and told.
Source       GRP-09 to GRP-12.
Called by    the controllers through ``driver.guard``.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import grpc
import msgspec
import structlog

from kubewright.api.machine.v1alpha1 import MACHINE, MACHINE_CLASS, MachineClass
from kubewright.base.clock import Clock
from kubewright.driver.contract import ClassRequest, Instance, MachineRequest, Size, VolumeSpec
from kubewright.driver.errors import Code, DriverError, NotFound, Unimplemented
from kubewright.driver.guard import CALL_LIMITS
from kubewright.driver.guard import Operation as Verb
from kubewright.driver.registry import Settings
from kubewright.providers.grpc import operations
from kubewright.providers.grpc.connection import (
    CallStream,
    Connection,
    Contents,
    Limits,
    NotKept,
    Refused,
    Stream,
    Why,
    registered,
)
from kubewright.providers.grpc.messages import (
    MESSAGE_BYTES,
    Content,
    Created,
    Deleted,
    Failure,
    Initialized,
    Listed,
    MachineClassMeta,
    Malformed,
    Options,
    Params,
    Registration,
    SecretMeta,
    Shown,
    Sized,
    Status,
    VmAnswer,
    VolumeIds,
    decode,
    encode,
)
from kubewright.providers.grpc.operations import Kind

log = structlog.get_logger(__name__)

ANONYMOUS = "externalDriver"
"""The name of every driver of 2018."""
OURS = "grpc"
"""What a class may say that means these drivers and none of them."""
MOST_DRIVERS = 100
"""Drivers at a time; far below the calls that gRPC takes, so that there is room for what they fetch."""
NODES = 20_000
"""Node names that are kept."""
TELL_SECONDS = 300.0
"""From one line about a refusal to the next with the same reason."""
MARGIN = 5.0
"""Seconds by which we give up before the guard does, to say why; a quarter of a call that is short."""

VERBS = {
    Kind.CREATE: Verb.CREATE,
    Kind.INITIALIZE: Verb.INITIALIZE,
    Kind.DELETE: Verb.DELETE,
    Kind.STATUS: Verb.STATUS,
    Kind.LIST: Verb.LIST,
    Kind.VOLUME_IDS: Verb.VOLUME_IDS,
    Kind.VALIDATE: Verb.VALIDATE,
    Kind.SIZE: Verb.SIZE,
    Kind.UPDATE: Verb.UPDATE,
    Kind.CONSOLE: Verb.CONSOLE,
}

Key = tuple[str, str, str]
"""Kind, apiVersion, and for MachineClass the name."""


def limits_of(kind: Kind) -> Limits:
    """How long a caller waits for its turn, and for turn and answer."""
    seconds = CALL_LIMITS[VERBS[kind]].seconds
    return Limits(seconds / 4, seconds - min(MARGIN, seconds / 4))


class GrpcDriver:
    """A ``driver.contract.Driver`` whose verbs are carried out by drivers in other processes."""

    def __init__(self, settings: Settings, options: Options) -> None:
        self._clock = settings.clock
        self._beside = settings.beside
        self._connections: dict[Key, Connection] = {}
        self._told: dict[str, float] = {}
        """When which refusal was logged."""
        self._nodes: dict[str, str] = {}
        """Node names by provider id, as creations said them: lists of 2018 have none."""
        self.contents = Contents()
        self._server = Server(options, settings.clock, self.contents, self.converse)

    async def lead(self) -> None:
        """Let drivers in, until cancelled (``contract.Leading``)."""
        await self._server.run()

    async def close(self) -> None:
        """Close everything (``contract.Closing``)."""
        await self._server.close()

    async def converse(self, stream: Stream, peer: str) -> None:
        """One driver, from its registration to its end.

        Raises:
            Refused: it may not come, or does what no driver may.
        """
        try:
            connection = await registered(stream, self._clock, self._accept)
        except Refused as refused:
            self._tell(refused.message, peer)
            raise
        key = _key(connection.registration)
        self._connections[key] = connection
        log.info("a driver registered", driver=connection.name, kind=key[0], api_version=key[1], peer=peer)
        try:
            await connection.run()
        except Refused as refused:
            log.warning("a driver is sent away", driver=connection.name, reason=refused.message)
            raise
        finally:
            if self._connections.get(key) is connection:
                del self._connections[key]
            log.info("a driver is gone", driver=connection.name, kind=key[0])

    def _tell(self, reason: str, peer: str) -> None:
        """Log why a driver is refused, which dials again every few seconds; the same reason not so often."""
        now = self._clock.monotonic()
        self._told = {each: at for each, at in self._told.items() if now - at < TELL_SECONDS}
        if reason not in self._told and len(self._told) < MOST_DRIVERS:
            self._told[reason] = now
            log.warning("a driver is not let in", reason=reason, peer=peer)

    def _accept(self, given: Registration) -> None:
        resource, mine = MACHINE_CLASS.resource, _key(given)
        kind, version, name = mine
        if kind == resource.kind and version != resource.api_version:
            raise Refused(Why.INVALID, f"kind {kind} is of {resource.api_version}, not {version}")
        if name in self._beside:
            raise Refused(
                Why.TAKEN,
                f"driver {name!r} runs in the manager itself and makes the VMs of classes with provider "
                f"{name!r}; register under another name, and give that as provider",
            )
        for key, there in self._connections.items():
            if key == mine or _clouds(key) & _clouds(mine):
                of = f"kind {key[0]} of {key[1]}" + (f" with provider {key[2]!r}" if key[2] else "")
                raise Refused(Why.TAKEN, f"{there.name} serves {of} already, and its stream lives")
        if len(self._connections) >= MOST_DRIVERS:
            raise Refused(Why.FULL, f"{MOST_DRIVERS} drivers are connected, and there may be no more")

    async def create(self, request: MachineRequest) -> Instance:
        answer = await self._about_vm(Kind.CREATE, request, Created)
        while len(self._nodes) >= NODES:
            del self._nodes[next(iter(self._nodes))]
        self._nodes[answer.provider_id] = answer.node_name
        return _named_vm(answer, request)

    async def initialize(self, request: MachineRequest) -> Instance:
        answer = await self._about_vm(Kind.INITIALIZE, request, Initialized)
        return _named_vm(answer, request)

    async def delete(self, request: MachineRequest) -> str | None:
        driver = self._driver_of(request)
        if driver.extended or request.provider_id:
            return await self._delete(driver, request, request.provider_id)
        found = [each for each in await self.list(_class_of(request)) if _is_of(each, request)]
        if not found:
            raise NotFound(f"{driver.name} lists no VM of machine {request.name}")
        for each in found:
            await self._delete(driver, request, each.provider_id)
        return None

    async def status(self, request: MachineRequest) -> Instance:
        driver = self._driver_of(request)
        if driver.knows(Kind.STATUS):
            answer = await self._about_vm(Kind.STATUS, request, Status)
            return _named_vm(answer, request)
        found = [each for each in await self.list(_class_of(request)) if _is_of(each, request)]
        if not found:
            raise NotFound(f"{driver.name} lists no VM of machine {request.name}")
        if len(found) > 1:
            several = ", ".join(sorted(each.provider_id for each in found)[:10])
            raise DriverError.of(Code.OutOfRange, f"machine {request.name} has {len(found)} VMs: {several}")
        said = self._nodes.get(found[0].provider_id, "")
        return replace(found[0], node_name=found[0].node_name or said or request.node_name)

    async def list(self, request: ClassRequest) -> Sequence[Instance]:
        driver = self._driver_of(request)
        meta = self.contents.put(request)
        subject = (meta.name, request.machine_class.metadata.name, str(meta.revision))
        answer = await self._asked(driver, Kind.LIST, subject, Params(machine_class=meta))
        assert isinstance(answer, Listed)
        if any(not each.machine_id for each in answer.vms):
            text = f"{driver.name} listed a VM without a provider id for class {meta.name}"
            raise DriverError.of(Code.Internal, text, broken=True)
        return [operations.listed_instance(each) for each in answer.vms]

    async def volume_ids(self, volumes: Sequence[VolumeSpec]) -> Sequence[str]:
        """Of all drivers that offer this: each leaves out the volumes of other clouds."""
        asked = [each for each in self._connections.values() if each.knows(Kind.VOLUME_IDS)]
        specs = msgspec.json.encode([{"name": each.name, "spec": each.spec} for each in volumes]).decode()
        found: list[Sequence[str]] = []
        for driver in asked:
            with suppress(Unimplemented):
                answer = await self._asked(driver, Kind.VOLUME_IDS, ("", "", specs), Params(volumes=specs))
                assert isinstance(answer, VolumeIds)
                found.append(answer.ids)
        if not found:
            raise Unimplemented("no driver that is connected tells the volumes of its cloud")
        return [each for ids in found for each in ids]

    async def validate(self, request: ClassRequest) -> None:
        """As ``contract.Validates``, where the driver offers it."""
        await self._about_class(Kind.VALIDATE, request)

    async def size(self, request: ClassRequest) -> Size:
        """As ``contract.Sizes``, where the driver offers it."""
        answer = await self._about_class(Kind.SIZE, request)
        assert isinstance(answer, Sized)
        return operations.size_of(answer.data, f"size of {request.machine_class.metadata.name}")

    def hot_fields(self, machine_class: MachineClass) -> Sequence[str]:
        """As the driver of the class has said when it registered (``contract.Updates``)."""
        found = self._driver_of(ClassRequest(machine_class))
        if not found.knows(Kind.UPDATE):
            raise Unimplemented(f"{found.name} does not offer {Kind.UPDATE.value}")
        return found.registration.hot_fields

    async def update(self, request: MachineRequest, last_applied: Mapping[str, Any] | None) -> None:
        """As ``contract.Updates``, where the driver offers it. Two callers share one operation only if both
        want the same change."""
        driver = self._driver_of(request)
        params = self._params(driver, request, request.provider_id)
        last = "" if last_applied is None else msgspec.json.encode(last_applied).decode()
        params = msgspec.structs.replace(params, last_applied=last)
        revision = str(params.machine_class.revision if params.machine_class else 0)
        subject = (request.namespace, request.name, request.owner_uid, request.provider_id, revision, last)
        await self._asked(driver, Kind.UPDATE, subject, params)

    async def console(self, request: MachineRequest) -> str:
        """As ``contract.Consoles``, where the driver offers it."""
        driver = self._driver_of(request)
        params = self._params(driver, request, request.provider_id)
        subject = (request.namespace, request.name, request.owner_uid, request.provider_id)
        answer = await self._asked(driver, Kind.CONSOLE, subject, params)
        assert isinstance(answer, Shown)
        return answer.data

    def provider_of(self, machine_class: MachineClass) -> str:
        """The driver that a class has now, or none of them (``contract.Several``)."""
        found = self._found(machine_class.provider)
        return OURS if found is None else found.called

    def reached(self, provider: str) -> str:
        """As ``contract.Reached``."""
        found = self._found(provider)
        if found is None:
            return self._awaited(provider)
        asked = found.operations
        return (
            f"{found.called}, in another process and connected: it works on {asked.sent} operations, and "
            f"{asked.queued} wait"
        )

    def _driver_of(self, request: MachineRequest | ClassRequest) -> Connection:
        found = self._found(request.machine_class.provider)
        if found is None:
            raise self._missing(request.machine_class)
        return found

    def _found(self, provider: str) -> Connection | None:
        """The driver that serves classes with this provider."""
        resource = MACHINE_CLASS.resource
        named = self._connections.get((resource.kind, resource.api_version, _name(provider)))
        if named is not None or not provider:
            return named
        for key, connection in self._connections.items():
            if provider.lower() in _clouds(key):
                return connection
        return None

    def _missing(self, found: MachineClass) -> DriverError:
        text = f"class {found.metadata.name} has {self._awaited(found.provider)}"
        return DriverError.of(Code.Unavailable, text, begun=False)

    def _awaited(self, provider: str) -> str:
        wanted = f"provider {provider!r}" if provider else f"no provider ({ANONYMOUS})"
        here = ", ".join(sorted(each.name for each in self._connections.values())) or "none"
        return (
            f"{wanted}, and no driver for it is connected to this manager ({self._server.where}); "
            f"connected: {here}"
        )

    async def _about_vm(self, kind: Kind, request: MachineRequest, wanted: type[VmAnswer]) -> VmAnswer:
        driver = self._driver_of(request)
        subject = (request.namespace, request.name, request.owner_uid)
        answer = await self._asked(driver, kind, subject, self._params(driver, request, request.provider_id))
        assert isinstance(answer, wanted)
        if not answer.provider_id or not answer.node_name:
            lacks = "provider id" if not answer.provider_id else "node name"
            text = f"{driver.name} answered to {kind.value} of {request.name} with a VM without a {lacks}"
            raise DriverError.of(Code.Internal, text, broken=True)
        return answer

    async def _about_class(self, kind: Kind, request: ClassRequest) -> Failure:
        driver = self._driver_of(request)
        if not driver.knows(kind):
            raise Unimplemented(f"{driver.name} does not offer {kind.value}")
        meta = self.contents.put(request)
        return await self._asked(
            driver, kind, (meta.name, request.machine_class.metadata.name), Params(machine_class=meta)
        )

    async def _delete(self, driver: Connection, request: MachineRequest, provider_id: str) -> str | None:
        subject = (request.namespace, request.name, request.owner_uid, provider_id)
        answer = await self._asked(driver, Kind.DELETE, subject, self._params(driver, request, provider_id))
        assert isinstance(answer, Deleted)
        return answer.last_known_state or None

    def _params(self, driver: Connection, request: MachineRequest, provider_id: str) -> Params:
        params = Params(
            machine_class=self.contents.put(_class_of(request)),
            machine_id=provider_id,
            machine_name=request.name,
        )
        if not driver.extended:
            return params
        return msgspec.structs.replace(
            params,
            last_known_state=request.last_known_state,
            machine=MACHINE.encode(request.machine).decode(),
            data_format=request.data_format,
            version=request.version,
        )

    async def _asked(
        self, driver: Connection, kind: Kind, subject: tuple[str, ...], params: Params
    ) -> Failure:
        """The driver's answer, which is no error."""
        if not driver.knows(kind):
            raise Unimplemented(f"{driver.name} does not offer {kind.value}")
        answer = await driver.call(kind, subject, params, limits_of(kind))
        error = operations.error_of(
            answer, f"{kind.value} of {params.machine_name or subject[1] or 'volumes'}"
        )
        if error is not None:
            raise error
        return answer


def _key(given: Registration) -> Key:
    version = f"{given.group}/{given.version}" if given.group else given.version
    return given.kind, version, _name(given.name) if given.kind == MACHINE_CLASS.resource.kind else ""


def _clouds(key: Key) -> frozenset[str]:
    """What a class may name, in small letters, to get the driver of a kind: the kind, or the cloud's name in
    it. A driver of MachineClass has its name instead."""
    kind, _, name = key
    if name:
        return frozenset()
    return frozenset((kind.lower(), kind.lower().removesuffix(MACHINE_CLASS.resource.kind.lower())))


def _name(provider: str) -> str:
    return ANONYMOUS if provider in ("", OURS) else provider


def _class_of(request: MachineRequest) -> ClassRequest:
    return ClassRequest(request.machine_class, request.secret)


def _named_vm(answer: VmAnswer, request: MachineRequest) -> Instance:
    return operations.instance_of(answer, request.name)


def _is_of(vm: Instance, request: MachineRequest) -> bool:
    """Whether a listed VM is the one that a request is about."""
    if request.provider_id:
        return vm.provider_id == request.provider_id
    mine = not vm.owner_uid or not request.owner_uid or vm.owner_uid == request.owner_uid
    return vm.machine_name == request.name and mine


SERVICES = ("service.Servicegrpc", "infra.Infragrpc")
"""MCM's own, and the one of its documentation and example (GRP-06)."""
AGAIN_SECONDS = 5.0
END_SECONDS = 1.0
"""What calls of drivers may still take when this process leads no more."""
MOST_CALLS = 1000
"""Streams and calls at a time; what is above is told RESOURCE_EXHAUSTED."""

CHANNEL = (
    ("grpc.max_receive_message_length", MESSAGE_BYTES),
    ("grpc.max_send_message_length", MESSAGE_BYTES),
    ("grpc.so_reuseport", 0),
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
)
"""A peer that is gone without a word is noticed within half a minute. Drivers ask every 20 s whether we are
there; without the last option gRPC sends each of them away after minutes, "too_many_pings"."""

Converse = Callable[[Stream, str], Awaitable[None]]


class Server:
    """The listener. ``converse`` has a stream until it ends."""

    def __init__(self, options: Options, clock: Clock, contents: Contents, converse: Converse) -> None:
        self._options = options
        self._clock = clock
        self._contents = contents
        self._converse = converse
        self._terms = 0
        self._server: Any = None
        self._change = asyncio.Lock()

    @property
    def where(self) -> str:
        """Where drivers dial."""
        return self._options.address

    async def run(self) -> None:
        """Listen until cancelled, also by other terms that run at the same time."""
        self._terms += 1
        try:
            while True:
                async with self._change:
                    await self._start()
                await self._clock.sleep(AGAIN_SECONDS)
        finally:
            self._terms -= 1
            if not self._terms:
                await self.close()

    async def close(self) -> None:
        """Listen no more, and end all streams."""
        server, self._server = self._server, None
        if server is not None:
            await server.stop(END_SECONDS)
            if self._options.socket is not None:
                with suppress(OSError):
                    self._options.socket.unlink()
            log.info("drivers are not let in any more", address=self.where)

    async def _start(self) -> None:
        if self._server is not None:
            return
        server = grpc.aio.server(options=CHANNEL, maximum_concurrent_rpcs=MOST_CALLS)
        server.add_generic_rpc_handlers(tuple(self._handlers(name) for name in SERVICES))
        try:
            self._open(server)
            await server.start()
            if self._options.socket is not None:
                self._options.socket.chmod(0o600)
        except (OSError, RuntimeError, ValueError) as error:
            await server.stop(None)
            log.warning("drivers cannot dial in", address=self.where, reason=str(error))
            return
        self._server = server
        log.info("drivers may dial in", address=self.where)

    def _open(self, server: Any) -> None:
        socket = self._options.socket
        if socket is not None:
            socket.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            if socket.parent.stat().st_mode & 0o077:
                raise OSError(f"others may enter {socket.parent}; take that away (chmod 700)")
            server.add_insecure_port(self.where)
        elif self._options.certificate is None:
            log.warning("secrets pass over this port in plain text", address=self.where)
            server.add_insecure_port(self.where)
        else:
            server.add_secure_port(self.where, self._credentials())

    def _credentials(self) -> Any:
        def read() -> Any:
            given = (self._options.key, self._options.certificate, self._options.authorities)
            key, certificate, authorities = (each.read_bytes() for each in given if each is not None)
            return grpc.ssl_server_certificate_configuration([(key, certificate)], authorities)

        def renewed() -> Any:
            try:
                return read()
            except OSError as error:
                log.warning("certificates cannot be read; the last ones serve", reason=str(error))
                return None

        return grpc.dynamic_ssl_server_credentials(read(), renewed, require_client_authentication=True)

    def _handlers(self, service: str) -> Any:
        secret = grpc.unary_unary_rpc_method_handler(self._get_secret)
        return grpc.method_handlers_generic_handler(
            service,
            {
                "Register": grpc.stream_stream_rpc_method_handler(self._register),
                "GetMachineClass": grpc.unary_unary_rpc_method_handler(self._get_machine_class),
                "GetSecret": secret,
                "GetCloudConfig": secret,  # its name before
            },
        )

    async def _register(self, _messages: Any, call: Any) -> None:
        await self._admit(call)
        try:
            await self._converse(CallStream(call), call.peer())
        except Refused as refused:
            await _refuse(call, grpc.StatusCode[refused.why.value], refused.message)
        except ConnectionError as error:
            log.info("a stream ended before its registration", peer=call.peer(), reason=str(error))

    async def _get_machine_class(self, data: bytes, call: Any) -> bytes:
        await self._admit(call)
        try:
            meta = decode(MachineClassMeta, data)
            return encode(Content(self._contents.machine_class(meta)))
        except Malformed as error:
            return await _refuse(call, grpc.StatusCode.INVALID_ARGUMENT, str(error))
        except NotKept as error:
            return await _refuse(call, grpc.StatusCode.NOT_FOUND, str(error))

    async def _get_secret(self, data: bytes, call: Any) -> bytes:
        await self._admit(call)
        try:
            meta = decode(SecretMeta, data)
            if not meta.secret_name or not meta.namespace:
                raise Malformed("GetSecret wants the name of a secret and its namespace")
            return encode(Content(self._contents.secret(meta)))
        except Malformed as error:
            return await _refuse(call, grpc.StatusCode.INVALID_ARGUMENT, str(error))
        except NotKept as error:
            return await _refuse(call, grpc.StatusCode.NOT_FOUND, str(error))

    async def _admit(self, call: Any) -> None:
        """End a call of a client whose certificate has none of the names that may come."""
        if not self._options.clients:
            return
        shown = call.auth_context()
        names = {each.decode("utf-8", "replace") for key in NAMES for each in shown.get(key, ())}
        if not names & self._options.clients:
            shown_names = ", ".join(sorted(names)) or "none"
            text = f"none of these names may come: {shown_names}"
            await _refuse(call, grpc.StatusCode.PERMISSION_DENIED, text)


NAMES = ("x509_common_name", "x509_subject_alternative_name")


STATUS_BYTES = 2_000
"""Longest text of a status, as UTF-8. A client of grpcio takes a status of more than 8 KiB for
RESOURCE_EXHAUSTED at random, and each byte that is not ASCII travels as three."""


async def _refuse(call: Any, code: Any, text: str) -> bytes:
    await call.abort(code, text.encode()[:STATUS_BYTES].decode("utf-8", "ignore"))
    return b""
