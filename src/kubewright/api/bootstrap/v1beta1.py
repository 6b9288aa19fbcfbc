"""KubeadmConfig and KubeadmConfigTemplate, field for field as Cluster API v1.7.1 serves them.

Theory.      Wire names, types and required fields equal upstream's, because its controllers and ours work on
             the same objects. The sentences are ours; the CRDs are made from them. In reading order: what
             is on the host (files, users, disks), what init and join are told of a machine, what init is
             told of a cluster, and the two kinds.
Continues    in ``validate`` (and what an unset field means) and ``manifests``.
"""

from collections.abc import Mapping
from typing import Annotated

from msgspec import field

from kubewright.api.bootstrap.names import GROUP, VERSION, Format
from kubewright.api.bootstrap.parts import (
    DiskPartition,
    EnvVar,
    Kubeconfig,
    Patches,
    SecretSource,
)
from kubewright.api.cluster.parts import StatusConditions
from kubewright.api.cluster.v1beta1 import V1BETA2, Condition
from kubewright.api.core import Taint
from kubewright.api.kinds import Kind
from kubewright.api.meta import (
    Duration,
    Int32,
    Int64,
    KubeObject,
    ObjectMeta,
    Time,
    Value,
    doc,
    extra_schema,
    text,
)
from kubewright.wire.gvk import Resource

API_VERSION = Annotated[str, doc("Accepted and ignored: the version of kubeadm decides.")]
DOCUMENT_KIND = Annotated[str, doc("Accepted and ignored: the field's name decides.")]

ENCODINGS = ("base64", "gzip", "gzip+base64")


class File(Value, frozen=True, kw_only=True):
    """A file to write."""

    path: Annotated[str, text("Its full path; each path at most once.", 512, required=True)] = ""
    owner: Annotated[str, text("user:group that owns it; root:root if empty.", 256)] = ""
    permissions: Annotated[str, text("Its mode in octal, such as 0640.", 16)] = ""
    encoding: Annotated[str, doc("How content is encoded.", enum=list(ENCODINGS))] = ""
    append: Annotated[bool, doc("Adds to a file that is there already.")] = False
    content: Annotated[str, text("The content itself.", 10240)] = ""
    content_from: Annotated[SecretSource | None, doc("Where the content is read from instead.")] = None
    content_format: Annotated[
        str,
        doc(
            "Raw, as when empty: the content as it is; Template: a template in Go's language.",
            enum=["Raw", "Template"],
        ),
    ] = ""

    def __repr__(self) -> str:
        return f"File({self.path})"


class User(Value, frozen=True, kw_only=True):
    """A user of the machine."""

    name: Annotated[str, text("The login name.", 256, required=True)] = ""
    gecos: Annotated[str | None, text("The user's full name or a note.", 256)] = None
    groups: Annotated[str | None, text("Further groups, with commas.", 256)] = None
    home_dir: Annotated[str | None, text("The home folder.", 256)] = None
    inactive: Annotated[bool | None, doc("Whether the account is made inactive.")] = None
    shell: Annotated[str | None, text("The login shell.", 256)] = None
    passwd: Annotated[str | None, text("The hash of the password.", 256)] = None
    passwd_from: Annotated[SecretSource | None, doc("Where that hash is read from instead.")] = None
    primary_group: Annotated[str | None, text("The first group.", 256)] = None
    lock_password: Annotated[bool | None, doc("Whether to forbid a login by password.")] = None
    sudo: Annotated[str | None, text("A rule of sudoers for the user.", 256)] = None
    ssh_authorized_keys: Annotated[
        tuple[Annotated[str, extra_schema(maxLength=2048, minLength=1)], ...],
        doc("Public keys that may log in.", maxItems=100),
    ] = ()

    def __repr__(self) -> str:
        return f"User({self.name})"


class NTP(Value, frozen=True, kw_only=True):
    """Where a machine gets the time from."""

    servers: Annotated[
        tuple[Annotated[str, extra_schema(maxLength=512, minLength=1)], ...],
        doc("The time servers.", maxItems=100),
    ] = ()
    enabled: Annotated[bool | None, doc("Whether the machine runs an NTP client.")] = None


