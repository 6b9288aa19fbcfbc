"""All stories that the command line can run, and how each kind of them is run.

Theory.      Most stories are about machines of ``machine.sapcloud.io``, and ``simulate`` runs them as they
             are. Those of whole clusters (``clusterapi.whole``) and of nested control planes
             (``controlplanes``) need other worlds and rules of their own. A name says of which kind a story
             is, so a replay needs no more than it.
Invariants.  No name is in two tables. A world of whole clusters goes the same way each time, but its traces
             differ in the hashes of Secrets: keys are not drawn by the seed. A random world of whole
             clusters has no faults of nodes, which are harmed only by the stories that are about that. One of
             control planes has neither nodes nor a cluster for them; nor has one whose VMs join no cluster.
Called by    ``campaign``, ``search``, ``__main__`` and tests.
"""

from dataclasses import replace

from kubewright.base.errors import InvalidInput
from simulation import stories
from simulation.clusterapi.whole import stories as whole
from simulation.controlplanes import stories as planes
from simulation.run import Outcome, simulate
from simulation.schedule import NODE_FAULTS, TARGET_FAULTS, Schedule
from simulation.stories import Story
from simulation.world import Plot

MACHINES: tuple[Story, ...] = stories.STORIES
WHOLE_CLUSTERS: tuple[Story, ...] = tuple(whole.STORIES)
CONTROL_PLANES: tuple[Story, ...] = planes.ALL
_TABLES = (stories.BY_NAME, whole.BY_NAME, planes.BY_NAME)


def story_named(name: str) -> Story:
    """The story of this name.

    Raises:
        InvalidInput: there is none; the message names all.
    """
    found = next((table[name] for table in _TABLES if name in table), None)
    if found is None:
        names = ", ".join(each for table in _TABLES for each in table)
        raise InvalidInput(f"no story {name!r}; there are {names}")
    return found


def is_of_machines(story: Story) -> bool:
    """Whether a story is about machines, and needs no other world."""
    return story.name in stories.BY_NAME


def run(story: Story, plot: Plot, *, quiet: float = 0.0, plans: bool = False) -> Outcome:
    """Run a story of any kind; ``quiet`` and ``plans`` as for ``simulate``.

    The trace of whole clusters always has the plans, since a rule looks for secrets in them.
    """
    if story.name in whole.BY_NAME:
        return whole.run(story, plot, quiet=quiet)
    if story.name in planes.BY_NAME:
        return planes.run(story, plot, quiet=quiet, plans=plans)
    return simulate(story, plot, quiet=quiet, plans=plans)


def fit(story: Story, plot: Plot) -> Plot:
    """A random plot without the faults that worlds of this story do not have."""
    has_target = story.joins and story.name not in planes.BY_NAME
    if has_target and story.name not in whole.BY_NAME:
        return plot
    absent = NODE_FAULTS if has_target else NODE_FAULTS | TARGET_FAULTS
    left = tuple(each for each in plot.schedule.faults if each.word not in absent)
    return replace(plot, schedule=Schedule(left), apart=plot.apart and has_target)
