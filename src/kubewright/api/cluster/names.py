"""Every string of Cluster API that other programs parse, with its reader.

Theory.      Providers written in Go, clusterctl, cluster-autoscaler and kubectl know these labels,
             annotations and finalizers. They stand here once, for the core and for the bootstrap and
             infrastructure providers.
Invariants.  A reader never raises: what it cannot read counts as absent, because a user may have typed it.
             ``conditions`` has what controllers report.
"""

from base64 import urlsafe_b64encode
from collections.abc import Mapping
from enum import StrEnum

from kubewright.base.names import fnv32a
from kubewright.wire.naming import label_value as complaints_about_value

SERVICE_CIDR, SERVICE_DOMAIN = "10.96.0.0/12", "cluster.local"
"""The addresses and the DNS domain of Services where a Cluster does not say; the defaults of kubeadm."""

# Labels
CLUSTER_NAME_LABEL = "cluster.x-k8s.io/cluster-name"
"""On everything that belongs to a cluster; providers and clusterctl select by it."""
CONTROL_PLANE_LABEL = "cluster.x-k8s.io/control-plane"
"""On machines of a control plane and what they are cloned from; its presence counts."""
CONTROL_PLANE_NAME_LABEL = "cluster.x-k8s.io/control-plane-name"
SET_NAME_LABEL = "cluster.x-k8s.io/set-name"
DEPLOYMENT_NAME_LABEL = "cluster.x-k8s.io/deployment-name"
POOL_NAME_LABEL = "cluster.x-k8s.io/pool-name"
TEMPLATE_HASH_LABEL = "machine-template-hash"
TOPOLOGY_OWNED_LABEL = "topology.cluster.x-k8s.io/owned"
PROVIDER_LABEL = "cluster.x-k8s.io/provider"
"""On CRDs: which provider they belong to."""
WATCH_FILTER_LABEL = "cluster.x-k8s.io/watch-filter"
"""Which instance of a controller reconciles an object."""
CLUSTERCTL_LABEL = "clusterctl.cluster.x-k8s.io"
"""On CRDs: clusterctl moves their objects."""
INTERRUPTIBLE_LABEL = "cluster.x-k8s.io/interruptible"
"""On a Node whose VM the cloud may take away at any time."""
AGGREGATE_TO_MANAGER_LABEL = "cluster.x-k8s.io/aggregate-to-manager"
"""On a ClusterRole that gives the core's role more permissions."""
CONTRACT = "v1beta1"
CONTRACT_LABEL_PREFIX = "cluster.x-k8s.io/"
"""``cluster.x-k8s.io/v1beta1`` on a CRD names its versions of that contract, joined by ``_``."""
CONTRACT_LABEL = f"{CONTRACT_LABEL_PREFIX}{CONTRACT}"
CORE_PROVIDER = "cluster-api"
KUBEADM_BOOTSTRAP_PROVIDER = "bootstrap-kubeadm"

# Labels of a Machine that its Node gets too
NODE_ROLE_LABEL_PREFIX = "node-role.kubernetes.io"
NODE_RESTRICTION_LABEL_DOMAIN = "node-restriction.kubernetes.io"
MANAGED_NODE_LABEL_DOMAIN = "node.cluster.x-k8s.io"

