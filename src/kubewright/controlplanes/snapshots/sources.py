"""Streams the data of an etcd into a file.

Theory.      An etcd streams its data over the same JSON API over HTTPS by which its members are asked. So
             pods, processes and the etcd of another program are copied in the same way: the host knows the
             addresses of its instances, or the status of the NestedEtcd has them, and Secrets have a client
             certificate. The data file of our own API server is copied by its host (``SavesData``), not here.
Invariants.  A stream has a deadline for each part, and is written to disk as it arrives.
Source       etcd's API reference v3 (``/v3/maintenance/snapshot``, ``/v3/maintenance/status``).
Called by    ``taking``.
"""

import asyncio
import base64
import binascii
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import aiohttp
import msgspec

from kubewright.base.errors import KubewrightError
from kubewright.controlplanes.hosting.contract import Credentials
from kubewright.controlplanes.members.client import tls_of
from kubewright.controlplanes.members.decide import Endpoint

READ_SECONDS = 30.0
"""Longest time without a byte of a stream."""
LINE_BYTES = 8 * 1024 * 1024
"""The longest line of a stream that is read; etcd sends 32 KiB in each, longer by a third in base64."""


class NoData(KubewrightError):
    """No member of the etcd has sent its data; the message says why."""


async def stream(members: Sequence[Endpoint], own: Credentials, target: Path) -> str:
    """Write the data of the first member that sends it into a new file; returns that member's version.

    Raises:
        NoData: no member sends its data, or the credentials are unfit.
    """
    try:
        tls = tls_of(own.authority, own.certificate, own.key)
    except (ValueError, OSError) as error:
        raise NoData(f"the certificates for its etcd cannot be used: {error}") from None
    timeout = aiohttp.ClientTimeout(total=None, connect=READ_SECONDS, sock_read=READ_SECONDS)
    told = "it has no address"
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(ssl=tls), timeout=timeout, read_bufsize=LINE_BYTES
    ) as http:
        for each in members:
            try:
                async with _asked(http, each, "status") as answer:
                    version = str((await answer.json(content_type=None)).get("version", ""))
                await _copied(http, each, target)
            except (OSError, TimeoutError, aiohttp.ClientError, ValueError, NoData) as error:
                told = f"{each.name or each.url}: {type(error).__name__} {error}"
            else:
                return version
    raise NoData(f"no member of its etcd gives its data: {told}")


def _asked(
    http: aiohttp.ClientSession, member: Endpoint, what: str
) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
    url = f"{member.url}/v3/maintenance/{what}"
    return http.post(url, json={}, server_hostname=member.name or None)


async def _copied(http: aiohttp.ClientSession, member: Endpoint, target: Path) -> None:
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        async with _asked(http, member, "snapshot") as answer:
            async for block in _blocks(answer):
                await asyncio.to_thread(file.write, block)


async def _blocks(answer: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    """The parts of the data: one JSON object in each line."""
    while line := await answer.content.readline():
        part: dict[str, Any] = msgspec.json.decode(line)
        if "result" not in part:
            raise NoData(f"it says {part.get('error') or part.get('message') or answer.status}")
        try:
            yield base64.b64decode(part["result"].get("blob", ""), validate=True)
        except binascii.Error as error:
            raise NoData(f"a part of its data cannot be read: {error}") from None
