"""Sets the conditions of a node to Unknown when its kubelet has fallen silent, and its pods to not ready.

Theory.      A kubelet shows that it lives by renewing a Lease and by posting its status. The times in them
             come from another machine's clock; we only note, on our own clock, when we *saw* either of them
             change. A node not heard of for ``grace`` seconds gets Unknown for the conditions that its
             kubelet owns, and its pods stop being Ready: nothing vouches for them, so no budget may count on
             them. When the kubelet is back it writes all of it itself. Nodes fall silent one after the other,
             also where all of them do. As soon as every node of the cluster is lost, none keeps a taint of
             ours that evicts, and none gets one until another node is back: it is likelier that we cannot see
             them than that all of them died, and there is no node to move pods to. Time in which we could not
             see heartbeats does not count: a server that was away was away for the kubelets too. And a watch
             may be late, or dead without an error: before a node is marked the server is asked for the Lease.
             Evicts pods from nodes with a taint ``NoExecute`` that they do not tolerate, or do not tolerate
             for longer. A taint with this effect is an order to leave: a user's, the node life cycle's on a
             node that is not ready, or ``node.kubernetes.io/out-of-service``. A pod that does not tolerate
             each of them is deleted at once, with its own grace period and without regard to budgets; one
             that tolerates them for a time, when the shortest of these times has passed since we first saw it
             beside them.
             Pods on nodes that are gone or out of service: no kubelet will remove them. A pod is removed by
             its kubelet. Without its node there is none, and the pod, even one that is being deleted, would
             stay for ever. A node that is missing gets a while to come back (``quarantine``), then the server
             is asked whether it really is not there, and its pods are marked as failed and removed at once.
             The same happens to the pods that are being deleted on a node that is not ready and of which a
             user says that it is out of service: the taint ``node.kubernetes.io/out-of-service`` is his word
             that nothing runs there any more.
Frugal.      A heartbeat only moves a number; one timer a node looks at it. No requests at rest, one read and
             one patch for a node that fell silent.
             Nodes without such a taint cost nothing: only changes of these taints, and of pods on nodes that
             have one, wake anything.
             One GET for a missing node, whatever the number of its pods.
Invariants.  After our start, and after each gap in what we see, every node has a full ``grace`` to be heard.
             The patch is bound to the version that was judged: a heartbeat that comes in between wins.
             A pod is deleted by its uid. One that cannot be evicted keeps no other from it, and is tried
             again. What is remembered is since when a pod is beside a taint; it makes us wait longer after a
             restart, never shorter, as upstream.
Keys.        A key's name is a node's name; for the pods of one that is gone it need not exist.
Source       kube-controller-manager's node life cycle: 40 s, reasons and sentences, taints.
Called by    ``controllers`` of ``builtin``.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from kubewright.api.conditions import condition_of, is_condition_true, node_condition
from kubewright.api.core import LEASE, NODE, POD, Lease, Node, NodeCondition, Pod, Taint
from kubewright.api.diff import Patch
from kubewright.base.clock import Clock, rfc3339
from kubewright.builtin.scheduling.facts import PodSlice, Toleration, read_pod
from kubewright.kube.client import Client
from kubewright.kube.informer import Change, Informer
from kubewright.kube.patches import with_uid, with_version
from kubewright.nodes import marks
from kubewright.runtime.controller import Controller
from kubewright.runtime.events import Recorder
from kubewright.runtime.result import Result
from kubewright.wire.errors import ApiError, Conflict, NotFound
from kubewright.wire.gvk import Key
from kubewright.wire.http import STRATEGIC_PATCH

LEASE_NAMESPACE = "kube-node-lease"
GRACE_SECONDS = 40.0
STARTUP_SECONDS = 60.0
"""Grace of a node whose kubelet never posted a status."""

LONGEST_GAP = 5.0
"""Seconds for which we may have heard nothing at all without doubting a node's silence."""

LOOK_AGAIN = 10.0
"""Seconds until a silent node is looked at again while all others are silent too."""

OWNED = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")
"""The conditions that a kubelet posts."""

