"""One stream with a driver: the first message, operations out, answers in, and its end.

Theory.      The manager speaks first, and the first message that comes back is the registration, whatever its
             id. From then on three tasks share the stream: one sends, since a stream takes one message at a
             time; one reads; one looks for a driver that hangs. What is sent when is decided in
             ``operations``; here callers wait, each with a deadline. A caller waits for its turn for a part
             of its time only, so that what is sent has the rest: a creation does not fail because others were
             before it.
             What drivers may fetch: the classes and secrets of the operations that were asked of them. An
             operation names a class and a revision; the driver fetches class and secret by them, has a second
             for it, and may keep both for as long as the revision is the same. Both came with the request of
             the controller, which had read them from its caches: so they are answered from here, and the API
             server need not be there. The secret of a machine has its own ``userData``, with a token of its
             own: then the machine has a revision of its own, too. A driver finds the secret by the name in
             the class. A class of an API that has its credentials elsewhere gets a name that means the same.
Invariants.  An operation is among those sent before its bytes are: no answer comes too early for it. However
             a stream ends, each caller has its answer: ``Unavailable``, and as not begun where nothing was
             sent. A peer cannot make this process hold more than one message of its.
             The revision is a positive int32, never 0, and follows from class and secret alone: the next
             process has the same. What is kept is bounded in number and bytes; the oldest goes first. No
             driver gets a secret that was not needed for an operation, and no repr shows one.
Source       GRP-01, GRP-13, GRP-14.
Called by    ``dispatch``, with a stream of gRPC or of a test; ``client``, which has the other end.
"""

import asyncio
import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Protocol

import grpc
import structlog
from msgspec import structs

from kubewright.api.core import SECRET, Secret
from kubewright.api.machine.v1alpha1 import (
    MACHINE_CLASS,
    MachineClass,
    MachineClassStatus,
    SecretReference,
)
from kubewright.api.meta import ObjectMeta
from kubewright.base.clock import Clock
from kubewright.driver.contract import ClassRequest
from kubewright.driver.errors import Code, DriverError, Unimplemented
from kubewright.providers.grpc.messages import (
    DriverSide,
    Failure,
    MachineClassMeta,
    Malformed,
    MCMside,
    Params,
    Registration,
    SecretMeta,
    decode,
    encode,
)
from kubewright.providers.grpc.operations import (
    FIRST_GENERATION,
    HUNG_SECONDS,
    QUEUE,
    REGISTER,
    STRAY,
    UNREGISTER,
    Kind,
    Operation,
    Operations,
    QueueFull,
    State,
    Subject,
    message_of,
)

log = structlog.get_logger(__name__)

REGISTER_SECONDS = 10.0
"""From the opening of a stream to its registration."""
LOOK_SECONDS = 15.0
"""How often a stream is looked at for a driver that hangs."""
MOST_IN_FLIGHT = 100
LARGE_BYTES = 64 << 10
"""Messages above this are read in a thread: 4 MiB take seconds, and the loop has a Lease to renew."""
NAME_CHARS = 253
MOST_OPERATIONS = MOST_HOT_FIELDS = 64


class Why(Enum):
    """Why a stream is ended; the value is the name of a status of gRPC."""

    INVALID = "INVALID_ARGUMENT"
    TAKEN = "ALREADY_EXISTS"
    HUNG = "DEADLINE_EXCEEDED"
    FULL = "RESOURCE_EXHAUSTED"


class Refused(Exception):
    """The stream ends, and the driver is told why."""

    def __init__(self, why: Why, message: str) -> None:
        super().__init__(message)
        self.why, self.message = why, message


class Stream(Protocol):
    """One bidirectional stream as the manager has it."""

    async def read(self) -> bytes | None:
        """The next message; None when the driver sends no more. Raises ConnectionError when it is lost."""

    async def write(self, data: bytes) -> None:
        """Send one; one at a time. Raises ConnectionError when the stream is lost."""


class CallStream:
    """One end of a stream. ``call``: a call of ``grpc.aio``, or the context of its handler in the manager."""

    def __init__(self, call: Any) -> None:
        self._call = call

    async def read(self) -> bytes | None:
        try:
            found = await self._call.read()
        except (grpc.aio.BaseError, grpc.RpcError, asyncio.InvalidStateError) as error:
            raise ConnectionError(_reason(error)) from None
        return found if isinstance(found, bytes) else None

    async def write(self, data: bytes) -> None:
        try:
            await self._call.write(data)
        except (grpc.aio.BaseError, grpc.RpcError, asyncio.InvalidStateError) as error:
            raise ConnectionError(_reason(error)) from None


