"""Pods on nodes that are gone or out of service: no kubelet will remove them.

Theory.      A pod is removed by its kubelet. Without its node there is none, and the pod, even one
             that is being deleted, would stay for ever. A node that is missing gets a while to come
             back (``quarantine``), then the server is asked whether it really is not there, and its
             pods are marked as failed and removed at once. The same happens to the pods that are being
             deleted on a node that is not ready and of which a user says that it is out of service: the taint
             ``node.kubernetes.io/out-of-service`` is his word that nothing runs there any more.
Keys.        A key's name is a node's name; the node need not exist.
Frugal.      One GET for a missing node, whatever the number of its pods.
Called by    ``controllers`` of ``builtin``.
Source       kube-controller-manager's pod garbage collector: 40 s, phase, condition and sentence.
"""

from collections.abc import Iterable, Mapping, Sequence

from kubewright.api.conditions import is_condition_true
from kubewright.api.core import NODE, POD, Node, Pod
from kubewright.base.clock import rfc3339
from kubewright.kube.client import Client
from kubewright.kube.informer import Change, Informer
from kubewright.kube.patches import with_uid
from kubewright.runtime.controller import Controller
from kubewright.runtime.result import Result
from kubewright.wire.errors import ApiError, Conflict, NotFound
from kubewright.wire.gvk import Key
from kubewright.wire.http import STRATEGIC_PATCH

QUARANTINE_SECONDS = 40.0
BY_NODE = "podgc.node"
FINISHED = ("Succeeded", "Failed")
OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
GONE = {
    "type": "DisruptionTarget",
    "status": "True",
    "reason": "DeletionByPodGC",
    "message": "PodGC: node no longer exists",
}


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
        self._out_of_service: set[str] = set()
        pods.index(BY_NODE, node_of)

    def wire(self, controller: Controller) -> Controller:
        """Let missing nodes wake ``controller`` when their quarantine is over."""

        def suspect(name: str, why: str) -> None:
            if name and self._nodes.header(Key("", name)) is None:
                controller.enqueue(Key("", name), why, after=self._quarantine)

        def node_changed(change: Change[Node]) -> None:
            name = change.key.name
            self._out_of_service.discard(name)
            if change.new is None and self._pods.keys_by(BY_NODE, name):
                suspect(name, "node gone")
            elif (node := change.after()) is not None and is_out_of_service(node):
                self._out_of_service.add(name)
                controller.enqueue(change.key, "node out of service")

        def pod_changed(change: Change[Pod]) -> None:
            pod = change.after()
            if pod is None:
                return
            if pod.metadata.deleting and pod.spec.node_name in self._out_of_service:
                controller.enqueue(Key("", pod.spec.node_name), f"pod {change.key} is to go")
            suspect(pod.spec.node_name, f"pod {change.key} on it")

        self._nodes.subscribe(node_changed)
        self._pods.subscribe(pod_changed)
        return controller

    async def reconcile(self, key: Key) -> Result:
        """Remove the pods of a node, if it is really gone; of one that is out of service, those that end."""
        keys = self._pods.keys_by(BY_NODE, key.name)
        errors: list[ApiError] = []
        if keys and (node := self._nodes.get(key)) is not None and is_out_of_service(node):
            ending = [pod for pod in self._pods.by(BY_NODE, key.name) if pod.metadata.deleting]
            errors += await self._remove_all(ending)
        if not keys or self._nodes.header(key) is not None or await self._exists(key):
            return Result.done().unless(errors)
        errors += await self._remove_all(self._pods.by(BY_NODE, key.name), GONE)
        return Result.done().unless(errors)

    async def _remove_all(
        self, pods: Iterable[Pod], condition: Mapping[str, str] | None = None
    ) -> Sequence[ApiError]:
        """Remove each of these pods; what was refused keeps back no other, and is to be tried again."""
        errors = []
        for pod in pods:
            try:
                await self._remove(pod, condition)
            except ApiError as error:
                errors.append(error)
        return errors

    async def _exists(self, node: Key) -> bool:
        try:
            await self._client.get(NODE, node)
        except NotFound:
            return False
        return True

    async def _remove(self, pod: Pod, condition: Mapping[str, str] | None = None) -> None:
        key = Key(pod.namespace, pod.name)
        try:
            if pod.status.phase not in FINISHED:
                await self._fail(key, pod, condition)
            await self._client.delete(POD, key, uid=pod.metadata.uid, grace=0)
        except (NotFound, Conflict):  # gone, or its name belongs to another pod now
            return

    async def _fail(self, key: Key, pod: Pod, condition: Mapping[str, str] | None) -> None:
        since = rfc3339(self._client.clock.now())
        told = {"conditions": [{**condition, "lastTransitionTime": since}]} if condition else {}
        patch = with_uid({"status": {"phase": "Failed", **told}}, pod.metadata.uid)
        await self._client.patch(POD, key, patch, subresource="status", content_type=STRATEGIC_PATCH)


def is_out_of_service(node: Node) -> bool:
    """Whether a user says that nothing runs on this node any more, and its kubelet does not say otherwise."""
    if is_condition_true(node.status.conditions, "Ready"):
        return False
    return any(taint.key == OUT_OF_SERVICE for taint in node.spec.taints)


def node_of(pod: Pod) -> Iterable[str]:
    """The node that a pod is bound to, if any."""
    return (pod.spec.node_name,) if pod.spec.node_name else ()
