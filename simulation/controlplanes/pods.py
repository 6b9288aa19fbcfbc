"""Stories and rules of control planes whose workloads have Services, as in pods of a Kubernetes.

Called by    ``stories``, which adds the stories to its table; ``rules``.
"""

from collections.abc import Callable, Sequence

from simulation.acts import Part
from simulation.controlplanes import acts
from simulation.controlplanes.acts import ETCD, ORDER, SERVER, nothing_left, serving
from simulation.controlplanes.machine import HostMachine
from simulation.controlplanes.setup import COMPONENTS
from simulation.ends import End
from simulation.invariants import Invariant, Past
from simulation.invariants.facts import both
from simulation.journal import Happening, ProgramStep, Step
from simulation.person import NAMESPACE_NAME, Person
from simulation.stories import Story


async def in_pods(person: Person) -> None:
    """From now on workloads need Services."""
    person.world.part(HostMachine).services.needed = True


async def up(person: Person) -> None:
    """The four, where the load balancer takes its time."""
    await acts.create(person)


async def gone_on_the_way(person: Person) -> None:
    """All is deleted when the Services are there, and before the API server has an address."""
    await acts.create(person)
    made = person.world.part(HostMachine).services.made
    await person.until(lambda: len(made) == 2, "the Services are there", seconds=acts.PATIENCE)
    await acts.delete(person, ORDER)


async def lose_service(person: Person) -> None:
    """The Service of an etcd that runs is deleted; it is made again, and the etcd goes on."""
    await acts.create(person)
    await person.until(lambda: serving()(person), "a control plane", seconds=acts.PATIENCE)
    services = person.world.part(HostMachine).services
    person.world.journal.say("person", "deletes the Service of etcd")
    services.made.pop((NAMESPACE_NAME, acts.name_of(ETCD)))
    await acts.change(person, ETCD, extraArgs={"quota-backend-bytes": "1000000000"})


def served(person: Person) -> bool:
    """All serves, and each workload with clients has its Service."""
    made = person.world.part(HostMachine).services.made
    return serving()(person) and set(made) == {
        (NAMESPACE_NAME, acts.name_of(each)) for each in (ETCD, SERVER)
    }


class ServiceRules:
    """These rules, of one run."""

    def __init__(self, machine: Callable[[], HostMachine]) -> None:
        self._machine = machine

    @property
    def all(self) -> tuple[Invariant, ...]:
        """In the order in which they are judged."""
        return (self.services_come_first, self.no_service_outlives_its_component)

    def services_come_first(self, step: Step, past: Past) -> str:
        """A program with clients starts after its Service was made."""
        del past
        if not isinstance(step, ProgramStep) or step.happening is not Happening.STARTS:
            return ""
        hosted = self._machine().workloads.get((step.namespace, step.workload))
        if hosted is None or not self._machine().services.lacks(hosted.identity):
            return ""
        return f"{step.workload} starts, and has no Service"

    def no_service_outlives_its_component(self, step: Step, past: Past) -> str:
        """A component goes after its Service."""
        del past
        for component, resource in COMPONENTS.items():
            old, new = both(step, resource)
            name = acts.name_of(component)
            gone = old is not None and new is None and old["metadata"]["name"] == name
            if gone and (NAMESPACE_NAME, name) in self._machine().services.made:
                return f"{name} is gone, and its Service is there"
        return ""


def _story(name: str, act: Part, end: End) -> Story:
    return Story(f"control-plane-in-pods-{name}", act, end, before=in_pods)


STORIES: Sequence[Story] = (
    _story("up", up, served),
    _story("gone-on-the-way", gone_on_the_way, nothing_left),
    _story("service-lost", lose_service, served),
)
