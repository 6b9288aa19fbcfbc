"""What the managers do, counted; and whether each of them had the right to.

Theory.      Everything is counted where it takes effect: a request when the server gets it, a write
             when the server has said yes, a VM when the cloud has made or ended it. So the n-th write
             of a run is a moment that another run of the same seed can be killed at.
Called by    ``world``; read by ``run``, ``crashes`` and ``report``.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from kubewright.machines.world import Half
from kubewright.runtime.leader import Timings
from kubewright.testing.simulation.journal import Journal, Step, VmStep
from kubewright.testing.simulation.network import READS
from kubewright.wire.http import Request, Response

MANAGER = "manager"
"""How the names of managers' processes begin."""
EVENTS = "/events"
UNCOUNTED = ("/leases", EVENTS)
"""Writes that say nothing about machines: who leads, and what people are told."""
FENCE_SECONDS = 1.0
"""How long after another has the lease a request may still arrive that was sent before."""
USURPER = "usurper"
"""Who takes the lease by force: its holder can only know when it looks, which it does to renew it."""
USURPED_SECONDS = Timings().renew_deadline + FENCE_SECONDS
"""How long one who was deposed by force may go on: until it hears of it, and where it cannot hear, until the
term is over that it began when it last renewed."""


@dataclass(slots=True)
class Counts:
    """What the managers did since the story began, and what was done to them."""

    writes: int = 0
    requests: int = 0
    """Of whatever kind, but for what people are told."""
    events: int = 0
    """What people are told: Events written."""
    calls: int = 0
    steps: int = 0
    """How often a manager ran from one await to the next; known when the run is over."""
    kills: int = 0
    struck: dict[str, int] = field(default_factory=dict)
    last_write: float = 0.0

    def strike(self, word: str) -> None:
        """Fate has struck."""
        self.struck[word] = self.struck.get(word, 0) + 1


class Tally:
    """Counts for one world. ``on_write`` is called after each write, before its writer can know."""

    def __init__(self, journal: Journal, now: Callable[[], float]) -> None:
        self.counts = Counts()
        self.deposed: list[str] = []
        """What managers did that had lost the lease long before."""
        self.on_write: list[Callable[[], None]] = []
        self._journal = journal
        self._now = now
        journal.listen(self._step)

    def begin(self) -> None:
        """The story begins: count anew. What struck before it stays known."""
        self.counts = Counts(last_write=self._now(), struck=self.counts.struck)

    def asked(self, client: str, request: Request) -> None:
        """A server got a request."""
        if not client.startswith(MANAGER):
            return
        if tells(request):
            self.counts.events += 1
        else:
            self.counts.requests += 1

    def answered(self, client: str, request: Request, response: Response) -> None:
        """A server has done what it was asked, or not."""
        if request.method in READS or not client.startswith(MANAGER) or response.status >= 400:
            return
        self._journal.say(client, f"{request.method} {request.path}")
        if _counts(request):
            self._wrote()

    def sends(self, client: str, request: Request) -> None:
        """A manager begins a request: it should lead if this is a write, as far as it can know."""
        half = request.headers.get("user-agent", "").partition("/")[2]
        if half and request.method not in READS and _counts(request):
            self.acts(client, Half(half), f"writes {request.path}")

    def acts(self, client: str, half: Half, what: str) -> None:
        """A manager begins what only the leader of this half may."""
        leader = self._journal.leaders[half]
        fence = USURPED_SECONDS if leader.name == USURPER else FENCE_SECONDS
        late = self._now() - leader.since > fence
        if leader.name not in ("", client) and late:
            self.deposed.append(f"fencing: {client} {what}, and {leader.name} has led for long")

    def _step(self, step: Step) -> None:
        if isinstance(step, VmStep) and step.new is not None:
            made = step.old is None
            ended = step.old is not None and step.old.gone_at is None and step.new.gone_at is not None
            if made or ended:
                self._wrote()

    def _wrote(self) -> None:
        self.counts.writes += 1
        self.counts.last_write = self._now()
        for listener in self.on_write:
            listener()


def tells(request: Request) -> bool:
    """Whether a request only tells people what has happened: it is no work, and no one waits."""
    return request.method not in READS and EVENTS in request.path


def _counts(request: Request) -> bool:
    return not any(part in request.path for part in UNCOUNTED)
