"""Deployments and ReplicaSets of ``apps/v1``: two policies of ``replicas``, with Pods for members.

Theory.      What is particular is a Pod, and which of several is deleted first. A Pod that has Succeeded or
             Failed stays as it is and is no replica: it is read as one without an owner. One that is being
             deleted is no replica either, and is still known: with ``Recreate`` the next ones wait for it.
             Defaults and validation are the server's. Names, labels, annotations, conditions, reasons and
             sentences are those of kube-controller-manager.
Called by    ``builtin``.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import msgspec
from msgspec import structs, to_builtins

from kubewright.api.apps import (
    DELETION_COST,
    DEPLOYMENT,
    DESIRED_REPLICAS,
    HASH_LABEL,
    LAST_APPLIED,
    MAX_REPLICAS,
    REPLICA_SET,
    REVISION,
    REVISION_HISTORY,
    ROLLBACK_TO,
    Deployment,
    DeploymentCondition,
    DeploymentStatus,
    PodTemplate,
    ReplicaSet,
    ReplicaSetStatus,
)
from kubewright.api.conditions import find_true_condition
from kubewright.api.core import POD, Pod
from kubewright.api.meta import Condition, integer
from kubewright.base.clock import stamp
from kubewright.base.names import fnv32a, safe_encode
from kubewright.kube.client import Client
from kubewright.kube.header import Header
from kubewright.replicas.deployment.seen import DeploymentPolicy, Failures, MetadataKeys, Reasons, Seen, Words
from kubewright.replicas.deployment.status import conditions, counted
from kubewright.replicas.objects import INVALID, Member, reference, with_hash
from kubewright.replicas.set.seen import Failure, SetPolicy, with_failure
from kubewright.replicas.set.seen import Seen as SeenOfSet
from kubewright.replicas.set.seen import Words as SetWords
from kubewright.replicas.set.seen import counted as set_counted
from kubewright.rollout.model import Rank
from kubewright.rollout.planner import Recreate, RollingUpdate, Scaling, Strategy
from kubewright.rollout.proportional import Growth
from kubewright.wire.errors import AlreadyExists, ApiError

# ---------------------------------------------------------------- a Pod as a member

FINISHED = ("Succeeded", "Failed")
STAGES: Mapping[str, int] = {"Pending": 0, "Unknown": 1, "Running": 2}


@dataclass(frozen=True, slots=True)
class PodMember(Member):
    """One Pod. ``cost`` is what an annotation says that its deletion costs."""

    node: str = ""
    stage: int = 0
    cost: int = 0


def read(header: Header, pod: Pod | None) -> PodMember:
    """The facts of one Pod in a cache; None: one that the type cannot read, which counts."""
    if pod is None:
        return PodMember(header.key, header.uid, header.owner_uid, header.labels, header.deleting)
    meta, phase = pod.metadata, pod.status.phase
    return PodMember(
        header.key,
        header.uid,
        "" if phase in FINISHED else header.owner_uid,
        meta.labels,
        deleting=header.deleting or phase in FINISHED,
        created=stamp(meta.creation_timestamp) or 0.0,
        ready_since=_ready_since(pod),
        version=meta.resource_version,
        node=pod.spec.node_name,
        stage=STAGES.get(phase, 0),
        cost=integer(meta.annotations, DELETION_COST),
    )


def _ready_since(pod: Pod) -> float | None:
    if (found := find_true_condition(pod.status.conditions, "Ready")) is None:
        return None
    return stamp(found.last_transition_time or pod.metadata.creation_timestamp) or 0.0


def rank(pod: PodMember) -> Rank:
    """The smallest is deleted first: no node, not running, not ready, cheaper, ready for less time, newer."""
    ready = (0, 0.0) if pod.ready_since is None else (1, -pod.ready_since)
    return (1 if pod.node else 0, pod.stage, ready[0], pod.cost, ready[1], -pod.created, pod.name)


# ---------------------------------------------------------------- ReplicaSets

ONE_BY_ONE = 1_000
"""Each Pod of a pass gets an event; the recorder combines those that are too many."""

SetSeen = SeenOfSet[ReplicaSet, PodMember]


class ReplicaSets(SetPolicy[ReplicaSet, PodMember, Pod]):
    """What ReplicaSets do. Defaults and validation are the server's."""

    name = "replicaset"
    component = "replicaset-controller"
    words = SetWords("pod", "pods", "Created pod: {}", "Deleted pod: {}", one_by_one=ONE_BY_ONE)
    kind = REPLICA_SET
    member_kind = POD
    owner = DEPLOYMENT
    desired_annotation = DESIRED_REPLICAS

    async def create(self, client: Client, owner: ReplicaSet, name: str) -> None:
        """Create the Pod of this name.

        Raises:
            ApiError: the server refuses it. In its message the Pod's name is replaced by the prefix that all
                Pods of the set share (``generateName``): each attempt has another name, and a message that
                differs each time would be an event each time.
        """
        template, prefix = owner.spec.template, f"{owner.name}-"
        meta = template.metadata
        metadata = {
            "name": name,
            "generateName": prefix,
            "namespace": owner.namespace,
            "labels": dict(meta.labels),
            "annotations": dict(meta.annotations),
            "finalizers": list(meta.finalizers),
            "ownerReferences": [to_builtins(reference(owner, REPLICA_SET))],
        }
        body = {"metadata": {key: value for key, value in metadata.items() if value}, "spec": template.spec}
        try:
            await client.create(POD, body)
        except AlreadyExists:
            raise
        except ApiError as error:
            error.message = error.message.replace(f'"{name}"', f'"{prefix}"')
            error.args = (error.message,)
            raise

    def ranking(
        self, of: ReplicaSet, wall: float, living: Sequence[PodMember]
    ) -> Callable[[PodMember], Rank]:
        """As ``rank``: the same at all times."""
        return rank

    def status(self, seen: SetSeen, failure: Failure | None) -> ReplicaSetStatus:
        """The status to write; ``failure``: what kept this pass from creating or deleting Pods."""
        found, pods = seen.set, seen.alive
        return structs.replace(
            found.status,
            **set_counted(seen, pods),
            terminating_replicas=len(seen.members) - len(pods),
            observed_generation=found.metadata.generation,
            conditions=with_failure(found.status.conditions, failure, Condition, seen.wall),
        )