class Partition(Value, frozen=True, kw_only=True):
    """How a disk is divided."""

    device: Annotated[str, text("The disk, such as /dev/sdb.", 256, required=True)] = ""
    layout: Annotated[bool, doc("Whether to make one partition over all of it.", required=True)] = False
    overwrite: Annotated[bool | None, doc("Whether to divide it even if it is divided already.")] = None
    table_type: Annotated[str | None, doc("mbr or gpt; mbr if absent.", enum=["mbr", "gpt"])] = None
    disk_layout: Annotated[
        tuple[DiskPartition, ...],
        doc("The partitions in their order, when layout is not enough.", maxItems=100, minItems=1),
    ] = ()


class Filesystem(Value, frozen=True, kw_only=True):
    """A file system to make."""

    device: Annotated[str, text("Where, such as /dev/sdb.", 256, required=True)] = ""
    filesystem: Annotated[str, text("Its type, such as ext4.", 128, required=True)] = ""
    label: Annotated[str, text("Its label.", 512)] = ""
    partition: Annotated[str | None, text("Which partition: auto, any, none or a number.", 128)] = None
    overwrite: Annotated[bool | None, doc("Whether to overwrite a file system that is there.")] = None
    replace_fs: Annotated[str | None, text("Overwrites only a file system of this type.", 128)] = field(
        default=None, name="replaceFS"
    )
    extra_opts: Annotated[
        tuple[Annotated[str, extra_schema(maxLength=256, minLength=1)], ...],
        doc("Further arguments of mkfs.", maxItems=100),
    ] = ()


class DiskSetup(Value, frozen=True, kw_only=True):
    """Disks and file systems of a machine."""

    partitions: Annotated[tuple[Partition, ...], doc("How disks are divided.", maxItems=100)] = ()
    filesystems: Annotated[tuple[Filesystem, ...], doc("File systems to make.", maxItems=100)] = ()


class ContainerLinuxConfig(Value, frozen=True, kw_only=True):
    """An addition in the notation of Container Linux."""

    additional_config: Annotated[str, text("YAML that is merged over what is made here.", 32768)] = ""
    strict: Annotated[bool, doc("Whether a warning about it is an error.")] = False


class IgnitionSpec(Value, frozen=True, kw_only=True):
    """What only Ignition knows."""

    container_linux_config: Annotated[
        ContainerLinuxConfig | None, doc("An addition to the Ignition config.")
    ] = None


ALGORITHMS = ("ECDSA-P256", "ECDSA-P384", "RSA-2048", "RSA-3072", "RSA-4096")
PULL_POLICIES = ("Always", "IfNotPresent", "Never")


class NodeRegistration(Value, frozen=True, kw_only=True):
    """How a machine registers as a node."""

    name: Annotated[str, text("The name of the node; the machine's host name if empty.", 253)] = ""
    cri_socket: Annotated[str, text("The socket of the container runtime.", 512)] = ""
    taints: Annotated[
        tuple[Taint, ...] | None,
        doc(
            "The node's first taints. Absent: kubeadm's own for its role; an empty list: none.", maxItems=100
        ),
    ] = None
    kubelet_extra_args: Annotated[
        Mapping[str, str], doc("Flags of the kubelet by name, without the dashes.")
    ] = field(default_factory=dict)
    ignore_preflight_errors: Annotated[
        tuple[Annotated[str, extra_schema(maxLength=512, minLength=1)], ...],
        doc("kubeadm's checks whose failure is only a warning.", maxItems=50),
    ] = ()
    image_pull_policy: Annotated[
        str, doc("When kubeadm pulls images; IfNotPresent if empty.", enum=list(PULL_POLICIES))
    ] = ""
    image_pull_serial: Annotated[
        bool | None, doc("Whether kubeadm pulls images one after the other; true when unset.")
    ] = None


class APIEndpoint(Value, frozen=True, kw_only=True):
    """Where the API server of one machine listens."""

    advertise_address: Annotated[str, text("The address that it tells others.", 39)] = ""
    bind_port: Annotated[Int32, doc("Its port; 6443 if zero.")] = 0


class BootstrapToken(Value, frozen=True, kw_only=True):
    """A token by which machines may join, made by kubeadm init."""

    token: Annotated[str, doc("id.secret: 6 and 16 lower-case letters and digits.", required=True)] = ""
    description: Annotated[str, text("What the token is for.", 512)] = ""
    ttl: Annotated[Duration | None, doc("For how long the token is good.")] = None
    expires: Annotated[Time | None, doc("Until when the token is good; not together with ttl.")] = None
    usages: Annotated[
        tuple[Annotated[str, extra_schema(maxLength=256, minLength=1)], ...],
        doc("What it may be used for: signing, authentication.", maxItems=100),
    ] = ()
    groups: Annotated[
        tuple[Annotated[str, extra_schema(maxLength=256, minLength=1)], ...],
        doc("The groups that its bearer is a member of.", maxItems=100),
    ] = ()

    def __repr__(self) -> str:
        return f"BootstrapToken({self.token[:6]}...)"


