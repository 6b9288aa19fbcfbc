"""What the plans for machines and for clusters have in common: a report, and an event.

Theory.      A report is one condition, which the status is computed from; the summary condition Ready follows
             it. An event is sent after the steps, and only if the report changed the status or there is no
             report: so a pass that finds nothing new sends none. What is waited for is reported if it lasts
             (``Reported``): most waits are over in a moment, and each report costs writes of its owners, too.
Invariants.  Decisions are pure; since when a report is the same, a process remembers.
Called by    ``machine.steps`` and ``cluster.decide``, whose plans add their own steps.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Generic, TypeVar

from kubewright.api.cluster.v1beta1 import Condition
from kubewright.base import delays, plan
from kubewright.base.plan import Event

S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class ReportingPlan(plan.Plan[S], Generic[S]):
    """What to do now, and what to report.

    ``report``   the condition of the VM or of the endpoint; None: it stays as it is
    ``lasting``  the report is written only if it has been the same for so long
    """

    report: Condition | None = None
    event: Event | None = None
    lasting: timedelta = timedelta(0)

    def tells(self, *, changed: bool) -> Event | None:
        """The event to send, when the status was changed or not."""
        return self.event if changed or self.report is None else None


P = TypeVar("P", bound=ReportingPlan[Any])


def paced(plan: P, since: datetime, now: datetime) -> P:
    """The plan without a report that need not be written yet; it wakes when that must be. Pure."""
    left = plan.lasting - (now - since)
    if plan.report is None or left <= timedelta(0):
        return plan
    return replace(plan, report=None, event=None).sooner(left)


class Reported:
    """Since when the plans for each object have the report that they have now."""

    def __init__(self) -> None:
        self._since: dict[str, tuple[str, datetime]] = {}
        self._held_back: set[str] = set()
        """The objects whose report has not lasted long enough."""

    def paced(self, uid: str, plan: P, now: datetime) -> P:
        """The plan for the object with this uid, without a report that has not lasted long enough."""
        reason = plan.report.reason if plan.report is not None else ""
        known = self._since.get(uid)
        if known is None or known[0] != reason:
            known = self._since[uid] = (reason, now)
        if plan.lasting and (waiting := len(self._held_back)) > delays.MANY:
            least = timedelta(seconds=delays.for_words(waiting))
            plan = replace(plan, lasting=max(plan.lasting, least))
        found = paced(plan, known[1], now)
        (self._held_back.discard if found is plan else self._held_back.add)(uid)
        return found

    def forget(self, uid: str) -> None:
        """An object is gone for good."""
        self._since.pop(uid, None)
        self._held_back.discard(uid)
