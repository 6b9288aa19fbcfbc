"""Streams the data of an etcd into a file.

Theory.      An etcd streams its data over the same JSON API over HTTPS by which its members are asked. So
             pods, processes and the etcd of another program are copied in the same way: the status of the
             NestedEtcd has the addresses, and Secrets have a client certificate. The data file of our own API
             server is copied by its host (``SavesData``), not here.
Invariants.  A stream has a deadline for each part, and is written to disk as it arrives.
Source       etcd's API reference v3 (``/v3/maintenance/snapshot``, ``/v3/maintenance/status``).
Called by    ``taking``.
"""

import asyncio
import base64
import binascii
import os
import ssl
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import aiohttp
import msgspec

from kubewright.base.errors import KubewrightError
from kubewright.controlplanes.members.client import tls_of

READ_SECONDS = 30.0
"""Longest time without a byte of a stream."""
LINE_BYTES = 8 * 1024 * 1024
"""The longest line of a stream that is read; etcd sends 32 KiB in each, longer by a third in base64."""


class NoData(KubewrightError):
    """No member of the etcd has sent its data; the message says why."""


def trust(authority: bytes, client: bytes, key: bytes) -> ssl.SSLContext:
    """TLS of a client of an etcd: it trusts ``authority`` and presents ``client``; all as PEM.

    Raises:
        NoData: one of them is no certificate, or no key.
    """
    try:
        return tls_of(authority, client, key)
    except (ValueError, OSError) as error:
        raise NoData(f"the certificates for its etcd cannot be used: {error}") from None


async def stream(urls: Sequence[str], tls: ssl.SSLContext, target: Path) -> str:
    """Write the data of the first member that sends it into a new file; returns that member's version.

    Raises:
        NoData: no member sends its data.
    """
    timeout = aiohttp.ClientTimeout(total=None, connect=READ_SECONDS, sock_read=READ_SECONDS)
    told = "it has no address"
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(ssl=tls), timeout=timeout, read_bufsize=LINE_BYTES
    ) as http:
        for url in urls:
            try:
                async with http.post(f"{url}/v3/maintenance/status", json={}) as answer:
                    version = str((await answer.json(content_type=None)).get("version", ""))
                await _copied(http, url, target)
            except (OSError, TimeoutError, aiohttp.ClientError, ValueError, NoData) as error:
                told = f"{url}: {type(error).__name__} {error}"
            else:
                return version
    raise NoData(f"no member of its etcd gives its data: {told}")


async def _copied(http: aiohttp.ClientSession, url: str, target: Path) -> None:
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        async with http.post(f"{url}/v3/maintenance/snapshot", json={}) as answer:
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
