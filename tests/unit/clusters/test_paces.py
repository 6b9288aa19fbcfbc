"""Which statuses of Cluster API can wait: those that only say what is waited for."""

import pytest

from kubewright.api.cluster.conditions import ERROR, INFO, WARNING, false_condition, true_condition
from kubewright.api.cluster.v1beta1 import (
    ClusterStatus,
    MachineDeploymentStatus,
    MachineStatus,
    ObjectReference,
)
from kubewright.clusters.paces import cluster_underway, machine_underway, replicas_underway

READY, UNREADY = (true_condition("Ready"),), (false_condition("Ready", "Waiting", INFO),)
BROKEN = (false_condition("Ready", "Broken", ERROR),)
GOING = (true_condition("Deleting"),)
NODE = ObjectReference(name="n")
NEW = MachineStatus()
PENDING = MachineStatus(phase="Pending", conditions=UNREADY)


@pytest.mark.parametrize(
    ("before", "after", "underway"),
    [
        pytest.param(NEW, PENDING, True, id="a machine that is new waits"),
        pytest.param(PENDING, MachineStatus(phase="Provisioned", conditions=READY), True, id="its VM boots"),
        pytest.param(PENDING, MachineStatus(phase="Running", node_ref=NODE), False, id="it has a Node"),
        pytest.param(
            PENDING,
            MachineStatus(phase="Provisioned", node_ref=NODE),
            False,
            id="it has a Node that is not Ready",
        ),
        pytest.param(NEW, MachineStatus(phase="Pending", conditions=BROKEN), False, id="an error is new"),
        pytest.param(
            MachineStatus(phase="Pending", conditions=BROKEN),
            MachineStatus(phase="Provisioning", conditions=BROKEN),
            True,
            id="an error is known",
        ),
        pytest.param(
            MachineStatus(phase="Failed", failure_message="no quota"),
            PENDING,
            False,
            id="a failure is over",
        ),
        pytest.param(PENDING, MachineStatus(conditions=GOING), False, id="it is being deleted"),
    ],
)
def test_of_a_machine(before: MachineStatus, after: MachineStatus, underway: bool) -> None:
    assert machine_underway(before, after) is underway


COMING = ClusterStatus(phase="Provisioning", conditions=UNREADY)


@pytest.mark.parametrize(
    ("before", "after", "underway"),
    [
        pytest.param(ClusterStatus(), COMING, True, id="a cluster that is new waits"),
        pytest.param(
            COMING,
            ClusterStatus(phase="Provisioned", infrastructure_ready=True),
            False,
            id="its infrastructure is ready",
        ),
        pytest.param(
            COMING,
            ClusterStatus(phase="Provisioning", control_plane_ready=True),
            False,
            id="its control plane is",
        ),
        pytest.param(
            COMING,
            ClusterStatus(phase="Provisioning", conditions=(true_condition("ControlPlaneInitialized"),)),
            False,
            id="machines may join",
        ),
        pytest.param(COMING, ClusterStatus(phase="Pending", conditions=BROKEN), False, id="an error is new"),
        pytest.param(COMING, ClusterStatus(conditions=GOING), False, id="it is being deleted"),
    ],
)
def test_of_a_cluster(before: ClusterStatus, after: ClusterStatus, underway: bool) -> None:
    assert cluster_underway(before, after) is underway


def counts(replicas: int, ready: int = 0, *, generation: int = 1, **more) -> MachineDeploymentStatus:
    more = {"conditions": UNREADY, **more}
    return MachineDeploymentStatus(
        observed_generation=generation, replicas=replicas, ready_replicas=ready, **more
    )


@pytest.mark.parametrize(
    ("before", "after", "underway"),
    [
        pytest.param(MachineDeploymentStatus(), counts(1), True, id="it is new, and its machines come up"),
        pytest.param(counts(1), counts(3), True, id="machines are made"),
        pytest.param(counts(3, 1), counts(3, 2), False, id="one is ready"),
        pytest.param(counts(3, 2), counts(3, 1), False, id="one is ready no more"),
        pytest.param(counts(3), counts(2), False, id="one is gone"),
        pytest.param(counts(3), counts(3, generation=2), False, id="the spec has changed"),
        pytest.param(MachineDeploymentStatus(), counts(0, conditions=READY), False, id="none is wanted"),
        pytest.param(counts(1, 1, conditions=READY), counts(1, 1), False, id="it is no longer Ready"),
        pytest.param(
            counts(1),
            counts(1, conditions=(false_condition("Ready", "Waiting", WARNING),)),
            True,
            id="a warning is no error",
        ),
        pytest.param(counts(1), counts(1, conditions=BROKEN), False, id="an error is new"),
    ],
)
def test_of_sets_and_deployments(
    before: MachineDeploymentStatus, after: MachineDeploymentStatus, underway: bool
) -> None:
    assert replicas_underway(before, after) is underway
