"""What a server serves and allows: CustomResourceDefinitions, as far as a client asks (is the kind there,
and is it served?), and ClusterRoles, as plain JSON because their rules are passed on as they stand.
"""

from msgspec import field

from kubewright.api.kinds import Kind, dynamic
from kubewright.api.meta import (
    Condition,
    KubeObject,
    Value,
)
from kubewright.wire.gvk import Resource


class CrdNames(Value, frozen=True, kw_only=True):
    """What the objects of a custom resource are called."""

    plural: str = ""
    singular: str = ""
    kind: str = ""
    list_kind: str = ""
    short_names: tuple[str, ...] = ()


class CrdVersion(Value, frozen=True, kw_only=True):
    """One version of a custom resource."""

    name: str = ""
    served: bool = False
    storage: bool = False


class CrdSpec(Value, frozen=True, kw_only=True):
    """What a custom resource is."""

    group: str = ""
    scope: str = ""
    names: CrdNames = field(default_factory=CrdNames)
    versions: tuple[CrdVersion, ...] = ()


class CrdStatus(Value, frozen=True, kw_only=True):
    """Whether a custom resource is served: condition ``Established``."""

    conditions: tuple[Condition, ...] = ()


class CustomResourceDefinition(KubeObject, frozen=True, kw_only=True):
    """A kind that somebody added to the API server."""

    spec: CrdSpec = field(default_factory=CrdSpec)
    status: CrdStatus = field(default_factory=CrdStatus)


CRD = Kind(
    Resource(
        "apiextensions.k8s.io",
        "v1",
        "customresourcedefinitions",
        "CustomResourceDefinition",
        namespaced=False,
        short_names=("crd", "crds"),
    ),
    CustomResourceDefinition,
)


CLUSTER_ROLE = dynamic(
    Resource("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", namespaced=False)
)
