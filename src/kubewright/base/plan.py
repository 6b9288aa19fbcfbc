"""What a pass is about to do, as a value: steps, when to look again, and why. Pure.

Theory.      A decision is a list of phases. Each looks at the same picture and answers with a plan, or None
             when it has nothing to say. In most controllers the phases add up, in their order, until one
             changes what the later ones would count: a plan with steps that wants another look at once ends
             the pass (``in_order``). In others each phase is about everything that comes after it, so the
             first plan is the plan (``first``).
Invariants.  ``because`` is a clause for logs and people; every plan that does or awaits something has one.
Called by    every ``decide``; the steps of a context are its own closed set of values.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

S = TypeVar("S")
P = TypeVar("P")
Seen = TypeVar("Seen")

AT_ONCE = 0.0
"""Look again at once, because the steps of this pass change what is counted."""


@dataclass(frozen=True, slots=True)
class Plan(Generic[S]):
    """Steps in order; ``wake``: seconds until the next look at the latest, None to wait for an event."""

    steps: tuple[S, ...] = ()
    wake: float | None = None
    because: str = ""

    @property
    def ends_the_pass(self) -> bool:
        """Whether later phases have to wait for what the steps of this plan change."""
        return bool(self.steps) and self.wake == AT_ONCE


def in_order(phases: Iterable[Callable[[Seen], Plan[S]]], seen: Seen) -> Plan[S]:
    """The plans of all phases as one, up to the first that ends the pass; the earliest wake-up counts."""
    plans: list[Plan[S]] = []
    for phase in phases:
        plans.append(plan := phase(seen))
        if plan.ends_the_pass:
            break
    return Plan(
        tuple(step for plan in plans for step in plan.steps),
        soonest(*(plan.wake for plan in plans)),
        "; ".join(plan.because for plan in plans if plan.because),
    )


def first(phases: Iterable[Callable[[Seen], P | None]], seen: Seen) -> P | None:
    """The plan of the first phase that has one."""
    return next((plan for phase in phases if (plan := phase(seen)) is not None), None)


def soonest(*wakes: float | None) -> float | None:
    """The earliest of some wake-ups; None when none is set."""
    return min((wake for wake in wakes if wake is not None), default=None)
