"""The policy of MachineDeployments: what ``replicas.deployment`` has to know to roll out Machines.

Theory.      The generic controller plans and writes; here are Cluster API's names and words, what is
             rolled out and what is not, and how old machines give way: within bounds, or when users
             delete them.
Templates.   A rollout replaces machines, so it happens only for what cannot be changed on a living machine.
             Labels, annotations and three timeouts flow down to machines as they are, so they take no part;
             nor does the version of a reference, which names how an object is served and not which one it
             is. A set is found by its template, never by its hash, so the hash may be any stable one.
Status.      Counts come from the machines. MachineSetReady is what the current set says of itself; Available
             says whether as many machines are available as the strategy demands. The phase is for people.
Invariants.  Nothing is done about a paused deployment or in a paused cluster. ``spec.paused`` is another
             thing: it stops rollouts, and scaling goes on. The name of a set depends on its template, on
             ``rolloutAfter`` and on collisions: a rollout that ``rolloutAfter`` asks for makes a set of
             another name. An unchanged world gives an equal status, so nothing is written.
Called by    ``clusters.world``.
"""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime

import msgspec
from msgspec import structs, to_builtins

from kubewright.api import faults
from kubewright.api.cluster import names
from kubewright.api.cluster.conditions import (
    ERROR,
    INFO,
    MACHINE_DEPLOYMENT_COMPONENT,
    WARNING,
    ConditionType,
    DeploymentPhase,
    EventReason,
    Reason,
    false_condition,
    mirror,
    summary,
    true_condition,
    with_conditions,
)
from kubewright.api.cluster.names import DeletePolicy, StrategyType
from kubewright.api.cluster.v1beta1 import (
    MACHINE,
    MACHINE_DEPLOYMENT,
    MACHINE_SET,
    Cluster,
    Condition,
    MachineDeployment,
    MachineDeploymentStatus,
    MachineSet,
    MachineSpec,
    MachineTemplateSpec,
    ObjectReference,
)
from kubewright.api.cluster.validate import (
    MAX_SURGE,
    MAX_UNAVAILABLE,
    default_deployment,
    validate_deployment,
)
from kubewright.api.conditions import condition_of
from kubewright.api.meta import LabelSelector, ObjectMeta, integer
from kubewright.base.limits import MESSAGE_CHARS
from kubewright.base.names import child_name, fnv32a, safe_encode
from kubewright.base.plan import AT_ONCE, Plan
from kubewright.clusters import owned, paces
from kubewright.clusters.machineset.member import MachineMember, ranking, same_but_for_summary
from kubewright.kube.informer import Informer
from kubewright.replicas.deployment.seen import (
    ChangeDeployment,
    Decider,
    DeploymentPolicy,
    Failures,
    MetadataKeys,
    Reasons,
    Seen,
    Step,
    Words,
)
from kubewright.replicas.deployment.status import counted
from kubewright.replicas.objects import INVALID, read_selector, with_hash
from kubewright.rollout.model import Group, Rank
from kubewright.rollout.planner import CAPI_SCALING, OnDelete, RollingUpdate, Strategy
from kubewright.rollout.revisions import largest
from kubewright.wire import selectors

READY_OF = (ConditionType.MACHINE_SET_READY, ConditionType.AVAILABLE)

DeploymentSeen = Seen[MachineDeployment, MachineSet, MachineMember]


def deployment_status(seen: DeploymentSeen, failures: Failures) -> MachineDeploymentStatus:
    """The status to write, from what was seen after a pass and what happened in it."""
    before = seen.written.status
    if seen.deleting:
        return structs.replace(before, **counted(seen, failures))
    found = with_conditions(before.conditions, _conditions(seen, failures), seen.wall)
    ready = summary(found, READY_OF)
    return structs.replace(
        before,
        **counted(seen, failures),
        selector=before.selector if seen.problem else _selector_text(seen),
        phase=phase(seen),
        conditions=found if ready is None else with_conditions(found, (ready,), seen.wall),
    )


def phase(seen: DeploymentSeen) -> str:
    """What the deployment is doing, in a word for people."""
    wanted, counts = seen.deployment.spec.replicas, seen.counts
    if any(each.status.failure_reason or each.status.failure_message for each in seen.sets):
        return DeploymentPhase.FAILED
    if counts.ready == wanted == counts.replicas:
        return DeploymentPhase.RUNNING
    if counts.replicas > wanted and counts.ready >= wanted:
        return DeploymentPhase.SCALING_DOWN
    return DeploymentPhase.SCALING_UP if counts.ready < wanted else DeploymentPhase.RUNNING


def _selector_text(seen: DeploymentSeen) -> str:
    return str(selectors.from_object(to_builtins(seen.deployment.spec.selector)))


