"""What rules know beside the entry that they judge: owners, counts, and which VMs and nodes had a fault.

Theory.      Everything is kept up to date entry by entry (``learn``), so that an entry of a world with twenty
             thousand machines costs as much as one of a world with three: a machine's entry changes the
             counts of its set, a pod's those of its node, and nothing is ever counted from zero.
             Numbers and specs have a history, because a manager acts on what it has received.
             Exceptions are for one VM or node: a VM without power, a Node that a user deleted, a
             silent kubelet; a fault of one excuses nothing that happens to another.
Invariants.  ``learn`` is called once for each entry, before any rule judges it. Nothing here judges.
Called by    ``run``; read by all rules.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar, cast

from kubewright.api.machine import names
from kubewright.machines.settings import MachineSettings, effective
from simulation.journal import (
    ATTACHMENTS,
    DELETES,
    EVICTS,
    MACHINE_DEPLOYMENTS,
    MACHINE_SETS,
    MACHINES,
    NAMESPACE_NAME,
    NODES,
    PODS,
    VMS,
    Journal,
    Object,
    Write,
)
from simulation.rules.facts import (
    controller_of,
    deleting,
    ended,
    is_ready,
    node_name,
    phase,
    ready_date,
    recorded_by,
    running,
    selects,
    template_of,
    volume_claims,
)
from simulation.rules.history import LONG, DeploymentRecord, SetRecord, desired_by

SINCE_UP = ("Running", "Available", "Unknown", "InPlaceUpdateSuccessful", "InPlaceUpdateFailed")
"""Phases of a machine that has been up, and is not taken out of service for an update."""
GIVEN_UP = ("Unknown", "InPlaceUpdateFailed")
"""Phases in which the health time-out runs."""


class Memory(Protocol):
    """What rules remember of a run; each run has its own."""

    def learn(self, write: Write, past: "Past") -> None:
        """Take an entry in, before any rule judges it."""

    def remember(self, write: Write, past: "Past") -> None:
        """Take it in after all have."""


M = TypeVar("M")


@dataclass(frozen=True, slots=True)
class Limits:
    """For how long a machine may take to join, and how long it may be Unknown, in seconds."""

    creation: float
    health: float


@dataclass(slots=True)
class Waits:
    """For one world. ``group`` answers with which machines one shares the limit of replacements."""

    now: Callable[[], float]
    settings: MachineSettings
    group: Callable[[Object], str]
    since: dict[str, float] = field(default_factory=dict)
    """Since when machines wait: those that have not joined since they were made, others since they are
    Unknown or were not updated, by uid."""
    before: dict[str, tuple[float, Limits]] = field(default_factory=dict)
    """When the limits of machines changed, and what they were before, by uid."""
    replacing: dict[str, tuple[str, float]] = field(default_factory=dict)
    """Machines that are going or have not come up yet: their group, and since when, by uid."""
    last_replaced: dict[str, float] = field(default_factory=dict)
    """When a replacement in a group was last over."""

    def learn(self, write: Write) -> None:
        """A machine has changed."""
        found = write.after or write.before
        assert found is not None
        uid = str(found["metadata"]["uid"])
        self._replace(uid, write.after)
        if write.after is None:
            self.since.pop(uid, None)
            self.before.pop(uid, None)
            return
        was = phase(write.before) if write.before is not None else None
        if was is None or (phase(write.after) in GIVEN_UP and phase(write.after) != was):
            self.since[uid] = self.now()
        if write.before is not None and (limits := self.limits(write.before)) != self.limits(write.after):
            self.before[uid] = self.now(), limits

    def limits(self, machine: Object) -> Limits:
        """The time-outs that count for a machine."""
        spec, notes = machine["spec"], machine["metadata"].get("annotations", {})
        own = names.creation_timeout_override(notes)
        creation = own or effective(spec.get("creationTimeout"), self.settings.creation_timeout)
        health = effective(spec.get("healthTimeout"), self.settings.health_timeout)
        return Limits(creation.total_seconds(), health.total_seconds())

    def others_replacing(self, machine: Object) -> Iterator[tuple[str, float]]:
        """Further machines of its group that are being replaced or are replacements, and since when."""
        group, own = self.group(machine), machine["metadata"]["uid"]
        return ((uid, at) for uid, (of, at) in self.replacing.items() if of == group and uid != own)

    def _replace(self, uid: str, machine: Object | None) -> None:
        on_its_way = machine is not None and _on_its_way(machine, self.settings.node_conditions)
        if machine is not None and on_its_way:
            since = self.replacing[uid][1] if uid in self.replacing else self.now()
            self.replacing[uid] = self.group(machine), since
        elif (before := self.replacing.pop(uid, None)) is not None:
            self.last_replaced[before[0]] = self.now()


def _on_its_way(machine: Object, types: Sequence[str]) -> bool:
    """Whether it is being replaced, or comes in place of another. One that is deleted while it is well gives
    way to a rollout or to a user."""
    if machine.get("status", {}).get("currentStatus", {}).get("preserveExpiryTime"):
        return False
    if deleting(machine):
        return phase(machine) == "Failed" or not _is_well(machine, types)
    return phase(machine) not in SINCE_UP


def _is_well(machine: Object, types: Sequence[str]) -> bool:
    """As far as its status says of its node."""
    found = {each["type"]: each["status"] for each in machine.get("status", {}).get("conditions", ())}
    return found.get("Ready") == "True" and all(found.get(each, "False") == "False" for each in types)


@dataclass(slots=True)
class Pods:
    """For one world. A pod that has ended counts as gone."""

    now: Callable[[], float]
    on: dict[str, dict[str, None]] = field(default_factory=dict)
    """Keys of pods by the name of their node."""
    emptied: dict[str, float] = field(default_factory=dict)
    """Since when nodes that had pods have none, by name."""
    detaching: dict[str, dict[str, float]] = field(default_factory=dict)
    """Pods with volumes that are leaving, and since when, by the name of their node."""
    left: dict[str, dict[str, float]] = field(default_factory=dict)
    """Claims that pods left behind, and since when, by the name of their node."""
    attached: dict[str, float] = field(default_factory=dict)
    """Since when each VolumeAttachment is there, by its name."""
    _asked: dict[str, Write] = field(default_factory=dict)
    """The last removal that a manager asked for, by the pod's key."""

    def hear(self, removal: Write) -> None:
        """A manager asks for the end of a pod."""
        self._asked[removal.key] = removal

    def learn(self, write: Write) -> None:
        """A pod has changed."""
        for pod, there in ((write.before, False), (write.after, True)):
            node = str(pod["spec"].get("nodeName", "")) if pod is not None else ""
            if not node or pod is None:
                continue
            if there and not ended(pod):
                self._is_on(node, write.key, pod)
            else:
                self._is_off(node, write.key, pod)

    def learn_attachment(self, write: Write) -> None:
        """A volume is attached, or no longer."""
        if write.after is None:
            self.attached.pop(write.key, None)
        else:
            self.attached.setdefault(write.key, self.now())

    def asker(self, key: str) -> str:
        """The manager that last asked for the end of a pod; empty if none did."""
        return self._asked[key].actor if key in self._asked else ""

    def cause(self, write: Write) -> Write | None:
        """What a manager asked for, if a pod that begins to leave does so because of it."""
        removal = self._asked.get(write.key)
        return removal if removal is not None and removal.at == self.now() else None

    def _is_on(self, node: str, key: str, pod: Object) -> None:
        self.on.setdefault(node, {})[key] = None
        self.emptied.pop(node, None)
        for claim in volume_claims(pod):
            self.left.get(node, {}).pop(claim, None)
        if deleting(pod) and any(volume_claims(pod)):
            self.detaching.setdefault(node, {}).setdefault(key, self.now())

    def _is_off(self, node: str, key: str, pod: Object) -> None:
        for claim in volume_claims(pod):
            self.left.setdefault(node, {}).setdefault(claim, self.now())
        self.on.get(node, {}).pop(key, None)
        self.detaching.get(node, {}).pop(key, None)
        if not self.on.get(node):
            self.emptied.setdefault(node, self.now())


