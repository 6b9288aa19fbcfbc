"""What happens in a world, the moment it happens: the server's commits, the cloud's changes, the trace.

Theory.      The API server writes to a ``Log`` and the simulated cloud to a ``Store``; both are seams
             of the product. Here they are kept in memory and survive the processes that use them, and
             every change of one of them is a ``Step`` that listeners get at once. So the
             invariants see each state that ever was, in order, and cannot disturb it.
Invariants.  Listeners get a step when ``objects`` and ``vms`` have it, before any process can act on it.
             They do not raise. The trace is text, one line for one event, and is a function of the seed.
Called by    ``world``; read by ``invariants``, ``tally`` and ``staleness``.
"""

from collections.abc import Callable, Iterable, Mapping, MutableSequence, Sequence
from dataclasses import dataclass
from enum import StrEnum
from hashlib import blake2b
from typing import Any

import orjson

from kubewright.apiserver.store import Change
from kubewright.apiserver.store.log import Row
from kubewright.machines.world import Half
from kubewright.providers.sim.inventory import Store
from kubewright.providers.sim.vm import Vm, Volume

Object = Mapping[str, Any]

MACHINES = "machines.machine.sapcloud.io"
MACHINE_SETS = "machinesets.machine.sapcloud.io"
MACHINE_DEPLOYMENTS = "machinedeployments.machine.sapcloud.io"
MACHINE_CLASSES = "machineclasses.machine.sapcloud.io"
NODES, PODS, LEASES, EVENTS = "nodes", "pods", "leases.coordination.k8s.io", "events"
BUDGETS, ATTACHMENTS = "poddisruptionbudgets.policy", "volumeattachments.storage.k8s.io"
VMS = "vms"
"""What a ``Removal`` by a driver call names as its resource."""
CONTROL, WORKLOAD = "control", "workload"
"""The cluster of the objects, and any cluster that they describe."""
LEASE_HALVES = {f"default/{half.value}": half for half in Half}
"""The Leases by which managers elect their leaders, and the half that each is for."""
WATCHED = frozenset(
    (MACHINES, MACHINE_SETS, MACHINE_DEPLOYMENTS, MACHINE_CLASSES, NODES, PODS, BUDGETS, ATTACHMENTS)
)
"""What ``Journal.objects`` holds decoded; of everything else only the bytes are kept."""


@dataclass(frozen=True, slots=True)
class ApiStep:
    """One committed write. ``old`` None: made; ``new`` None: gone (``old`` is then the last state).

    ``version`` is that of the write, which a watch reports also for a deletion.
    """

    resource: str
    key: str
    old: Object | None
    new: Object | None
    cluster: str = CONTROL
    version: int = 0


@dataclass(frozen=True, slots=True)
class Leader:
    """The holder of a Lease, and since when; empty without one."""

    holder: str = ""
    since: float = 0.0

    @property
    def name(self) -> str:
        """The name of its process."""
        return self.holder.partition("_")[0]


@dataclass(frozen=True, slots=True)
class VmStep:
    """A VM was made (``old`` None), changed, or does not exist any more (``new`` None)."""

    old: Vm | None
    new: Vm | None


@dataclass(frozen=True, slots=True)
class Removal:
    """A manager asks for the end of one object, or of one VM: a request as it arrives, carried out or not.

    ``resource``   as in ``WATCHED``, or ``VMS`` for a driver call, whose ``key`` is that of the machine
    ``uid``, ``version``  what the object must have; of a driver call the machine's uid
    ``grace``      seconds that a pod gets; None: as many as it asks for
    ``eviction``   the server is asked to respect the pod's disruption budget
    ``vm``         the VM that a driver call names, by its providerID
    """

    client: str
    resource: str
    key: str
    uid: str = ""
    version: str = ""
    grace: int | None = None
    eviction: bool = False
    vm: str = ""


