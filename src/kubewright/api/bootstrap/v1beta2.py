"""KubeadmConfig and KubeadmConfigTemplate of ``bootstrap.cluster.x-k8s.io/v1beta2``, as v1.14.2 serves them.

Theory.      As ``v1beta1``: names, types, bounds and rules are upstream's, the sentences ours. Flags are
             lists here, so a flag may be given twice; times are seconds, and stand together in ``timeouts``.
             What may be unset and zero is a pointer upstream and ``| None`` here.
Invariants.  Fields stand in the order of upstream's types: ``conversion`` writes them in that order.
Continues    in ``conversion`` and ``manifests``.
"""

from collections.abc import Mapping
from typing import Annotated

from msgspec import field

from kubewright.api.bootstrap.names import GROUP
from kubewright.api.bootstrap.parts import (
    DiskPartition,
    EnvVar,
    Kubeconfig,
    Patches,
    SecretSource,
)
from kubewright.api.cluster.parts import Conditions
from kubewright.api.cluster.v1beta2 import VERSION, Generation, OldConditions
from kubewright.api.core import Taint
from kubewright.api.kinds import Kind
from kubewright.api.meta import (
    Int32,
    KubeObject,
    ObjectMeta,
    Time,
    Value,
    doc,
    extra_schema,
    keyed,
    rules,
    text,
)
from kubewright.wire.gvk import Resource

Text256 = Annotated[str, extra_schema(minLength=1, maxLength=256)]
Text512 = Annotated[str, extra_schema(minLength=1, maxLength=512)]
HostName = Annotated[str, extra_schema(minLength=1, maxLength=253)]
Command = Annotated[str, extra_schema(minLength=1, maxLength=10240)]


class Arg(Value, frozen=True, kw_only=True):
    """A flag of a program."""

    name: Annotated[str, text("The flag, without the dashes.", 256, required=True)] = ""
    value: Annotated[str | None, text("Its value.", 1024, required=True, least=0)] = None


ExtraArgs = Annotated[
    tuple[Arg, ...],
    doc(
        "Further flags by name, without the dashes; they win over kubeadm's own.",
        maxItems=100,
        minItems=1,
        **keyed("name", "value"),
        **rules(("self.all(x, self.exists_one(y, x.name == y.name))", "extraArgs name must be unique")),
    ),
]
ExtraEnvs = Annotated[
    tuple[EnvVar, ...] | None,
    doc("Environment variables of the container beside kubeadm's own.", maxItems=100, minItems=1),
]


class LocalEtcd(Value, frozen=True, kw_only=True):
    """The etcd that runs on each control plane machine."""

    image_repository: Annotated[str, text("The registry and path to pull from.", 512)] = ""
    image_tag: Annotated[str, text("The tag of the image, in place of the one that kubeadm knows.", 256)] = ""
    data_dir: Annotated[str, text("Where etcd keeps its data; /var/lib/etcd if empty.", 512)] = ""
    extra_args: ExtraArgs = ()
    extra_envs: ExtraEnvs = None
    server_cert_sans: Annotated[
        tuple[HostName, ...],
        doc("Further names and addresses of the certificate that clients see.", maxItems=100, minItems=1),
    ] = field(default=(), name="serverCertSANs")
    peer_cert_sans: Annotated[
        tuple[HostName, ...],
        doc(
            "Further names and addresses of the certificate that other members see.", maxItems=100, minItems=1
        ),
    ] = field(default=(), name="peerCertSANs")


class ExternalEtcd(Value, frozen=True, kw_only=True):
    """An etcd that runs elsewhere, and the files by which the API server is its client."""

    endpoints: Annotated[
        tuple[Text512, ...],
        doc("The addresses of its members.", required=True, maxItems=50, minItems=1),
    ] = ()
    ca_file: Annotated[str, text("The authority of the members' certificates.", 512, required=True)] = ""
    cert_file: Annotated[str, text("The client certificate to show.", 512, required=True)] = ""
    key_file: Annotated[str, text("The key of that certificate.", 512, required=True)] = ""


class Etcd(Value, frozen=True, kw_only=True):
    """Where the cluster keeps its objects; at most one of the two."""

    local: Annotated[LocalEtcd, doc("An etcd on each control plane machine.", minProperties=1)] = LocalEtcd()
    external: Annotated[ExternalEtcd, doc("An etcd that runs elsewhere.")] = ExternalEtcd()


