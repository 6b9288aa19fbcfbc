"""What it costs to convert Cluster API's objects between its two versions: processor time of 100 at a time.

Theory.      A webhook for conversion gets lists of many objects, and its caller waits. Measured are objects
             of ``examples/cluster.yaml`` as they live, with the status of a healthy cluster: what v1beta1
             says of them, and what becomes of that in v1beta2. The median of many rounds; no server, no JSON
             around.
Called by    ``python -m bench conversion``.
"""

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median
from typing import Any

import yaml
from rich.console import Console
from rich.table import Table

from kubewright.api.catalog import conversions

BUDGET_MS = 5.0
COUNT = 100
ROUNDS = 25
EXAMPLE = Path(__file__).parents[1] / "examples" / "cluster.yaml"
NOW = "2026-11-27T20:00:00Z"
Obj = dict[str, Any]


def _conditions(*types: str) -> list[Obj]:
    return [{"type": each, "status": "True", "lastTransitionTime": NOW} for each in types]


def _reasoned(*types: str) -> list[Obj]:
    return [{**each, "reason": each["type"], "message": ""} for each in _conditions(*types)]


COUNTED = {"replicas": 3, "readyReplicas": 3, "availableReplicas": 3}
STATUS: Mapping[str, Obj] = {
    "Cluster": {
        "phase": "Provisioned",
        "infrastructureReady": True,
        "controlPlaneReady": True,
        "conditions": _conditions("Ready", "ControlPlaneReady", "InfrastructureReady"),
        "v1beta2": {"conditions": _reasoned("Available", "InfrastructureReady", "ControlPlaneAvailable")},
    },
    "Machine": {
        "phase": "Running",
        "bootstrapReady": True,
        "infrastructureReady": True,
        "addresses": [{"type": "InternalIP", "address": "10.0.0.4"}],
        "nodeRef": {"apiVersion": "v1", "kind": "Node", "name": "worker"},
        "conditions": _conditions("Ready", "BootstrapReady", "InfrastructureReady", "NodeHealthy"),
        "v1beta2": {
            "conditions": _reasoned("Available", "Ready", "UpToDate", "BootstrapConfigReady", "NodeReady")
        },
    },
    "MachineDeployment": {
        **COUNTED,
        "phase": "Running",
        "updatedReplicas": 3,
        "unavailableReplicas": 0,
        "conditions": _conditions("Ready", "Available", "MachineSetReady"),
        "v1beta2": {
            "upToDateReplicas": 3,
            "conditions": _reasoned("Available", "MachinesReady", "RollingOut"),
        },
    },
    "KubeadmConfig": {
        "ready": True,
        "dataSecretName": "control-plane",
        "conditions": _conditions("Ready", "CertificatesAvailable", "DataSecretAvailable"),
        "v1beta2": {"conditions": _reasoned("Ready", "CertificatesAvailable", "DataSecretAvailable")},
    },
}


def show(console: Console) -> None:
    """Measure and print."""
    table = Table(title=f"{COUNT} objects, budget {BUDGET_MS:g} ms", title_justify="left")
    for column in ("kind", "to v1beta2", "to v1beta1"):
        table.add_column(column)
    converts = conversions(lambda group, _kind: f"{group}/v1beta1")
    for obj in yaml.safe_load_all(EXAMPLE.read_text()):
        group, _, _ = obj["apiVersion"].partition("/")
        convert = converts.get((group, obj["kind"]))
        if convert is None:
            continue
        old, new = f"{group}/v1beta1", f"{group}/v1beta2"
        status = STATUS.get(obj["kind"])
        stored = convert({**obj, **({"status": status} if status else {})}, new)
        served = convert(stored, old)
        table.add_row(obj["kind"], _cost(convert, served, new), _cost(convert, stored, old))
    console.print(table)


def _cost(convert: Callable[[Any, str], Any], obj: Obj, version: str) -> str:
    rounds = []
    for _ in range(ROUNDS):
        start = time.process_time()
        for _ in range(COUNT):
            convert(obj, version)
        rounds.append((time.process_time() - start) * 1000)
    found = median(rounds)
    return f"{found:.2f} ms ({'yes' if found <= BUDGET_MS else 'no'})"
