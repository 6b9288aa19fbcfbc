"""The objects of the cluster in the demo: those of ``examples/cluster.yaml``, and a health check. Pure.

Theory.      The example is not shipped with the program, so its objects stand here again; a test keeps the
             two equal.
Called by    ``clusters``.
"""

from collections.abc import Mapping
from typing import Any

from kubewright.api.cluster.names import CONTROL_PLANE_LABEL, DEPLOYMENT_NAME_LABEL

Object = dict[str, Any]

CLUSTER_NAME = "blue"
CONTROL_PLANE, WORKERS = "blue-control-plane", "blue-workers"
VERSION = "v1.34.0"
SILENT_FOR = "3s"
"""How long a node may be silent before the health check has its machine replaced."""

_CORE, _BOOTSTRAP, _INFRA = (
    f"{group}cluster.x-k8s.io/v1beta1" for group in ("", "bootstrap.", "infrastructure.")
)


def example() -> list[Object]:
    """One control plane machine and three workers, in the order of the example."""
    return [
        _cluster(),
        _object(_INFRA, "KubewrightCluster", CLUSTER_NAME, {}),
        _control_plane(),
        _object(_BOOTSTRAP, "KubeadmConfig", CONTROL_PLANE, {"initConfiguration": {}}),
        _object(_INFRA, "KubewrightMachine", CONTROL_PLANE, {}),
        _workers(),
        _object(_BOOTSTRAP, "KubeadmConfigTemplate", WORKERS, {"template": {"spec": _joining()}}),
        _object(_INFRA, "KubewrightMachineTemplate", WORKERS, {"template": {"spec": {}}}),
    ]


def health_check() -> Object:
    """Workers whose node is silent are replaced."""
    spec = {
        "clusterName": CLUSTER_NAME,
        "selector": {"matchLabels": {DEPLOYMENT_NAME_LABEL: WORKERS}},
        "unhealthyConditions": [{"type": "Ready", "status": "Unknown", "timeout": SILENT_FOR}],
    }
    return _object(_CORE, "MachineHealthCheck", WORKERS, spec)


def _cluster() -> Object:
    pods, services = {"cidrBlocks": ["10.244.0.0/16"]}, {"cidrBlocks": ["10.96.0.0/16"]}
    spec = {
        "clusterNetwork": {"pods": pods, "services": services},
        "infrastructureRef": _ref(_INFRA, "KubewrightCluster", CLUSTER_NAME),
    }
    return _object(_CORE, "Cluster", CLUSTER_NAME, spec)


def _control_plane() -> Object:
    spec = _machine(
        _ref(_BOOTSTRAP, "KubeadmConfig", CONTROL_PLANE), _ref(_INFRA, "KubewrightMachine", CONTROL_PLANE)
    )
    made = _object(_CORE, "Machine", CONTROL_PLANE, spec)
    return {**made, "metadata": {**made["metadata"], "labels": {CONTROL_PLANE_LABEL: ""}}}


def _workers() -> Object:
    machine = _machine(
        _ref(_BOOTSTRAP, "KubeadmConfigTemplate", WORKERS), _ref(_INFRA, "KubewrightMachineTemplate", WORKERS)
    )
    spec = {"clusterName": CLUSTER_NAME, "replicas": 3, "selector": {}, "template": {"spec": machine}}
    return _object(_CORE, "MachineDeployment", WORKERS, spec)


def _machine(bootstrap: Object, infrastructure: Object) -> Object:
    """The spec of a machine."""
    return {
        "clusterName": CLUSTER_NAME,
        "version": VERSION,
        "bootstrap": {"configRef": bootstrap},
        "infrastructureRef": infrastructure,
    }


def _joining() -> Object:
    flags = {"node-labels": "example.com/pool=workers"}
    return {"joinConfiguration": {"nodeRegistration": {"kubeletExtraArgs": flags}}}


def _object(api_version: str, kind: str, name: str, spec: Mapping[str, Any]) -> Object:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, "spec": dict(spec)}


def _ref(api_version: str, kind: str, name: str) -> Object:
    return {"apiVersion": api_version, "kind": kind, "name": name}
