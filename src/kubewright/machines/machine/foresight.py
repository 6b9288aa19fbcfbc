"""What is decided about a machine now, and what will be if nothing changes until then. Pure.

Theory.      The decision is a function of what is seen, and time is a part of that. So the same function,
             asked with a later time, says what comes next: past its health timeout an Unknown machine is
             Failed.
             Nothing is told here that ``decide`` does not say itself.
Called by    ``cli.explain``.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from kubewright.machines.machine.decide import decide
from kubewright.machines.machine.seen import Seen
from kubewright.machines.machine.steps import Plan

AGAIN = 4
"""How many times the same decision may follow itself, each time later, before we stop asking."""


@dataclass(frozen=True, slots=True)
class Foresight:
    """``now``: the plan of this moment. ``then``: the next other one, which comes at ``at``; None where only
    a change of something else brings one."""

    now: Plan
    then: Plan | None = None
    at: datetime | None = None


def foresee(seen: Seen, after: timedelta | None = None) -> Foresight:
    """The plan for what is seen, and the one that follows it when time alone goes on.

    ``after``: ask for that time only, since it is known when the next pass comes; None: as the plans say.
    """
    now = plan = decide(seen)
    for _ in range(AGAIN if after is None else 1):
        wait = plan.wake if after is None else after
        if wait is None or wait <= timedelta():
            break
        seen = replace(seen, now=seen.now + wait, wall=seen.wall + wait)
        plan = decide(seen)
        if (plan.because, plan.report) != (now.because, now.report):
            return Foresight(now, plan, seen.wall)
    return Foresight(now)


def outcome(plan: Plan) -> str:
    """What a plan comes to, as a clause: the phase that it reports, its reason, its steps."""
    report, steps = plan.report, ", ".join(type(each).__name__ for each in plan.steps)
    phase = report.phase.value if report is not None and report.phase is not None else ""
    told = report.description.strip() if report is not None and report.description else plan.because
    return ": ".join(filter(None, (phase, told))) + (f" ({steps})" if steps else "")
