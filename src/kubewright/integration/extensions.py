"""Cases and a resource tracker of other authors: from a Python file, or from an installed package.

Theory.      A file is for who tests a driver while writing it; an entry point is for who ships one. Both have
             ``CASES``, a list of ``Case``, and ``TRACKER``, a ``ResourcesTracker``; each may be missing. The
             entry point is of group ``kubewright.driver_tests``, has the name of the driver, and names a
             module.
Invariants.  Whatever such code raises becomes one sentence that names it.
Called by    ``cli.driver``.
"""

import importlib.util
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from kubewright.base.errors import InvalidInput
from kubewright.integration.cases import Case
from kubewright.integration.tracker import ResourcesTracker

GROUP = "kubewright.driver_tests"
"""The entry point group; the name is that of the driver, the object a module."""

_MODULE = "kubewright_driver_test_cases"


@dataclass(frozen=True, slots=True)
class Extension:
    """What an author adds."""

    cases: tuple[Case, ...] = ()
    tracker: ResourcesTracker | None = None

    def __add__(self, other: "Extension") -> "Extension":
        """The cases of both, and the tracker of the second, if it has one."""
        return Extension((*self.cases, *other.cases), other.tracker or self.tracker)


def from_file(path: Path) -> Extension:
    """What a file has.

    Raises:
        InvalidInput: it cannot be read or run, or what it has is not of the right types.
    """
    if not path.is_file():
        raise InvalidInput(f"--cases {path}: there is no such file")
    spec = importlib.util.spec_from_file_location(_MODULE, path)
    if spec is None or spec.loader is None:
        raise InvalidInput(f"--cases {path}: it is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[_MODULE] = module  # dataclasses look their module up
    try:
        spec.loader.exec_module(module)
    except KeyboardInterrupt:
        raise
    except (
        BaseException
    ) as error:  # it is code of another author: pytest.skip is no Exception, nor is sys.exit
        raise InvalidInput(f"--cases {path}: {type(error).__name__}: {error}") from error
    return read(module, f"--cases {path}")


def installed(driver: str, found: Iterable[EntryPoint] | None = None) -> Extension:
    """What the package of a driver has. ``found`` replaces what is installed, for tests.

    Raises:
        InvalidInput: it cannot be loaded, or what it has is not of the right types.
    """
    points = entry_points(group=GROUP) if found is None else found
    whole = Extension()
    for point in points:
        if point.name != driver:
            continue
        where = f"the cases of driver {driver!r} ({point.value})"
        try:
            module = point.load()
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # a plugin's module runs code of its own when it is imported
            raise InvalidInput(f"{where} cannot be loaded: {type(error).__name__}: {error}") from error
        whole += read(module, where)
    return whole


def read(module: Any, where: str) -> Extension:
    """What a module has.

    Raises:
        InvalidInput: ``CASES`` is no list of cases, or ``TRACKER`` no tracker.
    """
    cases, tracker = getattr(module, "CASES", ()), getattr(module, "TRACKER", None)
    if not isinstance(cases, Sequence) or not all(isinstance(each, Case) for each in cases):
        raise InvalidInput(f"{where}: CASES should be a list of kubewright.integration.Case")
    if tracker is not None and (isinstance(tracker, type) or not isinstance(tracker, ResourcesTracker)):
        raise InvalidInput(
            f"{where}: TRACKER should be an object with initialize_resources_tracker and "
            "is_orphaned_resources_available"
        )
    return Extension(tuple(cases), tracker)
