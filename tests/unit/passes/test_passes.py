"""Each change of what a look reads enqueues its object, and a pass writes what its plan says and no more."""

import pytest

from kubewright.testing.passes import wrong

from . import (
    of_control_planes,
    of_infra_clusters,
    of_nested_clusters,
    of_reserves,
    of_restored_users,
    of_restores,
    of_snapshot_schedules,
    of_snapshots,
    of_templated_planes,
)

CONTROLLERS = {
    "controlplanes.nestedcluster.wiring": of_nested_clusters,
    "controlplanes.plane.wiring": of_control_planes,
    "controlplanes.snapshots.wiring: restores": of_restores,
    "controlplanes.snapshots.wiring: schedules": of_snapshot_schedules,
    "controlplanes.snapshots.wiring: snapshots": of_snapshots,
    "controlplanes.users.restored": of_restored_users,
    "controlplanes.templated.wiring": of_templated_planes,
    "infra.cluster.wiring": of_infra_clusters,
    "reserves.wiring": of_reserves,
}
SCENES = [(name, scene) for name, each in CONTROLLERS.items() for scene in each.SCENES]


@pytest.mark.parametrize(
    "scene", [each for _, each in SCENES], ids=[f"{name}: {each.name}" for name, each in SCENES]
)
async def test_a_pass_follows_from_what_changes(scene):
    assert await wrong(scene) == []
