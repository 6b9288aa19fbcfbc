"""The policy of MachineSets: what ``replicas.set`` has to know to keep as many machines as a set says.

Called by    ``machines.world``.
Source       mcm.md §1.4, §6.
"""

from collections.abc import Iterable

from kubewright.api.faults import summary
from kubewright.api.machine import names
from kubewright.api.machine.names import EventReason, Phase
from kubewright.api.machine.v1alpha1 import (
    MACHINE,
    MACHINE_DEPLOYMENT,
    MACHINE_SET,
    Machine,
    MachineSet,
    MachineSetStatus,
)
from kubewright.api.machine.validate import validate_set
from kubewright.kube.client import Client
from kubewright.machines.machineset.member import MachineMember, digest, ranking
from kubewright.machines.machineset.preservation import MachineSetSeen, keep, to_delete
from kubewright.machines.machineset.status import FROZEN, is_frozen, set_status
from kubewright.machines.machineset.template import configuration_patch, new_machine
from kubewright.replicas.set.policy import Propagation, SetEvent, SetPolicy, Words
from kubewright.replicas.set.seen import Wait


async def _create(client: Client, machine_set: MachineSet, name: str) -> None:
    await client.create(MACHINE, new_machine(machine_set, name))


def _problem(machine_set: MachineSet) -> str:
    return summary(validate_set(machine_set))


def _blocked(machine_set: MachineSet, _around: None) -> Wait | None:
    """Why no machine may be created (mcm.md §6.4)."""
    labels = machine_set.metadata.labels
    if names.frozen(labels):
        return Wait("frozen by the safety controller")
    return Wait("scale-up is disabled") if names.SCALE_UP_DISABLED_LABEL in labels else None


def _stale(seen: MachineSetSeen) -> list[MachineMember]:
    """Living machines without the template's node template and configuration (mcm.md §6.7)."""
    spec = seen.set.spec.template.spec
    wanted = {own: digest(spec, own_timeout=own) for own in (False, True)}
    return [
        member
        for member in seen.alive
        if member.propagated_digest
        and member.propagated_digest != wanted[member.own_timeout]
        and member.phase is not Phase.FAILED
    ]


def _freeze_events(before: MachineSet, status: MachineSetStatus) -> Iterable[SetEvent]:
    """An event when the set becomes frozen, and one when it no longer is, as the status says it."""
    component = names.DEPLOYMENT_COMPONENT
    if is_frozen(status) and not is_frozen(before.status):
        message = f"Froze MachineSet {before.name}: {FROZEN}"
        yield SetEvent(EventReason.FROZE_MACHINE_SET, message, component)
    elif is_frozen(before.status) and not is_frozen(status):
        message = f"Unfroze MachineSet {before.name}"
        yield SetEvent(EventReason.UNFROZE_MACHINE_SET, message, component)


MACHINE_SETS: SetPolicy[MachineSet, MachineMember, Machine] = SetPolicy(
    name="machineset",
    component=names.MACHINE_SET_COMPONENT,
    words=Words("machine", "machines", created="Created Machine: {}", deleted="Deleted machine: {}"),
    kind=MACHINE_SET,
    member=MACHINE,
    validate=_problem,
    status=set_status,
    ranking=ranking,
    create=_create,
    to_delete=to_delete,
    status_events=_freeze_events,
    finalizer=names.FINALIZER,
    number_annotation=names.LAST_NUMBER_ANNOTATION,
    blocked=_blocked,
    owner=MACHINE_DEPLOYMENT,
    desired_annotation=names.DESIRED_REPLICAS_ANNOTATION,
    propagation=Propagation(_stale, configuration_patch),
    deciders=(keep,),
)
