"""Drivers by name: every installed one comes through the same door; and several drivers as one.

Theory.      A driver is an entry point of group ``kubewright.drivers`` whose object is a factory:
             settings in, driver out. In-tree drivers have no shortcut, so the door cannot rot.
             A driver's module may list its options as ``OPTIONS``: then a variable of the environment that is
             none of them is told, and not given to it (``from_environment``).
             An object of ours says which driver makes it. A controller should not have to know how many there
             are: it has one driver (``RoutedDriver``), and this one looks at ``MachineClass.provider``.
Invariants.  A class that names no driver means the program's own. One that names a driver which is not there
             is told so by an error of the vocabulary, as by any driver: ``InvalidArgument``; but where one
             driver stands for several clouds, any other name is for it to know. Where names are not the
             program's to give, as the provider of a MachineClass, the program's own driver is asked instead,
             which says itself for whom a class is. A driver that does not offer ``volume_ids`` hides those of
             no other.
             Nothing is imported before its name is asked for. A name that no distribution offers, or two of
             them, is for the user to settle, and the message says how. Whatever a plugin raises while it is
             imported or made becomes one sentence that names it.
Called by    ``compose``; the command line lists ``names`` in its help.
"""

import inspect
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, cast

from kubewright.api.machine.v1alpha1 import MachineClass
from kubewright.base.clock import Clock
from kubewright.base.errors import InvalidInput
from kubewright.base.limits import MESSAGE_CHARS
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

GROUP = "kubewright.drivers"
"""The entry point group; in a plugin's pyproject.toml: ``[project.entry-points."kubewright.drivers"]``."""

PREFIX = "MC_"
"""Of variables of the environment that are a driver's options (PRC-01)."""

VERBS = ("create", "initialize", "delete", "status", "list", "volume_ids")


@dataclass(frozen=True, slots=True)
class Settings:
    """What every driver is given.

    ``data_dir`` is a folder that the driver may write to, None for "keep everything in memory".
    ``options``  are the driver's own options, as text; a driver refuses those it does not know.
    ``used``     a driver had this folder before, perhaps another one: if it was this one, what it keeps there
                 must be there, or is lost.
    ``beside``   the names of the other drivers of this process: classes that name one of these are theirs.
    """

    clock: Clock
    data_dir: Path | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    used: bool = False
    beside: frozenset[str] = frozenset()


Factory = Callable[[Settings], Driver]


def installed() -> tuple[EntryPoint, ...]:
    """The entry points of every driver that is installed."""
    return tuple(entry_points(group=GROUP))


def names(found: Iterable[EntryPoint] | None = None) -> tuple[str, ...]:
    """The names that ``load`` understands, sorted."""
    return tuple(sorted({point.name for point in (installed() if found is None else found)}))


def load(name: str, settings: Settings, found: Iterable[EntryPoint] | None = None) -> Driver:
    """Make the driver of that name. ``found`` replaces what is installed, for tests and embedders.

    Raises:
        InvalidInput: no such driver, several of them, or one that cannot be imported or made.
    """
    point = _only(name, installed() if found is None else tuple(found))
    factory = _factory(point)
    try:
        made: object = factory(settings)
    except InvalidInput:
        raise  # the driver says itself what is wrong with its options
    except (Exception, SystemExit) as error:  # a plugin's factory may raise anything
        raise _unusable(point, "cannot be made", error) from error
    if inspect.iscoroutine(made):
        made.close()  # else Python says at the end that it was never awaited
    if lacking := [verb for verb in VERBS if not callable(getattr(made, verb, None))]:
        kind = type(made).__name__
        raise InvalidInput(
            f"driver {name!r} ({point.value}) is none: its factory made a {kind} without {', '.join(lacking)}"
        )
    return cast("Driver", made)


def options_of(name: str, found: Iterable[EntryPoint] | None = None) -> frozenset[str] | None:
    """The options that a driver says that it has, in ``OPTIONS`` of its module; None if it does not say.

    Raises:
        InvalidInput: as ``load``.
    """
    point = _only(name, installed() if found is None else tuple(found))
    _factory(point)
    said = getattr(sys.modules.get(point.module), "OPTIONS", None)
    return None if said is None else frozenset(map(str, said))


def from_environment(
    environ: Mapping[str, str], known: Iterable[str] | None
) -> tuple[dict[str, str], list[str]]:
    """The options of a driver that variables with the prefix ``MC_`` give, and the names of those variables
    that give none of the ``known`` ones. Pure.

    ``MC_ENDPOINT_URL``, ``MC_ENDPOINTURL`` and ``MC_endpointUrl`` are the option ``endpointUrl``. Where it is
    not known which options there are, the first and the last are. An empty variable is not given.

    Raises:
        InvalidInput: two variables give the same option. Values are in no message.
    """
    names = None if known is None else {_folded(each): each for each in known}
    given: dict[str, str] = {}
    sources: dict[str, str] = {}
    unknown = []
    for variable in sorted(environ):
        word = variable.removeprefix(PREFIX)
        if word in (variable, "") or not environ[variable]:
            continue
        option = _camel(word) if names is None else names.get(_folded(word), "")
        if not option:
            unknown.append(variable)
        elif option in given:
            raise InvalidInput(
                f"{sources[option]} and {variable} are the same option of the driver: {option}"
            )
        else:
            given[option], sources[option] = environ[variable], variable
    return given, unknown


def _folded(name: str) -> str:
    return name.replace("_", "").lower()


def _camel(word: str) -> str:
    """``ENDPOINT_URL`` to ``endpointUrl``; what has small letters stays."""
    if word != word.upper():
        return word
    first, *rest = word.lower().split("_")
    return first + "".join(part.capitalize() for part in rest)


def _only(name: str, points: tuple[EntryPoint, ...]) -> EntryPoint:
    matching = {point.value: point for point in points if point.name == name}
    if not matching:
        known = ", ".join(names(points)) or "none"
        raise InvalidInput(f"there is no driver {name!r}; installed drivers: {known}")
    if len(matching) > 1:
        places = " and ".join(sorted(matching))
        raise InvalidInput(f"driver {name!r} is offered more than once, by {places}; uninstall all but one")
    return next(iter(matching.values()))


def _factory(point: EntryPoint) -> Factory:
    try:
        factory = point.load()
    except (Exception, SystemExit) as error:  # a plugin's module runs code of its own when it is imported
        raise _unusable(point, "cannot be loaded", error) from error
    if not callable(factory):
        raise InvalidInput(f"driver {point.name!r} ({point.value}) is no factory: it cannot be called")
    made: Factory = factory
    return made


def _unusable(point: EntryPoint, what: str, error: BaseException) -> InvalidInput:
    kind = "" if isinstance(error, ImportError | AttributeError) else f"{type(error).__name__}: "
    told = " ".join(str(error).split())[:MESSAGE_CHARS]
    return InvalidInput(f"driver {point.name!r} ({point.value}) {what}: {kind}{told}")


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
