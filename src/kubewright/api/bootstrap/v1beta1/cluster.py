"""What ``kubeadm init`` is told about a cluster, as KubeadmConfig carries it: ClusterConfiguration.

Theory.      These are the fields of kubeadm's own v1beta3 API, whichever Kubernetes a machine gets:
             ``bootstrap.documents`` writes them in the version that its kubeadm reads.
Invariants.  ``apiVersion`` and ``kind`` are accepted and ignored, as upstream does.
Source       capi.md §2.7.
Called by    ``configs``; ``bootstrap.documents`` writes it as a document.
"""

from collections.abc import Mapping
from typing import Annotated

from msgspec import field

from kubewright.api.meta import Duration, Value, doc

API_VERSION = Annotated[str, doc("Accepted and ignored: the version of kubeadm decides.")]
DOCUMENT_KIND = Annotated[str, doc("Accepted and ignored: the field's name decides.")]
EXTRA_ARGS = Annotated[
    Mapping[str, str], doc("Further flags by name, without the dashes; they win over kubeadm's own.")
]


class HostPathMount(Value, frozen=True, kw_only=True):
    """A folder or file of the host that a static pod sees."""

    name: Annotated[str, doc("The name of the volume in the pod.", required=True)] = ""
    host_path: Annotated[str, doc("The path on the host.", required=True)] = ""
    mount_path: Annotated[str, doc("The path in the container.", required=True)] = ""
    read_only: Annotated[bool, doc("Whether the container may only read it.")] = False
    path_type: Annotated[str, doc("What is expected at hostPath: Directory, File and so on.")] = ""


class ControlPlaneComponent(Value, frozen=True, kw_only=True):
    """Changes to one of the control plane's static pods."""

    extra_args: EXTRA_ARGS = field(default_factory=dict)
    extra_volumes: Annotated[tuple[HostPathMount, ...], doc("What of the host the pod sees beside.")] = ()


class APIServer(ControlPlaneComponent, frozen=True, kw_only=True):
    """Changes to the kube-apiserver's static pod, and its certificate."""

    cert_sans: Annotated[
        tuple[str, ...], doc("Further host names and addresses that its certificate is for.")
    ] = field(default=(), name="certSANs")
    timeout_for_control_plane: Annotated[
        Duration | None, doc("How long kubeadm waits for the API server to answer.")
    ] = None


class ImageMeta(Value, frozen=True, kw_only=True):
    """Another place or version of an image. Its fields stand directly in the object that has it."""

    image_repository: Annotated[str, doc("The registry and path to pull from.")] = ""
    image_tag: Annotated[str, doc("The tag of the image, in place of the one that kubeadm knows.")] = ""


class DNS(ImageMeta, frozen=True, kw_only=True):
    """The image of the cluster's DNS server."""


class LocalEtcd(ImageMeta, frozen=True, kw_only=True):
    """The etcd that runs on each control plane machine."""

    data_dir: Annotated[str, doc("Where etcd keeps its data; /var/lib/etcd if empty.")] = ""
    extra_args: EXTRA_ARGS = field(default_factory=dict)
    server_cert_sans: Annotated[
        tuple[str, ...], doc("Further names and addresses of the certificate that clients see.")
    ] = field(default=(), name="serverCertSANs")
    peer_cert_sans: Annotated[
        tuple[str, ...], doc("Further names and addresses of the certificate that other members see.")
    ] = field(default=(), name="peerCertSANs")


class ExternalEtcd(Value, frozen=True, kw_only=True):
    """An etcd that runs elsewhere, and the files by which the API server is its client."""

    endpoints: Annotated[tuple[str, ...], doc("The addresses of its members.", required=True)] = ()
    ca_file: Annotated[str, doc("The authority of the members' certificates.", required=True)] = ""
    cert_file: Annotated[str, doc("The client certificate to show.", required=True)] = ""
    key_file: Annotated[str, doc("The key of that certificate.", required=True)] = ""


class Etcd(Value, frozen=True, kw_only=True):
    """Where the cluster keeps its objects; at most one of the two."""

    local: Annotated[LocalEtcd | None, doc("An etcd on each control plane machine.")] = None
    external: Annotated[ExternalEtcd | None, doc("An etcd that runs elsewhere.")] = None


class Networking(Value, frozen=True, kw_only=True):
    """The addresses of services and pods."""

    service_subnet: Annotated[str, doc("The range of services; two with a comma for dual stack.")] = ""
    pod_subnet: Annotated[str, doc("The range of pods; two with a comma for dual stack.")] = ""
    dns_domain: Annotated[str, doc("The domain of services; cluster.local if empty.")] = ""


class ClusterConfiguration(Value, frozen=True, kw_only=True):
    """What is the same on all control plane machines of a cluster."""

    api_version: API_VERSION = ""
    kind: DOCUMENT_KIND = ""
    etcd: Annotated[Etcd, doc("Where the cluster keeps its objects.")] = field(default_factory=Etcd)
    networking: Annotated[
        Networking, doc("The addresses of services and pods; what is empty comes from the Cluster.")
    ] = field(default_factory=Networking)
    kubernetes_version: Annotated[str, doc("The version of the control plane; the machine's if empty.")] = ""
    control_plane_endpoint: Annotated[
        str, doc("host:port by which the API servers are reached; the Cluster's if empty.")
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
        str, doc("Where certificates stand on the machine; /etc/kubernetes/pki if empty.")
    ] = ""
    image_repository: Annotated[str, doc("Where all images are pulled from.")] = ""
    feature_gates: Annotated[Mapping[str, bool], doc("kubeadm's own feature gates.")] = field(
        default_factory=dict
    )
    cluster_name: Annotated[str, doc("The name of the cluster; that of the Cluster if empty.")] = ""
