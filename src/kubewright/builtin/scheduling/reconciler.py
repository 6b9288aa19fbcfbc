"""Keeps what is known of nodes and their Pods, binds Pods, and says what happened.

Theory.      One worker places one Pod after the other, each on the world that the last one left: a binding
             counts from the moment when it is sent, so that two Pods never get the same last place. A
             Pod for which no node fits says so in its condition and in an event, and is looked at
             again when a node changes or a Pod goes.
Invariants.  Only Pods of ``default-scheduler`` without gates are bound. A node that is not known is not bound
             to. A refused binding is looked at again from the start: the server decides.
Frugal.      At rest nothing is asked, and a heartbeat wakes nothing. A Pod costs one request.
Called by    ``controllers`` of ``builtin``.
Source       kube-scheduler: condition, reasons, events.
"""

from collections.abc import Iterable
from typing import Any

import msgspec

from kubewright.api.core import POD, Node, Pod
from kubewright.base.clock import rfc3339
from kubewright.builtin.scheduling.decide import Place, Seat, place
from kubewright.builtin.scheduling.facts import FINISHED, SCHEDULER, Amounts, Host, asked, host_of, read_pod
from kubewright.kube.client import Client
from kubewright.kube.informer import Change, Informer
from kubewright.runtime.controller import Controller
from kubewright.runtime.events import EventRecorder, Recorder
from kubewright.runtime.result import Result
from kubewright.wire.errors import Conflict, NotFound
from kubewright.wire.gvk import Key
from kubewright.wire.http import STRATEGIC_PATCH

GATHER_SECONDS = 0.1
"""How long a change that may help waiting Pods waits for more: a drain lets a hundred go at once."""

AGAIN_SECONDS = 1.0
"""When a Pod whose binding met a conflict is looked at again."""


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
        self._hosts: dict[str, Host] = {}
        self._used: dict[str, dict[str, float]] = {}
        self._placed: dict[Key, tuple[str, str, Amounts]] = {}
        """Pods on nodes, bound or about to be: uid, node, and what they ask for."""
        self._waiting: dict[Key, None] = {}
        self._wake: Controller | None = None
        nodes.subscribe(self._node_changed)  # tells of what a full cache has at once
        pods.subscribe(self._pod_changed)

    def wire(self, controller: Controller) -> Controller:
        """Let Pods without a node, and changes that may help them, wake ``controller``."""
        self._wake = controller
        return controller.watches(self._pods, self._ours)

    def _ours(self, change: Change[Pod]) -> Iterable[Key]:
        return (change.key,) if change.key in self._waiting else ()

    async def reconcile(self, key: Key) -> Result:
        """Bind one Pod, or say why not."""
        header = self._pods.header(key)
        if header is None or key not in self._waiting or key in self._placed:
            return Result.done()
        pod = read_pod(header.data)
        found = place(pod, (Seat(each, self._used.get(each.name, {})) for each in self._hosts.values()))
        try:
            if found.node:
                await self._bind(key, pod.metadata.uid, found.node, asked(pod))
            else:
                await self._say_why(key, pod.metadata.uid, found)
        except (NotFound, Conflict):
            # It is gone, or has a node by now, which the watch tells; or the server was busy.
            return Result.later(AGAIN_SECONDS)
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
        self._tell(key, "Scheduled", f"Successfully assigned {key} to {node}")

    async def _say_why(self, key: Key, uid: str, found: Place) -> None:
        pod = self._pods.get(key)
        known = [each for each in pod.status.conditions if each.type == "PodScheduled"] if pod else []
        if known and known[0].message == found.because:
            return
        now = rfc3339(self._client.clock.now())
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
        told: dict[str, Any] = {**condition, "message": found.because, "lastTransitionTime": now}
        body = {"metadata": {"uid": uid}, "status": {"conditions": [told]}}
        await self._client.patch(POD, key, body, subresource="status", content_type=STRATEGIC_PATCH)
        self._tell(key, "FailedScheduling", found.because, warning=True)

    def _tell(self, key: Key, reason: str, message: str, *, warning: bool = False) -> None:
        pod = self._pods.get(key)
        if self._recorder is not None and pod is not None:
            self._recorder.event(pod, reason, message, warning=warning)

    # ------------------------------------------------------------ what is known

    def _node_changed(self, change: Change[Node]) -> None:
        node, name = change.after(), change.key.name
        before, after = self._hosts.get(name), None if node is None else host_of(node)
        if after is None:
            self._hosts.pop(name, None)
        elif after != before:
            self._hosts[name] = after
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
            self._put(key, pod.metadata.uid, pod.spec.node_name, asked(pod))

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
                self._wake.enqueue(key, why, after=GATHER_SECONDS)
