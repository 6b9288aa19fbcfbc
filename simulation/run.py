"""One run: a story, a plot, and their outcome.

Theory.      ``simulate`` makes a loop and a world, runs the story while the plot injects its faults, waits
             until the end is as the story says and no manager writes any more, and takes a picture. Names,
             ids and times differ between runs, so the picture has the machines as a multiset of what matters
             about them: two runs ended in the same world when their pictures are equal. How many requests the
             managers may make follows from what there was to do. A machine costs at most what the budgets of
             the design allow (6 requests to create, 5 to delete); a user's change costs the writes of
             deployment, sets and their statuses; a manager begins with a list and a watch of every kind; time
             costs new watches and renewals; a fault costs what ``PRICES`` says. The sum finds a loop that
             never rests, and a controller that writes where nothing has changed. Of 250 hostile seeds the
             nearest made three quarters of it; undisturbed stories a quarter to three.
Invariants.  The same story, plot and code give the same trace, byte for byte.
Called by    ``campaign``, ``crashes``, ``search``, ``goldens``, ``__main__`` and tests.
"""

import gc
import sys
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from logging import DEBUG, ERROR
from typing import Any

import structlog

from kubewright.wire.http import Request
from simulation import incidents
from simulation.journal import Journal, Write
from simulation.loop import OLDEST, YOUNGEST, Deadlock, Livelock, SimLoop
from simulation.network import READS
from simulation.person import Late, Person
from simulation.picture import Picture, picture
from simulation.rules import judge
from simulation.rules.past import Past
from simulation.schedule import LATE_CALLS, LONG_FAULTS
from simulation.story import Hook, Story, as_it_is
from simulation.tally import MANAGER, Counts
from simulation.world import Plot, World

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


REST_SECONDS = 15.0
"""Without a write for so long, a world is at rest."""
UNREST_SECONDS = 1500.0
"""A world that reached its end and still writes after this never comes to rest. A call that failed for an
unknown reason is tried again after ten minutes (``driver.errors.LONG``), and may get a second fault."""
LONG_SECONDS = 600.0
"""What an outage of minutes and its consequences add to that."""
MANAGERS = 2
"""How many there are when they elect a leader."""
QUIET_REQUESTS = 12
"""How many a manager may make in a minute at rest, whatever the number of machines."""
VIOLATIONS = 3
"""A run stops after so many."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a run. ``violations`` is empty when no rule was broken."""

    story: str
    plot: Plot
    violations: tuple[str, ...]
    picture: Picture
    counts: Counts
    seconds: float
    digest: str
    lines: list[str] = field(repr=False)

    @property
    def good(self) -> bool:
        """Whether nothing was violated."""
        return not self.violations


def simulate(
    story: Story,
    plot: Plot,
    *,
    quiet: float = 0.0,
    prepare: Hook = as_it_is,
    collect: bool = False,
    plans: bool = False,
    even: bool = False,
    until: str = "",
) -> Outcome:
    """Run a story under a plot.

    Args:
        story: what users do.
        plot: seed and faults.
        quiet: after the end, let so many seconds pass in which no manager may write.
        prepare: called with the world before anything runs in it, after its realm is there.
        plans: write each decision of the controllers and its reason into the trace.
        even: fixed order and mean delays instead of drawn ones (``loop.SimLoop``).
        collect: let the garbage collector run when it likes; for large worlds that need the memory.
        until: the name of a rule; the run is given up when it is violated.
    """
    loop = SimLoop(plot.seed, even=even)
    run = _Run(loop, story, plot, until)
    with _stillness(collect), captured_logs(run.world.journal, plans=plans or story.realm.plans) as errors:
        try:
            return loop.run_until_complete(run.whole(quiet, prepare, errors))
        finally:
            loop.destroy(OLDEST if collect else YOUNGEST)


