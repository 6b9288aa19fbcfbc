"""For authors of drivers: a cloud in a process of its own, which serves a manager by dialling in.

A small driver and its main::

    class MyCloud(Provider):
        async def create(self, machine_class, credentials, machine_id, machine_name): ...
        async def delete(self, machine_class, credentials, machine_id): ...
        async def list(self, machine_class, credentials, machine_id): ...


    asyncio.run(
        serve(ProviderOffer(MyCloud(), name="mycloud"), Target("unix:/srv/manager/grpc/drivers.sock"))
    )

How to go on from there: docs/how-to/drivers-in-other-processes.md.

Theory.      One stream of a driver: it registers, and answers what it is asked until the stream ends. The
             manager sends no more at a time than the registration says, so each operation has a task. One
             task sends, since a stream takes one message at a time. When the stream ends, operations that are
             under way are cancelled: a driver's calls may be, and the manager asks again.
             The connection of a driver to its manager, and the next one when it is lost. Managers come and
             go, and only the one that leads listens. So a driver dials until it is let in, and dials again
             five seconds after a stream ended, for as long as it runs; what it was doing is asked again by
             the manager.
             Serve a whole driver of the port to a manager in another process. What the manager sends with an
             operation, and what is fetched by its revision, is the request that the driver would have got in
             the manager's process; its answer goes back whole. So the driver need not know where it runs. It
             is behind a guard of its own (``driver.guard``): a call that hangs ends here, and what is no
             error of the vocabulary becomes one.
             ``Provider`` is what an author writes; ``ProviderOffer`` makes answers of what it returns and
             raises. A function gets the class's name and revision; it fetches the class and its secret from
             the ``DataProvider`` that ``start`` has given it. Both are kept by revision, so that asking each
             time costs nothing.
Invariants.  A manager that sends more than was said does not make this process hold more: the rest is read
             when something is done. Each operation is answered: what is too large for a message, or cannot be
             written as one, becomes an error that says so.
             A manager that cannot be reached costs one attempt in five seconds and one line in the log for
             each change of the reason; being let in is one line, and one more after each of those. A fetch
             has a second. An address that can never be reached is refused before it is dialled.
             Only what the driver offers is registered. Its hot fields are those of a class that says nothing
             but its provider: they are told once, for all classes.
             What a provider raises becomes an error of the answer: a ``DriverError`` with its code, anything
             else as Unknown. Nothing that it raises ends the stream. No more than ``KEPT`` objects are kept.
Called by    ``cli.driver.serve``, the main of a driver, and tests with a stream of their own.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import grpc
import msgspec
import structlog
from msgspec import structs

from kubewright.api.core import SECRET, Secret
from kubewright.api.machine.v1alpha1 import MACHINE, MACHINE_CLASS, MachineClass
from kubewright.base.clock import Clock, SystemClock
from kubewright.base.errors import InvalidInput
from kubewright.driver.answers import checked, unknown_error
from kubewright.driver.contract import (
    ClassRequest,
    Consoles,
    Driver,
    MachineRequest,
    Sizes,
    Updates,
    Validates,
    VolumeSpec,
    stub,
)
from kubewright.driver.errors import Code, DriverError, InvalidArgument
from kubewright.driver.guard import GuardedDriver
from kubewright.providers.grpc import operations
from kubewright.providers.grpc.connection import CallStream, Stream, key_of
from kubewright.providers.grpc.messages import (
    MESSAGE_BYTES,
    Content,
    Created,
    Deleted,
    DriverSide,
    Failure,
    Initialized,
    Listed,
    ListedVm,
    MachineClassMeta,
    Malformed,
    MCMside,
    Params,
    Registration,
    SecretMeta,
    Shown,
    Sized,
    Status,
    Updated,
    Validated,
    VolumeIds,
    check_address,
    decode,
    encode,
)
from kubewright.providers.grpc.operations import ANSWERS, REGISTER, UNREGISTER, Kind, failed

KEPT = 500
GROUP, VERSION, CLASS_KIND = "machine.sapcloud.io", "v1alpha1", "MachineClass"

Fetch = Callable[[str, bytes], Awaitable[bytes]]
"""Calls ``GetMachineClass`` or ``GetSecret`` of the manager; raises ``DriverError``."""


class DataProvider:
    """The classes and secrets of a manager, kept by revision."""

    def __init__(self, fetch: Fetch) -> None:
        self._fetch = fetch
        self._kept: dict[MachineClassMeta | SecretMeta, str] = {}

    async def machine_class(self, meta: MachineClassMeta) -> str:
        """The class as JSON.

        Raises:
            DriverError: the manager did not answer, or knows no such class.
        """
        return await self._found(meta, "GetMachineClass")

    async def secret(self, meta: SecretMeta) -> str:
        """The Secret as JSON; its data are base64.

        Raises:
            DriverError: the manager did not answer, or knows no such secret.
        """
        return await self._found(meta, "GetSecret")

    async def _found(self, meta: MachineClassMeta | SecretMeta, method: str) -> str:
        found = self._kept.get(meta)
        if found is None:
            content = decode(Content, await self._fetch(method, encode(meta)))
            if content.error:
                raise DriverError(f"{method}: {content.error}")
            found = content.data
            while len(self._kept) >= KEPT:
                del self._kept[next(iter(self._kept))]
            if meta.revision:
                self._kept[meta] = found
        return found


class Offer(Protocol):
    """What is served: which classes, and what an operation is answered with."""

    @property
    def registration(self) -> Registration: ...

    async def answer(self, message: MCMside, data: DataProvider) -> Failure | None:
        """The response to one operation; None: the type is not known."""


class Provider(ABC):
    """A cloud, as its author writes it. Raise a ``DriverError`` to say what went wrong, and how."""

    data: DataProvider
    """Set before the first call."""

    @abstractmethod
    async def create(
        self, machine_class: MachineClassMeta, credentials: str, machine_id: str, machine_name: str
    ) -> tuple[str, str]:
        """Make a VM, or find the one that was made under this name: its provider id and its node's name."""

    @abstractmethod
    async def delete(self, machine_class: MachineClassMeta, credentials: str, machine_id: str) -> None:
        """Delete the VM with this provider id; one that is gone is success."""

    @abstractmethod
    async def list(
        self, machine_class: MachineClassMeta, credentials: str, machine_id: str
    ) -> Mapping[str, str]:
        """The names of machines by the provider ids of their VMs: all of the class, or the one VM."""