class InitConfiguration(Value, frozen=True, kw_only=True):
    """What ``kubeadm init`` is told about the first machine."""

    api_version: API_VERSION = ""
    kind: DOCUMENT_KIND = ""
    bootstrap_tokens: Annotated[
        tuple[BootstrapToken, ...], doc("Tokens that are made in the new cluster.", maxItems=100)
    ] = ()
    node_registration: Annotated[NodeRegistration, doc("How the machine registers as a node.")] = field(
        default_factory=NodeRegistration
    )
    local_api_endpoint: Annotated[APIEndpoint, doc("Where its API server listens.")] = field(
        default_factory=APIEndpoint, name="localAPIEndpoint"
    )
    skip_phases: Annotated[
        tuple[Annotated[str, extra_schema(maxLength=256, minLength=1)], ...],
        doc("Phases of kubeadm that are left out.", maxItems=50),
    ] = ()
    patches: Annotated[Patches | None, doc("Patches of the static pods.")] = None


class BootstrapTokenDiscovery(Value, frozen=True, kw_only=True):
    """Finds the cluster by a token that both sides know."""

    token: Annotated[str, text("The token; one is made and refreshed if it is empty.", 512)] = ""
    api_server_endpoint: Annotated[str, text("host:port of an API server; the Cluster's if empty.", 512)] = ""
    ca_cert_hashes: Annotated[
        tuple[Annotated[str, extra_schema(maxLength=512, minLength=1)], ...],
        doc("sha256:<hex> of the authorities' public keys; the cluster's own if empty.", maxItems=100),
    ] = ()
    unsafe_skip_ca_verification: Annotated[
        bool, doc("Trusts whichever cluster answers; only where no authority is known.")
    ] = field(default=False, name="unsafeSkipCAVerification")

    def __repr__(self) -> str:
        return f"BootstrapTokenDiscovery({self.token[:6]}..., {self.api_server_endpoint})"


class FileDiscovery(Value, frozen=True, kw_only=True):
    """Finds the cluster by a kubeconfig on the machine."""

    kube_config_path: Annotated[str, text("A path or URL of the kubeconfig.", 512, required=True)] = ""
    kube_config: Annotated[
        Kubeconfig | None,
        doc("The kubeconfig that is made; a file is expected at kubeConfigPath when unset."),
    ] = None


class Discovery(Value, frozen=True, kw_only=True):
    """How a machine finds the cluster; at most one of bootstrapToken and file."""

    bootstrap_token: Annotated[BootstrapTokenDiscovery | None, doc("By a token.")] = None
    file: Annotated[FileDiscovery | None, doc("By a kubeconfig; it is used as it is.")] = None
    tls_bootstrap_token: Annotated[str, text("The token for the kubelet's certificate, if another.", 512)] = (
        ""
    )
    timeout: Annotated[Duration | None, doc("How long the machine looks for the cluster.")] = None

    def __repr__(self) -> str:
        return f"Discovery(bootstrap_token={self.bootstrap_token!r}, file={self.file!r})"


class JoinControlPlane(Value, frozen=True, kw_only=True):
    """That a machine joins as one more of the control plane."""

    local_api_endpoint: Annotated[APIEndpoint, doc("Where its API server listens.")] = field(
        default_factory=APIEndpoint, name="localAPIEndpoint"
    )


class JoinConfiguration(Value, frozen=True, kw_only=True):
    """What ``kubeadm join`` is told about a machine that is not the first."""

    api_version: API_VERSION = ""
    kind: DOCUMENT_KIND = ""
    node_registration: Annotated[NodeRegistration, doc("How the machine registers as a node.")] = field(
        default_factory=NodeRegistration
    )
    ca_cert_path: Annotated[str, text("Where the cluster's authority stands on the machine.", 512)] = ""
    discovery: Annotated[Discovery, doc("How the machine finds the cluster.")] = field(
        default_factory=Discovery
    )
    control_plane: Annotated[
        JoinControlPlane | None, doc("Set for machines of the control plane, and only for them.")
    ] = None
    skip_phases: Annotated[
        tuple[Annotated[str, extra_schema(maxLength=256, minLength=1)], ...],
        doc("Phases of kubeadm that are left out.", maxItems=50),
    ] = ()
    patches: Annotated[Patches | None, doc("Patches of the static pods.")] = None


