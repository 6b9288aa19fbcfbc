"""KubeadmConfig and KubeadmConfigTemplate, field for field as Cluster API v1.7.1 serves them.

Theory.      Wire names, types and required fields equal upstream's, because its controllers and ours work on
             the same objects. The sentences are ours; the CRDs are made from these files.
Map.         ``cluster`` (what kubeadm init is told of a cluster), ``nodes`` (what init and join are told of a
             machine), ``host`` (files, users, disks), ``configs`` (the two kinds); import from here.
Continues    in ``bootstrap.defaults``, ``validate`` and ``crds``.
"""

from kubewright.api.bootstrap.v1beta1.cluster import (
    DNS,
    APIServer,
    ClusterConfiguration,
    ControlPlaneComponent,
    Etcd,
    ExternalEtcd,
    HostPathMount,
    LocalEtcd,
    Networking,
)
from kubewright.api.bootstrap.v1beta1.configs import (
    KUBEADM_CONFIG,
    KUBEADM_CONFIG_TEMPLATE,
    KubeadmConfig,
    KubeadmConfigSpec,
    KubeadmConfigStatus,
    KubeadmConfigTemplate,
    KubeadmConfigTemplateResource,
    KubeadmConfigTemplateSpec,
)
from kubewright.api.bootstrap.v1beta1.host import (
    NTP,
    ContainerLinuxConfig,
    DiskSetup,
    File,
    Filesystem,
    IgnitionSpec,
    Partition,
    SecretKey,
    SecretSource,
    User,
)
from kubewright.api.bootstrap.v1beta1.nodes import (
    APIEndpoint,
    BootstrapToken,
    BootstrapTokenDiscovery,
    Discovery,
    FileDiscovery,
    InitConfiguration,
    JoinConfiguration,
    JoinControlPlane,
    NodeRegistration,
    Patches,
)

__all__ = [
    "KUBEADM_CONFIG",
    "KubeadmConfig",
    "KubeadmConfigSpec",
    "KubeadmConfigStatus",
    "KUBEADM_CONFIG_TEMPLATE",
    "KubeadmConfigTemplate",
    "KubeadmConfigTemplateSpec",
    "KubeadmConfigTemplateResource",
    "ClusterConfiguration",
    "APIServer",
    "ControlPlaneComponent",
    "DNS",
    "Etcd",
    "LocalEtcd",
    "ExternalEtcd",
    "HostPathMount",
    "Networking",
    "InitConfiguration",
    "JoinConfiguration",
    "JoinControlPlane",
    "NodeRegistration",
    "APIEndpoint",
    "BootstrapToken",
    "BootstrapTokenDiscovery",
    "FileDiscovery",
    "Discovery",
    "Patches",
    "File",
    "User",
    "SecretKey",
    "SecretSource",
    "NTP",
    "DiskSetup",
    "Partition",
    "Filesystem",
    "IgnitionSpec",
    "ContainerLinuxConfig",
]
