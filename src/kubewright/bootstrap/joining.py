"""What a cluster must have so that machines can join it: what ``kubeadm init`` leaves behind for them.

Theory.      A machine that joins reads ConfigMap ``cluster-info`` without a credential, checks it by its
             token and by the hash of the authority, and asks with the token for a certificate; rules allow
             both, and the certificate to be signed without a user. In a cluster that ``kubeadm init`` has
             started all of that is there. A control plane that runs on no machine was started by no kubeadm,
             so the provider makes it before the first token.
             kubeadm then reads how its cluster and its kubelet are configured (``kubeadm-config``,
             ``kubelet-config``).
Invariants.  Pure but for ``ensure``. Of what is there it changes what cluster-info says, and the version in
             kubeadm-config, which follows the API server's; users may change all else.
Source       the phases bootstrap-token and upload-config of ``kubeadm init``: names, subjects and rules are
             what ``kubeadm join`` and kube-controller-manager expect. nested.md A10 (no kubeadm behind it).
Called by    ``token_calls``.
"""

from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import ip_network
from typing import Any

import msgspec
import yaml

from kubewright.api.bootstrap.names import TOKEN_GROUPS
from kubewright.api.core import CLUSTER_ROLE, CONFIG_MAP
from kubewright.api.kinds import Kind, dynamic
from kubewright.base.errors import InvalidInput
from kubewright.bootstrap.documents import api_of
from kubewright.kube.client import Client
from kubewright.wire.errors import AlreadyExists
from kubewright.wire.gvk import Key, Resource

PUBLIC = "kube-public"
CLUSTER_INFO = "cluster-info"
SYSTEM = "kube-system"
KUBEADM_CONFIG, KUBELET_CONFIG = "kubeadm-config", "kubelet-config"
CONFIGURATION = "ClusterConfiguration"
"""The key in ``kubeadm-config``."""
SERVICES, DOMAIN = "10.96.0.0/12", "cluster.local"
"""The defaults of kubeadm."""
KUBECONFIG = "kubeconfig"
"""Its key in ``cluster-info``. kube-controller-manager adds a signature for each token."""
NODES = "system:nodes"
CERTIFICATES = "system:certificates.k8s.io:certificatesigningrequests"

RBAC = "rbac.authorization.k8s.io"
ROLE = dynamic(Resource(RBAC, "v1", "roles", "Role"))
ROLE_BINDING = dynamic(Resource(RBAC, "v1", "rolebindings", "RoleBinding"))
CLUSTER_ROLE_BINDING = dynamic(
    Resource(RBAC, "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False)
)


@dataclass(frozen=True, slots=True)
class Joining:
    """What machines are told of a cluster.

    ``server``     where its API server is (host:port), and ``authority`` its certificate, PEM
    ``name``       of the cluster; ``services``, ``pods`` and ``domain`` are its networks
    """

    server: str
    authority: bytes
    name: str = ""
    services: str = SERVICES
    pods: str = ""
    domain: str = DOMAIN


def objects(joining: Joining, version: str) -> Iterator[tuple[Kind[Any], dict[str, Any]]]:
    """Everything that joining takes, cluster-info last: by then a machine may use what it reads there.

    ``version``: of the API server.
    """
    reader = "kubeadm:bootstrap-signer-clusterinfo"
    yield _bound("kubeadm:kubelet-bootstrap", "system:node-bootstrapper", TOKEN_GROUPS)
    yield _bound("kubeadm:node-autoapprove-bootstrap", f"{CERTIFICATES}:nodeclient", TOKEN_GROUPS)
    yield _bound("kubeadm:node-autoapprove-certificate-rotation", f"{CERTIFICATES}:selfnodeclient", NODES)
    nodes = {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]}
    yield CLUSTER_ROLE, {"metadata": {"name": "kubeadm:get-nodes"}, "rules": [nodes]}
    yield _bound("kubeadm:get-nodes", "kubeadm:get-nodes", TOKEN_GROUPS)
    members = [("Group", TOKEN_GROUPS), ("Group", NODES)]
    yield from _readable(SYSTEM, KUBEADM_CONFIG, "kubeadm:nodes-kubeadm-config", members)
    yield _config(SYSTEM, KUBEADM_CONFIG, CONFIGURATION, yaml.safe_dump(configuration(joining, version)))
    yield from _readable(SYSTEM, KUBELET_CONFIG, "kubeadm:kubelet-config", members)
    yield _config(SYSTEM, KUBELET_CONFIG, "kubelet", yaml.safe_dump(kubelet(joining)))
    yield from _readable(PUBLIC, CLUSTER_INFO, reader, [("User", "system:anonymous")])
    yield _config(PUBLIC, CLUSTER_INFO, KUBECONFIG, kubeconfig(joining))


