"""The policy of MachineSets: what ``replicas.set`` has to know to keep as many machines as a set says.

Theory.      A new machine carries the finalizer and the default priority from its first moment; MCM adds both
             later, with a write each. What a set pushes down to living machines is the node template, the
             configuration and the class's kind; labels and annotations are for new machines only.
Called by    ``machines.world``; ``machines.rolling`` (``moved_patch``).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from msgspec import structs

from kubewright.api.diff import merge_patch
from kubewright.api.faults import summary
from kubewright.api.machine import excess, names
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
from kubewright.api.machine.validate import validate_deployment, validate_set, with_defaults
from kubewright.api.meta import ObjectMeta, with_finalizer
from kubewright.base.durations import format_duration
from kubewright.base.plan import Awaited
from kubewright.kube.client import Client
from kubewright.kube.informer import Informer
from kubewright.machines.deployment import strategy
from kubewright.machines.machineset.decide import (
    FROZEN,
    FreezeLimits,
    MachineSetSeen,
    freeze,
    frozen_by_count,
    is_frozen,
    keep,
    limits_of,
    overshoots,
    set_status,
    to_delete,
    unfreezing,
)
from kubewright.machines.machineset.member import MachineMember, digest, ranking
from kubewright.machines.settings import SetSettings
from kubewright.replicas.objects import Member, number_of, reference
from kubewright.replicas.set.seen import Decider, Deletions, Failure, SetEvent, SetPolicy, Wait, Words
from kubewright.rollout.model import Rank
from kubewright.wire.gvk import Key


def new_machine(machine_set: MachineSet, name: str) -> Machine:
    """The machine ``name`` of a set."""
    template = machine_set.spec.template
    annotations = {names.PRIORITY_ANNOTATION: str(names.DEFAULT_PRIORITY), **template.metadata.annotations}
    if number := number_of(machine_set.metadata.uid, name):
        annotations[names.NUMBER_ANNOTATION] = str(number)
    spec = structs.replace(template.spec, provider_id="")  # a VM is never shared
    override = names.creation_timeout_override(machine_set.metadata.annotations)
    if override is not None:
        annotations[names.EFFECTIVE_CREATION_TIMEOUT_ANNOTATION] = format_duration(override)
        spec = structs.replace(spec, creation_timeout=format_duration(override))
    return Machine(
        metadata=ObjectMeta(
            name=name,
            namespace=machine_set.metadata.namespace,
            labels=template.metadata.labels,
            annotations=annotations,
            finalizers=tuple(with_finalizer(template.metadata.finalizers, names.FINALIZER)),
            owner_references=(reference(machine_set, MACHINE_SET),),
        ),
        spec=spec,
    )


def configuration_patch(machine_set: MachineSet, machine: Machine) -> dict[str, Any]:
    """What must change in a machine so that it has the template's node template and configuration. The taints
    of a machine that is kept free are no template's."""
    spec, wanted = machine.spec, machine_set.spec.template.spec
    timeout = wanted.creation_timeout
    if names.creation_timeout_override(machine.metadata.annotations) is not None:
        timeout = spec.creation_timeout
    target = structs.replace(
        wanted,
        provider_id=spec.provider_id,
        machine_class=structs.replace(spec.machine_class, kind=wanted.machine_class.kind),
        creation_timeout=timeout,
    )
    patch = merge_patch(spec, excess.carried(spec, target))
    return {"spec": patch} if patch else {}


def moved_patch(machine: Machine, source: MachineSet, target: MachineSet) -> dict[str, Any]:
    """What makes a machine of ``source``, which was updated in place, one of ``target``: owner, labels,
    annotations and class as the template of ``target`` has them. What others wrote on the machine stays.

    What the VM has of its class changes by that, but for what only a driver can change (``machine.applied``).
    The mark ``update-result`` says that the size of ``target`` may not count the machine yet.
    """
    meta, old, new = machine.metadata, source.spec.template.metadata, target.spec.template.metadata
    owners = tuple(owner for owner in meta.owner_references if owner.uid != source.metadata.uid)
    labels = {**_without(meta.labels, old.labels), **new.labels}
    labels[names.UPDATE_RESULT_LABEL] = names.UpdateResult.SUCCESSFUL
    noted = {**_without(meta.annotations, old.annotations), **new.annotations}
    other = target.spec.template.spec.machine_class.name != machine.spec.machine_class.name
    if other and names.APPLIED_CLASS_ANNOTATION in noted:
        noted[names.APPLIED_CLASS_ANNOTATION] = ""
    after = structs.replace(
        machine,
        metadata=structs.replace(
            meta,
            labels=labels,
            annotations=noted,
            owner_references=(*owners, reference(target, MACHINE_SET)),
        ),
        spec=structs.replace(machine.spec, machine_class=target.spec.template.spec.machine_class),
    )
    return merge_patch(machine, after)


def _without(found: Mapping[str, str], template: Mapping[str, str]) -> dict[str, str]:
    """Those that the template did not give, or that have had another value since."""
    return {key: text for key, text in found.items() if template.get(key) != text}


