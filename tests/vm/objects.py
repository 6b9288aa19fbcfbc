"""Objects of Cluster API for lives whose machines are VMs of the node image."""

from typing import Any

from tests.vm import guests

VERSION, EARLIER = "v1.36.3", "v1.35.4"
"""Those that the node image holds."""
CORE, INFRA = "cluster.x-k8s.io/v1beta1", "infrastructure.cluster.x-k8s.io/v1beta1"
BOOTSTRAP = "bootstrap.cluster.x-k8s.io/v1beta1"
MACHINES = "/apis/cluster.x-k8s.io/v1beta1/namespaces/default/machines"
REGISTRATION: dict[str, Any] = {
    # A word of cloud-init's, which its VM knows.
    "kubeletExtraArgs": {"provider-id": "{{ ds.meta_data.provider_id }}"},
    "imagePullPolicy": "Never",
}
FILES = [{"path": guests.CNI_FILE, "content": guests.cni(), "permissions": "0644"}]


def of(kind: str, name: str, spec: Any, api: str = CORE, **meta: Any) -> Any:
    return {
        "apiVersion": api,
        "kind": kind,
        "metadata": {"name": name, "namespace": "default", **meta},
        "spec": spec,
    }


def cluster(name: str, control_plane: Any, infrastructure: Any) -> Any:
    network = {"pods": {"cidrBlocks": ["10.244.0.0/16"]}, "services": {"cidrBlocks": ["10.96.0.0/16"]}}
    spec = {"clusterNetwork": network, "infrastructureRef": reference(infrastructure)}
    return of(
        "Cluster", name, {**spec, **({"controlPlaneRef": reference(control_plane)} if control_plane else {})}
    )


def reference(obj: Any) -> Any:
    return {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "name": obj["metadata"]["name"]}


def vm(**spec: Any) -> Any:
    """The spec of a KubewrightMachine."""
    return {
        "driver": "qemu",
        "providerSpec": {"image": "node.qcow2", "cpus": 2, "disk": "6Gi", **guests.BOOT, **spec},
    }


def workers(cluster_name: str, replicas: int, *, version: str = VERSION, **spec: Any) -> list[Any]:
    """A MachineDeployment whose machines join."""
    name = f"{cluster_name}-workers"
    join = {"joinConfiguration": {"nodeRegistration": REGISTRATION}, "files": FILES}
    config = of("KubeadmConfigTemplate", name, {"template": {"spec": join}}, BOOTSTRAP)
    machine = of("KubewrightMachineTemplate", name, {"template": {"spec": vm(**spec)}}, INFRA)
    template = {
        "clusterName": cluster_name,
        "version": version,
        "bootstrap": {"configRef": reference(config)},
        "infrastructureRef": reference(machine),
    }
    deployment = {
        "clusterName": cluster_name,
        "replicas": replicas,
        "selector": {},
        "template": {"metadata": {"labels": {"pool": "workers"}}, "spec": template},
    }
    return [config, machine, of("MachineDeployment", name, deployment)]
