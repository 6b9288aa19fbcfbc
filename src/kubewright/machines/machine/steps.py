"""The closed set of effects on one machine, and the plan that carries them.

Theory.      A plan is a value: what to do, when to look again, what to report, and why. ``act``
             performs the steps in order and stops at the first that fails; because every step is
             idempotent and derived from what exists, a plan cut short is simply decided anew.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kubewright.api.machine.names import EventReason, OperationState, OperationType, Phase
from kubewright.base import plan
from kubewright.driver.contract import Instance
from kubewright.driver.life.seen import Verb
from kubewright.nodes.drain.plan import DrainPlan
from kubewright.nodes.drain.volumes import Attachment


@dataclass(frozen=True, slots=True)
class PatchStep:
    """Send this patch."""

    patch: Mapping[str, Any]


class NodePatch(PatchStep):
    """Send this merge patch of the Node."""


class NodeStatusPatch(PatchStep):
    """Send this strategic merge patch of the Node's status."""


class AddFinalizer(PatchStep):
    """Put our finalizer and a deletion priority onto a machine that lacks them."""


@dataclass(frozen=True, slots=True)
class Call:
    """Start a driver call in the background; the machine is enqueued again when it ends."""

    verb: Verb


@dataclass(frozen=True, slots=True)
class Record:
    """Write the VM's providerID and node name onto the machine."""

    instance: Instance
    annotations: Mapping[str, str | None] = field(default_factory=dict)
    """What the VM has of its class, in the same write (``applied``)."""


@dataclass(frozen=True, slots=True)
class DeleteMachine:
    """Delete the Machine object, as ``kubectl delete`` would; ``because`` is the event's message."""

    because: str


class Annotate(PatchStep):
    """Change the machine's own annotations."""


@dataclass(frozen=True, slots=True)
class UpdateVm(PatchStep):
    """Mark the machine, and then have the driver make its VM what ``goal`` says, in the background.

    ``patch`` is of the machine's metadata; with no annotations in it the marks are there. ``before`` is all
    that the VM may have by updates; None: not known.
    """

    goal: Mapping[str, Any]
    before: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class EndPreservation:
    """Remove the expiry, the last trace of a preservation. ``because`` is the event's message."""

    because: str


class SetPreservationMarks(NodePatch):
    """Put the marks of a preserved machine on its Node, or take them off."""


class SetPreservedCondition(NodeStatusPatch):
    """Write the Node's condition ``Preserved``: until when it is kept, or that it no longer is."""


class SyncNode(NodePatch):
    """Bring labels, annotations and taints of the Node in line with the machine's template."""


class SyncCapacity(NodeStatusPatch):
    """Bring the Node's capacity in line with the virtual capacity of the machine's class."""


class Cordon(NodePatch):
    """Make this Node unschedulable."""


class SetUpdateCondition(NodeStatusPatch):
    """Write the Node's condition ``InPlaceUpdate``: how far its update in place is."""


class SetTerminatingCondition(NodeStatusPatch):
    """Write the Node's condition ``Terminating``: why its machine is being deleted."""


class SetDrainFailedCondition(NodeStatusPatch):
    """Write the Node's condition ``DrainFailed``: what holds its drain up, or that it goes on after all."""


@dataclass(frozen=True, slots=True)
class Drain:
    """One pass of a drain: evict some pods, delete others. Disruption budgets may refuse an eviction."""

    plan: DrainPlan


@dataclass(frozen=True, slots=True)
class DeleteVolumeAttachments:
    """Delete these VolumeAttachments without waiting for their detachment."""

    attachments: tuple[Attachment, ...]


@dataclass(frozen=True, slots=True)
class DeleteNode:
    """Remove the Node object, if it is still the one we saw.

    ``finalizers``: what is left of them without MCM's, in the ``version`` that we saw; None when it has none
    of MCM's. The version makes no other step: a heartbeat changes it.
    """

    name: str
    uid: str
    finalizers: tuple[str, ...] | None = None
    version: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class DeleteBootstrapToken:
    """Delete the bootstrap token, if there is one: it was used, or never will be."""


@dataclass(frozen=True, slots=True)
class RemoveFinalizer:
    """Take our finalizer off: nothing of this machine exists any more."""


NodeStep = (
    SyncNode
    | SyncCapacity
    | SetPreservationMarks
    | SetPreservedCondition
    | Cordon
    | SetUpdateCondition
    | SetTerminatingCondition
    | SetDrainFailedCondition
    | Drain
    | DeleteVolumeAttachments
    | DeleteNode
)
MachineStep = (
    AddFinalizer
    | Call
    | Record
    | Annotate
    | UpdateVm
    | EndPreservation
    | DeleteMachine
    | DeleteBootstrapToken
    | RemoveFinalizer
)
Step = MachineStep | NodeStep


@dataclass(frozen=True, slots=True)
class Report:
    """What the status shall say.

    ``joining``: the machine is Pending, its VM complete, its node awaited (``timeoutActive``).
    ``exact``: the description changes only when the facts do, so a new one is written soon.
    """

    phase: Phase
    type: OperationType
    state: OperationState
    description: str
    error_code: str = ""
    joining: bool = False
    exact: bool = False


@dataclass(frozen=True, slots=True)
class Milestone:
    """A stage that a machine has reached: a line of the log, and if ``event`` a Normal event, too.

    A state that most machines pass quickly becomes an event only if it lasts, as with the status.
    """

    reason: EventReason
    message: str
    event: bool = True


@dataclass(frozen=True, slots=True)
class Plan(plan.Plan[Step]):
    """What to do now, and what to say. A machine's deciders are ordered by dependency: what a later one would
    decide rests on what this one does first. So the first plan ends the pass.

    At most one step of a plan, but for the status, patches the machine: each carries the version that was
    seen, and a second one would meet a conflict.

    ``warning`` is the reason and message of a Warning event, sent after the steps if the report changed the
    status, or if there is no report. With ``topics`` it is sent only if one of them is new: the message may
    change (counts, times) while its topics stay. A ``milestone`` is sent under the same condition.
    """

    report: Report | None = None
    warning: tuple[str, str] | None = None
    topics: frozenset[str] = frozenset()
    milestone: Milestone | None = None

    @property
    def ends_the_pass(self) -> bool:
        return True
