"""The closed set of effects on one KubewrightMachine, and the plan that carries them."""

from dataclasses import dataclass

from kubewright.driver.contract import Instance
from kubewright.driver.life.seen import Verb
from kubewright.infra.plan import ReportingPlan


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


@dataclass(frozen=True, slots=True)
class ReadConsole:
    """Begin to read the console of its VM; the machine is enqueued again when that is done."""


Step = AddFinalizer | Call | Record | ReadConsole | RemoveFinalizer


@dataclass(frozen=True, slots=True)
class Plan(ReportingPlan[Step]):
    """What to do now, and what to report. Only the plan of the first decider that has one is performed."""

    @property
    def ends_the_pass(self) -> bool:
        return True
