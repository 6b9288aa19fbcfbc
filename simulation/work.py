"""How many requests the managers of a run may make, derived from what there was to do.

Theory.      Work has causes, and each has a price. A machine costs at most what the budgets of the design
             allow (DESIGN §8: 6 requests to create, 5 to delete). A user's change costs the writes
             of deployment, sets and their statuses. A manager begins with a list and a watch of every
             kind. Time costs new watches and renewals of a Lease. A fault costs what ``PRICES`` says. The
             sum is the bound: no other request is needed, so the bound finds a loop that never rests,
             and a controller that writes where nothing has changed.
Measured     Of 250 hostile seeds the one that came nearest to its bound made three quarters of it; of
             undisturbed stories each makes between a quarter and three quarters.
Called by    ``run``.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial

from kubewright.wire.http import Request
from simulation.network import READS
from simulation.tally import MANAGER
from simulation.world import World

MACHINE = 12
"""To create one (6) and to delete it (5), or to roll it (12)."""

REPLACED = 2
"""Machines that one fault may cost: the one that it harms, and one that was being made."""

UPDATED = 24
"""To update one in place: ten writes of the node (marks, labels, conditions, cordon), each of which
one of the machine's status may follow; the machine moves, and loses its mark; its pods; three events."""

CHANGE = 12
"""A user's change: set and finalizer, sizes, revision, two statuses a few times each, events."""

CLASSES = 6
"""What the driver says of the classes of a story in their statuses, and an event of one that is refused."""

LIFE = 25
"""The beginning of a manager beside its lists and watches: looks for kinds, its Lease, an event or two; and
what it does again because it cannot know that the one before it has."""

WATCH_SECONDS = 300.0
"""The shortest life of a watch (``kube.reflector.WATCH_SECONDS``)."""

RENEWALS = 0.5
"""Requests a second for two Leases by two managers that ask every ten, of which a candidate needs two."""


HELD = 0.5
"""Requests a second for a node whose pods a disruption budget keeps: they are listed every second at first,
later every ten, and their eviction is asked for every twenty."""

SLACK = 1.2
"""For what comes of several causes together: a conflict over a retry, a look that finds nothing."""


@dataclass(frozen=True, slots=True)
class Price:
    """What one fault may cost.

    ``requests``  of whatever kind
    ``near``      for each kind that is watched in the machines' cluster
    ``far``       for each that is watched in the nodes' cluster
    ``terms``     terms of leaders that end and begin anew, where managers elect a leader
    """

    requests: int = 0
    near: int = 0
    far: int = 0
    terms: int = 0


PLACES: Mapping[str, Price] = {"api": Price(6), "watch": Price(6), "call": Price(8), "at": Price(6)}
"""A request that fails is made again, after a look, with the requests that waited for it; a watch is begun
again, if need be after a list, and what was decided without it meets conflicts. A driver call that fails is
reported in a status and an event, and made again; so is the one after it. The requests that a storm hits are
counted one by one."""

AGAIN, ANEW = 1, 3
"""Requests for a kind whose watch broke: another watch; or one that is refused, a list, and another."""

PRICES: Mapping[str, Price] = {
    "kill": Price(20),  # beside the life of the next
    "freeze": Price(6, AGAIN, AGAIN, terms=1),
    "lease-deleted": Price(6, terms=1),
    "lease-cleared": Price(6, terms=1),
    "lease-stolen": Price(6, terms=1),
    "renewals-lost": Price(6, terms=1),
    "partition": Price(6, AGAIN, AGAIN, terms=1),
    "cut-all": Price(6, AGAIN, AGAIN),
    "silent-watches": Price(6, ANEW, ANEW),
    "restart-server": Price(6, near=ANEW),
    "unreachable": Price(6, near=AGAIN, terms=1),
    "outage": Price(20, near=ANEW, terms=1),
    "restart-target": Price(6, far=ANEW),
    "target-unreachable": Price(6, far=AGAIN),
    "target-outage": Price(20, far=ANEW),
    "older-world": Price(20),
    "node-deleted": Price(12),
    "vm-dies": Price(12),
    "vm-vanishes": Price(12),
    "kubelet-stops": Price(20),
    "no-capacity": Price(40),
    "cloud-down": Price(40),
}
"""Faults that cost more than ``PLACES`` says. A leader that cannot renew its Lease begins anew; a manager
that loses its connections begins all watches again, after a list where the history is lost. A node with a
fault is marked and drained; without a cloud each machine reports that, and tries again. A manager whose first
lists are stale (``Plot.stale``) does again what it does not see, and meets conflicts."""


@dataclass(slots=True)
class Work:
    """What there was to do in one run.

    ``near``, ``far``  how much a manager watches in each cluster
    ``machines``       how many there ever were
    ``desired``        the sum of what users asked for, change by change
    ``changes``        how many changes users made
    ``updates``        how often a node was selected for an update in place
    ``held``           for how many seconds users keep pods from leaving, of all nodes together
    ``other_requests`` those that the controllers of other APIs than that of machines may make
    """

    near: int = 0
    far: int = 0
    apart: bool = False
    lives: int = 1
    machines: int = 0
    desired: int = 0
    changes: int = 0
    updates: int = 0
    seconds: float = 0.0
    held: float = 0.0
    other_requests: int = 0
    elect: bool = False
    faults: Mapping[str, int] = field(default_factory=dict)

    def bound(self) -> int:
        """The most requests that the managers may make."""
        kinds = self.near + self.far * self.apart
        pace = kinds / WATCH_SECONDS + RENEWALS * self.elect
        harm = sum(self._price(word) * count for word, count in self.faults.items())
        lives = (self.lives - 1) * self._life
        work = MACHINE * self._right + UPDATED * self.updates + CHANGE * max(1, self.changes) + CLASSES
        expected = work + lives + harm + pace * self.seconds + HELD * self.held
        return round(SLACK * expected + self.other_requests)

    @property
    def _right(self) -> int:
        """Machines with a reason: replacements for ever do not raise the bound."""
        replaced = REPLACED * sum(self.faults.values())
        return min(self.machines, self.desired + replaced) if self.desired else self.machines

    @property
    def _life(self) -> int:
        """A list and a watch of everything, and the other requests of a start."""
        return 2 * (self.near + self.far * self.apart) + LIFE

    def _price(self, fault: str) -> int:
        place, _, word = fault.rpartition(":")
        price = PRICES.get(word) or PLACES.get(place, PLACES["at"])
        far = self.far if self.apart else self.near
        terms = price.terms * self.elect * self._life
        return price.requests + price.near * self.near + price.far * far + terms


class Kinds:
    """Counts what each manager lists before the story begins: the price of its life in this run."""

    def __init__(self, world: World) -> None:
        self._listed: dict[tuple[str, str], dict[str, None]] = {}
        self._world = world
        for cluster in world.clusters:
            cluster.host.on_asked.append(partial(self._asked, cluster.name))

    def of(self, cluster: str) -> int:
        """How many the manager lists that lists most there."""
        counts = (len(listed) for (where, _), listed in self._listed.items() if where == cluster)
        return max(counts, default=0)

    def _asked(self, cluster: str, client: str, request: Request) -> None:
        lists = client.startswith(MANAGER) and request.method in READS and request.param("limit")
        if lists and not self._world.began:
            form = request.headers.get("accept", "")
            self._listed.setdefault((cluster, client), {})[f"{request.path} {form}"] = None
