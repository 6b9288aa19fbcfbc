"""The faults of a run, as a value: it can be drawn from a seed, printed, read back and shrunk.

Theory.      A fault has a place, a number and a word. The place says where it is injected: ``api``, the
             n-th request of the managers; ``watch``, their n-th watch; ``call``, the n-th call of the
             driver; ``at``, a moment in seconds; ``write``, after their n-th write, before the
             writer has its answer; ``await``, before their n-th step between two awaits. Numbers count
             from the beginning of the story; those of watches from the beginning of the world, since
             most watches begin then. So ``call:4:fail-after`` means that the fourth driver call does its work
             and answers with an error. A schedule without one of its faults is a schedule too, which
             is all that shrinking needs.
Invariants.  ``parse(str(schedule)) == schedule``. A fault is injected at most once. No drawn fault
             lasts for ever, so every world can come to rest.
Called by    ``injector``, ``incidents``, ``search`` (draws and shrinks), the command line.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random  # noqa: TID251 -- only the type; every generator comes from a clock

from kubewright.base.errors import InvalidInput
from kubewright.testing import faults
from kubewright.testing.faults import (
    Answer,
    Break,
    Bunch,
    Cut,
    Delay,
    ExecuteLate,
    Lag,
    Lose,
    LoseAnswer,
    Silence,
)


def _refusal(code: int, reason: str, retry_after: int | None = None) -> Answer:
    body = f'{{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"{reason}","code":{code}}}'
    return Answer(code, body.encode(), retry_after=retry_after)


API: Mapping[str, faults.Fault] = {
    "lose": Lose(),
    "lose-answer": LoseAnswer(),
    "delay": Delay(2.0),
    "too-late": Delay(40.0),
    "execute-late": ExecuteLate(40.0),
    "conflict": _refusal(409, "Conflict"),
    "throttle": _refusal(429, "TooManyRequests", 1),
    "error": _refusal(500, "InternalError"),
    "unavailable": _refusal(503, "ServiceUnavailable"),
}
"""Faults of a request of a manager."""

STEADY: Mapping[str, faults.Fault] = {"forbid": _refusal(403, "Forbidden")}
"""Faults that a story may inject into requests of one kind. No seed draws them: no retry succeeds."""

WATCH: Mapping[str, faults.Fault] = {
    "cut": Cut(3),
    "break": Break(1),
    "silence": Silence(2),
    "lag": Lag(1.0),
    "bunch": Bunch(4),
    "expired": faults.GONE,
    "expire": faults.GONE_IN_STREAM,
    "refuse": Lose(),
}
"""Faults of a watch of a manager."""

CALL = ("fail", "fail-after", "hang", "late", "lost", "quota", "very-late", "stale")
"""Faults of a driver call: an error before or after it did its work, an answer that comes late, or
never, a refusal because no capacity is left, work that is done a minute after its caller got a timeout, or
the answer of some seconds ago."""

LATE_CALLS = frozenset(("very-late",))
"""Faults by which a VM may appear when its machine does not exist any more: an orphan."""

AT = (
    "kill", "freeze", "slow-process", "clock-ahead", "clock-behind", "clock-leap", "clock-skew",
    "restart-server", "restart-target", "unreachable", "target-unreachable", "outage", "target-outage",
    "partition", "cut-all", "slow-watches", "silent-watches",
    "storm-lose", "storm-lose-answer", "storm-error", "storm-throttle", "storm-conflict",
    "lease-deleted", "lease-cleared", "lease-stolen", "renewals-lost",
    "vm-dies", "kubelet-stops", "vm-vanishes", "node-deleted", "no-capacity", "cloud-down", "lagging-cloud",
)  # fmt: skip
"""Faults of the world as a whole."""

WORDS: Mapping[str, tuple[str, ...]] = {
    "api": tuple(API),
    "watch": tuple(WATCH),
    "call": CALL,
    "at": AT,
    "write": AT,
    "await": AT,
}

NODE_FAULTS = frozenset(("vm-dies", "kubelet-stops", "vm-vanishes", "node-deleted"))
"""Faults after which machines may rightly be replaced."""

CLOCK_FAULTS = frozenset(("clock-ahead", "clock-leap", "clock-skew"))
"""Faults after which a date may have passed before its time."""

TARGET_FAULTS = frozenset(("target-unreachable", "restart-target", "target-outage"))
"""Faults of a world whose nodes have a cluster of their own."""

LEASE_FAULTS = frozenset(
    ("freeze", "clock-skew", "lease-deleted", "lease-cleared", "lease-stolen", "renewals-lost")
)
"""Faults of a world in which managers elect a leader."""

LONG_FAULTS = frozenset(("outage", "target-outage", "clock-leap"))
"""Faults that take minutes, with their consequences."""


@dataclass(frozen=True, slots=True, order=True)
class Fault:
    """``number`` counts from 1; for ``at`` it is seconds."""

    place: str
    number: float
    word: str

    def __str__(self) -> str:
        return f"{self.place}:{self.number:g}:{self.word}"


@dataclass(frozen=True, slots=True)
class Schedule:
    """The faults of one run, in no particular order."""

    faults: tuple[Fault, ...] = ()

    def __str__(self) -> str:
        return ",".join(map(str, self.faults))

    def at(self, place: str) -> dict[float, str]:
        """The words for a place other than ``at``, by number."""
        return {fault.number: fault.word for fault in self.faults if fault.place == place}

    def moments(self) -> list[tuple[float, str]]:
        """The ``at`` faults in the order in which they happen."""
        return sorted((fault.number, fault.word) for fault in self.faults if fault.place == "at")

    def has(self, words: frozenset[str]) -> bool:
        """Whether any of these faults is in it."""
        return any(fault.word in words for fault in self.faults)


CALM = Schedule()


def parse(text: str) -> Schedule:
    """Read ``api:17:lose,at:3.5:kill``.

    Raises:
        InvalidInput: it is no schedule; the message names the part.
    """
    return Schedule(tuple(_fault(part) for part in text.split(",") if part.strip()))


def _fault(text: str) -> Fault:
    place, _, rest = text.strip().partition(":")
    number, _, word = rest.partition(":")
    if word not in WORDS.get(place, ()):
        raise InvalidInput(f"{text!r} is no fault: place:number:word, with {_known()}")
    try:
        return Fault(place, float(number), word)
    except ValueError:
        raise InvalidInput(f"{text!r} is no fault: {number!r} is no number") from None


def _known() -> str:
    alike: dict[tuple[str, ...], list[str]] = {}
    for place, words in WORDS.items():
        alike.setdefault(words, []).append(place)
    return "; ".join(f"{', '.join(places)}: {', '.join(words)}" for words, places in alike.items())


def _nothing(_chance: Random) -> tuple[Fault, ...]:
    return ()


def _death_under_a_call(chance: Random) -> tuple[Fault, ...]:
    """The cloud is slow, and the manager that asked is dead before it answers."""
    call = Fault("call", float(chance.randint(1, 12)), chance.choice(("hang", "late")))
    return call, Fault("at", round(chance.uniform(0.02, 2.0), 2), "kill")


def _writer_unobserved(chance: Random) -> tuple[Fault, ...]:
    """Answers are lost while watches are late: the manager cannot know what it wrote."""
    moment = chance.choice((0.0, round(chance.uniform(0.0, 0.4), 2)))
    return Fault("at", moment, "slow-watches"), Fault("at", moment, "storm-lose-answer")


def _two_deaths(chance: Random) -> tuple[Fault, ...]:
    """The second manager dies before it has dealt with what the first one left."""
    first = round(chance.uniform(0.0, 2.0), 2)
    return Fault("at", first, "kill"), Fault("at", round(first + chance.uniform(0.7, 1.2), 2), "kill")


def _sleeping_leader(chance: Random) -> tuple[Fault, ...]:
    """The leader goes on in the middle of its work, after another has done the work."""
    return (Fault("at", round(chance.uniform(0.0, 6.0), 2), "freeze"),)


def _late_request(chance: Random) -> tuple[Fault, ...]:
    """A request is carried out after its sender was killed; no manager remembers it."""
    sent = Fault("api", float(chance.randint(1, 40)), "execute-late")
    return sent, Fault("at", round(chance.uniform(0.02, 3.0), 2), "kill")


def _deposed(chance: Random) -> tuple[Fault, ...]:
    """The Lease goes to another holder in the middle of the work, with a second fault."""
    moment = round(chance.uniform(0.0, 6.0), 2)
    taken = Fault(
        "at", moment, chance.choice(("lease-deleted", "lease-cleared", "lease-stolen", "renewals-lost"))
    )
    return taken, Fault("at", moment, chance.choice(("slow-process", "slow-watches", "storm-lose-answer")))


RECIPES = (
    _nothing,
    _death_under_a_call,
    _writer_unobserved,
    _two_deaths,
    _sleeping_leader,
    _late_request,
    _deposed,
)
"""Faults that are worse together; most schedules begin with one of these."""


PLACES = ("api", "api", "api", "watch", "watch", "call", "call", "at", "at", "write", "await")
"""Where faults are drawn: a word of any place is about as likely as another's."""


def draw(chance: Random, *, most: int = 6, seconds: float = 12.0, requests: int = 60) -> Schedule:
    """A hostile schedule: up to ``most`` faults; half of the moments while the story is young."""
    numbers: Mapping[str, Callable[[], float]] = {
        "api": lambda: chance.randint(1, requests),
        "watch": lambda: chance.randint(1, 40),
        "call": lambda: chance.randint(1, 12),
        "at": lambda: round(chance.uniform(0.0, chance.choice((1.0, seconds))), 2),
        "write": lambda: chance.randint(1, 40),
        "await": lambda: chance.randint(1, 300),
    }
    found: set[Fault] = set(chance.choice(RECIPES)(chance))
    for _ in range(chance.randint(0 if found else 1, most)):
        place = chance.choice(PLACES)
        found.add(Fault(place, float(numbers[place]()), chance.choice(WORDS[place])))
    return Schedule(tuple(sorted(found)))
