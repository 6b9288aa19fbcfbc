"""What a cluster must have so that machines can join it: what ``kubeadm init`` leaves behind for them.

Theory.      A machine that joins reads ConfigMap ``cluster-info`` without a credential, checks it by its
             token and by the hash of the authority, and asks with the token for a certificate; rules allow
             both, and the certificate to be signed without a user. In a cluster that ``kubeadm init`` has
             started all of that is there. A control plane that runs on no machine was started by no kubeadm,
             so the provider makes it before the first token.
Invariants.  Pure but for ``ensure``, which changes no object that is there, but for what cluster-info says.
Source       the phase bootstrap-token of ``kubeadm init``: names, subjects and rules are what ``kubeadm
             join`` and kube-controller-manager expect. nested.md A10 (no kubeadm behind it).
Called by    ``token_calls``.
"""

from base64 import b64encode
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import yaml

from kubewright.api.bootstrap.names import TOKEN_GROUPS
from kubewright.api.core import CLUSTER_ROLE, CONFIG_MAP
from kubewright.api.kinds import Kind, dynamic
from kubewright.kube.client import Client
from kubewright.wire.errors import AlreadyExists
from kubewright.wire.gvk import Key, Resource

PUBLIC = "kube-public"
CLUSTER_INFO = "cluster-info"
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
    """What machines are told of a cluster: where its API server is (host:port), and its authority (PEM)."""

    server: str
    authority: bytes


def objects(joining: Joining) -> Iterator[tuple[Kind[Any], dict[str, Any]]]:
    """Everything that joining takes, cluster-info last: by then a machine may use what it reads there."""
    reader = "kubeadm:bootstrap-signer-clusterinfo"
    yield _bound("kubeadm:kubelet-bootstrap", "system:node-bootstrapper", TOKEN_GROUPS)
    yield _bound("kubeadm:node-autoapprove-bootstrap", f"{CERTIFICATES}:nodeclient", TOKEN_GROUPS)
    yield _bound("kubeadm:node-autoapprove-certificate-rotation", f"{CERTIFICATES}:selfnodeclient", NODES)
    nodes = {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]}
    yield CLUSTER_ROLE, {"metadata": {"name": "kubeadm:get-nodes"}, "rules": [nodes]}
    yield _bound("kubeadm:get-nodes", "kubeadm:get-nodes", TOKEN_GROUPS)
    meta = {"name": reader, "namespace": PUBLIC}
    info = {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": [CLUSTER_INFO], "verbs": ["get"]}
    yield ROLE, {"metadata": meta, "rules": [info]}
    stranger = {"apiGroup": RBAC, "kind": "User", "name": "system:anonymous"}
    ref = {"apiGroup": RBAC, "kind": "Role", "name": reader}
    yield ROLE_BINDING, {"metadata": meta, "roleRef": ref, "subjects": [stranger]}
    data = {KUBECONFIG: kubeconfig(joining)}
    yield CONFIG_MAP, {"metadata": {"name": CLUSTER_INFO, "namespace": PUBLIC}, "data": data}


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
    """
    for kind, body in objects(joining):
        with suppress(AlreadyExists):
            await client.create(kind, body)
            continue
        if kind is CONFIG_MAP:
            await _correct(client, body)


async def _correct(client: Client, body: Mapping[str, Any]) -> None:
    key = Key(PUBLIC, CLUSTER_INFO)
    found = await client.get(CONFIG_MAP, key)
    if found.data.get(KUBECONFIG) != body["data"][KUBECONFIG]:
        await client.patch(CONFIG_MAP, key, {"data": body["data"]})


def _bound(name: str, role: str, group: str) -> tuple[Kind[Any], dict[str, Any]]:
    return CLUSTER_ROLE_BINDING, {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": RBAC, "kind": "Group", "name": group}],
    }
