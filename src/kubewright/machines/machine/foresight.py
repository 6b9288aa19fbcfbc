"""What is decided about a machine now, and what will be decided later if nothing but time changes. Pure.

Theory.      The decision is a function of what is seen, and time is a part of that. So the same function,
             asked with a later time, says what comes next: past its health timeout an Unknown machine is
             Failed. The plan of a drain in ``Seen`` is of the present, so the end of a drain's time is not
             foreseen.
             This file has no rule of its own about machines: it calls ``decide`` again with a later time.
Called by    ``cli.explain``.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from kubewright.machines.machine.decide import decide
from kubewright.machines.machine.seen import Seen
from kubewright.machines.machine.steps import Plan

MAX_LOOKS_AHEAD = 4
"""How many later times are tried at most: each is when the plan before it wants to look again."""


@dataclass(frozen=True, slots=True)
class Foresight:
    """``now``: the plan of this moment. ``then``: the next different one, which comes at ``at``; None where
    time alone brings none."""

    now: Plan
    then: Plan | None = None
    at: datetime | None = None


def foresee(seen: Seen, after: timedelta | None = None) -> Foresight:
    """The plan for what is seen, and the one that follows it when time alone goes on.

    ``after``: how long it is until the next pass, where a manager says that; only that time is tried then.
    None: the times at which the plans want to look again.
    """
    now = plan = decide(seen)
    for _ in range(MAX_LOOKS_AHEAD if after is None else 1):
        wait = plan.wake if after is None else after
        if wait is None or wait <= timedelta():
            break
        seen = replace(seen, now=seen.now + wait, wall=seen.wall + wait)
        plan = decide(seen)
        if (plan.because, plan.report) != (now.because, now.report):
            return Foresight(now, plan, seen.wall)
    return Foresight(now)


def outcome(plan: Plan) -> str:
    """A plan as a clause for users: the phase that it reports, its message or reason, its steps."""
    report, steps = plan.report, ", ".join(type(each).__name__ for each in plan.steps)
    phase = report.phase.value if report is not None else ""
    told = report.description.strip() if report is not None and report.description else plan.because
    return ": ".join(filter(None, (phase, told))) + (f" ({steps})" if steps else "")
