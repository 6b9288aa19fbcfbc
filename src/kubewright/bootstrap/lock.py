"""The init lock: a ConfigMap by which one machine of a cluster, and only one, runs ``kubeadm init``.

Theory.      The machine in whose name ``<cluster>-lock`` was created holds it: of several requests to create
             it only one succeeds. The format is upstream's, so that its provider respects our locks and ours
             respects its.
             It is taken last, when the data could be written at once, so a holder that cannot go on is rare;
             it goes when the cluster is initialized, when its holder is gone, or when the data of its holder
             cannot be made or are refused.
Invariants.  Pure. A lock that cannot be read is held by a machine that is not known.
Source       S1-31.
Called by    ``look``, ``act``.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from kubewright.api.bootstrap.names import LOCK_KEY, lock_name
from kubewright.api.cluster.names import CLUSTER_NAME_LABEL
from kubewright.api.cluster.v1beta1 import CLUSTER, Cluster


@dataclass(frozen=True, slots=True)
class Lock:
    """A lock that is there. ``holder`` is the machine's name, empty if it cannot be read."""

    uid: str
    holder: str
    holder_exists: bool


def holder_of(data: Mapping[str, str]) -> str:
    """The machine that a lock's data names; empty if it names none."""
    try:
        said = msgspec.json.decode(data.get(LOCK_KEY, ""))
    except (msgspec.DecodeError, RecursionError):
        return ""
    name = said.get("machineName") if isinstance(said, dict) else None
    return name if isinstance(name, str) else ""


def config_map(cluster: Cluster, machine: str) -> dict[str, Any]:
    """The lock, held by a machine. It goes with its Cluster."""
    owner = {
        "apiVersion": CLUSTER.resource.api_version,
        "kind": CLUSTER.resource.kind,
        "name": cluster.metadata.name,
        "uid": cluster.metadata.uid,
    }
    return {
        "metadata": {
            "name": lock_name(cluster.metadata.name),
            "namespace": cluster.metadata.namespace,
            "labels": {CLUSTER_NAME_LABEL: cluster.metadata.name},
            "ownerReferences": [owner],
        },
        "data": {LOCK_KEY: msgspec.json.encode({"machineName": machine}).decode()},
    }
