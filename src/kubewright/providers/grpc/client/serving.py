"""One stream of a driver: it registers, and answers what it is asked until the stream ends.

Theory.      The manager sends no more at a time than the registration says, so each operation has a task. One
             task sends, since a stream takes one message at a time. When the stream ends, operations that are
             under way are cancelled: a driver's calls may be, and the manager asks again.
Invariants.  A manager that sends more than was said does not make this process hold more: the rest is read
             when something is done. Each operation is answered: what is too large for a message, or cannot be
             written as one, becomes an error that says so.
Called by    ``dial``, and tests with a stream of their own.
"""

import asyncio
from collections.abc import Iterable
from typing import Any

import structlog

from kubewright.driver.answers import unknown_error
from kubewright.driver.errors import Code, DriverError
from kubewright.providers.grpc.answers import failed
from kubewright.providers.grpc.client.provider import DataProvider, Offer
from kubewright.providers.grpc.connection import Stream
from kubewright.providers.grpc.messages import (
    MESSAGE_BYTES,
    DriverSide,
    Failure,
    MCMside,
    decode,
    encode,
)
from kubewright.providers.grpc.operations import ANSWERS, REGISTER, UNREGISTER

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