EXTRA_ARGS = Annotated[
    Mapping[str, str], doc("Further flags by name, without the dashes; they win over kubeadm's own.")
]

EXTRA_ENVS = Annotated[
    tuple[EnvVar, ...],
    doc("Environment variables of the container beside kubeadm's own.", maxItems=100),
]


class HostPathMount(Value, frozen=True, kw_only=True):
    """A folder or file of the host that a static pod sees."""

    name: Annotated[str, text("The name of the volume in the pod.", 512, required=True)] = ""
    host_path: Annotated[str, text("The path on the host.", 512, required=True)] = ""
    mount_path: Annotated[str, text("The path in the container.", 512, required=True)] = ""
    read_only: Annotated[bool, doc("Whether the container may only read it.")] = False
    path_type: Annotated[str, doc("What is expected at hostPath: Directory, File and so on.")] = ""


class ControlPlaneComponent(Value, frozen=True, kw_only=True):
    """Changes to one of the control plane's static pods."""

    extra_args: EXTRA_ARGS = field(default_factory=dict)
    extra_volumes: Annotated[
        tuple[HostPathMount, ...], doc("What of the host the pod sees beside.", maxItems=100)
    ] = ()
    extra_envs: EXTRA_ENVS = ()


class APIServer(ControlPlaneComponent, frozen=True, kw_only=True):
    """Changes to the kube-apiserver's static pod, and its certificate."""

    cert_sans: Annotated[
        tuple[Annotated[str, extra_schema(maxLength=253, minLength=1)], ...],
        doc("Further host names and addresses that its certificate is for.", maxItems=100),
    ] = field(default=(), name="certSANs")
    timeout_for_control_plane: Annotated[
        Duration | None, doc("How long kubeadm waits for the API server to answer.")
    ] = None


class ImageMeta(Value, frozen=True, kw_only=True):
    """Another place or version of an image. Its fields stand directly in the object that has it."""

    image_repository: Annotated[str, text("The registry and path to pull from.", 512)] = ""
    image_tag: Annotated[str, text("The tag of the image, in place of the one that kubeadm knows.", 256)] = ""


class DNS(ImageMeta, frozen=True, kw_only=True):
    """The image of the cluster's DNS server."""


class LocalEtcd(ImageMeta, frozen=True, kw_only=True):
    """The etcd that runs on each control plane machine."""

    data_dir: Annotated[str, text("Where etcd keeps its data; /var/lib/etcd if empty.", 512)] = ""
    extra_args: EXTRA_ARGS = field(default_factory=dict)
    server_cert_sans: Annotated[
        tuple[Annotated[str, extra_schema(maxLength=253, minLength=1)], ...],
        doc("Further names and addresses of the certificate that clients see.", maxItems=100),
    ] = field(default=(), name="serverCertSANs")
    peer_cert_sans: Annotated[
        tuple[Annotated[str, extra_schema(maxLength=253, minLength=1)], ...],
        doc("Further names and addresses of the certificate that other members see.", maxItems=100),
    ] = field(default=(), name="peerCertSANs")
    extra_envs: EXTRA_ENVS = ()


class ExternalEtcd(Value, frozen=True, kw_only=True):
    """An etcd that runs elsewhere, and the files by which the API server is its client."""

    endpoints: Annotated[
        tuple[Annotated[str, extra_schema(maxLength=512, minLength=1)], ...],
        doc("The addresses of its members.", required=True, maxItems=50),
    ] = ()
    ca_file: Annotated[str, text("The authority of the members' certificates.", 512, required=True)] = ""
    cert_file: Annotated[str, text("The client certificate to show.", 512, required=True)] = ""
    key_file: Annotated[str, text("The key of that certificate.", 512, required=True)] = ""


class Etcd(Value, frozen=True, kw_only=True):
    """Where the cluster keeps its objects; at most one of the two."""

    local: Annotated[LocalEtcd | None, doc("An etcd on each control plane machine.")] = None
    external: Annotated[ExternalEtcd | None, doc("An etcd that runs elsewhere.")] = None


