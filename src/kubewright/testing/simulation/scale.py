"""Very many machines on virtual time: made, rolled, deleted; what it took, per machine.

Called by    ``__main__``, with ``--scale``.
"""

from collections.abc import Callable
from dataclasses import dataclass

from kubewright.testing.simulation.person import Person
from kubewright.testing.simulation.run import simulate
from kubewright.testing.simulation.stories import Story
from kubewright.testing.simulation.world import Plot

QUARTER = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}}
SECONDS = 36_000.0
"""How much virtual time each act may take."""


@dataclass(frozen=True, slots=True)
class Act:
    """One part of the run: virtual seconds, and writes and requests of the manager per machine."""

    name: str
    seconds: float
    writes: float
    requests: float

    def __str__(self) -> str:
        return f"{self.name:8}{self.seconds:>10.1f} s{self.writes:>8.1f} writes{self.requests:>8.1f} requests"


def run_scale(machines: int, seed: int, told: Callable[[Act], None]) -> tuple[str, ...]:
    """Make so many machines, roll all of them, delete all of them; answers what went wrong."""

    async def act(person: Person) -> None:
        await _Acts(person, machines, told).play()

    story = Story("scale", act, lambda person: person.settled(0))
    return simulate(story, Plot(seed=seed), invariants=(), collect=True).violations


class _Acts:
    """The three acts, and what they cost."""

    def __init__(self, person: Person, machines: int, told: Callable[[Act], None]) -> None:
        self._person = person
        self._machines = machines
        self._told = told
        self._before = (0.0, 0, 0)

    async def play(self) -> None:
        person = self._person
        await person.deploy("pool", self._machines, strategy=QUARTER)
        await self._until("create", self._machines, "small")
        await person.roll("pool", "large")
        await self._until("roll", self._machines, "large")
        await person.delete("pool")
        await self._until("delete", 0)

    async def _until(self, name: str, wanted: int, machine_class: str = "") -> None:
        """Wait for an act's end, and tell what it took."""
        person, counts = self._person, self._person.world.counts
        await person.until(lambda: person.settled(wanted, machine_class), name, seconds=SECONDS)
        now = (person.world.loop.time() - person.world.began, counts.writes, counts.requests)
        seconds, writes, requests = (after - before for after, before in zip(now, self._before, strict=True))
        self._before = now
        self._told(Act(name, seconds, writes / self._machines, requests / self._machines))
