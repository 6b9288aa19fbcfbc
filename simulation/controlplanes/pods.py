"""Stories of control planes whose workloads have Services, as in pods of a Kubernetes.

Called by    ``stories``, which adds them to its table.
"""

from collections.abc import Sequence

from simulation.controlplanes import acts, parts
from simulation.controlplanes.acts import nothing_left, serving
from simulation.controlplanes.machine import HostMachine
from simulation.controlplanes.parts import ETCD, ORDER, SERVER
from simulation.controlplanes.setup import story
from simulation.journal import NAMESPACE_NAME
from simulation.person import Person
from simulation.story import End, Part, Story


async def in_pods(person: Person) -> None:
    """From now on workloads need Services."""
    person.world.part(HostMachine).services.needed = True


up: Part = acts.create()
"""The four, where the load balancer takes its time."""


async def gone_on_the_way(person: Person) -> None:
    """All is deleted when the Services are there, and before the API server has an address."""
    await acts.create()(person)
    made = person.world.part(HostMachine).services.made
    await person.until(lambda: len(made) == 2, "the Services are there", seconds=acts.PATIENCE)
    await acts.delete(ORDER)(person)


async def lose_service(person: Person) -> None:
    """The Service of an etcd that runs is deleted; it is made again, and the etcd goes on."""
    await acts.create()(person)
    await person.until(lambda: serving()(person), "a control plane", seconds=acts.PATIENCE)
    services = person.world.part(HostMachine).services
    person.world.journal.say("person", "deletes the Service of etcd")
    services.made.pop((NAMESPACE_NAME, parts.name_of_part(ETCD)))
    await acts.change(ETCD, extraArgs={"quota-backend-bytes": "1000000000"})(person)


def served(person: Person) -> bool:
    """All serves, and each workload with clients has its Service."""
    made = person.world.part(HostMachine).services.made
    return serving()(person) and set(made) == {
        (NAMESPACE_NAME, parts.name_of_part(each)) for each in (ETCD, SERVER)
    }


def _story(name: str, act: Part, end: End) -> Story:
    return story(f"in-pods-{name}", act, end, in_pods)


STORIES: Sequence[Story] = (
    _story("up", up, served),
    _story("gone-on-the-way", gone_on_the_way, nothing_left),
    _story("service-lost", lose_service, served),
)
