"""A client of an etcd: asks its members who they are, changes them, and streams the data of one into a file.

Theory.      Every member serves etcd's API as JSON over HTTPS beside gRPC, so no gRPC library is needed. Each
             member is asked for its own status, all at the same time. The list of members is asked of one
             that answers, as a linearizable read, which the leader confirms.
             Pods, processes and the etcd of another program are copied in the same way: the host knows the
             addresses of its instances, or the status of the NestedEtcd has them, and Secrets have a client
             certificate. (The data file of our own API server is copied by its host, ``SavesData``.) A member
             sends what it has itself, and may lag behind the others: so all are asked for their status first,
             and the leader sends its data; or, where none that answers leads, the member that has applied
             most.
Invariants.  Each call has a deadline; a stream has one for each part, and is written to disk as it arrives. A
             call that changes members is sent once; the next look at the list shows whether it took effect. A
             learner counts as caught up only where etcd would promote it too (nine tenths of the leader's
             entries). No content of a Secret is in a message.
Called by    ``component``, with what ``members`` decides; the controllers of snapshots and restores.
"""

import asyncio
import base64
import binascii
import os
import ssl
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import aiohttp
import msgspec

from kubewright.api.core import SECRET
from kubewright.base import delays
from kubewright.base.errors import KubewrightError, Retry
from kubewright.controlplanes.certificates.sets import etcd_health_client
from kubewright.controlplanes.family import Family
from kubewright.controlplanes.members import (
    Access,
    AddLearner,
    Credentials,
    Endpoint,
    Member,
    Promote,
    Remove,
    Seen,
    Step,
)
from kubewright.kube.client import Client
from kubewright.pki import tls
from kubewright.pki.certificates import Identity
from kubewright.wire.errors import NotFound
from kubewright.wire.gvk import Key

CALL_SECONDS = 5.0
MAX_LAG = 100
"""How many entries a learner may be behind the leader and still be promoted."""
PROMOTABLE = 0.9
"""The share of the leader's entries below which etcd itself refuses to promote a learner."""
REFUSED_BY_LEARNER = "not supported for learner"
"""What a learner answers to every request but that for its status."""
Answer = Mapping[str, Any]


class NoAnswer(KubewrightError):
    """No member answered, or one refused; the message says why."""

    retry: Retry = delays.SHORT


def tls_of(own: Credentials) -> ssl.SSLContext:
    """TLS of a client of the members with these credentials.

    Raises:
        ValueError: they have no certificate with its key, or the authority is none.
    """
    context = tls.client(own.authority)
    Identity.from_pem(own.certificate + b"\n" + own.key).load_into(context)
    return context


