"""Every act sends what its steps say, and tells it; every act has scenes."""

from pathlib import Path

import pytest

import kubewright
from kubewright.testing.acts import unperformed, wrong
from kubewright.testing.looks import beside

ACTS = tuple(each.ACT for each in beside(__file__, __package__))

WHOLE_PASSES = {"infra.cluster.act", "reserves.act"}
"""Acts whose steps are seen in scenes of whole passes (tests/unit/passes)."""


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


def test_each_act_has_scenes():
    root = Path(kubewright.__file__).parent
    there = {".".join(path.relative_to(root).with_suffix("").parts) for path in root.rglob("act.py")}
    assert there == {each.module for each in ACTS} | WHOLE_PASSES
