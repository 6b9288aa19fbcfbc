"""Makes the controllers of all worlds from clients, a driver and options, in a group for each Lease.

Theory.      The same assembly serves both ways to run. ``control`` has the machines, ``target`` their
             nodes; when both are one server, they share one client and one set of caches.
             Controllers that are listed under one Lease form a group, which waits for that Lease, holds it
             and loses it without the others. MCM is two programs with a Lease each, and so are the two
             halves of our machine controllers. A controller keeps what it remembers in itself, so each term
             of leadership has new controllers, on caches that stay.
Invariants.  A group writes, and calls a cloud, only while its own Lease may still be its own.
Called by    ``embedded``, ``on_kubernetes`` and ``testing``.
"""

import asyncio
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any

import structlog

from kubewright.api.cluster.names import WATCH_FILTER_LABEL
from kubewright.api.core import LEASE
from kubewright.api.kinds import Kind
from kubewright.clusters.sessions import AGENT, Connect, WorkloadClusters, by_sockets
from kubewright.compose.options import Election, Options
from kubewright.compose.worlds import chosen, leases, running, worlds
from kubewright.controlplanes.world import FindHosts, no_hosts
from kubewright.driver.contract import Background, Closing, Driver
from kubewright.driver.guard import DriverMetrics
from kubewright.driver.registry import reached
from kubewright.kube.client import Client
from kubewright.kube.header import Header
from kubewright.kube.informer import Informers
from kubewright.kube.patches import Contested
from kubewright.kube.transport import Entitled, FencedTransport
from kubewright.runtime.controller import Admits
from kubewright.runtime.events import Recorder
from kubewright.runtime.leader import AllOf, Candidate, Elector
from kubewright.runtime.lease import WHOLE
from kubewright.runtime.manager import Group, Runnable, Settings, Work
from kubewright.runtime.metrics import Metrics
from kubewright.runtime.sessions.lending import Lender
from kubewright.runtime.sessions.session import Fixed, Session
from kubewright.runtime.unreadable import Unreadables
from kubewright.runtime.world import ControllerInfo, Environment, Runnables, World
from kubewright.wire.gvk import Key

log = structlog.get_logger(__name__)
COMPONENT = "machine-controller-manager"
"""The reporting component of our events; MCM's events have the same."""

CONTESTED = "kubewright_contested_writes"
"""The counter's name, without its suffix."""
CLOSE_SECONDS = 10.0
"""For a driver to end what it is doing: a VM that is being made has its QEMU started by then. systemd gives a
service 90 seconds to end, and Kubernetes a pod 30."""
LEASELESS = "server"
"""The name of the group of controllers without a Lease: those that are part of an embedded server."""


