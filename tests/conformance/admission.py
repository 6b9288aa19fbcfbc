"""The objects by which admission is judged: the embedded server, which calls the rules, and a real one with webhooks."""

from collections.abc import Mapping
from typing import Any

from kubewright.api.catalog import RULES

CORE = "cluster.x-k8s.io/v1beta1"
BOOTSTRAP, INFRA = f"bootstrap.{CORE}", f"infrastructure.{CORE}"

Body = dict[str, Any]

MACHINE: Body = {
    "clusterName": "c",
    "bootstrap": {"dataSecretName": "s"},
    "infrastructureRef": {"apiVersion": INFRA, "kind": "KubewrightMachineTemplate", "name": "m"},
}
"""The spec of a Machine with which nothing is wrong."""

ELSEWHERE = {"apiVersion": INFRA, "kind": "KubewrightCluster", "name": "c", "namespace": "elsewhere"}
SET: Body = {"clusterName": "c", "selector": {}, "template": {"spec": MACHINE}}
FILES = [{"path": "/a", "content": "x"}, {"path": "/a", "content": "y"}]
POOL = {"matchLabels": {"pool": "a"}}
UNKNOWN = [{"type": "Ready", "status": "Unknown", "timeout": "5m"}]
CHECK: Body = {"clusterName": "c", "selector": POOL, "unhealthyConditions": UNKNOWN}
OF_ANOTHER = {"matchLabels": {"cluster.x-k8s.io/cluster-name": "another"}}


RESOURCES = {(r.api_version, r.kind): r for r in (each.kind.resource for each in RULES)}


def path_of(body: Body, name: str = "", namespace: str = "default") -> str:
    """Where objects like this one are served."""
    return RESOURCES[body["apiVersion"], body["kind"]].path(namespace, name)


def made(api_version: str, kind: str, spec: Mapping[str, Any], **metadata: Any) -> Body:
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": "o", **metadata},
        "spec": dict(spec),
    }


BAD: dict[str, Body] = {
    "a Cluster with a topology": made(CORE, "Cluster", {"topology": {"class": "x", "version": "v1.30.0"}}),
    "a Cluster with a reference to another namespace": made(
        CORE, "Cluster", {"infrastructureRef": ELSEWHERE}
    ),
    "a Cluster with networks that are none": made(
        CORE, "Cluster", {"clusterNetwork": {"pods": {"cidrBlocks": ["10.0.0.0", "300.0.0.0/8"]}}}
    ),
    "a Machine without bootstrap data": made(CORE, "Machine", MACHINE | {"bootstrap": {}}),
    "a Machine with a version and a time-out that are none": made(
        CORE, "Machine", MACHINE | {"version": "v1.x", "nodeDrainTimeout": "-5s"}
    ),
    "a MachineSet whose selector does not match its template": made(
        CORE, "MachineSet", SET | {"selector": POOL}
    ),
    "a MachineDeployment with a surge that is none": made(
        CORE,
        "MachineDeployment",
        SET | {"strategy": {"rollingUpdate": {"maxSurge": "a lot", "maxUnavailable": -1}}},
    ),
    "a MachineDeployment whose template has a bad label": made(
        CORE,
        "MachineDeployment",
        SET | {"template": {"metadata": {"labels": {"a b": "c d"}}, "spec": MACHINE}},
    ),
    "a MachineHealthCheck of another cluster that waits for no start": made(
        CORE, "MachineHealthCheck", CHECK | {"selector": OF_ANOTHER, "nodeStartupTimeout": "5s"}
    ),
    "a KubeadmConfig that writes a file twice": made(BOOTSTRAP, "KubeadmConfig", {"files": FILES}),
    "a KubeadmConfig with what Ignition has not": made(
        BOOTSTRAP, "KubeadmConfig", {"format": "ignition", "useExperimentalRetryJoin": True}
    ),
    "a KubeadmConfigTemplate that writes a file twice": made(
        BOOTSTRAP, "KubeadmConfigTemplate", {"template": {"spec": {"files": FILES}}}
    ),
    "a KubewrightCluster with a port that is none": made(
        INFRA, "KubewrightCluster", {"controlPlaneEndpoint": {"host": "", "port": 70000}}
    ),
}
"""One object that breaks rules beyond its schema, or several of them, by what is wrong with it."""

BARE: dict[str, Body] = {
    "a Cluster": made(CORE, "Cluster", {"infrastructureRef": {**ELSEWHERE, "namespace": ""}}),
    "a Machine": made(CORE, "Machine", MACHINE | {"version": "1.30.0"}),
    "a MachineSet": made(CORE, "MachineSet", SET),
    "a MachineDeployment": made(CORE, "MachineDeployment", SET),
    "a MachineDeployment with an autoscaler": made(
        CORE,
        "MachineDeployment",
        SET,
        annotations={
            "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size": "3",
            "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size": "5",
        },
    ),
    "a MachineHealthCheck": made(CORE, "MachineHealthCheck", CHECK),
    "a KubeadmConfig": made(BOOTSTRAP, "KubeadmConfig", {"joinConfiguration": {}}),
    "a KubeadmConfigTemplate": made(BOOTSTRAP, "KubeadmConfigTemplate", {"template": {"spec": {}}}),
    "a KubewrightCluster": made(INFRA, "KubewrightCluster", {}),
}
"""One object that says as little as it may, by its kind."""

WARNED = made(BOOTSTRAP, "KubeadmConfig", {"useExperimentalRetryJoin": True})
"""One about which its writer is warned."""
