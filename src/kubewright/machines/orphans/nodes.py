"""Annotate nodes that have no machine, so that cluster-autoscaler leaves them alone.

Theory.      Only nodes that may come from a machine are annotated: those with our label, and those whose
             provider id has the scheme of the VMs of our classes. No node is deleted: a VM that no list has
             may still run, because a user took it away from Kubewright on purpose. Each process annotates a
             node at most once: two processes for different namespaces of one target cluster would else undo
             each other's writes forever. What the collection of a VM wrote to its node stays: ``vms`` takes
             annotation and cordon off together.
Invariants.  A node that has a machine and no annotation, as almost all have, is not decoded.
Called by    ``runtime.controller``, with ``ALL``. Continues in ``decide.not_managed``.
"""

from collections.abc import Callable
from collections.abc import Set as AbstractSet
from contextlib import suppress

import structlog

from kubewright.api.core import NODE, Node
from kubewright.api.diff import Patch
from kubewright.api.machine import names
from kubewright.base.errors import KubewrightError
from kubewright.driver.life.orphans import OrphanSettings
from kubewright.kube.errors import TransportError
from kubewright.kube.header import Header
from kubewright.kube.patches import with_uid
from kubewright.machines.caches import Shared
from kubewright.machines.orphans.decide import not_managed, scheme
from kubewright.nodes import marks
from kubewright.runtime.result import Result
from kubewright.wire.errors import NotFound
from kubewright.wire.gvk import Key

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