NODE_DELETED = "nodes/"
"""Prefix of a Node's name in ``deleted_by_users``."""

Index = dict[str, dict[str, None]]
"""Sets that keep their order, by a name."""


@dataclass(slots=True)
class Past:
    """For one world.

    ``since``     the moment before which no manager acts on any state (``Staleness.since``)
    ``settings``  the time-outs that the managers run with
    ``deleted_by_users``  names of machines, and of nodes after ``nodes/``
    ``late_creation``  whether an object of this name is created by a late request of a killed manager: no
                  living manager can know of it
    ``executes_late``  whether the server executes a creation of this name long after it was sent
    ``answering_since``  since when the servers of all clusters answer
    ``undisturbed_since``  since when nothing has disturbed the managers that work
    ``late_vms``  the cloud makes VMs whose creation was given up
    """

    journal: Journal
    now: Callable[[], float]
    since: Callable[[], float]
    settings: MachineSettings = field(default_factory=MachineSettings)
    deleted_by_users: set[str] = field(default_factory=set)
    late_creation: Callable[[str], bool] = lambda _name: False
    executes_late: Callable[[str], bool] = lambda _name: False
    late_vms: bool = False
    undisturbed_since: Callable[[], float] = lambda: 0.0
    answering_since: Callable[[], float] = lambda: 0.0
    parts: Callable[[type[Any]], object] = lambda _kind: None
    """``World.part``."""
    unseen: Callable[[], tuple[int, int]] = lambda: (0, 0)
    """The versions that the lists of the last manager did not show: above the first, up to the second."""
    machines: int = 0
    """How many there ever were."""
    updates: int = 0
    """How often a node was selected for an update in place."""
    name_repeated: bool = False
    """Whether the machine that was made last has the name of an earlier one of its set."""
    uids: dict[str, str] = field(default_factory=dict)
    """Machines that exist: uid to key."""
    leaving: dict[str, float] = field(default_factory=dict)
    """Since when machines are being deleted, by uid."""
    vms: Index = field(default_factory=dict)
    """Ids of VMs by the uid of their machine."""
    unowned: dict[str, float] = field(default_factory=dict)
    """VMs without a machine, and since when; the longest first."""
    made_unowned: set[str] = field(default_factory=set)
    """Ids of VMs whose machine was gone when they were made."""
    dead: set[str] = field(default_factory=set)
    """Names of nodes on which nothing runs any more: their VM has no power, or has vanished."""
    lost: set[str] = field(default_factory=set)
    """Names of nodes whose Node a user deleted: the managers could not see what ran there."""
    not_ready: dict[str, float] = field(default_factory=dict)
    """Since when nodes are not Ready, by name."""
    ready: dict[str, float] = field(default_factory=dict)
    """Since when nodes are Ready, by name."""
    recorded: Index = field(default_factory=dict)
    """Keys of machines by the VM and by the node that they have on record."""
    sets: dict[str, SetRecord] = field(default_factory=dict)
    """The machines of each set, by the set's uid."""
    deployments: dict[str, DeploymentRecord] = field(default_factory=dict)
    """The sets of each deployment, by its key."""
    memories: dict[type, Memory] = field(default_factory=dict)
    """What the rules of an API remember beside this, by its type."""
    drained: Pods = field(init=False)
    """Pods, and who asked them to leave."""
    waits: Waits = field(init=False)
    """Machines that wait to be given up, and those that count against the limit of replacements."""
    _places: dict[str, tuple[str, bool, bool]] = field(default_factory=dict)
    """How each machine is counted: its set, whether it is alive, whether it runs."""

    def __post_init__(self) -> None:
        self.drained = Pods(self.now)
        self.waits = Waits(self.now, self.settings, self._group)

    def learn(self, write: Write) -> None:
        """Take an entry in, before any rule judges it."""
        if write.kind == PODS and write.verb in (EVICTS, DELETES):
            self.drained.hear(write)
        elif write.committed and (learn := _LEARNED.get(write.kind)) is not None:
            learn(self, write)
        for memory in self.memories.values():
            memory.learn(write, self)

    def remember(self, write: Write) -> None:
        """All rules have judged it."""
        for memory in self.memories.values():
            memory.remember(write, self)

    # ------------------------------------------------------------ questions

    def memory(self, kind: type[M]) -> M:
        """The memory of that type."""
        return cast(M, self.memories[kind])

    def part(self, kind: type[M]) -> M:
        """The part of the world of that type, which only worlds of one realm have."""
        return cast(M, self.parts(kind))

    def all(self, kind: str) -> Iterable[Object]:
        """The objects of a kind, as they are now."""
        return self.journal.objects[kind].values()

    def find(self, kind: str, name: str) -> Object | None:
        """One in the namespace of all stories."""
        return self.journal.objects[kind].get(f"{NAMESPACE_NAME}/{name}")

    def living_vms(self, owner_uid: str) -> list[str]:
        """The VMs of a machine that are not being deleted."""
        return [vm_id for vm_id in self.vms.get(owner_uid, ()) if self.journal.vms[vm_id].gone_at is None]

    def set_of(self, machine: Object) -> SetRecord | None:
        """The machines of the same set."""
        return self.sets.get(controller_of(machine)["uid"])

    def deployment_of(self, record: SetRecord | None) -> DeploymentRecord | None:
        """The deployment behind a set, if there is one."""
        return self.deployments.get(record.deployment) if record is not None else None

    def _group(self, machine: Object) -> str:
        """What shares the limit of replacements: a deployment's machines, or a set's, or one alone."""
        record = self.set_of(machine) if controller_of(machine)["uid"] else None
        return str(machine["metadata"]["uid"]) if record is None else record.deployment or record.uid

    # ------------------------------------------------------------ machines

    def _machine(self, write: Write) -> None:
        found = write.after or write.before
        assert found is not None
        uid = found["metadata"]["uid"]
        self._claim(write)
        self._count(uid, write.after)
        self.waits.learn(write)
        if write.after is None:
            self._gone(uid)
            return
        if write.before is None:
            self.machines += 1
            self._name(write.after)
        self.uids[uid] = write.key
        if deleting(write.after):
            self.leaving.setdefault(uid, self.now())

    def _name(self, machine: Object) -> None:
        """Note whether the set of a new machine had one of that name before."""
        record, name = self.set_of(machine), str(machine["metadata"]["name"])
        self.name_repeated = record is not None and name in record.names
        if record is not None:
            record.names.add(name)

    def _gone(self, uid: str) -> None:
        self.uids.pop(uid, None)
        self.leaving.pop(uid, None)
        self.unowned.update((vm_id, self.now()) for vm_id in self.living_vms(uid))

    def _claim(self, write: Write) -> None:
        for word in recorded_by(write.before):
            self.recorded.get(word, {}).pop(write.key, None)
        for word in recorded_by(write.after):
            self.recorded.setdefault(word, {})[write.key] = None
        for word in recorded_by(write.before):
            if not self.recorded.get(word):
                self.recorded.pop(word, None)

    def _count(self, uid: str, machine: Object | None) -> None:
        """Count a machine where it belongs now, and no longer where it was counted."""
        before, after = self._places.get(uid), _place(machine) if machine is not None else None
        if before == after:
            return
        for place, by in ((before, -1), (after, 1)):
            if place is not None:
                self._set_record(place[0]).count(place[1], place[2], by)
        if machine is not None and after and after[2] != bool(before and before[2]):
            self._changed(machine, after)
        for place in (before, after):
            if place is not None:
                self._note(self._set_record(place[0]))
                self._advance(self._set_record(place[0]))
        if before and before[2]:
            self._set_record(before[0]).not_yet_available.pop(uid, None)
        if machine is not None and after and after[2]:
            self._set_record(after[0]).started_running(uid, self._ready_since(node_name(machine)))
        if after is None:
            self._places.pop(uid, None)
        else:
            self._places[uid] = after

    def _changed(self, machine: Object, after: tuple[str, bool, bool]) -> None:
        """Note that a machine began to run, to be deleted, or stopped running."""
        record, (_, alive, runs) = self._set_record(after[0]), after
        if alive and not runs:
            record.stopped_at.append(self.now())
        else:
            record.changed_at.append(int(machine["metadata"].get("resourceVersion", 0)))

    def _ready_since(self, name: str) -> float:
        """Since when a node is Ready by its own date: its kubelet may have reported it late."""
        shown, node = self.ready.get(name, self.now()), self.journal.objects[NODES].get(name)
        return min(shown, ready_date(node)) if node is not None else shown

    def _note(self, record: SetRecord) -> None:
        record.note(self.now())
        if len(record.totals) > LONG or len(record.runnings) > LONG:
            since = self.since()
            record.totals.forget(since)
            record.runnings.forget(since)

    # ------------------------------------------------------------ sets and deployments

    def _set_record(self, uid: str) -> SetRecord:
        return self.sets.setdefault(uid, SetRecord(uid))

    def _set(self, write: Write) -> None:
        found = write.after or write.before
        assert found is not None
        record, owner = self._set_record(found["metadata"]["uid"]), controller_of(found)
        before = self.deployments.get(record.deployment)
        if before is not None:
            before.sets.pop(record.uid, None)
        record.key, record.there = write.key, write.after is not None
        record.deployment = f"{write.key.partition('/')[0]}/{owner['name']}" if owner["uid"] else ""
        record.machine_class = str(found["spec"]["template"]["spec"]["class"]["name"])
        record.template = template_of(found)
        record.stopped.put(names.FREEZE_LABEL in found["metadata"].get("labels", {}), self.now())
        record.frozen = names.SCALE_UP_DISABLED_LABEL in found["metadata"].get("labels", {})
        record.min_ready_seconds = float(found["spec"].get("minReadySeconds", 0))
        record.size = int(found["spec"].get("replicas", 0)) if record.there else 0
        if record.sizes.put(record.size, self.now()):
            record.size_since = self.since()
        if record.there and record.deployment:
            deployment = self._deployment_record(record.deployment)
            deployment.sets[record.uid] = record
        if before is not None and record.uid not in before.sets:
            before.lost.append((self.now(), record))
        if record.deployment:
            self._deployment_record(record.deployment).settle(self.now())
            self._advance(record)
        if not record.there and not record.total:
            del self.sets[record.uid]

    def _advance(self, record: SetRecord) -> None:
        """A set or its machines changed: so may its deployment's rollout."""
        deployment = self.deployment_of(record)
        if deployment is not None and not deployment.rollout.over:
            deployment.advance(self.now(), self.since())

    def _deployment_record(self, key: str) -> DeploymentRecord:
        return self.deployments.setdefault(key, DeploymentRecord(key))

    def _deployment(self, write: Write) -> None:
        deployment = self._deployment_record(write.key)
        deployment.there = write.after is not None
        deployment.leaving = write.after is None or deleting(write.after)
        if write.after is not None:
            deployment.want(desired_by(write.after), self.now())
            deployment.settle(self.now())
            deployment.advance(self.now(), self.since())

    # ------------------------------------------------------------ VMs, nodes, pods

    def _vm(self, write: Write) -> None:
        """A VM never changes its machine. One that boots from data is a cluster's: other rules judge it."""
        vm = write.after or write.before
        assert vm is not None
        if vm.bootstrap is not None:
            return
        if write.after is None:
            self.vms.get(vm.owner_uid, {}).pop(vm.id, None)
            self.unowned.pop(vm.id, None)
            if vm.gone_at is None:
                self.dead.add(vm.node_name)
            return
        self.vms.setdefault(vm.owner_uid, {})[vm.id] = None
        if vm.gone_at is not None:
            self.unowned.pop(vm.id, None)
            return
        if vm.owner_uid not in self.uids:
            self.unowned.setdefault(vm.id, self.now())
            if write.before is None:
                self.made_unowned.add(vm.id)
        if vm.powered:
            self.dead.discard(vm.node_name)
        else:
            self.dead.add(vm.node_name)

    def _node(self, write: Write) -> None:
        self.updates += selects(write)
        if write.after is None:
            self.not_ready.pop(write.key, None)
            self.ready.pop(write.key, None)
            if NODE_DELETED + write.key in self.deleted_by_users:
                self.lost.add(write.key)
        elif is_ready(write.after):
            self.not_ready.pop(write.key, None)
            self.ready.setdefault(write.key, self.now())
        else:
            self.ready.pop(write.key, None)
            self.not_ready.setdefault(write.key, self.now())

    def _pod(self, write: Write) -> None:
        self.drained.learn(write)

    def _attachment(self, write: Write) -> None:
        self.drained.learn_attachment(write)


def _place(machine: Object) -> tuple[str, bool, bool]:
    alive = not deleting(machine)
    return str(controller_of(machine)["uid"]), alive, alive and running(machine)


_LEARNED: dict[str, Callable[[Past, Write], None]] = {
    VMS: Past._vm,
    MACHINES: Past._machine,
    MACHINE_SETS: Past._set,
    MACHINE_DEPLOYMENTS: Past._deployment,
    NODES: Past._node,
    PODS: Past._pod,
    ATTACHMENTS: Past._attachment,
}