def _reason(error: Exception) -> str:
    if isinstance(error, grpc.aio.AioRpcError):
        return f"{error.code().name}: {error.details()}"
    return str(error)


@dataclass(frozen=True, slots=True)
class Limits:
    """How long a caller waits: ``queue`` seconds for its turn, ``total`` for turn and answer."""

    queue: float
    total: float


@dataclass(slots=True)
class Connection:
    """A driver that has registered, and its stream."""

    registration: Registration
    stream: Stream
    clock: Clock
    operations: Operations = field(init=False)
    _waiting: dict[Operation, set[asyncio.Future[None]]] = field(default_factory=dict)
    _sendable: asyncio.Event = field(default_factory=asyncio.Event)
    _ended: str = ""

    def __post_init__(self) -> None:
        most = min(max(self.registration.in_flight, 1), MOST_IN_FLIGHT)
        self.operations = Operations(most)

    @property
    def called(self) -> str:
        """What people call it: drivers of 2018 all have one name, so the kind of its classes."""
        own = self.registration.kind == MACHINE_CLASS.resource.kind
        return (self.registration.name if own else "") or self.registration.kind

    @property
    def name(self) -> str:
        """What messages call the driver."""
        return f"driver {self.called!r}"

    @property
    def extended(self) -> bool:
        """Whether it reads what was added since 2018, and writes it."""
        return bool(self.registration.operations)

    def knows(self, kind: Kind) -> bool:
        """Whether it is worth asking."""
        return kind.value in (
            self.registration.operations if self.extended else [each.value for each in FIRST_GENERATION]
        )

    async def call(self, kind: Kind, subject: Subject, params: Params, limits: Limits) -> Failure:
        """What the driver answers, which may be an error.

        Raises:
            DriverError: it did not answer, or not what it was asked.
        """
        what = f"{kind.value} of {params.machine_name or subject[1] or 'volumes'}"
        self._still_there(what)
        try:
            operation = self.operations.ask(kind, subject, params, self.clock.monotonic())
        except QueueFull:
            raise _not_begun(f"{what}: {QUEUE} operations wait for {self.name}") from None
        try:
            await self._answered(operation, what, limits)
        finally:
            self.operations.leave(operation, self.clock.monotonic())
            self._sendable.set()
        return self._answer_of(operation, what)

    async def run(self) -> None:
        """Until the driver goes or the stream ends.

        Raises:
            Refused: the driver does what no driver may.
        """
        tasks = [asyncio.ensure_future(each()) for each in (self._read, self._write, self._look)]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                if task.done():
                    task.result()
        finally:
            self._end("its stream has ended")
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _still_there(self, what: str) -> None:
        if self._ended:
            raise _not_begun(f"{what}: {self.name} is not connected: {self._ended}")

    async def _answered(self, operation: Operation, what: str, limits: Limits) -> None:
        """Wait for the answer, as long as the limits say."""
        began = self.clock.monotonic()
        self._sendable.set()
        while operation.state in (State.QUEUED, State.SENT):
            queued = operation.state is State.QUEUED
            left = began + (limits.queue if queued else limits.total) - self.clock.monotonic()
            if left <= 0:
                raise self._late(operation, what, limits)
            changed = asyncio.get_running_loop().create_future()
            self._waiting.setdefault(operation, set()).add(changed)
            try:
                await asyncio.wait([changed], timeout=left)
            finally:
                self._forget(operation, changed)

    def _late(self, operation: Operation, what: str, limits: Limits) -> DriverError:
        if operation.state is State.QUEUED:
            return _not_begun(
                f"{what} waits for its turn: {self.name} works on {self.operations.sent} operations, and "
                f"{self.operations.queued} wait"
            )
        late = f"{what}: {self.name} did not answer within {limits.total:g} s"
        return DriverError.of(Code.DeadlineExceeded, late)

    def _answer_of(self, operation: Operation, what: str) -> Failure:
        if operation.answer is not None:
            return operation.answer
        if operation.state is State.LOST:
            lost = f"{what}: {self.name}: {self._ended}"
            if operation.wrong:
                raise _not_begun(lost)
            raise DriverError.of(Code.Unavailable, f"{lost} before it answered")
        if operation.unknown:
            raise Unimplemented(f"{self.name} does not know the operation {operation.kind.value}")
        wrong = f"{what}: {self.name} answered with {operation.wrong}"
        raise DriverError.of(Code.Internal, wrong, broken=True)

    def _forget(self, operation: Operation, waiter: asyncio.Future[None]) -> None:
        waiters = self._waiting.get(operation, set())
        waiters.discard(waiter)
        if not waiters:
            self._waiting.pop(operation, None)

    def _changed(self, operation: Operation) -> None:
        for waiter in self._waiting.get(operation, ()):
            if not waiter.done():
                waiter.set_result(None)

    async def _write(self) -> None:
        while True:
            self._sendable.clear()
            while (operation := self.operations.next(self.clock.monotonic())) is not None:
                self._changed(operation)
                try:
                    await self.stream.write(encode(message_of(operation)))
                except ConnectionError:
                    return
            await self._sendable.wait()

    async def _read(self) -> None:
        while (message := await _received(self.stream)) is not None:
            if message.operation_type == UNREGISTER:
                return
            operation = self.operations.answered(message, self.clock.monotonic())
            if operation is not None:
                self._changed(operation)
                self._sendable.set()
                continue
            log.warning("a driver answers what it was not asked", driver=self.name, id=message.operation_id)
            if self.operations.stray >= STRAY:
                raise Refused(Why.INVALID, f"{STRAY} answers to operations that were not asked here")

    async def _look(self) -> None:
        while True:
            await self.clock.sleep(LOOK_SECONDS)
            hung = self.operations.hung(self.clock.monotonic())
            if hung is not None:
                what = f"{hung.kind.value} (operationID {hung.id})"
                raise Refused(Why.HUNG, f"{what} was not answered within {HUNG_SECONDS:g} s")

    def _end(self, why: str) -> None:
        self._ended = why
        for operation in self.operations.lost():
            self._changed(operation)


