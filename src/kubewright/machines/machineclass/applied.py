"""What a MachineClass is told of VMs that do not get what it says by now. Pure.

Theory.      A user changes a class in place, and expects something to come of it. Hot fields reach the VMs
             (``machines.machine.hot_update``). What does not reach them would otherwise be told on no
             object: machines are well, and go on. So the class says it, once: a condition, an event, and a
             line in the log. It says what to do: fields that are fixed need a class of another name, which
             rolls the machines of its deployments.
             Machines of a class have few different providerSpecs, so each is compared once.
Invariants.  Like Accepted the condition is written only when something speaks against it, or did. How many
             machines it is about is not in the message: that changes while a rollout goes on.
             A driver that cannot say now what it can change leaves the condition as it is, and is asked
             again.
Called by    ``acceptance``.
"""

from collections.abc import Iterable, Mapping

from kubewright.api.machine import names
from kubewright.api.machine.names import CLASS_APPLIED, NotApplied, Phase
from kubewright.api.machine.v1alpha1 import Machine, MachineClass, MachineClassCondition
from kubewright.base.limits import MESSAGE_CHARS
from kubewright.machines.machine.applied import Against, HotFields, Specs, against, specs_of

_BY_NAME = (
    "machines that are made from now on get it. To replace the others, give their MachineDeployment a class "
    "of another name (kubewright class hash)"
)
REMEDIES: Mapping[NotApplied, str] = {
    NotApplied.FIXED_FIELDS: _BY_NAME,
    NotApplied.NO_UPDATES: _BY_NAME,
    NotApplied.TOO_LARGE: "make the providerSpec smaller, or give the deployment a class of another name",
    NotApplied.OTHER_CLASS: "it is not updated by this one until it is replaced",
}
NOTES = (
    names.APPLIED_SPEC_ANNOTATION,
    names.APPLIED_CLASS_ANNOTATION,
    names.UPDATE_ANNOTATION,
)
GONE = (Phase.FAILED, Phase.TERMINATING)


def condition(
    machine_class: MachineClass, machines: Iterable[Machine], hot_fields: HotFields
) -> MachineClassCondition | None:
    """The condition that says whether the VMs of these machines have what their class says; None: the driver
    cannot say now what it can change."""
    found = different(machine_class, machines, hot_fields)
    if any(each.unknown for each in found):
        return None
    speaks = {each.kind: each for specs in found if (each := against(specs)) is not None}
    if not speaks:
        return MachineClassCondition(type=CLASS_APPLIED, status="True", reason=CLASS_APPLIED)
    first = next(speaks[kind] for kind in NotApplied if kind in speaks)
    return MachineClassCondition(
        type=CLASS_APPLIED, status="False", reason=first.kind, message=_sentence(first)[:MESSAGE_CHARS]
    )


def different(
    machine_class: MachineClass, machines: Iterable[Machine], hot_fields: HotFields
) -> tuple[Specs, ...]:
    """What VMs of these machines have, where it is not what the class says: each kind of it once."""
    alike: dict[tuple[str | None, ...], Machine] = {}
    for machine in machines:
        there = machine.spec.provider_id and machine.status.current_status.phase not in GONE
        if there and not machine.metadata.deleting:
            alike.setdefault(tuple(machine.metadata.annotations.get(note) for note in NOTES), machine)
    found = (specs_of(each, machine_class, hot_fields) for each in alike.values())
    return tuple(each for each in found if each is not None)


def _sentence(found: Against) -> str:
    return f"Machines of this class do not have what it says: {found.told}; {REMEDIES[found.kind]}"