def _conditions(seen: DeploymentSeen, failures: Failures) -> Iterator[Condition]:
    if seen.problem:
        yield false_condition(ConditionType.MACHINE_SET_READY, INVALID, ERROR, seen.problem[:MESSAGE_CHARS])
        return
    yield _set_ready(seen, failures)
    wanted = seen.deployment.spec.replicas
    floor, available = seen.strategy.limits(wanted).floor, seen.counts.available
    if available >= floor:
        yield true_condition(ConditionType.AVAILABLE)
        return
    message = f"Minimum availability requires {floor} replicas, current {available} available"
    yield false_condition(ConditionType.AVAILABLE, Reason.WAITING_FOR_AVAILABLE_MACHINES, WARNING, message)


def _set_ready(seen: DeploymentSeen, failures: Failures) -> Condition:
    """What the current set says of itself, or why there is none."""
    condition_type = ConditionType.MACHINE_SET_READY
    waiting = false_condition(condition_type, Reason.WAITING_FOR_MACHINE_SET, INFO)
    if failures.create_error:
        message = failures.create_error[:MESSAGE_CHARS]
        return false_condition(condition_type, Reason.WAITING_FOR_MACHINE_SET, ERROR, message)
    if seen.current is None:
        return waiting
    ready = condition_of(seen.current.status.conditions, ConditionType.READY)
    return mirror(condition_type, ready, waiting) or waiting


NAME_LETTERS = 5


def identity(template: MachineTemplateSpec) -> bytes:
    """Equal for templates between which nothing is to be rolled out."""
    spec = template.spec
    kept = structs.replace(
        spec,
        bootstrap=structs.replace(spec.bootstrap, config_ref=_object_of(spec.bootstrap.config_ref)),
        infrastructure_ref=_object_of(spec.infrastructure_ref) or ObjectReference(),
        node_drain_timeout=None,
        node_volume_detach_timeout=None,
        node_deletion_timeout=None,
    )
    return msgspec.json.encode(kept, order="deterministic")


def name_and_hash(deployment: MachineDeployment) -> tuple[str, str]:
    """``<deployment>-<five letters>``, and ``<number>-<five letters>`` for the label."""
    spec = deployment.spec
    after = spec.rollout_after.isoformat() if spec.rollout_after is not None else ""
    collisions = integer(deployment.metadata.annotations, names.COLLISIONS_ANNOTATION)
    number = fnv32a(b"\0".join((identity(spec.template), after.encode(), str(collisions).encode())))
    letters = safe_encode(str(number))[:NAME_LETTERS]
    return child_name(deployment.name, letters), f"{number}-{letters}"


def outdated(deployment: MachineDeployment, machine_set: MachineSet, now: datetime) -> bool:
    """Whether a set is from before the time at which the deployment wanted to be rolled out."""
    after, created = deployment.spec.rollout_after, machine_set.metadata.creation_timestamp
    return after is not None and after <= now and created is not None and created < after


def propagated(machine_set: MachineSet, deployment: MachineDeployment) -> MachineSet:
    """The set with everything that it takes over without a rollout: labels, the template's metadata and
    timeouts, the deployment's watch filter, and which machines are deleted first.

    Labels that have left the template leave the set.
    """
    wanted, meta = deployment.spec, machine_set.metadata
    own = {
        names.DEPLOYMENT_NAME_LABEL: deployment.name,
        names.CLUSTER_NAME_LABEL: wanted.cluster_name,
    }
    template = _template(machine_set, deployment)
    spec = structs.replace(
        machine_set.spec,
        cluster_name=wanted.cluster_name,
        delete_policy=_delete_policy(deployment),
        selector=_selector(machine_set, deployment, template),
        template=template,
    )
    if ours := deployment.metadata.labels.get(names.WATCH_FILTER_LABEL):
        own[names.WATCH_FILTER_LABEL] = ours
    left = machine_set.spec.template.metadata.labels.keys() - template.metadata.labels.keys()
    kept = {key: text for key, text in meta.labels.items() if key not in left}
    labels = {**kept, **template.metadata.labels, **own}
    return structs.replace(machine_set, metadata=structs.replace(meta, labels=labels), spec=spec)


def _selector(
    machine_set: MachineSet, deployment: MachineDeployment, template: MachineTemplateSpec
) -> LabelSelector | None:
    """The set's own selector while it selects what the set makes; else the deployment's, with the set's hash.

    A deployment whose selector and labels were changed together needs no new machines for that.
    """
    labels, mine = template.metadata.labels, machine_set.spec.selector
    selector, problem = read_selector(mine)
    wanted = deployment.spec.selector
    if (not problem and selector.matches(labels)) or wanted is None:
        return mine
    hashed = labels.get(names.TEMPLATE_HASH_LABEL)
    own = {names.TEMPLATE_HASH_LABEL: hashed} if hashed else {}
    return structs.replace(wanted, match_labels={**wanted.match_labels, **own})


