"""The policy of Deployments: what ``replicas.deployment`` has to know to roll out Pods.

Called by    ``builtin``.
Source       kube-controller-manager's deployment-controller.
"""

from collections.abc import Callable, Sequence

import msgspec
from msgspec import structs

from kubewright.api.apps import (
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
)
from kubewright.api.core import POD
from kubewright.base.names import fnv32a, safe_encode
from kubewright.builtin.apps.replicasets import PodMember, rank
from kubewright.replicas.deployment.policy import DeploymentPolicy, MetadataKeys, Reasons, Words
from kubewright.replicas.deployment.seen import Outcome, Seen
from kubewright.replicas.deployment.status import conditions, counted
from kubewright.replicas.objects import INVALID, with_hash
from kubewright.rollout.model import Rank
from kubewright.rollout.planner import Recreate, RollingUpdate, Scaling, Strategy
from kubewright.rollout.proportional import Growth

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

    def status(self, seen: Seen[Deployment, ReplicaSet, PodMember], outcome: Outcome) -> DeploymentStatus:
        """The status to write, from what was seen after a pass and what happened in it."""
        return structs.replace(
            seen.written.status,
            **counted(seen, outcome),
            terminating_replicas=sum(not pod.alive for pod in seen.all_members),
            conditions=conditions(seen, outcome, DeploymentCondition, {}),
        )


DEPLOYMENTS = Deployments()
