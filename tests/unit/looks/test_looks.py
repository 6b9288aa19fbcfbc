"""Every look says what its caches and servers hold, field by field; which looks have no scenes yet is a list."""

import pytest

from kubewright.testing.looks import unproven, wrong

from . import of_infra_machines, of_kubeadm_configs, of_machines, of_sets

LOOKS = (of_kubeadm_configs.LOOK, of_machines.LOOK, of_sets.LOOK, of_infra_machines.LOOK)


@pytest.mark.parametrize(
    "scene",
    [scene for look in LOOKS for scene in look.scenes],
    ids=[f"{look.module}: {scene.name}" for look in LOOKS for scene in look.scenes],
)
async def test_a_look_says_what_there_is(scene):
    assert await wrong(scene) == []


@pytest.mark.parametrize("look", LOOKS, ids=[each.module for each in LOOKS])
def test_each_field_of_a_look_is_seen_with_two_values(look):
    assert unproven(look) == []
