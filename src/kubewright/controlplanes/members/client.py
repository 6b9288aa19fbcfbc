"""Asks the members of an etcd who they are, and changes them.

Theory.      Every member serves etcd's API as JSON over HTTPS beside gRPC, so no gRPC library is needed. Each
             member is asked for its own status, all at the same time. The list of members is asked of one
             that answers, as a linearizable read, which the leader confirms.
Invariants.  Each call has a deadline. A call that changes members is sent once; the next look at the list
             shows whether it took effect. A learner counts as caught up only where etcd would promote it too.
Source       etcd's API reference v3 (``/v3/cluster/member``, ``/v3/maintenance/status``); its rule for
             learners (nine tenths of the leader's entries).
Called by    ``component``.
"""

import asyncio
import ssl
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any, Self

import aiohttp

from kubewright.base import delays
from kubewright.base.errors import KubewrightError, Retry
from kubewright.controlplanes.members.decide import (
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
from kubewright.pki import tls
from kubewright.pki.certificates import Identity

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
