"""Asks the members of an etcd who they are, and changes them.

Theory.      Every member serves etcd's API as JSON over HTTPS beside gRPC, so no further library is needed.
             The list of members is asked of one that answers; whether each answers, and how far it is, is
             asked of each itself, all at once.
Invariants.  Each call has a deadline. A call that changes members is sent once: whether it took effect is
             seen in the list.
Source       etcd's API reference v3 (``/v3/cluster/member``, ``/v3/maintenance/status``).
Called by    the controller of NestedEtcd.
"""

import asyncio
import ssl
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self

import aiohttp

from kubewright.base.errors import KubewrightError
from kubewright.controlplanes.members.decide import AddLearner, Member, Promote, Remove, Seen, Step

CALL_SECONDS = 5.0
LAG = 100
"""Entries that a learner may lack and yet has caught up: etcd itself asks for nine tenths of them."""
LEARNER = "not supported for learner"
"""What a learner answers to all but the question how it is."""
Answer = Mapping[str, Any]


class NoAnswer(KubewrightError):
    """No member answered, or one refused; the message says why."""


class Members:
    """The etcd at these client URLs, by host of the peer URL. ``tls``: with a client certificate."""

    def __init__(self, urls: Sequence[str], tls: ssl.SSLContext) -> None:
        self._urls = tuple(urls)
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
        """What the members say. Without members if none answers."""
        statuses = await asyncio.gather(*map(self._status, self._urls))
        answers = {int(each["header"]["member_id"]): each for each in statuses if each is not None}
        try:
            listed = await self._first("/v3/cluster/member/list", {})
        except NoAnswer:
            return Seen(wanted)
        members = tuple(map(_member, listed.get("members", ())))
        ahead = max((int(each.get("raftIndex", 0)) for each in answers.values()), default=0)
        learners = {each.id for each in members if each.learner}
        near = {each for each, said in answers.items() if ahead - int(said.get("raftAppliedIndex", 0)) <= LAG}
        return Seen(wanted, members, frozenset(answers), frozenset(learners & near))

    async def perform(self, step: Step) -> None:
        """Make one change.

        Raises:
            NoAnswer: no member answered, or they refused; the change may have been made all the same.
        """
        match step:
            case AddLearner(_, peer):
                await self._first("/v3/cluster/member/add", {"peerURLs": [peer], "isLearner": True})
            case Promote(member, _):
                await self._first("/v3/cluster/member/promote", {"ID": str(member)})
            case Remove(member, _):
                await self._first("/v3/cluster/member/remove", {"ID": str(member)})

    async def _first(self, path: str, body: Answer) -> Answer:
        """The answer of the first member that can be reached and has a vote; a learner refuses."""
        told = "it has no address"
        for url in self._urls:
            try:
                return await self._post(url, path, body)
            except (OSError, TimeoutError, aiohttp.ClientConnectionError) as error:
                told = f"{url}: {type(error).__name__} {error}"
            except NoAnswer as error:
                if LEARNER not in str(error):
                    raise
                told = str(error)
        raise NoAnswer(f"no member of etcd answers: {told}")

    async def _status(self, url: str) -> Answer | None:
        try:
            return await self._post(url, "/v3/maintenance/status", {})
        except (OSError, TimeoutError, aiohttp.ClientError, NoAnswer):
            return None

    async def _post(self, url: str, path: str, body: Answer) -> Answer:
        async with self._http.post(f"{url}{path}", json=body) as answer:
            found: Answer = await answer.json(content_type=None)
        if answer.status != 200:
            raise NoAnswer(f"etcd refuses {path}: {found.get('message') or answer.status}")
        return found


def _member(listed: Answer) -> Member:
    peers = listed.get("peerURLs") or [""]
    return Member(int(listed["ID"]), listed.get("name", ""), peers[0], bool(listed.get("isLearner")))