class HostPathMount(Value, frozen=True, kw_only=True):
    """A folder or file of the host that a static pod sees."""

    name: Annotated[str, text("The name of the volume in the pod.", 512, required=True)] = ""
    host_path: Annotated[str, text("The path on the host.", 512, required=True)] = ""
    mount_path: Annotated[str, text("The path in the container.", 512, required=True)] = ""
    read_only: Annotated[bool | None, doc("Whether the container may only read it.")] = None
    path_type: Annotated[str, doc("What is expected at hostPath: Directory, File and so on.")] = ""


class ControlPlaneComponent(Value, frozen=True, kw_only=True):
    """Changes to one of the control plane's static pods."""

    extra_args: ExtraArgs = ()
    extra_volumes: Annotated[
        tuple[HostPathMount, ...], doc("What of the host the pod sees beside.", maxItems=100, minItems=1)
    ] = ()
    extra_envs: ExtraEnvs = None


class APIServer(ControlPlaneComponent, frozen=True, kw_only=True):
    """Changes to the kube-apiserver's static pod, and its certificate."""

    cert_sans: Annotated[
        tuple[HostName, ...],
        doc("Further host names and addresses that its certificate is for.", maxItems=100, minItems=1),
    ] = field(default=(), name="certSANs")


class DNS(Value, frozen=True, kw_only=True):
    """The image of the cluster's DNS server."""

    image_repository: Annotated[str, text("The registry and path to pull from.", 512)] = ""
    image_tag: Annotated[str, text("The tag of the image, in place of the one that kubeadm knows.", 256)] = ""


class ClusterConfiguration(Value, frozen=True, kw_only=True):
    """What is the same on all control plane machines of a cluster."""

    etcd: Annotated[Etcd, doc("Where the cluster keeps its objects.", minProperties=1)] = Etcd()
    control_plane_endpoint: Annotated[
        str, text("host:port by which the API servers are reached; the Cluster's if empty.", 512)
    ] = ""
    api_server: Annotated[APIServer, doc("Changes to the kube-apiserver.", minProperties=1)] = APIServer()
    controller_manager: Annotated[
        ControlPlaneComponent, doc("Changes to the kube-controller-manager.", minProperties=1)
    ] = ControlPlaneComponent()
    scheduler: Annotated[ControlPlaneComponent, doc("Changes to the kube-scheduler.", minProperties=1)] = (
        ControlPlaneComponent()
    )
    dns: Annotated[DNS, doc("The image of the DNS server.", minProperties=1)] = DNS()
    certificates_dir: Annotated[
        str, text("Where certificates stand on the machine; /etc/kubernetes/pki if empty.", 512)
    ] = ""
    image_repository: Annotated[str, text("Where all images are pulled from.", 512)] = ""
    feature_gates: Annotated[Mapping[str, bool], doc("kubeadm's own feature gates.")] = field(
        default_factory=dict
    )
    certificate_validity_period_days: Annotated[
        Int32,
        doc(
            "How many days the certificates that kubeadm makes are valid; 365 when unset.",
            maximum=1095,
            minimum=1,
        ),
    ] = 0
    ca_certificate_validity_period_days: Annotated[
        Int32,
        doc(
            "How many days the cluster's certificate authorities are valid; 3650 when unset.",
            maximum=36500,
            minimum=1,
        ),
    ] = 0
    encryption_algorithm: Annotated[
        str,
        doc(
            "The algorithm of keys and certificates; RSA-2048 if empty.",
            enum=["ECDSA-P256", "ECDSA-P384", "RSA-2048", "RSA-3072", "RSA-4096"],
        ),
    ] = ""


class BootstrapToken(Value, frozen=True, kw_only=True):
    """A token by which machines may join, made by kubeadm init."""

    token: Annotated[str, text("id.secret: 6 and 16 lower-case letters and digits.", 23, required=True)] = ""
    description: Annotated[str, text("What the token is for.", 512)] = ""
    ttl_seconds: Annotated[Int32 | None, doc("For how many seconds the token is good.", minimum=0)] = None
    expires: Annotated[Time | None, doc("Until when the token is good; not together with ttl.")] = None
    usages: Annotated[
        tuple[Text256, ...],
        doc("What it may be used for: signing, authentication.", maxItems=100, minItems=1),
    ] = ()
    groups: Annotated[
        tuple[Text256, ...], doc("The groups that its bearer is a member of.", maxItems=100, minItems=1)
    ] = ()

    def __repr__(self) -> str:
        return f"BootstrapToken({self.token[:6]}...)"


