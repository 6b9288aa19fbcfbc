"""The table of stories of whole clusters.

Theory.      Each subject has a module with its own table; those of a cluster that comes and goes are here.
Called by    ``library``, and tests.
"""

from kubewright.api.cluster.v1beta1 import CLUSTER
from simulation.clusterapi.whole import (
    acts,
    deletions,
    health,
    moves,
    origins,
    rollouts,
)
from simulation.clusterapi.whole.acts import cluster, nothing_left, running, story
from simulation.person import Person


async def remove(person: Person) -> None:
    await person.remove(CLUSTER, "demo")


async def remove_at_once(person: Person) -> None:
    """While its machines are being cluster."""
    await acts.create(person)
    await person.wait(2)
    await remove(person)


async def create_two_planes(person: Person) -> None:
    """Two machines of the control plane come at one time: one begins it, the other joins."""
    await acts.create(person)
    await acts.make_plane(person, "cp-2")


STORIES = (
    story("up", acts.create, running(2)),
    story("two-planes", create_two_planes, running(2, planes=2)),
    story("gone", remove, nothing_left, before=cluster()),
    story("gone-at-once", remove_at_once, nothing_left),
    *origins.STORIES,
    *rollouts.STORIES,
    *moves.STORIES,
    *health.STORIES,
    *deletions.STORIES,
)
BY_NAME = {story.name: story for story in STORIES}
