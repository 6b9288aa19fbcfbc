"""Pod and PodDisruptionBudget: what runs on a node, and how much of it must keep running."""

from collections.abc import Mapping

from msgspec import field

from kubewright.api.kinds import Kind
from kubewright.api.meta import (
    Condition,
    KubeObject,
    LabelSelector,
    Time,
    Value,
)
from kubewright.wire.gvk import Resource

MIRROR_POD_ANNOTATION = "kubernetes.io/config.mirror"
"""On a Pod that only shows what a kubelet runs from a file: to delete it ends nothing."""


class EmptyDir(Value, frozen=True, kw_only=True):
    """A volume that dies with its pod."""

    medium: str = ""


class ClaimSource(Value, frozen=True, kw_only=True):
    """A volume that a PersistentVolumeClaim stands for."""

    claim_name: str = ""
    read_only: bool = False


class Volume(Value, frozen=True, kw_only=True):
    """A volume of a pod; kinds that we do not care about have neither member."""

    name: str = ""
    persistent_volume_claim: ClaimSource | None = None
    empty_dir: EmptyDir | None = None


class PodSpec(Value, frozen=True, kw_only=True):
    """What a pod should be."""

    node_name: str = ""
    priority: int = 0
    termination_grace_period_seconds: int | None = None
    volumes: tuple[Volume, ...] = ()


class PodStatus(Value, frozen=True, kw_only=True):
    """What a pod is."""

    phase: str = ""
    conditions: tuple[Condition, ...] = ()


class Pod(KubeObject, frozen=True, kw_only=True):
    """A running workload."""

    spec: PodSpec = field(default_factory=PodSpec)
    status: PodStatus = field(default_factory=PodStatus)


class PodDisruptionBudgetSpec(Value, frozen=True, kw_only=True):
    """How many pods must stay."""

    selector: LabelSelector | None = None
    min_available: int | str | None = None
    max_unavailable: int | str | None = None


class PodDisruptionBudgetStatus(Value, frozen=True, kw_only=True):
    """How many pods there are, and how many may go now."""

    observed_generation: int = 0
    disrupted_pods: Mapping[str, Time | None] = field(default_factory=dict)
    disruptions_allowed: int = 0
    current_healthy: int = 0
    desired_healthy: int = 0
    expected_pods: int = 0


class PodDisruptionBudget(KubeObject, frozen=True, kw_only=True):
    """A limit on voluntary evictions."""

    spec: PodDisruptionBudgetSpec = field(default_factory=PodDisruptionBudgetSpec)
    status: PodDisruptionBudgetStatus = field(default_factory=PodDisruptionBudgetStatus)


POD = Kind(Resource("", "v1", "pods", "Pod", short_names=("po",)), Pod)
PDB = Kind(
    Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", short_names=("pdb",)),
    PodDisruptionBudget,
)
