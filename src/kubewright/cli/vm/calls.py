"""A driver, opened for one command and asked until it answers, or until the user has had enough.

Theory.      What may succeed in a moment is tried again after the pauses of a controller, until a deadline;
             each new reason is told meanwhile, since an image may be fetched for minutes. The first Ctrl-C
             ends the wait and the call; what the driver had begun by then may exist, and the caller says so.
Invariants.  A driver that is opened is closed. Commands that make nothing leave no folder where there was
             none. A call has the guard's deadline, and all tries of it have the command's.
Called by    ``command``.
"""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from kubewright.base.clock import Clock
from kubewright.base.errors import InvalidInput
from kubewright.cli.switches import Stopped
from kubewright.compose.folder import private_folder
from kubewright.driver import registry
from kubewright.driver.contract import Closing
from kubewright.driver.errors import Code, DriverError, During, Trouble
from kubewright.driver.guard import GuardedDriver

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Chosen:
    """A driver by its name, its options, and the folder that it may write to. ``given``: the user has chosen
    options or folder."""

    name: str
    folder: Path
    options: Mapping[str, str] = field(default_factory=dict)
    given: bool = False


@dataclass(frozen=True, slots=True)
class Patience:
    """How a call is repeated: what it is for, for how many seconds, and who is told why.

    ``again``: a code that is tried again although it is no passing trouble.
    """

    during: During
    seconds: float
    tell: Callable[[DriverError], None]
    again: Code | None = None


@asynccontextmanager
async def opened(chosen: Chosen, clock: Clock, *, makes: bool) -> AsyncIterator[GuardedDriver]:
    """The driver behind the guard. Where the command makes nothing (``makes``) and the folder is not there,
    it has an empty one for the time being.

    Raises:
        InvalidInput: there is no such driver, it refuses its options, or the folder cannot be used.
    """
    with tempfile.TemporaryDirectory(prefix="kubewright-vm-") as empty:
        used = _used(chosen.folder)
        kept = chosen.folder.exists() or (makes and chosen.name in registry.names())
        folder = private_folder(chosen.folder) if kept else Path(empty)
        settings = registry.Settings(clock, folder, chosen.options, used)
        driver = registry.load(chosen.name, settings)
        try:
            yield GuardedDriver(driver, clock)
        finally:
            if isinstance(driver, Closing):
                await driver.close()


def _used(folder: Path) -> bool:
    """Whether there is something in a folder."""
    try:
        return folder.is_dir() and any(folder.iterdir())
    except OSError as error:
        raise InvalidInput(f"cannot use {folder} as a data folder: {error.strerror}") from None


async def answered(call: Callable[[str], Awaitable[T]], clock: Clock, patience: Patience) -> T:
    """What the driver answers, in the end. ``call`` is given the note that the last try has left.

    Raises:
        DriverError: what it says at last.
    """
    end, state = clock.monotonic() + patience.seconds, ""
    while True:
        try:
            return await call(state)
        except DriverError as error:
            passes = error.meaning.trouble is Trouble.TRANSIENT or error.code is patience.again
            pause = error.pause(patience.during).total_seconds()
            if not passes or clock.monotonic() + pause > end:
                raise
            patience.tell(error)
            state = error.last_known_state or state
        await clock.sleep(pause)


async def unless_stopped(work: Awaitable[T], stop: asyncio.Event, told: Callable[[], None]) -> T:
    """The result of the work, or its end, when ``stop`` is set; ``told`` is called before it is waited for.

    Raises:
        Stopped: it was ended before it had a result.
    """
    task, stopped = asyncio.ensure_future(work), asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait({task, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            told()
            task.cancel()
            await asyncio.wait({task})
        if task.cancelled():
            raise Stopped("stopped")
        return task.result()
    finally:
        stopped.cancel()
