"""Hold and let go of MachineClasses and Secrets.

Theory.      Machines come and go, classes seldom do. So a class keeps its finalizer between two machines,
             and is not written each time; a secret lets go with its last class, since people delete
             it when we may be gone already, with the namespace that it is in (mcm.md §8).
Called by    ``runtime.controller``; the wiring is at the end. Continues in ``decide``.
"""

from collections.abc import Iterable
from typing import TypeVar

import structlog

from kubewright.api.core import SECRET
from kubewright.api.kinds import Kind
from kubewright.api.machine import names
from kubewright.api.machine.names import EventReason
from kubewright.api.machine.v1alpha1 import MACHINE_CLASS, Machine, MachineClass
from kubewright.api.meta import KubeObject
from kubewright.kube.informer import Change
from kubewright.kube.patches import exactly
from kubewright.machines.machine.caches import Caches, class_key, secret_keys
from kubewright.machines.machineclass.decide import finalizers
from kubewright.machines.parts import Parts
from kubewright.runtime.controller import Controller
from kubewright.runtime.result import Result
from kubewright.wire.errors import ApiError, is_refusal
from kubewright.wire.gvk import Key

T = TypeVar("T", bound=KubeObject)

AGAIN_SECONDS = 180.0
"""How soon a refused finalizer is written again: as other refused writes (``machine.refusals.PAUSE``)."""

log = structlog.get_logger(__name__)


class MachineClasses:
    """A class is used while a machine refers to it."""

    def __init__(self, caches: Caches, parts: Parts) -> None:
        self._caches = caches
        self._parts = parts

    async def reconcile(self, key: Key) -> Result:
        found = self._caches.classes.get(key)
        if found is not None:
            used = self._caches.machines.count_by("class", str(key)) > 0
            return await hold(self._parts, MACHINE_CLASS, found, names.FINALIZER, used=used, lingers=True)
        return Result.done()


class Secrets:
    """A secret is used while a class refers to it."""

    def __init__(self, caches: Caches, parts: Parts) -> None:
        self._caches = caches
        self._parts = parts

    async def reconcile(self, key: Key) -> Result:
        found = self._caches.secrets.get(key)
        if found is not None:
            used = self._caches.classes.count_by("secret", str(key)) > 0
            return await hold(self._parts, SECRET, found, names.SECRET_FINALIZER, used=used, lingers=False)
        return Result.done()


async def hold(parts: Parts, kind: Kind[T], found: T, ours: str, *, used: bool, lingers: bool) -> Result:
    """Write the finalizers of ``found`` if they must change. A refusal is told, and asked for again."""
    meta = found.metadata
    wanted = finalizers(meta.finalizers, ours, used=used, deleting=meta.deleting, lingers=lingers)
    if wanted is None:
        return Result.done()
    body = {"metadata": {"finalizers": wanted, **exactly(meta)}}
    try:
        await parts.control.patch(kind, Key(meta.namespace, meta.name), body)
    except ApiError as error:
        if not is_refusal(error):
            raise
        doing = "put its finalizer on" if ours in wanted else "take its finalizer off"
        # Not the server's words: of a Secret they may quote what is in it.
        told = f"The API server refused to {doing}: {error.code} {error.reason}"
        log.warning(
            "refused", kind=kind.resource.kind, name=meta.name, namespace=meta.namespace, problem=told
        )
        parts.recorder.event(found, EventReason.FAILED_UPDATE, told, warning=True)
        return Result.later(AGAIN_SECONDS)
    return Result.done()


def wire(parts: Parts, caches: Caches) -> tuple[Controller, Controller]:
    """The two controllers, listening to what uses a class and what uses a secret."""
    clock, metrics = parts.clock, parts.metrics
    held = MachineClasses(caches, parts)
    classes = Controller("machineclass", held, clock, workers=2, metrics=metrics)
    classes.watches(caches.classes).watches(caches.machines, _class_of)
    kept = Secrets(caches, parts)
    secrets = Controller("secret", kept, clock, workers=2, metrics=metrics)
    secrets.watches(caches.secrets).watches(caches.classes, _secrets_of)
    return classes, secrets


def _class_of(change: Change[Machine]) -> Iterable[Key]:
    """A machine's class, when the machine appears, goes, or changes class."""
    if change.old is not None and change.new is not None and change.old.generation == change.new.generation:
        return ()
    before, after = (class_key(machine) if machine else None for machine in (change.before(), change.after()))
    return {key for key in (before, after) if key is not None} if before != after else ()


def _secrets_of(change: Change[MachineClass]) -> Iterable[Key]:
    both = (found for found in (change.before(), change.after()) if found is not None)
    return {key for found in both for key in secret_keys(found)}
