"""The policy of MachineDeployments: what ``replicas.deployment`` has to know to roll out Machines.

Theory.      The generic controller plans and writes; here are Cluster API's names and words, what is
             rolled out and what is not, and how old machines give way: within bounds, or when users
             delete them.
Invariants.  Nothing is done about a paused deployment or in a paused cluster. ``spec.paused`` is another
             thing: it stops rollouts, and scaling goes on.
Source       capi.md §7.9; appendix F (finalizers and ordered deletion of HEAD, annotations of v1.7.1).
Called by    ``clusters.replicas``.
"""

from msgspec import structs

from kubewright.api.cluster import names
from kubewright.api.cluster.conditions import MACHINE_DEPLOYMENT_COMPONENT, EventReason
from kubewright.api.cluster.names import StrategyType
from kubewright.api.cluster.v1beta1 import (
    MACHINE,
    MACHINE_DEPLOYMENT,
    MACHINE_SET,
    Cluster,
    MachineDeployment,
    MachineSet,
)
from kubewright.api.cluster.validate import (
    MAX_SURGE,
    MAX_UNAVAILABLE,
    default_deployment,
    validate_deployment,
)
from kubewright.api.faults import summary
from kubewright.api.meta import ObjectMeta
from kubewright.base.plan import AT_ONCE, Plan
from kubewright.clusters import owned, paces
from kubewright.clusters.machinedeployment.status import DeploymentSeen, deployment_status
from kubewright.clusters.machinedeployment.template import identity, name_and_hash, outdated, propagated
from kubewright.clusters.machineset.member import MachineMember, ranking, same_but_for_summary
from kubewright.kube.informer import Informer
from kubewright.replicas.deployment.policy import DeploymentPolicy, MetadataKeys, Reasons, Words
from kubewright.replicas.deployment.seen import ChangeDeployment, Step
from kubewright.replicas.objects import INVALID
from kubewright.rollout.planner import CAPI_SCALING, OnDelete, RollingUpdate, Strategy
from kubewright.rollout.revisions import largest

METADATA_KEYS = MetadataKeys(
    template_hash=names.TEMPLATE_HASH_LABEL,
    revision=names.REVISION_ANNOTATION,
    history=names.REVISION_HISTORY_ANNOTATION,
    desired=names.DESIRED_REPLICAS_ANNOTATION,
    ceiling=names.MAX_REPLICAS_ANNOTATION,
    no_creation=names.DISABLE_MACHINE_CREATE_ANNOTATION,
    collisions=names.COLLISIONS_ANNOTATION,
    own=frozenset(
        (
            names.LAST_APPLIED_ANNOTATION,
            names.CONVERSION_DATA_ANNOTATION,
            names.LAST_NUMBER_ANNOTATION,
            names.PAUSED_ANNOTATION,
        )
    ),
)

REASONS = Reasons(
    created="",
    found="",
    updated="",
    complete="",
    timed_out="",
    paused="",
    resumed="",
    create_error=EventReason.FAILED_CREATE,
    invalid=INVALID,
    available="",
    unavailable="",
    selects_all="SelectingAll",
    scaled=EventReason.SUCCESSFUL_SCALE,
)
"""Events only: a MachineDeployment has no condition Progressing."""

WORDS = Words(
    deployment="MachineDeployment",
    set="MachineSet",
    member="machine",
    scaled="Scaled {direction} MachineSet {name}: {before} -> {after}",
)


def strategy(deployment: MachineDeployment) -> Strategy:
    """How old machines give way to new ones."""
    given = deployment.spec.strategy
    if given is not None and given.type == StrategyType.ON_DELETE:
        return OnDelete()
    rolling = given.rolling_update if given is not None else None
    surge = rolling.max_surge if rolling is not None else None
    unavailable = rolling.max_unavailable if rolling is not None else None
    return RollingUpdate(
        MAX_SURGE if surge is None else surge, MAX_UNAVAILABLE if unavailable is None else unavailable
    )


def initial_metadata(seen: DeploymentSeen) -> ObjectMeta:
    """The deployment's metadata with the label and the owner reference of its cluster."""
    written: MachineDeployment = seen.written
    cluster: Cluster | None = seen.around
    return owned.with_cluster_ownership(written.metadata, cluster, written.spec.cluster_name, owned=True)


def set_cluster_owner(seen: DeploymentSeen) -> Plan[Step]:
    """Write the cluster's label and owner reference onto the deployment."""
    meta = initial_metadata(seen)
    if meta == seen.written.metadata:
        return Plan()
    after = structs.replace(seen.written, metadata=meta)
    return Plan((ChangeDeployment(after),), AT_ONCE, "the deployment is its cluster's")


def await_rollout(seen: DeploymentSeen) -> Plan[Step]:
    """Look again when the time has come that ``rolloutAfter`` names."""
    after = seen.deployment.spec.rollout_after
    if after is None or after <= seen.wall:
        return Plan()
    return Plan(wake=after - seen.wall, because=f"a rollout at {after.isoformat()}")


def policy(
    clusters: Informer[Cluster],
) -> DeploymentPolicy[MachineDeployment, MachineSet, MachineMember]:
    """The policy, with the cache of the clusters that it looks at."""

    def find_cluster(deployment: MachineDeployment) -> Cluster | None:
        return clusters.get(owned.cluster_of(deployment))

    return DeploymentPolicy(
        name="clustermachinedeployment",
        component=MACHINE_DEPLOYMENT_COMPONENT,
        kind=MACHINE_DEPLOYMENT,
        set_kind=MACHINE_SET,
        member_kind=MACHINE,
        finalizer=names.MACHINE_DEPLOYMENT_FINALIZER,
        keeps_controlled=True,
        set_finalizer=names.MACHINE_SET_FINALIZER,
        metadata_keys=METADATA_KEYS,
        reasons=REASONS,
        words=WORDS,
        idle=lambda deployment: owned.paused_because(deployment, find_cluster(deployment)),
        look=find_cluster,
        with_defaults=default_deployment,
        validate=lambda deployment: summary(validate_deployment(deployment)),
        strategy=strategy,
        scaling=CAPI_SCALING,
        identity=identity,
        name_and_hash=name_and_hash,
        propagated=propagated,
        propagates_to_all=True,
        outdated=outdated,
        choice=largest,
        ranking=ranking,
        set_conditions=lambda machine_set: machine_set.status.conditions,
        same_member=same_but_for_summary,
        pace=paces.DEPLOYMENTS,
        initial_metadata=initial_metadata,
        deciders=(set_cluster_owner, await_rollout),
        status=deployment_status,
    )
