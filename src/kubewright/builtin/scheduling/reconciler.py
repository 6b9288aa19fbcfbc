"""Keeps the facts about nodes and their Pods, binds Pods, and writes conditions and events.

Theory.      One worker binds one Pod after the other: a binding counts from the moment when it is sent, so
             the next Pod sees what is left, and two Pods never get the same last place. A Pod for which no
             node fits gets a condition and an event, and is tried again when a node changes or a Pod is
             deleted. The queue hands out Pods by time. One of a higher priority that waits for its turn goes
             first: it has the pass, and the Pod whose turn it was lines up again. If Pods of lower priorities
             can make room, the node is promised to the Pod in its status, so that none of the same or a lower
             priority takes the room; then its victims are deleted, with their grace. When they are gone the
             Pod is tried again like any other.
             Who is where, to whom what was promised, and whose turn it is, are values in memory.
             ``Rooms`` adds up what the Pods of a node request, and keeps which priorities they have, so that
             one look tells whether a Pod could have victims at all. ``Line`` keeps the Pods without a node by
             priority: the queue of the controller has them by time, which is the order among equals.
Frugal.      At rest nothing is asked, and a heartbeat wakes nothing. A Pod costs one request. Where all Pods
             have one priority, victims are not looked for, and no Pod is read for it.
Invariants.  Only Pods of ``default-scheduler`` without gates are bound. A Pod is bound to known nodes only.
             After a refused binding the decision is made anew: the server decides. No victim is deleted
             before the promise is written, so whatever ends this process, the next one goes on with it.
             A Pod is on one node at most; one that is on a node has no promise. What is kept is a part of
             what the informer of Pods shows, and of bindings under way.
Source       kube-scheduler: condition, reasons, events.
Called by    ``controllers`` of ``builtin``. Continues in ``decide``.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec

from kubewright.api.conditions import condition_of
from kubewright.api.core import NODE, PDB, POD, Node, Pod, PodDisruptionBudget
from kubewright.base import delays
from kubewright.base.clock import parse_rfc3339, rfc3339
from kubewright.builtin.scheduling.decide import (
    Around,
    Budget,
    NodeInfo,
    Nominee,
    PendingPod,
    Placement,
    Refused,
    Relief,
    Relieve,
    Resident,
    no_victims,
    place,
    relieve,
)
from kubewright.builtin.scheduling.facts import (
    DISRUPTED,
    FINISHED,
    PREEMPTED,
    SCHEDULER,
    Amounts,
    NodeFacts,
    PodSlice,
    node_facts,
    read_pod,
    requests_of,
)
from kubewright.kube.informer import Change, Informer, Informers
from kubewright.kube.patches import with_uid
from kubewright.nodes.drain.budgets import selector_of
from kubewright.runtime.controller import Controller
from kubewright.runtime.events import EventRecorder, Recorder
from kubewright.runtime.result import Result
from kubewright.wire.errors import Conflict, NotFound
from kubewright.wire.gvk import Key
from kubewright.wire.http import STRATEGIC_PATCH


@dataclass(frozen=True, slots=True)
class _Placed:
    """A Pod on a node, bound or about to be."""

    uid: str
    node: str
    requests: Amounts
    priority: int


class Rooms:
    """What is used and promised of each node."""

    def __init__(self) -> None:
        self._placed: dict[Key, _Placed] = {}
        self._on: dict[str, dict[Key, int]] = {}
        """The Pods of each node, with their priorities."""
        self._used: dict[str, dict[str, float]] = {}
        self._priorities: Counter[int] = Counter()
        self._promised: dict[Key, str] = {}
        self._nominees: dict[str, dict[Key, Nominee]] = {}

    def has(self, key: Key) -> str:
        """The uid of a Pod that is on a node; empty for any other."""
        placed = self._placed.get(key)
        return placed.uid if placed is not None else ""

    def used(self, node: str) -> Amounts:
        return self._used.get(node, {})

    @property
    def lowest(self) -> int | None:
        """The lowest priority of all Pods on nodes."""
        return min(self._priorities, default=None)

    def below(self, node: str, priority: int) -> Sequence[Key]:
        """The Pods of a node that have a lower priority."""
        return [key for key, own in self._on.get(node, {}).items() if own < priority]

    def lower(self, node: str, priority: int) -> Amounts | None:
        """What the Pods of a node with a lower priority request; None where there are none."""
        found = self.below(node, priority)
        if not found:
            return None
        total: dict[str, float] = {}
        for key in found:
            for name, number in self._placed[key].requests.items():
                total[name] = total.get(name, 0.0) + number
        return total

    def nominees(self, node: str) -> Sequence[Nominee]:
        """The Pods without a node to which this one was promised."""
        found = self._nominees.get(node)
        return tuple(found.values()) if found else ()

    def put(self, key: Key, pod: PodSlice, node: str) -> None:
        """A Pod is on a node."""
        self.take(key)
        self.break_promise(key)
        requests, priority = requests_of(pod), pod.spec.priority
        self._placed[key] = _Placed(pod.metadata.uid, node, requests, priority)
        self._on.setdefault(node, {})[key] = priority
        self._priorities[priority] += 1
        used = self._used.setdefault(node, {})
        for name, number in requests.items():
            used[name] = used.get(name, 0.0) + number

    def take(self, key: Key) -> bool:
        """A Pod is on no node any more; whether it was on one."""
        if (placed := self._placed.pop(key, None)) is None:
            return False
        node, priority = placed.node, placed.priority
        self._priorities[priority] -= 1
        if not self._priorities[priority]:
            del self._priorities[priority]
        del self._on[node][key]
        if not self._on[node]:
            del self._on[node], self._used[node]
            return True
        used = self._used[node]
        for name, number in placed.requests.items():
            used[name] -= number
        return True

    def promise(self, key: Key, pod: PodSlice) -> bool:
        """Note what the status of a Pod without a node says; whether another promise ended by it."""
        node = "" if key in self._placed else pod.status.nominated_node_name
        ended = self._promised.get(key, node) != node and self.break_promise(key)
        if node:
            nominee = Nominee(key, pod.spec.priority, requests_of(pod))
            self._nominees.setdefault(node, {})[key] = nominee
            self._promised[key] = node
        return ended

    def break_promise(self, key: Key) -> bool:
        """Nothing is promised to a Pod any more; whether something was."""
        if (node := self._promised.pop(key, None)) is None:
            return False
        del self._nominees[node][key]
        if not self._nominees[node]:
            del self._nominees[node]
        return True


class Line:
    """The Pods without a node, by priority. One that asks for a pass goes before those of lower priorities,
    once: after a pass that failed it waits for its own turn, and holds up no others."""

    def __init__(self) -> None:
        self._priorities: dict[Key, int] = {}
        self._asked: set[Key] = set()
        """Those that are to have a pass."""
        self._first: dict[int, dict[Key, None]] = {}
        """Those of them that may go before others."""

    def joins(self, key: Key, priority: int, *, changed: bool) -> None:
        """A Pod needs a node. It asks for a pass if it is new here or has ``changed``."""
        known = self._priorities.get(key) == priority
        self._priorities[key] = priority
        if changed or not known:
            self._ask(key, priority)

    def leaves(self, key: Key) -> None:
        """It needs none any more."""
        self.begins(key)
        self._priorities.pop(key, None)

    def again(self) -> Iterable[Key]:
        """All of them ask for another pass."""
        for key, priority in self._priorities.items():
            self._ask(key, priority)
        return self._priorities

    def _ask(self, key: Key, priority: int) -> None:
        self._asked.add(key)
        self._first.setdefault(priority, {})[key] = None

    def asks(self, key: Key) -> bool:
        """Whether a Pod is to have a pass."""
        return key in self._asked

    def before(self, key: Key) -> Key | None:
        """The Pod of the highest priority that asks, if that is higher than this one's."""
        highest = max(self._first, default=None)
        if highest is None or highest <= self._priorities.get(key, highest):
            return None
        return next(iter(self._first[highest]))

    def begins(self, key: Key) -> bool:
        """Begin the pass that a Pod asked for; whether it did. What comes meanwhile is for the next one."""
        priority = self._priorities.get(key)
        if priority is not None and (there := self._first.get(priority)) is not None:
            there.pop(key, None)
            if not there:
                del self._first[priority]
        asked = key in self._asked
        self._asked.discard(key)
        return asked

    def failed(self, key: Key) -> None:
        """The pass is to be repeated, if the Pod still needs a node."""
        if key in self._priorities:
            self._asked.add(key)


