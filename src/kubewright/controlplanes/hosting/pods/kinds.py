"""The kinds of objects that components in pods consist of, as far as we read them.

Theory.      Of a Pod only metadata and status are kept, because its spec is the one that we wrote.
             StatefulSets and Services are kept as a whole, since patches are computed from them. Informers
             select by our labels, so the pods of others cost no memory.
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

OUR_LABELS = ",".join((COMPONENT_LABEL, ROLE_LABEL, CLUSTER_NAME_LABEL))
"""The label selector of everything that is made for components: it has all three labels."""

FINISHED = ("Succeeded", "Failed")
"""Phases of a Pod that runs nothing any more."""


class ContainerStateWaiting(Value, frozen=True, kw_only=True):
    """Why a container does not run yet, in a word and a sentence."""

    reason: str = ""
    message: str = ""


class ContainerStateTerminated(Value, frozen=True, kw_only=True):
    """How a container ended. Its message, which may be the end of a log, is not read."""

    reason: str = ""
    exit_code: int = 0


class ContainerStateRunning(Value, frozen=True, kw_only=True):
    """A container that runs."""

    started_at: Time | None = None


class ContainerState(Value, frozen=True, kw_only=True):
    """The state of a container: one of the three is set."""

    waiting: ContainerStateWaiting | None = None
    running: ContainerStateRunning | None = None
    terminated: ContainerStateTerminated | None = None


class ContainerStatus(Value, frozen=True, kw_only=True):
    """The status of a container, as its kubelet writes it."""

    ready: bool = False
    restart_count: int = 0
    state: ContainerState = field(default_factory=ContainerState)
    last_state: ContainerState = field(default_factory=ContainerState)


class PodStatus(Value, frozen=True, kw_only=True):
    """The status of a Pod, as its kubelet writes it."""

    phase: str = ""
    reason: str = ""
    pod_ip: str = field(default="", name="podIP")
    conditions: tuple[Condition, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()


class ComponentPod(KubeObject, frozen=True, kw_only=True):
    """A Pod with metadata and status alone."""

    status: PodStatus = field(default_factory=PodStatus)


INSTANCE: Kind[ComponentPod] = Kind(POD.resource, ComponentPod, pruned=True)
RESTORE_POD: Kind[dict[str, Any]] = dynamic(POD.resource)
"""A Pod that replaces the data of a member, as we write it."""
WORKLOAD: Kind[dict[str, Any]] = dynamic(STATEFUL_SET.resource)
SERVICE = dynamic(Resource("", "v1", "services", "Service", short_names=("svc",)))
CLAIM: Kind[KubeObject] = Kind(
    Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", short_names=("pvc",)), KubeObject
)

RESTORE_CLAIM: Kind[dict[str, Any]] = dynamic(CLAIM.resource)
"""A claim that such a Pod needs, as we write it."""

KINDS = {"StatefulSet": WORKLOAD, "Service": SERVICE}
"""The kinds of manifests that this host accepts."""