class Members:
    """A client of the members of one etcd, as an async context manager.

    Raises:
        NoAnswer: the certificates of the access are unfit.
    """

    def __init__(self, access: Access) -> None:
        self._endpoints = tuple(access.endpoints)
        try:
            context = tls_of(access.credentials)
        except ValueError:
            raise NoAnswer("the certificates of its clients are unfit") from None
        self._http = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=context), timeout=aiohttp.ClientTimeout(total=CALL_SECONDS)
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._http.close()

    async def look(self, wanted: Mapping[str, str]) -> Seen:
        """What the members answer. If no list can be had, the answer has no members, and says why."""
        there, unasked = await self._answers()
        answers = {_id_of(each): each for each in there.values()}
        try:
            listed = await self._first(there, unasked, "/v3/cluster/member/list", {"linearizable": True})
        except NoAnswer as error:
            return Seen(wanted, unasked=str(error))
        members = tuple(map(_member, listed.get("members", ())))
        ahead = max((int(each.get("raftIndex", 0)) for each in answers.values()), default=0)
        learners = {each.id for each in members if each.learner}
        caught_up = {
            each for each, said in answers.items() if _caught_up(int(said.get("raftAppliedIndex", 0)), ahead)
        }
        return Seen(wanted, members, frozenset(answers), frozenset(learners & caught_up))

    async def perform(self, step: Step) -> None:
        """Make one change.

        Raises:
            NoAnswer: no member answered, or they refused; the change may have been made all the same.
        """
        there, unasked = await self._answers()
        match step:
            case AddLearner(_, peer):
                body: Answer = {"peerURLs": [peer], "isLearner": True}
                await self._first(there, unasked, "/v3/cluster/member/add", body)
            case Promote(member, _):
                await self._first(there, unasked, "/v3/cluster/member/promote", {"ID": str(member)})
            case Remove(member, _):
                await self._first(there, unasked, "/v3/cluster/member/remove", {"ID": str(member)})

    async def _answers(self) -> tuple[dict[Endpoint, Answer], str]:
        """The status of each member that answers; and why the first of the others does not."""
        found = await asyncio.gather(*map(self._status, self._endpoints))
        pairs = list(zip(self._endpoints, found, strict=True))
        there = {endpoint: each for endpoint, each in pairs if not isinstance(each, str)}
        return there, next((each for _, each in pairs if isinstance(each, str)), "it has no address")

    async def _first(self, endpoints: Iterable[Endpoint], unasked: str, path: str, body: Answer) -> Answer:
        """The answer of the first of these that has a vote; a learner refuses, so the next is asked.

        After a connection that broke no other is asked: a change is sent once. ``unasked``: why the members
        that are not among these do not answer, for the case that none of these has a vote.
        """
        for endpoint in endpoints:
            try:
                return await self._post(endpoint, path, body)
            except (OSError, aiohttp.ClientError) as error:
                raise NoAnswer(f"no answer from etcd: {_unreachable(endpoint, error)}") from None
            except NoAnswer as error:
                if REFUSED_BY_LEARNER not in str(error):
                    raise
                unasked = str(error)
        raise NoAnswer(f"no member of etcd answers: {unasked}")

    async def _status(self, endpoint: Endpoint) -> Answer | str:
        """The status of a member; or, as a text, why it does not answer."""
        try:
            said = await self._post(endpoint, "/v3/maintenance/status", {})
            return (
                said if _id_of(said) else f"{endpoint.name or endpoint.url} is no etcd: it has no member's id"
            )
        except (OSError, aiohttp.ClientError, NoAnswer) as error:
            return _unreachable(endpoint, error)

    async def _post(self, endpoint: Endpoint, path: str, body: Answer) -> Answer:
        sent = self._http.post(f"{endpoint.url}{path}", json=body, server_hostname=endpoint.name or None)
        async with sent as answer:
            try:
                found: Any = await answer.json(content_type=None) or {}
            except ValueError:
                found = None
        if not isinstance(found, dict):
            raise NoAnswer(f"{endpoint.name or endpoint.url} is no etcd: it answers {answer.status}")
        if answer.status != 200:
            raise NoAnswer(f"etcd refuses {path}: {found.get('message') or answer.status}")
        return found


def _id_of(status: Answer) -> int:
    """The id of the member that said its status; 0: it said none."""
    header = status.get("header")
    said = str(header.get("member_id", "")) if isinstance(header, dict) else ""
    return int(said) if said.isascii() and said.isdigit() else 0


def _unreachable(endpoint: Endpoint, error: Exception) -> str:
    return f"{endpoint.name or endpoint.url}: {str(error) or type(error).__name__}"


def _caught_up(applied: int, ahead: int) -> bool:
    """Whether a learner has enough of the leader's entries to be promoted."""
    return ahead - applied <= MAX_LAG and applied >= PROMOTABLE * ahead


def _member(listed: Answer) -> Member:
    peers = listed.get("peerURLs") or [""]
    return Member(int(listed["ID"]), listed.get("name", ""), peers[0], bool(listed.get("isLearner")))


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


class NoCredentials(KubewrightError):
    """A Secret for clients of an etcd is missing; the message says which."""


async def credentials_of(client: Client, family: Family) -> Credentials:
    """The client certificate that probes of etcd have; where there is none, that of the API server.

    Raises:
        NoCredentials: a Secret is missing, or has no certificate.
        ApiError, TransportError: the server could not be asked for it.
    """
    authority = await _secret(client, family, f"{family.name}-etcd", "tls.crt")
    own = await _secret(client, family, etcd_health_client(family.name), "tls.crt", "tls.key")
    own = own or await _secret(client, family, f"{family.name}-apiserver-etcd-client", "tls.crt", "tls.key")
    if authority is None or own is None:
        told = f"there is no Secret {family.name}-etcd, or none with a client's certificate for it"
        raise NoCredentials(told)
    return Credentials(authority["tls.crt"], own["tls.crt"], own["tls.key"])


async def _secret(client: Client, family: Family, name: str, *keys: str) -> dict[str, bytes] | None:
    try:
        found = await client.get(SECRET, Key(family.plane.namespace, name))
    except NotFound:
        return None
    return {key: found.data[key] for key in keys} if all(key in found.data for key in keys) else None
