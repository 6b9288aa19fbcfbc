"""Numbers and wishes with a history: what somebody may still believe who was not told of the last change.

Called by    ``past``, which writes them; read by ``replicas`` and ``lives``.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Generic, TypeVar

from kubewright.testing.simulation.invariants.facts import template_of
from kubewright.testing.simulation.journal import Object

T = TypeVar("T")

LONG = 64
"""A history of so many entries is looked through for those that nobody believes any more."""


class History(Generic[T]):
    """One fact over time. It has an entry from the first ``put`` on."""

    def __init__(self) -> None:
        self._entries: deque[tuple[float, T]] = deque()

    def put(self, value: T, now: float) -> bool:
        """The fact is this from now on. Answers whether that is new."""
        if self._entries and self._entries[-1][1] == value:
            return False
        self._entries.append((now, value))
        return True

    def forget(self, since: float) -> None:
        """Drop what was over before ``since``."""
        while len(self._entries) > 1 and self._entries[1][0] < since:
            self._entries.popleft()

    def believable(self, since: float) -> Iterator[T]:
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


def mixed(numbers: History[int], since: float) -> int:
    """The most that somebody may count: his own changes he knows at once, those of others late or never."""
    values = [*numbers.believable(since)]
    falls = (max(0, before - after) for after, before in pairwise(values))
    return values[0] + sum(falls) if values else 0


@dataclass(slots=True)
class Crew:
    """The machines of one set: how many there are, how many are not leaving, how many of those run."""

    uid: str
    key: str = ""
    deployment: str = ""
    machine_class: str = ""
    template: str = ""
    there: bool = False
    """Whether the set itself exists."""
    size: int = 0
    sizes: History[int] = field(default_factory=History)
    told: float = 0.0
    """When its size was last said: the moment before which nobody believed in anything any more."""
    total: int = 0
    alive: int = 0
    running: int = 0
    totals: History[int] = field(default_factory=History)
    runnings: History[int] = field(default_factory=History)
    fallen: deque[float] = field(default_factory=lambda: deque(maxlen=LONG))
    """When machines stopped running that nobody had deleted."""
    turned: deque[int] = field(default_factory=lambda: deque(maxlen=LONG))
    """The resourceVersions at which machines began to run, or running ones to leave."""
    patience: float = 0.0
    """For how long a machine must have been ready to be available, in seconds."""
    names: set[str] = field(default_factory=set)
    """The names of all machines that were ever made for it."""
    young: dict[str, float] = field(default_factory=dict)
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

    def grew(self, uid: str, ready: float) -> None:
        """A machine runs from now on; its node has been ready since then, it says."""
        if self.patience:
            self.young[uid] = ready + self.patience

    def unavailable(self, now: float) -> int:
        """How many run, and have not been ready for long enough."""
        grown = [uid for uid, until in self.young.items() if until <= now]
        for uid in grown:
            del self.young[uid]
        return len(self.young)

    def fell_since(self, moment: float) -> int:
        """How many machines stopped running since then."""
        return sum(at >= moment for at in self.fallen)

    def turned_between(self, after: int, until: int) -> int:
        """How many machines began to run or to leave in versions later than ``after``, up to ``until``."""
        return sum(after < version <= until for version in self.turned)


@dataclass(frozen=True, slots=True)
class Wish:
    """What people want of a deployment: machines at most, available ones at least, and of which class.

    ``deadline`` is how long a rollout of it may stand still, in seconds; None: for ever.
    """

    most: int
    least: int
    machine_class: str
    paused: bool
    replicas: int = 0
    template: str = ""
    deadline: float | None = None


Marks = tuple[int, int, int]
"""How far a rollout is: new machines, old ones (below zero), new ones that run."""


@dataclass(slots=True)
class Roll:
    """A deployment's rollout: which template it was last at, wholly, and since when it stands still."""

    template: str = ""
    arrived: History[str] = field(default_factory=History)
    """The template of which all its machines were; empty while it is on its way."""
    began: float = 0.0
    moved: float = 0.0
    best: Marks = (0, 0, 0)

    def want(self, wish: Wish, now: float) -> None:
        """People want something else; what was reached is not reached any more if the template changed."""
        if wish.template != self.template:
            self.template, self.began = wish.template, now
            self.arrived.put("", now)
        self.moved, self.best = now, (0, -(2**31), 0)

    def move(self, marks: Marks, now: float) -> None:
        """So far it is now; what was lost and made again is no progress."""
        if any(after > before for before, after in zip(self.best, marks, strict=True)):
            self.moved = now
            (a, b, c), (x, y, z) = self.best, marks
            self.best = max(a, x), max(b, y), max(c, z)

    @property
    def over(self) -> bool:
        """Whether it is where it should be."""
        return self.arrived.last == self.template


