"""Secret, ConfigMap, Namespace and ServiceAccount."""

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


class ConfigMap(KubeObject, frozen=True, kw_only=True):
    """Configuration by key."""

    data: Mapping[str, str] = field(default_factory=dict)


class NamespaceStatus(Value, frozen=True, kw_only=True):
    """How a namespace is."""

    phase: str = ""


class Namespace(KubeObject, frozen=True, kw_only=True):
    """A room for objects."""

    status: NamespaceStatus = field(default_factory=NamespaceStatus)


class ServiceAccount(KubeObject, frozen=True, kw_only=True):
    """An identity for pods."""


SECRET = Kind(Resource("", "v1", "secrets", "Secret"), Secret)
CONFIG_MAP = Kind(Resource("", "v1", "configmaps", "ConfigMap", short_names=("cm",)), ConfigMap)
NAMESPACE = Kind(
    Resource("", "v1", "namespaces", "Namespace", namespaced=False, short_names=("ns",)), Namespace
)
SERVICE_ACCOUNT = Kind(
    Resource("", "v1", "serviceaccounts", "ServiceAccount", short_names=("sa",)), ServiceAccount
)