UNREACHABLE, NOT_READY = "node.kubernetes.io/unreachable", "node.kubernetes.io/not-ready"
OURS = tuple(
    Taint(key=key, effect=effect)
    for key in (UNREACHABLE, NOT_READY)
    for effect in ("NoSchedule", "NoExecute")
)
"""The taints that are put on and taken off here."""


@dataclass(frozen=True, slots=True)
class Settings:
    """``grace`` in seconds; ``taints``: also mark nodes that are not Ready, which evicts."""

    grace: float = GRACE_SECONDS
    startup: float = STARTUP_SECONDS
    taints: bool = True


class NodeLifecycle:
    """Reconciles nodes. Subscribes to both informers to hear the heartbeats."""

    def __init__(
        self,
        client: Client,
        nodes: Informer[Node],
        leases: Informer[Lease],
        *,
        settings: Settings | None = None,
        pods: Informer[Pod] | None = None,
        recorder: Recorder | None = None,
    ) -> None:
        self._client = client
        self._clock: Clock = client.clock
        self._nodes = nodes
        self._leases = leases
        self._settings = settings or Settings()
        self._heard: dict[str, float] = {}
        self._pods, self._recorder = pods, recorder
        self._lost: set[str] = set()
        """The nodes that nobody has heard of; their pods are not ready."""
        self._known: set[str] = set()
        if pods is not None:
            pods.index(BY_NODE, node_of)
        nodes.subscribe(self._node_changed)
        leases.subscribe(self._lease_changed)

    def of_node(self, change: Change[Node]) -> Iterable[Key]:
        """A changed node; and all lost ones where it may be the last of the others, or the first again."""
        yield change.key
        fate = {None if each is None else is_lost(each) for each in (change.before(), change.after())}
        if len(fate) > 1 and len(self._known - self._lost) <= 1:
            yield from (Key("", name) for name in self._lost - {change.key.name})

    def of_pod(self, change: Change[Pod]) -> Iterable[Key]:
        """The node of a changed pod, where pods are not to be ready."""
        if self._lost and (pod := change.after()) is not None and pod.spec.node_name in self._lost:
            yield Key("", pod.spec.node_name)

    async def reconcile(self, key: Key) -> Result:
        """Judge one node's silence."""
        node = self._nodes.get(key)
        if node is None:
            self._heard.pop(key.name, None)
            self._lost.discard(key.name)
            return Result.done()
        now = self._clock.monotonic()
        heard = now - self._heard.setdefault(key.name, now)
        silent = min(heard, self._leases.visibility.visible_for(now, LONGEST_GAP))
        remaining = grace_of(node, self._settings) - silent
        if remaining > 0:
            return Result.later(remaining).unless(await self._mark(node, ()))
        silenced = unknown(node, self._clock.now())
        if silenced and await self._renewed(key.name):
            self._hear(key.name)
            return Result.later(grace_of(node, self._settings))
        errors = await self._mark(node, silenced)
        return Result.later(LOOK_AGAIN if self._all_are_lost else None).unless(errors)

    async def _renewed(self, name: str) -> bool:
        """Whether the server has a Lease of this node that our watch has not brought yet."""
        key = Key(LEASE_NAMESPACE, name)
        known = self._leases.header(key)
        try:
            lease = await self._client.get(LEASE, key)
        except NotFound:
            return False
        return known is None or int(lease.metadata.resource_version) > known.version

    async def _mark(self, node: Node, silent: tuple[NodeCondition, ...]) -> Sequence[ApiError]:
        """Write conditions and taints where they are not as they should be. What was refused of its pods."""
        key = Key("", node.name)
        try:
            if silent:
                told = {"status": {"conditions": list(map(node_condition, silent))}}
                patch = with_version(told, node.metadata.resource_version)
                node = await self._client.patch(
                    NODE, key, patch, subresource="status", content_type=STRATEGIC_PATCH
                )
            (self._lost.add if is_lost(node) else self._lost.discard)(node.name)
            patch = taint_patch(node, self._clock.now(), evicts=not self._all_are_lost)
            if self._settings.taints and patch:
                await self._client.patch(NODE, key, patch)
        except NotFound:
            return ()
        return await self._mark_pods(node.name) if node.name in self._lost else ()

    @property
    def _all_are_lost(self) -> bool:
        return len(self._lost) >= len(self._known)

    async def _mark_pods(self, node: str) -> Sequence[ApiError]:
        """Pods of a node that fell silent are not Ready any more; one that is refused keeps back no other."""
        errors = []
        for pod in self._pods.by(BY_NODE, node) if self._pods is not None else ():
            if not is_condition_true(pod.status.conditions, "Ready"):
                continue
            since = rfc3339(self._clock.now())
            ready = {"type": "Ready", "status": "False", "lastTransitionTime": since}
            patch = with_uid({"status": {"conditions": [ready]}}, pod.metadata.uid)
            try:
                key = Key(pod.namespace, pod.name)
                await self._client.patch(POD, key, patch, subresource="status", content_type=STRATEGIC_PATCH)
            except (NotFound, Conflict):  # gone, or its name belongs to another pod now
                continue
            except ApiError as error:
                errors.append(error)
                continue
            if self._recorder is not None:
                self._recorder.event(pod, "NodeNotReady", "Node is not ready", warning=True)
        return errors

    def _lease_changed(self, change: Change[Lease]) -> None:
        if change.new is not None and change.key.namespace == LEASE_NAMESPACE:
            self._hear(change.key.name)

    def _node_changed(self, change: Change[Node]) -> None:
        if change.new is None:
            self._known.discard(change.key.name)
            self._lost.discard(change.key.name)
            return
        self._known.add(change.key.name)
        node = change.after()
        (self._lost.add if node is not None and is_lost(node) else self._lost.discard)(change.key.name)
        before, after = heartbeat(change.before()), heartbeat(node)
        if change.old is None or before != after:
            self._hear(change.key.name)

    def _hear(self, name: str) -> None:
        self._heard[name] = self._clock.monotonic()