class ProviderOffer:
    """Serves a ``Provider``. ``name`` is what classes give as their provider; ``kind``: of another group."""

    def __init__(
        self,
        provider: Provider,
        *,
        name: str = "externalDriver",
        group: str = GROUP,
        kind: str = CLASS_KIND,
        version: str = VERSION,
        in_flight: int = 1,
    ) -> None:
        self._provider = provider
        self.registration = Registration(name, group, kind, version, in_flight=in_flight)

    async def answer(self, message: MCMside, data: DataProvider) -> Failure | None:
        """As ``Offer``."""
        self._provider.data = data
        params = message.params or Params()
        meta = params.machine_class or MachineClassMeta()
        try:
            match message.operation_type:
                case Kind.CREATE.value:
                    given = (meta, params.credentials, params.machine_id, params.machine_name)
                    vm = checked(await self._provider.create(*given), tuple[str, str], "create")
                    provider_id, node_name = vm
                    return Created(provider_id=provider_id, node_name=node_name)
                case Kind.DELETE.value:
                    await self._provider.delete(meta, params.credentials, params.machine_id)
                    return Deleted()
                case Kind.LIST.value:
                    listed = await self._provider.list(meta, params.credentials, params.machine_id)
                    found = checked(dict(listed), dict[str, str], "list")
                    return Listed(vms=tuple(ListedVm(each, name) for each, name in found.items()))
        except DriverError as error:
            return failed(ANSWERS[Kind(message.operation_type)], error)
        except Exception as error:  # a provider's code may raise anything
            kind, unknown = Kind(message.operation_type), unknown_error(error)
            text = "a provider raised an exception that is no DriverError"
            log.exception(text, operation=kind.value, error=unknown.message)
            return failed(ANSWERS[kind], unknown)
        return None


IN_FLIGHT = 50
"""A driver of the port takes many calls at a time."""
ALWAYS = (Kind.CREATE, Kind.INITIALIZE, Kind.DELETE, Kind.STATUS, Kind.LIST, Kind.VOLUME_IDS)

Answer = Callable[[Params, DataProvider], Awaitable[Failure]]


