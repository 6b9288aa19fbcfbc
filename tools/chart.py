"""The objects that the Helm chart shares with the kustomize files, as files of the chart: deploy/chart/files.

Theory.      Helm reads no file outside a chart, so what both ways of installing have in common is copied
             into it, from where kustomize reads it. The templates choose among the files and put them into
             the namespace of the release; only the Deployment and its account are written as templates.
             A test compares what both make.
Invariants.  The CRDs carry the annotation that makes helm keep them: with a CRD all its machines would go.
Called by    tools/gen.py.
"""

from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

import monitoring
from kubewright.api.bootstrap import manifests as bootstrap_manifests
from kubewright.api.capacity import manifests as capacity
from kubewright.api.cluster import manifests as cluster_manifests
from kubewright.api.controlplane import manifests as controlplane_manifests
from kubewright.api.infra import manifests as infra_manifests
from kubewright.api.machine import manifests
from kubewright.api.machine.manifests import HEADER, as_yaml, crds
from kubewright.api.webhooks import configurations

DEPLOY = Path(__file__).parents[1] / "deploy"
KEEP = {"helm.sh/resource-policy": "keep"}
AS_THEY_ARE = (
    "pod-disruption-budget.yaml",
    "network-policy/network-policy.yaml",
    "flow-control/flow-control.yaml",
    "monitoring/pod-monitor.yaml",
    "monitoring/dashboard.json",
)
CRD_OF_RESERVES = "crd.yaml"
OF_CLUSTERS = ("clusters/providers.yaml", "clusters/webhooks.yaml")
ROLES_OF_CLUSTERS: Iterable[Callable[[], Mapping[str, str]]] = (
    cluster_manifests.files,
    bootstrap_manifests.files,
    infra_manifests.files,
    controlplane_manifests.files,
    configurations.files,
)


def files() -> dict[str, str]:
    """Text by name; what belongs to clusters or to reserves has names that begin with that."""
    roles = {f"clusters-{name}": text for each in ROLES_OF_CLUSTERS for name, text in each().items()}
    copies = {Path(each).name: (DEPLOY / each).read_text() for each in AS_THEY_ARE}
    more = {f"clusters-{Path(each).name}": (DEPLOY / each).read_text() for each in OF_CLUSTERS}
    reserves = {
        f"reserves-{name}": text for name, text in capacity.files().items() if name != CRD_OF_RESERVES
    }
    reserves["reserves-crd.yaml"] = HEADER + as_yaml(map(_kept, capacity.crds()))
    kept = {f"crd-{each['spec']['names']['plural']}.yaml": HEADER + as_yaml([_kept(each)]) for each in crds()}
    return {
        **manifests.role_files(),
        **manifests.files_of_halves(),
        **monitoring.files(),
        **roles,
        **copies,
        **more,
        **reserves,
        **kept,
    }


def _kept(crd: Mapping[str, Any]) -> dict[str, Any]:
    kept = deepcopy(dict(crd))
    kept["metadata"]["annotations"] = {**kept["metadata"].get("annotations", {}), **KEEP}
    return kept
