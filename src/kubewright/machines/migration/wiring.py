"""Migrate the old classes of one name: what is there, what comes next, and the writes, one after the other.

Theory.      A key is the namespace and name of a class; which kinds of that name are referred to, the caches
             of machines and sets say. The old object is read live, since its kind may not be served at all. A
             deployment is read live through its sets, so the half of machines needs no list of deployments.
Invariants.  Each write names the version that it was decided from, or is a creation under the only name that
             it can have; ``decide`` is asked after each crash anew. What lasts is told by an event on what
             refers to the class, and in the status of its machines (``OldClasses``), which are looked at
             again for each news of it.
Called by    ``machines.world``.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import timedelta
from itertools import islice
from typing import Any

from kubewright.api.kinds import Kind, Undecodable, dynamic
from kubewright.api.machine.names import EventReason
from kubewright.api.machine.v1alpha1 import (
    MACHINE,
    MACHINE_CLASS,
    MACHINE_DEPLOYMENT,
    MACHINE_SET,
    ClassSpec,
    Machine,
    MachineClass,
    MachineDeployment,
    MachineSet,
)
from kubewright.driver.contract import OldClass
from kubewright.driver.errors import Code, DriverError
from kubewright.driver.registry import RoutedDriver
from kubewright.kube.errors import MayBeGone
from kubewright.kube.informer import Change
from kubewright.kube.patches import onto
from kubewright.machines.caches import Shared
from kubewright.machines.migration.old_classes import KIND, Follow, Make, Trouble, decide, migrated
from kubewright.runtime.controller import Controller, only, spec_or_existence
from kubewright.runtime.passes import failed, idle
from kubewright.runtime.result import Result
from kubewright.wire.errors import ApiError, is_refusal
from kubewright.wire.gvk import Key, Resource

AGAIN = timedelta(minutes=1)
"""When a class is looked at again that waits for a change of itself: no watch tells of it."""

TOLD = 10
"""On how many objects a trouble is an event."""

INDEX = "old-class"


class Migration:
    """The reconciler of old classes, by namespace and name. ``driver`` has guarded ones; ``wake`` has a
    machine looked at again, for a reason."""

    def __init__(self, shared: Shared, driver: RoutedDriver, wake: Callable[[Key, str], None]) -> None:
        self._caches = shared.caches
        self._client = shared.control
        self._recorder = shared.recorder
        self._driver = driver
        self._wake = wake
        old = shared.caches.old_classes
        self._old = old
        shared.caches.machines.index(INDEX, lambda m: _names(old.of(_reference(m)), _key(m)))
        shared.caches.sets.index(INDEX, lambda s: _names(old.of(_reference(s)), _key(s)))

    async def reconcile(self, key: Key) -> Result:
        """One pass over all classes of this name that are referred to.

        Raises:
            DriverError: a driver could not answer now.
            ApiError, TransportError: the API server said no for now, or could not be asked.
        """
        sets = self._caches.sets.by(INDEX, str(key))
        machines = self._caches.machines.by(INDEX, str(key))
        references = [*map(_reference, sets), *map(_reference, machines)]
        kinds = {found.kind: found for each in references if (found := self._old.of(each)) is not None}
        self._old.forget(key, kinds)
        result = Result.done()
        if not kinds:
            idle("nothing refers to an old class of this name")
        for kind, resource in kinds.items():
            result = result.sooner(
                await self._told(
                    resource,
                    key,
                    [each for each in sets if _reference(each).kind == kind],
                    [each for each in machines if _reference(each).kind == kind],
                )
            )
        return result

    async def _told(
        self, resource: Resource, key: Key, sets: Sequence[MachineSet], machines: Sequence[Machine]
    ) -> Result:
        """Migrate one class; whatever stands in the way is told."""
        try:
            trouble = await self._migrated(resource, key, sets, machines)
        except (DriverError, ApiError) as error:
            trouble = Trouble(f'{resource.kind} "{key.name}" is not migrated: {error}')
            if isinstance(error, DriverError) or is_refusal(error):
                self._tell(resource, key, sets, machines, trouble)
            if isinstance(error, DriverError) and error.code is Code.Unimplemented:
                failed(trouble.text)
                return Result.done()
            if not (error.refuses if isinstance(error, DriverError) else is_refusal(error)):
                raise
        else:
            self._tell(resource, key, sets, machines, trouble)
        if trouble is None:
            return Result.done()
        failed(trouble.text)
        return Result.later(AGAIN)

    def _tell(
        self,
        resource: Resource,
        key: Key,
        sets: Sequence[MachineSet],
        machines: Sequence[Machine],
        trouble: Trouble | None,
    ) -> None:
        if not self._old.note(resource.kind, key, trouble) or trouble is None:
            return
        about: list[MachineSet | Machine] = [*sets]
        about += [each for each in machines if each.metadata.controller is None]
        for each in islice(about, TOLD):
            self._recorder.event(each, EventReason.FAILED_MIGRATION, trouble.text, warning=True)
        for each in machines:
            self._wake(Key(each.namespace, each.name), f'{resource.kind} "{key.name}" is not migrated')

    async def _migrated(
        self, resource: Resource, key: Key, sets: Sequence[MachineSet], machines: Sequence[Machine]
    ) -> Trouble | None:
        """All steps that are left for one class; what stands in the way, or None when all are done."""
        if problem := self._caches.classes.problem(key):
            return Trouble(f'{KIND} "{key.name}" is unreadable: {problem}')
        kind, old = dynamic(resource), None
        with MayBeGone(key.name):
            old = await self._client.get(kind, key)
        there = self._caches.classes.get(key)
        plan = decide(resource.kind, key, old, there, None)
        if plan is None and old is not None:
            made = await self._driver.generate_machine_class(OldClass(resource, old))
            plan = decide(resource.kind, key, old, there, made)
        if isinstance(plan, Trouble):
            return plan
        if isinstance(plan, Make):
            await self._make(resource, plan.machine_class)
        assert isinstance(plan, Make | Follow), "with the driver's answer there is a plan"
        if old is not None and (mark := migrated(old, resource.kind)):
            await self._client.patch(kind, key, _in_version(mark, old))
        await self._follow(resource, key, sets, machines)
        return None

    async def _make(self, resource: Resource, wanted: MachineClass) -> None:
        """Create the MachineClass. One that came in between is judged in the next pass.

        Raises:
            AlreadyExists: our cache did not show it yet.
        """
        made = await self._client.create(MACHINE_CLASS, wanted)
        told = f"Made of {resource.kind} {wanted.name}; what refers to that is changed to refer to this"
        self._recorder.event(made, EventReason.MIGRATED, told)

    async def _follow(
        self, resource: Resource, key: Key, sets: Sequence[MachineSet], machines: Sequence[Machine]
    ) -> None:
        """Change the kind in deployments, sets and machines, in this order. A deployment that cannot be read
        changes no set either, so those need not wait for it."""
        owners = {
            owner.name: owner.uid
            for each in sets
            if (owner := each.metadata.controller) is not None
            and owner.kind == MACHINE_DEPLOYMENT.resource.kind
        }
        for name, uid in sorted(owners.items()):
            with MayBeGone(name), suppress(Undecodable):
                found = await self._client.get(MACHINE_DEPLOYMENT, Key(key.namespace, name))
                refers = self._refers(found.spec.template.spec.machine_class, resource, key)
                if found.metadata.uid == uid and refers:
                    await self._repoint(MACHINE_DEPLOYMENT, found, _IN_TEMPLATE)
        for each in sets:
            with MayBeGone(each.name):
                await self._repoint(MACHINE_SET, each, _IN_TEMPLATE)
        for machine in machines:
            with MayBeGone(machine.name):
                await self._repoint(MACHINE, machine, _IN_MACHINE)

    def _refers(self, reference: ClassSpec, resource: Resource, key: Key) -> bool:
        return reference.name == key.name and self._old.of(reference) == resource

    async def _repoint(
        self, kind: Kind[Any], found: MachineDeployment | MachineSet | Machine, body: dict[str, Any]
    ) -> None:
        await self._client.patch(kind, Key(found.namespace, found.name), onto(body, found.metadata))


_IN_MACHINE: dict[str, Any] = {"spec": {"class": {"kind": KIND}}}
_IN_TEMPLATE: dict[str, Any] = {"spec": {"template": _IN_MACHINE}}


def wire(shared: Shared, driver: RoutedDriver, wake: Callable[[Key, str], None]) -> Controller:
    """The controller, listening to what refers to old classes and to MachineClasses of their names, but not
    to statuses: a driver that said no would say it again. Without a driver that migrates, it has nothing to
    do. ``wake``: as ``Migration``."""
    migration, caches = Migration(shared, driver, wake), shared.caches
    controller = Controller(
        "classmigration", migration, shared.clock, workers=2, metrics=shared.metrics, timeout=600.0
    )
    if not caches.old_classes:
        return controller

    def keys(change: Change[Machine] | Change[MachineSet]) -> Iterable[Key]:
        found = [each for each in (change.before(), change.after()) if each is not None]
        return dict.fromkeys(_key(each) for each in found if caches.old_classes.of(_reference(each)))

    def of_class(change: Change[MachineClass]) -> Iterable[Key]:
        referring = (cache.count_by(INDEX, str(change.key)) for cache in (caches.machines, caches.sets))
        return (change.key,) if any(referring) else ()

    return (
        controller.watches(caches.machines, only(spec_or_existence, keys))
        .watches(caches.sets, only(spec_or_existence, keys))
        .watches(caches.classes, of_class)
    )


def _reference(found: Machine | MachineSet) -> ClassSpec:
    return (found if isinstance(found, Machine) else found.spec.template).spec.machine_class


def _key(found: Machine | MachineSet) -> Key:
    """Where the class is."""
    return Key(found.metadata.namespace, _reference(found).name)


def _names(resource: Resource | None, key: Key) -> tuple[str, ...]:
    return () if resource is None else (str(key),)


def _in_version(patch: dict[str, Any], old: dict[str, Any]) -> dict[str, Any]:
    """The patch of an old class in the version that was read."""
    read = {name: old["metadata"][name] for name in ("uid", "resourceVersion") if name in old["metadata"]}
    return {**patch, "metadata": {**patch["metadata"], **read}}
