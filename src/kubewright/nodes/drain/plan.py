"""Decide what to do now about the pods of a node that is being drained.

Theory.      A drain is not a task that runs, but a decision made anew in each pass: given the pods on
             the node, which are to be evicted, which are being deleted, and is the drain over? The progress
             is in the API: an evicted pod has a deletionTimestamp, one that is gone is not listed. What
             the session remembers between passes (``Tries``) spaces out attempts and counts refusals;
             losing it costs requests, and time until a pod that refuses is deleted.

             asked   evict, with the pod's own grace period; a refused eviction is repeated after
                     20 s. After as many refusals as the policy bears, or as fit into its time if
                     that is fewer, the pod is deleted with no grace
             forced  the policy says that force is due: every pod is deleted with no grace, none is
                     awaited
             over    the time has passed, and the policy does not force: the pods that are left stay
Invariants.  Pods that the policy skips are left alone. Of the others those of the lowest order have their
             turn. Where it wants them one by one, pods with a PersistentVolumeClaim leave one after
             another, highest priority first, each when the volumes of the one before have moved
             (``volumes``); all others leave at the same time. A pod is in at most one of ``evict``,
             ``delete`` and ``waiting``.
Source       mcm.md §5.1, §5.3, §5.5 to §5.7.
Called by    ``session.DrainSession``.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from kubewright.api.core import NodeCondition, Pod
from kubewright.base import delays
from kubewright.base.durations import format_duration
from kubewright.nodes.drain.obstacles import Held, first_clauses, group
from kubewright.nodes.drain.policy import DrainPolicy
from kubewright.nodes.drain.tries import IDLE, Tries, UnderWay, uids
from kubewright.nodes.drain.volumes import NONE, Moving, Trip, Trips, awaited

OVERDUE = timedelta(seconds=30)
"""How long after the end of its grace period a pod may still be there before the drain reports it."""
BATCH = 100
"""Most pods that one pass touches."""


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
    ``known``    uids of all pods that the pass saw, those beyond ``BATCH`` too: their tries are kept
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
    moving: Moving = NONE
    force_at: datetime | None = None
    known: frozenset[str] = field(default=frozenset(), compare=False)

    @property
    def failures(self) -> list[str]:
        """What waiting does not end, a clause each: firm obstacles, overdue pods, volumes that are late."""
        firm = [str(held) for held in self.held if held.obstacle.firm]
        return [*firm, *map(_timeout, self.overdue), *map(_attached, self.moving.late)]

    @property
    def failed(self) -> bool:
        """Whether waiting alone will not end it: upstream's drain fails then (mcm.md §5.3 to §5.5)."""
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


@dataclass(slots=True)
class _Draft:
    """A plan in the making: each pod is in one list; ``resting`` has the time of its next attempt."""

    now: datetime
    tries: Tries
    refusals: int | None
    """After how many refused evictions a pod is deleted; None: eviction is tried again without end."""
    awaits: Callable[[Pod], bool] = lambda _pod: False
    moving: Moving = NONE
    under_way: UnderWay = IDLE
    asked: list[Pod] = field(default_factory=list)
    evict: list[Pod] = field(default_factory=list)
    delete: list[Pod] = field(default_factory=list)
    leaving: list[Pod] = field(default_factory=list)
    resting: list[tuple[Pod, datetime]] = field(default_factory=list)
    queued: list[Pod] = field(default_factory=list)
    ending: list[Pod] = field(default_factory=list)
    later: list[Pod] = field(default_factory=list)