class NodeRegistration(Value, frozen=True, kw_only=True):
    """How a machine registers as a node."""

    name: Annotated[str, text("The name of the node; the machine's host name if empty.", 253)] = ""
    cri_socket: Annotated[str, text("The socket of the container runtime.", 512)] = ""
    taints: Annotated[
        tuple[Taint, ...] | None,
        doc(
            "The node's first taints. Absent: kubeadm's own for its role; an empty list: none.",
            maxItems=100,
            minItems=0,
        ),
    ] = None
    kubelet_extra_args: Annotated[
        tuple[Arg, ...],
        doc(
            "Flags of the kubelet by name, without the dashes.",
            maxItems=100,
            minItems=1,
            **keyed("name", "value"),
            **rules(
                ("self.all(x, self.exists_one(y, x.name == y.name))", "kubeletExtraArgs name must be unique")
            ),
        ),
    ] = ()
    ignore_preflight_errors: Annotated[
        tuple[Text512, ...], doc("kubeadm's checks whose failure is only a warning.", maxItems=50, minItems=1)
    ] = ()
    image_pull_policy: Annotated[
        str,
        doc("When kubeadm pulls images; IfNotPresent if empty.", enum=["Always", "IfNotPresent", "Never"]),
    ] = ""
    image_pull_serial: Annotated[
        bool | None, doc("Whether kubeadm pulls images one after the other; true when unset.")
    ] = None


class APIEndpoint(Value, frozen=True, kw_only=True):
    """Where the API server of one machine listens."""

    advertise_address: Annotated[str, text("The address that it tells others.", 39)] = ""
    bind_port: Annotated[Int32, doc("Its port; 6443 if unset.", minimum=1)] = 0


class Timeouts(Value, frozen=True, kw_only=True):
    """How long kubeadm waits for what."""

    control_plane_component_health_check_seconds: Annotated[
        Int32 | None,
        doc("How long kubeadm waits for a component of the control plane to be healthy.", minimum=0),
    ] = None
    kubelet_health_check_seconds: Annotated[
        Int32 | None, doc("How long kubeadm waits for the kubelet to be healthy.", minimum=0)
    ] = None
    kubernetes_apicall_seconds: Annotated[
        Int32 | None, doc("How long kubeadm waits for an answer of the API server.", minimum=0)
    ] = field(default=None, name="kubernetesAPICallSeconds")
    etcd_apicall_seconds: Annotated[
        Int32 | None, doc("How long kubeadm waits for an answer of etcd.", minimum=0)
    ] = field(default=None, name="etcdAPICallSeconds")
    tls_bootstrap_seconds: Annotated[
        Int32 | None, doc("How long kubeadm waits for the kubelet's certificate.", minimum=0)
    ] = None
    discovery_seconds: Annotated[
        Int32 | None, doc("How long kubeadm waits until it knows the cluster.", minimum=0)
    ] = None


class InitConfiguration(Value, frozen=True, kw_only=True):
    """What ``kubeadm init`` is told about the first machine."""

    bootstrap_tokens: Annotated[
        tuple[BootstrapToken, ...], doc("Tokens that are made in the new cluster.", maxItems=100, minItems=1)
    ] = ()
    node_registration: Annotated[
        NodeRegistration, doc("How the machine registers as a node.", minProperties=1)
    ] = NodeRegistration()
    local_apiendpoint: Annotated[APIEndpoint, doc("Where its API server listens.", minProperties=1)] = field(
        default=APIEndpoint(), name="localAPIEndpoint"
    )
    skip_phases: Annotated[
        tuple[Text256, ...], doc("Phases of kubeadm that are left out.", maxItems=50, minItems=1)
    ] = ()
    patches: Annotated[Patches, doc("Patches of the static pods.", minProperties=1)] = Patches()
    timeouts: Annotated[Timeouts, doc("How long kubeadm waits for what.", minProperties=1)] = Timeouts()


class BootstrapTokenDiscovery(Value, frozen=True, kw_only=True):
    """Finds the cluster by a token that both sides know."""

    token: Annotated[str, text("The token; one is made and refreshed if it is empty.", 512)] = ""
    api_server_endpoint: Annotated[str, text("host:port of an API server; the Cluster's if empty.", 512)] = ""
    ca_cert_hashes: Annotated[
        tuple[Text512, ...],
        doc(
            "sha256:<hex> of the authorities' public keys; the cluster's own if empty.",
            maxItems=100,
            minItems=1,
        ),
    ] = ()
    unsafe_skip_caverification: Annotated[
        bool | None, doc("Trusts whichever cluster answers; only where no authority is known.")
    ] = field(default=None, name="unsafeSkipCAVerification")

    def __repr__(self) -> str:
        return f"BootstrapTokenDiscovery({self.token[:6]}..., {self.api_server_endpoint})"


