"""Replaces the data of an etcd whose members are pods, and do not run: both ends of it.

Theory.      ``Replacer`` makes a pod for each member and sends it the snapshot. A call does what can be done
             now and says what it waits for; the caller calls again. A pod that is missing is made, one that
             waits for the snapshot is sent it, one that has succeeded is done. So a process that ends in
             between loses nothing: the pods say how far they are (decision 0041).
             In the pod, ``receive`` ends when a whole snapshot is in the volume. Then another container makes
             new data from it, and ``place`` puts that in the place of the former data.
Invariants.  Nothing is made while a pod of the etcd is there. All members are done before the call says so.
             Each side verifies the certificate of the other before a byte is sent, because a snapshot
             contains every Secret of its control plane. Each call has a deadline. A snapshot is under its own
             name only when all of it is written; what an earlier pod has left half done is deleted first.
Called by    ``host``; the command ``restore-member`` of ``cli`` in the pod.
"""

import asyncio
import os
import shutil
import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import aiohttp
from aiohttp import web

from kubewright.api.controlplane.names import CLIENT_PORTS
from kubewright.base.errors import InvalidInput
from kubewright.controlplanes.etcd import tls_of
from kubewright.controlplanes.hosting.contract import Replaced, Replacement, WorkloadIdentity
from kubewright.controlplanes.hosting.member_data import NotReplaced, mark_of, put
from kubewright.controlplanes.hosting.pods import restore_pods
from kubewright.controlplanes.hosting.pods.objects import RESTORE_CLAIM, RESTORE_POD, ComponentPod
from kubewright.controlplanes.members import bracketed, former_name
from kubewright.kube.client import Client
from kubewright.pki import tls
from kubewright.wire.errors import AlreadyExists, Conflict, NotFound
from kubewright.wire.gvk import Key

BLOCK = 1024 * 1024
ASK_SECONDS = 5.0
IDLE_SECONDS = 60.0
"""The longest time in which nothing of a snapshot is taken."""


@dataclass(frozen=True, slots=True)
class Target:
    """One pod: its address with the port, and the name in its certificate."""

    address: str
    name: str


async def listening(targets: list[Target], tls: ssl.SSLContext) -> list[Target]:
    """Those that wait for a snapshot now."""
    timeout = aiohttp.ClientTimeout(total=ASK_SECONDS)
    async with aiohttp.ClientSession(timeout=timeout) as http:
        found = await asyncio.gather(*(_asked(http, each, tls) for each in targets))
    return [each for each, waits in zip(targets, found, strict=True) if waits]


async def send(target: Target, tls: ssl.SSLContext, file: Path) -> None:
    """Send the file to one of them.

    Raises:
        NotReplaced: it was not taken.
    """
    timeout = aiohttp.ClientTimeout(total=None, connect=ASK_SECONDS, sock_read=IDLE_SECONDS)
    size = (await asyncio.to_thread(file.stat)).st_size
    headers = {"Content-Length": str(size)}
    try:
        # It is opened here, and not by the generator: of a request that fails aiohttp leaves that unfinished.
        with await asyncio.to_thread(file.open, "rb") as opened:
            async with (
                aiohttp.ClientSession(timeout=timeout) as http,
                http.put(
                    _url(target), data=_blocks(opened), headers=headers, ssl=tls, server_hostname=target.name
                ) as answer,
            ):
                said = "" if answer.status == 204 else f"it answers {answer.status}: {await answer.text()}"
    except (OSError, TimeoutError, aiohttp.ClientError) as error:
        said = str(error) or type(error).__name__
    if said:
        raise NotReplaced(f"the snapshot was not sent to {target.name}: {said}")


async def _asked(http: aiohttp.ClientSession, target: Target, tls: ssl.SSLContext) -> bool:
    try:
        async with http.get(_url(target), ssl=tls, server_hostname=target.name) as answer:
            return answer.status == 204
    except (OSError, TimeoutError, aiohttp.ClientError):
        return False


async def _blocks(opened: BinaryIO) -> AsyncIterator[bytes]:
    while block := await asyncio.to_thread(opened.read, BLOCK):
        yield block


def _url(target: Target) -> str:
    return f"https://{target.address}/"


class Replacer:
    """Makes and deletes the pods that replace data. ``image``: of this program."""

    def __init__(self, client: Client, image: str) -> None:
        self._client = client
        self._image = image

    async def replace(
        self,
        identity: WorkloadIdentity,
        stateful_set: Mapping[str, Any],
        pods: Sequence[ComponentPod],
        by: Replacement,
    ) -> Replaced:
        """Do what can be done now. ``pods``: those of ``restore_pods`` that are there.

        Raises:
            NotReplaced: the template does not fit, or a snapshot was not taken by a pod.
            ApiError, TransportError: the server said no, or could not be asked.
        """
        if problem := restore_pods.unfit(stateful_set):
            raise NotReplaced(problem)
        there, waits, unsent = {each.name: each for each in pods}, [], []
        for ordinal in range(by.members):
            name = restore_pods.name_of(identity, ordinal)
            pod = there.get(name)
            if pod is None:
                await self._make(stateful_set, identity, ordinal, by)
                waits.append(f"{name}: it is being made")
            elif restore_pods.is_over(pod, by.mark, self._client.clock.now()):
                await self.delete(pod)
                waits.append(f"{name}: an earlier one ends first")
            elif pod.status.phase != restore_pods.DONE:
                waits.append(restore_pods.waits_for(pod))
                if pod.status.pod_ip and pod.status.phase != restore_pods.FAILED:
                    address = f"{bracketed(pod.status.pod_ip)}:{CLIENT_PORTS[identity.component]}"
                    unsent.append(Target(address, restore_pods.host_of(identity, ordinal)))
        await self._send(unsent, by)
        if waits:
            return Replaced(waits=", ".join(waits))
        return Replaced(restore_pods.told_of(identity, by.mark))

    async def delete(self, pod: ComponentPod) -> None:
        """Delete this very pod, if it is there."""
        if not pod.metadata.deleting:
            with suppress(NotFound, Conflict):
                await self._client.delete(RESTORE_POD, Key(pod.namespace, pod.name), uid=pod.metadata.uid)

    async def _make(
        self, stateful_set: Mapping[str, Any], identity: WorkloadIdentity, ordinal: int, by: Replacement
    ) -> None:
        for claim in restore_pods.claim_manifests(stateful_set, identity, ordinal):
            with suppress(AlreadyExists):  # only one that is gone is made
                await self._client.create(RESTORE_CLAIM, claim)
        task = restore_pods.Task(identity, ordinal, by.members, by.mark, self._image)
        with suppress(AlreadyExists):  # our caches do not show it yet
            await self._client.create(RESTORE_POD, restore_pods.pod_of(stateful_set, task))

    async def _send(self, targets: list[Target], by: Replacement) -> None:
        """Send the snapshot to those that wait for it; it is fetched only if one does.

        Raises:
            NotReplaced: the credentials are unfit, or one did not take it.
        """
        if not targets:
            return
        own = await by.credentials()
        try:
            tls = tls_of(own)
        except (ValueError, OSError):
            raise NotReplaced("the certificates of clients of this etcd are unfit") from None
        if ready := await listening(targets, tls):
            async with by.fetch() as file:
                for each in ready:
                    await send(each, tls, file)


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
