"""Several drivers as one: a request goes to the driver that its class names.

Theory.      An object of ours says which driver makes it. A controller should not have to know how many there
             are: it has one driver, and this one looks at ``MachineClass.provider``.
Invariants.  A class that names no driver means the program's own. One that names a driver which is not there
             is told so by an error of the vocabulary, as by any driver: ``InvalidArgument``; but where one
             driver stands for several clouds, any other name is for it to know. Where names are not the
             program's to give, as the provider of a MachineClass, the program's own driver is asked instead,
             which says itself for whom a class is. A driver that does not offer ``volume_ids`` hides those of
             no other.
Called by    ``infra`` and ``machines``, with guarded drivers (``driver.guard``) inside.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from kubewright.api.machine.v1alpha1 import MachineClass
from kubewright.driver.contract import (
    ClassRequest,
    Driver,
    Endpoints,
    Instance,
    MachineRequest,
    OldClass,
    Reached,
    Several,
    Size,
    VolumeSpec,
)
from kubewright.driver.errors import InvalidArgument, Unimplemented
from kubewright.driver.guard import GuardedDriver
from kubewright.wire.gvk import Resource


class RoutedDriver:
    """The drivers of this program by name; itself a ``Driver`` with ``Endpoints``. ``own`` is one of them;
    ``strict``: what names another one is not for it."""

    def __init__(self, drivers: Mapping[str, GuardedDriver], own: str, *, strict: bool = True) -> None:
        self._drivers = drivers
        self._own = own
        self._strict = strict

    def problem(self, name: str) -> str:
        """Why no driver of this name can be asked, in a clause; empty if one can."""
        if self._named(name) is not None:
            return ""
        known = ", ".join(sorted(self._drivers)) or "none"
        return f"driver {name!r} does not run in this program, only: {known}"

    async def create(self, request: MachineRequest) -> Instance:
        return await self._of(request).create(request)

    async def initialize(self, request: MachineRequest) -> Instance:
        return await self._of(request).initialize(request)

    async def delete(self, request: MachineRequest) -> str | None:
        return await self._of(request).delete(request)

    async def status(self, request: MachineRequest) -> Instance:
        return await self._of(request).status(request)

    async def list(self, request: ClassRequest) -> Sequence[Instance]:
        return await self._of(request).list(request)

    async def volume_ids(self, volumes: Sequence[VolumeSpec]) -> Sequence[str]:
        """Of all drivers that offer this: each leaves out the volumes of other clouds.

        Raises:
            Unimplemented: none does.
        """
        found: dict[str, Sequence[str]] = {}
        for name, driver in self._drivers.items():
            with suppress(Unimplemented):
                found[name] = await driver.volume_ids(volumes)
        if not found:
            raise Unimplemented("no driver of this program tells the volumes of its cloud")
        return [each for volumes in found.values() for each in volumes]

    async def endpoint(self, request: ClassRequest) -> tuple[str, int]:
        return await self._of(request).endpoint(request)

    async def release(self, request: ClassRequest) -> None:
        await self._of(request).release(request)

    async def size(self, request: ClassRequest) -> Size:
        return await self._of(request).size(request)

    async def validate(self, request: ClassRequest) -> None:
        await self._of(request).validate(request)

    async def console(self, request: MachineRequest) -> str:
        return await self._of(request).console(request)

    def hot_fields(self, machine_class: MachineClass) -> Sequence[str]:
        return self._of_class(machine_class).hot_fields(machine_class)

    async def update(self, request: MachineRequest, last_applied: Mapping[str, Any] | None) -> None:
        await self._of(request).update(request, last_applied)

    def migrated_kinds(self) -> Sequence[Resource]:
        """Those of all drivers."""
        return [kind for each in self._drivers.values() for kind in each.migrated_kinds()]

    async def generate_machine_class(self, old: OldClass) -> MachineClass:
        """By the first driver that migrates this kind.

        Raises:
            Unimplemented: none does.
        """
        for each in self._drivers.values():
            if old.resource in each.migrated_kinds():
                return await each.generate_machine_class(old)
        raise Unimplemented(f"no driver of this program migrates {old.resource.kind}")

    def offers_endpoints(self, name: str) -> bool:
        """Whether the driver of this name gives API servers their addresses."""
        guarded = self._named(name)
        return guarded is not None and isinstance(guarded.driver, Endpoints)

    def _of(self, request: MachineRequest | ClassRequest) -> GuardedDriver:
        return self._of_class(request.machine_class)

    def _of_class(self, machine_class: MachineClass) -> GuardedDriver:
        name = machine_class.provider
        found = self._named(name)
        if found is None:
            raise InvalidArgument(self.problem(name))
        return found

    def _named(self, name: str) -> GuardedDriver | None:
        """The driver of this name; else one that stands for several, and may have it (``providers.grpc``)."""
        if (name or self._own) in self._drivers:
            return self._drivers[name or self._own]
        several = (each for each in self._drivers.values() if isinstance(each.driver, Several))
        return next(several, None if self._strict else self._drivers[self._own])


def reached(drivers: Mapping[str, Driver], own: str, provider: str) -> str:
    """Which driver makes the VMs of classes with this provider, and whether it is there, as a clause; empty
    without drivers. ``own`` is for classes that name none of ``drivers``. Pure."""
    several = {name: each for name, each in drivers.items() if isinstance(each, Reached)}
    name = provider or own
    if name not in drivers:
        name = next(iter(several), own)
    if (found := several.get(name)) is not None:
        return found.reached(provider)
    return f"{name}, in the manager's process" if name in drivers else ""