class FileDiscovery(Value, frozen=True, kw_only=True):
    """Finds the cluster by a kubeconfig on the machine."""

    kube_config_path: Annotated[str, text("A path or URL of the kubeconfig.", 512, required=True)] = ""
    kube_config: Annotated[
        Kubeconfig, doc("The kubeconfig that is made; a file is expected at kubeConfigPath when unset.")
    ] = Kubeconfig()


class Discovery(Value, frozen=True, kw_only=True):
    """How a machine finds the cluster; at most one of bootstrapToken and file."""

    bootstrap_token: Annotated[BootstrapTokenDiscovery, doc("By a token.", minProperties=1)] = (
        BootstrapTokenDiscovery()
    )
    file: Annotated[FileDiscovery, doc("By a kubeconfig; it is used as it is.")] = FileDiscovery()
    tls_bootstrap_token: Annotated[str, text("The token for the kubelet's certificate, if another.", 512)] = (
        ""
    )

    def __repr__(self) -> str:
        return f"Discovery(bootstrap_token={self.bootstrap_token!r}, file={self.file!r})"


class JoinControlPlane(Value, frozen=True, kw_only=True):
    """That a machine joins as one more of the control plane."""

    local_apiendpoint: Annotated[APIEndpoint, doc("Where its API server listens.", minProperties=1)] = field(
        default=APIEndpoint(), name="localAPIEndpoint"
    )


class JoinConfiguration(Value, frozen=True, kw_only=True):
    """What ``kubeadm join`` is told about a machine that is not the first."""

    node_registration: Annotated[
        NodeRegistration, doc("How the machine registers as a node.", minProperties=1)
    ] = NodeRegistration()
    ca_cert_path: Annotated[str, text("Where the cluster's authority stands on the machine.", 512)] = ""
    discovery: Annotated[Discovery, doc("How the machine finds the cluster.", minProperties=1)] = Discovery()
    control_plane: Annotated[
        JoinControlPlane | None, doc("Set for machines of the control plane, and only for them.")
    ] = None
    skip_phases: Annotated[
        tuple[Text256, ...], doc("Phases of kubeadm that are left out.", maxItems=50, minItems=1)
    ] = ()
    patches: Annotated[Patches, doc("Patches of the static pods.", minProperties=1)] = Patches()
    timeouts: Annotated[Timeouts, doc("How long kubeadm waits for what.", minProperties=1)] = Timeouts()


class File(Value, frozen=True, kw_only=True):
    """A file to write."""

    path: Annotated[str, text("Its full path; each path at most once.", 512, required=True)] = ""
    owner: Annotated[str, text("user:group that owns it; root:root if empty.", 256)] = ""
    permissions: Annotated[str, text("Its mode in octal, such as 0640.", 16)] = ""
    encoding: Annotated[str, doc("How content is encoded.", enum=["base64", "gzip", "gzip+base64"])] = ""
    append: Annotated[bool | None, doc("Adds to a file that is there already.")] = None
    content: Annotated[str, text("The content itself.", 10240)] = ""
    content_from: Annotated[SecretSource, doc("Where the content is read from instead.")] = SecretSource()
    content_format: Annotated[
        str,
        doc(
            "Raw, as when empty: the content as it is; Template: a template in Go's language.",
            enum=["Raw", "Template"],
        ),
    ] = ""

    def __repr__(self) -> str:
        return f"File({self.path})"


class Partition(Value, frozen=True, kw_only=True):
    """How a disk is divided."""

    device: Annotated[str, text("The disk, such as /dev/sdb.", 256, required=True)] = ""
    layout: Annotated[bool | None, doc("Whether to make one partition over all of it.")] = None
    overwrite: Annotated[bool | None, doc("Whether to divide it even if it is divided already.")] = None
    table_type: Annotated[str, doc("mbr or gpt; mbr if absent.", enum=["mbr", "gpt"])] = ""
    disk_layout: Annotated[
        tuple[DiskPartition, ...],
        doc("The partitions in their order, when layout is not enough.", maxItems=100, minItems=1),
    ] = ()


