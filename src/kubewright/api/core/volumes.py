"""PersistentVolume, PersistentVolumeClaim and VolumeAttachment: what a drain must see let go."""

from collections.abc import Mapping

from msgspec import field

from kubewright.api.kinds import Kind
from kubewright.api.meta import (
    Json,
    KubeObject,
    Value,
)
from kubewright.wire.gvk import Resource


class PersistentVolume(KubeObject, frozen=True, kw_only=True):
    """A volume of the cloud. ``spec`` is raw: drivers look for their own part of it."""

    spec: Mapping[str, Json] = field(default_factory=dict)


class PersistentVolumeClaimSpec(Value, frozen=True, kw_only=True):
    """Which volume a claim has got; empty until it is bound."""

    volume_name: str = ""


class PersistentVolumeClaim(KubeObject, frozen=True, kw_only=True):
    """A pod's claim to a volume."""

    spec: PersistentVolumeClaimSpec = field(default_factory=PersistentVolumeClaimSpec)


class VolumeAttachmentSource(Value, frozen=True, kw_only=True):
    """The volume that is attached; empty for volumes that stand inside a pod."""

    persistent_volume_name: str = ""


class VolumeAttachmentSpec(Value, frozen=True, kw_only=True):
    """Which volume should be attached to which node."""

    attacher: str = ""
    node_name: str = ""
    source: VolumeAttachmentSource = field(default_factory=VolumeAttachmentSource)


class VolumeAttachmentStatus(Value, frozen=True, kw_only=True):
    """Whether the volume is attached."""

    attached: bool = False


class VolumeAttachment(KubeObject, frozen=True, kw_only=True):
    """The wish to attach a volume to a node."""

    spec: VolumeAttachmentSpec = field(default_factory=VolumeAttachmentSpec)
    status: VolumeAttachmentStatus = field(default_factory=VolumeAttachmentStatus)


PV = Kind(
    Resource("", "v1", "persistentvolumes", "PersistentVolume", namespaced=False, short_names=("pv",)),
    PersistentVolume,
)
PVC = Kind(
    Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", short_names=("pvc",)),
    PersistentVolumeClaim,
)
VOLUME_ATTACHMENT = Kind(
    Resource("storage.k8s.io", "v1", "volumeattachments", "VolumeAttachment", namespaced=False),
    VolumeAttachment,
)
