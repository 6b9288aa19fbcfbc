"""Numbers and specs with a history: what a manager may still act upon that has not received the last change.

Called by    ``past``, which writes them; read by ``numbers``.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Generic, TypeVar

from simulation.journal import Object
from simulation.rules.facts import template_of

T = TypeVar("T")

LONG = 64
"""When a history has so many entries, those on which no manager can act any more are dropped."""


class History(Generic[T]):
    """One fact over time. It has an entry from the first ``put`` on."""

    def __init__(self) -> None:
        self._entries: deque[tuple[float, T]] = deque()

    def put(self, value: T, now: float) -> bool:
        """The fact is this from now on. Answers whether it changed."""
        if self._entries and self._entries[-1][1] == value:
            return False
        self._entries.append((now, value))
        return True

    def forget(self, since: float) -> None:
        """Drop what was over before ``since``."""
        while len(self._entries) > 1 and self._entries[1][0] < since:
            self._entries.popleft()

    def in_force(self, since: float) -> Iterator[T]:
        """Each value that stood at ``since`` or later, the last one first."""
        for moment, value in reversed(self._entries):
            yield value
            if moment < since:
                return

    @property
    def last(self) -> T | None:
        """The value that stands."""
        return self._entries[-1][1] if self._entries else None

    def __len__(self) -> int:
        return len(self._entries)


def most_seen(numbers: History[int], since: float) -> int:
    """The most that a manager may count: it sees its own changes at once, those of others late or never.

    So each fall in the numbers may be hidden from it, while it sees every rise.
    """
    values = [*numbers.in_force(since)]
    falls = (max(0, before - after) for after, before in pairwise(values))
    return values[0] + sum(falls) if values else 0


@dataclass(slots=True)
class SetRecord:
    """One set and its machines: how many there are, how many are not being deleted, how many of those run."""

    uid: str
    key: str = ""
    deployment: str = ""
    machine_class: str = ""
    template: str = ""
    there: bool = False
    """Whether the set itself exists."""
    size: int = 0
    frozen: bool = False
    """Whether it may make no machine, so that its size is no more than what it has."""
    stopped: History[bool] = field(default_factory=History)
    """Whether it is frozen since it has too many machines already."""
    sizes: History[int] = field(default_factory=History)
    size_since: float = 0.0
    """``Past.since`` at the moment when its size last changed."""
    total: int = 0
    alive: int = 0
    running: int = 0
    totals: History[int] = field(default_factory=History)
    runnings: History[int] = field(default_factory=History)
    stopped_at: deque[float] = field(default_factory=lambda: deque(maxlen=LONG))
    """When machines stopped running that were not being deleted."""
    changed_at: deque[int] = field(default_factory=lambda: deque(maxlen=LONG))
    """The resourceVersions at which machines began to run, or running ones to be deleted."""
    min_ready_seconds: float = 0.0
    """For how long a machine must have been ready to be available, in seconds."""
    names: set[str] = field(default_factory=set)
    """The names of all machines that were ever made for it."""
    not_yet_available: dict[str, float] = field(default_factory=dict)
    """Machines that run, and until when they are not available yet, by uid."""

    def count(self, alive: bool, running: bool, by: int) -> None:
        """A machine comes (``by`` 1) or goes (-1)."""
        self.total += by
        self.alive += by * alive
        self.running += by * running

    def note(self, now: float) -> None:
        """The counts are right again: remember them."""
        self.totals.put(self.total, now)
        self.runnings.put(self.running, now)

    def started_running(self, uid: str, ready: float) -> None:
        """A machine runs from now on; by its node's own date the node is ready since ``ready``."""
        if self.min_ready_seconds:
            self.not_yet_available[uid] = ready + self.min_ready_seconds

    def unavailable(self, now: float) -> int:
        """How many run, and have not been ready for long enough."""
        over = [uid for uid, until in self.not_yet_available.items() if until <= now]
        for uid in over:
            del self.not_yet_available[uid]
        return len(self.not_yet_available)

    def stopped_since(self, moment: float) -> int:
        """How many machines stopped running since then."""
        return sum(at >= moment for at in self.stopped_at)

    def changed_between(self, after: int, until: int) -> int:
        """How many machines began to run or to be deleted in versions above ``after``, up to ``until``."""
        return sum(after < version <= until for version in self.changed_at)


@dataclass(frozen=True, slots=True)
class Desired:
    """What a deployment's spec allows: machines at most, available ones at least, of which class.

    ``deadline`` is how long a rollout of it may stand still, in seconds; None: for ever. ``workload`` is how
    many of its ``replicas`` are not in excess.
    """

    most: int
    least: int
    machine_class: str
    paused: bool
    replicas: int = 0
    template: str = ""
    deadline: float | None = None
    workload: int = 0


Marks = tuple[int, int, int]
"""How far a rollout is: new machines, minus the number of old ones, new ones that run."""


