"""What a cluster must have so that machines can join it: what ``kubeadm init`` would have created for them.

Theory.      A machine that joins reads ConfigMap ``cluster-info`` anonymously, verifies it by its token and
             by the hash of the authority, and asks for a certificate with the token; RBAC rules allow both,
             and let kube-controller-manager sign the certificate without a user's approval. kubeadm then
             reads the ConfigMaps ``kubeadm-config`` and ``kubelet-config``. ``kubeadm init`` creates all of
             that. A control plane that runs on no machine was started without kubeadm, so the bootstrap
             provider creates it before the first token.
Invariants.  Pure but for ``ensure``. Of what exists, only two things are changed: the content of
             cluster-info, and the version in kubeadm-config, which follows that of the API server. Users may
             change everything else.
Source       the phases bootstrap-token and upload-config of ``kubeadm init``: names, subjects and rules are
             what ``kubeadm join`` and kube-controller-manager expect.
Called by    ``token_calls``.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import ip_network
from typing import Any

import msgspec

from kubewright.api.bootstrap.names import TOKEN_GROUPS
from kubewright.api.bootstrap.tokens import CLUSTER_INFO as INFO
from kubewright.api.bootstrap.tokens import KUBECONFIG
from kubewright.api.certificates import NODES
from kubewright.api.cluster.names import SERVICE_CIDR, SERVICE_DOMAIN
from kubewright.api.core import CLUSTER_ROLE, CONFIG_MAP
from kubewright.api.kinds import Kind, dynamic
from kubewright.base.errors import InvalidInput
from kubewright.bootstrap.documents import api_of
from kubewright.kube.client import Client
from kubewright.pki.clusters import kubeconfig_without_user
from kubewright.wire import goyaml
from kubewright.wire.errors import AlreadyExists
from kubewright.wire.gvk import Key, Resource

SYSTEM = "kube-system"
KUBEADM_CONFIG, KUBELET_CONFIG = "kubeadm-config", "kubelet-config"
CONFIGURATION = "ClusterConfiguration"
"""The key in ``kubeadm-config``."""
PUBLIC, CLUSTER_INFO = INFO.namespace, INFO.name
CERTIFICATES = "system:certificates.k8s.io:certificatesigningrequests"

RBAC = "rbac.authorization.k8s.io"
ROLE = dynamic(Resource(RBAC, "v1", "roles", "Role"))
ROLE_BINDING = dynamic(Resource(RBAC, "v1", "rolebindings", "RoleBinding"))
CLUSTER_ROLE_BINDING = dynamic(
    Resource(RBAC, "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False)
)


@dataclass(frozen=True, slots=True)
class Joining:
    """What the objects for joining contain of a cluster.

    ``server``     host and port of its API server (``host:port``)
    ``authority``  the certificate of its authority, PEM
    ``name``       the name of the cluster
    ``services``, ``pods``  the ranges of addresses; ``domain``: the DNS domain of Services
    """

    server: str
    authority: bytes
    name: str = ""
    services: str = SERVICE_CIDR
    pods: str = ""
    domain: str = SERVICE_DOMAIN


def objects(joining: Joining, version: str) -> Iterator[tuple[Kind[Any], dict[str, Any]]]:
    """Every object that joining needs; cluster-info last, because a machine that finds it goes on at once.

    ``version``: of the API server.
    """
    reader = "kubeadm:bootstrap-signer-clusterinfo"
    yield _cluster_role_binding("kubeadm:kubelet-bootstrap", "system:node-bootstrapper", TOKEN_GROUPS)
    yield _cluster_role_binding(
        "kubeadm:node-autoapprove-bootstrap", f"{CERTIFICATES}:nodeclient", TOKEN_GROUPS
    )
    yield _cluster_role_binding(
        "kubeadm:node-autoapprove-certificate-rotation", f"{CERTIFICATES}:selfnodeclient", NODES
    )
    nodes = {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]}
    yield CLUSTER_ROLE, {"metadata": {"name": "kubeadm:get-nodes"}, "rules": [nodes]}
    yield _cluster_role_binding("kubeadm:get-nodes", "kubeadm:get-nodes", TOKEN_GROUPS)
    members = [("Group", TOKEN_GROUPS), ("Group", NODES)]
    yield from _role_to_read(SYSTEM, KUBEADM_CONFIG, "kubeadm:nodes-kubeadm-config", members)
    yield _config_map(SYSTEM, KUBEADM_CONFIG, CONFIGURATION, _text(configuration(joining, version)))
    yield from _role_to_read(SYSTEM, KUBELET_CONFIG, "kubeadm:kubelet-config", members)
    yield _config_map(SYSTEM, KUBELET_CONFIG, "kubelet", _text(kubelet(joining)))
    yield from _role_to_read(PUBLIC, CLUSTER_INFO, reader, [("User", "system:anonymous")])
    yield _config_map(PUBLIC, CLUSTER_INFO, KUBECONFIG, kubeconfig(joining))


def configuration(joining: Joining, version: str) -> dict[str, Any]:
    """The ClusterConfiguration in ``kubeadm-config``."""
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
    """The KubeletConfiguration in ``kubelet-config``: kubeadm's defaults.

    The DNS server has the tenth address of Services.

    Raises:
        InvalidInput: the range of Services is not valid.
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
    """The kubeconfig without a user in ``cluster-info``. Equal arguments give equal texts."""
    return kubeconfig_without_user(f"https://{joining.server}", joining.authority)