@dataclass(frozen=True, slots=True)
class Written:
    """A server has carried out a write of a manager: which one, and what it sent. Only of whole clusters.

    ``cluster``  as ``ApiStep.cluster``, or ``WORKLOAD``
    """

    client: str
    cluster: str
    method: str
    path: str
    body: bytes


@dataclass(frozen=True, slots=True)
class HostCall:
    """A host has carried out what a manager asked it for, and it changed something. Only of control planes.

    ``verb``      ``apply``, ``replace`` or ``remove``
    ``workload``  as ``hosting.contract.Place.workload``
    ``replicas``  how many instances were applied
    ``ordinal``   of the instance to replace
    """

    client: str
    verb: str
    namespace: str
    workload: str
    replicas: int = 0
    ordinal: int = 0


class Happening(StrEnum):
    """What happens to a program, or to its data."""

    STARTS = "starts"
    STARTS_AGAIN = "starts again"
    SERVES = "serves"
    DIES = "dies"
    ENDS = "is ending"
    ENDED = "has ended"
    DATA_GONE = "loses its data"


@dataclass(frozen=True, slots=True)
class ProgramStep:
    """Something has happened to an instance of a component. Only of control planes."""

    namespace: str
    workload: str
    ordinal: int
    happening: Happening


@dataclass(frozen=True, slots=True)
class Logged:
    """A manager has written a line into its log. Only of runs that record plans."""

    text: str


Step = ApiStep | VmStep | Removal | Written | HostCall | ProgramStep | Logged
Listener = Callable[[Step], None]


class Journal:
    """The state of one world. ``lines`` is its trace; a caller that does not need it sets a bounded one."""

    def __init__(self, now: Callable[[], float]) -> None:
        self.lines: MutableSequence[str] = []
        self._digest = blake2b(digest_size=16)
        self.objects: dict[str, dict[str, Object]] = {resource: {} for resource in sorted(WATCHED)}
        self.vms: dict[str, Vm] = {}
        self.shown_as: dict[str, tuple[str, Callable[[Object], Object]]] = {}
        """Other resources that are converted to ones of ``WATCHED``: to which, and how."""
        self.drawn: set[str] = set()
        """Resources whose contents no seed draws, such as keys: the trace has no hash of them."""
        self.leaders = {half: Leader() for half in Half}
        """The leader of each half."""
        self._now = now
        self._listeners: list[Listener] = []

    def listen(self, listener: Listener) -> None:
        """Call ``listener`` with every step from now on."""
        self._listeners.append(listener)

    def say(self, who: str, what: str) -> None:
        """One line of the trace."""
        line = f"{self._now():.6f} {who}: {what}"
        self.lines.append(line)
        self._digest.update(line.encode() + b"\n")

    def digest(self) -> str:
        """A hash of the trace, to compare runs."""
        return self._digest.hexdigest()

    def committed(self, cluster: str, changes: Sequence[Change]) -> None:
        """The server has written a batch."""
        for change in changes:
            new = change.new
            verb = "gone" if change.gone else "made" if change.old is None else "is"
            drawn = new.resource in self.drawn
            seal = "" if drawn else f" {blake2b(new.data, digest_size=6).hexdigest()}"
            self.say(cluster, f"{new.resource} {new.key} {verb} @{new.version}{seal}")
            if new.resource in WATCHED or new.resource in self.shown_as:
                self._enter(cluster, change)
            elif new.resource == LEASES and (half := LEASE_HALVES.get(new.key)) is not None:
                self._lead(half, orjson.loads(new.data)["spec"].get("holderIdentity") or "")

    def _lead(self, half: Half, holder: str) -> None:
        leader = Leader(holder, self._now())
        if holder != self.leaders[half].holder:
            self.leaders[half] = leader
            self.say("lease", f"{half.value} is held by {leader.name or 'no manager'}")

    def _enter(self, cluster: str, change: Change) -> None:
        new = change.new
        resource, shown = self.shown_as.get(new.resource, (new.resource, _as_it_is))
        known, after = self.objects[resource], shown(orjson.loads(new.data))
        before = known.get(new.key)
        if change.gone:
            known.pop(new.key, None)
            self._tell(ApiStep(resource, new.key, before or after, None, cluster, new.version))
        else:
            known[new.key] = after
            self._tell(ApiStep(resource, new.key, before, after, cluster, new.version))

    def asked(self, removal: Removal) -> None:
        """A manager has asked for a removal."""
        self._tell(removal)

    def written(self, write: Written) -> None:
        """A write of a manager was carried out."""
        self._tell(write)

    def hosted(self, step: HostCall | ProgramStep) -> None:
        """A host has done something, or something has happened to what runs there."""
        who, what = (
            (step.client, f"{step.verb} {step.replicas or step.ordinal}")
            if isinstance(step, HostCall)
            else ("host", f"{step.ordinal} {step.happening}")
        )
        self.say(who, f"{step.namespace}/{step.workload} {what}")
        self._tell(step)

    def logged(self, text: str) -> None:
        """A line of the product's log."""
        self._tell(Logged(text))

    def vm_is(self, vm: Vm) -> None:
        """The cloud has made or changed a VM."""
        before = self.vms.get(vm.id)
        self.vms[vm.id] = vm
        self.say("cloud", f"{vm.id} of {vm.namespace}/{vm.name} {_change_of(before, vm)}")
        self._tell(VmStep(before, vm))

    def vm_gone(self, vm: Vm) -> None:
        """A VM does not exist any more."""
        self.vms.pop(vm.id, None)
        self.say("cloud", f"{vm.id} of {vm.namespace}/{vm.name} is gone")
        self._tell(VmStep(vm, None))

    def _tell(self, step: Step) -> None:
        for listener in self._listeners:
            listener(step)


