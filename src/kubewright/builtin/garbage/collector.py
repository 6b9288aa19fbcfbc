"""The collector: looks at one node, asks the server about unknown owners, performs the plan of ``decide``.

Keys.        A key's name is a uid; its namespace is empty.
Invariants.  Every write carries the uid and resourceVersion that it was decided on. After a conflict the
             node is looked at again.
Called by    ``controllers`` of ``builtin``.
"""

from collections.abc import Callable
from typing import Any, assert_never

import structlog

from kubewright.api.core import CRD
from kubewright.api.kinds import dynamic
from kubewright.api.meta import without_finalizer
from kubewright.base.plan import Plan
from kubewright.builtin.garbage.decide import (
    Delete,
    DropFinalizer,
    ForgetOwners,
    OwnerState,
    Seen,
    Step,
    Unblock,
    decide,
)
from kubewright.builtin.garbage.feeds import Feeds
from kubewright.builtin.garbage.graph import FOREGROUND, SETTLE_SECONDS, Graph, GraphNode, Owner
from kubewright.kube.client import Client
from kubewright.kube.informer import Informers
from kubewright.kube.patches import with_uid, with_version
from kubewright.runtime.controller import Controller
from kubewright.runtime.events import Recorder
from kubewright.runtime.metrics import Metrics
from kubewright.runtime.result import Result
from kubewright.wire.errors import NotFound
from kubewright.wire.gvk import Key, Resource

Json = dict[str, Any]

ABSENT_REMEMBERED = 20_000
"""References to owners that are nowhere which are remembered; about others the server is asked."""

log = structlog.get_logger("kubewright.garbage")