async def ensure(client: Client, joining: Joining) -> None:
    """Create what is missing, and correct cluster-info and the version in kubeadm-config.

    Raises:
        ApiError, TransportError: the cluster refused, or did not answer.
        InvalidInput: the range of its Services is not valid.
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
    """The data that the ConfigMap of this name should have, where it exists with the data ``found``. Pure."""
    if name == CLUSTER_INFO:
        return {**found, **wanted}
    if name != KUBEADM_CONFIG:
        return found
    try:
        known = dict(goyaml.loads(found.get(CONFIGURATION, "")))
    except (TypeError, ValueError):
        return {**found, **wanted}
    if not isinstance(known.get("clusterName"), str):
        return {**found, **wanted}  # a number, where a name such as 1e3 was written without quotes
    version = goyaml.loads(wanted[CONFIGURATION])["kubernetesVersion"]
    if known.get("kubernetesVersion") == version:
        return found
    return {**found, CONFIGURATION: _text({**known, "kubernetesVersion": version})}


def _text(document: Mapping[str, Any]) -> str:
    """The document as kubeadm writes it, its keys in order."""
    return goyaml.dumped(document, in_order=True)


def _config_map(namespace: str, name: str, key: str, text: str) -> tuple[Kind[Any], dict[str, Any]]:
    return CONFIG_MAP, {"metadata": {"name": name, "namespace": namespace}, "data": {key: text}}


def _role_to_read(
    namespace: str, config: str, role: str, readers: Iterable[tuple[str, str]]
) -> Iterator[tuple[Kind[Any], dict[str, Any]]]:
    """A Role to read one ConfigMap, and its binding."""
    meta = {"name": role, "namespace": namespace}
    rule = {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": [config], "verbs": ["get"]}
    yield ROLE, {"metadata": meta, "rules": [rule]}
    ref = {"apiGroup": RBAC, "kind": "Role", "name": role}
    subjects = [{"apiGroup": RBAC, "kind": kind, "name": name} for kind, name in readers]
    yield ROLE_BINDING, {"metadata": meta, "roleRef": ref, "subjects": subjects}


def _cluster_role_binding(name: str, role: str, group: str) -> tuple[Kind[Any], dict[str, Any]]:
    return CLUSTER_ROLE_BINDING, {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": RBAC, "kind": "Group", "name": group}],
    }
