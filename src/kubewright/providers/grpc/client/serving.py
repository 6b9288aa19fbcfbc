"""One stream of a driver: it registers, and answers what it is asked until the stream ends.

Theory.      The manager sends no more at a time than the registration says, so each operation has a task. One
             task sends, since a stream takes one message at a time. When the stream ends, operations that are
             under way are cancelled: a driver's calls may be, and the manager asks again.
Invariants.  A manager that sends more than was said does not make this process hold more: the rest is read
             when something is done. Each operation is answered: what is too large for a message, or cannot be
             written as one, becomes an error that says so.
Called by    ``cli.driver.serve``, the main of a driver, and tests with a stream of their own.

The connection of a driver to its manager, and the next one when it is lost.

Theory.      Managers come and go, and only the one that leads listens. So a driver dials until it is let in,
             and dials again five seconds after a stream ended, for as long as it runs; what it was doing is
             asked again by the manager.
Invariants.  A manager that cannot be reached costs one attempt in five seconds and one line in the log for
             each change of the reason. A fetch has a second.
"""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import structlog

from kubewright.base.clock import Clock, SystemClock
from kubewright.base.errors import InvalidInput
from kubewright.driver.answers import unknown_error
from kubewright.driver.errors import Code, DriverError
from kubewright.providers.grpc.client.drivers import DataProvider, Offer
from kubewright.providers.grpc.connection import Stream
from kubewright.providers.grpc.messages import (
    MESSAGE_BYTES,
    DriverSide,
    Failure,
    Malformed,
    MCMside,
    decode,
    encode,
)
from kubewright.providers.grpc.operations import ANSWERS, REGISTER, UNREGISTER, failed

log = structlog.get_logger(__name__)


async def serve_stream(stream: Stream, offer: Offer, data: DataProvider, stop: asyncio.Event) -> None:
    """Serve until the manager ends the stream, or ``stop``: then the manager is told.

    Raises:
        ConnectionError: the stream was lost.
        Malformed: the manager sends what is no message.
    """
    session = _Session(stream, offer, data)
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

    def __init__(self, stream: Stream, offer: Offer, data: DataProvider) -> None:
        self._stream, self._offer, self._data = stream, offer, data
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
        InvalidInput: the certificates cannot be used.
    """
    clock, stop = clock or SystemClock(), stop or asyncio.Event()
    target.credentials()
    last = ""
    while not stop.is_set():
        reason = await _once(offer, target, stop)
        if stop.is_set():
            return
        if reason != last:
            log.warning("the manager is not there; dialling again", address=target.address, reason=reason)
        last = reason
        pause = asyncio.ensure_future(clock.sleep(AGAIN_SECONDS))
        ended = asyncio.ensure_future(stop.wait())
        await asyncio.wait([pause, ended], return_when=asyncio.FIRST_COMPLETED)
        for task in (pause, ended):
            task.cancel()


async def _once(offer: Offer, target: Target, stop: asyncio.Event) -> str:
    """One connection, to its end; why it ended."""
    credentials = target.credentials()
    if credentials is None:
        channel = grpc.aio.insecure_channel(target.address, options=CHANNEL)
    else:
        channel = grpc.aio.secure_channel(target.address, credentials, options=CHANNEL)
    async with channel:
        call = channel.stream_stream(f"{SERVICE}Register")()
        try:
            await serve_stream(CallStream(call), offer, DataProvider(_fetch(channel)), stop)
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