class DriverOffer:
    """Serves ``driver`` under ``name``, which classes give as their provider. ``own``: the name by which the
    driver knows itself, and which it reads in classes instead; empty: what they say."""

    def __init__(
        self, driver: Driver, clock: Clock, name: str, *, own: str = "", in_flight: int = IN_FLIGHT
    ) -> None:
        self._own = own
        self._driver = GuardedDriver(driver, clock)
        beyond = {
            Kind.VALIDATE: isinstance(driver, Validates),
            Kind.SIZE: isinstance(driver, Sizes),
            Kind.UPDATE: isinstance(driver, Updates),
            Kind.CONSOLE: isinstance(driver, Consoles),
        }
        names = tuple(each.value for each in (*ALWAYS, *(kind for kind, offers in beyond.items() if offers)))
        hot = (
            tuple(self._driver.hot_fields(MachineClass(provider=own or name))) if beyond[Kind.UPDATE] else ()
        )
        self.registration = Registration(name, GROUP, CLASS_KIND, VERSION, names, in_flight, hot)
        self._answers: Mapping[Kind, Answer] = {
            Kind.CREATE: self._create,
            Kind.INITIALIZE: self._initialize,
            Kind.DELETE: self._delete,
            Kind.STATUS: self._status,
            Kind.LIST: self._list,
            Kind.VOLUME_IDS: self._volume_ids,
            Kind.VALIDATE: self._validate,
            Kind.SIZE: self._size,
            Kind.UPDATE: self._update,
            Kind.CONSOLE: self._console,
        }

    async def answer(self, message: MCMside, data: DataProvider) -> Failure | None:
        """As ``provider.Offer``."""
        try:
            kind = Kind(message.operation_type)
        except ValueError:
            return None
        try:
            return await self._answers[kind](message.params or Params(), data)
        except DriverError as error:
            return operations.failed(ANSWERS[kind], error)
        except InvalidInput as error:  # an object of the manager that cannot be read here
            return operations.failed(ANSWERS[kind], InvalidArgument(str(error)))

    async def _create(self, params: Params, data: DataProvider) -> Failure:
        return operations.vm_answer(Created, await self._driver.create(await self._request(params, data)))

    async def _initialize(self, params: Params, data: DataProvider) -> Failure:
        return operations.vm_answer(
            Initialized, await self._driver.initialize(await self._request(params, data))
        )

    async def _delete(self, params: Params, data: DataProvider) -> Failure:
        state = await self._driver.delete(await self._request(params, data))
        return Deleted(last_known_state=state or "")

    async def _status(self, params: Params, data: DataProvider) -> Failure:
        return operations.vm_answer(Status, await self._driver.status(await self._request(params, data)))

    async def _list(self, params: Params, data: DataProvider) -> Failure:
        found = await self._driver.list(await self._class_request(params, data))
        return Listed(vms=tuple(operations.listed_vm(each) for each in found))

    async def _volume_ids(self, params: Params, _data: DataProvider) -> Failure:
        volumes = msgspec.json.decode(params.volumes or "[]", type=list[VolumeSpec])
        return VolumeIds(ids=tuple(await self._driver.volume_ids(volumes)))

    async def _validate(self, params: Params, data: DataProvider) -> Failure:
        await self._driver.validate(await self._class_request(params, data))
        return Validated()

    async def _size(self, params: Params, data: DataProvider) -> Failure:
        size = await self._driver.size(await self._class_request(params, data))
        return Sized(data=msgspec.json.encode(size).decode())

    async def _update(self, params: Params, data: DataProvider) -> Failure:
        last = None
        if params.last_applied:
            try:
                last = msgspec.json.decode(params.last_applied.encode(), type=dict[str, Any])
            except msgspec.DecodeError as error:
                raise InvalidArgument(f"lastAppliedProviderSpec cannot be read: {error}") from None
        await self._driver.update(await self._request(params, data), last)
        return Updated()

    async def _console(self, params: Params, data: DataProvider) -> Failure:
        return Shown(data=await self._driver.console(await self._request(params, data)))

    async def _request(self, params: Params, data: DataProvider) -> MachineRequest:
        of_class = await self._class_request(params, data)
        if params.machine:
            machine = MACHINE.decode(params.machine.encode())
        else:
            namespace = of_class.machine_class.metadata.namespace
            machine = stub(params.machine_name, namespace, provider_id=params.machine_id)
        return MachineRequest(
            machine, of_class.machine_class, of_class.secret, params.data_format, params.version
        )

    async def _class_request(self, params: Params, data: DataProvider) -> ClassRequest:
        meta = params.machine_class or MachineClassMeta()
        found: MachineClass = MACHINE_CLASS.decode((await data.machine_class(meta)).encode())
        if self._own:
            found = structs.replace(found, provider=self._own)
        ref = found.secret_ref or found.credentials_secret_ref
        if ref is None:
            return ClassRequest(found)
        wanted = SecretMeta(ref.name, ref.namespace or key_of(meta.name)[0], meta.revision)
        secret = SECRET.decode((await data.secret(wanted)).encode())
        return ClassRequest(found, Secret(type=secret.type, data=secret.data))


