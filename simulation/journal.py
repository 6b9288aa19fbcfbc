"""What happens in a world, the moment it happens: the server's commits, the cloud's changes, the trace.

Theory.      The API server writes to a ``Log`` and the simulated cloud to a ``Store``; both are seams
             of the product. Here they are kept in memory and survive the processes that use them, and
             every change of one of them is a ``Write`` that listeners get at once, as is each
             request of a manager that a rule judges, and what happens on a host. So the rules
             see each state that ever was, in order, and cannot disturb it.
Invariants.  Listeners get an entry when ``objects`` and ``vms`` have it, before any process can act on it.
             They do not raise. The trace is text, one line for one event, and is a function of the seed.
Called by    ``world``; read by ``rules``, ``tally`` and ``staleness``.
"""

from collections.abc import Callable, Iterable, Mapping, MutableSequence, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any

import orjson

from kubewright.apiserver.store import Change
from kubewright.apiserver.store.log import Row
from kubewright.machines.world import Half
from kubewright.providers.sim.inventory import Store
from kubewright.providers.sim.vm import Vm, Volume

Object = Mapping[str, Any]
NAMESPACE_NAME = "garden"
"""The namespace of all stories."""

MACHINES = "machines.machine.sapcloud.io"
MACHINE_SETS = "machinesets.machine.sapcloud.io"
MACHINE_DEPLOYMENTS = "machinedeployments.machine.sapcloud.io"
MACHINE_CLASSES = "machineclasses.machine.sapcloud.io"
NODES, PODS, LEASES, EVENTS = "nodes", "pods", "leases.coordination.k8s.io", "events"
BUDGETS, ATTACHMENTS = "poddisruptionbudgets.policy", "volumeattachments.storage.k8s.io"
CONTROL, WORKLOAD = "control", "workload"
"""The cluster of the objects, and any cluster that they describe."""
LEASE_HALVES = {f"default/{half.value}": half for half in Half}
"""The Leases by which managers elect their leaders, and the half that each is for."""
WATCHED = frozenset(
    (MACHINES, MACHINE_SETS, MACHINE_DEPLOYMENTS, MACHINE_CLASSES, NODES, PODS, BUDGETS, ATTACHMENTS)
)
"""What ``Journal.objects`` holds decoded; of everything else only the bytes are kept."""
VMS, WORKLOADS, PROGRAMS, LOG = "vms", "workloads", "programs", "log"
"""Kinds that are no resource of a server: VMs of the cloud, what a host was asked to run, what runs there,
lines of managers' logs."""

MADE, CHANGED, GONE = "made", "is", "gone"
"""A server has committed an object, or the cloud a VM."""
EVICTS, DELETES = "asks to evict", "asks to delete"
"""A manager asks for the end of an object or VM: a request as it arrives, carried out or not (``Asked``)."""
POST, DELETE = "POST", "DELETE"
"""A server has carried out a write of a manager: its method. ``after`` is the body."""
APPLY, REPLACE, REMOVE = "apply", "replace", "remove"
"""A host has carried out what a manager asked it for, and it changed something; ``number`` is how many
instances were applied, or the ordinal of one. Members of an etcd are changed by verbs that end in ``IN``."""
IN = " in"
STARTS, STARTS_AGAIN, SERVES, DIES = "starts", "starts again", "serves", "dies"
ENDS, ENDED, DATA_GONE = "is ending", "has ended", "loses its data"
"""What happens to a program, or to its data; ``number`` is its ordinal."""
LOGS = "logs"
"""A manager has written a line into its log, in runs that record plans; ``after`` is the text."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What a request for a removal says.

    ``uid``, ``version``  what the object must have; of a driver call the machine's uid
    ``grace``      seconds that a pod gets; None: as many as it asks for
    ``vm``         the VM that a driver call names, by its providerID
    """

    uid: str = ""
    version: str = ""
    grace: int | None = None
    vm: str = ""


@dataclass(frozen=True, slots=True)
class Write:
    """One entry of the journal.

    ``kind``    a resource with its group, or one of ``VMS``, ``WORKLOADS``, ``PROGRAMS``, ``LOG``
    ``key``     namespace and name; of a VM its id
    ``before``, ``after``  the object as a server keeps it, or the ``Vm``; None: it was not, or is not, there
    ``actor``   who did it: a manager, where that is known, else the server, the cloud or the host
    ``number``  of a commit the version, which a watch reports also for a deletion; else as the verb says
    ``where``   the cluster: ``CONTROL``, ``WORKLOAD``, or that of the nodes
    ``at``      seconds of virtual time since the world began
    """

    kind: str
    key: str
    verb: str
    before: Any = None
    after: Any = None
    actor: str = ""
    number: int = 0
    where: str = CONTROL
    at: float = 0.0
    asked: Asked = Asked()

    @property
    def committed(self) -> bool:
        """Whether a server or the cloud keeps it."""
        return self.verb in _COMMITS

    @property
    def name(self) -> str:
        """Without the namespace."""
        return self.key.rpartition("/")[2]


_COMMITS = frozenset((MADE, CHANGED, GONE))
Listener = Callable[[Write], None]


@dataclass(frozen=True, slots=True)
class Leader:
    """The holder of a Lease, and since when; empty without one."""

    holder: str = ""
    since: float = 0.0

    @property
    def name(self) -> str:
        """The name of its process."""
        return self.holder.partition("_")[0]


def vm_ends(write: Write) -> bool:
    """Whether the cloud begins to delete a VM."""
    old, new = write.before, write.after
    return write.verb == CHANGED and old.gone_at is None and new.gone_at is not None


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
            self.enter(Write(resource, new.key, GONE, before or after, None, cluster, new.version, cluster))
        else:
            known[new.key] = after
            verb = MADE if before is None else CHANGED
            self.enter(Write(resource, new.key, verb, before, after, cluster, new.version, cluster))

    def hosted(self, write: Write) -> None:
        """A host has done something, or something has happened to what runs there."""
        words = (write.number, write.verb) if write.kind == PROGRAMS else (write.verb, write.number)
        self.say(write.actor, f"{write.key} {words[0]} {words[1]}")
        self.enter(write)

    def logged(self, text: str) -> None:
        """A line of the product's log."""
        self.enter(Write(LOG, "", LOGS, None, text))

    def vm_is(self, vm: Vm) -> None:
        """The cloud has made or changed a VM."""
        before = self.vms.get(vm.id)
        self.vms[vm.id] = vm
        self.say("cloud", f"{vm.id} of {vm.namespace}/{vm.name} {_change_of(before, vm)}")
        self.enter(Write(VMS, vm.id, MADE if before is None else CHANGED, before, vm, "cloud"))

    def vm_gone(self, vm: Vm) -> None:
        """A VM does not exist any more."""
        self.vms.pop(vm.id, None)
        self.say("cloud", f"{vm.id} of {vm.namespace}/{vm.name} is gone")
        self.enter(Write(VMS, vm.id, GONE, vm, None, "cloud"))

    def enter(self, write: Write) -> None:
        """Tell all listeners of an entry."""
        dated = replace(write, at=self._now())
        for listener in self._listeners:
            listener(dated)


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
