"""Drivers by name: every installed one, ours and others', comes through the same door.

Theory.      A driver is an entry point of group ``kubewright.drivers`` whose object is a factory:
             settings in, driver out. In-tree drivers have no shortcut, so the door cannot rot.
             A driver's module may list its options as ``OPTIONS``: then a variable of the environment that is
             none of them is told, and not given to it (``from_environment``).
Invariants.  Nothing is imported before its name is asked for. A name that no distribution offers, or two of
             them, is for the user to settle, and the message says how. Whatever a plugin raises while it is
             imported or made becomes one sentence that names it.
Called by    ``compose``; the command line lists ``names`` in its help.
"""

import inspect
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import cast

from kubewright.base.clock import Clock
from kubewright.base.errors import InvalidInput
from kubewright.base.limits import MESSAGE_CHARS
from kubewright.driver.contract import Driver

GROUP = "kubewright.drivers"
"""The entry point group; in a plugin's pyproject.toml: ``[project.entry-points."kubewright.drivers"]``."""

PREFIX = "MC_"
"""Of variables of the environment that are a driver's options (seed 004, Environment Variables)."""

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
