"""Pods on nodes that are gone: no kubelet will remove them.

Theory.      A pod is removed by its kubelet. Without its node there is none, and the pod, even one
             that is being deleted, would stay for ever. A node that is missing gets a while to come
             back (``quarantine``), then the server is asked whether it really is not there, and its
             pods are marked as failed and removed at once.
Keys.        A key's name is a node's name; the node need not exist.
Frugal.      One GET for a missing node, whatever the number of its pods.
Called by    ``controllers`` of ``builtin``.
Source       kube-controller-manager's pod garbage collector: 40 s, phase, condition and sentence.
"""

from collections.abc import Iterable

from kubewright.api.core import NODE, POD, Node, Pod
from kubewright.base.clock import rfc3339
from kubewright.kube.client import Client
from kubewright.kube.informer import Change, Informer
from kubewright.kube.patches import with_uid
from kubewright.runtime.controller import Controller
from kubewright.runtime.result import Result
from kubewright.wire.errors import Conflict, NotFound
from kubewright.wire.gvk import Key
from kubewright.wire.http import STRATEGIC_PATCH

QUARANTINE_SECONDS = 40.0
BY_NODE = "podgc.node"
FINISHED = ("Succeeded", "Failed")


class PodCollector:
    """Reconciles names of nodes. Subscribes to both informers."""

    def __init__(
        self,
        client: Client,
        nodes: Informer[Node],
        pods: Informer[Pod],
        *,
        quarantine: float = QUARANTINE_SECONDS,
    ) -> None:
        self._client = client
        self._nodes = nodes
        self._pods = pods
        self._quarantine = quarantine
        pods.index(BY_NODE, node_of)

    def wire(self, controller: Controller) -> Controller:
        """Let missing nodes wake ``controller`` when their quarantine is over."""

        def suspect(name: str, why: str) -> None:
            if name and self._nodes.header(Key("", name)) is None:
                controller.enqueue(Key("", name), why, after=self._quarantine)

        def node_changed(change: Change[Node]) -> None:
            if change.new is None and self._pods.keys_by(BY_NODE, change.key.name):
                suspect(change.key.name, "node gone")

        def pod_changed(change: Change[Pod]) -> None:
            pod = change.after()
            if pod is not None:
                suspect(pod.spec.node_name, f"pod {change.key} on it")

        self._nodes.subscribe(node_changed)
        self._pods.subscribe(pod_changed)
        return controller

    async def reconcile(self, key: Key) -> Result:
        """Remove the pods of a node, if it is really gone."""
        keys = self._pods.keys_by(BY_NODE, key.name)
        if not keys or self._nodes.header(key) is not None or await self._exists(key):
            return Result.done()
        for pod in self._pods.by(BY_NODE, key.name):
            await self._remove(pod)
        return Result.done()

    async def _exists(self, node: Key) -> bool:
        try:
            await self._client.get(NODE, node)
        except NotFound:
            return False
        return True

    async def _remove(self, pod: Pod) -> None:
        key = Key(pod.namespace, pod.name)
        try:
            if pod.status.phase not in FINISHED:
                await self._fail(key, pod)
            await self._client.delete(POD, key, uid=pod.metadata.uid, grace=0)
        except (NotFound, Conflict):  # gone, or its name belongs to another pod now
            return

    async def _fail(self, key: Key, pod: Pod) -> None:
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "DeletionByPodGC",
            "message": "PodGC: node no longer exists",
            "lastTransitionTime": rfc3339(self._client.clock.now()),
        }
        patch = with_uid({"status": {"phase": "Failed", "conditions": [condition]}}, pod.metadata.uid)
        await self._client.patch(POD, key, patch, subresource="status", content_type=STRATEGIC_PATCH)


def node_of(pod: Pod) -> Iterable[str]:
    """The node that a pod is bound to, if any."""
    return (pod.spec.node_name,) if pod.spec.node_name else ()
