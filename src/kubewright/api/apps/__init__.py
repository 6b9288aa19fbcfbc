"""The kinds of ``apps/v1``: Deployment, ReplicaSet, and what disruption budgets need of StatefulSet.

Theory.      As in ``api.core``: the fields that controllers read or write, and no others. A Pod's spec is
             kept as raw JSON, so nothing of it is lost.
Invariants.  Defaults are those that kube-apiserver fills in where the difference matters (``replicas``).
"""

from msgspec import field

from kubewright.api.kinds import Kind
from kubewright.api.meta import Condition, Json, KubeObject, LabelSelector, ObjectMeta, Time, Value
from kubewright.wire.gvk import Resource

GROUP = "apps"

HASH_LABEL = "pod-template-hash"
REVISION = "deployment.kubernetes.io/revision"
REVISION_HISTORY = "deployment.kubernetes.io/revision-history"
DESIRED_REPLICAS = "deployment.kubernetes.io/desired-replicas"
MAX_REPLICAS = "deployment.kubernetes.io/max-replicas"
ROLLBACK_TO = "deprecated.deployment.rollback.to"
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"


class PodTemplate(Value, frozen=True, kw_only=True):
    """What new Pods look like."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: dict[str, Json] = field(default_factory=dict)


class ReplicaSetSpec(Value, frozen=True, kw_only=True):
    """What a ReplicaSet should be."""

    replicas: int = 1
    min_ready_seconds: int = 0
    selector: LabelSelector | None = None
    template: PodTemplate = field(default_factory=PodTemplate)


class ReplicaSetStatus(Value, frozen=True, kw_only=True):
    """What a ReplicaSet is."""

    replicas: int = 0
    fully_labeled_replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    terminating_replicas: int | None = None
    observed_generation: int = 0
    conditions: tuple[Condition, ...] = ()


class ReplicaSet(KubeObject, frozen=True, kw_only=True):
    """A number of Pods of one template."""

    spec: ReplicaSetSpec = field(default_factory=ReplicaSetSpec)
    status: ReplicaSetStatus = field(default_factory=ReplicaSetStatus)


class RollingUpdate(Value, frozen=True, kw_only=True):
    """By how many Pods a Deployment may be above and below its replicas during a rolling update."""

    max_surge: int | str = "25%"
    max_unavailable: int | str = "25%"


class DeploymentStrategy(Value, frozen=True, kw_only=True):
    """How old Pods give way to new ones."""

    type: str = "RollingUpdate"
    rolling_update: RollingUpdate | None = None


class DeploymentSpec(Value, frozen=True, kw_only=True):
    """What a Deployment should be."""

    replicas: int = 1
    min_ready_seconds: int = 0
    selector: LabelSelector | None = None
    template: PodTemplate = field(default_factory=PodTemplate)
    strategy: DeploymentStrategy = field(default_factory=DeploymentStrategy)
    paused: bool = False
    revision_history_limit: int | None = None
    progress_deadline_seconds: int | None = None


class DeploymentCondition(Condition, frozen=True, kw_only=True):
    """A condition that says when it was last confirmed."""

    last_update_time: Time | None = None


class DeploymentStatus(Value, frozen=True, kw_only=True):
    """What a Deployment is."""

    observed_generation: int = 0
    replicas: int = 0
    updated_replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    unavailable_replicas: int = 0
    terminating_replicas: int | None = None
    collision_count: int | None = None
    conditions: tuple[DeploymentCondition, ...] = ()


class Deployment(KubeObject, frozen=True, kw_only=True):
    """Pods of one template, replaced step by step when it changes."""

    spec: DeploymentSpec = field(default_factory=DeploymentSpec)
    status: DeploymentStatus = field(default_factory=DeploymentStatus)


class StatefulSetSpec(Value, frozen=True, kw_only=True):
    """What a StatefulSet should be."""

    replicas: int = 1


class StatefulSet(KubeObject, frozen=True, kw_only=True):
    """Pods with names and volumes of their own."""

    spec: StatefulSetSpec = field(default_factory=StatefulSetSpec)


def _resource(kind: str, *short_names: str) -> Resource:
    return Resource(GROUP, "v1", f"{kind.lower()}s", kind, short_names=short_names)


DEPLOYMENT: Kind[Deployment] = Kind(_resource("Deployment", "deploy"), Deployment)
REPLICA_SET: Kind[ReplicaSet] = Kind(_resource("ReplicaSet", "rs"), ReplicaSet)
STATEFUL_SET: Kind[StatefulSet] = Kind(_resource("StatefulSet", "sts"), StatefulSet)
