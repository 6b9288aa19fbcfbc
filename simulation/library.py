"""All stories that the command line can run.

Theory.      A story names its realm, and so how its worlds are made and judged; a replay needs no more than
             the name of the story.
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
from simulation.schedule import NODE_FAULTS, TARGET_FAULTS, Schedule
from simulation.story import Story
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


def fit(story: Story, plot: Plot) -> Plot:
    """A random plot without the faults that worlds of this story do not have."""
    has_target = story.joins and story.realm.apart
    if has_target and story.realm.harmed:
        return plot
    absent = NODE_FAULTS if has_target else NODE_FAULTS | TARGET_FAULTS
    left = tuple(each for each in plot.schedule.faults if each.word not in absent)
    return replace(plot, schedule=Schedule(left), apart=plot.apart and has_target)
