"""How a controller writes onto the objects of its kind: finalizer, status, any patch.

Invariants.  Every write carries uid and version of what was seen: a later object of the same name is never
             touched, and no change of others is lost. No PUT.
Called by    ``kernel``, and the controllers of ``controlplanes`` that are not on it.
"""

from collections.abc import Mapping
from typing import Any, Generic, TypeVar

from kubewright.api.diff import merge_patch
from kubewright.api.kinds import Kind
from kubewright.api.meta import KubeObject, ObjectMeta, Value, with_finalizer, without_finalizer
from kubewright.kube.client import Client
from kubewright.kube.errors import MayBeGone
from kubewright.kube.patches import onto
from kubewright.wire.gvk import Key

T = TypeVar("T", bound=KubeObject)


class Writer(Generic[T]):
    """Writes onto objects of one kind. All but ``report`` return the object's metadata after it.

    Raises:
        ApiError, TransportError: from all methods; the API server refused, or could not be reached.
    """

    def __init__(self, control: Client, kind: Kind[T], finalizer: str) -> None:
        self._control = control
        self._kind = kind
        self._finalizer = finalizer

    async def patch(self, meta: ObjectMeta, body: Mapping[str, Any], *, subresource: str = "") -> ObjectMeta:
        """Merge ``body`` into the object in the version that ``meta`` is of."""
        key = Key(meta.namespace, meta.name)
        found = await self._control.patch(self._kind, key, onto(body, meta), subresource=subresource)
        return found.metadata

    async def add_finalizer(self, meta: ObjectMeta, **also: Mapping[str, str]) -> ObjectMeta:
        """Put our finalizer on, and merge in what ``also`` has: ``annotations={...}``, ``labels={...}``."""
        added = with_finalizer(meta.finalizers, self._finalizer)
        return await self.patch(meta, {"metadata": {"finalizers": added, **also}})

    async def remove_finalizer(self, meta: ObjectMeta) -> ObjectMeta:
        """Take our finalizer off; the object may be gone already."""
        left = without_finalizer(meta.finalizers, self._finalizer)
        with MayBeGone(meta.name):
            return await self.patch(meta, {"metadata": {"finalizers": left or None}})  # null: none is left
        return meta

    async def report(self, meta: ObjectMeta, before: Value, after: Value) -> bool:
        """Write the status ``after`` if it differs from ``before``, which was read; whether it did."""
        patch = merge_patch(before, after)
        if patch:
            await self.patch(meta, {"status": patch}, subresource="status")
        return bool(patch)
