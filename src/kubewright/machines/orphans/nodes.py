"""Nodes without a machine: annotated, and drained and deleted where their VM is one that is collected.

Theory.      Only nodes that may come from a machine are annotated: those with our label, and those whose
             provider id has the scheme of the VMs of our classes. For that alone no node is deleted: a VM
             that no list has may still run, because a user took it away from Kubewright on purpose. Each
             process annotates a node at most once: two processes for different namespaces of one target
             cluster would else undo each other's writes forever.
             A node whose VM is collected goes as that of a machine does: cordon, drain, wait for volumes for
             as long as there, and, once the VM is gone, delete. The cordon also writes an annotation with the
             class of the VM: once the VM is gone no list has it any more, and a process that starts then
             finds by the annotation which nodes it may delete. A pass does not wait for pods: it evicts and
             ends, and a later one goes on, when the requests have ended. Since when the node is drained, and
             which evictions were refused, is kept in memory only: after a restart the drain time-out begins
             anew.
Invariants.  A node that has a machine and no annotation, as almost all have, is not decoded. None is drained
             or deleted that has a machine, or whose provider id is not the VM's. The time that pods have is
             counted on a steady clock (decision 0011). A node that has a machine again (it was restored from
             a backup meanwhile) loses the annotation and the cordon, unless the machine is being deleted.
Called by    ``runtime.controller`` with ``ALL``, for the annotations; ``vms`` for the nodes of VMs, also of
             those that are gone already, or wanted again.
"""

from collections.abc import Callable
from collections.abc import Set as AbstractSet
from contextlib import suppress
from datetime import datetime
from functools import partial

import structlog

from kubewright.api.core import NODE, Node
from kubewright.api.diff import Patch
from kubewright.api.machine import names
from kubewright.api.machine.v1alpha1 import Machine
from kubewright.base.errors import KubewrightError
from kubewright.driver.life.orphans import OrphanSettings
from kubewright.kube.errors import TransportError
from kubewright.kube.header import Header
from kubewright.kube.patches import onto, with_uid
from kubewright.machines import node_marks
from kubewright.machines.caches import Shared, belongs
from kubewright.machines.machine import act
from kubewright.machines.machine.memory import NodeStates, as_seen
from kubewright.machines.orphans.decide import awaits_volumes, not_managed, scheme
from kubewright.machines.settings import drain_policy
from kubewright.nodes import marks
from kubewright.nodes.drain.session import DrainSession
from kubewright.runtime.result import Result
from kubewright.wire.errors import NotFound
from kubewright.wire.gvk import Key

# ---------------------------------------------------------------- annotations

ALL = Key("", "nodes")
"""The only key of this controller: each pass looks at all nodes."""
NOT_MANAGED = "not-managed"
"""The index of nodes that say that no machine manages them; its one value is the same."""
YIELD_EVERY = 200
"""After so many nodes the event loop runs other tasks."""
WRITES = 50
"""Nodes that a pass writes to; the others wait for the next, ``soon`` after, which leaves for last those
whose writes failed."""

log = structlog.get_logger(__name__)


class OrphanNodes:
    """The reconciler of all nodes at once. ``owners`` counts a node's machines."""

    def __init__(
        self,
        shared: Shared,
        settings: OrphanSettings,
        schemes: AbstractSet[str],
        owners: Callable[[Node], int],
    ) -> None:
        self._shared = shared
        self._caches = shared.caches
        self._settings = settings
        self._now = shared.target.steady().now
        self._schemes = schemes
        self._owners = owners
        self._written: frozenset[str] = frozenset()
        """Uids of nodes that we have written to: once in the life of a process is enough."""
        self._failed: frozenset[str] = frozenset()
        """Uids of nodes whose last write failed."""

    async def reconcile(self, _key: Key) -> Result:
        """One pass over all nodes; writes that failed are tried again ``soon``."""
        there = sorted(self._caches.nodes.headers(), key=lambda header: header.uid in self._failed)
        uids = {header.uid for header in there}
        self._written &= uids
        self._failed &= uids
        annotated = frozenset(self._caches.nodes.keys_by(NOT_MANAGED, NOT_MANAGED))
        writes, ended = 0, True
        for number, header in enumerate(there, 1):
            if number % YIELD_EVERY == 0:
                await self._shared.clock.sleep(0)
            if (body := self._mark(header, header.key in annotated)) is None:
                continue
            error = await self._write(header, body)
            if (writes := writes + 1) == WRITES or isinstance(error, TransportError):
                ended = False  # a server that does not answer would let each write wait for its own time-out
                break
        again = self._settings.period if ended and not self._failed else self._settings.soon
        return Result.later(again)

    def _mark(self, header: Header, annotated: bool) -> Patch | None:
        """The patch that a node needs, if any."""
        if not annotated and self._caches.machines.keys_by("node", header.key.name):
            return None
        if (node := self._caches.nodes.get(header.key)) is None:
            return None
        owners = self._owners(node)
        if owners > 1:
            log.warning("several machines have one node", node=node.metadata.name, machines=owners)
        wanted = not_managed(node, owners, self._now(), self._shared.settings.creation_timeout)
        if wanted is None or (wanted and (header.uid in self._written or not self._may_be_ours(node))):
            return None
        return marks.annotate(node, {names.NOT_MANAGED_ANNOTATION: "1" if wanted else None})

    async def _write(self, header: Header, body: Patch) -> KubewrightError | None:
        uid = frozenset((header.uid,))
        try:
            with suppress(NotFound):
                await self._shared.target.patch(NODE, header.key, with_uid(body, header.uid))
        except KubewrightError as error:
            log.info("a node was not annotated", node=header.key.name, error=str(error))
            self._failed |= uid
            return error
        self._written |= uid
        self._failed -= uid
        return None

    def _may_be_ours(self, node: Node) -> bool:
        ours = names.MACHINE_NAME_LABEL in node.metadata.labels
        return ours or scheme(node.spec.provider_id) in self._schemes


