"""The policy of MachineDeployments: what ``replicas.deployment`` has to know to roll out machines.

Called by    ``machines.world``.
Source       mcm.md §2.6-2.7, §7.2-7.10.
"""

from msgspec import structs

from kubewright.api.faults import summary
from kubewright.api.machine import excess, names, updates
from kubewright.api.machine.defaults import with_defaults
from kubewright.api.machine.names import ConditionReason, EventReason, Orchestration, StrategyType
from kubewright.api.machine.v1alpha1 import (
    MACHINE,
    MACHINE_DEPLOYMENT,
    MACHINE_SET,
    MachineDeployment,
    MachineSet,
)
from kubewright.api.machine.validate import validate_deployment
from kubewright.machines.deployment.freezing import follow_freeze
from kubewright.machines.deployment.rollback import roll_back
from kubewright.machines.deployment.status import deployment_status
from kubewright.machines.deployment.template import identity, name_and_hash, propagated_template
from kubewright.machines.deployment.triggered import trigger_deletions
from kubewright.machines.machineset.member import MachineMember, ranking
from kubewright.replicas.deployment.policy import DeploymentPolicy, MetadataKeys, Reasons, Words
from kubewright.replicas.objects import INVALID, annotated
from kubewright.rollout.planner import InPlaceUpdate, Recreate, RollingUpdate, Strategy

METADATA_KEYS = MetadataKeys(
    template_hash=names.TEMPLATE_HASH_LABEL,
    revision=names.REVISION_ANNOTATION,
    history=names.REVISION_HISTORY_ANNOTATION,
    desired=names.DESIRED_REPLICAS_ANNOTATION,
    ceiling=names.MAX_REPLICAS_ANNOTATION,
    no_creation_label=(names.SCALE_UP_DISABLED_LABEL, updates.SCALE_UP_DISABLED_BY_US),
    own=frozenset(
        (
            names.LAST_APPLIED_CONFIG_ANNOTATION,
            names.PREFER_NO_SCHEDULE,
            names.UNFREEZE_ANNOTATION,
            names.TRIGGER_DELETION_ANNOTATION,
            names.LAST_NUMBER_ANNOTATION,
            excess.KEPT_ANNOTATION,
        )
    ),
    mirrored=frozenset((names.MAX_REPLACEMENTS_ANNOTATION,)),
)

REASONS = Reasons(
    created=ConditionReason.NEW_MACHINE_SET_CREATED,
    found=ConditionReason.FOUND_NEW_MACHINE_SET,
    updated=ConditionReason.MACHINE_SET_UPDATED,
    complete=ConditionReason.NEW_MACHINE_SET_AVAILABLE,
    timed_out=ConditionReason.PROGRESS_DEADLINE_EXCEEDED,
    paused=ConditionReason.DEPLOYMENT_PAUSED,
    resumed=ConditionReason.DEPLOYMENT_RESUMED,
    create_error=ConditionReason.MACHINE_SET_CREATE_ERROR,
    invalid=INVALID,
    selects_all=EventReason.SELECTING_ALL,
    available=ConditionReason.MINIMUM_REPLICAS_AVAILABLE,
    unavailable=ConditionReason.MINIMUM_REPLICAS_UNAVAILABLE,
    scaled=EventReason.SCALING_MACHINE_SET,
)

WORDS = Words(
    deployment="Machine Deployment",
    set="machine set",
    member="machine",
    scaled="Scaled {direction} machine set {name} to {after}",
)


def validate(deployment: MachineDeployment) -> str:
    """What validation says; empty for a valid deployment."""
    return summary(validate_deployment(deployment))


def strategy(deployment: MachineDeployment) -> Strategy:
    """How old machines give way to new ones."""
    given = deployment.spec.strategy
    rolling, in_place = given.rolling_update, given.in_place_update
    if given.type == StrategyType.IN_PLACE_UPDATE and in_place is not None:
        above, below = in_place.max_surge, in_place.max_unavailable
        manual = in_place.orchestration_type == Orchestration.MANUAL
        return InPlaceUpdate(above if above is not None else 1, below if below is not None else 0, manual)
    if given.type != StrategyType.ROLLING_UPDATE or rolling is None:
        return Recreate()
    surge, unavailable = rolling.max_surge, rolling.max_unavailable
    return RollingUpdate(surge if surge is not None else 1, unavailable if unavailable is not None else 0)


def propagated(machine_set: MachineSet, deployment: MachineDeployment) -> MachineSet:
    """The set with all of the deployment that needs no rollout."""
    mine, theirs = machine_set.spec, deployment.spec
    spec = structs.replace(
        mine,
        auto_preserve_failed_machine_max=theirs.auto_preserve_failed_machine_max,
        template=propagated_template(mine.template, theirs.template),
    )
    return structs.replace(machine_set, spec=spec)


def replaces(deployment: MachineDeployment) -> bool:
    """Whether machines of old sets give way to new ones: not while it is paused, nor where they are updated
    in place."""
    return not deployment.spec.paused and not isinstance(strategy(deployment), InPlaceUpdate)


def with_kept(machine_set: MachineSet, deployment: MachineDeployment) -> MachineSet:
    """The set with the number of machines that it keeps free when it shrinks: the deployment's, or none where
    its machines give way to new ones, and those that are free go first. Where they do not, an old set shrinks
    only since fewer replicas are wanted, and keeps them as the current one does."""
    kept, wanted = deployment.spec.excess_replicas or 0, deployment.spec.template
    if kept and (not replaces(deployment) or identity(machine_set.spec.template) == identity(wanted)):
        return annotated(machine_set, excess.KEPT_ANNOTATION, str(kept))
    known = excess.KEPT_ANNOTATION in machine_set.metadata.annotations
    return annotated(machine_set, excess.KEPT_ANNOTATION, "") if known else machine_set


MACHINE_DEPLOYMENTS: DeploymentPolicy[MachineDeployment, MachineSet, MachineMember] = DeploymentPolicy(
    name="machinedeployment",
    component=names.DEPLOYMENT_COMPONENT,
    kind=MACHINE_DEPLOYMENT,
    set_kind=MACHINE_SET,
    member_kind=MACHINE,
    finalizer=names.FINALIZER,
    metadata_keys=METADATA_KEYS,
    reasons=REASONS,
    words=WORDS,
    desired=lambda deployment: deployment.spec.desired,
    with_defaults=with_defaults,
    validate=validate,
    strategy=strategy,
    keeps_history=lambda deployment: deployment.spec.rollback_to is not None,
    identity=identity,
    name_and_hash=name_and_hash,
    propagated=propagated,
    ranking=ranking,
    as_sized=with_kept,
    set_conditions=lambda machine_set: machine_set.status.machine_set_condition,
    deciders=(follow_freeze, trigger_deletions, roll_back),
    status=deployment_status,
)
