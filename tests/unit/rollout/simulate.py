"""A planner among its neighbours: played to a fixpoint, in any order, with a story of every round.

Theory.      A rollout is a conversation between the planner, the groups' controllers and the
             machines, and no one waits for a turn. The simulation plays rounds; in each, every
             actor moves once, in the order that ``chance`` shuffles (none: a fixed order, in which
             all machines move at once). After each move the caller's rules are checked.
Invariants.  A round in which no actor moved and none could is the end. The story is the same for
             the same world and seed; it is what golden files keep and what a preview prints.
Called by    test_rollout_simulation.py.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from operator import attrgetter
from typing import Any, Protocol

from kubewright.rollout.model import Create, Fleet, Freeze, Group, Rank, Resize, Sizes, describe
from kubewright.rollout.revisions import next_revision

RUNNING, PENDING, FAILED = 6, 4, 1


class Chance(Protocol):
    """What is asked of ``random.Random``: the caller owns seed and generator."""

    def random(self) -> float: ...

    def shuffle(self, x: list[Any]) -> None: ...


@dataclass(frozen=True, slots=True)
class Facts:
    """What decides when a machine is deleted: the smallest ``rank`` goes first."""

    name: str
    created: float
    priority: int
    stage: int

    @property
    def rank(self) -> Rank:
        return (self.priority, self.stage, self.created, self.name)


@dataclass(slots=True)
class Actor:
    """One machine of the play. A ``broken`` one never becomes available."""

    facts: Facts
    terminating: bool = False
    broken: bool = False

    @property
    def available(self) -> bool:
        return self.facts.stage == RUNNING and not self.terminating


@dataclass(slots=True)
class Cast:
    """One group of the play and its machines."""

    group: Group
    template: str
    machines: list[Actor] = field(default_factory=list)

    def seen(self) -> Group:
        """The group as a planner sees it at this moment."""
        alive = sorted((m.facts for m in self.machines if not m.terminating), key=attrgetter("rank"))
        line = tuple(facts.stage == RUNNING for facts in alive)
        return replace(self.group, availability=line, terminating=len(self.machines) - len(line))


Rule = Callable[[Fleet], str]
"""A rule answers what is wrong, or an empty string."""


class Broken(AssertionError):
    """A rule did not hold, or the play did not end; the message holds the story so far."""


@dataclass(slots=True)
class World:
    """A fleet and all that acts on it. ``template`` is what the fleet wants now."""

    name: str
    replicas: int
    template: str
    casts: list[Cast] = field(default_factory=list)
    paused: bool = False
    created: int = 0

    def fleet(self) -> Fleet:
        groups = [(cast.seen(), cast.template) for cast in self.casts]
        current = next((group for group, template in groups if template == self.template), None)
        return Fleet(
            self.name, self.replicas, current, tuple(g for g, _ in groups if g is not current), self.paused
        )

    def add(self, template: str, size: int, machines: Sequence[Actor] | None = None) -> Cast:
        """A group with ``size`` running machines, or the given ones."""
        group = Group(f"ms-{template}", created=float(len(self.casts)), size=size, desired=self.replicas)
        self.casts.append(cast := Cast(group, template))
        cast.machines = (
            list(machines) if machines is not None else [self.machine(RUNNING) for _ in range(size)]
        )
        return cast

    def machine(self, stage: int = PENDING, priority: int = 3, *, broken: bool = False) -> Actor:
        self.created += 1
        facts = Facts(f"m{self.created:03}", float(self.created), priority, stage)
        return Actor(facts, broken=broken)

    def carry_out(self, plan: Sizes) -> bool:
        """Apply a plan to the groups; True when anything changed. The current group is never frozen."""
        freed = [cast for cast in self.casts if cast.template == self.template and cast.group.frozen]
        for cast in freed:
            cast.group = replace(cast.group, frozen=False)
        for intent in plan.intents:
            match intent:
                case Create(size, _):
                    number = next_revision(cast.group for cast in self.casts)
                    self.add(self.template, size, ())
                    self._mark(self.casts[-1], plan, size)
                    self.casts[-1].group = replace(self.casts[-1].group, revision=number)
                case Resize(name, _, size, _, complete=True):
                    self._mark(self._cast(name), plan, size)
                case Resize(name, _, size, _):
                    self._cast(name).group = replace(self._cast(name).group, size=size)
                case Freeze(name, _):
                    self._cast(name).group = replace(self._cast(name).group, frozen=True)
        for name in plan.to_annotate:
            self._mark(self._cast(name), plan, self._cast(name).group.size)
        return bool(freed) or not plan.idle

    def _cast(self, name: str) -> Cast:
        return next(cast for cast in self.casts if cast.group.name == name)

    def _mark(self, cast: Cast, plan: Sizes, size: int) -> None:
        cast.group = replace(cast.group, size=size, desired=plan.desired, ceiling=plan.ceiling)

    def act_set(self, cast: Cast) -> bool:
        """A group's controller: one pass of making or deleting machines."""
        alive = sorted((m.facts for m in cast.machines if not m.terminating), key=attrgetter("rank"))
        missing = cast.group.size - len(alive)
        if missing > 0 and not cast.group.frozen:
            cast.machines += [self.machine() for _ in range(missing)]
        victims = {facts.name for facts in alive[: max(0, -missing)]}
        for machine in cast.machines:
            machine.terminating = machine.terminating or machine.facts.name in victims
        return bool(victims) or (missing > 0 and not cast.group.frozen)

    def act_machines(self, chance: Chance | None) -> bool:
        """Machines boot and vanish; with chance, only some of those that could."""
        could = False
        for cast in self.casts:
            for machine in list(cast.machines):
                waiting = machine.terminating or (machine.facts.stage == PENDING and not machine.broken)
                could = could or waiting
                if not waiting or (chance is not None and chance.random() < 0.5):
                    continue
                if machine.terminating:
                    cast.machines.remove(machine)
                else:
                    machine.facts = replace(machine.facts, stage=RUNNING)
        return could


