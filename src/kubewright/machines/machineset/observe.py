"""One MachineSet and all its machines, as one frozen picture.

Theory.      Everything is read from caches that already show our own writes. A machine is a
             member when we control it and the selector matches its labels.
Invariants.  Nothing here writes. Between looking and deciding nothing awaits.
Called by    ``reconciler.MachineSets``.
"""

from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property

from kubewright.api.machine import names
from kubewright.api.machine.v1alpha1 import MACHINE_DEPLOYMENT, MachineDeployment, MachineSet
from kubewright.api.machine.validate import summary, validate_set
from kubewright.machines.machineset.member import MachineMember, MachineMembers
from kubewright.replicas.claims import read_selector
from kubewright.replicas.pace import Pace
from kubewright.wire.gvk import Key
from kubewright.wire.selectors import Selector

TAKEN = 1000
"""Names of strangers that are remembered per set; more are forgotten, which costs one request."""


@dataclass(frozen=True, slots=True)
class Pause:
    """Why a set neither grows nor shrinks for the moment, and for how many seconds at most."""

    because: str
    seconds: float


@dataclass(slots=True)
class Memory:
    """What a process remembers of one set between passes; losing it costs a request, never safety.

    ``doubts`` holds the names of creations that nobody answered, with the monotonic time of the
    last attempt. ``taken`` holds names that belong to strangers; ``told``, the problem of the last event.
    ``outdated`` says how the set's size contradicts its deployment, ``since`` when that was noticed.
    """

    doubts: dict[str, float] = field(default_factory=dict)
    taken: set[str] = field(default_factory=set)
    told: str = ""
    outdated: str = ""
    since: float = 0.0
    pace: Pace = field(default_factory=lambda: Pace(0.0))

    def pause(self, outdated: str, now: float, seconds: float) -> Pause | None:
        """Give the deployment ``seconds`` to say its size anew; None when there is nothing to wait for."""
        if outdated != self.outdated:
            self.outdated, self.since = outdated, now
        left = self.since + seconds - now
        return Pause(outdated, left) if outdated and left > 0 else None

    def belongs_to_another(self, name: str) -> None:
        """Never try this name again."""
        self.doubts.pop(name, None)
        if len(self.taken) >= TAKEN:
            self.taken.clear()
        self.taken.add(name)


@dataclass(frozen=True)
class Seen:
    """A set and its machines. ``strays`` are ours but not matched, ``orphans`` matched but nobody's.

    ``now`` is for dates. ``time`` is for ages, on the index's clock, which does not step: seconds since the
    epoch.
    """

    machine_set: MachineSet
    now: datetime
    time: float
    members: tuple[MachineMember, ...] = ()
    strays: tuple[MachineMember, ...] = ()
    orphans: tuple[MachineMember, ...] = ()
    problem: str = ""
    doubts: tuple[str, ...] = ()
    taken: frozenset[str] = frozenset()
    pause: Pause | None = None
    counted: int = 0
    """The highest number of any machine that this process has ever seen of the set."""

    @property
    def wall(self) -> float:
        """``now`` in seconds since the epoch, to compare with dates that people or others wrote."""
        return self.now.timestamp()

    @cached_property
    def alive(self) -> tuple[MachineMember, ...]:
        return tuple(member for member in self.members if member.alive)

    @property
    def deleting(self) -> bool:
        return self.machine_set.metadata.deleting

    @property
    def held(self) -> bool:
        return names.FINALIZER in self.machine_set.metadata.finalizers

    @property
    def missing(self) -> int:
        """How many machines are to be made; negative when there are too many."""
        return self.machine_set.spec.replicas - len(self.alive)

    @property
    def written_number(self) -> int:
        """How many machines the set has had, as it is written on it."""
        return max(0, names.integer(self.machine_set.metadata.annotations, names.LAST_NUMBER_ANNOTATION))

    @property
    def last(self) -> int:
        """The highest number that a machine of the set ever had."""
        seen = (member.number for member in (*self.members, *self.strays))
        return max(self.written_number, self.counted, *seen)

    @property
    def stopped(self) -> str:
        """Why no machine may be made; empty when nothing forbids it (mcm.md §6.4)."""
        labels = self.machine_set.metadata.labels
        if names.frozen(labels):
            return "frozen by the safety controller"
        return "scale-up is disabled" if names.SCALE_UP_DISABLED_LABEL in labels else ""


def outdated(machine_set: MachineSet, deployment: MachineDeployment | None) -> str:
    """How the set's size contradicts what its deployment wants by now; empty when it does not.

    Sizes carry the wish that they are for. One that was written for another wish, by a process that is
    dead or by a request that took its time, would cost machines that the deployment still wants.
    """
    owner = machine_set.metadata.controller
    if owner is None or deployment is None or deployment.metadata.uid != owner.uid:
        return ""
    wanted = deployment.spec.replicas
    goal = names.integer(machine_set.metadata.annotations, names.DESIRED_REPLICAS_ANNOTATION, -1)
    if goal in (-1, wanted) or deployment.metadata.deleting:
        return ""
    return f"its size is for a deployment of {goal} machines, which are to be {wanted} by now"


def owner_key(machine_set: MachineSet) -> Key | None:
    """The deployment that controls the set, if one does."""
    owner = machine_set.metadata.controller
    if owner is None or owner.kind != MACHINE_DEPLOYMENT.resource.kind:
        return None
    return Key(machine_set.metadata.namespace, owner.name)


def observe(
    machine_set: MachineSet, index: MachineMembers, memory: Memory, now: datetime, pause: Pause | None = None
) -> Seen:
    """The picture of one set; names that have turned up since are no longer in doubt."""
    meta = machine_set.metadata
    selector, problem = read_selector(machine_set.spec.selector)
    for name in index.seen(meta.uid, memory.doubts):
        del memory.doubts[name]
    members: list[MachineMember] = []
    strays: list[MachineMember] = []
    for member in index.owned_by(meta.uid):
        (members if selector.matches(member.labels) else strays).append(member)
    return Seen(
        machine_set,
        now,
        index.time(),
        members=tuple(members),
        strays=tuple(strays),
        orphans=tuple(
            m for m in index.without_owner(meta.namespace) if m.alive and selector.matches(m.labels)
        ),
        problem=problem or _problem(machine_set, selector),
        doubts=tuple(memory.doubts),
        taken=frozenset(memory.taken),
        pause=pause,
        counted=index.last_number(meta.uid),
    )


def _problem(machine_set: MachineSet, selector: Selector) -> str:
    """Why the set cannot be worked on. Machines it could not claim would be made for ever."""
    if errors := validate_set(machine_set):
        return summary(errors)
    if not selector.matches(machine_set.spec.template.metadata.labels):
        return "spec.selector: does not match the labels of spec.template"
    return ""