def plan_pass(
    pods: Iterable[Pod],
    policy: DrainPolicy,
    *,
    now: datetime,
    started: datetime,
    conditions: Sequence[NodeCondition] = (),
    tries: Tries | None = None,
    trips: Trips | None = None,
    under_way: UnderWay = IDLE,
) -> DrainPlan:
    """Decide one pass.

    Args:
        pods: all pods of the node, as they are now.
        policy: what is asked of the drain.
        now: the time.
        started: when the drain began, such as the machine's deletion time.
        conditions: those of the node; they tell whether its kubelet can still end pods.
        tries: what came of earlier passes.
        trips: the volumes of the node, as far as they are looked at.
        under_way: requests of earlier passes that have not ended.
    """
    tries, moving = tries or {}, awaited(trips or {}, policy, now)
    here = [pod for pod in pods if not policy.skips(pod)]
    deadline = None if policy.timeout is None else started + policy.timeout
    over = deadline is not None and now >= deadline
    if reason := _force_reason(policy, conditions, now, over=over):
        return _forced(here, tries, reason, under_way)
    if over and here:
        because = f"{len(here)} pods stay, because {_took_longer(policy)}"
        return DrainPlan(done=True, because=because, known=uids(here))
    draft = _Draft(now, tries, _most_refusals(policy), policy.awaits, moving, under_way)
    turn = min(map(policy.order, here), default=0)
    due = [pod for pod in here if pod.metadata.deleting or policy.order(pod) == turn]
    draft.later += [pod for pod in here if not pod.metadata.deleting and policy.order(pod) > turn]
    for pod in due:
        if not (policy.one_by_one and stateful(pod)):
            _place(pod, draft)
    if policy.one_by_one:
        _one_by_one([pod for pod in due if stateful(pod)], draft)
    forced_from = deadline if policy.force.at_timeout else None
    return replace(_asked(draft, deadline, policy.poll), known=uids(here), **_obstacles(draft, forced_from))


def stateful(pod: Pod) -> bool:
    """Whether a pod uses a PersistentVolumeClaim."""
    return any(volume.persistent_volume_claim is not None for volume in pod.spec.volumes)


