"""KubeadmConfig: how one machine becomes a node, and KubeadmConfigTemplate, which sets clone.

Invariants.  ``status.dataSecretName`` follows from the object itself, it is its name: a status that was lost
             can be made again (capi.md §3.5).
Source       capi.md §2.7; S1-04 to S1-14.
"""

from typing import Annotated

from msgspec import field

from kubewright.api.bootstrap.names import GROUP, VERSION, Format
from kubewright.api.bootstrap.v1beta1.cluster import ClusterConfiguration
from kubewright.api.bootstrap.v1beta1.host import NTP, DiskSetup, File, IgnitionSpec, User
from kubewright.api.bootstrap.v1beta1.nodes import InitConfiguration, JoinConfiguration
from kubewright.api.cluster.v1beta1.shared import Condition
from kubewright.api.kinds import Kind
from kubewright.api.meta import Int32, Int64, KubeObject, ObjectMeta, Value, doc
from kubewright.wire.gvk import Resource


class KubeadmConfigSpec(Value, frozen=True, kw_only=True):
    """How a machine becomes a node."""

    cluster_configuration: Annotated[
        ClusterConfiguration | None, doc("For the first control plane machine: what the cluster is.")
    ] = None
    init_configuration: Annotated[
        InitConfiguration | None, doc("For the first control plane machine: what it is itself.")
    ] = None
    join_configuration: Annotated[
        JoinConfiguration | None, doc("For every other machine; what is absent is filled in.")
    ] = None
    files: Annotated[tuple[File, ...], doc("Files to write before kubeadm runs.")] = ()
    disk_setup: Annotated[DiskSetup | None, doc("Disks and file systems to make.")] = None
    mounts: Annotated[tuple[tuple[str, ...], ...], doc("Lines of fstab: what, where, type, options.")] = ()
    pre_kubeadm_commands: Annotated[tuple[str, ...], doc("Commands to run before kubeadm.")] = ()
    post_kubeadm_commands: Annotated[tuple[str, ...], doc("Commands to run after kubeadm.")] = ()
    users: Annotated[tuple[User, ...], doc("Users of the machine.")] = ()
    ntp: Annotated[NTP | None, doc("Where the machine gets the time from.")] = None
    format: Annotated[
        str, doc("The form of the data: cloud-config if empty.", enum=[each.value for each in Format])
    ] = ""
    verbosity: Annotated[Int32 | None, doc("How much kubeadm logs: its flag --v.")] = None
    use_experimental_retry_join: Annotated[
        bool, doc("Joins phase by phase, each with retries, by a script. Deprecated: kubeadm retries itself.")
    ] = False
    ignition: Annotated[IgnitionSpec | None, doc("What only Ignition knows; format must be ignition.")] = None


class KubeadmConfigStatus(Value, frozen=True, kw_only=True):
    """Whether the data is there."""

    ready: Annotated[bool, doc("Whether the data is in its Secret.")] = False
    data_secret_name: Annotated[str | None, doc("The Secret with the data, in its key value.")] = None
    failure_reason: Annotated[str, doc("Why this can never work, in one word. Not written by us.")] = ""
    failure_message: Annotated[str, doc("Why this can never work, for people. Not written by us.")] = ""
    observed_generation: Annotated[Int64, doc("The generation that this status is about.")] = 0
    conditions: Annotated[tuple[Condition, ...], doc("What is reached and what is waited for.")] = ()


class KubeadmConfig(KubeObject, frozen=True, kw_only=True):
    """How one machine becomes a node of its cluster, by kubeadm."""

    spec: Annotated[KubeadmConfigSpec, doc("How the machine becomes a node.")] = field(
        default_factory=KubeadmConfigSpec
    )
    status: Annotated[KubeadmConfigStatus, doc("Whether the data is there.")] = field(
        default_factory=KubeadmConfigStatus
    )


class KubeadmConfigTemplateResource(Value, frozen=True, kw_only=True):
    """What each clone is like."""

    metadata: Annotated[ObjectMeta, doc("Labels and annotations of each clone.")] = field(
        default_factory=ObjectMeta
    )
    spec: Annotated[KubeadmConfigSpec, doc("The spec of each clone.")] = field(
        default_factory=KubeadmConfigSpec
    )


class KubeadmConfigTemplateSpec(Value, frozen=True, kw_only=True):
    """What the clones are like."""

    template: Annotated[KubeadmConfigTemplateResource, doc("What each clone is like.", required=True)] = (
        field(default_factory=KubeadmConfigTemplateResource)
    )


class KubeadmConfigTemplate(KubeObject, frozen=True, kw_only=True):
    """What MachineSets clone a KubeadmConfig from, for each of their machines."""

    spec: Annotated[KubeadmConfigTemplateSpec, doc("What the clones are like.")] = field(
        default_factory=KubeadmConfigTemplateSpec
    )


def _resource(plural: str, kind: str) -> Resource:
    return Resource(GROUP, VERSION, plural, kind)


KUBEADM_CONFIG = Kind(_resource("kubeadmconfigs", "KubeadmConfig"), KubeadmConfig)
KUBEADM_CONFIG_TEMPLATE = Kind(
    _resource("kubeadmconfigtemplates", "KubeadmConfigTemplate"), KubeadmConfigTemplate
)