__all__ = ("DataProvider", "DriverOffer", "Provider", "ProviderOffer", "Target", "serve")

log = structlog.get_logger(__name__)


async def serve_stream(
    stream: Stream,
    offer: Offer,
    data: DataProvider,
    stop: asyncio.Event,
    answered: Callable[[], None] = lambda: None,
) -> None:
    """Serve until the manager ends the stream, or ``stop``: then the manager is told.

    ``answered``: told of each answer that was sent; the first one is the registration.

    Raises:
        ConnectionError: the stream was lost.
        Malformed: the manager sends what is no message.
    """
    session = _Session(stream, offer, data, answered)
    tasks = [asyncio.ensure_future(each) for each in (session.read(), session.write(), stop.wait())]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks[:2]:
            if task.done():
                task.result()
        if stop.is_set():
            tasks[1].cancel()
            await asyncio.gather(tasks[1], return_exceptions=True)
            await stream.write(encode(DriverSide(operation_type=UNREGISTER)))
    finally:
        await session.end(tasks)


class _Session:
    """The tasks of one stream."""

    def __init__(
        self, stream: Stream, offer: Offer, data: DataProvider, answered: Callable[[], None]
    ) -> None:
        self._stream, self._offer, self._data, self._answered = stream, offer, data, answered
        most = max(1, offer.registration.in_flight)
        self._free = asyncio.Semaphore(most + 1)  # the registration besides
        self._answers: asyncio.Queue[bytes] = asyncio.Queue(most + 1)
        self._under_way: set[asyncio.Task[Any]] = set()

    async def read(self) -> None:
        while True:
            await self._free.acquire()
            data = await self._stream.read()
            if data is None:
                return
            task = asyncio.create_task(self._answer(decode(MCMside, data)))
            self._under_way.add(task)
            task.add_done_callback(self._ended)

    async def write(self) -> None:
        while True:
            await self._stream.write(await self._answers.get())
            self._answered()

    async def end(self, tasks: Iterable[asyncio.Future[Any]]) -> None:
        every = [*tasks, *self._under_way]
        for task in every:
            task.cancel()
        await asyncio.gather(*every, return_exceptions=True)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._under_way.discard(task)
        self._free.release()
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("an operation was not answered", reason=f"{type(error).__name__}: {error}")

    async def _answer(self, message: MCMside) -> None:
        answer = DriverSide(message.operation_id, message.operation_type)
        if message.operation_type == REGISTER:
            await self._answers.put(_bytes_of(answer, self._offer.registration))
            return
        try:
            data = _bytes_of(answer, await self._offer.answer(message, self._data))
        except Exception as error:  # an author's code may return anything, and the manager waits
            log.exception("an operation has no answer that can be sent", operation=message.operation_type)
            data = _bytes_of(answer, _failure(answer, unknown_error(error)))
        await self._answers.put(data)


def _bytes_of(answer: DriverSide, response: Any) -> bytes:
    """An answer with its response; one that is too large for a message says that it is."""
    data = encode(DriverSide(answer.operation_id, answer.operation_type, response))
    if len(data) <= MESSAGE_BYTES:
        return data
    text = f"the answer has {len(data)} bytes, and a message has at most {MESSAGE_BYTES}"
    error = _failure(answer, DriverError.of(Code.Internal, text))
    return encode(DriverSide(answer.operation_id, answer.operation_type, error))


def _failure(answer: DriverSide, error: DriverError) -> Failure | None:
    """The response that tells an error; None to an operation that is not known."""
    known = {each.value: kind for each, kind in ANSWERS.items()}.get(answer.operation_type)
    return None if known is None else failed(known, error)


AGAIN_SECONDS = 5.0
LET_IN_SECONDS = 1.0
"""The protocol has no answer to a registration, but a manager that refuses one ends the stream at once."""
FETCH_SECONDS = 1.0
SERVICE = "/service.Servicegrpc/"
CHANNEL = (
    ("grpc.max_receive_message_length", MESSAGE_BYTES),
    ("grpc.max_send_message_length", MESSAGE_BYTES),
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.use_local_subchannel_pool", 1),
)
_CODES = {
    "UNAVAILABLE": Code.Unavailable,
    "DEADLINE_EXCEEDED": Code.Unavailable,
    "NOT_FOUND": Code.FailedPrecondition,
    "PERMISSION_DENIED": Code.PermissionDenied,
}


