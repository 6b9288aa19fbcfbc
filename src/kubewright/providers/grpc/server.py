"""gRPC on the manager's side: the listener, who may come, and the three calls.

Theory.      The handlers are generic: they get bytes, and ``messages`` reads them. Both names under which the
             service was ever known have the same handlers. There is a listener while this process leads and
             no other time; several terms of one process share it. Certificates are read anew for each
             connection, so they may be renewed while it runs.
Invariants.  A Unix socket is in a folder of this user alone, and only this user can open it. No message above
             ``MESSAGE_BYTES`` is taken. A port that cannot be had is tried again, and told.
Source       mcm.md §11.1 and §11.2; both proto files of 2018.
Called by    ``dispatch``.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import grpc
import structlog

from kubewright.base.clock import Clock
from kubewright.providers.grpc.client.dial import CallStream
from kubewright.providers.grpc.connection import Refused, Stream
from kubewright.providers.grpc.contents import Contents, NotKept
from kubewright.providers.grpc.messages import (
    MESSAGE_BYTES,
    Content,
    MachineClassMeta,
    Malformed,
    SecretMeta,
    decode,
    encode,
)
from kubewright.providers.grpc.options import Options

log = structlog.get_logger(__name__)

SERVICES = ("service.Servicegrpc", "infra.Infragrpc")
"""MCM's own, and the one of the seed and its example."""
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
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 5_000),
)
"""A peer that is gone without a word is noticed within half a minute."""

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
            await call.abort(grpc.StatusCode[refused.why.value], refused.message)
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
            told = ", ".join(sorted(names)) or "none"
            await call.abort(grpc.StatusCode.PERMISSION_DENIED, f"none of these names may come: {told}")


NAMES = ("x509_common_name", "x509_subject_alternative_name")


async def _refuse(call: Any, code: Any, text: str) -> bytes:
    await call.abort(code, text)
    return b""