def _most_refusals(policy: DrainPolicy) -> int | None:
    most = policy.force.refusals
    return most if most is None or policy.timeout is None else min(most, policy.timeout // delays.EVICTION)


def _place(pod: Pod, draft: _Draft) -> None:
    """Put a pod into its list, whatever the others do."""
    tried = draft.tries.get(pod.metadata.uid)
    if pod.metadata.deleting:
        draft.leaving.append(pod)
    elif pod.metadata.uid in draft.under_way.uids:
        draft.asked.append(pod)
    elif draft.awaits(pod):
        draft.ending.append(pod)
    elif tried is not None and draft.now < tried.last + delays.EVICTION:
        draft.resting.append((pod, tried.last + delays.EVICTION))
    elif tried is not None and draft.refusals is not None and tried.refused >= draft.refusals:
        draft.delete.append(pod)
    else:
        draft.evict.append(pod)


def _one_by_one(pods: Sequence[Pod], draft: _Draft) -> None:
    """Of pods with claims only one leaves at a time, and after it its volumes; a refused one lets the next
    leave first."""
    asked = draft.under_way.uids
    busy = bool(draft.moving) or any(pod.metadata.deleting or pod.metadata.uid in asked for pod in pods)
    for pod in sorted(pods, key=lambda pod: (-pod.spec.priority, pod.namespace, pod.name)):
        before = len(draft.evict) + len(draft.delete)
        if busy and not (pod.metadata.deleting or pod.metadata.uid in asked):
            draft.queued.append(pod)
            continue
        _place(pod, draft)
        busy = busy or len(draft.evict) + len(draft.delete) > before


def _asked(draft: _Draft, deadline: datetime | None, poll: timedelta) -> DrainPlan:
    delete = draft.delete[:BATCH]
    evict = draft.evict[: BATCH - len(delete)]
    resting = (pod for pod, _ in draft.resting)
    waiting = (*draft.asked, *draft.leaving, *resting, *draft.queued, *draft.ending, *draft.later)
    untils = [*([deadline] if deadline is not None else []), *(until for _, until in draft.resting)]
    wakes = [until - draft.now for until in untils]
    if evict or delete or draft.leaving or draft.asked:
        wakes.append(poll)
    if draft.ending:
        wakes.append(delays.EVICTION)
    if draft.moving:
        wakes += [poll] if (until := draft.moving.until) is None else [poll, until - draft.now]
    return DrainPlan(
        evict=tuple(evict),
        delete=tuple(delete),
        waiting=waiting,
        done=not (evict or delete or waiting),
        more=len(draft.delete) + len(draft.evict) > BATCH,
        wake=max(min(wakes, default=timedelta()), timedelta()),
        because=_because(draft),
        moving=draft.moving,
    )


def _obstacles(draft: _Draft, forced_from: datetime | None) -> dict[str, Any]:
    """The fields of the plan about pods that stay: refused, overdue, and when force begins."""
    asked = (*draft.evict, *draft.asked, *(pod for pod, _ in draft.resting))
    tried = ((pod, draft.tries.get(pod.metadata.uid)) for pod in asked)
    refused = [
        (pod, found.why, found.first) for pod, found in tried if found is not None and found.why is not None
    ]
    ends = [forced_from] if forced_from is not None else []
    if (most := draft.refusals) is not None:
        ends += [first + most * delays.EVICTION for _, _, first in refused if first is not None]
    overdue = tuple(pod for pod in draft.leaving if _ends(pod) + OVERDUE < draft.now)
    return {
        "held": group((pod, why) for pod, why, _ in refused),
        "overdue": overdue,
        "force_at": min(ends, default=None) if refused or overdue else None,
    }


def _forced(pods: Sequence[Pod], tries: Tries, reason: str, under_way: UnderWay) -> DrainPlan:
    """Delete every pod. One whose deletion the server accepted, or refused once, is not waited for; evictions
    that are under way are not waited for either."""
    left = [pod for pod in pods if not _removed(pod) and not _given_up(pod, tries)]
    asked = under_way.uids if under_way.forced else frozenset[str]()
    delete = tuple(pod for pod in left if pod.metadata.uid not in asked)
    count = f"{len(left)} pods are removed" if left else "no pod is waited for"
    because = f"{count}, because {reason}"
    return DrainPlan(
        delete=delete[:BATCH],
        waiting=tuple(pod for pod in left if pod.metadata.uid in asked),
        done=not left,
        forced=True,
        more=len(delete) > BATCH,
        wake=delays.SOON if left else timedelta(),
        because=because,
        known=uids(pods),
    )


def _timeout(pod: Pod) -> str:
    """Upstream's words for a pod that does not end (mcm.md §5.3)."""
    where = f"scheduled on node {pod.spec.node_name}"
    return f'timeout expired while waiting for pod "{_full(pod)}" terminating {where}'


def _attached(trip: Trip) -> str:
    """Upstream's words for a volume that is not detached in its time (mcm.md §5.5)."""
    return f"timeout while waiting for PVs to detach from node: {trip}"


def _full(pod: Pod) -> str:
    return f"{pod.namespace}/{pod.name}"


def _removed(pod: Pod) -> bool:
    return pod.metadata.deleting and pod.metadata.deletion_grace_period_seconds == 0


def _given_up(pod: Pod, tries: Tries) -> bool:
    tried = tries.get(pod.metadata.uid)
    return tried is not None and tried.forced


def _force_reason(
    policy: DrainPolicy, conditions: Iterable[NodeCondition], now: datetime, *, over: bool
) -> str:
    """Why all pods are deleted with no grace now; empty: they are not."""
    force, found = policy.force, {item.type: item for item in conditions}
    if force.requested:
        return "a user asked to force it"
    if over and force.at_timeout:
        return _took_longer(policy)
    for kind, good in force.healthy.items():
        item = found.get(kind)
        since = item.last_transition_time if item is not None and item.status != good else None
        if item is not None and since is not None and now - since > force.sick_after:
            return (
                f"{kind} of the node has been {item.status} for more than {format_duration(force.sick_after)}"
            )
    return ""


def _took_longer(policy: DrainPolicy) -> str:
    return f"the drain took longer than {format_duration(policy.timeout or timedelta())}"


def _because(draft: _Draft) -> str:
    late = sum(1 for pod in draft.leaving if _ends(pod) + OVERDUE < draft.now)
    counts = (
        (len(draft.asked), "asked to leave just now"),
        (len(draft.evict), "to evict"),
        (len(draft.delete), "to delete after too many refusals"),
        (len(draft.leaving) - late, "leaving"),
        (late, "leaving later than their grace allows"),
        (len(draft.resting), "refused, to be tried again"),
        (len(draft.queued), "queued behind others with volumes"),
        (len(draft.ending), "to complete by themselves"),
        (len(draft.later), "to leave after these"),
    )
    told = ", ".join(f"{count} {what}" for count, what in counts if count)
    volumes = first_clauses(draft.moving.clauses)
    return "; ".join(part for part in (f"pods: {told}" if told else "no pods are left", volumes) if part)


def _ends(pod: Pod) -> datetime:
    """The end of a leaving pod's grace period, which is what its deletionTimestamp says."""
    assert pod.metadata.deletion_timestamp is not None
    return pod.metadata.deletion_timestamp
