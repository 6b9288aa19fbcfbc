"""The kinds that components in pods consist of, as far as we look at them.

Theory.      Of a Pod only identity and health are kept: its spec is ours and known. StatefulSets and Services
             are kept whole, since a patch is computed from what there is. Informers hold only what has our
             labels, so that the pods of others cost no memory.
Called by    the other modules here.
"""

from typing import Any

from msgspec import field

from kubewright.api.apps import STATEFUL_SET
from kubewright.api.cluster.names import CLUSTER_NAME_LABEL
from kubewright.api.controlplane.names import COMPONENT_LABEL, ROLE_LABEL
from kubewright.api.core import POD
from kubewright.api.kinds import Kind, dynamic
from kubewright.api.meta import Condition, KubeObject, Time, Value
from kubewright.wire.gvk import Resource

OURS = ",".join((COMPONENT_LABEL, ROLE_LABEL, CLUSTER_NAME_LABEL))
"""Selects what is made for components: it has all three labels."""

FINISHED = ("Succeeded", "Failed")
"""Phases of a Pod that runs nothing any more."""


class Waiting(Value, frozen=True, kw_only=True):
    """A container that does not run: why, in a word and a sentence."""

    reason: str = ""
    message: str = ""


class Terminated(Value, frozen=True, kw_only=True):
    """How a container ended. Its message, which may be the end of a log, is not read."""

    reason: str = ""
    exit_code: int = 0


class Running(Value, frozen=True, kw_only=True):
    """A container that runs."""

    started_at: Time | None = None


class ContainerState(Value, frozen=True, kw_only=True):
    """What a container does: one of the three."""

    waiting: Waiting | None = None
    running: Running | None = None
    terminated: Terminated | None = None


class ContainerStatus(Value, frozen=True, kw_only=True):
    """What a kubelet says of a container."""

    ready: bool = False
    restart_count: int = 0
    state: ContainerState = field(default_factory=ContainerState)
    last_state: ContainerState = field(default_factory=ContainerState)


class PodHealth(Value, frozen=True, kw_only=True):
    """What a kubelet says of a Pod."""

    phase: str = ""
    reason: str = ""
    pod_ip: str = field(default="", name="podIP")
    conditions: tuple[Condition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()


class ComponentPod(KubeObject, frozen=True, kw_only=True):
    """A Pod, as far as it says how an instance is."""

    status: PodHealth = field(default_factory=PodHealth)


INSTANCE: Kind[ComponentPod] = Kind(POD.resource, ComponentPod, pruned=True)
WORKLOAD: Kind[dict[str, Any]] = dynamic(STATEFUL_SET.resource)
SERVICE = dynamic(Resource("", "v1", "services", "Service", short_names=("svc",)))
CLAIM: Kind[KubeObject] = Kind(
    Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", short_names=("pvc",)), KubeObject
)

KINDS = {"StatefulSet": WORKLOAD, "Service": SERVICE}
"""What a set of templates may consist of here."""