class Collector:
    """The reconciler, its controller and its watches: run ``controller`` and ``feeds.run``."""

    def __init__(
        self,
        client: Client,
        informers: Informers,
        *,
        workers: int = 8,
        metrics: Metrics | None = None,
        recorder: Recorder | None = None,
    ) -> None:
        self._client = client
        self._recorder = recorder
        self._unresolvable: set[str] = set()
        self._absent: set[tuple[str, Resource, Key]] = set()
        self.controller = Controller(
            "garbage-collector", self, client.clock, workers=workers, timeout=120.0, metrics=metrics
        )
        self.graph = Graph(self._wake)
        self.feeds = Feeds(client, self.graph, self._look_again)
        informers.get(CRD).subscribe(lambda _change: self.feeds.kinds_changed())

    async def reconcile(self, key: Key) -> Result:
        """Look at the node whose uid is the key's name."""
        node = self.graph.get(key.name)
        if node is None:
            self._unresolvable.discard(key.name)
            return Result.done()
        seen = await self._look(node)
        plan = decide(seen)
        self._remember(seen)
        if plan.steps:
            log.info("collecting", kind=node.resource.kind, object=str(node.key), because=plan.because)
        return await self._act(node, plan)

    async def _look(self, node: GraphNode) -> Seen:
        dependents = tuple(self.graph.dependents(node.uid))
        if node.deleting:
            complete = self.feeds.complete
            if complete and node.orphans:
                dependents = tuple(await self.feeds.owned_by(node))
            return Seen(node, dependents=dependents, complete=complete)
        states: dict[str, OwnerState] = {}
        for owner in node.owners:  # two references may share a uid: one of them may be right
            if states.get(owner.uid) is not OwnerState.LIVES:
                states[owner.uid] = await self._owner_state(node, owner)
        self._tell_of_owners_elsewhere(node)
        return Seen(node, states, dependents)

    def _tell_of_owners_elsewhere(self, node: GraphNode) -> None:
        """An event for each owner in another namespace: its dependent goes, and a user should know why."""
        for owner in node.owners:
            known = self.graph.get(owner.uid)
            if self._recorder is None or known is None or not known.is_elsewhere(node):
                continue
            named = (
                f"[{owner.api_version}/{owner.kind}, namespace: {node.key.namespace}, name: {owner.name}, "
            )
            message = f'ownerRef {named}uid: {owner.uid}] does not exist in namespace "{node.key.namespace}"'
            self._recorder.event(_shown(node), "OwnerRefInvalidNamespace", message, warning=True)

    async def _owner_state(self, node: GraphNode, owner: Owner) -> OwnerState:
        """The state of an owner: from the graph if it has it, else from the server."""
        resource = self.feeds.find(owner.group, owner.kind)
        if resource is None:
            return OwnerState.UNRESOLVABLE if self.feeds.discovered else OwnerState.PENDING
        if resource.namespaced and not node.key.namespace:
            return OwnerState.UNRESOLVABLE
        place = Key(node.key.namespace if resource.namespaced else "", owner.name)
        known = self.graph.get(owner.uid)
        if known is not None and (known.resource, known.key) == (resource, place):
            return OwnerState.WAITS if known.waits else OwnerState.LIVES
        if known is None and (self.graph.is_gone(owner.uid) or (owner.uid, resource, place) in self._absent):
            return OwnerState.ABSENT
        if not self.feeds.is_listed(resource):
            return OwnerState.PENDING
        try:
            live = await self._client.get(dynamic(resource), place)
        except NotFound:
            live = {"metadata": {}}
        metadata = live["metadata"]
        if metadata.get("uid") != owner.uid:
            if known is None:
                self._remember_absent(owner.uid, resource, place)
            return OwnerState.ABSENT
        waits = "deletionTimestamp" in metadata and FOREGROUND in metadata.get("finalizers", ())
        return OwnerState.WAITS if waits else OwnerState.LIVES

    def _remember_absent(self, uid: str, resource: Resource, place: Key) -> None:
        """Ask only once about an owner that is nowhere. Not by its uid alone: another reference with this uid
        may have the right name, and its owner be too new for our watches."""
        if len(self._absent) >= ABSENT_REMEMBERED:
            self._absent.clear()
        self._absent.add((uid, resource, place))

    async def _act(self, node: GraphNode, plan: Plan[Step]) -> Result:
        for step in plan.steps:
            try:
                await self._act_one(node, step)
            except NotFound:
                log.debug("already gone", kind=node.resource.kind, object=str(node.key))
        return Result.later(plan.wake)

    async def _act_one(self, node: GraphNode, step: Step) -> None:
        match step:
            case Delete(propagation):
                await self._client.delete(
                    dynamic(node.resource),
                    node.key,
                    uid=node.uid,
                    resource_version=node.version,
                    propagation=propagation,
                )
            case ForgetOwners(of, uids):
                await self._rewrite_owners(of, lambda ref: None if ref["uid"] in uids else ref)
            case Unblock():
                await self._rewrite_owners(node, lambda ref: {**ref, "blockOwnerDeletion": False})
            case DropFinalizer(name):
                await self._drop_finalizer(node, name)
            case _:
                assert_never(step)

    async def _rewrite_owners(self, node: GraphNode, change: Callable[[Json], Json | None]) -> None:
        """Compare and swap of the owner references, from the object as it is now."""
        metadata = await self._metadata(node)
        before = metadata.get("ownerReferences") or []
        after = [changed for ref in before if (changed := change(ref)) is not None]
        if after != before:
            await self._patch(node, metadata, ownerReferences=after or None)

    async def _drop_finalizer(self, node: GraphNode, name: str) -> None:
        metadata = await self._metadata(node)
        before = metadata.get("finalizers") or []
        if name in before:
            await self._patch(node, metadata, finalizers=without_finalizer(before, name))

    async def _metadata(self, node: GraphNode) -> Json:
        """The metadata of this very object, from the server.

        Raises:
            NotFound: there is none, or another object has its name now.
        """
        live = await self._client.get(dynamic(node.resource), node.key)
        metadata: Json = live["metadata"]
        if metadata["uid"] != node.uid:
            raise NotFound(f"{node.resource.kind} {node.key} is another one now")
        return metadata

    async def _patch(self, node: GraphNode, metadata: Json, **members: Any) -> None:
        patch = with_version(with_uid({"metadata": members}, node.uid), metadata["resourceVersion"])
        await self._client.patch(dynamic(node.resource), node.key, patch)

    def _wake(self, uid: str, why: str, after: float) -> None:
        self.controller.enqueue(Key("", uid), why, after=after)

    def _remember(self, seen: Seen) -> None:
        if OwnerState.UNRESOLVABLE in seen.states.values():
            self._unresolvable.add(seen.node.uid)
        else:
            self._unresolvable.discard(seen.node.uid)

    def _look_again(self) -> None:
        """New kinds are served: owners that could not be resolved may be known soon."""
        for uid in self._unresolvable:
            self._wake(uid, "new kinds are served", SETTLE_SECONDS)


def _shown(node: GraphNode) -> Json:
    """A node as events are about it."""
    metadata = {"name": node.key.name, "namespace": node.key.namespace, "uid": node.uid}
    return {"apiVersion": node.resource.api_version, "kind": node.resource.kind, "metadata": metadata}
