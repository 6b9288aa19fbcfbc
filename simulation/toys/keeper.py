"""The controller of toys: what a Machine controller is to machines, in twenty lines.

Theory.      A toy works a moment after it was created, once its script and its body are there. One that is
             deleted takes a moment too; then its parts go, and its finalizer last.
Called by    ``toys.api``.
"""

from kubewright.api.meta import without_finalizer
from kubewright.base.clock import Clock, rfc3339
from kubewright.kube.client import Client
from kubewright.kube.informer import Informer
from kubewright.kube.patches import onto
from kubewright.runtime.result import Result
from kubewright.wire.errors import NotFound
from kubewright.wire.gvk import Key
from simulation.toys.kinds import PARTS, TOY, Toy
from simulation.toys.policy import FINALIZER

BOOT_SECONDS = 2.0
STOP_SECONDS = 2.0


class Keeper:
    """The reconciler of toys."""

    def __init__(self, client: Client, toys: Informer[Toy], clock: Clock) -> None:
        self._client = client
        self._toys = toys
        self._clock = clock

    async def reconcile(self, key: Key) -> Result:
        """One pass."""
        toy = self._toys.get(key)
        if toy is None:
            return Result.done()
        meta = toy.metadata
        since, takes = meta.deletion_timestamp or meta.creation_timestamp, BOOT_SECONDS
        left = since.timestamp() + takes - self._clock.now().timestamp() if since else 0.0
        if left > 0:
            return Result.later(left)
        try:
            if meta.deleting:
                await self._end(key, toy)
            elif toy.status.ready_since is None:
                await self._begin(key, toy)
        except NotFound:
            return Result.later(0.5) if not meta.deleting else Result.done()
        return Result.done()

    async def _begin(self, key: Key, toy: Toy) -> None:
        for kind in PARTS:
            await self._client.get(kind, key)
        now = {"readySince": rfc3339(self._clock.now())}
        await self._client.patch(TOY, key, onto({"status": now}, toy.metadata), subresource="status")

    async def _end(self, key: Key, toy: Toy) -> None:
        for kind in PARTS:
            try:
                await self._client.delete(kind, key)
            except NotFound:
                continue
        left = without_finalizer(toy.metadata.finalizers, FINALIZER)
        await self._client.patch(TOY, key, onto({"metadata": {"finalizers": left or None}}, toy.metadata))