async def registered(stream: Stream, clock: Clock, accept: Callable[[Registration], None]) -> Connection:
    """Ask the driver who it is; ``accept`` raises Refused for one that may not come.

    Raises:
        Refused: it does not say it, or may not come.
    """
    try:
        async with asyncio.timeout(REGISTER_SECONDS):
            await stream.write(encode(MCMside(1, REGISTER)))
            first = await _received(stream)
    except TimeoutError:
        raise Refused(Why.HUNG, f"no registration within {REGISTER_SECONDS:g} s") from None
    if first is None:
        raise Refused(Why.INVALID, "the stream ended before a registration")
    given = first.response
    if not isinstance(given, Registration):
        raise Refused(Why.INVALID, "the first message is no registration: it has no registerResp")
    if problem := _problem(given):
        raise Refused(Why.INVALID, problem)
    accept(given)
    return Connection(given, stream, clock)


def _problem(given: Registration) -> str:
    """What is wrong with a registration; empty if nothing is. Pure."""
    if not given.kind:
        return "the registration names no kind of classes"
    texts = (given.name, given.group, given.kind, given.version, *given.operations, *given.hot_fields)
    if any(len(each) > NAME_CHARS or not each.isprintable() for each in texts):
        return "a name in the registration is too long, or is not printable"
    if len(given.operations) > MOST_OPERATIONS:
        return f"the registration names {len(given.operations)} operations; the most is {MOST_OPERATIONS}"
    if len(given.hot_fields) > MOST_HOT_FIELDS:
        return f"the registration names {len(given.hot_fields)} hotFields; the most is {MOST_HOT_FIELDS}"
    if given.in_flight < 0:
        return f"the registration's inFlight is {given.in_flight}"
    return ""


async def _received(stream: Stream) -> DriverSide | None:
    try:
        data = await stream.read()
        if data is None or len(data) <= LARGE_BYTES:
            return None if data is None else decode(DriverSide, data)
        return await asyncio.to_thread(decode, DriverSide, data)
    except ConnectionError:
        return None
    except Malformed as error:
        raise Refused(Why.INVALID, f"a message cannot be read: {error}") from None


def _not_begun(text: str) -> DriverError:
    return DriverError.of(Code.Unavailable, text, begun=False)


KEPT = 4000
KEPT_BYTES = 64 << 20
_PATH = re.compile(r"/apis/[^/]+/[^/]+/namespaces/([^/]+)/[^/]+/([^/]+)")


class NotKept(Exception):
    """There is no such class or secret among those that were asked about; the text says which."""