class Filesystem(Value, frozen=True, kw_only=True):
    """A file system to make."""

    device: Annotated[str, text("Where, such as /dev/sdb.", 256, required=True)] = ""
    filesystem: Annotated[str, text("Its type, such as ext4.", 128, required=True)] = ""
    label: Annotated[str, text("Its label.", 512)] = ""
    partition: Annotated[str, text("Which partition: auto, any, none or a number.", 128)] = ""
    overwrite: Annotated[bool | None, doc("Whether to overwrite a file system that is there.")] = None
    replace_fs: Annotated[str, text("Overwrites only a file system of this type.", 128)] = field(
        default="", name="replaceFS"
    )
    extra_opts: Annotated[tuple[Text256, ...], doc("Further arguments of mkfs.", maxItems=100)] = ()


class DiskSetup(Value, frozen=True, kw_only=True):
    """Disks and file systems of a machine."""

    partitions: Annotated[
        tuple[
            Annotated[
                Partition,
                extra_schema(
                    **rules(
                        (
                            "[has(self.layout),has(self.diskLayout)].filter(x,x==true).size() == 1",
                            "exactly one of the fields in [layout diskLayout] must be set",
                        )
                    )
                ),
            ],
            ...,
        ],
        doc("How disks are divided.", maxItems=100),
    ] = ()
    filesystems: Annotated[tuple[Filesystem, ...], doc("File systems to make.", maxItems=100)] = ()


class User(Value, frozen=True, kw_only=True):
    """A user of the machine."""

    name: Annotated[str, text("The login name.", 256, required=True)] = ""
    gecos: Annotated[str, text("The user's full name or a note.", 256)] = ""
    groups: Annotated[str, text("Further groups, with commas.", 256)] = ""
    home_dir: Annotated[str, text("The home folder.", 256)] = ""
    inactive: Annotated[bool | None, doc("Whether the account is made inactive.")] = None
    shell: Annotated[str, text("The login shell.", 256)] = ""
    passwd: Annotated[str, text("The hash of the password.", 256)] = ""
    passwd_from: Annotated[SecretSource, doc("Where that hash is read from instead.")] = SecretSource()
    primary_group: Annotated[str, text("The first group.", 256)] = ""
    lock_password: Annotated[bool | None, doc("Whether to forbid a login by password.")] = None
    sudo: Annotated[str, text("A rule of sudoers for the user.", 256)] = ""
    ssh_authorized_keys: Annotated[
        tuple[Annotated[str, extra_schema(maxLength=2048, minLength=1)], ...],
        doc("Public keys that may log in.", maxItems=100),
    ] = ()

    def __repr__(self) -> str:
        return f"User({self.name})"


class NTP(Value, frozen=True, kw_only=True):
    """Where a machine gets the time from."""

    servers: Annotated[tuple[Text512, ...], doc("The time servers.", maxItems=100)] = ()
    enabled: Annotated[bool | None, doc("Whether the machine runs an NTP client.")] = None


class ContainerLinuxConfig(Value, frozen=True, kw_only=True):
    """An addition in the notation of Container Linux."""

    additional_config: Annotated[str, text("YAML that is merged over what is made here.", 32768)] = ""
    strict: Annotated[bool | None, doc("Whether a warning about it is an error.")] = None


class IgnitionSpec(Value, frozen=True, kw_only=True):
    """What only Ignition knows."""

    container_linux_config: Annotated[
        ContainerLinuxConfig, doc("An addition to the Ignition config.", minProperties=1)
    ] = ContainerLinuxConfig()


