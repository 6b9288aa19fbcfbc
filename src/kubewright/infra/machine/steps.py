"""The closed set of effects on one KubewrightMachine, and the plan that carries them."""

from dataclasses import dataclass
from datetime import timedelta

from kubewright.api.cluster.v1beta1 import Condition
from kubewright.api.infra.names import EventReason
from kubewright.base import plan
from kubewright.driver.contract import Instance
from kubewright.driver.life.seen import Verb


@dataclass(frozen=True, slots=True)
class AddFinalizer:
    """Put our finalizer onto the machine, and write down as whom clouds are going to know it."""

    owner: str


@dataclass(frozen=True, slots=True)
class Call:
    """Start a driver call in the background; the machine is enqueued again when it ends."""

    verb: Verb


@dataclass(frozen=True, slots=True)
class Record:
    """Write the VM's providerID and its place onto the machine."""

    instance: Instance
    failure_domain: str | None = None


@dataclass(frozen=True, slots=True)
class RemoveFinalizer:
    """Take our finalizer off: nothing of this machine exists any more."""


Step = AddFinalizer | Call | Record | RemoveFinalizer


@dataclass(frozen=True, slots=True)
class Told:
    """An event: sent after the steps, if the report changed the status or there is no report."""

    reason: EventReason
    message: str
    warning: bool = False


@dataclass(frozen=True, slots=True)
class Plan(plan.Plan[Step]):
    """What to do now, and what to say. Each phase is about everything after it, so its plan ends the pass.

    ``report``   the condition of the VM; None: it stays as it is
    ``lasting``  the report is written only if it has been the same for so long
    """

    report: Condition | None = None
    lasting: timedelta = timedelta(0)
    told: Told | None = None

    @property
    def ends_the_pass(self) -> bool:
        return True