# ---------------------------------------------------------------- the nodes of VMs that are collected


class NodeCleanup:
    """Drains and deletes nodes of VMs without a machine. Its requests may raise ApiError, TransportError."""

    def __init__(self, shared: Shared, wake: Callable[[Key], None]) -> None:
        """``wake``: lets a class be looked at again, soon."""
        self._target = shared.target
        self._now = shared.target.steady().now
        self._settings = shared.settings
        self._caches = shared.caches
        self._removals = shared.removals
        self._volume_ids = shared.volume_ids
        self._wake = wake
        self._drains: dict[str, tuple[datetime, DrainSession]] = {}
        """Since when the node of a VM is drained, and the session of that drain; by provider id."""
        self._states = NodeStates(self._now)

    def owners(self, node: Node) -> int:
        """How many machines say that this node is theirs."""
        return len({machine.metadata.uid for machine in self._machines(node)})

    def unowned_nodes(self, provider_id: str) -> list[Node]:
        """The nodes of a VM that have no machine: one, or none while it has not joined."""
        found = self._caches.nodes.by("provider-id", provider_id) if provider_id else []
        return [node for node in found if not self.owners(node)]

    def forget(self, provider_id: str) -> None:
        """Drop what is remembered of a VM that is no suspect any more: it is gone, or has a machine."""
        self._drains.pop(provider_id, None)
        self._states.forget(provider_id)

    async def empty(self, node: Node, collecting: Key) -> bool:
        """Cordon and annotate the node, and go on with its drain; whether pods and volumes have left.

        ``collecting``: the class of its VM.
        """
        await self._mark(node, str(collecting))
        now, vm = self._now(), node.spec.provider_id
        started, session = self._drains.setdefault(vm, (now, DrainSession()))
        policy = drain_policy(self._settings)
        plan = await session.look(
            self._target,
            node.metadata.name,
            policy,
            now=now,
            started=started,
            conditions=as_seen(node, self._states.since(vm, node)),
            attached=self._caches.volumes_of(node),
            volume_ids=self._volume_ids,
        )
        if not plan.done:
            log.info("pods on a VM without a machine", node=node.metadata.name, because=plan.because)
            self._removals.start(vm, session, plan, partial(self._wake, collecting), now=now)
            return False
        left = policy.until_detached(session.drained_since or now, now)
        if why := awaits_volumes(plan, len(self._caches.attached(node)), left):
            log.info("volumes on a VM without a machine", node=node.metadata.name, because=why)
        return not why

    async def delete_node(self, node_name: str, provider_id: str) -> None:
        """Delete the node of a VM that is gone. The server is asked: the kubelet may just have registered."""
        with suppress(NotFound):
            node = await self._target.get(NODE, Key("", node_name))
            if node.spec.provider_id == provider_id and not self.owners(node):
                await act.delete_node(self._target, node_marks.deletion(node))
                log.info("the node of a collected VM is deleted", node=node_name)

    async def release(self, node: Node) -> None:
        """Take annotation and cordon off a node that has a machine again."""
        if any(machine.metadata.deleting for machine in self._machines(node)):
            return  # its own deletion cordons and drains the node
        with suppress(NotFound):
            unmarked = marks.annotate(node, {names.ORPHAN_OF_ANNOTATION: None})
            body = onto({**unmarked, "spec": {"unschedulable": None}}, node.metadata)
            await self._target.patch(NODE, Key("", node.metadata.name), body)
            log.info("a node has a machine again, and takes pods", node=node.metadata.name)

    def _machines(self, node: Node) -> list[Machine]:
        """The machines that say that this node is theirs; one may be there twice."""
        machines, provider_id = self._caches.machines, node.spec.provider_id
        by_name = machines.by("node", node.metadata.name)
        by_id = machines.by("provider-id", provider_id) if provider_id else []
        return [machine for machine in (*by_name, *by_id) if belongs(node, machine)]

    async def _mark(self, node: Node, collecting: str) -> None:
        known = node.metadata.annotations.get(names.ORPHAN_OF_ANNOTATION)
        if known and node.spec.unschedulable:
            return
        marked = marks.annotate(node, {names.ORPHAN_OF_ANNOTATION: known or collecting})
        with suppress(NotFound):
            patch = with_uid({**marked, **marks.cordon()}, node.metadata.uid)
            await self._target.patch(NODE, Key("", node.metadata.name), patch)
