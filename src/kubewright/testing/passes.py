"""Scenes for passes: a controller works on a ``Shelf``; which changes enqueue what, and what a pass writes.

Theory.      A decision is only as new as the last pass. So each change of what a look reads must enqueue the
             object, and a change of nothing that is read need not. A scene wires a controller to a shelf and
             lets it work until no key is in line; then it makes one change, and lets it work again. The
             records of the controller say which keys had a pass after that, and what enqueued them; the shelf
             says what was written. Without a change the first passes are what counts.
Invariants.  Nothing here waits for time: a key that is due later stays due, and a controller that does not
             come to rest within ``DEADLINE`` seconds is an error. A scene compares all passes, writes and
             events, not some of them: one that is not expected shows.
Called by    tests/unit/passes; authors of further controllers.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from kubewright.api.kinds import Kind
from kubewright.base.clock import Clock
from kubewright.runtime.controller import Controller
from kubewright.testing.acts import Told
from kubewright.testing.looks import Shelf, Write
from kubewright.wire.gvk import Key

DEADLINE = 5.0
"""Seconds; a pass over objects that are in caches takes one thousandth of one."""
STILL = 20
"""Turns of the event loop without a key in line; the end of a call enqueues one after fewer."""


@dataclass(frozen=True)
class Wired:
    """A controller that listens and does not work yet; ``told`` has the events that it sends. ``ends`` gives
    back what the stage took."""

    shelf: Shelf
    controller: Controller
    told: Told
    ends: Callable[[], object] = lambda: None


Stage = Callable[[], Awaitable[Wired]]
"""Sets objects on a shelf, and wires a controller to it."""
Change = Callable[[Shelf], Awaitable[object]]
"""What another client does (``Shelf.put``, ``change``, ``remove``)."""


def put(kind: Kind[Any], found: Any) -> Change:
    """Another client creates or replaces an object."""
    return lambda shelf: shelf.put(kind, found)


def changed(kind: Kind[Any], key: Key, **members: Any) -> Change:
    """Another client patches these members of an object."""
    return lambda shelf: shelf.change(kind, key, members)


def gone(kind: Kind[Any], key: Key) -> Change:
    """Another client deletes an object."""
    return lambda shelf: shelf.remove(kind, key)


@dataclass(frozen=True)
class Scene:
    """One change, or none.

    ``stage``   what there is before it
    ``change``  made when the controller is at rest; None: none is made
    ``wakes``   what enqueued each key, ``namespace/name``, that has a pass after it; None: it is not compared
    ``writes``  every write that the server got after it, in order
    ``events``  every event that was sent after it, as in ``acts.Happened``
    ``because``  the reasons that the last passes of these keys gave
    ``due``     in how long these keys have another pass at the latest; None: on a change
    ``then``    says what else must hold; an assertion error if it does not
    """

    name: str
    stage: Stage
    change: Change | None = None
    wakes: Mapping[str, str] | None = None
    writes: tuple[Write, ...] = ()
    events: tuple[tuple[str, str, str, bool], ...] = ()
    because: Mapping[str, str] = field(default_factory=dict)
    due: Mapping[str, timedelta | None] = field(default_factory=dict)
    then: Callable[[Shelf], object] = lambda _shelf: None


async def wrong(scene: Scene) -> list[str]:
    """Let the controller work, and say what differs from what the scene says."""
    wired = await scene.stage()
    try:
        return await _worked(scene, wired)
    finally:
        wired.ends()


async def _worked(scene: Scene, wired: Wired) -> list[str]:
    shelf, controller, events = wired.shelf, wired.controller, wired.told.events
    since, known, heard = shelf.clock.now(), 0, 0
    async with working(controller):
        await at_rest(controller, shelf.clock)
        if scene.change is not None:
            shelf.clock.passed += 1
            since = shelf.clock.now()
            known, heard = len(shelf.writes), len(events)
            await scene.change(shelf)
            await at_rest(controller, shelf.clock)
    last = {f"{each.namespace}/{each.name}": each for each in controller.passes.find()}
    woken = {key: each.why for key, each in last.items() if each.at >= since}
    told = [f"woken: {woken}, not {scene.wakes}"] if scene.wakes not in (None, woken) else []
    writes, sent = tuple(shelf.writes[known:]), tuple(events[heard:])
    told += [f"writes: {writes}, not {scene.writes}"] if writes != scene.writes else []
    told += [f"events: {sent}, not {scene.events}"] if sent != scene.events else []
    for key, because in scene.because.items():
        said = last[key].error or last[key].because if key in last else "it had no pass"
        told += [f"{key}: {said!r}, not {because!r}"] if said != because else []
    for key, wait in scene.due.items():
        one = last.get(key)
        left = one.next - one.at if one is not None and one.next is not None else None
        told += [f"{key} is due in {left}, not in {wait}"] if left != wait else []
    scene.then(shelf)
    return told


@asynccontextmanager
async def working(controller: Controller) -> AsyncIterator[None]:
    """A controller that works until the end of the block."""
    work = asyncio.create_task(controller.run())
    try:
        yield
    finally:
        controller.close()
        await work


async def at_rest(controller: Controller, clock: Clock) -> None:
    """Go on when no key is worked on, and none is in line, also after the calls that passes have started.

    Raises:
        TimeoutError: there is always another one.
    """
    async with asyncio.timeout(DEADLINE):
        still = 0
        while still < STILL:
            await clock.sleep(0)
            still = 0 if controller.load else still + 1
