"""The drain of a node as values: why pods stay, what was asked of them, and what a pass does now. Pure.

Theory.      A refused eviction says little: "it would violate the pod's disruption budget". The budgets
             themselves say the rest: which one, how many healthy pods it wants, how many it has. From
             both comes an ``Obstacle``. It is *firm* when no change of the pods can remove it: a budget
             that allows no disruption even while all its pods are healthy, or whose pods no controller
             manages, two budgets for one pod, a server that refuses for another reason. Then a user must
             act, or the drain timeout ends it. Pods with the same obstacle are reported together.
             The server shows which pods leave. That a request is under way (``Requests``), or has failed
             (``Try``), only the process knows that sends it. Losing it costs requests, and time until a pod
             that refuses is deleted.
Invariants.  A pod is in at most one of ``evict``, ``delete`` and ``waiting`` of a plan. The words of an
             obstacle about budgets change only when names or counts do, so that a status that carries them
             need not be written again.
Called by    ``decide`` makes plans, ``session`` and ``removals`` perform them; the contexts that own machines
             read them.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from kubewright.api.core import Pod, PodDisruptionBudget
from kubewright.base.errors import KubewrightError
from kubewright.nodes.drain.volumes import NOTHING_MOVES, Moving, Trip
from kubewright.wire.errors import ApiError, TooManyRequests

BUDGET = "DisruptionBudget"
"""The cause in a 429 that comes from a budget; a 429 without it means that the server is busy."""

SEVERAL = "more than one PodDisruptionBudget"
"""In the message of kube-apiserver about a pod that more than one budget selects."""

ITEMS_IN_MESSAGE = 3
"""Most pod names in the message of one obstacle, and most obstacles in one message; the rest is counted."""


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Why a pod stays.

    ``why``    a clause for messages
    ``firm``   waiting will not help
    ``topic``  names the obstacle without its counts, so that one event is sent for it
    ``when``   upstream's word: budgets refuse "while evicting", other errors come "when evicting" a pod
    """

    why: str
    firm: bool = False
    topic: str = ""
    when: str = "while"


@dataclass(frozen=True, slots=True)
class Held:
    """Pods that stay for the same reason."""

    obstacle: Obstacle
    pods: tuple[str, ...]

    def __str__(self) -> str:
        more = f" and {len(self.pods) - ITEMS_IN_MESSAGE} more" if len(self.pods) > ITEMS_IN_MESSAGE else ""
        told = ", ".join(f'"{name}"' for name in self.pods[:ITEMS_IN_MESSAGE]) + more
        return f"error {self.obstacle.when} evicting pod {told}: {self.obstacle.why}"


def explain(pod: Pod, error: KubewrightError, budgets: Sequence[PodDisruptionBudget]) -> Obstacle:
    """The obstacle behind a refusal.

    Args:
        pod: the pod that was to be evicted.
        error: the error of its eviction.
        budgets: those that select the pod (``budgets``); none when they could not be read.
    """
    if refused_by_several(error) and len(budgets) > 1:
        return _several(budgets)
    if isinstance(error, TooManyRequests):
        said = [str(cause.get("message", "")) for cause in error.causes if cause.get("reason") == BUDGET]
        if said and len(budgets) == 1:
            return _of_budget(budgets[0])
        return Obstacle(" ".join([error.message, *said]).removesuffix("."), topic="budget" if said else "")
    firm = isinstance(error, ApiError) and error.code not in (404, 409, 502, 503, 504)
    why = f"{str(error).removesuffix('.')} scheduled on node {pod.spec.node_name}"
    return Obstacle(why, firm, topic=f"{pod.namespace}/{pod.name}" if firm else "", when="when")


def refused_by_several(error: KubewrightError) -> bool:
    """Whether more than one budget selects the pod: of the errors with code 500 only the words tell."""
    return isinstance(error, ApiError) and error.code == 500 and SEVERAL in error.message


