"""ClusterRole: read as plain JSON, because rules are passed on as they stand."""

from kubewright.api.kinds import dynamic
from kubewright.wire.gvk import Resource

CLUSTER_ROLE = dynamic(
    Resource("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", namespaced=False)
)
