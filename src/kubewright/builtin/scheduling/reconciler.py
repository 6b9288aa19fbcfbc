"""Keeps the facts about nodes and their Pods, binds Pods, and writes conditions and events.

Theory.      One worker binds one Pod after the other: a binding counts from the moment when it is sent, so
             the next Pod sees what is left, and two Pods never get the same last place. A
             Pod for which no node fits gets a condition and an event, and is tried
             again when a node changes or a Pod is deleted.
Invariants.  Only Pods of ``default-scheduler`` without gates are bound. A Pod is bound to known
             nodes only. After a refused binding the decision is made anew: the server decides.
Frugal.      At rest nothing is asked, and a heartbeat wakes nothing. A Pod costs one request.
Called by    ``controllers`` of ``builtin``.
Source       kube-scheduler: condition, reasons, events.
"""

from collections.abc import Iterable
from typing import Any

import msgspec

from kubewright.api.conditions import condition_of
from kubewright.api.core import POD, Node, Pod
from kubewright.base import delays
from kubewright.base.clock import rfc3339
from kubewright.builtin.scheduling.decide import NodeInfo, Placement, place
from kubewright.builtin.scheduling.facts import (
    FINISHED,
    SCHEDULER,
    Amounts,
    NodeFacts,
    node_facts,
    read_pod,
    requests_of,
)
from kubewright.kube.client import Client
from kubewright.kube.informer import Change, Informer
from kubewright.kube.patches import with_uid
from kubewright.runtime.controller import Controller
from kubewright.runtime.events import EventRecorder, Recorder
from kubewright.runtime.result import Result
from kubewright.wire.errors import Conflict, NotFound
from kubewright.wire.gvk import Key
from kubewright.wire.http import STRATEGIC_PATCH


class Scheduler:
    """Reconciles Pods that have no node. Subscribes to both informers."""

    def __init__(
        self,
        client: Client,
        nodes: Informer[Node],
        pods: Informer[Pod],
        recorder: Recorder | None = None,
    ) -> None:
        self._client = client
        self._nodes = nodes
        self._pods = pods
        self._recorder: EventRecorder | None = recorder.of(SCHEDULER) if recorder else None
        self._facts: dict[str, NodeFacts] = {}
        self._used: dict[str, dict[str, float]] = {}
        self._placed: dict[Key, tuple[str, str, Amounts]] = {}
        """Pods on nodes, bound or about to be: uid, node, and what they ask for."""
        self._waiting: dict[Key, None] = {}
        self._wake: Controller | None = None
        nodes.subscribe(self._node_changed)  # calls it at once for what the cache holds
        pods.subscribe(self._pod_changed)

    def wire(self, controller: Controller) -> Controller:
        """Let Pods without a node, and changes that may help them, wake ``controller``."""
        self._wake = controller
        return controller.watches(self._pods, self._ours)

    def _ours(self, change: Change[Pod]) -> Iterable[Key]:
        return (change.key,) if change.key in self._waiting else ()

    async def reconcile(self, key: Key) -> Result:
        """Bind one Pod, or write why it cannot be bound."""
        header = self._pods.header(key)
        if header is None or key not in self._waiting or key in self._placed:
            return Result.done()
        pod = read_pod(header.data)
        found = place(pod, (NodeInfo(each, self._used.get(each.name, {})) for each in self._facts.values()))
        try:
            if found.node:
                await self._bind(key, pod.metadata.uid, found.node, requests_of(pod))
            else:
                await self._report_unschedulable(key, pod.metadata.uid, found)
        except (NotFound, Conflict):
            # It is gone, or has a node by now, which the watch will show; or the server was busy.
            return Result.later(delays.SOON)
        return Result.done()

    async def _bind(self, key: Key, uid: str, node: str, amounts: Amounts) -> None:
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": key.name, "namespace": key.namespace, "uid": uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        path = POD.resource.path(key.namespace, key.name, "binding")
        self._put(key, uid, node, amounts)
        try:
            await self._client.send(self._client.request("POST", path, msgspec.json.encode(body)))
        except BaseException:
            self._take(key)
            raise
        self._event(key, "Scheduled", f"Successfully assigned {key} to {node}")

    async def _report_unschedulable(self, key: Key, uid: str, found: Placement) -> None:
        pod = self._pods.get(key)
        known = condition_of(pod.status.conditions, "PodScheduled") if pod else None
        if known is not None and known.message == found.because:
            return
        now = rfc3339(self._client.clock.now())
        verdict = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
        condition: dict[str, Any] = {**verdict, "message": found.because, "lastTransitionTime": now}
        if pod is not None and pod.metadata.generation:
            condition["observedGeneration"] = pod.metadata.generation
        patch = with_uid({"status": {"conditions": [condition]}}, uid)
        await self._client.patch(POD, key, patch, subresource="status", content_type=STRATEGIC_PATCH)
        self._event(key, "FailedScheduling", found.because, warning=True)

    def _event(self, key: Key, reason: str, message: str, *, warning: bool = False) -> None:
        pod = self._pods.get(key)
        if self._recorder is not None and pod is not None:
            self._recorder.event(pod, reason, message, warning=warning)

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
        key = change.key
        pod = None if change.new is None else read_pod(change.new.data)
        placed = self._placed.get(key)
        if placed is not None and (pod is None or pod.metadata.uid != placed[0]):
            self._take(key)
        if pod is None or not pod.waits:
            self._waiting.pop(key, None)
        else:
            self._waiting[key] = None
        if pod is None:
            self._look_again(f"pod {key} gone")
        elif pod.status.phase in FINISHED:
            self._take(key)
        elif pod.spec.node_name:
            self._put(key, pod.metadata.uid, pod.spec.node_name, requests_of(pod))

    def _put(self, key: Key, uid: str, node: str, amounts: Amounts) -> None:
        self._take(key)
        self._placed[key] = (uid, node, amounts)
        used = self._used.setdefault(node, {})
        for name, number in amounts.items():
            used[name] = used.get(name, 0.0) + number

    def _take(self, key: Key) -> None:
        if (placed := self._placed.pop(key, None)) is None:
            return
        _, node, amounts = placed
        used = self._used[node]
        for name, number in amounts.items():
            used[name] -= number
        if used.get("pods", 0.0) <= 0:
            del self._used[node]

    def _look_again(self, why: str) -> None:
        if self._wake is not None:
            for key in self._waiting:
                self._wake.enqueue(key, why, after=delays.GATHER)
