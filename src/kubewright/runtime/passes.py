"""The last pass of each key: the plan that it made, how it ended, and when the next one comes.

Theory.      A pass is one call of ``reconcile``. Its plan, which has a reason, is forgotten when the pass
             ends; users ask later why an object is as it is. So the controller keeps one small record for
             each key: what enqueued it, the plan of its reconciler (``planned``), how the pass ended, and
             when the next one follows at the latest. The record also says since when passes have given this
             reason, what they wait for and since when, and which pass had steps last. No decision reads these
             records.
             A pass that says nothing, not even a failure, found no object: its key's record goes.
Invariants.  Bounded: a controller keeps records of ``KEPT`` keys, and drops the one that was looked at
             longest ago. A record is words about an object, as events are, and no contents of objects.
Called by    ``kernel``, and reconcilers (``planned``, ``idle``, ``failed``); ``controller`` (keeps them);
             ``manager`` (serves them as ``/debug/plans``). The records are in ``records``.
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from itertools import islice
from sys import intern
from typing import Any

import structlog

from kubewright.base.limits import MESSAGE_CHARS
from kubewright.base.plan import Awaited, Plan
from kubewright.runtime.records import Acted, Pass, Waited
from kubewright.wire.gvk import Key

KEPT = 20_000
"""Records of one controller; one takes about 0.6 KiB."""

WAITS_KEPT = 8
"""Things that one pass waits for; of more, the first are kept."""

log = structlog.get_logger("kubewright.plan")


@dataclass(slots=True)
class Noted:
    """What the reconciler has said so far in the pass that runs now; ``silent``: neither plan nor reason."""

    because: str = ""
    steps: tuple[str, ...] = ()
    awaits: tuple[Awaited, ...] = ()
    error: str = ""
    silent: bool = False


_noted: ContextVar[Noted | None] = ContextVar("noted", default=None)


@contextmanager
def noting() -> Iterator[Noted]:
    """Collect what one pass says by ``planned`` and ``idle``; the controller enters this around each pass."""
    noted = Noted(silent=True)
    token = _noted.set(noted)
    try:
        yield noted
    finally:
        _noted.reset(token)


def planned(plan: Plan[Any]) -> None:
    """Say which plan this pass has: in the log, and in the record of its key. The last one counts."""
    steps = [_name(step) for step in plan.steps]
    log.debug("plan", because=plan.because, steps=steps)
    if (noted := _noted.get()) is not None:
        noted.because, noted.steps, noted.silent = plan.because, tuple(steps), False
        noted.awaits = plan.awaits


def idle(because: str, *awaits: Awaited) -> None:
    """Say why this pass makes no plan, and what it waits for."""
    log.debug("idle", because=because)
    if (noted := _noted.get()) is not None:
        noted.because, noted.steps, noted.silent = because, (), False
        noted.awaits = awaits


def failed(error: str) -> None:
    """Say what failed in this pass, where the reconciler handles the failure itself and raises nothing."""
    if (noted := _noted.get()) is not None:
        noted.error = error


class Passes:
    """The records of one controller, by key."""

    def __init__(self, controller: str, limit: int = KEPT) -> None:
        self._controller = controller
        self._limit = limit
        self._kept: OrderedDict[Key, Pass] = OrderedDict()

    def keep(
        self,
        key: Key,
        noted: Noted,
        *,
        why: str,
        at: datetime,
        seconds: float,
        after: float | None,
        then: str,
    ) -> None:
        """Keep a pass that has ended; drop what was kept if the object is gone.

        Args:
            key: whose.
            noted: what the pass said.
            why: what enqueued the key.
            at: when the pass began.
            seconds: how long it took.
            after: in how many seconds the key is looked at again at the latest; None: on a change.
            then: why it is looked at again then.
        """
        # ``at`` is the begin of the pass, and ``after`` counts from its end.
        before = self._kept.pop(key, None)
        if noted.silent and not noted.error:
            return
        said = noted.because[:MESSAGE_CHARS], noted.error[:MESSAGE_CHARS]
        same = before is not None and (before.because, before.error) == said
        acted = before.acted if before is not None else None
        if noted.steps:
            acted = Acted(at=at, because=said[0], steps=noted.steps)
        self._kept[key] = Pass(
            controller=self._controller,
            namespace=key.namespace,
            name=key.name,
            at=at,
            seconds=round(seconds, 6),
            why=why,
            because=said[0],
            steps=noted.steps,
            since=before.since if before is not None and same else at,
            waits=_waited(noted.awaits, before, at),
            error=said[1],
            next=None if after is None else at + timedelta(seconds=seconds + after),
            next_because=then,
            acted=acted,
        )
        if len(self._kept) > self._limit:
            self._kept.popitem(last=False)

    def drop(self, key: Key) -> None:
        """Keep nothing of this key, for which another process decides now."""
        self._kept.pop(key, None)

    def find(self, *, namespace: str = "", name: str = "") -> list[Pass]:
        """The records of a namespace, of a name, or of both; empty means any."""
        if namespace and name:
            found = self._kept.get(Key(namespace, name))
            return [] if found is None else [found]
        return [
            each
            for key, each in self._kept.items()
            if namespace in ("", key.namespace) and name in ("", key.name)
        ]


def _waited(awaits: Iterable[Awaited], before: Pass | None, at: datetime) -> tuple[Waited, ...]:
    """What this pass waits for, with the times at which the passes before it began to."""
    known = {each.what: each.since for each in before.waits} if before is not None else {}
    found = []
    for each in islice(awaits, WAITS_KEPT):
        what = each.what[:MESSAGE_CHARS]
        since = each.since or known.get(what, at)
        found.append(Waited(what=what, remedy=each.remedy[:MESSAGE_CHARS], since=since))
    return tuple(found)


def _name(step: object) -> str:
    return intern(str(step.value) if isinstance(step, Enum) else type(step).__name__)
