"""All stories that the command line can run, and how each kind of them is run.

Theory.      Most stories are about machines of ``machine.sapcloud.io``, and ``simulate`` runs them as they
             are. Those of whole clusters need the other worlds, the control planes and rules of their own
             (``clusterapi.whole``). A name says of which kind a story is, so a replay needs no more than it.
Invariants.  No name is in both tables. A world of whole clusters goes the same way each time, but its traces
             differ in the hashes of Secrets: keys are not drawn by the seed. A random world of whole
             clusters has no faults of nodes, which are harmed only by the stories that are about that.
Called by    ``campaign``, ``search``, ``__main__`` and tests.
"""

from dataclasses import replace

from kubewright.base.errors import InvalidInput
from kubewright.testing.simulation import stories
from kubewright.testing.simulation.clusterapi.whole import stories as whole
from kubewright.testing.simulation.run import Outcome, simulate
from kubewright.testing.simulation.schedule import NODE_FAULTS, Schedule
from kubewright.testing.simulation.stories import Story
from kubewright.testing.simulation.world import Plot

MACHINES: tuple[Story, ...] = stories.STORIES
WHOLE_CLUSTERS: tuple[Story, ...] = tuple(whole.STORIES)


def story_named(name: str) -> Story:
    """The story of this name.

    Raises:
        InvalidInput: there is none; the message names all.
    """
    found = stories.BY_NAME.get(name) or whole.BY_NAME.get(name)
    if found is None:
        raise InvalidInput(f"no story {name!r}; there are {', '.join((*stories.BY_NAME, *whole.BY_NAME))}")
    return found


def is_whole(story: Story) -> bool:
    """Whether a story is about whole clusters."""
    return story.name in whole.BY_NAME


def run(story: Story, plot: Plot, *, quiet: float = 0.0, plans: bool = False) -> Outcome:
    """Run a story of either kind; ``quiet`` and ``plans`` as for ``simulate``.

    The trace of whole clusters always has the plans, since a rule looks for secrets in them.
    """
    if is_whole(story):
        return whole.run(story, plot, quiet=quiet)
    return simulate(story, plot, quiet=quiet, plans=plans)


def fit(story: Story, plot: Plot) -> Plot:
    """A random plot without the faults that worlds of this story do not have."""
    if not is_whole(story):
        return plot
    left = tuple(each for each in plot.schedule.faults if each.word not in NODE_FAULTS)
    return replace(plot, schedule=Schedule(left))
