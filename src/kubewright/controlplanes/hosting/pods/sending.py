"""Sends a snapshot to the pods that wait for it.

Invariants.  The certificate of a pod is verified before a byte is sent, because a snapshot contains every
             Secret of its control plane. Each call has a deadline.
Called by    ``restoring``; the other side is ``restore_member``.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import aiohttp

from kubewright.controlplanes.hosting.member_data import NotReplaced

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