class _Run:
    def __init__(self, loop: SimLoop, story: Story, plot: Plot, until: str) -> None:
        self._loop = loop
        self._until = until
        self._story = story
        self._plot = plot
        self._rules = tuple(rule for rule in story.realm.rules if not (plot.stale and rule.fresh))
        self.world = World(loop, plot, story.kubelets, joins=story.joins)
        self.person = Person(self.world, self._over)
        self.violations: list[str] = []
        self._steps = 0
        self._troubled = 0.0
        self._faults = 0
        self._kinds = Kinds(self.world)
        self.past = Past(
            self.world.journal,
            loop.time,
            self.world.staleness.since,
            settings=plot.options.machine,
            deleted_by_users=self.person.deleted,
            late_creation=self.world.is_late_creation,
            executes_late=self.world.executes_late,
            undisturbed_since=self._undisturbed_since,
            answering_since=self.world.answering_since,
            late_vms=plot.schedule.has(LATE_CALLS) or bool(plot.stale),
            unseen=lambda: self.world.managers.unseen,
            parts=self.world.part,
            memories={each: each() for each in story.realm.memories},
        )

    async def whole(self, quiet: float, prepare: Hook, errors: list[str]) -> Outcome:
        self._story.realm.install(self.world)
        prepare(self.world)
        self.world.journal.listen(self._check)
        try:
            await self._tell()
            await self._rest()
        except (Late, Deadlock, Livelock) as error:
            if not self._over():  # else the run was given up
                self.violations.append(f"{type(error).__name__}: {error}")
        self._count()
        if quiet and not self.violations:
            await self._be_quiet(quiet)
        self._add_errors(errors)
        world = self.world
        return Outcome(
            self._story.name,
            self._plot,
            tuple(self.violations),
            picture(world.journal),
            world.counts,
            self._loop.time(),
            world.journal.digest(),
            [*world.journal.lines],
        )

    async def _tell(self) -> None:
        world, person, story = self.world, self.person, self._story
        await world.begin()
        await person.furnish()
        for _ in range(MANAGERS if self._plot.elect else 1):
            world.managers.start()
        await story.begin(person)
        await person.wait(REST_SECONDS)
        world.tell()
        self._steps = self._loop.steps
        incidents.begin(world, person)
        await story.tell(person)
        await person.until(lambda: story.end(person), story.name)

    async def _rest(self) -> None:
        """Wait until no manager writes any more, and the end is still as it should be."""
        world, person, counts = self.world, self.person, self.world.counts
        last = max((at for at, _ in self._plot.schedule.moments()), default=0.0) + world.began + 5.0

        def at_rest() -> bool:
            now = self._loop.time()
            led = (since := world.managers.led_since) is not None and now - since > REST_SECONDS
            still = now > last and now - counts.last_write > REST_SECONDS and not world.busy
            return led and still and self._story.end(person)

        await person.until(
            at_rest, "the world comes to rest", seconds=UNREST_SECONDS + last + _longest(self._plot)
        )

    async def _be_quiet(self, seconds: float) -> None:
        """Nothing happens, so no manager may write, and none may ask more than the design allows."""
        counts = self.world.counts
        writes, requests = counts.writes, counts.requests
        await self.person.wait(seconds)
        wrote, asked = counts.writes - writes, counts.requests - requests
        if wrote or asked > QUIET_REQUESTS * len(self.world.managers.living) * (1 + seconds / 60.0):
            told = f"quiet_at_rest: {wrote} writes and {asked} requests in {seconds:g} s"
            self.violations.append(told)

    def _count(self) -> None:
        """Check that the managers sent no more requests than there was work."""
        counts = self.world.counts
        counts.steps = self._loop.steps - self._steps
        bound = self._work().bound()
        if counts.requests > bound:
            self.violations.append(f"bounded_work: {counts.requests} requests, more than {bound}")

    def _work(self) -> Work:
        past, counts = self.past, self.world.counts
        return Work(
            near=self._kinds.of("control"),
            far=self._kinds.of("target"),
            apart=self._plot.apart,
            lives=1 + counts.kills,
            machines=past.machines,
            desired=sum(each.most for deployment in past.deployments.values() for each in deployment.desired),
            changes=sum(len(deployment.desired) for deployment in past.deployments.values()),
            seconds=self._loop.time() - self.world.began,
            updates=past.updates,
            held=self.person.held,
            other_requests=self.world.other_requests(),
            elect=self._plot.elect,
            faults=counts.faults,
        )

    def _over(self) -> bool:
        awaited = self._until and any(each.startswith(f"{self._until}:") for each in self.violations)
        return bool(awaited) or len(self.violations) >= VIOLATIONS

    def _undisturbed_since(self) -> float:
        """Since when nothing has disturbed the managers that work; now, while one half has none.

        An answer that a manager waits for disturbs it until it comes: a manager that begins knows nothing
        before its first lists are complete.
        """
        now, managers = self._loop.time(), self.world.managers
        if (led := managers.led_since) is None:
            return now
        delayed = min(now, self.world.injector.delayed_until(managers.living))
        return max(self._troubled, delayed, led if self._plot.elect else 0.0)

    def _watch_faults(self) -> None:
        """Remember when a fault last happened, or was still under way."""
        faults = sum(self.world.counts.faults.values()) + self.world.counts.kills
        if faults != self._faults or self.world.faults.busy:
            self._faults, self._troubled = faults, self._loop.time()

    def _check(self, write: Write) -> None:
        self._watch_faults()
        self.past.learn(write)
        found = judge(write, self.past, self._rules)
        self.past.remember(write)
        if found and not self._over():
            for wrong in found:
                self.world.journal.say("rules", wrong)
            self.violations += found

    def _add_errors(self, errors: list[str]) -> None:
        self.violations += self.world.tally.deposed[:VIOLATIONS]
        surprises = dict.fromkeys((*errors, *self._loop.trouble))
        self.violations += [f"no_surprises: {error}" for error in [*surprises][:VIOLATIONS]]


