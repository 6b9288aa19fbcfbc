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
    setup,
)
from simulation.clusterapi.whole.acts import cluster, nothing_left, running
from simulation.clusterapi.whole.rules import rules
from simulation.invariants import INVARIANTS
from simulation.invariants.vms import no_vm_without_a_machine
from simulation.person import Person
from simulation.run import Outcome, simulate
from simulation.stories import Story
from simulation.world import Plot


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
    Story("whole-cluster-up", acts.create, running(2)),
    Story("whole-cluster-two-planes", create_two_planes, running(2, planes=2)),
    Story("whole-cluster-gone", remove, nothing_left, before=cluster()),
    Story("whole-cluster-gone-at-once", remove_at_once, nothing_left),
    *origins.STORIES,
    *rollouts.STORIES,
    *moves.STORIES,
    *health.STORIES,
    *deletions.STORIES,
)
WITH_POOL = "whole-cluster-beside-a-pool"
"""In this story the rules of machines hold too, but for a VM that a user makes and no machine wants."""
BY_NAME = {story.name: story for story in STORIES}


def run(story: Story, plot: Plot, *, quiet: float = 0.0, until: str = "") -> Outcome:
    """Run a story under its rules; after its end no manager may write for ``quiet`` seconds."""
    others = [rule for rule in INVARIANTS if rule is not no_vm_without_a_machine]
    invariants = (*others, *rules()) if story.name == WITH_POOL else rules()
    return simulate(
        story, plot, quiet=quiet, prepare=setup.install, invariants=invariants, plans=True, until=until
    )
