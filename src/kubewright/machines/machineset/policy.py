"""The policy of MachineSets: what ``replicas.set`` has to know to keep as many machines as a set says.

Called by    ``machines.world``.
Source       mcm.md §1.4, §6.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from kubewright.api.faults import summary
from kubewright.api.machine import names
from kubewright.api.machine.defaults import with_defaults
from kubewright.api.machine.names import EventReason, Phase
from kubewright.api.machine.v1alpha1 import (
    MACHINE,
    MACHINE_DEPLOYMENT,
    MACHINE_SET,
    Machine,
    MachineDeployment,
    MachineSet,
    MachineSetStatus,
)
from kubewright.api.machine.validate import validate_deployment, validate_set
from kubewright.base.plan import Awaited
from kubewright.kube.client import Client
from kubewright.kube.informer import Informer
from kubewright.machines.deployment.policy import strategy
from kubewright.machines.machine.settings import SetSettings
from kubewright.machines.machineset.member import MachineMember, digest, ranking
from kubewright.machines.machineset.overshoot import (
    FreezeLimits,
    freeze,
    frozen_by_count,
    limits_of,
    overshoots,
    unfreezing,
)
from kubewright.machines.machineset.preservation import MachineSetSeen, keep, to_delete
from kubewright.machines.machineset.status import FROZEN, is_frozen, set_status
from kubewright.machines.machineset.template import configuration_patch, new_machine
from kubewright.replicas.member import Member
from kubewright.replicas.set.policy import Propagation, SetEvent, SetPolicy, Words
from kubewright.replicas.set.seen import Wait
from kubewright.wire.gvk import Key


async def _create(client: Client, machine_set: MachineSet, name: str) -> None:
    await client.create(MACHINE, new_machine(machine_set, name))


def _problem(machine_set: MachineSet) -> str:
    return summary(validate_set(machine_set))


def _blocked(machine_set: MachineSet, limits: FreezeLimits | None) -> Wait | None:
    """Why no machine may be created (mcm.md §6.4, §9.3)."""
    labels = machine_set.metadata.labels
    if limits is not None and overshoots(machine_set, limits):
        fewer = Awaited("the surplus machines to go", "see its machines that are being deleted")
        return Wait("it is frozen, since it has too many machines already", awaits=fewer)
    if names.frozen(labels) and not unfreezing(machine_set):
        remedy = f'remove it, or annotate "{names.UNFREEZE_ANNOTATION}"'
        told = f'it is frozen by label "{names.FREEZE_LABEL}": {remedy}'
        return Wait(told, awaits=Awaited(f"label {names.FREEZE_LABEL} to go", remedy))
    if names.SCALE_UP_DISABLED_LABEL not in labels:
        return None
    remedy = "see the rollout of its deployment, or remove it"
    return Wait(
        "scale-up is disabled", awaits=Awaited(f"label {names.SCALE_UP_DISABLED_LABEL} to go", remedy)
    )


def _outdated(seen: MachineSetSeen) -> list[MachineMember]:
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
    """An event when the set becomes frozen, and one when it no longer is, as the status says it: from the
    component of deployments, as MCM's safety controller sends them."""
    component = names.DEPLOYMENT_COMPONENT
    if is_frozen(status) and not is_frozen(before.status):
        counted = f"SafetyController: Froze MachineSet {before.name} due to replica overshooting"
        message = counted if frozen_by_count(status) else f"Froze MachineSet {before.name}: {FROZEN}"
        yield SetEvent(EventReason.FROZE_MACHINE_SET, message, component)
    elif is_frozen(before.status) and not is_frozen(status):
        counted = f"SafetyController: Unfroze MachineSet {before.name}"
        message = counted if frozen_by_count(before.status) else f"Unfroze MachineSet {before.name}"
        yield SetEvent(EventReason.UNFROZE_MACHINE_SET, message, component)


MACHINE_SETS: SetPolicy[MachineSet, MachineMember, Machine] = SetPolicy(
    name="machineset",
    component=names.MACHINE_SET_COMPONENT,
    words=Words("machine", "machines", created="Created Machine: {}", deleted="Deleted machine: {}"),
    kind=MACHINE_SET,
    member_kind=MACHINE,
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
    desired=lambda owner: with_defaults(owner).spec.desired,
    desired_annotation=names.DESIRED_REPLICAS_ANNOTATION,
    propagation=Propagation(_outdated, configuration_patch),
    deciders=(freeze, keep),
)


def machine_sets(
    settings: SetSettings,
    deployments: Informer[MachineDeployment],
    members_of: Callable[[str], Sequence[MachineMember]],
    count_unhealthy: Callable[[], None],
) -> SetPolicy[MachineSet, MachineMember, Machine]:
    """The policy with the limits at which sets are frozen.

    ``members_of`` finds the machines of a set by its uid. ``count_unhealthy`` counts one that is
    deleted because it failed for its health.
    """

    def deleted(member: Member) -> None:
        if isinstance(member, MachineMember) and member.failed_for_health:
            count_unhealthy()

    def look(found: MachineSet) -> FreezeLimits | None:
        owner, members = _owner(deployments, found), members_of(found.metadata.uid)
        wanted = with_defaults(owner) if owner is not None else None
        if wanted is not None and validate_deployment(wanted):
            return None
        alive = sum(member.alive for member in members)
        bounds = strategy(wanted).limits(wanted.spec.desired) if wanted is not None else None
        count = sum(member.takes_place for member in members)
        return limits_of(found, bounds, count, alive, settings)

    return replace(MACHINE_SETS, look=look, deleted=deleted)


def _owner(deployments: Informer[MachineDeployment], found: MachineSet) -> MachineDeployment | None:
    """The deployment that controls a set; None if there is none."""
    reference = found.metadata.controller
    if reference is None or reference.kind != MACHINE_DEPLOYMENT.resource.kind:
        return None
    owner = deployments.get(Key(found.metadata.namespace, reference.name))
    return owner if owner is not None and owner.metadata.uid == reference.uid else None