@dataclass(frozen=True, slots=True, repr=False)
class _Entry:
    machine_class: bytes
    secret: bytes
    secret_names: tuple[tuple[str, str], ...]
    """Namespace and name of each Secret that it is the content of."""

    @property
    def size(self) -> int:
        return len(self.machine_class) + len(self.secret)


class Contents:
    """Classes and secrets by revision."""

    def __init__(self) -> None:
        self._entries: dict[tuple[str, int], _Entry] = {}
        """By the class's path and the revision, the oldest first."""
        self._bytes = 0

    def put(self, request: ClassRequest) -> MachineClassMeta:
        """Keep what a request has; what the driver is told of it."""
        plain = _plain(request)
        path = path_of(plain)
        refs = (plain.secret_ref, plain.credentials_secret_ref)
        names = tuple((ref.namespace, ref.name) for ref in refs if ref is not None)
        whole = Secret(metadata=ObjectMeta(), type=request.secret.type, data=request.secret.data)
        entry = _Entry(MACHINE_CLASS.encode(plain), SECRET.encode(whole), names)
        meta = MachineClassMeta(path, _revision(entry))
        known = self._entries.pop((path, meta.revision), None)
        self._bytes += entry.size - (known.size if known is not None else 0)
        self._entries[path, meta.revision] = entry
        while len(self._entries) > 1 and (len(self._entries) > KEPT or self._bytes > KEPT_BYTES):
            self._bytes -= self._entries.pop(next(iter(self._entries))).size
        return meta

    def machine_class(self, meta: MachineClassMeta) -> str:
        """The class as JSON: of the revision, else the newest; ``name`` may be its path or its name.

        Raises:
            NotKept: no operation was about it.
        """
        found = self._entries.get((meta.name, meta.revision))
        if found is None:
            called = [
                each
                for (path, _), each in reversed(self._entries.items())
                if meta.name in (path, path.rpartition("/")[2])
            ]
            if not called:
                raise NotKept(f"no operation was about a class {meta.name!r}")
            found = called[0]
        return found.machine_class.decode()

    def secret(self, meta: SecretMeta) -> str:
        """The Secret as JSON, under the name that was asked for: of the revision, else the newest.

        A revision that was let go is answered only where all that is kept is the same, as what one machine
        boots from is not for another.

        Raises:
            NotKept: no operation was about a class that names it, or not of this revision.
        """
        wanted = (meta.namespace, meta.secret_name)
        kept = {
            revision: each.secret
            for (_, revision), each in self._entries.items()
            if wanted in each.secret_names
        }
        if not kept:
            raise NotKept(f"no operation was about a class with secret {'/'.join(wanted)!r}")
        found = kept.get(meta.revision)
        if found is None and meta.revision and len(set(kept.values())) > 1:
            raise NotKept(f"revision {meta.revision} of secret {'/'.join(wanted)!r} is not kept any more")
        return _under(found or next(reversed(kept.values())), *wanted)


def path_of(machine_class: MachineClass) -> str:
    """Where a class is served."""
    meta, resource = machine_class.metadata, MACHINE_CLASS.resource
    return f"/apis/{resource.api_version}/namespaces/{meta.namespace}/{resource.plural}/{meta.name}"


def key_of(path: str) -> tuple[str, str]:
    """Namespace and name of the class at a path; of a name alone the namespace is empty."""
    found = _PATH.fullmatch(path)
    return (found[1], found[2]) if found is not None else ("", path)


def _plain(request: ClassRequest) -> MachineClass:
    """The class without what changes by itself, and with the name of a secret if it has any content."""
    given = request.machine_class
    meta = given.metadata
    kept = ObjectMeta(
        name=meta.name,
        namespace=meta.namespace,
        uid=meta.uid,
        labels=meta.labels,
        annotations=meta.annotations,
    )
    plain = structs.replace(given, metadata=kept, status=MachineClassStatus())
    if request.secret.data and plain.secret_ref is None and plain.credentials_secret_ref is None:
        return structs.replace(plain, secret_ref=SecretReference(name=meta.name, namespace=meta.namespace))
    return plain


def _revision(entry: _Entry) -> int:
    digest = hashlib.sha256(b"%d:%b%b" % (len(entry.machine_class), entry.machine_class, entry.secret))
    return int.from_bytes(digest.digest()[:4], "big") % ((1 << 31) - 1) + 1


def _under(secret: bytes, namespace: str, name: str) -> str:
    found = SECRET.decode(secret)
    return SECRET.encode(structs.replace(found, metadata=ObjectMeta(namespace=namespace, name=name))).decode()
