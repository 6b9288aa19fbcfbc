"""Streams the data of one member of an etcd into a file, and chooses the member.

Theory.      An etcd streams its data over the same JSON API over HTTPS by which its members are asked. So
             pods, processes and the etcd of another program are copied in the same way: the host knows the
             addresses of its instances, or the status of the NestedEtcd has them, and Secrets have a client
             certificate. The data file of our own API server is copied by its host (``SavesData``), not here.
             A member sends what it has itself, and may lag behind the others. So all are asked for their
             status first, and the leader sends its data; or, where none that answers leads, the member that
             has applied most.
Invariants.  A stream has a deadline for each part, and is written to disk as it arrives.
Source       etcd's API reference v3 (``/v3/maintenance/snapshot``, ``/v3/maintenance/status``).
Called by    ``taking``.
"""

import asyncio
import base64
import binascii
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
import msgspec

from kubewright.base.errors import KubewrightError
from kubewright.controlplanes.members.client import CALL_SECONDS, tls_of
from kubewright.controlplanes.members.decide import Credentials, Endpoint

FAILURES = (OSError, TimeoutError, aiohttp.ClientError, ValueError, TypeError, AttributeError)
"""The errors of a call to a member that does not answer, or not as an etcd does."""
READ_SECONDS = 30.0
"""Longest time without a byte of a stream."""
LINE_BYTES = 8 * 1024 * 1024
"""The longest line of a stream that is read; etcd sends 32 KiB in each, longer by a third in base64."""


Status = Mapping[str, Any]
"""A member's answer to ``/v3/maintenance/status``; JSON strings stand for its 64-bit numbers."""


class Streamed(NamedTuple):
    """The version of the member that has sent its data, and how it was reached."""

    version: str
    member: Endpoint


class NoData(KubewrightError):
    """No member of the etcd has sent its data; the message says why."""


async def stream(members: Sequence[Endpoint], own: Credentials, target: Path) -> Streamed:
    """Write the data of the best member that sends it into a new file.

    Raises:
        NoData: no member sends its data, or the credentials are unfit.
    """
    try:
        tls = tls_of(own)
    except (ValueError, OSError) as error:
        raise NoData(f"the certificates for its etcd cannot be used: {error}") from None
    timeout = aiohttp.ClientTimeout(total=None, connect=READ_SECONDS, sock_read=READ_SECONDS)
    told = "it has no address"
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(ssl=tls), timeout=timeout, read_bufsize=LINE_BYTES
    ) as http:
        answers = await asyncio.gather(*(_status(http, each) for each in members))
        told = next((each for each in answers if isinstance(each, str)), told)
        there = [
            (each, said) for each, said in zip(members, answers, strict=True) if not isinstance(said, str)
        ]
        for each, said in sorted(there, key=lambda pair: rank(pair[1])):
            try:
                await _copied(http, each, target)
            except (*FAILURES, NoData) as error:
                told = _why(each, error)
            else:
                return Streamed(str(said.get("version", "")), each)
    raise NoData(f"no member of its etcd gives its data: {told}")


def rank(said: Status) -> tuple[bool, bool, int, int]:
    """A sort key for members: the one with the lowest is copied.

    Members with a vote come first; of these the leader (if two say that they lead, the one with the higher
    term); of the others the one that has applied most.
    """
    leader = said.get("leader", "")
    leads = leader not in ("", "0") and leader == said.get("header", {}).get("member_id")
    term = int(said.get("raftTerm", 0)) if leads else 0
    return bool(said.get("isLearner")), not leads, -term, -int(said.get("raftAppliedIndex", 0))


async def _status(http: aiohttp.ClientSession, member: Endpoint) -> Status | str:
    """What a member says of itself; or, as a text, why it does not answer."""
    try:
        async with asyncio.timeout(CALL_SECONDS), _asked(http, member, "status") as answer:
            found: Status = msgspec.json.decode(await answer.read())
            rank(found)
    except FAILURES as error:
        return _why(member, error)
    return found


def _why(member: Endpoint, error: Exception) -> str:
    return f"{member.name or member.url}: {type(error).__name__} {error}"


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