def resident(pod: PodSlice) -> Resident:
    """A Pod on a node, as preemption sees it."""
    meta, started = pod.metadata, float("inf")
    if pod.status.start_time:
        started = parse_rfc3339(pod.status.start_time).timestamp()
    return Resident(
        Key(meta.namespace, meta.name),
        meta.uid,
        pod.spec.priority,
        requests_of(pod),
        meta.labels,
        started,
        leaves=meta.deleting,
        preempted=pod.preempted,
    )


def budget_of(found: PodDisruptionBudget) -> Budget | None:
    """A budget as preemption sees it. One that selects all Pods, or cannot be read, counts here for none of
    them, as in a kube-scheduler."""
    selector = found.spec.selector
    if selector is None or not (selector.match_labels or selector.match_expressions):
        return None
    status = found.status
    names = frozenset(status.disrupted_pods)
    return Budget(found.namespace, selector_of(found), status.disruptions_allowed, names)


class Scheduler:
    """Reconciles Pods that have no node. Subscribes to the informers of nodes and Pods."""

    def __init__(self, informers: Informers, recorder: Recorder | None = None) -> None:
        self._client = informers.client
        self._nodes: Informer[Node] = informers.get(NODE)
        self._pods: Informer[Pod] = informers.get(POD)
        self._budgets: Informer[PodDisruptionBudget] = informers.get(PDB)
        self._recorder: EventRecorder | None = recorder.of(SCHEDULER) if recorder else None
        self._facts: dict[str, NodeFacts] = {}
        self._rooms = Rooms()
        self._line = Line()
        self._wake: Controller | None = None
        self._nodes.subscribe(self._node_changed)  # calls it at once for what the cache holds
        self._pods.subscribe(self._pod_changed)

    def wire(self, controller: Controller) -> Controller:
        """Let Pods without a node, and changes that may help them, wake ``controller``."""
        self._wake = controller
        return controller.watches(self._pods, self._ours)

    def _ours(self, change: Change[Pod]) -> Iterable[Key]:
        return (change.key,) if self._line.asks(change.key) else ()

    async def reconcile(self, key: Key) -> Result:
        """Bind the Pod whose turn it is, or one that is more urgent; or write why it cannot be bound."""
        urgent = self._line.before(key)
        if urgent is not None and self._wake is not None:
            self._wake.enqueue(key, f"pod {urgent} goes first")
            await self._schedule(urgent)
            return Result.done()
        return await self._schedule(key)

    async def _schedule(self, key: Key) -> Result:
        header = self._pods.header(key)
        if not self._line.begins(key) or header is None or self._rooms.has(key):
            return Result.done()
        pod = read_pod(header.data)
        found = place(pod, self._infos(), self._relieve(pod))
        try:
            if found.node:
                await self._bind(key, pod, found.node)
            else:
                await self._report_unschedulable(key, pod, found)
                await self._make_room(key, pod, found)
        except (NotFound, Conflict):
            # It is gone, or has a node by now, which the watch will show; or the server was busy.
            self._line.failed(key)
            return Result.later(delays.SOON)
        except BaseException:
            self._line.failed(key)
            raise
        return Result.done()

    def _infos(self) -> Iterable[NodeInfo]:
        rooms = self._rooms
        return (
            NodeInfo(each, rooms.used(each.name), rooms.nominees(each.name)) for each in self._facts.values()
        )

    async def _bind(self, key: Key, pod: PodSlice, node: str) -> None:
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": key.name, "namespace": key.namespace, "uid": pod.metadata.uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        path = POD.resource.path(key.namespace, key.name, "binding")
        self._rooms.put(key, pod, node)
        try:
            await self._client.send(self._client.request("POST", path, msgspec.json.encode(body)))
        except BaseException:
            self._rooms.take(key)
            self._rooms.promise(key, pod)
            raise
        self._event(key, "Scheduled", f"Successfully assigned {key} to {node}")
        if pod.status.nominated_node_name not in ("", node):
            self._look_again(f"pod {key} left the room that was promised to it")

    async def _report_unschedulable(self, key: Key, pod: PodSlice, found: Placement) -> None:
        seen, promised = self._pods.get(key), pod.status.nominated_node_name
        known = condition_of(seen.status.conditions, "PodScheduled") if seen else None
        promises = (
            {} if found.nominated in (None, promised) else {"nominatedNodeName": found.nominated or None}
        )
        if known is not None and known.message == found.because and not promises:
            return
        verdict = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
        status = {**promises, "conditions": [self._condition(seen, **verdict, message=found.because)]}
        await self._patch(key, pod.metadata.uid, status)
        self._event(key, "FailedScheduling", found.because, warning=True)

    def _condition(self, seen: Pod | None, **members: str) -> dict[str, Any]:
        condition: dict[str, Any] = {**members, "lastTransitionTime": rfc3339(self._client.clock.now())}
        if seen is not None and seen.metadata.generation:
            condition["observedGeneration"] = seen.metadata.generation
        return condition

    async def _patch(self, key: Key, uid: str, status: dict[str, Any]) -> None:
        patch = with_uid({"status": status}, uid)
        await self._client.patch(POD, key, patch, subresource="status", content_type=STRATEGIC_PATCH)

    def _event(self, key: Key, reason: str, message: str, *, warning: bool = False) -> None:
        pod = self._pods.get(key)
        if self._recorder is not None and pod is not None:
            self._recorder.event(pod, reason, message, warning=warning)

    # ------------------------------------------------------------ preemption

    def _relieve(self, pod: PodSlice) -> Relieve:
        lowest = self._rooms.lowest
        if lowest is None or lowest >= pod.spec.priority:
            return no_victims
        return self._look_for_victims

    def _look_for_victims(self, pending: PendingPod, refused: Refused) -> Relief:
        priority, lower = pending.priority, self._rooms.lower
        pods = partial(self._lower, priority=priority)
        return relieve(
            pending, refused, Around(lambda node: lower(node, priority), pods, self._all_budgets())
        )

    def _lower(self, node: str, priority: int) -> Sequence[Resident]:
        """The Pods of a node with a lower priority; no others are read."""
        headers = (self._pods.header(key) for key in self._rooms.below(node, priority))
        return [resident(read_pod(each.data)) for each in headers if each is not None]

    def _all_budgets(self) -> Sequence[Budget]:
        found = (self._budgets.part(header.key) for header in self._budgets.headers())
        read = (budget_of(each) for each in found if each is not None)
        return [each for each in read if each is not None]

    async def _make_room(self, key: Key, pod: PodSlice, found: Placement) -> None:
        """Delete the victims, and take back what was promised to Pods of lower priorities there."""
        if not found.victims or not found.nominated:
            return
        for other in self._rooms.nominees(found.nominated):
            if other.priority < pod.spec.priority and (header := self._pods.header(other.key)) is not None:
                await self._patch(other.key, header.uid, {"nominatedNodeName": None})
        for victim in found.victims:
            if not victim.leaves:
                await self._evict(victim, pod, found.nominated)

    async def _evict(self, victim: Resident, pod: PodSlice, node: str) -> None:
        seen = self._pods.part(victim.key)
        why = f"{SCHEDULER}: preempting to accommodate a higher priority pod"
        condition = self._condition(seen, type=DISRUPTED, status="True", reason=PREEMPTED, message=why)
        try:
            await self._patch(victim.key, victim.uid, {"conditions": [condition]})
            await self._client.delete(POD, victim.key, uid=victim.uid)
        except (NotFound, Conflict):
            return  # it is gone already, and its room with it
        if self._recorder is not None and seen is not None:
            self._recorder.event(seen, "Preempted", f"Preempted by pod {pod.metadata.uid} on node {node}")

    # ------------------------------------------------------------ what is known

    def _node_changed(self, change: Change[Node]) -> None:
        node, name = change.after(), change.key.name
        before, after = self._facts.get(name), None if node is None else node_facts(node)
        if after is None:
            self._facts.pop(name, None)
        elif after != before:
            self._facts[name] = after
        if after != before:
            self._look_again(f"node {name} changed")

    def _pod_changed(self, change: Change[Pod]) -> None:
        key, rooms = change.key, self._rooms
        pod = None if change.new is None else read_pod(change.new.data)
        if (uid := rooms.has(key)) and (pod is None or pod.metadata.uid != uid):
            rooms.take(key)
        if pod is None or not pod.waits:
            self._line.leaves(key)
            released = rooms.break_promise(key) and not (pod and pod.spec.node_name)
        else:
            self._line.joins(key, pod.spec.priority, changed=_respecified(change, pod))
            released = rooms.promise(key, pod)
        finished = pod is not None and pod.status.phase in FINISHED
        if finished:
            released |= rooms.take(key)
        elif pod is not None and pod.spec.node_name:
            rooms.put(key, pod, pod.spec.node_name)
        if pod is None or released:
            self._look_again(f"pod {key} gone" if pod is None else f"pod {key} needs its room no more")

    def _look_again(self, why: str) -> None:
        if self._wake is not None:
            for key in self._line.again():
                self._wake.enqueue(key, why, after=delays.GATHER)


def _respecified(change: Change[Pod], pod: PodSlice) -> bool:
    """Whether more of a Pod has changed than its status, most of which its scheduler writes."""
    return change.old is None or read_pod(change.old.data).spec != pod.spec