@dataclass(slots=True)
class Rollout:
    """A deployment's rollout: the last template that all its machines had, and when it last progressed."""

    template: str = ""
    arrived: History[str] = field(default_factory=History)
    """The template that all its machines have; empty during a rollout."""
    began: float = 0.0
    moved: float = 0.0
    best: Marks = (0, 0, 0)

    def want(self, desired: Desired, now: float) -> None:
        """A user changes the spec; with another template the rollout begins anew."""
        if desired.template != self.template:
            self.template, self.began = desired.template, now
            self.arrived.put("", now)
        self.moved, self.best = now, (0, -(2**31), 0)

    def move(self, marks: Marks, now: float) -> None:
        """The rollout is at ``marks`` now; a machine that is lost and made again is no progress."""
        if any(after > before for before, after in zip(self.best, marks, strict=True)):
            self.moved = now
            (a, b, c), (x, y, z) = self.best, marks
            self.best = max(a, x), max(b, y), max(c, z)

    @property
    def over(self) -> bool:
        """Whether the last template is reached."""
        return self.arrived.last == self.template


@dataclass(slots=True)
class DeploymentRecord:
    """One deployment with its sets. An older spec stays in force until the sets' sizes fit the newer one."""

    key: str
    there: bool = False
    leaving: bool = False
    sets: dict[str, SetRecord] = field(default_factory=dict)
    desired: list[Desired] = field(default_factory=list)
    lost: deque[tuple[float, SetRecord]] = field(default_factory=lambda: deque(maxlen=LONG))
    """Sets that are no longer its own, and since when."""
    rollout: Rollout = field(default_factory=Rollout)
    ended: list[float | None] = field(default_factory=list)
    """When each spec but the last ceased to be in force; None: it still is."""

    def want(self, desired: Desired, now: float) -> None:
        """A user wants this from now on."""
        if not self.desired or self.desired[-1] != desired:
            self.rollout.want(desired, now)
            self.ended += [None] * bool(self.desired)
            self.desired.append(desired)

    def settle(self, now: float) -> None:
        """End the specs before the last one, when the sets fit the last one."""
        fits = bool(self.ended) and self.desired[-1].least <= self.size <= self.desired[-1].most
        if fits and self.ended[-1] is None:
            self.ended = [now if end is None else end for end in self.ended]

    def in_force(self, since: float) -> list[Desired]:
        """The specs that a manager may still act upon, the last one included."""
        past = [
            each for each, end in zip(self.desired, self.ended, strict=False) if end is None or end >= since
        ]
        return [*past, *self.desired[-1:]]

    def advance(self, now: float, since: float) -> None:
        """Note how far the rollout is: for the last spec, or one on which a manager may still act."""
        if self.rollout.over or not self.desired:
            return
        desired = self.desired[-1]
        new = [record for record in self.sets.values() if record.template == desired.template]
        made, run = sum(record.total for record in new), sum(record.running for record in new)
        self.rollout.move((min(made, desired.replicas), made - self.total, run), now)
        for each in self.in_force(since):
            if each.template == desired.template and made == run == self.total == each.replicas:
                self.rollout.arrived.put(desired.template, now)

    @property
    def total(self) -> int:
        """All its machines."""
        return sum(record.total for record in self.sets.values())

    def sets_since(self, since: float) -> list[SetRecord]:
        """The sets that a manager may still take for the deployment's."""
        return [*self.sets.values(), *(record for at, record in self.lost if at >= since)]

    @property
    def size(self) -> int:
        """The sum of the sets' sizes; a frozen set makes none of the machines that it lacks."""
        return sum(min(each.size, each.total) if each.frozen else each.size for each in self.sets.values())

    @property
    def alive(self) -> int:
        """Machines that are not being deleted."""
        return sum(record.alive for record in self.sets.values())

    @property
    def running(self) -> int:
        """Of those, the ones that run."""
        return sum(record.running for record in self.sets.values())

    def available(self, now: float) -> int:
        """Of those, the ones that have been ready for long enough."""
        return self.running - sum(record.unavailable(now) for record in self.sets.values())


def desired_by(deployment: Object) -> Desired:
    """What a deployment's spec asks for."""
    spec = deployment["spec"]
    strategy: dict[str, Any] = spec.get("strategy", {})
    rolling = strategy.get("rollingUpdate") or strategy.get("inPlaceUpdate") or {}
    workload = int(spec.get("replicas", 0))
    replicas = workload + int(spec.get("excessReplicas") or 0)
    recreate = strategy.get("type") == "Recreate"
    surge = 0 if recreate else share(rolling.get("maxSurge", 0), replicas, up=True)
    missing = replicas if recreate else share(rolling.get("maxUnavailable", 0), replicas, up=False)
    machine_class = str(spec["template"]["spec"]["class"]["name"])
    return Desired(
        replicas + surge,
        replicas - missing,
        machine_class,
        bool(spec.get("paused")),
        replicas,
        template_of(deployment),
        spec.get("progressDeadlineSeconds"),
        workload,
    )


def share(value: int | str, of: int, *, up: bool) -> int:
    """A number, or a percentage of the replicas; rounded as Kubernetes does."""
    if isinstance(value, int):
        return value
    hundredths = of * int(value.rstrip("%"))
    return -(-hundredths // 100) if up else hundredths // 100
