"""Asks the members of an etcd who they are, and changes them.

Theory.      Every member serves etcd's API as JSON over HTTPS beside gRPC, so no further library is needed.
             Whether each answers, and how far it is, is asked of each itself, all at once; the list of
             members is asked of one that answers, which asks the leader: what it knows itself may be old.
Invariants.  Each call has a deadline. A call that changes members is sent once: whether it took effect is
             seen in the list. A learner counts as caught up only where etcd would say so too.
Source       etcd's API reference v3 (``/v3/cluster/member``, ``/v3/maintenance/status``); its rule for
             learners (nine tenths of the leader's entries).
Called by    the controller of NestedEtcd.
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
    Door,
    Member,
    Promote,
    Remove,
    Seen,
    Step,
)
from kubewright.pki.certificates import Identity

CALL_SECONDS = 5.0
LAG = 100
"""Entries that a learner may lack and yet has caught up."""
NEARLY = 0.9
"""Of the leader's entries: with fewer, etcd itself gives a learner no vote."""
LEARNER = "not supported for learner"
"""What a learner answers to all but the question how it is."""
Answer = Mapping[str, Any]


class NoAnswer(KubewrightError):
    """No member answered, or one refused; the message says why."""

    retry: Retry = delays.SHORT


def tls_of(authority: bytes, certificate: bytes, key: bytes) -> ssl.SSLContext:
    """To be a client of members that this authority signed for; all as PEM.

    Raises:
        ValueError: it is not a certificate with its key.
        ssl.SSLError: the authority is not one.
    """
    context = ssl.create_default_context(cadata=authority.decode())
    Identity.from_pem(certificate + b"\n" + key).load_into(context)
    return context


class Members:
    """The etcd to which there is this access.

    Raises:
        NoAnswer: the certificates of the access are unfit.
    """

    def __init__(self, access: Access) -> None:
        self._doors = tuple(access.doors)
        try:
            tls = tls_of(access.authority, access.certificate, access.key)
        except (ValueError, ssl.SSLError):
            raise NoAnswer("the certificates of its clients are unfit") from None
        self._http = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=tls), timeout=aiohttp.ClientTimeout(total=CALL_SECONDS)
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._http.close()

    async def look(self, wanted: Mapping[str, str]) -> Seen:
        """What the members say. Without members, and with the reason, if they do not say who they are."""
        there, unasked = await self._answers()
        answers = {int(each["header"]["member_id"]): each for each in there.values()}
        try:
            listed = await self._first(there, unasked, "/v3/cluster/member/list", {"linearizable": True})
        except NoAnswer as error:
            return Seen(wanted, unasked=str(error))
        members = tuple(map(_member, listed.get("members", ())))
        ahead = max((int(each.get("raftIndex", 0)) for each in answers.values()), default=0)
        learners = {each.id for each in members if each.learner}
        near = {each for each, said in answers.items() if _near(int(said.get("raftAppliedIndex", 0)), ahead)}
        return Seen(wanted, members, frozenset(answers), frozenset(learners & near))

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

    async def _answers(self) -> tuple[dict[Door, Answer], str]:
        """How each member is that answers; and why another one does not."""
        found = await asyncio.gather(*map(self._status, self._doors))
        pairs = list(zip(self._doors, found, strict=True))
        there = {door: each for door, each in pairs if not isinstance(each, str)}
        return there, next((each for _, each in pairs if isinstance(each, str)), "it has no address")

    async def _first(self, doors: Iterable[Door], unasked: str, path: str, body: Answer) -> Answer:
        """The answer of the first of these that has a vote: a learner refuses."""
        for door in doors:
            try:
                return await self._post(door, path, body)
            except (OSError, aiohttp.ClientError) as error:
                raise NoAnswer(f"no answer from etcd: {_unreachable(door, error)}") from None
            except NoAnswer as error:
                if LEARNER not in str(error):
                    raise
                unasked = str(error)
        raise NoAnswer(f"no member of etcd answers: {unasked}")

    async def _status(self, door: Door) -> Answer | str:
        """How a member is; a text says why it does not answer."""
        try:
            return await self._post(door, "/v3/maintenance/status", {})
        except (OSError, aiohttp.ClientError, NoAnswer) as error:
            return _unreachable(door, error)

    async def _post(self, door: Door, path: str, body: Answer) -> Answer:
        sent = self._http.post(f"{door.url}{path}", json=body, server_hostname=door.name or None)
        async with sent as answer:
            try:
                found: Answer = await answer.json(content_type=None) or {}
            except ValueError:
                raise NoAnswer(f"{door.name or door.url} is no etcd: it answers {answer.status}") from None
        if answer.status != 200:
            raise NoAnswer(f"etcd refuses {path}: {found.get('message') or answer.status}")
        return found


def _unreachable(door: Door, error: Exception) -> str:
    return f"{door.name or door.url}: {str(error) or type(error).__name__}"


def _near(applied: int, ahead: int) -> bool:
    """Whether a learner has so many of the leader's entries that it may get a vote."""
    return ahead - applied <= LAG and applied >= NEARLY * ahead


def _member(listed: Answer) -> Member:
    peers = listed.get("peerURLs") or [""]
    return Member(int(listed["ID"]), listed.get("name", ""), peers[0], bool(listed.get("isLearner")))
