"""Drivers in other processes, in the simulator: each manager's driver is ``grpc``, over streams that end.

Theory.      Between a manager and the connection to its cloud there is a stream: real messages, no gRPC. A
             driver's process dials each manager that leads, and again when the stream has ended with all that
             is under way; the cloud goes on with what it was asked. A manager that is killed says nothing.
             While the driver is connected a second one, which has another account, registers for the same
             classes.
Invariants.  A message takes its time, and its writer learns later that it went: an answer may come before
             that. Streams are cut ``CUTS`` times and no more, so every story has an end.
Called by    tests, as the hook of ``simulate``.
"""

import asyncio
from contextlib import suppress

from kubewright.api.machine.v1alpha1 import MachineClass
from kubewright.base.clock import Clock
from kubewright.driver.contract import Driver
from kubewright.driver.errors import Code, DriverError
from kubewright.driver.registry import Settings
from kubewright.providers.grpc.client import DataProvider, DriverOffer, serve_stream
from kubewright.providers.grpc.connection import Contents, NotKept, Refused
from kubewright.providers.grpc.dispatch import GrpcDriver
from kubewright.providers.grpc.messages import Content, MachineClassMeta, Options, SecretMeta, decode, encode
from simulation.cloud import OtherAccount
from simulation.loop import Process, SimClock
from simulation.world import World

CLOUD = "sim"
"""The provider of the classes."""
LEG_SECONDS = (0.001, 0.02)
AGAIN_SECONDS = 1.0
CUTS = 6
CUT_SECONDS = (0.1, 8.0)
"""From one cut to the next."""


class Line:
    """One end of a stream, which takes its time; ``other`` is the other end."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._incoming: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._ended = False
        self.other: Line

    async def read(self) -> bytes | None:
        """As ``connection.Stream``."""
        if self._ended:
            raise ConnectionError("the stream was cut")
        return await self._incoming.get()

    async def write(self, data: bytes) -> None:
        """As ``connection.Stream``; the other end may have read it before this returns."""
        await self._clock.sleep(self._clock.random.uniform(*LEG_SECONDS))
        if self._ended:
            raise ConnectionError("the stream was cut")
        self.other._incoming.put_nowait(data)
        await self._clock.sleep(self._clock.random.uniform(*LEG_SECONDS))

    def cut(self) -> None:
        """The connection is gone, for both."""
        for end in (self, self.other):
            end._ended = True
            end._incoming.put_nowait(None)


class DialledDriver(GrpcDriver):
    """Driver ``grpc`` of one manager; while that leads, ``served`` and a second driver dial it."""

    def __init__(self, clock: SimClock, served: Driver, drivers: "Drivers") -> None:
        super().__init__(Settings(clock), Options())
        self._served, self._drivers = served, drivers

    async def lead(self) -> None:
        """As ``contract.Leading``, without sockets."""
        await asyncio.gather(
            self._let_in(self._served, first=True), self._let_in(OtherAccount(), first=False)
        )

    async def _let_in(self, served: Driver, *, first: bool) -> None:
        asked = MachineClass(provider=CLOUD)
        while True:
            while not first and self.provider_of(asked) != CLOUD:
                await self._drivers.clock.sleep(AGAIN_SECONDS)
            stream = self._drivers.dialled(served, self.contents)
            try:
                await self.converse(stream, "simulated")
            except Refused:
                self._drivers.refused += 1
            finally:
                stream.cut()
            await self._drivers.clock.sleep(AGAIN_SECONDS)


class Drivers:
    """The process of the drivers, and its streams. ``refused``: how often one was not let in."""

    def __init__(self, world: World) -> None:
        self.clock = world.clock("drivers")
        self.refused = self.cuts = 0
        self._process = Process(world.loop, "drivers")
        self._world = world
        self._streams: list[Line] = []
        world.between = self.between
        world.faults.spawn(self._cut(), name="cuts of streams")

    def between(self, served: Driver, name: str) -> Driver:
        """What a manager has instead of ``served``."""
        return DialledDriver(self._world.clock(f"dialled by {name}"), served, self)

    def dialled(self, served: Driver, contents: Contents) -> Line:
        """A driver's process dials; the manager's end."""
        ours, theirs = (Line(self.clock) for _ in range(2))
        ours.other, theirs.other = theirs, ours
        self._process.spawn(self._serve(theirs, served, contents), name="a driver")
        self._streams = [*self._streams[-10:], ours]
        return ours

    async def _serve(self, stream: Line, served: Driver, contents: Contents) -> None:
        async def fetch(method: str, data: bytes) -> bytes:
            await self.clock.sleep(self.clock.random.uniform(*LEG_SECONDS))
            try:
                if method == "GetSecret":
                    return encode(Content(contents.secret(decode(SecretMeta, data))))
                return encode(Content(contents.machine_class(decode(MachineClassMeta, data))))
            except NotKept as error:
                raise DriverError.of(Code.FailedPrecondition, str(error)) from None

        with suppress(ConnectionError):
            await serve_stream(
                stream, DriverOffer(served, self.clock, CLOUD), DataProvider(fetch), asyncio.Event()
            )

    async def _cut(self) -> None:
        while self.cuts < CUTS:
            await self.clock.sleep(self.clock.random.uniform(*CUT_SECONDS))
            self.cuts += 1
            self._world.journal.say("world", "the streams of drivers end")
            for each in self._streams:
                each.cut()
