"""Drivers by name: every installed one, ours and others', comes through the same door.

Theory.      A driver is an entry point of group ``kubewright.drivers`` whose object is a factory:
             settings in, driver out. In-tree drivers have no shortcut, so the door cannot rot.
Invariants.  Nothing is imported before its name is asked for. A name that no distribution offers, or two of
             them, is for the user to settle, and the message says how. Whatever a plugin raises while it is
             imported or made becomes one sentence that names it.
Called by    ``compose``; the command line lists ``names`` in its help.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

from kubewright.base.clock import Clock
from kubewright.base.errors import InvalidInput
from kubewright.driver.contract import Driver

GROUP = "kubewright.drivers"
"""The entry point group; in a plugin's pyproject.toml: ``[project.entry-points."kubewright.drivers"]``."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What every driver is given.

    ``data_dir`` is a folder that the driver may write to, None for "keep everything in memory".
    ``options``  are the driver's own options, as text; a driver refuses those it does not know.
    ``used``     a driver had this folder before, perhaps another one: if it was this one, what it keeps there
                 must be there, or is lost.
    """

    clock: Clock
    data_dir: Path | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    used: bool = False


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
        return factory(settings)
    except InvalidInput:
        raise  # the driver says itself what is wrong with its options
    except Exception as error:  # a plugin's factory may raise anything
        raise _unusable(point, "cannot be made", error) from error


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
    except Exception as error:  # a plugin's module runs code of its own when it is imported
        raise _unusable(point, "cannot be loaded", error) from error
    if not callable(factory):
        raise InvalidInput(f"driver {point.name!r} ({point.value}) is no factory: it cannot be called")
    made: Factory = factory
    return made


def _unusable(point: EntryPoint, what: str, error: Exception) -> InvalidInput:
    kind = "" if isinstance(error, ImportError | AttributeError) else f"{type(error).__name__}: "
    return InvalidInput(f"driver {point.name!r} ({point.value}) {what}: {kind}{error}")