def heartbeat(node: Node | None) -> datetime | None:
    """When the kubelet says it last looked at its own health."""
    ready = condition_of(node.status.conditions, "Ready") if node else None
    return ready.last_heartbeat_time if ready else None


def is_lost(node: Node) -> bool:
    """Whether nobody knows how the node is. One whose kubelet says that it is not ready is not lost."""
    ready = condition_of(node.status.conditions, "Ready")
    return ready is not None and ready.status == "Unknown"


def grace_of(node: Node, settings: Settings) -> float:
    """How long this node may be silent, in seconds."""
    return settings.grace if condition_of(node.status.conditions, "Ready") else settings.startup


def unknown(node: Node, now: datetime) -> tuple[NodeCondition, ...]:
    """The conditions to write for a silent node; empty when they say so already."""
    never = "NodeStatusNeverUpdated", "Kubelet never posted node status."
    stopped = "NodeStatusUnknown", "Kubelet stopped posting node status."
    found = []
    for type_ in OWNED:
        posted = condition_of(node.status.conditions, type_)
        if posted is not None and posted.status == "Unknown":
            continue
        reason, message = stopped if posted else never
        heard = posted.last_heartbeat_time if posted else node.metadata.creation_timestamp
        found.append(
            NodeCondition(
                type=type_,
                status="Unknown",
                reason=reason,
                message=message,
                last_heartbeat_time=heard,
                last_transition_time=now,
            )
        )
    return tuple(found)


def taint_patch(node: Node, now: datetime, *, evicts: bool = True) -> Patch:
    """Give a node the taints that follow from its Ready condition. Merge patch, with the node's version.

    ``evicts``: also the one that evicts pods; else one that is there is taken off.
    """
    ready = condition_of(node.status.conditions, "Ready")
    key = {"True": "", "False": NOT_READY}.get(ready.status if ready else "Unknown", UNREACHABLE)
    added: dict[str, datetime | None] = {"NoSchedule": None, "NoExecute": now.replace(microsecond=0)}
    if not evicts:
        del added["NoExecute"]
    wanted = tuple(Taint(key=key, effect=effect, time_added=at) for effect, at in added.items() if key)
    return marks.sync(node, marks.Desired(taints=wanted), marks.Desired(taints=OURS))


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