def simulate(
    world: World,
    planner: Callable[[Fleet], Sizes],
    chance: Chance | None = None,
    *,
    always: Sequence[Rule] = (),
    at_most: int = 400,
) -> list[str]:
    """Play until no actor moves; the answer is the story.

    Raises:
        Broken: a rule of ``always`` was hurt, or ``at_most`` rounds did not end it.
    """
    story = [_line(0, world)]
    for number in range(1, at_most + 1):
        plans: list[Sizes] = []
        moved = False
        for move in _moves(world, planner, chance, plans):
            moved = move() or moved
            if wrongs := [wrong for rule in always if (wrong := rule(world.fleet()))]:
                raise Broken("\n".join([*story, _line(number, world, *plans[:1]), *wrongs]))
        if not moved:
            return story
        story.append(_line(number, world, plans[0]))
    raise Broken(f"no end after {at_most} rounds\n" + "\n".join(story[-20:]))


def _moves(
    world: World, planner: Callable[[Fleet], Sizes], chance: Chance | None, plans: list[Sizes]
) -> list[Callable[[], bool]]:
    """Every actor's move of one round; the planner's plan is left in ``plans``."""

    def decide() -> bool:
        plans.append(planner(world.fleet()))
        return world.carry_out(plans[0])

    moves: list[Callable[[], bool]] = [decide]
    moves += [partial(world.act_set, cast) for cast in world.casts]
    moves.append(partial(world.act_machines, chance))
    if chance is not None:
        chance.shuffle(moves)
    return moves


def _line(number: int, world: World, plan: Sizes | None = None) -> str:
    groups = [cast.seen() for cast in world.casts]
    sizes = "  ".join(
        f"{group.name} {group.available}/{group.size}"
        + (f" (+{group.terminating} terminating)" if group.terminating else "")
        for group in groups
    )
    told = [describe(intent) for intent in (plan.intents if plan else ())]
    return f"{number:3}  {sizes}" + "".join(f"\n       {text}" for text in told)