@dataclass(frozen=True, slots=True)
class Target:
    """Where the manager listens: ``unix:PATH`` or ``HOST:PORT``; and for TLS three files.

    ``authorities``        who signed the manager's certificate
    ``certificate``, ``key``  ours
    """

    address: str
    authorities: Path | None = None
    certificate: Path | None = None
    key: Path | None = None

    def credentials(self) -> Any:
        """Those of gRPC; None: in plain text.

        Raises:
            InvalidInput: some of the three are missing, or cannot be read.
        """
        given = [each for each in (self.authorities, self.key, self.certificate) if each is not None]
        if not given:
            return None
        if len(given) < 3:
            raise InvalidInput("for TLS a driver needs all three: authorities, certificate and key")
        try:
            return grpc.ssl_channel_credentials(*(each.read_bytes() for each in given))
        except OSError as error:
            raise InvalidInput(f"{error.filename} cannot be read: {error.strerror}") from None


async def serve(
    offer: Offer, target: Target, clock: Clock | None = None, stop: asyncio.Event | None = None
) -> None:
    """Serve the manager until ``stop``, dialling again whenever the stream ends.

    Raises:
        InvalidInput: the address can never be reached, or the certificates cannot be used.
    """
    clock, stop = clock or SystemClock(), stop or asyncio.Event()
    check_address(target.address)
    target.credentials()
    told = Dialling(target.address, offer.registration)
    while not stop.is_set():
        answered = asyncio.Event()
        let_in = asyncio.ensure_future(_let_in(answered, clock, told))
        try:
            reason = await _once(offer, target, stop, answered)
        finally:
            let_in.cancel()
        if stop.is_set():
            return
        told.lost(reason)
        pause = asyncio.ensure_future(clock.sleep(AGAIN_SECONDS))
        ended = asyncio.ensure_future(stop.wait())
        await asyncio.wait([pause, ended], return_when=asyncio.FIRST_COMPLETED)
        for task in (pause, ended):
            task.cancel()


class Dialling:
    """What the log says of a manager: when it has let us in, and why it is not there. A loss for the same
    reason as the last one is not told, and neither is the registration after it."""

    def __init__(self, address: str, registration: Registration) -> None:
        self._address, self._registration = address, registration
        self._reason, self._in = "", False

    def registered(self) -> None:
        if not self._in:
            mine = self._registration
            log.info("registered with the manager", driver=mine.name, kind=mine.kind, address=self._address)
        self._in = True

    def lost(self, reason: str) -> None:
        if reason != self._reason:
            log.warning("the manager is not there; dialling again", address=self._address, reason=reason)
            self._reason, self._in = reason, False


async def _let_in(answered: asyncio.Event, clock: Clock, told: Dialling) -> None:
    """Tell of a registration whose stream lives; cancelled when the stream ends."""
    await answered.wait()
    await clock.sleep(LET_IN_SECONDS)
    told.registered()


async def _once(offer: Offer, target: Target, stop: asyncio.Event, answered: asyncio.Event) -> str:
    """One connection, to its end; why it ended."""
    credentials = target.credentials()
    if credentials is None:
        channel = grpc.aio.insecure_channel(target.address, options=CHANNEL)
    else:
        channel = grpc.aio.secure_channel(target.address, credentials, options=CHANNEL)
    async with channel:
        call = channel.stream_stream(f"{SERVICE}Register")()
        try:
            data = DataProvider(_fetch(channel))
            await serve_stream(CallStream(call), offer, data, stop, answered.set)
        except (ConnectionError, Malformed) as error:
            return str(error)
        if stop.is_set():
            await call.done_writing()
            return "stopped"
        return f"{(await call.code()).name}: {await call.details()}"


def _fetch(channel: Any) -> Any:
    async def fetch(method: str, data: bytes) -> bytes:
        try:
            found = await channel.unary_unary(f"{SERVICE}{method}")(data, timeout=FETCH_SECONDS)
            return bytes(found)
        except grpc.aio.AioRpcError as error:
            code = _CODES.get(error.code().name, Code.Unknown)
            raise DriverError.of(code, f"{method}: {error.details()}") from None

    return fetch
