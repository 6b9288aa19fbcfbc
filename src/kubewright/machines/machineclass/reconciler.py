"""Put finalizers on MachineClasses and Secrets that are in use, and remove them.

Theory.      Machines come and go, classes seldom do. So a class keeps its finalizer between two machines,
             and is not written each time; a secret loses it with its last class, since users delete
             it when we may be gone already, with the namespace that it is in (mcm.md §8).
Called by    ``runtime.controller``; the wiring is at the end.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Generic, TypeVar

import structlog

from kubewright.api.machine import names
from kubewright.api.machine.names import EventReason
from kubewright.api.machine.v1alpha1 import Machine, MachineClass
from kubewright.api.meta import KubeObject, with_finalizer, without_finalizer
from kubewright.base import delays
from kubewright.kube.informer import Change, Informer
from kubewright.kube.patches import onto
from kubewright.machines.machine.caches import Shared, class_key, secret_keys
from kubewright.runtime.controller import Controller
from kubewright.runtime.mapping import spec_or_existence
from kubewright.runtime.result import Result
from kubewright.wire.errors import ApiError, is_refusal
from kubewright.wire.gvk import Key

T = TypeVar("T", bound=KubeObject)

log = structlog.get_logger(__name__)


class FinalizerReconciler(Generic[T]):
    """The reconciler of a kind whose objects carry the finalizer ``ours`` while ``used`` says so."""

    def __init__(
        self, shared: Shared, cache: Informer[T], used: Callable[[Key], bool], ours: str, *, lingers: bool
    ) -> None:
        self._shared = shared
        self._cache = cache
        self._used = used
        self._ours = ours
        self._lingers = lingers

    async def reconcile(self, key: Key) -> Result:
        """Write the finalizers of an object if they must change; a refusal is an event, and tried again."""
        found = self._cache.get(key)
        if found is None:
            return Result.done()
        meta, used = found.metadata, self._used(key)
        wanted = finalizers(
            meta.finalizers, self._ours, used=used, deleting=meta.deleting, lingers=self._lingers
        )
        if wanted is None:
            return Result.done()
        patch = onto({"metadata": {"finalizers": wanted}}, meta)
        try:
            await self._shared.control.patch(self._cache.kind, key, patch)
        except ApiError as error:
            if not is_refusal(error):
                raise
            doing = "put its finalizer on" if used else "take its finalizer off"
            # Not the server's words: of a Secret they may quote what is in it.
            told = f"The API server refused to {doing}: {error.code} {error.reason}"
            log.warning("refused", kind=self._cache.kind.resource.kind, object=str(key), problem=told)
            self._shared.recorder.event(found, EventReason.FAILED_UPDATE, told, warning=True)
            return Result.later(delays.REFUSED)
        return Result.done()


def finalizers(
    present: Sequence[str], ours: str, *, used: bool, deleting: bool, lingers: bool
) -> list[str] | None:
    """The finalizers that should stand, or None when they do.

    An object that is already being deleted takes no new finalizers. An object without users loses ours at
    once or, with ``lingers``, only when it is being deleted.
    """
    if used and not deleting and ours not in present:
        return with_finalizer(present, ours)
    if not used and (deleting or not lingers) and ours in present:
        return without_finalizer(present, ours)
    return None


def wire(shared: Shared) -> tuple[Controller, Controller]:
    """The two controllers, listening to what uses a class and what uses a secret."""
    caches, clock, metrics = shared.caches, shared.clock, shared.metrics
    machines, classes, secrets = caches.machines, caches.classes, caches.secrets

    def class_is_used(key: Key) -> bool:
        return machines.count_by("class", str(key)) > 0

    def secret_is_used(key: Key) -> bool:
        return classes.count_by("secret", str(key)) > 0

    of_classes = FinalizerReconciler(shared, classes, class_is_used, names.FINALIZER, lingers=True)
    of_secrets = FinalizerReconciler(shared, secrets, secret_is_used, names.SECRET_FINALIZER, lingers=False)
    return (
        Controller("machineclass", of_classes, clock, workers=2, metrics=metrics)
        .watches(classes)
        .watches(machines, _class_of),
        Controller("secret", of_secrets, clock, workers=2, metrics=metrics)
        .watches(secrets)
        .watches(classes, _secrets_of),
    )


def _class_of(change: Change[Machine]) -> Iterable[Key]:
    """A machine's class, when the machine appears, goes, or changes class."""
    if not spec_or_existence(change):
        return ()
    before, after = (class_key(machine) if machine else None for machine in (change.before(), change.after()))
    return {key for key in (before, after) if key is not None} if before != after else ()


def _secrets_of(change: Change[MachineClass]) -> Iterable[Key]:
    both = (found for found in (change.before(), change.after()) if found is not None)
    return {key for found in both for key in secret_keys(found)}
