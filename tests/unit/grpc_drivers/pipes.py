"""Both ends of a stream in this process, on virtual time: the bytes are real, gRPC is not there."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress

from kubewright.driver.errors import Code, DriverError
from kubewright.driver.registry import Settings
from kubewright.providers.grpc.client import DataProvider, Offer, serve_stream
from kubewright.providers.grpc.connection import NotKept, Refused
from kubewright.providers.grpc.dispatch import GrpcDriver
from kubewright.providers.grpc.messages import (
    Content,
    DriverSide,
    Failure,
    MachineClassMeta,
    MCMside,
    Options,
    Registration,
    SecretMeta,
    decode,
    encode,
)
from kubewright.testing.clocks import LoopClock

TURNS = 100  # of the event loop: a driver that registers at once has registered after a few

Around = Callable[[bytes, bool], None]


class Pipe:
    """One end; ``other`` is the other one. None in a queue: it ends there.

    ``around``: told of each message that this end writes, before it goes (False) and after (True).
    """

    def __init__(self) -> None:
        self.around: Around = lambda _data, _gone: None
        self.incoming: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.other: Pipe
        self.broken = False

    async def read(self) -> bytes | None:
        if self.broken:
            raise ConnectionError("the stream was cut")
        return await self.incoming.get()

    async def write(self, data: bytes) -> None:
        await asyncio.sleep(0)
        self.around(data, False)
        if self.broken:
            raise ConnectionError("the stream was cut")
        self.other.incoming.put_nowait(data)
        self.around(data, True)

    def cut(self) -> None:
        """The connection is gone, for both."""
        for end in (self, self.other):
            end.broken = True
            end.incoming.put_nowait(None)


def pipe() -> tuple[Pipe, Pipe]:
    """The manager's end and the driver's."""
    ours, theirs = Pipe(), Pipe()
    ours.other, theirs.other = theirs, ours
    return ours, theirs


class Manager:
    """The driver ``grpc`` of a manager, and the drivers that dial it."""

    def __init__(self, beside: Iterable[str] = ()) -> None:
        self.driver = GrpcDriver(Settings(LoopClock(), beside=frozenset(beside)), Options())
        self.refusals: list[Refused] = []
        self._tasks: list[asyncio.Task[None]] = []

    async def dialled(
        self,
        client: "Offer | Callable[[Pipe], Awaitable[None]]",
        asks: Around = lambda _data, _gone: None,
        answers: Around = lambda _data, _gone: None,
    ) -> Pipe:
        """A driver that has dialled in; the driver's end of its stream. ``asks`` and ``answers`` are told of
        what the manager and the driver write."""
        ours, theirs = pipe()
        ours.around, theirs.around = asks, answers
        self._tasks.append(asyncio.create_task(self._converse(ours)))
        call = client(theirs) if callable(client) else self._served(theirs, client)
        self._tasks.append(asyncio.ensure_future(call))
        for _ in range(TURNS):  # turns and not a time, which may be over before the first turn
            await asyncio.sleep(0)
        return theirs

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def fetch(self, method: str, data: bytes) -> bytes:
        """``GetMachineClass`` and ``GetSecret``, as the server answers them."""
        try:
            if method == "GetSecret":
                return encode(Content(self.driver.contents.secret(decode(SecretMeta, data))))
            return encode(Content(self.driver.contents.machine_class(decode(MachineClassMeta, data))))
        except NotKept as error:
            raise DriverError.of(Code.FailedPrecondition, str(error)) from None

    async def _converse(self, stream: Pipe) -> None:
        try:
            await self.driver.converse(stream, "pipe")
        except Refused as refused:
            self.refusals.append(refused)
        finally:
            stream.cut()

    async def _served(self, stream: Pipe, offer: Offer) -> None:
        with suppress(ConnectionError):
            await serve_stream(stream, offer, DataProvider(self.fetch), asyncio.Event())


class ByHand:
    """A driver whose messages a test writes: it registers, and keeps what it is asked."""

    def __init__(self, registration: Registration) -> None:
        self.registration = registration
        self.asked: asyncio.Queue[MCMside] = asyncio.Queue()
        self.stream: Pipe

    async def __call__(self, stream: Pipe) -> None:
        self.stream = stream
        with suppress(ConnectionError):
            while (data := await stream.read()) is not None:
                message = decode(MCMside, data)
                if message.operation_type == "register":
                    await self.say(message, self.registration)
                else:
                    self.asked.put_nowait(message)

    async def say(self, asked: MCMside, response: Registration | Failure | None) -> None:
        """Answer one message."""
        await self.stream.write(encode(DriverSide(asked.operation_id, asked.operation_type, response)))