def _template(machine_set: MachineSet, deployment: MachineDeployment) -> MachineTemplateSpec:
    mine, wanted = machine_set.spec.template, deployment.spec.template
    hashed = mine.metadata.labels.get(names.TEMPLATE_HASH_LABEL, "")
    metadata = with_hash(wanted, names.TEMPLATE_HASH_LABEL, hashed).metadata
    spec: MachineSpec = structs.replace(
        mine.spec,
        node_drain_timeout=wanted.spec.node_drain_timeout,
        node_volume_detach_timeout=wanted.spec.node_volume_detach_timeout,
        node_deletion_timeout=wanted.spec.node_deletion_timeout,
    )
    return MachineTemplateSpec(metadata=metadata, spec=spec)


def _delete_policy(deployment: MachineDeployment) -> str:
    strategy = deployment.spec.strategy
    rolling = strategy.rolling_update if strategy is not None else None
    given = rolling.delete_policy if rolling is not None else None
    return given or DeletePolicy.RANDOM.value


def _object_of(ref: ObjectReference | None) -> ObjectReference | None:
    """Which object a reference means, in the words that all its spellings share."""
    if ref is None:
        return None
    return ObjectReference(api_version=ref.group, kind=ref.kind, name=ref.name)


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
    return Plan((ChangeDeployment(after),), AT_ONCE, "the deployment is its cluster's", last=True)


def await_rollout(seen: DeploymentSeen) -> Plan[Step]:
    """Look again when the time has come that ``rolloutAfter`` names."""
    after = seen.deployment.spec.rollout_after
    if after is None or after <= seen.wall:
        return Plan()
    return Plan(wake=after - seen.wall, because=f"a rollout at {after.isoformat()}")


class MachineDeployments(DeploymentPolicy[MachineDeployment, MachineSet, MachineMember]):
    """What deployments of Machines do; they look at their ``clusters``."""

    name = "clustermachinedeployment"
    component = MACHINE_DEPLOYMENT_COMPONENT
    kind = MACHINE_DEPLOYMENT
    set_kind = MACHINE_SET
    member_kind = MACHINE
    metadata_keys = METADATA_KEYS
    reasons = REASONS
    words = WORDS
    finalizer = names.MACHINE_DEPLOYMENT_FINALIZER
    set_finalizer = names.MACHINE_SET_FINALIZER
    keeps_controlled = True
    scaling = CAPI_SCALING
    propagates_to_all = True
    pace = paces.DEPLOYMENTS

    def __init__(self, clusters: Informer[Cluster]) -> None:
        self._clusters = clusters

    def idle(self, deployment: MachineDeployment) -> str:
        """The deployment, or its cluster, is paused."""
        return owned.paused_because(deployment, self.look(deployment))

    def look(self, deployment: MachineDeployment) -> Cluster | None:
        """Its cluster."""
        return self._clusters.get(owned.cluster_of(deployment))

    def with_defaults(self, deployment: MachineDeployment) -> MachineDeployment:
        """As ``api.cluster.validate`` has them."""
        return default_deployment(deployment)

    def validate(self, deployment: MachineDeployment) -> str:
        """What validation says."""
        return faults.summary(validate_deployment(deployment))

    def strategy(self, deployment: MachineDeployment) -> Strategy:
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

    def identity(self, template: MachineTemplateSpec) -> bytes:
        """As ``identity``."""
        return identity(template)

    def name_and_hash(self, deployment: MachineDeployment) -> tuple[str, str]:
        """As ``name_and_hash``."""
        return name_and_hash(deployment)

    def propagated(self, of: MachineSet, deployment: MachineDeployment) -> MachineSet:
        """As ``propagated``."""
        return propagated(of, deployment)

    def outdated(self, deployment: MachineDeployment, of: MachineSet, now: datetime) -> bool:
        """As ``outdated``."""
        return outdated(deployment, of, now)

    def choice(self, group: Group) -> Rank:
        """The one with most replicas."""
        return largest(group)

    def ranking(
        self, of: MachineSet, wall: float, living: Sequence[MachineMember]
    ) -> Callable[[MachineMember], Rank]:
        """As ``machineset.member.ranking``."""
        return ranking(of, wall, living)

    def same_member(self, before: MachineMember, after: MachineMember) -> bool:
        """Only what a set's status sums up differs."""
        return same_but_for_summary(before, after)

    def initial_metadata(self, seen: DeploymentSeen) -> ObjectMeta:
        """As ``initial_metadata``."""
        return initial_metadata(seen)

    def deciders(self) -> tuple[Decider[MachineDeployment, MachineSet, MachineMember], ...]:
        """Belonging to a cluster, and rollouts at a time."""
        return (set_cluster_owner, await_rollout)

    def status(self, seen: DeploymentSeen, failures: Failures) -> MachineDeploymentStatus:
        """As ``deployment_status``."""
        return deployment_status(seen, failures)
