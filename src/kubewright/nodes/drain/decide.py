"""Decide what to do now about the pods of a node that is being drained. Pure.

Theory.      A drain is not a task that runs, but a decision made anew in each pass: given the pods on
             the node, which are to be evicted, which are being deleted, and is the drain done? The progress
             is in the API: an evicted pod has a deletionTimestamp, one that is gone is not listed. What
             the session remembers between passes (``Tries``) spaces out attempts and counts failures;
             losing it costs requests, and time until a pod that refuses is deleted.

             gentle     evict, with the pod's own grace period; an eviction that is refused, or fails
                        otherwise, is repeated after 20 s. After as many of them as the policy bears, or
                        as fit into its time if that is fewer, the pod is deleted with no grace
             forced     the policy says that force is due: every pod is deleted with no grace, and none is
                        awaited whose deletion the server has accepted
             timed out  the time has passed, and the policy does not force: the pods that remain stay
             Placeholders of reserved capacity are no workload. They give way to any pod, so a drain deletes
             them at once, in any turn, and awaits none whose deletion was answered, be it with a refusal.
Invariants.  Pods that the policy skips are left alone. Of the others those of the lowest order have their
             turn. Where it wants them one by one, pods with a PersistentVolumeClaim leave one after
             another, highest priority first, each when the volumes of the one before have moved
             (``volumes``); all others leave at the same time. No plan asks to be looked at again at once:
             the end of requests wakes a drain (``removals``).
Called by    ``session.DrainSession``.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import Enum
from math import ceil

from kubewright.api.capacity.v1alpha1 import PLACEHOLDER_LABEL
from kubewright.api.core import NodeCondition, Pod
from kubewright.base import delays
from kubewright.base.durations import format_duration
from kubewright.nodes.drain.plan import (
    NO_REQUESTS,
    DrainPlan,
    Requests,
    Tries,
    Try,
    first_clauses,
    group,
    uids,
)
from kubewright.nodes.drain.policy import DrainPolicy
from kubewright.nodes.drain.volumes import Moving, Trips, awaited

OVERDUE = timedelta(seconds=30)
"""How long after the end of its grace period a pod may still be there before the drain reports it."""

PODS_PER_PASS = 100
"""Of how many pods one pass asks anything."""

FORCED_TRIES = 5
"""How often a forced drain tries to delete a pod that the server fails to delete, and does not refuse to: an
API server that is overloaded or restarts recovers in less time, and a machine does not wait for ever."""


class _State(Enum):
    """What is to become of a pod now; the value says it in messages."""

    UNDER_WAY = "asked to leave just now"
    EVICT = "to evict"
    DELETE = "to delete after too many refusals"
    GIVE_WAY = "to delete as placeholders"
    LEAVING = "leaving"
    OVERDUE = "leaving later than their grace allows"
    RESTING = "refused, to be tried again"
    QUEUED = "queued behind others with volumes"
    ENDING = "to complete by themselves"
    LATER = "to leave after these"


_ASKED = (_State.UNDER_WAY, _State.LEAVING, _State.OVERDUE)
_ASKING = (_State.EVICT, _State.DELETE, _State.GIVE_WAY, *_ASKED)
_WAITING = (*_ASKED, _State.RESTING, _State.QUEUED, _State.ENDING, _State.LATER)

_States = Mapping[_State, Sequence[Pod]]


@dataclass(frozen=True, slots=True)
class _Drain:
    """What decides about each pod. ``turn``: the order of the pods that leave now.

    ``forced_from``: when all are deleted by force, as the node and its conditions are now; None: never.
    """

    policy: DrainPolicy
    now: datetime
    tries: Tries
    requests: Requests
    moving: Moving
    turn: int
    forced_from: datetime | None

    @property
    def refusals(self) -> int | None:
        """After how many refused evictions a pod is deleted; None: eviction is tried again without end."""
        most, timeout = self.policy.force.refusals, self.policy.timeout
        return most if most is None or timeout is None else min(most, timeout // delays.EVICTION)

    def state(self, pod: Pod) -> _State:
        """The state of a pod that leaves whatever the others do."""
        tried = self.tries.get(pod.metadata.uid)
        if holds_a_place(pod):
            return _State.UNDER_WAY if pod.metadata.uid in self.requests.uids else _State.GIVE_WAY
        if pod.metadata.deleting:
            return _State.OVERDUE if _ends(pod) + OVERDUE < self.now else _State.LEAVING
        if self.policy.order(pod) > self.turn:
            return _State.LATER
        if pod.metadata.uid in self.requests.uids:
            return _State.UNDER_WAY
        if self.policy.awaits(pod):
            return _State.ENDING
        if tried is not None and self.now < tried.last + delays.EVICTION:
            return _State.RESTING
        if tried is not None and self.refusals is not None and tried.failed >= self.refusals:
            return _State.DELETE
        return _State.EVICT


def plan_pass(
    pods: Iterable[Pod],
    policy: DrainPolicy,
    *,
    now: datetime,
    started: datetime,
    conditions: Sequence[NodeCondition] = (),
    tries: Tries | None = None,
    trips: Trips | None = None,
    under_way: Requests = NO_REQUESTS,
) -> DrainPlan:
    """Decide one pass.

    Args:
        pods: all pods of the node, as they are now.
        policy: what is asked of the drain.
        now: the time on the client's steady clock: it begins with the server's, whose dates pods carry, and
            does not step.
        started: when the drain began, such as the machine's deletion time.
        conditions: those of the node; they tell whether its kubelet can still end pods.
        tries: what came of earlier passes.
        trips: the volumes of the node, as far as they are looked at.
        under_way: requests of earlier passes that have not ended.
    """
    tries, moving = tries or {}, awaited(trips or {}, policy, now)
    left = [pod for pod in pods if not policy.skips(pod)]
    here = [pod for pod in left if not _gave_way(pod, tries)]
    workload = [pod for pod in here if not holds_a_place(pod)]
    deadline = None if policy.timeout is None else started + policy.timeout
    timed_out = deadline is not None and now >= deadline
    if reason := _force_reason(policy, conditions, now, timed_out=timed_out):
        return replace(_forced(here, tries, reason, under_way, now), known=uids(left))
    if timed_out and workload:
        because = f"{len(workload)} pods stay until their node goes, because {_took_longer(policy)}"
        return DrainPlan(done=True, because=because, known=uids(left))
    turn = min(map(policy.order, workload), default=0)
    forced_from = [deadline] if deadline is not None and policy.force.at_timeout else []
    forced_from += [end for _, end in _sick(policy, conditions)]
    drain = _Drain(policy, now, tries, under_way, moving, turn, min(forced_from, default=None))
    return replace(_gentle(drain, _states(here, drain), deadline), known=uids(left))


def stateful(pod: Pod) -> bool:
    """Whether a pod uses a PersistentVolumeClaim."""
    return any(volume.persistent_volume_claim is not None for volume in pod.spec.volumes)


def holds_a_place(pod: Pod) -> bool:
    """Whether it is a placeholder of reserved capacity, and no workload."""
    return PLACEHOLDER_LABEL in pod.metadata.labels


def _gave_way(pod: Pod, tries: Tries) -> bool:
    """Whether it is a placeholder whose deletion has been answered."""
    return holds_a_place(pod) and (pod.metadata.deleting or pod.metadata.uid in tries)


def _states(pods: Sequence[Pod], drain: _Drain) -> _States:
    """All pods by their states."""
    found: dict[_State, list[Pod]] = {state: [] for state in _State}
    one_by_one = [pod for pod in pods if drain.policy.one_by_one and stateful(pod)]
    others = uids(pods) - uids(one_by_one)
    for pod in pods:
        if pod.metadata.uid in others:
            found[drain.state(pod)].append(pod)
    for pod, state in _one_by_one(one_by_one, drain):
        found[state].append(pod)
    return found


def _one_by_one(pods: Sequence[Pod], drain: _Drain) -> Iterator[tuple[Pod, _State]]:
    """Of pods with claims only one leaves at a time, and after it its volumes; a refused one lets the next
    leave first."""
    busy = bool(drain.moving) or any(drain.state(pod) in _ASKED for pod in pods)
    for pod in sorted(pods, key=lambda pod: (-pod.spec.priority, pod.namespace, pod.name)):
        state = drain.state(pod)
        if busy and state is not _State.LATER and state not in _ASKED:
            state = _State.QUEUED
        busy = busy or state in (_State.EVICT, _State.DELETE)
        yield pod, state


def _gentle(drain: _Drain, states: _States, deadline: datetime | None) -> DrainPlan:
    """The plan where nothing forces the whole drain."""
    deletable = [*states[_State.DELETE], *states[_State.GIVE_WAY]]
    delete = deletable[:PODS_PER_PASS]
    evict = states[_State.EVICT][: PODS_PER_PASS - len(delete)]
    waiting = tuple(pod for state in _WAITING for pod in states[state])
    overdue = tuple(states[_State.OVERDUE])
    refused = [
        (pod, tried.why)
        for state in (_State.EVICT, _State.UNDER_WAY, _State.RESTING)
        for pod in states[state]
        if (tried := drain.tries.get(pod.metadata.uid)) is not None and tried.why is not None
    ]
    return DrainPlan(
        evict=tuple(evict),
        delete=tuple(delete),
        waiting=waiting,
        done=not (evict or delete or waiting),
        more=len(deletable) + len(states[_State.EVICT]) > PODS_PER_PASS,
        wake=min(_wakes(drain, states, deadline), default=timedelta()),
        because=_because(states, drain.moving),
        held=group(refused),
        overdue=overdue,
        moving=drain.moving,
        force_at=_force_at(drain, [pod for pod, _ in refused]) if refused or overdue else None,
    )


def _wakes(drain: _Drain, states: _States, deadline: datetime | None) -> Iterator[timedelta]:
    """When to look again, for each reason to."""
    policy, now = drain.policy, drain.now
    if deadline is not None:
        yield deadline - now
    for pod in states[_State.RESTING]:
        yield drain.tries[pod.metadata.uid].last + delays.EVICTION - now
    if any(states[state] for state in _ASKING) or drain.moving:
        yield policy.poll
    if states[_State.ENDING]:
        yield delays.EVICTION
    if drain.moving and drain.moving.until is not None:
        yield drain.moving.until - now


def _force_at(drain: _Drain, refused: Iterable[Pod]) -> datetime | None:
    """When the first of these pods is deleted by force; None: not as long as nothing changes."""
    ends = [drain.forced_from] if drain.forced_from is not None else []
    tried = (drain.tries[pod.metadata.uid] for pod in refused)
    if drain.refusals is not None:
        ends += [_deleted_from(each, each.first, drain.refusals, drain.now) for each in tried if each.first]
    return min(ends, default=None)


def _deleted_from(tried: Try, first: datetime, most: int, now: datetime) -> datetime:
    """When a pod has been refused so often that it is deleted, if each further try is refused at once.

    What earlier tries took beyond their pause is rounded up to whole pauses, but for a second, so that a
    status that tells the time stays the same for many tries.
    """
    as_planned = first + most * delays.EVICTION
    at_least = max(tried.last + delays.EVICTION, now) + max(0, most - tried.failed) * delays.EVICTION
    late = ceil((at_least - as_planned - timedelta(seconds=1)) / delays.EVICTION)
    return as_planned + max(0, late) * delays.EVICTION


def _forced(pods: Sequence[Pod], tries: Tries, reason: str, requests: Requests, now: datetime) -> DrainPlan:
    """Delete every pod. One whose deletion the server accepted is not waited for, nor one whose deletion is
    given up; evictions that are under way are not waited for either."""
    remaining = [pod for pod in pods if not _deletion_accepted(pod)]
    given_up = uids(pod for pod in remaining if _given_up(pod, tries))
    remaining = [pod for pod in remaining if pod.metadata.uid not in given_up]
    busy = requests.uids if requests.forced else frozenset[str]()
    waiting = tuple(pod for pod in remaining if pod.metadata.uid in busy or _pauses(pod, tries, now))
    waits = uids(waiting)
    delete = tuple(pod for pod in remaining if pod.metadata.uid not in waits)
    count = f"{len(remaining)} pods are removed" if remaining else "no pod is waited for"
    stay = f"; {len(given_up)} pods stay, since the server does not delete them" if given_up else ""
    return DrainPlan(
        delete=delete[:PODS_PER_PASS],
        waiting=waiting,
        done=not remaining,
        forced=True,
        more=len(delete) > PODS_PER_PASS,
        wake=delays.SOON if remaining else timedelta(),
        because=f"{count}, because {reason}{stay}",
    )


def _deletion_accepted(pod: Pod) -> bool:
    return pod.metadata.deleting and pod.metadata.deletion_grace_period_seconds == 0


def _given_up(pod: Pod, tries: Tries) -> bool:
    """The server refuses to delete it, or has failed to for too long."""
    tried = tries.get(pod.metadata.uid)
    return tried is not None and (tried.refused or tried.forced >= FORCED_TRIES)


def _pauses(pod: Pod, tries: Tries, now: datetime) -> bool:
    """Its deletion failed a moment ago, and is tried again."""
    tried = tries.get(pod.metadata.uid)
    return tried is not None and tried.forced > 0 and now < tried.last + delays.POLL


def _force_reason(
    policy: DrainPolicy, conditions: Iterable[NodeCondition], now: datetime, *, timed_out: bool
) -> str:
    """Why all pods are deleted with no grace now; empty: they are not."""
    if policy.force.requested:
        return "a user asked to force it"
    if timed_out and policy.force.at_timeout:
        return _took_longer(policy)
    long = format_duration(policy.force.sick_after)
    return next((f"{why} for more than {long}" for why, end in _sick(policy, conditions) if now > end), "")


def _sick(policy: DrainPolicy, conditions: Iterable[NodeCondition]) -> Iterator[tuple[str, datetime]]:
    """The conditions with which the node's kubelet can end no pods, and when each leads to force."""
    found = {item.type: item for item in conditions}
    for kind, good in policy.force.healthy.items():
        item = found.get(kind)
        if item is not None and item.status != good and item.last_transition_time is not None:
            end = item.last_transition_time + policy.force.sick_after
            yield f"{kind} of the node has been {item.status}", end


def _took_longer(policy: DrainPolicy) -> str:
    return f"the drain took longer than {format_duration(policy.timeout or timedelta())}"


def _because(states: _States, moving: Moving) -> str:
    """The state of the drain in a clause."""
    told = ", ".join(f"{len(states[state])} {state.value}" for state in _State if states[state])
    volumes = first_clauses(moving.clauses)
    return "; ".join(part for part in (f"pods: {told}" if told else "no pods are left", volumes) if part)


def _ends(pod: Pod) -> datetime:
    """The end of a leaving pod's grace period, which is what its deletionTimestamp says."""
    assert pod.metadata.deletion_timestamp is not None
    return pod.metadata.deletion_timestamp