class MachineSets(SetPolicy[MachineSet, MachineMember, Machine]):
    """What every set of machines does; ``LimitedMachineSets`` is the policy of a running controller."""

    name = "machineset"
    component = names.MACHINE_SET_COMPONENT
    words = Words("machine", "machines", created="Created Machine: {}", deleted="Deleted machine: {}")
    kind = MACHINE_SET
    member_kind = MACHINE
    finalizer = names.FINALIZER
    number_annotation = names.LAST_NUMBER_ANNOTATION
    owner = MACHINE_DEPLOYMENT
    desired_annotation = names.DESIRED_REPLICAS_ANNOTATION

    def validate(self, found: MachineSet) -> str:
        """What validation says."""
        return summary(validate_set(found))

    def desired(self, owner: MachineDeployment) -> int:
        """With those that are kept free."""
        return with_defaults(owner).spec.desired

    def status(self, seen: MachineSetSeen, failure: Failure | None) -> MachineSetStatus:
        """As ``decide.set_status``."""
        return set_status(seen, failure)

    def ranking(
        self, of: MachineSet, wall: float, living: Sequence[MachineMember]
    ) -> Callable[[MachineMember], Rank]:
        """As ``member.ranking``."""
        return ranking(of, wall, living)

    async def create(self, client: Client, owner: MachineSet, name: str) -> None:
        """The machine needs nothing before it."""
        await client.create(MACHINE, new_machine(owner, name))

    def blocked(self, found: MachineSet, around: FreezeLimits | None) -> Wait | None:
        """Why no machine may be created: too many, frozen, or an old set of a rollout."""
        labels = found.metadata.labels
        if around is not None and overshoots(found, around):
            fewer = Awaited("the surplus machines to go", "see its machines that are being deleted")
            return Wait("it is frozen, since it has too many machines already", awaits=fewer)
        if names.frozen(labels) and not unfreezing(found):
            remedy = f'remove it, or annotate "{names.UNFREEZE_ANNOTATION}"'
            because = f'it is frozen by label "{names.FREEZE_LABEL}": {remedy}'
            return Wait(because, awaits=Awaited(f"label {names.FREEZE_LABEL} to go", remedy))
        if names.SCALE_UP_DISABLED_LABEL not in labels:
            return None
        remedy = "see the rollout of its deployment, or remove it"
        return Wait(
            "scale-up is disabled", awaits=Awaited(f"label {names.SCALE_UP_DISABLED_LABEL} to go", remedy)
        )

    def deciders(self) -> tuple[Decider[MachineSet, MachineMember], ...]:
        """Freezing, and machines that are preserved."""
        return (freeze, keep)

    def to_delete(self, seen: MachineSetSeen) -> Deletions[MachineMember]:
        """As ``decide.to_delete``."""
        return to_delete(seen)

    def status_events(self, before: MachineSet, status: MachineSetStatus) -> Iterable[SetEvent]:
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

    def stale(self, seen: MachineSetSeen) -> list[MachineMember]:
        """Living machines without the template's node template and configuration."""
        spec = seen.set.spec.template.spec
        wanted = {own: digest(spec, own_timeout=own) for own in (False, True)}
        return [
            member
            for member in seen.alive
            if member.propagated_digest
            and member.propagated_digest != wanted[member.own_timeout]
            and member.phase is not Phase.FAILED
        ]

    def propagation(self, found: MachineSet, member: Machine) -> dict[str, Any]:
        """As ``configuration_patch``."""
        return configuration_patch(found, member)


MACHINE_SETS = MachineSets()


class LimitedMachineSets(MachineSets):
    """The policy with the limits at which sets are frozen.

    ``members_of`` finds the machines of a set by its uid. ``count_unhealthy`` counts one that is
    deleted because it failed for its health.
    """

    def __init__(
        self,
        settings: SetSettings,
        deployments: Informer[MachineDeployment],
        members_of: Callable[[str], Sequence[MachineMember]],
        count_unhealthy: Callable[[], None],
    ) -> None:
        self._settings = settings
        self._deployments = deployments
        self._members_of = members_of
        self._count_unhealthy = count_unhealthy

    def deleted(self, member: Member) -> None:
        """Count it, if it failed for its health."""
        if isinstance(member, MachineMember) and member.failed_for_health:
            self._count_unhealthy()

    def look(self, found: MachineSet) -> FreezeLimits | None:
        """How many machines are too many; None if that cannot be said."""
        owner, members = _owner(self._deployments, found), self._members_of(found.metadata.uid)
        wanted = with_defaults(owner) if owner is not None else None
        if wanted is not None and validate_deployment(wanted):
            return None
        alive = sum(member.alive for member in members)
        bounds = strategy(wanted).limits(wanted.spec.desired) if wanted is not None else None
        count = sum(member.takes_place for member in members)
        return limits_of(found, bounds, count, alive, self._settings)


def _owner(deployments: Informer[MachineDeployment], found: MachineSet) -> MachineDeployment | None:
    """The deployment that controls a set; None if there is none."""
    reference = found.metadata.controller
    if reference is None or reference.kind != MACHINE_DEPLOYMENT.resource.kind:
        return None
    owner = deployments.get(Key(found.metadata.namespace, reference.name))
    return owner if owner is not None and owner.metadata.uid == reference.uid else None
