"""The strings of the kubeadm bootstrap provider that other programs read: formats, the lock, tokens, paths.

Invariants.  Each equals upstream's v1.7.1. Names that all of Cluster API shares (labels, keys of Secrets, the
             sentinel file) stand in ``api.cluster.names``, types and reasons of conditions in
             ``api.cluster.conditions``.
Source       S1-15 to S1-18; the names are those of Cluster API's kubeadm bootstrap provider.
Called by    ``bootstrap`` and what reads its data: infrastructure providers, the simulated cloud.
"""

from enum import StrEnum

GROUP = "bootstrap.cluster.x-k8s.io"
VERSION = "v1beta1"


class Format(StrEnum):
    """The form of the data; also the value of ``format`` in the data Secret."""

    CLOUD_CONFIG = "cloud-config"
    IGNITION = "ignition"


LOCK_KEY = "lock-information"
"""The key of the init lock, a ConfigMap; its value is JSON with the holder's ``machineName``."""


def lock_name(cluster: str) -> str:
    """The ConfigMap by which one machine of a cluster, and only one, may run ``kubeadm init``."""
    return f"{cluster}-lock"


TOKEN_NAMESPACE = "kube-system"
TOKEN_TYPE = "bootstrap.kubernetes.io/token"
TOKEN_GROUPS = "system:bootstrappers:kubeadm:default-node-token"
"""The group that kubeadm init lets join."""


def token_secret_name(token_id: str) -> str:
    """The Secret of a bootstrap token, in the workload cluster."""
    return f"bootstrap-token-{token_id}"


PLACEHOLDER = "/run/cluster-api/placeholder"
"""cloud-init makes the folder of each file that it writes: so the folder of the sentinel file exists, on
Windows too."""
INIT_FILE = "/run/kubeadm/kubeadm.yaml"
JOIN_FILE = "/run/kubeadm/kubeadm-join-config.yaml"
JOIN_SCRIPT = "/usr/local/bin/kubeadm-bootstrap-script"
IGNITION_FILE = "/etc/kubeadm.yml"
IGNITION_SCRIPT = "/etc/kubeadm.sh"
