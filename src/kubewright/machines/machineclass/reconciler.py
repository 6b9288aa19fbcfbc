"""Hold and let go of MachineClasses and Secrets.

Called by    ``runtime.controller``; the wiring is at the end. Continues in ``decide``.
"""

from collections.abc import Iterable
from typing import TypeVar

from kubewright.api.core import SECRET
from kubewright.api.kinds import Kind
from kubewright.api.machine import names
from kubewright.api.machine.v1alpha1 import MACHINE_CLASS, Machine, MachineClass
from kubewright.api.meta import KubeObject
from kubewright.kube.client import Client
from kubewright.kube.informer import Change
from kubewright.machines.machine.caches import Caches, class_key, secret_keys
from kubewright.machines.machineclass.decide import finalizers
from kubewright.machines.parts import Parts
from kubewright.runtime.controller import Controller
from kubewright.runtime.result import Result
from kubewright.wire.gvk import Key

T = TypeVar("T", bound=KubeObject)


class MachineClasses:
    """A class is used while a machine refers to it."""

    def __init__(self, caches: Caches, client: Client) -> None:
        self._caches = caches
        self._client = client

    async def reconcile(self, key: Key) -> Result:
        found = self._caches.classes.get(key)
        if found is not None:
            used = self._caches.machines.count_by("class", str(key)) > 0
            await hold(self._client, MACHINE_CLASS, found, names.FINALIZER, used)
        return Result.done()


class Secrets:
    """A secret is used while a class refers to it."""

    def __init__(self, caches: Caches, client: Client) -> None:
        self._caches = caches
        self._client = client

    async def reconcile(self, key: Key) -> Result:
        found = self._caches.secrets.get(key)
        if found is not None:
            used = self._caches.classes.count_by("secret", str(key)) > 0
            await hold(self._client, SECRET, found, names.SECRET_FINALIZER, used)
        return Result.done()


async def hold(client: Client, kind: Kind[T], found: T, ours: str, used: bool) -> None:
    """Write the finalizers of ``found`` if they must change."""
    meta = found.metadata
    wanted = finalizers(meta.finalizers, ours, used=used, deleting=meta.deleting)
    if wanted is not None:
        body = {"metadata": {"finalizers": wanted, "uid": meta.uid, "resourceVersion": meta.resource_version}}
        await client.patch(kind, Key(meta.namespace, meta.name), body)


def wire(parts: Parts, caches: Caches) -> tuple[Controller, Controller]:
    """The two controllers, listening to what uses a class and what uses a secret."""
    clock, metrics = parts.clock, parts.metrics
    held = MachineClasses(caches, parts.control)
    classes = Controller("machineclass", held, clock, workers=2, metrics=metrics)
    classes.watches(caches.classes).watches(caches.machines, _class_of)
    kept = Secrets(caches, parts.control)
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
