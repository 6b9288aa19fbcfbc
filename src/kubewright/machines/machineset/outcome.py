"""How a pass went, told in events and kept for the status.

A crowd costs one event: five hundred machines made in one pass are one sentence, five are five.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from kubewright.api.machine.names import ConditionReason, EventReason
from kubewright.api.machine.v1alpha1 import MachineSet
from kubewright.base.errors import KubewrightError
from kubewright.machines.machineset.status import Failure
from kubewright.runtime.events import Teller

ONE_BY_ONE = 5
"""Machines (or errors) of one pass that are told of one by one."""

_CONDITION = {
    EventReason.FAILED_CREATE: ConditionReason.FAILED_CREATE,
    EventReason.FAILED_DELETE: ConditionReason.FAILED_DELETE,
}


@dataclass(slots=True)
class Outcome:
    """``failure`` is what the status will say; ``errors`` end the pass; ``gone``: the set is let go."""

    errors: list[KubewrightError] = field(default_factory=list)
    failure: Failure | None = None
    gone: bool = False


def tell_done(recorder: Teller, about: MachineSet, reason: EventReason, machines: Sequence[str]) -> None:
    """``Created Machine: a`` or ``Deleted machine: a``, or how many at once."""
    made = reason is EventReason.SUCCESSFUL_CREATE
    if len(machines) > ONE_BY_ONE:
        recorder.event(about, reason, f"{'Created' if made else 'Deleted'} {len(machines)} machines")
        return
    for name in machines:
        recorder.event(about, reason, f"{'Created Machine' if made else 'Deleted machine'}: {name}")


def tell_failed(
    recorder: Teller,
    about: MachineSet,
    reason: EventReason,
    errors: Sequence[KubewrightError],
    outcome: Outcome,
) -> None:
    """An event for each different error, and the first one as the pass' failure."""
    if not errors:
        return
    outcome.errors += errors
    outcome.failure = Failure(_CONDITION[reason], str(errors[0]))
    what = "Error creating" if reason is EventReason.FAILED_CREATE else "Error deleting"
    for text in dict.fromkeys(str(error) for error in errors[:ONE_BY_ONE]):
        recorder.event(about, reason, f"{what}: {text}", warning=True)
