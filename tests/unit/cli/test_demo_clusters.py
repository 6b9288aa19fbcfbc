"""The demo of a cluster: its objects are those of the example, and what it says of machines and of the cluster."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

from kubewright.api.cluster.v1beta1 import Cluster, ClusterStatus, Condition, Machine, MachineStatus
from kubewright.api.meta import ObjectMeta
from kubewright.cli.demo import clusters
from kubewright.cli.demo.clusters import WORDS, cluster_phase, rolled, state
from kubewright.cli.demo.view import EMPTY, Row, View, happened

EXAMPLE = Path(__file__).parents[3] / "examples" / "cluster.yaml"
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def test_the_demo_has_the_objects_of_the_example() -> None:
    assert clusters.example() == list(yaml.safe_load_all(EXAMPLE.read_text()))


def machine(phase: str, *, going: bool = False, **conditions: str) -> Machine:
    """A machine in a phase; ``conditions`` are their statuses by type."""
    found = tuple(Condition(type=name, status=status) for name, status in conditions.items())
    meta = ObjectMeta(name="m", deletion_timestamp=NOW if going else None)
    return Machine(metadata=meta, status=MachineStatus(phase=phase, conditions=found))


@pytest.mark.parametrize(
    ("found", "wanted"),
    [
        pytest.param(machine(""), "Pending", id="a machine without a phase is Pending"),
        pytest.param(machine("Provisioned"), "Provisioned", id="otherwise a machine is in its phase"),
        pytest.param(machine("Running", NodeHealthy="False"), "Running", id="a node that is not ready yet"),
        pytest.param(machine("Running", NodeHealthy="Unknown"), "Unknown", id="a silent node"),
        pytest.param(
            machine("Running", NodeHealthy="Unknown", HealthCheckSucceeded="False"),
            "Unhealthy",
            id="a health check that failed counts more than the node",
        ),
        pytest.param(
            machine("Provisioned", NodeHealthy="Unknown"), "Provisioned", id="a machine without a node"
        ),
        pytest.param(
            machine("Running", going=True, HealthCheckSucceeded="False"),
            "Deleting",
            id="deletion counts most",
        ),
    ],
)
def test_a_machine_has_one_state(found: Machine, wanted: str) -> None:
    assert state(found) == wanted


@pytest.mark.parametrize(
    ("found", "wanted"),
    [
        pytest.param(Cluster(), "Provisioning", id="new"),
        pytest.param(Cluster(status=ClusterStatus(phase="Provisioned")), "Provisioned", id="with a phase"),
        pytest.param(
            Cluster(metadata=ObjectMeta(deletion_timestamp=NOW), status=ClusterStatus(phase="Provisioned")),
            "Deleting",
            id="deleted",
        ),
    ],
)
def test_a_cluster_has_a_phase_before_one_is_written(found: Cluster, wanted: str) -> None:
    assert cluster_phase(found) == wanted


def test_a_cluster_that_changes_is_told_before_its_machines_and_one_that_stays_is_not() -> None:
    row = Row("w", "v1", "Running", "w")
    there = View((row,), ready_nodes=1, nodes=1, vms=1, cluster="Provisioned")
    assert happened(WORDS, EMPTY, there) == [
        "the cluster is Provisioned: its API server has an address now",
        "w is Running: its node has joined",
    ]
    assert happened(WORDS, there, there) == []
    assert happened(WORDS, there, EMPTY) == ["the cluster is gone", "w is gone: its VM is deleted"]


def of_versions(*workers: str) -> View:
    """A control plane of an old version, and workers, all Running."""
    rows = [Row(clusters.CONTROL_PLANE, clusters.VERSION, "Running", "")]
    rows += [Row(f"w{number}", version, "Running", "") for number, version in enumerate(workers)]
    return View(tuple(rows), ready_nodes=len(rows), nodes=len(rows), vms=len(rows), cluster="Provisioned")


@pytest.mark.parametrize(
    ("now", "wanted"),
    [
        pytest.param(of_versions("v1.34.1", "v1.34.1", "v1.34.1"), True, id="all workers are new"),
        pytest.param(of_versions("v1.34.1", "v1.34.0", "v1.34.1"), False, id="one is old"),
        pytest.param(of_versions("v1.34.1", "v1.34.1"), False, id="one is missing"),
    ],
)
def test_workers_have_rolled_when_each_of_them_is_new(now: View, wanted: bool) -> None:
    assert rolled(now) is wanted


def test_nothing_is_left_only_when_the_cluster_is_gone() -> None:
    assert EMPTY.empty
    assert not View((), ready_nodes=0, nodes=0, vms=0, cluster="Deleting").empty