# Annotations
PAUSED_ANNOTATION = "cluster.x-k8s.io/paused"
"""Its presence pauses an object, whatever its value."""
MANAGED_BY_ANNOTATION = "cluster.x-k8s.io/managed-by"
"""On an infrastructure cluster that its provider leaves alone."""
REPLICAS_MANAGED_BY_ANNOTATION = "cluster.x-k8s.io/replicas-managed-by"
DELETE_MACHINE_ANNOTATION = "cluster.x-k8s.io/delete-machine"
"""On a Machine that is deleted first when its set shrinks; its presence counts."""
DISABLE_MACHINE_CREATE_ANNOTATION = "cluster.x-k8s.io/disable-machine-create"
"""On a MachineSet that makes no machines: an old one of a deployment that replaces on deletion."""
CLONED_FROM_NAME_ANNOTATION = "cluster.x-k8s.io/cloned-from-name"
CLONED_FROM_GROUP_KIND_ANNOTATION = "cluster.x-k8s.io/cloned-from-groupkind"
SKIP_REMEDIATION_ANNOTATION = "cluster.x-k8s.io/skip-remediation"
REMEDIATE_MACHINE_ANNOTATION = "cluster.x-k8s.io/remediate-machine"
SKIP_PREFLIGHT_CHECKS_ANNOTATION = "machineset.cluster.x-k8s.io/skip-preflight-checks"
EXCLUDE_NODE_DRAINING_ANNOTATION = "machine.cluster.x-k8s.io/exclude-node-draining"
EXCLUDE_WAIT_FOR_NODE_VOLUME_DETACH_ANNOTATION = (
    "machine.cluster.x-k8s.io/exclude-wait-for-node-volume-detach"
)
CERTIFICATES_EXPIRY_ANNOTATION = "machine.cluster.x-k8s.io/certificates-expiry"
PRE_DRAIN_HOOK_PREFIX = "pre-drain.delete.hook.machine.cluster.x-k8s.io"
PRE_TERMINATE_HOOK_PREFIX = "pre-terminate.delete.hook.machine.cluster.x-k8s.io"
AUTOSCALER_MIN_SIZE_ANNOTATION = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size"
AUTOSCALER_MAX_SIZE_ANNOTATION = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size"
REVISION_ANNOTATION = "machinedeployment.clusters.x-k8s.io/revision"
REVISION_HISTORY_ANNOTATION = "machinedeployment.clusters.x-k8s.io/revision-history"
DESIRED_REPLICAS_ANNOTATION = "machinedeployment.clusters.x-k8s.io/desired-replicas"
MAX_REPLICAS_ANNOTATION = "machinedeployment.clusters.x-k8s.io/max-replicas"
NUMBER_ANNOTATION = "kubewright.dev/number"
"""On a Machine, ours: which of its set's machines it is, counted from 1; its name says the same."""
LAST_NUMBER_ANNOTATION = "kubewright.dev/last-number"
"""On a MachineSet, ours: the highest number that a machine of it ever had, as far as none shows it."""
PROPAGATED_ANNOTATION = "kubewright.dev/propagated"
"""On a Machine, ours: the keys of labels and annotations that its set has put there."""
COLLISIONS_ANNOTATION = "kubewright.dev/collisions"
"""On a MachineDeployment, ours: how often the name of a new set was taken; part of the next name."""
LAST_APPLIED_ANNOTATION = "kubectl.kubernetes.io/last-applied-configuration"
TOPOLOGY_DRY_RUN_ANNOTATION = "topology.cluster.x-k8s.io/dry-run"
CONVERSION_DATA_ANNOTATION = "cluster.x-k8s.io/conversion-data"
BLOCK_MOVE_ANNOTATION = "clusterctl.cluster.x-k8s.io/block-move"
DELETE_FOR_MOVE_ANNOTATION = "clusterctl.cluster.x-k8s.io/delete-for-move"

# Annotations of a Node, which say to which machine it belongs
NODE_CLUSTER_NAME_ANNOTATION = "cluster.x-k8s.io/cluster-name"
NODE_CLUSTER_NAMESPACE_ANNOTATION = "cluster.x-k8s.io/cluster-namespace"
NODE_MACHINE_ANNOTATION = "cluster.x-k8s.io/machine"
NODE_OWNER_KIND_ANNOTATION = "cluster.x-k8s.io/owner-kind"
NODE_OWNER_NAME_ANNOTATION = "cluster.x-k8s.io/owner-name"
LABELS_FROM_MACHINE_ANNOTATION = "cluster.x-k8s.io/labels-from-machine"
"""The keys of the labels that we wrote onto the Node, joined by commas."""