class Assembly:
    """The controllers that ``options`` asks for, all those of the worlds ``beside``, and what they share.

    ``beside`` are worlds that no option switches off (``embedded.server_worlds``). ``connect`` makes the
    transports to workload clusters and nested control planes. ``services`` run always, whether this process
    leads or not; a driver's own loops are among them: simulated kubelets do not end with a term. ``others``
    are further drivers, by name, beside that of the options. ``hosts`` answers where components of nested
    control planes run.

    Raises:
        InvalidInput: ``options.controllers`` names a controller that does not exist, or leaves none to run.
    """

    def __init__(
        self,
        control: Client,
        target: Client,
        driver: Driver | None,
        options: Options,
        metrics: Metrics,
        *,
        beside: Sequence[World] = (),
        others: Mapping[str, Driver] | None = None,
        connect: Connect = by_sockets,
        hosts: FindHosts = no_hosts,
    ) -> None:
        drivers = {**(others or {}), **({} if driver is None else {options.driver: driver})}
        self.driver_of = partial(reached, drivers, options.driver)
        self.controllers: list[ControllerInfo] = [
            *chosen(options),
            *(each for one in beside for each in one.controllers),
        ]
        self.clock = control.clock
        self._filter, self._shard = options.watch_filter, options.shard
        self.metrics = metrics
        calls = DriverMetrics(metrics.registry)
        self._worlds = (*worlds(options, drivers, calls.of, hosts, connect), *beside)
        kinds = [LEASE, *(kind for world in self._worlds for kind in (*world.kinds, *world.event_kinds))]
        self.recorder = Recorder(control, self.clock, COMPONENT, kinds=kinds)
        self.services: list[Runnable] = [self.recorder.run]
        self._control = Session(control, Informers(control, only=options.namespaces))
        self._target = self._control if target is control else Session(target, Informers(target))
        for cloud in drivers.values() if options.machine.joins else ():
            self.services += _own_loops(cloud, self._target.caches)
        for each in self.informers:
            metrics.informers(each)
        admits = self._admits(WATCH_FILTER_LABEL)
        self._workloads = Lender(
            lambda: WorkloadClusters(self._control, connect=connect, admits=admits), user_agent=AGENT
        )
        if any(world.reaches_workloads for world in running(self._worlds, self.controllers)):
            self.services.append(self._workloads.run)

    @property
    def informers(self) -> list[Informers]:
        """The caches of each cluster."""
        return list(dict.fromkeys((self._control.caches, self._target.caches)))

    def definitions(self) -> list[Mapping[str, Any]]:
        """The CustomResourceDefinitions of the worlds that run."""
        return [each for world in running(self._worlds, self.controllers) for each in world.definitions()]

    def runs(self, kind: Kind[Any]) -> bool:
        """Whether it is a kind of a world that runs."""
        return any(kind in world.kinds for world in running(self._worlds, self.controllers))

    def groups(self, election: Election, identity: str, settings: Settings) -> list[Group]:
        """A group for each Lease, and one for the controllers without; ``identity`` is ours in the Leases.

        Without an election all controllers are one group, for a process that shares its server with no other.
        """
        if not election.enabled:
            return [self._group_without_lease("controllers", self.controllers, settings)]
        return [self._group(lease, election, identity, settings) for lease in leases(self.controllers)]

    def _group(self, lease: str, election: Election, identity: str, settings: Settings) -> Group:
        members = [each for each in self.controllers if each.lease == lease]
        if not lease:
            return self._group_without_lease(LEASELESS, members, settings)
        elector = self._candidate(election.leases.get(lease, lease), election, identity)

        def begin() -> Work:
            return self.term(members, lease, lambda: elector.entitled)

        return Group(lease, self.clock, begin, elector=elector, again=election.again, settings=settings)

    def _candidate(self, lease: str, election: Election, identity: str) -> Candidate:
        """For the Lease; a shard holds it together with the other shards, and one of its own before."""

        def of(name: str, identity: str, *, shared: bool = False) -> Elector:
            return Elector(
                self._control.client,
                self.clock,
                Key(election.namespace, name),
                identity=identity,
                timings=election.timings,
                recorder=self.recorder,
                renew_on_request=election.renew_on_request,
                shared=shared,
            )

        shard = self._shard
        if shard.whole:
            return of(lease, identity)
        return AllOf([of(shard.lease(lease), identity), of(lease, shard.shared_identity, shared=True)])

    def _group_without_lease(
        self, name: str, controllers: Sequence[ControllerInfo], settings: Settings
    ) -> Group:
        work = self.work(controllers)
        return Group(name, self.clock, lambda: work, settings=settings)

    def work(self, controllers: Sequence[ControllerInfo]) -> Work:
        """Controllers for as long as the process lives."""
        return self._work(controllers, self._control, self._target, lambda: True)

    def term(self, controllers: Sequence[ControllerInfo], lease: str, entitled: Entitled) -> Work:
        """Controllers for one term, which remember nothing of an earlier one.

        ``entitled`` is asked before each write to a server and each call of the driver.
        """
        agent = f"kubewright/{lease}"
        control = _fenced(self._control, entitled, agent)
        target = control if self._target is self._control else _fenced(self._target, entitled, agent)
        work = self._work(controllers, control, target, entitled)

        def end() -> None:
            for informers in work.informers:
                informers.give_back()

        return replace(work, end=end)

    def _work(
        self, controllers: Sequence[ControllerInfo], control: Session, target: Session, entitled: Entitled
    ) -> Work:
        workloads = cache(partial(self._workloads.lend, entitled))
        environment = Environment(
            control,
            Fixed(target),
            entitled,
            self.recorder,
            self.clock,
            self.metrics,
            workloads=workloads,
        )
        mine = [
            (world, [each.name for each in world.controllers if each in controllers])
            for world in self._worlds
        ]
        runnables = [self._wired(world, names, environment) for world, names in mine if names]
        unreadables = self._unreadables(control, mine, controllers)
        tell = self._tells_contests({control.client.name, target.client.name})
        for each in runnables:
            for controller in each.controllers:
                controller.contests.tell = tell
        return Work(
            [controller for each in runnables for controller in each.controllers],
            list(dict.fromkeys((control.caches, target.caches))),
            [
                unreadables.run,
                *([workloads().run] if workloads.cache_info().currsize else ()),
                *(task for each in runnables for task in each.background),
            ],
        )

    def _wired(self, world: World, names: Sequence[str], environment: Environment) -> Runnables:
        """The controllers of a world; where programs or shards divide its objects, they work on ours alone.

        Controllers that work on a kind of Kubernetes' own, such as a Secret that objects of several programs
        may name, are not divided: each program sees all objects that name it, so all decide alike.
        """
        labels, shard = self._admits(world.filter_label), self._shard if world.shards else WHOLE
        if shard.whole and not (world.filter_label and self._filter):
            return world.wire(environment, names)
        ours = self._ours(world)
        found = world.wire(replace(environment, admits=labels, shard=shard), names)
        kinds = {each.resource.kind: each for each in world.kinds}
        works_on = {each.name: kinds[each.kind] for each in world.controllers if each.kind in kinds}
        for controller in found.controllers:
            if (kind := works_on.get(controller.name)) is not None:
                controller.admits(environment.control.caches.get(kind), ours)
        return found

    def _tells_contests(self, clusters: Container[str]) -> Callable[[Contested], None]:
        """Tells of a write that another client undoes: it is counted if it is withheld, logged, and an event
        of what is written, in one of these clusters."""
        counted = self.metrics.counter(
            CONTESTED, "Writes that were withheld as they did not last", ("resource",)
        )

        def tell(contested: Contested) -> None:
            target = contested.target
            if contested.wait:
                counted.labels(str(target.resource)).inc()
            log.warning("a write does not last", object=str(target.key), problem=contested.message)
            if target.cluster in clusters:
                meta = {"name": target.key.name, "namespace": target.key.namespace, "uid": target.uid}
                kind = {"apiVersion": target.resource.api_version, "kind": target.resource.kind}
                about = {**kind, "metadata": meta}
                self.recorder.event(about, contested.reason, contested.steady, warning=True)

        return tell

    def _ours(self, world: World) -> Callable[[Header], bool]:
        """Which objects of a world this program works on."""
        labels, shard = self._admits(world.filter_label), self._shard if world.shards else WHOLE
        return lambda header: shard.has(header.uid) and (not self._filter or labels(header.labels))

    def _unreadables(
        self,
        control: Session,
        worlds: Sequence[tuple[World, Sequence[str]]],
        controllers: Sequence[ControllerInfo],
    ) -> Unreadables:
        """What these controllers cannot read of the kinds that they work on."""
        found = Unreadables(control.client, self.recorder, self.clock)
        for world, names in worlds:
            works_on = {each.kind for each in world.controllers if each.name in names}
            kinds = [each for each in world.kinds if each.resource.kind in works_on]
            found.follow(control.caches, kinds, self._ours(world))
        found.count(self.metrics, ",".join(sorted({each.lease for each in controllers})))
        return found

    def _admits(self, label: str) -> Admits:
        """Whether an object with these labels is this program's part of those that ``label`` divides."""
        return lambda labels: not (label and self._filter) or labels.get(label) == self._filter


def _fenced(session: Session, entitled: Entitled, agent: str) -> Session:
    """The same cluster for one term: its client writes only while ``entitled``, on borrowed caches."""
    transport = FencedTransport(session.client.transport, entitled)
    client = session.client.over(transport, user_agent=agent)
    return Session(client, session.caches.borrow(client))


def _own_loops(driver: object, caches: Informers) -> list[Runnable]:
    """What a driver runs by itself, such as the kubelets of a simulated cloud."""
    return [partial(driver.run, caches)] if isinstance(driver, Background) else []


async def close(driver: object, seconds: float = CLOSE_SECONDS) -> None:
    """Close a driver that can be closed; one that takes longer than ``seconds`` is left as it is."""
    if isinstance(driver, Closing):
        try:
            async with asyncio.timeout(seconds):
                await driver.close()
        except TimeoutError:
            log.warning("a driver was not closed in time", seconds=seconds)