REPLICA_SETS = ReplicaSets()


# ---------------------------------------------------------------- Deployments

METADATA_KEYS = MetadataKeys(
    template_hash=HASH_LABEL,
    revision=REVISION,
    history=REVISION_HISTORY,
    desired=DESIRED_REPLICAS,
    ceiling=MAX_REPLICAS,
    own=frozenset((LAST_APPLIED, ROLLBACK_TO)),
)

REASONS = Reasons(
    created="NewReplicaSetCreated",
    found="FoundNewReplicaSet",
    updated="ReplicaSetUpdated",
    complete="NewReplicaSetAvailable",
    timed_out="ProgressDeadlineExceeded",
    paused="DeploymentPaused",
    resumed="",  # kube-controller-manager says it for a moment, before it says what follows
    create_error="ReplicaSetCreateError",
    invalid=INVALID,
    available="MinimumReplicasAvailable",
    unavailable="MinimumReplicasUnavailable",
    selects_all="SelectingAll",
    scaled="ScalingReplicaSet",
)

WORDS = Words(
    deployment="Deployment",
    set="replica set",
    member="pod",
    scaled="Scaled {direction} replica set {name} from {before} to {after}",
)


class Deployments(DeploymentPolicy[Deployment, ReplicaSet, PodMember]):
    """What Deployments do. Defaults and validation are the server's."""

    name = "deployment"
    component = "deployment-controller"
    kind = DEPLOYMENT
    set_kind = REPLICA_SET
    member_kind = POD
    metadata_keys = METADATA_KEYS
    reasons = REASONS
    words = WORDS
    scaling = Scaling(first=True, growth=Growth.SHARED)
    counts_deleting = False

    def strategy(self, deployment: Deployment) -> Strategy:
        """How old Pods give way to new ones."""
        given = deployment.spec.strategy
        if given.type == "Recreate" or given.rolling_update is None:
            return Recreate()
        rolling = given.rolling_update
        return RollingUpdate(rolling.max_surge, rolling.max_unavailable)

    def waits_for_deleting(self, deployment: Deployment) -> bool:
        """Only with ``Recreate``."""
        return isinstance(self.strategy(deployment), Recreate)

    def identity(self, template: PodTemplate) -> bytes:
        """Equal for templates between which nothing is to be rolled out."""
        plain = with_hash(template, HASH_LABEL, "")
        meta = structs.replace(plain.metadata, creation_timestamp=None)
        return msgspec.json.encode(structs.replace(plain, metadata=meta), order="deterministic")

    def name_and_hash(self, deployment: Deployment) -> tuple[str, str]:
        """``<deployment>-<hash>``, and the hash, which a collision changes."""
        collisions = deployment.status.collision_count
        tail = b"" if collisions is None else collisions.to_bytes(4, "little")
        hashed = safe_encode(str(fnv32a(self.identity(deployment.spec.template) + tail)))
        return f"{deployment.name}-{hashed}", hashed

    def ranking(
        self, of: ReplicaSet, wall: float, living: Sequence[PodMember]
    ) -> Callable[[PodMember], Rank]:
        """As ``rank``: the same at all times."""
        return rank

    def status(self, seen: Seen[Deployment, ReplicaSet, PodMember], failures: Failures) -> DeploymentStatus:
        """The status to write, from what was seen after a pass and what happened in it."""
        return structs.replace(
            seen.written.status,
            **counted(seen, failures),
            terminating_replicas=sum(not pod.alive for pod in seen.all_members),
            conditions=conditions(seen, failures, DeploymentCondition, {}),
        )


DEPLOYMENTS = Deployments()
