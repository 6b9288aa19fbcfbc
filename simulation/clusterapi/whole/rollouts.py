"""Stories of workers that are scaled and rolled, within the bounds of each strategy.

Called by    ``stories``.
"""

from kubewright.api.cluster import names
from kubewright.api.cluster.v1beta1 import MACHINE, MACHINE_DEPLOYMENT
from simulation.clusterapi.whole import acts
from simulation.clusterapi.whole.acts import NEW, OLD, cluster, running, story, workers
from simulation.person import Person
from simulation.rules.facts import name_of, runs
from simulation.story import End, Part, Story, expect, patch, then, until, wait


def bounds(surge: int | str, unavailable: int | str) -> dict[str, object]:
    """A rolling update with these bounds."""
    return {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}


scale = then(acts.scale(3), until(running(3), "three workers", acts.PATIENCE), acts.scale(1))
"""Up, and then down."""


async def scale_and_roll(person: Person) -> None:
    """Four workers of another version, where there were three: both in one write."""
    template = {"spec": {"version": NEW}}
    await person.patch(MACHINE_DEPLOYMENT, "md", {"spec": {"replicas": 4, "template": template}})


roll_and_scale = then(acts.roll, wait(2.0), acts.scale(4))
"""A fourth worker while three are rolled."""


roll_back = then(
    acts.roll,
    wait(1.0),
    patch(MACHINE_DEPLOYMENT, "md", {"spec": {"template": {"spec": {"version": OLD}}}}),
)
"""Another version, and before it is everywhere the first one again."""


async def delete_one_of_old(person: Person) -> None:
    """Nothing is replaced until a user deletes it; then its successor has the new version."""
    await acts.roll(person)
    before = [name_of(each) for each in workers(person)]
    await person.wait(30.0)
    expect(person, [name_of(each) for each in workers(person)] == before, "no machine is replaced yet")
    person.victim = before[0]
    await acts.delete_machine(before[0])(person)


def versions(*wanted: str) -> End:
    """Workers of these versions run, and nothing else."""

    def end(person: Person) -> bool:
        found = sorted(str(each["spec"]["version"]) for each in workers(person))
        there = len(person.world.journal.vms) == len(wanted) + 1
        return found == sorted(wanted) and there and all(map(runs, acts.machines(person)))

    return lambda person: end(person) and not person.broken


async def mark_one(person: Person) -> None:
    """One fewer, and a user says which."""
    person.victim = name_of(workers(person)[1])
    await acts.annotate(person.victim, names.DELETE_MACHINE_ANNOTATION)(person)
    await acts.scale(1)(person)


async def relabel(person: Person) -> None:
    """One label more, in the selector and in the template: no machine is replaced for that."""
    remember(person)
    labels = {names.DEPLOYMENT_NAME_LABEL: "md", "tier": "new"}
    spec = {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}}}
    await person.patch(MACHINE_DEPLOYMENT, "md", {"spec": spec})
    await person.wait(20.0)


async def take_hash_off(person: Person) -> None:
    """A user takes the label off by which a set selects its machine: it is the set's all the same."""
    remember(person)
    off = {"metadata": {"labels": {names.TEMPLATE_HASH_LABEL: None}}}
    await person.patch(MACHINE, person.victim.split()[0], off)
    await person.wait(20.0)


def remember(person: Person) -> None:
    """Let the story be about the workers that there are."""
    person.victim = " ".join(map(name_of, workers(person)))


def the_same(wanted: int, label: str) -> End:
    """The same workers run as were remembered, and have this label."""

    def end(person: Person) -> bool:
        found = workers(person)
        labelled = all(label in each["metadata"].get("labels", {}) for each in found)
        same = " ".join(map(name_of, found)) == person.victim
        return labelled and same and running(wanted)(person)

    return end


def _rolled(name: str, surge: int | str, unavailable: int | str, act: Part = scale_and_roll) -> Story:
    return story(name, act, running(4, NEW), before=cluster(3, strategy=bounds(surge, unavailable)))


STORIES = (
    story("scaled", scale, running(1), before=cluster()),
    story("marked", mark_one, acts.replaced(1), before=cluster()),
    story("rolled", acts.roll, running(2, NEW), before=cluster()),
    _rolled("surge-1", 1, 0),
    _rolled("surge-0", 0, 1),
    _rolled("surge-half", "50%", "50%", roll_and_scale),
    story("relabelled", relabel, the_same(4, "tier"), before=cluster(4)),
    story("hash-off", take_hash_off, the_same(2, names.TEMPLATE_HASH_LABEL), before=cluster()),
    story("rolled-back", roll_back, running(2), before=cluster()),
    story(
        "on-delete",
        delete_one_of_old,
        versions(OLD, NEW),
        before=cluster(2, strategy={"type": "OnDelete"}),
    ),
)
