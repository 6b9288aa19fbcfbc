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
from simulation.story import then, wait

remove = then(lambda person: person.remove(CLUSTER, "demo"))


remove_at_once = then(acts.create(), wait(2), remove)
"""While its machines are made."""


create_two_planes = then(acts.create(), acts.make_plane("cp-2"))
"""Two machines of the control plane come at one time: one begins it, the other joins."""


STORIES = (
    story("up", acts.create(), running(2)),
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
