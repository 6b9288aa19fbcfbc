"""The host machine of the programs of control planes: it outlives every manager, and so do the programs.

Theory.      It plays the part of a kubelet and of the programs. A program starts, serves a moment later if it
             can reach what it needs, and ends if it cannot, as the real ones do. One that
             died is started again, with a longer pause each time. Readiness changes a probe's period after
             what the program answers. An API server that is ended while its controller manager runs, or
             without its etcd, takes long to end.
Invariants.  What a manager asked for is stored before anything is started or ended, so no kill of a manager
             comes in between. Only the ordinals in ``HostedWorkload.discarded``, and a removal, lose data. A
             workload with clients has a Service before it starts, where it needs one; the load balancer of an
             API server gets its address some seconds later, and no certificate can name it until then.
Called by    ``host``, rules and stories.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime

from kubewright.api.controlplane.names import Component
from kubewright.controlplanes.hosting.contract import Workload, WorkloadIdentity
from kubewright.controlplanes.members import Step
from kubewright.wire.gvk import Key
from simulation.controlplanes import health, quorum
from simulation.controlplanes.etcd import Content, Disk, Etcd
from simulation.controlplanes.programs import (
    HostedWorkload,
    Name,
    Program,
    StillRemoved,
    name_of,
)
from simulation.journal import (
    DATA_GONE,
    DIES,
    ENDED,
    ENDS,
    PROGRAMS,
    SERVES,
    STARTS,
    STARTS_AGAIN,
    Journal,
    Write,
)
from simulation.loop import Process
from simulation.world import World

BALANCED_SECONDS = 4.0
"""Until a load balancer has an address."""


@dataclass(slots=True)
class Services:
    """All Services, with the time at which each was made. ``needed``: whether this cluster has any."""

    now: Callable[[], float]
    needed: bool = False
    made: dict[Name, float] = field(default_factory=dict)

    def lacks(self, identity: WorkloadIdentity) -> bool:
        """Whether the Service of a workload has to be made first. A controller manager has no clients."""
        has_clients = identity.component is not Component.CONTROLLER_MANAGER
        return self.needed and has_clients and name_of(identity) not in self.made

    def make(self, identity: WorkloadIdentity) -> bool:
        """Make it; False: it is there."""
        if not self.lacks(identity):
            return False
        self.made[name_of(identity)] = self.now()
        return True

    def waits(self, identity: WorkloadIdentity) -> str:
        """Why the address of an API server is not known yet, a clause; empty: it is."""
        if not self.needed or identity.component is not Component.API_SERVER:
            return ""
        since = self.made.get(name_of(identity))
        known = since is not None and self.now() >= since + BALANCED_SECONDS
        return "" if known else f"the load balancer of Service {identity.workload} has no address yet"

    def end(self, identity: WorkloadIdentity) -> bool:
        """Delete it; False: there is none."""
        return self.made.pop(name_of(identity), None) is not None


START_SECONDS = {Component.ETCD: 0.5, Component.API_SERVER: 3.0, Component.CONTROLLER_MANAGER: 0.3}
GIVES_UP = {Component.ETCD: 1.0, Component.API_SERVER: 20.0, Component.CONTROLLER_MANAGER: 10.0}
"""For how many seconds a program that starts waits for what it needs, until it ends."""
PROBE_SECONDS = 1.0
BACK_OFF = (1.0, 30.0)
"""Seconds until a program that died is started again: the first time, and at most."""
END_SECONDS, WATCHED_SECONDS, WITHOUT_ETCD_SECONDS = 0.2, 3.0, 15.0
"""How long a program takes to end: any, an API server with a controller manager, one without etcd."""


class HostMachine:
    """What runs.

    ``workloads``  by namespace and name
    ``retained``   the data of ordinals, after a removal that keeps it
    ``etcds``      the members of each etcd, for as long as there is data of it
    ``vanished``   the data that a user has moved away
    ``in_pods``    whether data is replaced by pods, which take their time, and the caller asks again
    """

    def __init__(self, world: World) -> None:
        self.workloads: dict[Name, HostedWorkload] = {}
        self.retained: dict[Name, dict[int, Disk]] = {}
        self.etcds: dict[Name, Etcd] = {}
        self.in_pods = False
        self.services = Services(world.clock("machine").monotonic)
        self.vanished: dict[tuple[Name, int], Disk] = {}
        self.listeners: list[Callable[[Key], None]] = []
        self.process = Process(world.loop, "machine")
        self._clock = world.clock("machine")
        self._journal: Journal = world.journal
        self._addresses: dict[tuple[Name, int], str] = {}

    # ------------------------------------------------------------ look

    def now(self) -> datetime:
        """By the clock of this machine."""
        return self._clock.now()

    def jump(self, seconds: float) -> None:
        """The clock of this machine jumps; the next probes see what that did to certificates."""
        self._clock.ahead += seconds
        self._look_soon()

    def address(self, identity: WorkloadIdentity, ordinal: int) -> str:
        """Where an instance is reached: the same as long as something of its workload is there."""
        subnet, last = divmod(len(self._addresses), 250)
        return self._addresses.setdefault((name_of(identity), ordinal), f"127.77.{subnet}.{last}")

    def instances(self, namespace: str, workload: str) -> list[Program]:
        """The instances of a workload, by ordinal."""
        hosted = self.workloads.get((namespace, workload))
        return [] if hosted is None else [hosted.programs[each] for each in sorted(hosted.programs)]

    def answers(self, namespace: str, workload: str) -> bool:
        """Whether as many instances as were asked for, at least one, answer their clients."""
        found = self.instances(namespace, workload)
        return bool(found) and all(map(self.serves, found))

    def serves(self, one: Program) -> bool:
        """Whether an instance answers now, and so does what it needs."""
        if not (one.alive and one.up):
            return False
        return health.serves(one.workload, self.now()) and self._reaches(one)

    def _reaches(self, one: Program) -> bool:
        """Whether what an instance needs accepts it. An etcd that never ran here is a foreign one."""
        identity = one.identity
        if identity.component is Component.ETCD:
            return quorum.serves(self.workloads[name_of(identity)], self.etcds[name_of(identity)], one)
        if identity.component is Component.API_SERVER:
            members = self._of(identity, Component.ETCD)
            return members is None or any(
                self.serves(each) and health.may_ask_etcd(one.workload, each.workload, self.now())
                for each in members
            )
        kubeconfig = health.kubeconfig_of(one.workload)
        servers = self._of(identity, Component.API_SERVER) or ()
        return any(
            self.serves(each) and health.gets_in(kubeconfig, each.workload, self.now()) for each in servers
        )

    def at(self, host: str) -> Program | None:
        """The program that is reached at this address."""
        found = next((each for each, address in self._addresses.items() if address == host), None)
        hosted = self.workloads.get(found[0]) if found is not None else None
        return hosted.programs.get(found[1]) if found is not None and hosted is not None else None

    def content(self, namespace: str, workload: str) -> Content | None:
        """What a client of an etcd reads; None: it does not answer."""
        there = [each for each in self.instances(namespace, workload) if self.serves(each)]
        return quorum.content(self.workloads[namespace, workload], there[0]) if there else None

    def write(self, namespace: str, workload: str, entry: str) -> bool:
        """A client writes into an etcd; False: it does not answer."""
        if self.content(namespace, workload) is None:
            return False
        quorum.write(self.workloads[namespace, workload], entry)
        return True

    def etcd_of(self, name: Name) -> tuple[HostedWorkload, Etcd] | None:
        """What runs of an etcd, and its members; None: there is no such etcd."""
        hosted, etcd = self.workloads.get(name), self.etcds.get(name)
        return (hosted, etcd) if hosted is not None and etcd is not None else None

    def change_members(self, name: Name, step: Step) -> bool:
        """Change the members of an etcd that answers; False: nothing has changed."""
        found = self.etcd_of(name)
        if found is None:
            return False
        hosted, etcd = found
        changed = etcd.change(step, quorum.caught_up(hosted, etcd, self._clock.monotonic()))
        quorum.end_removed(hosted, etcd)
        self._look_soon()
        return changed

    def caught_up(self, name: Name) -> set[int]:
        """The learners of an etcd that have all data."""
        return quorum.caught_up(self.workloads[name], self.etcds[name], self._clock.monotonic())

    def _of(self, identity: WorkloadIdentity, component: Component) -> list[Program] | None:
        """The instances of another component; None: it never ran here."""
        name = (identity.namespace, f"{identity.cluster}-{component}")
        return self.instances(*name) if name in self.workloads else None

    # ------------------------------------------------------------ act

    def apply(self, workload: Workload) -> bool:
        """From now on this should run; False: that was wanted already.

        Raises:
            StillRemoved: the one of this name is not gone yet.
        """
        name = name_of(workload.identity)
        hosted, new = self.workloads.get(name), name not in self.workloads
        if hosted is None:
            hosted = self.workloads[name] = HostedWorkload(
                workload.identity, workload, data=self.retained.pop(name, {})
            )
        if hosted.removing:
            raise StillRemoved(f"{workload.identity.workload} is still being removed")
        before, hosted.identity, hosted.applied = hosted.applied, workload.identity, workload
        self._settle(hosted)
        same = (before.fingerprint, before.replicas) == (workload.fingerprint, workload.replicas)
        if not same:
            self._tell(hosted.identity)
        return new or not same

    def reserve(self, identity: WorkloadIdentity) -> bool:
        """Make the Service of a workload; the one that waits for its address is told when it has one."""
        if made := self.services.make(identity):
            self.process.spawn(self._balance(identity), name=f"{identity.workload} gets an address")
        return made

    async def _balance(self, identity: WorkloadIdentity) -> None:
        self._tell(identity)
        await self._clock.sleep(BALANCED_SECONDS)
        self._tell(identity)

    def replace(self, identity: WorkloadIdentity, ordinal: int) -> bool:
        """End an instance, which is started again as was applied last."""
        hosted = self.workloads.get(name_of(identity))
        if hosted is None or ordinal not in hosted.programs or hosted.programs[ordinal].ending:
            return False
        self._end(hosted, hosted.programs[ordinal])
        return True

    def remove(self, identity: WorkloadIdentity, *, keep_data: bool) -> bool:
        """End all, and then delete the data, unless it is to be kept."""
        name = name_of(identity)
        hosted = self.workloads.get(name)
        if hosted is None:
            served = self.services.end(identity)
            retained = {} if keep_data else self.retained.pop(name, {})
            for ordinal in sorted(retained):
                self._say(identity, ordinal, DATA_GONE)
            if retained:
                self.etcds.pop(name, None)
            return bool(retained) or served
        if hosted.removing:
            return False
        hosted.removing, hosted.keeps_data = True, keep_data
        self._settle(hosted)
        return True

    def kill(self, namespace: str, workload: str, ordinal: int = 0) -> None:
        """A program dies, as by ``kill -9``."""
        hosted = self.workloads.get((namespace, workload))
        if hosted is not None and ordinal in hosted.programs:
            hosted.programs[ordinal].died.set()

    def _settle(self, hosted: HostedWorkload) -> None:
        for ordinal in range(hosted.wanted):
            if ordinal not in hosted.programs:
                self._start(hosted, ordinal)
        if hosted.wanted:
            hosted.discarded = {each for each in hosted.data if each >= hosted.wanted}
        for ordinal, program in sorted(hosted.programs.items()):
            if ordinal >= hosted.wanted:
                self._end(hosted, program)
        if hosted.removing and not hosted.programs:
            self._forget(hosted)

    def _forget(self, hosted: HostedWorkload) -> None:
        """Nothing runs of what was removed."""
        name = name_of(hosted.identity)
        del self.workloads[name]
        self.services.end(hosted.identity)
        if hosted.keeps_data:
            self.retained[name] = hosted.data
        else:
            for ordinal in sorted(hosted.data):
                self._say(hosted.identity, ordinal, DATA_GONE)
            self.etcds.pop(name, None)
            self._addresses = {each: at for each, at in self._addresses.items() if each[0] != name}
        self._look_soon()

    # ------------------------------------------------------------ the life of a program

    def _start(self, hosted: HostedWorkload, ordinal: int) -> None:
        one = Program(hosted.identity, ordinal, hosted.applied, self.now().timestamp())
        hosted.programs[ordinal] = one
        self._tell(hosted.identity)
        hosted.data.setdefault(ordinal, Disk())
        if one.identity.component is Component.ETCD:
            self.etcds.setdefault(name_of(one.identity), Etcd())
        self._say(hosted.identity, ordinal, STARTS)
        one.task = self.process.spawn(self._live(one), name=f"{hosted.identity.instance(ordinal)} lives")

    async def _live(self, one: Program) -> None:
        pause, longest = BACK_OFF
        while True:
            if await self._begins(one):
                one.up, one.up_at = True, self._clock.monotonic()
                self._say(one.identity, one.ordinal, SERVES)
                self._look_soon()
                await one.died.wait()
            one.up = one.ready = one.alive = False
            self._say(one.identity, one.ordinal, DIES)
            self._tell(one.identity)
            self._look_soon()
            await self._clock.sleep(pause)
            pause = min(2 * pause, longest)
            one.died.clear()
            one.alive, one.restarts, one.since = True, one.restarts + 1, self.now().timestamp()
            self._say(one.identity, one.ordinal, STARTS_AGAIN)
            self._tell(one.identity)

    async def _begins(self, one: Program) -> bool:
        """Wait until it can serve; False: what it needs was not there in time, or it was killed."""
        await self._clock.sleep(START_SECONDS[one.identity.component])
        for _ in range(int(GIVES_UP[one.identity.component])):
            if one.died.is_set():
                return False
            if self._joins(one) if one.identity.component is Component.ETCD else self._reaches(one):
                return True
            await self._clock.sleep(1.0)
        return False

    def _joins(self, one: Program) -> bool:
        """Whether an etcd becomes a member, or is one."""
        hosted, etcd = self.workloads[name_of(one.identity)], self.etcds[name_of(one.identity)]
        return quorum.join(hosted, etcd, one, self.address(one.identity, one.ordinal))

    def _end(self, hosted: HostedWorkload, one: Program) -> None:
        if one.ending:
            return
        one.ending, one.ready = True, False
        self._tell(hosted.identity)
        self._say(one.identity, one.ordinal, ENDS)
        self.process.spawn(self._ends(hosted, one), name=f"{one.identity.instance(one.ordinal)} ends")

    async def _ends(self, hosted: HostedWorkload, one: Program) -> None:
        if one.task is not None:
            one.task.cancel()
        await self._clock.sleep(self._end_seconds(one))
        one.up = one.alive = False
        del hosted.programs[one.ordinal]
        self._say(one.identity, one.ordinal, ENDED)
        if one.ordinal in hosted.discarded:
            hosted.discarded.discard(one.ordinal)
            hosted.data.pop(one.ordinal, None)
            self._say(one.identity, one.ordinal, DATA_GONE)
        self._settle(hosted)
        self._tell(hosted.identity)
        self._look_soon()

    def _end_seconds(self, one: Program) -> float:
        if one.identity.component is not Component.API_SERVER or not one.up:
            return END_SECONDS
        if not self._reaches(one):
            return WITHOUT_ETCD_SECONDS
        watched = any(each.up for each in self._of(one.identity, Component.CONTROLLER_MANAGER) or ())
        return WATCHED_SECONDS if watched else END_SECONDS

    def _look_soon(self) -> None:
        """Run the probes of all programs, a moment later: what one does changes what the others answer."""
        self.process.spawn(self._look(), name="probes")

    async def _look(self) -> None:
        await self._clock.sleep(PROBE_SECONDS)
        for one in self._all():
            ready = self.serves(one) and not one.ending
            if ready != one.ready:
                one.ready = ready
                self._tell(one.identity)

    def _all(self) -> Iterator[Program]:
        for name in sorted(self.workloads):
            yield from self.instances(*name)

    def _say(self, identity: WorkloadIdentity, ordinal: int, happening: str) -> None:
        self._journal.hosted(
            Write(PROGRAMS, "/".join(name_of(identity)), happening, actor="host", number=ordinal)
        )

    def _tell(self, identity: WorkloadIdentity) -> None:
        for changed in self.listeners:
            changed(identity.key)
