"""Kubernetes' kinds of storage, as far as drains read them: which volume a pod has, and where it is attached.

Theory.      A pod names a PersistentVolumeClaim, and the claim names its PersistentVolume; a VolumeAttachment
             asks for that volume on one node, and says whether it is there. As in ``core``, a type has the
             fields that one of our decisions needs.
Called by    the contexts that drain nodes; ``nodes.drain.session`` (claims, volumes).
"""

from collections.abc import Mapping
from typing import Any

from msgspec import field

from kubewright.api.kinds import Kind
from kubewright.api.meta import KubeObject, Value
from kubewright.wire.gvk import Resource


class PersistentVolumeClaimSpec(Value, frozen=True, kw_only=True):
    """Which PersistentVolume a claim has; empty while it has none."""

    volume_name: str = ""


class PersistentVolumeClaim(KubeObject, frozen=True, kw_only=True):
    """A request for storage that pods share."""

    spec: PersistentVolumeClaimSpec = field(default_factory=PersistentVolumeClaimSpec)


PVC = Kind(
    Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", short_names=("pvc",)),
    PersistentVolumeClaim,
)


class PersistentVolume(KubeObject, frozen=True, kw_only=True):
    """A volume of a cloud. ``spec`` is what its plugin and the cloud's driver need, as JSON gives it."""

    spec: Mapping[str, Any] = field(default_factory=dict)


PV = Kind(
    Resource("", "v1", "persistentvolumes", "PersistentVolume", namespaced=False, short_names=("pv",)),
    PersistentVolume,
)


class VolumeSource(Value, frozen=True, kw_only=True):
    """The volume that is to be attached; empty for one that stands in the pod itself."""

    persistent_volume_name: str = ""


class VolumeAttachmentSpec(Value, frozen=True, kw_only=True):
    """Which volume should be attached to which node."""

    node_name: str = ""
    source: VolumeSource = field(default_factory=VolumeSource)


class VolumeAttachmentStatus(Value, frozen=True, kw_only=True):
    """Whether it is attached."""

    attached: bool = False


class VolumeAttachment(KubeObject, frozen=True, kw_only=True):
    """A request to attach a volume to a node."""

    spec: VolumeAttachmentSpec = field(default_factory=VolumeAttachmentSpec)
    status: VolumeAttachmentStatus = field(default_factory=VolumeAttachmentStatus)


VOLUME_ATTACHMENT = Kind(
    Resource("storage.k8s.io", "v1", "volumeattachments", "VolumeAttachment", namespaced=False),
    VolumeAttachment,
)
