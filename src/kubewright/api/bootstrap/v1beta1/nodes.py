"""What kubeadm is told about one machine, as KubeadmConfig carries it: InitConfiguration, JoinConfiguration.

Theory.      Fields as in kubeadm's v1beta3 API (``cluster`` says more). A first machine is initialized, all
             others join: how they find the cluster, and why they trust it, is the discovery.
Invariants.  ``taints`` None lets kubeadm put its own taint on control plane machines; an empty list
             means no taint, and is written as one. Tokens are not shown in a ``repr``.
Source       capi.md §2.7, §9.4.
Called by    ``configs``; ``bootstrap.documents`` writes them as documents.
"""

from collections.abc import Mapping
from typing import Annotated

from msgspec import field

from kubewright.api.bootstrap.v1beta1.cluster import API_VERSION, DOCUMENT_KIND
from kubewright.api.core import Taint
from kubewright.api.meta import Duration, Int32, Time, Value, doc

PULL_POLICIES = ("Always", "IfNotPresent", "Never")


class NodeRegistration(Value, frozen=True, kw_only=True):
    """How a machine registers as a node."""

    name: Annotated[str, doc("The name of the node; the machine's host name if empty.")] = ""
    cri_socket: Annotated[str, doc("The socket of the container runtime.")] = ""
    taints: Annotated[
        tuple[Taint, ...] | None,
        doc("The node's first taints. Absent: kubeadm's own for its role; an empty list: none."),
    ] = None
    kubelet_extra_args: Annotated[
        Mapping[str, str], doc("Flags of the kubelet by name, without the dashes.")
    ] = field(default_factory=dict)
    ignore_preflight_errors: Annotated[
        tuple[str, ...], doc("kubeadm's checks whose failure is only a warning.")
    ] = ()
    image_pull_policy: Annotated[
        str, doc("When kubeadm pulls images; IfNotPresent if empty.", enum=list(PULL_POLICIES))
    ] = ""


class APIEndpoint(Value, frozen=True, kw_only=True):
    """Where the API server of one machine listens."""

    advertise_address: Annotated[str, doc("The address that it tells others.")] = ""
    bind_port: Annotated[Int32, doc("Its port; 6443 if zero.")] = 0


class Patches(Value, frozen=True, kw_only=True):
    """Patches of kubeadm's static pods."""

    directory: Annotated[
        str, doc("A folder on the machine with files such as kube-apiserver0+merge.yaml.")
    ] = ""


class BootstrapToken(Value, frozen=True, kw_only=True):
    """A token by which machines may join, made by kubeadm init."""

    token: Annotated[str, doc("id.secret: 6 and 16 lower-case letters and digits.", required=True)] = ""
    description: Annotated[str, doc("What the token is for.")] = ""
    ttl: Annotated[Duration | None, doc("For how long the token is good.")] = None
    expires: Annotated[Time | None, doc("Until when the token is good; not together with ttl.")] = None
    usages: Annotated[tuple[str, ...], doc("What it may be used for: signing, authentication.")] = ()
    groups: Annotated[tuple[str, ...], doc("The groups that its bearer is a member of.")] = ()

    def __repr__(self) -> str:
        return f"BootstrapToken({self.token[:6]}...)"


class InitConfiguration(Value, frozen=True, kw_only=True):
    """What ``kubeadm init`` is told about the first machine."""

    api_version: API_VERSION = ""
    kind: DOCUMENT_KIND = ""
    bootstrap_tokens: Annotated[
        tuple[BootstrapToken, ...], doc("Tokens that are made in the new cluster.")
    ] = ()
    node_registration: Annotated[NodeRegistration, doc("How the machine registers as a node.")] = field(
        default_factory=NodeRegistration
    )
    local_api_endpoint: Annotated[APIEndpoint, doc("Where its API server listens.")] = field(
        default_factory=APIEndpoint, name="localAPIEndpoint"
    )
    skip_phases: Annotated[tuple[str, ...], doc("Phases of kubeadm that are left out.")] = ()
    patches: Annotated[Patches | None, doc("Patches of the static pods.")] = None


class BootstrapTokenDiscovery(Value, frozen=True, kw_only=True):
    """Finds the cluster by a token that both sides know."""

    token: Annotated[str, doc("The token; one is made and refreshed if it is empty.", required=True)] = ""
    api_server_endpoint: Annotated[str, doc("host:port of an API server; the Cluster's if empty.")] = ""
    ca_cert_hashes: Annotated[
        tuple[str, ...], doc("sha256:<hex> of the authorities' public keys; the cluster's own if empty.")
    ] = ()
    unsafe_skip_ca_verification: Annotated[
        bool, doc("Trusts whichever cluster answers; only where no authority is known.")
    ] = field(default=False, name="unsafeSkipCAVerification")

    def __repr__(self) -> str:
        return f"BootstrapTokenDiscovery({self.token[:6]}..., {self.api_server_endpoint})"


class FileDiscovery(Value, frozen=True, kw_only=True):
    """Finds the cluster by a kubeconfig on the machine."""

    kube_config_path: Annotated[str, doc("A path or URL of the kubeconfig.", required=True)] = ""


class Discovery(Value, frozen=True, kw_only=True):
    """How a machine finds the cluster; at most one of bootstrapToken and file."""

    bootstrap_token: Annotated[BootstrapTokenDiscovery | None, doc("By a token.")] = None
    file: Annotated[FileDiscovery | None, doc("By a kubeconfig; it is used as it is.")] = None
    tls_bootstrap_token: Annotated[str, doc("The token for the kubelet's certificate, if another.")] = ""
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
    ca_cert_path: Annotated[str, doc("Where the cluster's authority stands on the machine.")] = ""
    discovery: Annotated[Discovery, doc("How the machine finds the cluster.")] = field(
        default_factory=Discovery
    )
    control_plane: Annotated[
        JoinControlPlane | None, doc("Set for machines of the control plane, and only for them.")
    ] = None
    skip_phases: Annotated[tuple[str, ...], doc("Phases of kubeadm that are left out.")] = ()
    patches: Annotated[Patches | None, doc("Patches of the static pods.")] = None
