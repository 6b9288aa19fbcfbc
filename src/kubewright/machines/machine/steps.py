"""The closed set of effects on one machine, and the plan that carries them.

Theory.      A plan is a value: what to do, when to look again, what to report, and why. ``act``
             performs the steps in order and stops at the first that fails; because every step is
             idempotent and derived from what exists, a plan cut anywhere is simply made anew.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from typing import Any

from kubewright.api.machine.names import EventReason, OperationState, OperationType, Phase
from kubewright.driver.contract import Instance
from kubewright.nodes.drain.plan import DrainPlan


class Verb(Enum):
    """What a cloud call is for."""

    ENSURE = "ensure"
    """Find the VM, or make it, and initialize it."""

    LOOK = "look"
    """Only find out whether there is a VM."""

    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class Adorn:
    """Put what every machine of ours carries onto one that somebody else made: finalizer, priority."""

    patch: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Call:
    """Start a cloud call beside the workers; it wakes the machine when it is over."""

    verb: Verb


@dataclass(frozen=True, slots=True)
class Record:
    """Write down which VM this machine is: providerID, node name."""

    instance: Instance


@dataclass(frozen=True, slots=True)
class DeleteMachine:
    """Delete the Machine object, as a person would; ``because`` is the sentence of the event."""

    because: str


@dataclass(frozen=True, slots=True)
class Annotate:
    """Change the machine's own annotations."""

    patch: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class EndPreservation:
    """Take the expiry off the machine: nothing of its preservation is left. ``because`` is for the event."""

    because: str


@dataclass(frozen=True, slots=True)
class MarkPreserved:
    """Put the marks of a preserved machine on its Node, or take them off."""

    patch: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class SayPreserved:
    """Tell the Node's readers until when it is kept, or that it is not: the ``Preserved`` condition."""

    patch: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class SyncNode:
    """Bring labels, annotations and taints of the Node in line with the machine's template."""

    patch: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Cordon:
    """No new pods on this Node."""

    patch: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class MarkTerminating:
    """Tell the Node's readers why it goes: the ``Terminating`` condition."""

    patch: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Drain:
    """One pass of a drain: ask these pods to leave, remove those. Disruption budgets may say no."""

    plan: DrainPlan


@dataclass(frozen=True, slots=True)
class ReleaseVolumes:
    """Delete these VolumeAttachments: their node will not do it any more."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DeleteNode:
    """Remove the Node object, if it is still the one we saw.

    ``finalizers``: what is left of them without MCM's; None when it has none of MCM's.
    """

    name: str
    uid: str
    finalizers: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class DropToken:
    """Delete the bootstrap token: it was used, or never will be."""


@dataclass(frozen=True, slots=True)
class Release:
    """Take our finalizer off: nothing of this machine exists any more."""


NodeStep = (
    SyncNode | MarkPreserved | SayPreserved | Cordon | MarkTerminating | Drain | ReleaseVolumes | DeleteNode
)
MachineStep = Adorn | Call | Record | Annotate | EndPreservation | DeleteMachine | DropToken | Release
Step = MachineStep | NodeStep


@dataclass(frozen=True, slots=True)
class Report:
    """What the status shall say. ``phase`` None keeps the phase.

    ``joining``: of a Pending machine, its VM is whole and its node is waited for (``timeoutActive``).
    ``exact``: the words change only when the matter does, so that new ones are worth a write.
    """

    phase: Phase | None
    type: OperationType
    state: OperationState
    description: str
    error_code: str = ""
    joining: bool = False
    exact: bool = False


@dataclass(frozen=True, slots=True)
class Milestone:
    """Something that happened in a machine's life: a line of the log, and where ``event`` a Normal event.

    A state that most machines pass quickly is an event only where it lasts, as with the status.
    """

    reason: EventReason
    message: str
    event: bool = True


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do now, what to say, and when to look again at the latest.

    ``because`` is one clause for logs. ``warning`` is an event for people, reason and message; it is
    told when the report is news, or when there is none. With ``topics`` it is told only when one of
    them is new: its words may change while the matter does not. A ``milestone`` is told under the same
    conditions, once all steps are done.
    """

    steps: tuple[Step, ...] = ()
    report: Report | None = None
    wake: timedelta | None = None
    because: str = ""
    warning: tuple[str, str] | None = None
    topics: frozenset[str] = frozenset()
    milestone: Milestone | None = None

    def sooner(self, wake: timedelta | None) -> timedelta | None:
        """The earlier of our wake-up and another."""
        return min((w for w in (self.wake, wake) if w is not None), default=None)
