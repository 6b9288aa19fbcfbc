"""The objects of a cluster as its user writes them, with the defaults that webhooks would fill in.

No server of the bench has webhooks: the Go programs get their objects complete.
"""

from collections.abc import Iterator
from typing import Any

from kubewright.api.admission import Rules, defaulted
from kubewright.api.catalog import RULES
from kubewright.api.cluster.names import CONTROL_PLANE_LABEL
from kubewright.api.kinds import Kind
from kubewright.wire.gvk import Resource

OLD, NEW = "v1.34.0", "v1.35.0"
"""The version that machines begin with, and the one that they are rolled to."""
CORE = "cluster.x-k8s.io/v1beta1"
BOOTSTRAP = "bootstrap.cluster.x-k8s.io/v1beta1"
INFRASTRUCTURE = "infrastructure.cluster.x-k8s.io/v1beta1"

Plain = dict[str, Any]


def cluster(namespace: str, name: str, workers: int) -> list[tuple[Kind[Any], Plain]]:
    """A cluster with one control plane machine and a deployment of so many workers, in order of creation."""
    return [_complete(namespace, body) for body in _bodies(name, workers)]


def _complete(namespace: str, body: Plain) -> tuple[Kind[Any], Plain]:
    rules = _rules(body)
    placed = {**body, "metadata": {"namespace": namespace, **body["metadata"]}}
    return rules.kind, defaulted(rules, placed, None)


def _rules(body: Plain) -> Rules[Any]:
    def named(resource: Resource) -> tuple[str, str]:
        return resource.api_version, resource.kind

    return next(each for each in RULES if named(each.kind.resource) == (body["apiVersion"], body["kind"]))


def _bodies(name: str, workers: int) -> Iterator[Plain]:
    def ref(api: str, kind: str, to: str) -> dict[str, str]:
        return {"apiVersion": api, "kind": kind, "name": to}

    def body(api: str, kind: str, to: str, spec: Plain, **meta: Any) -> Plain:
        return {"apiVersion": api, "kind": kind, "metadata": {"name": to, **meta}, "spec": spec}

    plane, pool = f"{name}-control-plane", f"{name}-workers"
    network = {"pods": {"cidrBlocks": ["10.244.0.0/16"]}, "services": {"cidrBlocks": ["10.96.0.0/16"]}}
    yield body(CORE, "Cluster", name, {
        "clusterNetwork": network,
        "infrastructureRef": ref(INFRASTRUCTURE, "KubewrightCluster", name),
    })  # fmt: skip
    yield body(INFRASTRUCTURE, "KubewrightCluster", name, {})
    yield body(BOOTSTRAP, "KubeadmConfig", plane, {"initConfiguration": {}})
    yield body(INFRASTRUCTURE, "KubewrightMachine", plane, {})
    yield body(CORE, "Machine", plane, {
        "clusterName": name,
        "version": OLD,
        "bootstrap": {"configRef": ref(BOOTSTRAP, "KubeadmConfig", plane)},
        "infrastructureRef": ref(INFRASTRUCTURE, "KubewrightMachine", plane),
    }, labels={CONTROL_PLANE_LABEL: ""})  # fmt: skip
    yield body(BOOTSTRAP, "KubeadmConfigTemplate", pool, {"template": {"spec": {"joinConfiguration": {}}}})
    yield body(INFRASTRUCTURE, "KubewrightMachineTemplate", pool, {"template": {"spec": {}}})
    yield body(CORE, "MachineDeployment", pool, {
        "clusterName": name,
        "replicas": workers,
        "selector": {},
        "strategy": {
            "type": "RollingUpdate",
            "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": 0},
        },
        "template": {"spec": {
            "clusterName": name,
            "version": OLD,
            "bootstrap": {"configRef": ref(BOOTSTRAP, "KubeadmConfigTemplate", pool)},
            "infrastructureRef": ref(INFRASTRUCTURE, "KubewrightMachineTemplate", pool),
        }},
    })  # fmt: skip
