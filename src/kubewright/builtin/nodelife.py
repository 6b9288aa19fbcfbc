"""Sets the conditions of a node to Unknown when its kubelet has fallen silent, and its pods to not ready.

Theory.      A kubelet shows that it lives by renewing a Lease and by posting its status. The times in
             them come from another machine's clock; we only note, on our own clock, when
             we *saw* either of them change. A node not heard of for ``grace`` seconds gets Unknown for
             the conditions that its kubelet owns, and its pods stop being Ready: nobody vouches for them,
             so no budget may count on them. When the kubelet is back it writes all of it itself.
             Nodes fall silent one after the other, also where all of them do. As soon as every node of the
             cluster is lost, none keeps a taint of ours that evicts, and none gets one until another node
             is back: it is likelier that we cannot see them than that all of them died, and there is no node
             to move pods to.
             Time in which we could not see heartbeats does not count: a server that was away was away for
             the kubelets too. And a watch may be late, or dead without an error: before a node is marked
             the server is asked for the Lease.
Frugal.      A heartbeat only moves a number; one timer a node looks at it. No requests at rest, one
             read and one patch for a node that fell silent.
Invariants.  After our start, and after each gap in what we see, every node has a full ``grace`` to be
             heard. The patch is bound to the version that was judged: a heartbeat that comes in
             between wins.
Called by    ``controllers`` of ``builtin``.
Source       kube-controller-manager's node life cycle: 40 s, reasons and sentences, taints.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from kubewright.api.conditions import condition_of, is_condition_true, node_condition
from kubewright.api.core import LEASE, NODE, POD, Lease, Node, NodeCondition, Pod, Taint
from kubewright.api.diff import Patch
from kubewright.base.clock import Clock, rfc3339
from kubewright.builtin.podgc import BY_NODE, node_of
from kubewright.kube.client import Client
from kubewright.kube.informer import Change, Informer
from kubewright.kube.patches import with_uid, with_version
from kubewright.nodes import marks
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
