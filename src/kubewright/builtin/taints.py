"""Evicts pods from nodes with a taint ``NoExecute`` that they do not tolerate, or do not tolerate for longer.

Theory.      A taint with this effect is an order to leave: a user's, the node life cycle's on a node that is
             not ready, or ``node.kubernetes.io/out-of-service``. A pod that does not tolerate each of them is
             deleted at once, with its own grace period and without regard to budgets; one that tolerates
             them for a time, when the shortest of these times has passed since we first saw it beside them.
Keys.        A key's name is a node's name.
Invariants.  A pod is deleted by its uid. One that cannot be evicted keeps no other from it, and is tried
             again. What is remembered is since when a pod is beside a taint; it makes us wait
             longer after a restart, never shorter, as upstream.
Frugal.      Nodes without such a taint cost nothing: only changes of these taints, and of pods on nodes that
             have one, wake anything.
Called by    ``controllers`` of ``builtin``. Continues in ``podgc``, which removes what no kubelet will.
Source       kube-controller-manager's taint eviction controller: its order, condition and events.
"""

from collections.abc import Iterable, Sequence

from kubewright.api.core import POD, Node, Pod, Taint
from kubewright.base.clock import rfc3339
from kubewright.builtin.podgc import BY_NODE, node_of
from kubewright.builtin.scheduling.facts import PodSlice, Toleration, read_pod
from kubewright.kube.client import Client
from kubewright.kube.informer import Change, Informer
from kubewright.kube.patches import with_uid
from kubewright.runtime.controller import Controller
from kubewright.runtime.events import Recorder
from kubewright.runtime.result import Result
from kubewright.wire.errors import ApiError, Conflict, NotFound
from kubewright.wire.gvk import Key
from kubewright.wire.http import STRATEGIC_PATCH

EFFECT = "NoExecute"
REASON = "TaintManagerEviction"
"""Of the events about pods."""


def orders_of(node: Node | None) -> tuple[Taint, ...]:
    """The taints of a node that evict."""
    return () if node is None else tuple(taint for taint in node.spec.taints if taint.effect == EFFECT)


def patience(tolerations: Sequence[Toleration], taints: Iterable[Taint]) -> float | None:
    """For how many seconds a pod may stay beside these taints; None: for ever.

    The first toleration that fits a taint counts for it, as upstream.
    """
    shortest: float | None = None
    for taint in taints:
        used = next((each for each in tolerations if each.tolerates(taint)), None)
        if used is None:
            return 0.0
        if used.toleration_seconds is not None:
            stays = max(0.0, float(used.toleration_seconds))
            shortest = stays if shortest is None else min(shortest, stays)
    return shortest


class TaintEviction:
    """Reconciles nodes; one pass looks at all pods of a node."""

    def __init__(
        self, client: Client, nodes: Informer[Node], pods: Informer[Pod], recorder: Recorder | None = None
    ) -> None:
        self._client = client
        self._nodes = nodes
        self._pods = pods
        self._recorder = recorder
        self._since: dict[str, dict[str, float]] = {}
        """Of each node with such a taint: by the uids of its pods that are to go, when we first saw that."""
        pods.index(BY_NODE, node_of)

    def wire(self, controller: Controller) -> Controller:
        """Let taints, and pods beside them, wake ``controller``."""
        return controller.watches(self._nodes, _of_node).watches(self._pods, self._of_pod)

    def _of_pod(self, change: Change[Pod]) -> Iterable[Key]:
        if self._since and (pod := change.after()) is not None and pod.spec.node_name in self._since:
            yield Key("", pod.spec.node_name)

    async def reconcile(self, key: Key) -> Result:
        """Evict those pods of a node whose time is over."""
        taints = orders_of(self._nodes.get(key))
        before = self._since.pop(key.name, {})
        if taints:
            self._since[key.name] = {}
        now, waits, errors = self._client.clock.monotonic(), [], []
        for pod in self._bound_to(key.name):
            stays = patience(pod.spec.tolerations, taints)
            if stays is None:
                self._keep(pod, before)
                continue
            since = self._since[key.name][pod.metadata.uid] = before.get(pod.metadata.uid, now)
            if since + stays <= now:
                try:
                    await self._evict(pod)
                except ApiError as error:
                    errors.append(error)
            else:
                waits.append(since + stays - now)
        return Result.later(min(waits, default=None)).unless(errors)

    def _bound_to(self, node: str) -> Iterable[PodSlice]:
        """The pods of a node that are not being deleted."""
        headers = (self._pods.header(key) for key in self._pods.keys_by(BY_NODE, node))
        return [read_pod(header.data) for header in headers if header is not None and not header.deleting]

    def _keep(self, pod: PodSlice, before: dict[str, float]) -> None:
        if pod.metadata.uid in before:
            self._tell(pod, f"Cancelling deletion of Pod {pod.metadata.namespace}/{pod.metadata.name}")

    async def _evict(self, pod: PodSlice) -> None:
        key, uid = Key(pod.metadata.namespace, pod.metadata.name), pod.metadata.uid
        self._tell(pod, f"Marking for deletion Pod {key}")
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "DeletionByTaintManager",
            "message": "Taint manager: deleting due to NoExecute taint",
            "lastTransitionTime": rfc3339(self._client.clock.now()),
        }
        patch = with_uid({"status": {"conditions": [condition]}}, uid)
        try:
            await self._client.patch(POD, key, patch, subresource="status", content_type=STRATEGIC_PATCH)
            await self._client.delete(POD, key, uid=uid)
        except (NotFound, Conflict):  # gone, or its name belongs to another pod now
            return

    def _tell(self, pod: PodSlice, message: str) -> None:
        if self._recorder is not None:
            about = {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {
                    "name": pod.metadata.name,
                    "namespace": pod.metadata.namespace,
                    "uid": pod.metadata.uid,
                },
            }
            self._recorder.event(about, REASON, message)


def _of_node(change: Change[Node]) -> Iterable[Key]:
    if orders_of(change.before()) != orders_of(change.after()):
        yield change.key
