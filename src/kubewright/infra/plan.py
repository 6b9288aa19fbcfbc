"""What the plans for machines and for clusters have in common: a report, and an event.

Theory.      A report is one condition, which the status is computed from; the summary condition Ready follows
             it. An event is sent after the steps, and only if the report changed the status or there is no
             report: so a pass that finds nothing new sends none.
Invariants.  Pure.
Called by    ``machine.steps`` and ``cluster.decide``, whose plans add their own steps.
"""

from dataclasses import dataclass
from typing import Generic, TypeVar

from kubewright.api.cluster.v1beta1 import Condition
from kubewright.api.infra.names import EventReason
from kubewright.base import plan

S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class Event:
    """An event about the object; ``warning``: of type Warning, else Normal."""

    reason: EventReason
    message: str
    warning: bool = False


@dataclass(frozen=True, slots=True)
class ReportingPlan(plan.Plan[S], Generic[S]):
    """What to do now, and what to report.

    ``report``  the condition of the VM or of the endpoint; None: it stays as it is
    """

    report: Condition | None = None
    event: Event | None = None

    def tells(self, *, changed: bool) -> Event | None:
        """The event to send, when the status was changed or not."""
        return self.event if changed or self.report is None else None