class Networking(Value, frozen=True, kw_only=True):
    """The addresses of services and pods."""

    service_subnet: Annotated[str, text("The range of services; two with a comma for dual stack.", 1024)] = ""
    pod_subnet: Annotated[str, text("The range of pods; two with a comma for dual stack.", 1024)] = ""
    dns_domain: Annotated[str, text("The domain of services; cluster.local if empty.", 253)] = ""


class ClusterConfiguration(Value, frozen=True, kw_only=True):
    """What is the same on all control plane machines of a cluster."""

    api_version: API_VERSION = ""
    kind: DOCUMENT_KIND = ""
    etcd: Annotated[Etcd, doc("Where the cluster keeps its objects.")] = field(default_factory=Etcd)
    networking: Annotated[
        Networking, doc("The addresses of services and pods; what is empty comes from the Cluster.")
    ] = field(default_factory=Networking)
    kubernetes_version: Annotated[
        str, text("The version of the control plane; the machine's if empty.", 256)
    ] = ""
    control_plane_endpoint: Annotated[
        str, text("host:port by which the API servers are reached; the Cluster's if empty.", 512)
    ] = ""
    api_server: Annotated[APIServer, doc("Changes to the kube-apiserver.")] = field(default_factory=APIServer)
    controller_manager: Annotated[ControlPlaneComponent, doc("Changes to the kube-controller-manager.")] = (
        field(default_factory=ControlPlaneComponent)
    )
    scheduler: Annotated[ControlPlaneComponent, doc("Changes to the kube-scheduler.")] = field(
        default_factory=ControlPlaneComponent
    )
    dns: Annotated[DNS, doc("The image of the DNS server.")] = field(default_factory=DNS)
    certificates_dir: Annotated[
        str, text("Where certificates stand on the machine; /etc/kubernetes/pki if empty.", 512)
    ] = ""
    image_repository: Annotated[str, text("Where all images are pulled from.", 512)] = ""
    feature_gates: Annotated[Mapping[str, bool], doc("kubeadm's own feature gates.")] = field(
        default_factory=dict
    )
    cluster_name: Annotated[str, text("The name of the cluster; that of the Cluster if empty.", 63)] = ""
    certificate_validity_period_days: Annotated[
        Int32,
        doc(
            "How many days the certificates that kubeadm makes are valid; 365 when unset.",
            minimum=1,
            maximum=1095,
        ),
    ] = 0
    ca_certificate_validity_period_days: Annotated[
        Int32,
        doc(
            "How many days the cluster's certificate authorities are valid; 3650 when unset.",
            minimum=1,
            maximum=36500,
        ),
    ] = 0
    encryption_algorithm: Annotated[
        str, doc("The algorithm of keys and certificates; RSA-2048 if empty.", enum=list(ALGORITHMS))
    ] = ""


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
    files: Annotated[tuple[File, ...], doc("Files to write before kubeadm runs.", maxItems=200)] = ()
    disk_setup: Annotated[DiskSetup | None, doc("Disks and file systems to make.")] = None
    mounts: Annotated[
        tuple[tuple[Annotated[str, extra_schema(maxLength=512, minLength=1)], ...], ...],
        doc("Lines of fstab: what, where, type, options.", maxItems=100),
    ] = ()
    boot_commands: Annotated[
        tuple[Annotated[str, extra_schema(maxLength=10240, minLength=1)], ...],
        doc("Commands to run early in each boot.", maxItems=1000),
    ] = ()
    pre_kubeadm_commands: Annotated[
        tuple[Annotated[str, extra_schema(maxLength=10240, minLength=1)], ...],
        doc("Commands to run before kubeadm.", maxItems=1000),
    ] = ()
    post_kubeadm_commands: Annotated[
        tuple[Annotated[str, extra_schema(maxLength=10240, minLength=1)], ...],
        doc("Commands to run after kubeadm.", maxItems=1000),
    ] = ()
    users: Annotated[tuple[User, ...], doc("Users of the machine.", maxItems=100)] = ()
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
    data_secret_name: Annotated[str | None, text("The Secret with the data, in its key value.", 253)] = None
    failure_reason: Annotated[str, text("Why this can never work, in one word. Not written by us.", 256)] = ""
    failure_message: Annotated[
        str, text("Why this can never work, for people. Not written by us.", 10240)
    ] = ""
    observed_generation: Annotated[Int64, doc("The generation that this status is about.")] = 0
    conditions: Annotated[tuple[Condition, ...], doc("What is reached and what is waited for.")] = ()
    v1beta2: Annotated[StatusConditions | None, doc(V1BETA2)] = None


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
