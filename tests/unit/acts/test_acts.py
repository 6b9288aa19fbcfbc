"""Every act sends what its steps say, and tells it; which acts have no scenes yet is a list."""

from pathlib import Path

import pytest

import kubewright
from kubewright.testing.acts import unperformed, wrong

from . import of_cluster_machines, of_clusters, of_health_checks, of_infra_machines, of_kubeadm_configs

ACTS = tuple(
    each.ACT
    for each in (of_cluster_machines, of_clusters, of_health_checks, of_infra_machines, of_kubeadm_configs)
)

WITHOUT_SCENES = {
    "controlplanes.certificates.act": "no scenes yet, but for conflicts (test_conflicts.py)",
    "controlplanes.component.act": "no scenes yet, but for conflicts (test_conflicts.py)",
    "controlplanes.plane.act": "no scenes yet, but for conflicts (test_conflicts.py)",
    "controlplanes.snapshots.restoring.act": "no scenes yet, but for conflicts (test_conflicts.py)",
    "controlplanes.snapshots.taking.act": "no scenes yet, but for conflicts (test_conflicts.py)",
    "machines.machine.act": "no scenes yet, but for conflicts (test_conflicts.py)",
    "replicas.deployment.act": "no scenes yet, but for conflicts (test_conflicts.py)",
    "replicas.set.act": "no scenes yet, but for conflicts (test_conflicts.py)",
}
"""Acts that only tests on a server see, and which. The list only gets shorter: a new act comes with scenes."""


@pytest.mark.parametrize(
    "scene",
    [scene for act in ACTS for scene in act.scenes],
    ids=[f"{act.module}: {scene.name}" for act in ACTS for scene in act.scenes],
)
async def test_an_act_does_what_its_steps_say(scene):
    assert await wrong(scene) == []


@pytest.mark.parametrize("act", ACTS, ids=[each.module for each in ACTS])
def test_each_step_is_performed_in_a_scene(act):
    assert unperformed(act) == []


def test_each_act_has_scenes_or_a_reason():
    root = Path(kubewright.__file__).parent
    there = {".".join(path.relative_to(root).with_suffix("").parts) for path in root.rglob("act.py")}
    assert there - {each.module for each in ACTS} == set(WITHOUT_SCENES)
    assert len(WITHOUT_SCENES) <= 8  # lower it with each act that gets its scenes
