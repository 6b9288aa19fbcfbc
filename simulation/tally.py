"""Counts what the managers do, and checks that only a leader writes.

Theory.      Everything is counted where it takes effect: a request when the server gets it, a write
             when the server has accepted it, a VM when the cloud has made it or begun to delete it, a call of
             a host of control planes when it is done. So
             another run of the same seed can kill a manager right after the n-th write of this one.
Called by    ``world``; read by ``run``, ``crashes`` and ``report``.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from kubewright.machines.world import Half
from kubewright.runtime.lease import Timings
from kubewright.wire.http import Request, Response
from simulation.journal import MADE, VMS, WORKLOADS, Journal, Write, vm_ends
from simulation.network import READS

MANAGER = "manager"
"""How the names of managers' processes begin."""
EVENTS = "/events"
UNCOUNTED = ("/leases", EVENTS)
"""Writes that are not about machines: Leases and Events."""
FENCE_SECONDS = 1.0
"""How long after another manager got the Lease a request may still arrive that was sent before."""
INTRUDER = "intruder"
"""The holder that takes a Lease by force: the leader learns of it when it renews the Lease."""
DEPOSED_SECONDS = Timings().renew_deadline + FENCE_SECONDS
"""How long a leader that was deposed by force may go on: until it learns of it or, where it reaches no
server, until its own term is over, counted from its last renewal."""


@dataclass(slots=True)
class Counts:
    """What the managers did since the story began, and the faults that were injected."""

    writes: int = 0
    requests: int = 0
    """All but Events."""
    events: int = 0
    """Events written."""
    calls: int = 0
    steps: int = 0
    """Steps of managers, from one await to the next; known when the run is over."""
    kills: int = 0
    faults: dict[str, int] = field(default_factory=dict)
    last_write: float = 0.0

    def note_fault(self, word: str) -> None:
        """A fault was injected."""
        self.faults[word] = self.faults.get(word, 0) + 1


class Tally:
    """Counts for one world. ``on_write`` is called after each write, before the writer has its answer."""

    def __init__(self, journal: Journal, now: Callable[[], float]) -> None:
        self.counts = Counts()
        self.deposed: list[str] = []
        """Writes and calls of managers that had lost their Lease long before."""
        self.on_write: list[Callable[[], None]] = []
        self._journal = journal
        self._now = now
        journal.listen(self._entered)

    def begin(self) -> None:
        """The story begins: count from zero; faults of watches that were injected before it are kept."""
        self.counts = Counts(last_write=self._now(), faults=self.counts.faults)

    def asked(self, client: str, request: Request) -> None:
        """A server got a request."""
        if not client.startswith(MANAGER):
            return
        if writes_event(request):
            self.counts.events += 1
        else:
            self.counts.requests += 1

    def answered(self, client: str, request: Request, response: Response) -> None:
        """A server has answered a request."""
        if request.method in READS or not client.startswith(MANAGER) or response.status >= 400:
            return
        self._journal.say(client, f"{request.method} {request.path}")
        if _counts(request):
            self._wrote()

    def sends(self, client: str, request: Request) -> None:
        """A manager begins a request: for a write it must be the leader, as far as it can know."""
        half = request.headers.get("user-agent", "").partition("/")[2]
        if half and request.method not in READS and _counts(request):
            self.acts(client, Half(half), f"writes {request.path}")

    def acts(self, client: str, half: Half, what: str) -> None:
        """A manager begins an action that only the leader of this half may take."""
        leader = self._journal.leaders[half]
        fence = DEPOSED_SECONDS if leader.name == INTRUDER else FENCE_SECONDS
        late = self._now() - leader.since > fence
        if leader.name not in ("", client) and late:
            self.deposed.append(f"fencing: {client} {what}, and {leader.name} has led for long")

    def _entered(self, write: Write) -> None:
        if write.kind == WORKLOADS or (write.kind == VMS and (write.verb == MADE or vm_ends(write))):
            self._wrote()

    def _wrote(self) -> None:
        self.counts.writes += 1
        self.counts.last_write = self._now()
        for listener in self.on_write:
            listener()


def writes_event(request: Request) -> bool:
    """Whether a request only writes an Event: it is not counted as work, and no controller waits for it."""
    return request.method not in READS and EVENTS in request.path


def _counts(request: Request) -> bool:
    return not any(part in request.path for part in UNCOUNTED)