def _longest(plot: Plot) -> float:
    """About how long the longest of its faults lasts."""
    return LONG_SECONDS if plot.schedule.has(LONG_FAULTS) else 0.0


@contextmanager
def _stillness(collect: bool) -> Iterator[None]:
    """No automatic garbage collection: all that a world makes stays in the youngest generation, and this is
    the only one that ``SimLoop.destroy`` then looks through. To look through all of the process, such as
    what other tests have left, would take longer than most stories.

    What the world before this one has left is collected here: it was in use when its loop was destroyed.
    """
    collecting = gc.isenabled()
    gc.collect(1)
    if not collect:
        gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


WAITS = "waits"
"""What the trace says of a plan without steps."""


@contextmanager
def captured_logs(journal: Journal, *, plans: bool) -> Iterator[list[str]]:
    """Collect the log lines that tell of a defect; with ``plans`` put each decision into the trace."""
    errors: list[str] = []
    before = structlog.get_config()

    def capture(_logger: Any, level: str, event: MutableMapping[str, Any]) -> str:
        if plans:
            journal.logged(repr(event))
        if level in ("error", "exception", "critical"):
            errors.append(_defect(event))
        elif event.get("event") == "plan":
            who = f"{event.get('controller', '')} {event.get('key', '')}"
            journal.say("plan", f"{who}: {event['because']} -> {', '.join(event['steps']) or WAITS}")
        raise structlog.DropEvent

    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(DEBUG if plans else ERROR),
        processors=[structlog.contextvars.merge_contextvars, capture],
        cache_logger_on_first_use=False,
    )
    try:
        yield errors
    finally:
        structlog.configure(**before)


def _defect(event: MutableMapping[str, Any]) -> str:
    error = sys.exc_info()[1] if event.get("exc_info") is True else event.get("exc_info")
    told = f": {type(error).__name__}: {error}" if isinstance(error, BaseException) else ""
    return f"{event.get('event')}{told}"
