"""Runs a measurement in each world, and keeps what was measured when one ends before its end.

Theory.      A scenario hands over its result as soon as it begins, and fills it while it plays. So what
             was measured is there when a signal ends the run, or a wait its deadline.
Called by    ``python -m bench``.
"""

import asyncio
import signal
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from kubewright.base.errors import KubewrightError
from kubewright.testing.real_kubernetes import NoKubernetes
from kubewright.testing.real_kubernetes.capi import NoClusterApi

ENDED_BY = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
R = TypeVar("R")
Measure = Callable[[str, Callable[[R], None]], Coroutine[Any, Any, None]]
"""Measures a world; it passes its result, which it fills from then on."""


class Stuck(KubewrightError):
    """A wait ended without success; the message says what was waited for."""


@dataclass(slots=True)
class Measured(Generic[R]):
    """The results so far, and why the rest was not measured; empty: all was."""

    results: list[R] = field(default_factory=list)
    stopped: str = ""


def measured(asked: Sequence[str], measure: Measure[R]) -> Measured[R]:
    """The results of these worlds, as far as this machine has the programs."""
    found: Measured[R] = Measured()
    for world in asked:
        try:
            asyncio.run(_ended_by_signals(measure(world, found.results.append)))
        except (NoKubernetes, NoClusterApi) as error:
            print(f"without {world}: {error}")
        except asyncio.CancelledError:
            found.stopped = "a signal ended it"
        except BaseExceptionGroup as errors:  # what is raised in a group of tasks
            if (stuck := _first(errors, Stuck)) is None:
                raise
            found.stopped = str(stuck)
        if found.stopped:
            return found
    return found


async def _ended_by_signals(work: Coroutine[Any, Any, None]) -> None:
    """Work; a signal ends it, and all that it started."""
    task = asyncio.current_task()
    assert task is not None
    for number in ENDED_BY:
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    await work


def _first(errors: BaseExceptionGroup[BaseException], kind: type[Stuck]) -> Stuck | None:
    """The one error of a group, if it is of that kind and alone."""
    match errors.exceptions:
        case [kind() as error]:
            return error
        case [BaseExceptionGroup() as inner]:
            return _first(inner, kind)
    return None
