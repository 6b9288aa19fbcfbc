"""What a reconcile is about to do, as a value: steps, when to reconcile again, why, what to tell. Pure.

Theory.      A decision is a list of functions, its deciders. Each gets the same frozen state and returns a
             plan, or None when there is nothing to do. ``in_order`` joins the plans of the deciders, in
             their order, up to the first that is the ``last`` of the pass (one reconcile): its steps change
             what the later deciders would count.
             A plan may wait for what is not its own to do: an object, a server, a driver, a user. It names
             that in ``awaits``, with what a user can do: it may never come. ``runtime.passes`` keeps since
             when.
Invariants.  ``because`` is a clause for logs and users; every plan that has steps or a wake-up has one.
Called by    every ``decide``; each context has its own closed set of step types.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Generic, NamedTuple, Self, TypeVar

S = TypeVar("S")
P = TypeVar("P", bound="Plan[Any]")
Seen = TypeVar("Seen")
Wait = TypeVar("Wait", float, timedelta)

AT_ONCE = timedelta(0)
"""Look again at once. No more is meant by it: that no later decider is asked, a plan says in ``last``."""

SOONEST = timedelta(microseconds=1)
"""The finest that a timedelta has."""


def in_seconds(seconds: float) -> timedelta:
    """A wake-up after some seconds, never at once: rounded to zero it would repeat the pass in a loop."""
    return max(timedelta(seconds=seconds), SOONEST)


class Event(NamedTuple):
    """What users are told of an object; ``warning``: of type Warning, else Normal."""

    reason: str
    message: str
    warning: bool = False


@dataclass(frozen=True, slots=True)
class Awaited:
    """What a plan waits for.

    ``what``    it, as users know it: ``Secret demo-ca``, ``cluster default/demo``, ``FooVm a to be ready``
    ``remedy``  what a user can do if it does not come, as a clause without a subject: ``create it``
    ``since``   since when it has been waited for, where that is on record; None: since passes have named it
    """

    what: str
    remedy: str
    since: datetime | None = None


@dataclass(frozen=True, slots=True)
class Plan(Generic[S]):
    """Steps in order, and what follows.

    ``wake``    when to look again at the latest; None: on a change
    ``awaits``  what has to come from elsewhere
    ``last``    no later decider is asked in this pass: it would count what the steps of this plan change
    ``silent``  the status is not written in this pass, unless a step fails
    """

    steps: tuple[S, ...] = ()
    wake: timedelta | None = None
    because: str = ""
    awaits: tuple[Awaited, ...] = field(default=(), kw_only=True)
    last: bool = field(default=False, kw_only=True)
    silent: bool = field(default=False, kw_only=True)

    def then(self, after: Self) -> Self:
        """Both plans as one: these steps before those, the earlier wake-up, and all that is awaited."""
        because = "; ".join(each.because for each in (self, after) if each.because)
        awaits = tuple(dict.fromkeys((*self.awaits, *after.awaits)))
        last, silent = self.last or after.last, self.silent or after.silent
        steps = (*self.steps, *after.steps)
        both = replace(after, steps=steps, because=because, awaits=awaits, last=last, silent=silent)
        return both.sooner(self.wake)

    def sooner(self, wake: timedelta | None) -> Self:
        """The plan, with this wake-up if it has none or a later one."""
        return self if wake is None or soonest(self.wake, wake) == self.wake else replace(self, wake=wake)


def in_order(
    deciders: Iterable[Callable[[Seen], P | None]], seen: Seen, plan: P, *, otherwise: str = ""
) -> P:
    """``plan``, then the plans of all deciders up to the first that is the ``last``.

    ``otherwise``: the reason of the result if none of them gives one.
    """
    for decider in deciders:
        if (found := decider(seen)) is not None:
            begun = plan.because or plan.steps or plan.awaits or plan.wake is not None
            plan = plan.then(found) if begun else found
            if found.last:
                break
    return plan if plan.because else replace(plan, because=otherwise)


def soonest(*wakes: Wait | None) -> Wait | None:
    """The earliest of some wake-ups; None when none is set."""
    return min((wake for wake in wakes if wake is not None), default=None)
