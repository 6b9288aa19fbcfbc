"""What VMs boot from: user data by which a kubelet joins with a bootstrap token, and what a node needs besides."""

import json
from base64 import b64encode
from typing import Any

CNI: dict[str, Any] = {
    "cniVersion": "0.4.0",
    "name": "pods",
    "plugins": [
        {
            "type": "bridge",
            "bridge": "cni0",
            "isGateway": True,
            "ipMasq": True,
            "ipam": {
                "type": "host-local",
                "ranges": [[{"subnet": "10.244.0.0/24"}]],
                "routes": [{"dst": "0.0.0.0/0"}],
            },
        },
        {"type": "portmap", "capabilities": {"portMappings": True}},
    ],
}
"""Pods of a node reach each other, and the world beyond it by its address; nodes do not share a network of pods."""
CNI_FILE = "/etc/cni/net.d/10-pods.conflist"


def cni() -> str:
    return json.dumps(CNI)


KUBELET: dict[str, Any] = {
    "apiVersion": "kubelet.config.k8s.io/v1beta1",
    "kind": "KubeletConfiguration",
    "cgroupDriver": "systemd",
    "authentication": {
        "anonymous": {"enabled": False},
        "webhook": {"enabled": True},
        "x509": {"clientCAFile": "/etc/kubernetes/ca.crt"},
    },
    "authorization": {"mode": "Webhook"},
    "resolvConf": "/dev/null",
}

BOOT = {
    "kernel": "vmlinuz",
    "initrd": "initrd",
    "commandLine": "root=/dev/vda rw console=ttyS0 quiet net.ifnames=0",
}
"""How the node image is booted (docs/reference/qemu.md)."""


def machine_class(name: str, **spec: Any) -> Any:
    return {
        "apiVersion": "machine.sapcloud.io/v1alpha1",
        "kind": "MachineClass",
        "metadata": {"name": name, "namespace": "default"},
        "provider": "qemu",
        "providerSpec": {"image": "node.qcow2", "cpus": 2, "disk": "6Gi", **BOOT, **spec},
        "secretRef": {"name": "worker", "namespace": "default"},
    }


def worker_secret(server: str, authority: bytes) -> Any:
    """What Gardener's user data does, in few words: a kubelet that asks for its certificate with the machine's token."""
    cluster = {"server": server, "certificate-authority-data": b64encode(authority).decode()}
    bootstrap = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "it", "cluster": cluster}],
        "users": [{"name": "token", "user": {"token": "<<BOOTSTRAP_TOKEN>>"}}],
        "contexts": [{"name": "it", "context": {"cluster": "it", "user": "token"}}],
        "current-context": "it",
    }
    files = {
        "/etc/kubernetes/bootstrap-kubelet.conf": json.dumps(bootstrap),
        "/etc/kubernetes/ca.crt": authority.decode(),
        "/var/lib/kubelet/config.yaml": json.dumps(KUBELET),
        "/etc/default/kubelet": "KUBELET_EXTRA_ARGS=--provider-id={{ ds.meta_data.provider_id }}\n",
        CNI_FILE: cni(),
    }
    # No command: they are written before the image's kubelet starts.
    data = {
        "write_files": [
            {"path": path, "content": content, "permissions": "0600"} for path, content in files.items()
        ]
    }
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "worker", "namespace": "default"},
        "stringData": {"userData": f"## template: jinja\n#cloud-config\n{json.dumps(data)}\n"},
    }


def binding(name: str, role: str, group: str) -> Any:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": group}],
    }


JOINING = (
    binding("bootstrap", "system:node-bootstrapper", "system:bootstrappers"),
    binding(
        "approve", "system:certificates.k8s.io:certificatesigningrequests:nodeclient", "system:bootstrappers"
    ),
)
"""What an administrator grants, so that tokens become certificates of nodes."""

IMAGE = "docker.io/kubewright/busybox:1"
"""In the node image: Debian's busybox alone."""
SAYS = "trap 'exit 0' TERM; echo hello from $HOSTNAME; while :; do /bin/busybox sleep 1 & wait; done"


def text(*found: Any) -> str:
    return "\n---\n".join(map(json.dumps, found))


def container() -> Any:
    command = ["/bin/busybox", "sh", "-c", SAYS]
    return {"name": "hello", "image": IMAGE, "imagePullPolicy": "Never", "command": command}


def pod(name: str, node: str) -> Any:
    """A pod for a node, where there is no scheduler; it needs no account."""
    spec = {"nodeName": node, "containers": [container()], "terminationGracePeriodSeconds": 5}
    meta = {"name": name, "namespace": "default"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta,
        "spec": {**spec, "automountServiceAccountToken": False},
    }


def app(replicas: int) -> list[Any]:
    """Pods that say a line, end when they are told to, and may go one at a time."""
    labels = {"app": "hello"}
    # A pod waits for no lost node longer than this.
    tolerations = [
        {
            "key": f"node.kubernetes.io/{each}",
            "operator": "Exists",
            "effect": "NoExecute",
            "tolerationSeconds": 5,
        }
        for each in ("not-ready", "unreachable")
    ]
    spec = {"containers": [container()], "tolerations": tolerations, "terminationGracePeriodSeconds": 5}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "hello", "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "hello", "namespace": "default"},
        "spec": {"minAvailable": replicas - 1, "selector": {"matchLabels": labels}},
    }
    return [deployment, budget]
