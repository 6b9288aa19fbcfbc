"""The documents that kubeadm reads, in the version that the kubeadm of a Kubernetes release reads.

Theory.      A KubeadmConfig has kubeadm's v1beta3 fields. Each release of kubeadm reads the API of its time,
             so what an older one does not know is left out, and v1beta4 has flags as lists and
             all time-outs in one place.
Invariants.  Pure. ``taints`` None is left out, an empty list is written. An ``apiVersion`` or ``kind`` that a
             user gave is replaced. Fields that are empty are left out.
Source       kubeadm's own conversions for v1beta4.
Called by    ``generation``; ``kubeadm config validate`` judges what is written (tests/conformance).
"""

import re
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any

import msgspec

from kubewright.api.bootstrap.v1beta1 import ClusterConfiguration, InitConfiguration, JoinConfiguration
from kubewright.base.errors import InvalidInput
from kubewright.bootstrap.yaml_text import dumped, template
from kubewright.wire import goyaml

Document = dict[str, Any]

_VERSION = re.compile(r"v?(\d{1,9})\.(\d{1,9})(?:\.\d+)?(?:[-+][0-9A-Za-z.+-]*)?")


class Api(StrEnum):
    """The versions of kubeadm's API that we write."""

    V1BETA2 = "kubeadm.k8s.io/v1beta2"
    V1BETA3 = "kubeadm.k8s.io/v1beta3"
    V1BETA4 = "kubeadm.k8s.io/v1beta4"


SINCE = ((31, Api.V1BETA4), (22, Api.V1BETA3), (15, Api.V1BETA2))
"""From which minor release of Kubernetes 1 on each is written. A pre-release counts as its release."""


def release_of(version: str) -> tuple[int, int]:
    """Major and minor of a Kubernetes version.

    Raises:
        InvalidInput: it is no version.
    """
    found = _VERSION.fullmatch(version)
    if found is None:
        raise InvalidInput(f"Kubernetes version {version!r} is not a version such as v1.31.0")
    return int(found[1]), int(found[2])


def api_of(version: str) -> Api:
    """The API that the kubeadm of a Kubernetes version reads.

    Raises:
        InvalidInput: it is no version, or older than any that we write for.
    """
    release = release_of(version)
    for minor, api in SINCE:
        if release >= (1, minor):
            return api
    raise InvalidInput(f"Kubernetes {version} is older than v1.15.0, the oldest that can be bootstrapped")


def init_documents(
    api: Api, cluster: ClusterConfiguration, init: InitConfiguration, *, jinja: bool = True
) -> str:
    """What ``kubeadm init`` reads: the cluster, then its first machine. ``jinja`` goes over it before."""
    first, second = _plain(cluster), _plain(init)
    waited = first.get("apiServer", {}).get("timeoutForControlPlane")
    _of_node(api, second, waited)
    if api is Api.V1BETA4:
        _of_cluster(first)
    named = [_named(api, "ClusterConfiguration", first), _named(api, "InitConfiguration", second)]
    return _joined(named, jinja=jinja)


def join_document(
    api: Api, join: JoinConfiguration, cluster: ClusterConfiguration | None = None, *, jinja: bool = True
) -> str:
    """What ``kubeadm join`` reads. ``cluster`` may say how long to wait for a control plane."""
    plain = _plain(join)
    _of_node(api, plain, cluster.api_server.timeout_for_control_plane if cluster is not None else None)
    if api is Api.V1BETA4 and (timeout := plain.get("discovery", {}).pop("timeout", None)):
        plain.setdefault("timeouts", {})["discovery"] = timeout
    return _joined([_named(api, "JoinConfiguration", plain)], jinja=jinja)


def _of_node(api: Api, plain: Document, waited: str | None) -> None:
    """Change an init or join configuration to what this API has."""
    registration = plain.get("nodeRegistration", {})
    match api:
        case Api.V1BETA2:
            for absent in ("skipPhases", "patches"):
                plain.pop(absent, None)
            registration.pop("imagePullPolicy", None)
        case Api.V1BETA4:
            _as_list(registration, "kubeletExtraArgs")
            if waited:
                plain["timeouts"] = {"controlPlaneComponentHealthCheck": waited}


def _of_cluster(plain: Document) -> None:
    """Change a cluster configuration to v1beta4."""
    for component in ("apiServer", "controllerManager", "scheduler"):
        _as_list(plain.get(component, {}), "extraArgs")
    plain.get("apiServer", {}).pop("timeoutForControlPlane", None)
    _as_list(plain.get("etcd", {}).get("local", {}), "extraArgs")


def _as_list(holder: Document, name: str) -> None:
    """Flags as v1beta4 has them, by name."""
    if flags := holder.get(name):
        holder[name] = [{"name": key, "value": flags[key]} for key in sorted(flags)]


def _plain(struct: msgspec.Struct) -> Document:
    plain: Document = msgspec.to_builtins(struct)
    return plain


def _named(api: Api, kind: str, plain: Mapping[str, Any]) -> Document:
    """With its own version and kind first, and without sections in which nothing stands."""
    rest = {key: value for key, value in plain.items() if key not in ("apiVersion", "kind") and value != {}}
    return {"apiVersion": api.value, "kind": kind, **rest}


def _joined(documents: Iterable[Document], *, jinja: bool) -> str:
    if jinja:
        return "".join(f"---\n{dumped(template(document))}" for document in documents)
    return goyaml.dumped_all(documents)
