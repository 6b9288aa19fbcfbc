"""What a story is: what users do, how the world must look in the end, and the realm in which it happens.

Theory.      A story has three parts. ``before`` makes the world that it begins with, without faults. ``act``
             is what users do; from then on writes are counted and faults injected. ``end`` is what must
             become true, and stay true. A realm is an API with what its worlds have beside machines, the
             rules that judge them, and the rounds in which they are disturbed. Machines, clusters and nested
             control planes are realms of one language: one journal, one table of rules, one runner, one
             explorer, one report.
Called by    ``run``, and every table of stories.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kubewright.api.kinds import Kind
from kubewright.providers.sim.spec import KubeletSettings
from simulation.person import Person
from simulation.rules import Rule
from simulation.rules.past import Memory
from simulation.rules.table import OF_MACHINES
from simulation.world import World

Part = Callable[[Person], Awaitable[None]]
End = Callable[[Person], bool]
Hook = Callable[[World], None]
ALL_ROUNDS = (
    "crash",
    "await",
    "double",
    "late",
    "stale",
    "unobserved",
    "leader",
    "frozen",
    "half",
    "apart",
)
"""As ``crashes.ROUNDS``."""


def as_it_is(_world: World) -> None:
    """Nothing is added to a world."""


@dataclass(frozen=True, slots=True)
class Realm:
    """An API that stories are about.

    ``install``   adds it to a world before anything runs there
    ``rules``     what must be true of its worlds; ``memories`` is what these remember beside ``rules.Past``
    ``rounds``    in which ways its stories are disturbed (``crashes.ROUNDS``)
    ``plans``     the trace always has the plans, since a rule looks for secrets in them
    ``harmed``    a seed may draw faults of its nodes; in other realms stories do the harm
    ``apart``     nodes may have a cluster of their own
    """

    name: str
    install: Hook = as_it_is
    rules: tuple[Rule, ...] = OF_MACHINES
    memories: tuple[type[Memory], ...] = ()
    rounds: tuple[str, ...] = ALL_ROUNDS
    plans: bool = False
    harmed: bool = True
    apart: bool = True


MACHINES = Realm("machines")


# ---------------------------------------------------------------- what users do, as values


def then(*parts: Part) -> Part:
    """One after another; none: nothing happens."""

    async def part(person: Person) -> None:
        for each in parts:
            await each(person)

    return part


nothing = then()


def wait(seconds: float) -> Part:
    """Let time pass."""
    return lambda person: person.wait(seconds)


def until(met: End, what: str, seconds: float = 3600.0) -> Part:
    """Wait for something, no longer than so long."""
    return lambda person: person.until(lambda: met(person), what, seconds=seconds)


def make(kind: Kind[Any], name: str, **body: Any) -> Part:
    """Create an object."""
    return lambda person: person.make(kind, name, **body)


def patch(kind: Kind[Any], name: str, body: Mapping[str, Any], subresource: str = "") -> Part:
    """Patch an object."""
    return lambda person: person.patch(kind, name, body, subresource)


def remove(kind: Kind[Any], name: str, propagation: str = "") -> Part:
    """Delete an object."""
    return lambda person: person.remove(kind, name, propagation=propagation)


def expected(met: End, what: str) -> Part:
    """Something must be so now (``expect``)."""

    async def part(person: Person) -> None:
        expect(person, met(person), what)

    return part


def expect(person: Person, met: bool, what: str) -> None:
    """If something that must be so is not, the story fails; ``what`` says in the journal what it is."""
    if not met and not person.broken:
        person.broken = f"it is not so that {what}"
        person.world.journal.say("person", person.broken)


@dataclass(frozen=True, slots=True)
class Story:
    """One row."""

    name: str
    act: Part | Sequence[Part]
    end: End
    before: Part | Sequence[Part] = nothing
    kubelets: KubeletSettings | None = None
    """How the kubelets behave; None: as they do by default, and every pod ends within a second."""
    joins: bool = True
    """VMs join a cluster as its nodes; if not, managers run as with ``--target-kubeconfig none``."""
    realm: Realm = MACHINES

    async def begin(self, person: Person) -> None:
        """Make the world that it begins with."""
        await _whole(self.before)(person)

    async def tell(self, person: Person) -> None:
        """Do what users do."""
        await _whole(self.act)(person)


def _whole(part: Part | Sequence[Part]) -> Part:
    return part if callable(part) else then(*part)


SLOW_PODS = KubeletSettings(pod_stop_seconds=3600)
"""Pods take all of their grace to end."""
