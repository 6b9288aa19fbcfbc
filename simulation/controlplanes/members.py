"""The members of a simulated etcd, as one manager's controllers ask and change them (``look.MembersClient``).

Theory.      It plays the part of ``members.client.Members``: it reaches the endpoints that run and accept its
             certificate, and asks the first that has a vote and a majority. A change is a call of the host:
             it gets the faults of calls, is carried out whether or not the manager lives on, and is a crash
             point.
Called by    the controllers of components, through ``ComponentSetup.connect``; ``setup`` passes it in.
"""

from collections.abc import Mapping
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from kubewright.base.errors import KubewrightError
from kubewright.controlplanes.etcd import NoAnswer
from kubewright.controlplanes.members import Access, Seen, Step
from simulation.controlplanes import health, quorum
from simulation.controlplanes.host import SimHost
from simulation.controlplanes.machine import HostMachine
from simulation.controlplanes.programs import Program, name_of


class SimMembers:
    """A client of the members of one etcd, as an async context manager."""

    def __init__(self, machine: HostMachine, host: SimHost, access: Access) -> None:
        self._machine = machine
        self._host = host
        self._access = access

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """There is no connection to close."""

    async def look(self, wanted: Mapping[str, str]) -> Seen:
        """As ``MembersClient.look``."""
        await self._host.leg()
        there = self._there()
        voter = self._voter(there)
        if voter is None:
            return Seen(wanted, unasked="no member of etcd answers (simulated)")
        name = name_of(voter.identity)
        hosted, etcd = self._machine.workloads[name], self._machine.etcds[name]
        answering = frozenset(hosted.data[each.ordinal].member for each in there)
        caught_up = frozenset(self._machine.caught_up(name)) & answering
        return Seen(wanted, tuple(etcd.members.values()), answering, caught_up)

    async def perform(self, step: Step) -> None:
        """As ``MembersClient.perform``."""
        voter = self._voter(self._there())
        if voter is None:
            raise NoAnswer("no member of etcd answers (simulated)")
        try:
            await self._host.change_members(voter.identity, step)
        except KubewrightError as error:
            raise NoAnswer(str(error)) from None

    def _there(self) -> list[Program]:
        """The members that run, and that this client and they trust each other."""
        found = (self._machine.at(urlsplit(each.url).hostname or "") for each in self._access.endpoints)
        return [each for each in found if each is not None and each.up and self._is_trusted(each)]

    def _is_trusted(self, one: Program) -> bool:
        hosted, etcd = (
            self._machine.workloads[name_of(one.identity)],
            self._machine.etcds[name_of(one.identity)],
        )
        own, authority = (health.content(one.workload.contents, end) for end in ("-etcd-server", "-etcd"))
        ours = self._access.credentials
        known = health.signed(ours.certificate, authority) and health.signed(own, ours.authority)
        return known and quorum.is_member(hosted, etcd, one)

    def _voter(self, there: list[Program]) -> Program | None:
        """The first of these that has a vote, and a majority."""
        for one in there:
            name = name_of(one.identity)
            hosted, etcd = self._machine.workloads[name], self._machine.etcds[name]
            learner = etcd.members[hosted.data[one.ordinal].member].learner
            if not learner and quorum.serves(hosted, etcd, one):
                return one
        return None
