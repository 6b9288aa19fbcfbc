"""Every look says what its caches and servers hold, field by field; which looks have no scenes yet is a list."""

from pathlib import Path

import pytest

import kubewright
from kubewright.testing.looks import beside, looking_modules, unproven, wrong

LOOKS = tuple(each.LOOK for each in beside(__file__, __package__))

WITHOUT_SCENES = {
    "builtin.budgets": "no scenes yet (tests/api/builtin/test_loops.py)",
    "builtin.garbage.collector": "it asks the server about each owner; only tests on a server see that",
    "controlplanes.etcd": "it asks an etcd (tests/api/controlplanes/test_restoring_member.py)",
    "processes.supervisor": "it asks the system about a process; only tests with processes see that",
    "runtime.leader": "its tests compare leases (tests/unit/runtime/test_leader.py)",
    "runtime.webhooks.keeper": "no scenes yet (tests/unit/runtime/test_webhook_certificates.py: its decisions)",
}
"""Looks whose fields nothing here compares, and why. The list only gets shorter: a new look comes with scenes."""


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


def test_each_look_has_scenes_or_a_reason():
    there = {
        each for each in looking_modules(Path(kubewright.__file__).parent) if not each.startswith("testing.")
    }
    assert there - {each.module for each in LOOKS} == set(WITHOUT_SCENES)
    assert len(WITHOUT_SCENES) <= 6  # lower it with each look that gets its scenes
