"""Adds nested control planes to a simulated world: the product's controllers, and the machine they run on.

Invariants.  The machine survives every kill of a manager. Keys are drawn by no seed, so the trace has no hash
             of a Secret, nor of objects whose status tells of one; all else is a function of the seed.
             ``members`` of a simulated etcd are asked and changed as by ``etcd.Members``: a change
             is a call of the host, gets the faults of calls, and is carried out whether or not the manager
             lives on.
Called by    ``stories.run``, as ``prepare`` of ``run.simulate``.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from kubewright.base.errors import KubewrightError
from kubewright.clusters import world as clusters
from kubewright.controlplanes import world as controlplanes
from kubewright.controlplanes.certificates.keeper import SecretKeeper
from kubewright.controlplanes.etcd import NoAnswer
from kubewright.controlplanes.hosting.contract import Hosts
from kubewright.controlplanes.members import Access, Seen, Step
from kubewright.driver.contract import Driver
from kubewright.kube.errors import ConnectFailed
from kubewright.machines.world import Half
from kubewright.pki.keys import Algorithm
from kubewright.runtime.world import Environment, Runnables
from kubewright.runtime.world import World as ApiWorld
from kubewright.wire.http import Request, Response
from simulation.controlplanes import health, quorum
from simulation.controlplanes.acts import serving
from simulation.controlplanes.copies import CopyingHost, SnapshotFolder, stream
from simulation.controlplanes.host import SimHost
from simulation.controlplanes.machine import HostMachine
from simulation.controlplanes.programs import Program, name_of
from simulation.journal import CONTROL, WORKLOADS
from simulation.loop import Process
from simulation.requests import carried_out
from simulation.resources import CLUSTERS, COMPONENTS, PLANES, RESTORES, SECRETS, SNAPSHOTS
from simulation.rules.planes import PlanePast
from simulation.rules.table import OF_CONTROL_PLANES
from simulation.story import End, Part, Realm, Story, nothing
from simulation.world import World


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


REQUESTS_AT_START = 150
"""Requests that a manager may send when it begins: lists and watches, and writes that it repeats."""
REQUESTS_PER_CALL = 40
"""Requests that may come with each call of a host: certificates, and the statuses of the four objects."""


class WithoutUsers:
    """The transport to an API server of the simulated machine: no user has anything there."""

    async def request(self, request: Request, *, timeout: float) -> Response:
        """As ``Transport.request``: lists are empty, and there is nothing else to ask for."""
        if request.method != "GET":
            raise ConnectFailed(f"{request.method} {request.path}: no story writes into a control plane")
        return Response(200, b'{"kind": "List", "metadata": {"resourceVersion": "1"}, "items": []}')

    def stream(self, request: Request) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """As ``Transport.stream``: nothing there is watched."""
        raise ConnectFailed(f"{request.path}: no story watches a control plane")

    async def close(self) -> None:
        """As ``Transport.close``."""


def install(world: World) -> None:
    """Let managers run the controllers of control planes, on one machine."""
    machine = HostMachine(world)
    world.add(machine)
    world.add(SnapshotFolder())
    nowhere = controlplanes.world(controlplanes.no_hosts, _keeper)
    made = (clusters.world(), nowhere)
    world.managers.extra_worlds += [replace(each, controllers=()) for each in made]
    world.managers.own_worlds = partial(_worlds, world, machine)
    for each in (PLANES, *COMPONENTS.values(), SECRETS, CLUSTERS, SNAPSHOTS, RESTORES):
        world.journal.shown_as[each] = (each, dict)
        world.journal.objects[each] = {}
    world.journal.drawn.update((SECRETS, PLANES, *COMPONENTS.values()))
    world.control.host.on_answered.append(partial(carried_out, world.journal, CONTROL))
    calls: list[str] = []
    world.journal.listen(lambda write: calls.append(write.verb) if write.kind == WORKLOADS else None)
    world.other_requests = lambda: (
        REQUESTS_AT_START * (1 + sum(world.counts.faults.values()) + world.counts.kills)
        + REQUESTS_PER_CALL * len(calls)
    )


def _worlds(world: World, machine: HostMachine, process: Process, _driver: Driver) -> Sequence[ApiWorld]:
    clock = world.clock(f"host of {process.name}")

    def wire(environment: Environment, chosen: Sequence[str]) -> Runnables:
        host = CopyingHost(world, machine, process.name, clock)
        hosts = Hosts(programs=host, snapshots=world.part(SnapshotFolder).path)
        to_etcd, streams = partial(SimMembers, machine, host), partial(stream, machine, host)
        core = controlplanes.world(
            lambda _environment: hosts,
            _keeper,
            connect=lambda _access, _clock: WithoutUsers(),
            to_etcd=to_etcd,
            stream=streams,
        )
        made = core.wire(environment, chosen)
        return Runnables(made.controllers, [*made.background, host.run])

    core = controlplanes.world(controlplanes.no_hosts, _keeper)
    under = [replace(each, lease=Half.SETS) for each in core.controllers]
    return [replace(core, controllers=under, wire=wire, on_request=False)]


def _keeper(environment: Environment) -> SecretKeeper:
    return SecretKeeper(environment.control.caches, Algorithm.EC)


REALM = Realm(
    "control planes",
    install,
    rules=OF_CONTROL_PLANES,
    memories=(PlanePast,),
    rounds=("crash", "late", "leader", "double"),
    harmed=False,
    apart=False,
)


WHOLE = serving()


def story(name: str, act: Part, end: End = WHOLE, before: Part = nothing) -> Story:
    """A story of control planes."""
    return Story(f"control-plane-{name}", act, end, before, realm=REALM)