def _as_it_is(found: Object) -> Object:
    return found


def _change_of(before: Vm | None, vm: Vm) -> str:
    if before is None:
        return "is made"
    if vm.gone_at is not None:
        return "is leaving"
    if before.powered != vm.powered:
        return "has power" if vm.powered else "has lost its power"
    if before.changed != vm.changed:
        return "gets other tags"
    return "is initialized" if before.initialized != vm.initialized else "gets other faults"


class MemoryLog:
    """The API server's disk: outlives the server, and reports every commit to the journal."""

    def __init__(self, journal: Journal, cluster: str) -> None:
        self._journal = journal
        self._cluster = cluster
        self._rows: dict[tuple[str, str], Row] = {}
        self.version = 0
        """Of the last write."""

    def load(self) -> tuple[int, Iterable[Row]]:
        """As ``apiserver.store.log.Log``."""
        return self.version, list(self._rows.values())

    def commit(self, changes: Sequence[Change]) -> None:
        """As ``apiserver.store.log.Log``."""
        for change in changes:
            new = change.new
            if change.gone:
                self._rows.pop((new.resource, new.key), None)
            else:
                self._rows[new.resource, new.key] = (new.resource, new.key, new.version, new.data)
            self.version = change.version
        self._journal.committed(self._cluster, changes)

    def checkpoint(self) -> None:
        """Nothing to do."""

    def claim(self, name: str) -> None:
        """Nothing can be missing."""

    def disclaim(self, name: str) -> None:
        """Nothing was claimed."""

    def close(self) -> None:
        """The memory stays."""


class VmStore(Store):
    """The simulated cloud's disk: keeps nothing, since the cloud is not killed; reports to the journal."""

    def __init__(self, journal: Journal) -> None:
        super().__init__(None)
        self._journal = journal

    def save_vm(self, vm: Vm) -> None:
        self._journal.vm_is(vm)

    def drop_vm(self, vm: Vm) -> None:
        self._journal.vm_gone(vm)

    def save_volume(self, volume: Volume) -> None:
        """Volumes are not in the journal."""

    def drop_volume(self, volume: Volume) -> None:
        """Volumes are not in the journal."""