# Finalizers
CLUSTER_FINALIZER = "cluster.cluster.x-k8s.io"
MACHINE_FINALIZER = "machine.cluster.x-k8s.io"
MACHINE_SET_FINALIZER = "cluster.x-k8s.io/machineset"
MACHINE_DEPLOYMENT_FINALIZER = "cluster.x-k8s.io/machinedeployment"

# Taints
UNINITIALIZED_TAINT = "node.cluster.x-k8s.io/uninitialized"
"""A worker joins with it; it goes when the labels of its machine have been written onto its Node."""
OUTDATED_REVISION_TAINT = "node.cluster.x-k8s.io/outdated-revision"
"""On Nodes of machines that a rollout is going to replace: fewer pods move twice."""

# Secrets of a cluster, by name and content
SECRET_TYPE = "cluster.x-k8s.io/secret"  # a type, no secret
KUBECONFIG_SUFFIX, CA_SUFFIX, ETCD_SUFFIX = "-kubeconfig", "-ca", "-etcd"
SERVICE_ACCOUNT_SUFFIX, PROXY_SUFFIX = "-sa", "-proxy"
SECRET_VALUE_KEY = "value"
"""The key of bootstrap data and of a kubeconfig."""
SECRET_FORMAT_KEY = "format"
"""The key of the format of bootstrap data."""
SENTINEL_FILE = "/run/cluster-api/bootstrap-success.complete"
"""Bootstrap data writes it onto the VM when the bootstrap has succeeded."""

# Leases, the same as in Go, so that only one of two cores works at a time
CORE_LEASE = "controller-leader-election-capi"
KUBEADM_BOOTSTRAP_LEASE = "kubeadm-bootstrap-manager-leader-election-capi"


class DeletePolicy(StrEnum):
    """Which machines a set deletes first when it shrinks."""

    RANDOM = "Random"
    NEWEST = "Newest"
    OLDEST = "Oldest"


class StrategyType(StrEnum):
    """How a MachineDeployment replaces machines."""

    ROLLING_UPDATE = "RollingUpdate"
    ON_DELETE = "OnDelete"


class PreflightCheck(StrEnum):
    """Checks before a set makes machines; ``SKIP_PREFLIGHT_CHECKS_ANNOTATION`` names those to skip."""

    ALL = "All"
    KUBEADM_VERSION_SKEW = "KubeadmVersionSkew"
    KUBERNETES_VERSION_SKEW = "KubernetesVersionSkew"
    CONTROL_PLANE_IS_STABLE = "ControlPlaneIsStable"


# Readers and writers
def paused(annotations: Mapping[str, str]) -> bool:
    """The object itself is paused; so is every object of a cluster with ``spec.paused``."""
    return PAUSED_ANNOTATION in annotations


def left_alone(annotations: Mapping[str, str]) -> bool:
    """The object itself is paused, or clusterctl has moved it, and deletes what is left here."""
    return paused(annotations) or DELETE_FOR_MOVE_ANNOTATION in annotations


def marked_for_deletion(annotations: Mapping[str, str]) -> bool:
    """The machine is to be deleted first when its set shrinks."""
    return DELETE_MACHINE_ANNOTATION in annotations


def names_in(text: str) -> tuple[str, ...]:
    """The names in a list such as that of ``SKIP_PREFLIGHT_CHECKS_ANNOTATION``; blanks do not count."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def kubeconfig_secret(cluster: str) -> str:
    """The name of the Secret with the kubeconfig of a cluster (S0-46)."""
    return f"{cluster}{KUBECONFIG_SUFFIX}"


def label_value(name: str) -> str:
    """A name as the value of a label: itself, or its hash where it is none (it may be too long)."""
    if not complaints_about_value(name):
        return name
    hashed = urlsafe_b64encode(fnv32a(name.encode()).to_bytes(4, "big")).decode().rstrip("=")
    return f"hash_{hashed}_z"
