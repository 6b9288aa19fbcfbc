"""The connection of a driver to its manager, and the next one when it is lost.

Theory.      Managers come and go, and only the one that leads listens. So a driver dials until it is let in,
             and dials again five seconds after a stream ended, for as long as it runs; what it was doing is
             asked again by the manager.
Invariants.  A manager that cannot be reached costs one attempt in five seconds and one line in the log for
             each change of the reason. A fetch has a second.
Source       mcm.md §11.3 (5 and 6).
Called by    ``cli.driver.serve``; the main of a driver. ``providers.grpc.server`` reads and writes alike.
"""

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import structlog

from kubewright.base.clock import Clock, SystemClock
from kubewright.base.errors import InvalidInput
from kubewright.driver.errors import Code, DriverError
from kubewright.providers.grpc.client.provider import DataProvider, Offer
from kubewright.providers.grpc.client.serving import serve_stream
from kubewright.providers.grpc.messages import MESSAGE_BYTES, Malformed

log = structlog.get_logger(__name__)

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