class KubeadmConfigSpec(Value, frozen=True, kw_only=True):
    """How a machine becomes a node."""

    cluster_configuration: Annotated[
        ClusterConfiguration,
        doc("For the first control plane machine: what the cluster is.", minProperties=1),
    ] = ClusterConfiguration()
    init_configuration: Annotated[
        InitConfiguration, doc("For the first control plane machine: what it is itself.", minProperties=1)
    ] = InitConfiguration()
    join_configuration: Annotated[
        JoinConfiguration, doc("For every other machine; what is absent is filled in.", minProperties=1)
    ] = JoinConfiguration()
    files: Annotated[
        tuple[File, ...], doc("Files to write before kubeadm runs.", maxItems=200, minItems=1)
    ] = ()
    disk_setup: Annotated[DiskSetup, doc("Disks and file systems to make.", minProperties=1)] = DiskSetup()
    mounts: Annotated[
        tuple[
            Annotated[
                tuple[Text512, ...],
                extra_schema(maxItems=100, minItems=1),
            ],
            ...,
        ],
        doc("Lines of fstab: what, where, type, options.", maxItems=100, minItems=1),
    ] = ()
    boot_commands: Annotated[
        tuple[Command, ...], doc("Commands to run early in each boot.", maxItems=1000, minItems=1)
    ] = ()
    pre_kubeadm_commands: Annotated[
        tuple[Command, ...], doc("Commands to run before kubeadm.", maxItems=1000, minItems=1)
    ] = ()
    post_kubeadm_commands: Annotated[
        tuple[Command, ...], doc("Commands to run after kubeadm.", maxItems=1000, minItems=1)
    ] = ()
    users: Annotated[tuple[User, ...], doc("Users of the machine.", maxItems=100, minItems=1)] = ()
    ntp: Annotated[NTP, doc("Where the machine gets the time from.", minProperties=1)] = NTP()
    format: Annotated[
        str, doc("The form of the data: cloud-config if empty.", enum=["cloud-config", "ignition"])
    ] = ""
    verbosity: Annotated[Int32 | None, doc("How much kubeadm logs: its flag --v.")] = None
    ignition: Annotated[
        IgnitionSpec, doc("What only Ignition knows; format must be ignition.", minProperties=1)
    ] = IgnitionSpec()


class KubeadmConfigInitialization(Value, frozen=True, kw_only=True):
    """What has been reached once; it never goes back."""

    data_secret_created: Annotated[bool | None, doc("Whether the data has been in its Secret.")] = None


class KubeadmConfigV1Beta1(Value, frozen=True, kw_only=True):
    """What v1beta1 says of a KubeadmConfig and v1beta2 does not."""

    conditions: OldConditions = ()
    failure_reason: Annotated[str, text("Why this can never work, in one word. Not written by us.", 256)] = ""
    failure_message: Annotated[
        str, text("Why this can never work, for people. Not written by us.", 10240)
    ] = ""


class KubeadmConfigDeprecated(Value, frozen=True, kw_only=True):
    """What goes when v1beta1 goes."""

    v1beta1: Annotated[KubeadmConfigV1Beta1 | None, doc("What v1beta1 says.")] = None


class KubeadmConfigStatus(Value, frozen=True, kw_only=True):
    """Whether the data is there."""

    conditions: Conditions = ()
    initialization: Annotated[
        KubeadmConfigInitialization, doc("What has been reached once.", minProperties=1)
    ] = KubeadmConfigInitialization()
    data_secret_name: Annotated[str, text("The Secret with the data, in its key value.", 253)] = ""
    observed_generation: Generation = 0
    deprecated: Annotated[KubeadmConfigDeprecated | None, doc("What goes when v1beta1 goes.")] = None


class KubeadmConfig(KubeObject, frozen=True, kw_only=True):
    """How one machine becomes a node of its cluster, by kubeadm."""

    spec: Annotated[KubeadmConfigSpec, doc("How it becomes a node.", minProperties=1)] = KubeadmConfigSpec()
    status: Annotated[KubeadmConfigStatus, doc("What is there.", minProperties=1)] = KubeadmConfigStatus()


class KubeadmConfigTemplateResource(Value, frozen=True, kw_only=True):
    """What each clone is like."""

    metadata: Annotated[ObjectMeta, doc("Labels and annotations of each clone.", minProperties=1)] = (
        ObjectMeta()
    )
    spec: Annotated[KubeadmConfigSpec, doc("The spec of each clone.", minProperties=1)] = KubeadmConfigSpec()


class KubeadmConfigTemplateSpec(Value, frozen=True, kw_only=True):
    """What the clones are like."""

    template: Annotated[
        KubeadmConfigTemplateResource, doc("What each clone is like.", required=True, minProperties=1)
    ] = KubeadmConfigTemplateResource()


class KubeadmConfigTemplate(KubeObject, frozen=True, kw_only=True):
    """What MachineSets clone a KubeadmConfig from, for each of their machines."""

    spec: Annotated[KubeadmConfigTemplateSpec, doc("What the clones are like.")] = KubeadmConfigTemplateSpec()


KUBEADM_CONFIG = Kind(Resource(GROUP, VERSION, "kubeadmconfigs", "KubeadmConfig"), KubeadmConfig)
KUBEADM_CONFIG_TEMPLATE = Kind(
    Resource(GROUP, VERSION, "kubeadmconfigtemplates", "KubeadmConfigTemplate"), KubeadmConfigTemplate
)
