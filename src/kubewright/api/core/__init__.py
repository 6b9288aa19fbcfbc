"""The slices of Kubernetes' own kinds that we read or write.

Theory.      A slice holds the fields that some decision of ours looks at, and no others: what is
             not here is skipped when reading, which keeps decoding in microseconds. Nothing is
             lost by it, because these objects are only ever patched (design decision D3). Only
             what we create ourselves (Leases, Events, token Secrets) is written as a whole.
Map.         ``nodes`` ``pods`` ``basics`` ``volumes`` ``records`` ``definitions`` ``access``; import
             from here.
"""

from kubewright.api.core.access import CLUSTER_ROLE
from kubewright.api.core.basics import (
    CONFIG_MAP,
    NAMESPACE,
    SECRET,
    SERVICE_ACCOUNT,
    ConfigMap,
    Namespace,
    NamespaceStatus,
    Secret,
    ServiceAccount,
)
from kubewright.api.core.definitions import (
    CRD,
    CrdNames,
    CrdSpec,
    CrdStatus,
    CrdVersion,
    CustomResourceDefinition,
)
from kubewright.api.core.nodes import (
    NODE,
    AttachedVolume,
    ConfigMapNodeConfigSource,
    Node,
    NodeAddress,
    NodeCondition,
    NodeConfigSource,
    NodeSpec,
    NodeStatus,
    NodeSystemInfo,
    Taint,
)
from kubewright.api.core.pods import (
    PDB,
    POD,
    ClaimSource,
    EmptyDir,
    Pod,
    PodDisruptionBudget,
    PodDisruptionBudgetSpec,
    PodDisruptionBudgetStatus,
    PodSpec,
    PodStatus,
    Volume,
)
from kubewright.api.core.records import EVENT, LEASE, Event, EventSource, Lease, LeaseSpec, ObjectReference
from kubewright.api.core.volumes import (
    PV,
    PVC,
    VOLUME_ATTACHMENT,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    VolumeAttachment,
    VolumeAttachmentSource,
    VolumeAttachmentSpec,
    VolumeAttachmentStatus,
)

__all__ = [
    "CLUSTER_ROLE",
    "CONFIG_MAP",
    "NAMESPACE",
    "SECRET",
    "SERVICE_ACCOUNT",
    "ConfigMap",
    "Namespace",
    "NamespaceStatus",
    "Secret",
    "ServiceAccount",
    "CRD",
    "CrdNames",
    "CrdSpec",
    "CrdStatus",
    "CrdVersion",
    "CustomResourceDefinition",
    "NODE",
    "AttachedVolume",
    "ConfigMapNodeConfigSource",
    "Node",
    "NodeAddress",
    "NodeCondition",
    "NodeConfigSource",
    "NodeSpec",
    "NodeStatus",
    "NodeSystemInfo",
    "Taint",
    "PDB",
    "POD",
    "ClaimSource",
    "EmptyDir",
    "Pod",
    "PodDisruptionBudget",
    "PodDisruptionBudgetSpec",
    "PodDisruptionBudgetStatus",
    "PodSpec",
    "PodStatus",
    "Volume",
    "EVENT",
    "LEASE",
    "Event",
    "EventSource",
    "Lease",
    "LeaseSpec",
    "ObjectReference",
    "PV",
    "PVC",
    "VOLUME_ATTACHMENT",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "PersistentVolumeClaimSpec",
    "VolumeAttachment",
    "VolumeAttachmentSource",
    "VolumeAttachmentSpec",
    "VolumeAttachmentStatus",
]