def group(pods: Iterable[tuple[Pod, Obstacle]]) -> tuple[Held, ...]:
    """Pods by their obstacle: firm obstacles first, then in alphabetical order."""
    found: dict[Obstacle, list[str]] = {}
    for pod, obstacle in pods:
        found.setdefault(obstacle, []).append(f"{pod.namespace}/{pod.name}")
    ordered = sorted(found, key=lambda each: (not each.firm, each.why))
    return tuple(Held(each, tuple(sorted(found[each]))) for each in ordered)


def first_clauses(clauses: Sequence[str]) -> str:
    """The first ``ITEMS_IN_MESSAGE`` clauses as one, and how many more there are."""
    more = [f"and {len(clauses) - ITEMS_IN_MESSAGE} more"] if len(clauses) > ITEMS_IN_MESSAGE else []
    return "; ".join([*clauses[:ITEMS_IN_MESSAGE], *more])


def never_yields(budget: PodDisruptionBudget) -> bool:
    """Whether a budget allows no disruption even while all of its pods are healthy.

    While the status is old, or an eviction is not yet counted, only the spec can say so.
    """
    spec, status = budget.spec, budget.status
    if spec.max_unavailable in (0, "0", "0%") or spec.min_available == "100%":
        return True
    current = status.observed_generation >= budget.metadata.generation and not status.disrupted_pods
    counted = status.expected_pods > 0 and status.current_healthy >= status.expected_pods
    return current and counted and status.disruptions_allowed == 0


def counts_none(budget: PodDisruptionBudget) -> bool:
    """Whether a budget has counted none of its pods: Kubernetes does so with pods without a controller where
    the budget is a percentage or maxUnavailable, and then allows no disruption."""
    current = 0 < budget.status.observed_generation >= budget.metadata.generation
    relative = budget.spec.max_unavailable is not None or isinstance(budget.spec.min_available, str)
    return current and relative and budget.status.expected_pods == 0


def _of_budget(budget: PodDisruptionBudget) -> Obstacle:
    name, status = f"{budget.namespace}/{budget.name}", budget.status
    who = f"pod disruption budget {name}"
    if never_yields(budget):
        why = f"{who} is misconfigured and requires zero voluntary evictions"
        return Obstacle(why, firm=True, topic=f"{name} never yields")
    if counts_none(budget):
        why = f"{who} is misconfigured: no controller manages its pods, so it needs minAvailable as a number"
        return Obstacle(why, firm=True, topic=f"{name} counts no pod")
    if status.observed_generation < budget.metadata.generation:
        return Obstacle(f"{who} is still being processed by the server", topic=name)
    if (missing := status.desired_healthy + 1 - status.current_healthy) <= 0:
        return Obstacle(f"{who} allowed no eviction when it was asked", topic=name)
    counts = f"of its pods {status.desired_healthy} must stay healthy and {status.current_healthy} are"
    return Obstacle(
        f"{who} allows no eviction now: {counts}, so {missing} more must become healthy", topic=name
    )


def _several(budgets: Sequence[PodDisruptionBudget]) -> Obstacle:
    told = ", ".join(sorted(f"{each.namespace}/{each.name}" for each in budgets))
    why = f"more than one pod disruption budget selects it ({told}), which no eviction can satisfy"
    why += ": delete or narrow all but one"
    return Obstacle(why, firm=True, topic=told)


@dataclass(frozen=True, slots=True)
class Try:
    """What came of the requests about one pod so far; none of them succeeded.

    ``failed``   how many: refused evictions, and all requests that ended with another error
    ``last``     when the last of them ended
    ``forced``   how many of them were deletions of a forced drain
    ``refused``  such a deletion was refused by a rule (RBAC, a webhook), and would be refused again
    ``first``    when the first of them ended, and ``why`` the pod stays: only for messages
    """

    failed: int
    last: datetime
    forced: int = 0
    refused: bool = False
    first: datetime | None = field(default=None, compare=False)
    why: Obstacle | None = field(default=None, compare=False)


