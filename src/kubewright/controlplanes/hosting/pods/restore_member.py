"""What a pod that replaces the data of one member runs: it receives a snapshot, and puts new data in place.

Theory.      ``receive`` ends when a whole snapshot is in the volume. Then another container makes new data
             from it, and ``place`` puts that in the place of the former data.
Invariants.  Only a client with a certificate of the etcd's authority is served. A snapshot is under its own
             name only when all of it is written. What an earlier pod has left half done is deleted first.
Called by    ``cli``, by the command ``restore-member``.
"""

import asyncio
import os
import shutil
import ssl
from dataclasses import dataclass
from pathlib import Path

from aiohttp import web

from kubewright.base.errors import InvalidInput
from kubewright.controlplanes.hosting.etcdutl import former_name
from kubewright.controlplanes.hosting.member_data import NotReplaced, mark_of, put
from kubewright.pki import tls

BLOCK = 1024 * 1024
DEADLINE_SECONDS = 1800.0
"""How long ``receive`` waits until it has a snapshot."""


@dataclass(frozen=True, slots=True)
class Site:
    """Where ``receive`` listens, and with which files: a certificate, its key, and who may send."""

    host: str
    port: int
    certificate: Path
    key: Path
    authority: Path

    def tls(self) -> ssl.SSLContext:
        """TLS of this server.

        Raises:
            InvalidInput: a file is missing or unfit.
        """
        try:
            context = tls.server(self.authority.read_bytes(), required=True)
            context.load_cert_chain(self.certificate, self.key)
        except (OSError, ValueError) as error:
            raise InvalidInput(f"the certificates of the member cannot be used: {error}") from None
        return context


async def receive(site: Site, folder: Path) -> None:
    """Wait for a snapshot, and write it into a new folder.

    Raises:
        InvalidInput: the certificates are unfit.
        NotReplaced: none came in time.
        OSError: the volume cannot be written to, or the address is taken.
    """
    await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
    await asyncio.to_thread(folder.mkdir, mode=0o700)
    receiver = _Receiver(folder / "snapshot")
    app = web.Application()
    app.router.add_get("/", receiver.asked)
    app.router.add_put("/", receiver.put)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        async with asyncio.timeout(DEADLINE_SECONDS):
            await web.TCPSite(runner, site.host, site.port, ssl_context=site.tls()).start()
            await receiver.whole.wait()
    except TimeoutError:
        raise NotReplaced(f"no snapshot was sent within {DEADLINE_SECONDS:g} seconds") from None
    finally:
        await runner.cleanup()


def place(folder: Path, data: Path, mark: str) -> None:
    """Put the new data in the place of the former, unless that is done.

    Raises:
        NotReplaced: other data is in the way.
        OSError: the volume cannot be written to.
    """
    if mark_of(data) != mark:
        put(folder / "data", data, data.parent / former_name(mark), mark)
    shutil.rmtree(folder, ignore_errors=True)


class _Receiver:
    """Answers who asks whether a snapshot is waited for, and takes one."""

    def __init__(self, target: Path) -> None:
        self._target = target
        self._taking = asyncio.Lock()
        self.whole = asyncio.Event()

    async def asked(self, _request: web.Request) -> web.Response:
        return web.Response(status=409 if self.whole.is_set() else 204)

    async def put(self, request: web.Request) -> web.Response:
        if self._taking.locked() or self.whole.is_set():
            return web.Response(status=409, text="a snapshot is here, or on its way")
        async with self._taking:
            size = await self._write(request)
            if size != request.content_length:
                return web.Response(status=400, text=f"{size} bytes of {request.content_length} came")
            self.whole.set()
            return web.Response(status=204)

    async def _write(self, request: web.Request) -> int:
        partial, size = self._target.with_suffix(".partial"), 0
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            async for block in request.content.iter_chunked(BLOCK):
                await asyncio.to_thread(file.write, block)
                size += len(block)
            file.flush()
            await asyncio.to_thread(os.fsync, file.fileno())
        if size == request.content_length:
            partial.rename(self._target)
        return size
