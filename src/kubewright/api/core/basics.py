"""Secret, Namespace, and VolumeAttachment: what a drain must see let go."""

from collections.abc import Mapping

from msgspec import field

from kubewright.api.kinds import Kind
from kubewright.api.meta import (
    KubeObject,
    Value,
)
from kubewright.wire.gvk import Resource


class Secret(KubeObject, frozen=True, kw_only=True):
    """Confidential bytes by key; base64 on the wire. Never log one."""

    type: str = ""
    data: Mapping[str, bytes] = field(default_factory=dict)
    immutable: bool = False

    def __repr__(self) -> str:
        return f"Secret({self.namespace}/{self.name}, keys={sorted(self.data)})"


class NamespaceStatus(Value, frozen=True, kw_only=True):
    """How a namespace is."""

    phase: str = ""


class Namespace(KubeObject, frozen=True, kw_only=True):
    """A room for objects."""

    status: NamespaceStatus = field(default_factory=NamespaceStatus)


SECRET = Kind(Resource("", "v1", "secrets", "Secret"), Secret)
NAMESPACE = Kind(
    Resource("", "v1", "namespaces", "Namespace", namespaced=False, short_names=("ns",)), Namespace
)


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
    """A request to attach a volume to a node."""

    spec: VolumeAttachmentSpec = field(default_factory=VolumeAttachmentSpec)
    status: VolumeAttachmentStatus = field(default_factory=VolumeAttachmentStatus)


VOLUME_ATTACHMENT = Kind(
    Resource("storage.k8s.io", "v1", "volumeattachments", "VolumeAttachment", namespaced=False),
    VolumeAttachment,
)