Tries = Mapping[str, Try]
"""By pod uid."""


@dataclass(frozen=True, slots=True)
class Requests:
    """The requests of one node that are under way; ``forced``: they delete pods with no grace."""

    uids: frozenset[str] = frozenset()
    forced: bool = False

    def __bool__(self) -> bool:
        return bool(self.uids)

    def yields_to(self, *, forced: bool) -> bool:
        """Whether other requests take the place of these: force does not wait for evictions."""
        return not self or (forced and not self.forced)


NO_REQUESTS = Requests()


def uids(pods: Iterable[Pod]) -> frozenset[str]:
    """The uids of some pods."""
    return frozenset(pod.metadata.uid for pod in pods)


@dataclass(frozen=True, slots=True)
class DrainPlan:
    """What to do now, and when to look again at the latest.

    ``evict``    pods to evict
    ``delete``   pods to delete with no grace
    ``waiting``  pods that are asked just now or being deleted, wait for their next attempt or their turn, or
                 end by themselves
    ``done``     no pod is left that the drain waits for
    ``forced``   all pods are deleted, none is evicted
    ``more``     further pods are to be asked than one pass touches, when the requests of this one have ended
    ``wake``     when to look again, if nothing else gives reason to before
    ``because``  the state in a clause for messages
    ``held``     pods whose eviction was refused, by obstacle
    ``overdue``  pods that are being deleted, and whose grace period is over
    ``moving``   volumes that no pod of the node uses any more, while they are awaited or late
    ``force_at`` when the first pod is deleted by force; None while no pod is refused or overdue
    ``known``    uids of all pods that the pass saw, also of those that it asks nothing: their tries are kept
    """

    evict: tuple[Pod, ...] = ()
    delete: tuple[Pod, ...] = ()
    waiting: tuple[Pod, ...] = ()
    done: bool = False
    forced: bool = False
    more: bool = False
    wake: timedelta = timedelta()
    because: str = ""
    held: tuple[Held, ...] = ()
    overdue: tuple[Pod, ...] = ()
    moving: Moving = NOTHING_MOVES
    force_at: datetime | None = None
    known: frozenset[str] = field(default=frozenset(), compare=False)

    @property
    def failures(self) -> list[str]:
        """What waiting does not end, a clause each: firm obstacles, overdue pods, volumes that are late."""
        firm = [str(held) for held in self.held if held.obstacle.firm]
        return [*firm, *map(_timeout, self.overdue), *map(_attached, self.moving.late)]

    @property
    def failed(self) -> bool:
        """Whether waiting alone will not end it: upstream's drain fails then."""
        return bool(self.failures)

    @property
    def obstacles(self) -> str:
        """The failures and then all other obstacles in one clause; empty if there are none."""
        soft = [str(held) for held in self.held if not held.obstacle.firm]
        return first_clauses([*self.failures, *soft])

    @property
    def topics(self) -> frozenset[str]:
        """The obstacles without their counts: an event is sent only for a new one."""
        late = [f"{_full(pod)} is overdue" for pod in self.overdue]
        late += [f"{trip.volume} is attached" for trip in self.moving.late]
        return frozenset(
            (*late, *(held.obstacle.topic for held in self.held if held.obstacle.topic)),
        )

    @property
    def leaving(self) -> int:
        """How many pods are being deleted, and not overdue."""
        return sum(pod.metadata.deleting for pod in self.waiting) - len(self.overdue)


def _timeout(pod: Pod) -> str:
    """Upstream's words for a pod that does not end."""
    where = f"scheduled on node {pod.spec.node_name}"
    return f'timeout expired while waiting for pod "{_full(pod)}" terminating {where}'


def _attached(trip: Trip) -> str:
    """Upstream's words for a volume that is not detached in its time."""
    return f"timeout while waiting for PVs to detach from node: {trip}"


def _full(pod: Pod) -> str:
    return f"{pod.namespace}/{pod.name}"