def configuration(joining: Joining, version: str) -> dict[str, Any]:
    """How the cluster is configured, as kubeadm reads it."""
    pods = {"podSubnet": joining.pods} if joining.pods else {}
    return {
        "apiVersion": api_of(version).value,
        "kind": CONFIGURATION,
        "clusterName": joining.name,
        "controlPlaneEndpoint": joining.server,
        "kubernetesVersion": version,
        "networking": {"dnsDomain": joining.domain, "serviceSubnet": joining.services, **pods},
    }


def kubelet(joining: Joining) -> dict[str, Any]:
    """How a kubelet is configured: kubeadm's defaults. The DNS has the tenth address of Services.

    Raises:
        InvalidInput: the addresses of Services are none.
    """
    try:
        dns = str(ip_network(joining.services.partition(",")[0], strict=False)[10])
    except (ValueError, IndexError):
        raise InvalidInput(f"{joining.services} is no range of addresses for Services") from None
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": "/etc/kubernetes/pki/ca.crt"},
        },
        "authorization": {"mode": "Webhook"},
        "cgroupDriver": "systemd",
        "clusterDNS": [dns],
        "clusterDomain": joining.domain,
        "rotateCertificates": True,
        "staticPodPath": "/etc/kubernetes/manifests",
    }


def kubeconfig(joining: Joining) -> str:
    """What cluster-info holds: a kubeconfig without a user. Equal arguments give equal texts."""
    authority = b64encode(joining.authority).decode()
    cluster = {"server": f"https://{joining.server}", "certificate-authority-data": authority}
    found: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "", "cluster": cluster}],
        "contexts": None,
        "current-context": "",
        "preferences": {},
        "users": None,
    }
    return yaml.safe_dump(found)


async def ensure(client: Client, joining: Joining) -> None:
    """Create what is missing; let cluster-info say what is so now.

    Raises:
        ApiError, TransportError: the cluster refused, or did not answer.
        InvalidInput: the addresses of its Services are none.
    """
    answer = await client.send(client.request("GET", "/version"), safe=True)
    version = str(msgspec.json.decode(answer.body).get("gitVersion", ""))
    for kind, body in objects(joining, version):
        with suppress(AlreadyExists):
            await client.create(kind, body)
            continue
        if kind is CONFIG_MAP:
            key = Key(body["metadata"]["namespace"], body["metadata"]["name"])
            found = await client.get(CONFIG_MAP, key)
            if (wanted := corrected(key.name, found.data, body["data"])) != found.data:
                await client.patch(CONFIG_MAP, key, {"data": dict(wanted)})


def corrected(name: str, found: Mapping[str, str], wanted: Mapping[str, str]) -> Mapping[str, str]:
    """What the ConfigMap of this name should hold, where there is one already. Pure."""
    if name == CLUSTER_INFO:
        return {**found, **wanted}
    if name != KUBEADM_CONFIG:
        return found
    try:
        known = dict(yaml.safe_load(found.get(CONFIGURATION, "")))
    except (yaml.YAMLError, TypeError, ValueError):
        return {**found, **wanted}
    version = yaml.safe_load(wanted[CONFIGURATION])["kubernetesVersion"]
    if known.get("kubernetesVersion") == version:
        return found
    return {**found, CONFIGURATION: yaml.safe_dump({**known, "kubernetesVersion": version})}


def _config(namespace: str, name: str, key: str, text: str) -> tuple[Kind[Any], dict[str, Any]]:
    return CONFIG_MAP, {"metadata": {"name": name, "namespace": namespace}, "data": {key: text}}


def _readable(
    namespace: str, config: str, role: str, readers: Iterable[tuple[str, str]]
) -> Iterator[tuple[Kind[Any], dict[str, Any]]]:
    """Who may read a ConfigMap."""
    meta = {"name": role, "namespace": namespace}
    rule = {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": [config], "verbs": ["get"]}
    yield ROLE, {"metadata": meta, "rules": [rule]}
    ref = {"apiGroup": RBAC, "kind": "Role", "name": role}
    subjects = [{"apiGroup": RBAC, "kind": kind, "name": name} for kind, name in readers]
    yield ROLE_BINDING, {"metadata": meta, "roleRef": ref, "subjects": subjects}


def _bound(name: str, role: str, group: str) -> tuple[Kind[Any], dict[str, Any]]:
    return CLUSTER_ROLE_BINDING, {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": RBAC, "kind": "Group", "name": group}],
    }