@dataclass(slots=True)
class Fleet:
    """The sets of one deployment. A wish stands until the sets' sizes fit the one that came after it."""

    key: str
    there: bool = False
    leaving: bool = False
    crews: dict[str, Crew] = field(default_factory=dict)
    wishes: list[Wish] = field(default_factory=list)
    lost: deque[tuple[float, Crew]] = field(default_factory=lambda: deque(maxlen=LONG))
    """Sets that are no longer its own, and since when."""
    roll: Roll = field(default_factory=Roll)
    ended: list[float | None] = field(default_factory=list)
    """When each wish but the last was out of force; None: it is not yet."""

    def want(self, wish: Wish, now: float) -> None:
        """People want this from now on."""
        if not self.wishes or self.wishes[-1] != wish:
            self.roll.want(wish, now)
            self.ended += [None] * bool(self.wishes)
            self.wishes.append(wish)

    def settle(self, now: float) -> None:
        """End the wishes before the last one, when the sets fit it."""
        fits = bool(self.ended) and self.wishes[-1].least <= self.size <= self.wishes[-1].most
        if fits and self.ended[-1] is None:
            self.ended = [now if end is None else end for end in self.ended]

    def believable(self, since: float) -> list[Wish]:
        """The wishes that somebody may still act upon, the last one included."""
        past = [
            wish for wish, end in zip(self.wishes, self.ended, strict=False) if end is None or end >= since
        ]
        return [*past, *self.wishes[-1:]]

    def turn(self, now: float, since: float) -> None:
        """See how far the rollout is: for the last wish, or one in which a controller may still believe."""
        if self.roll.over or not self.wishes:
            return
        wish = self.wishes[-1]
        new = [crew for crew in self.crews.values() if crew.template == wish.template]
        made, run = sum(crew.total for crew in new), sum(crew.running for crew in new)
        self.roll.move((min(made, wish.replicas), made - self.total, run), now)
        for each in self.believable(since):
            if each.template == wish.template and made == run == self.total == each.replicas:
                self.roll.arrived.put(wish.template, now)

    @property
    def total(self) -> int:
        """All its machines."""
        return sum(crew.total for crew in self.crews.values())

    def crews_since(self, since: float) -> list[Crew]:
        """The sets that somebody may still take for its own."""
        return [*self.crews.values(), *(crew for at, crew in self.lost if at >= since)]

    @property
    def size(self) -> int:
        """What the sets' sizes add up to."""
        return sum(crew.size for crew in self.crews.values())

    @property
    def alive(self) -> int:
        """Machines that are not leaving."""
        return sum(crew.alive for crew in self.crews.values())

    @property
    def running(self) -> int:
        """Of those, the ones that run."""
        return sum(crew.running for crew in self.crews.values())

    def available(self, now: float) -> int:
        """Of those, the ones that have been ready for long enough."""
        return self.running - sum(crew.unavailable(now) for crew in self.crews.values())


def wish_of(deployment: Object) -> Wish:
    """What a deployment's spec asks for."""
    spec = deployment["spec"]
    strategy: dict[str, Any] = spec.get("strategy", {})
    rolling = strategy.get("rollingUpdate") or {}
    replicas = int(spec.get("replicas", 0))
    recreate = strategy.get("type") == "Recreate"
    surge = 0 if recreate else share(rolling.get("maxSurge", 0), replicas, up=True)
    missing = replicas if recreate else share(rolling.get("maxUnavailable", 0), replicas, up=False)
    machine_class = str(spec["template"]["spec"]["class"]["name"])
    return Wish(
        replicas + surge,
        replicas - missing,
        machine_class,
        bool(spec.get("paused")),
        replicas,
        template_of(deployment),
        spec.get("progressDeadlineSeconds"),
    )


def share(value: int | str, of: int, *, up: bool) -> int:
    """A number, or a percentage of the replicas; rounded as Kubernetes does."""
    if isinstance(value, int):
        return value
    hundredths = of * int(value.rstrip("%"))
    return -(-hundredths // 100) if up else hundredths // 100
