"""Scenes of a set, of the simulator's toys: its members in the cache, and what the look must say of them."""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from random import Random
from typing import Any

from msgspec import structs

from kubewright.api.meta import LabelSelector, ObjectMeta, OwnerReference
from kubewright.base.plan import Awaited
from kubewright.replicas.members import MemberIndex
from kubewright.replicas.objects import SPACE, letters
from kubewright.replicas.set.look import Looker, Memory
from kubewright.replicas.set.seen import BURST, Seen, SetPolicy, Wait
from kubewright.testing.clocks import BEGIN
from kubewright.testing.looks import Look, Scene, Shelf
from simulation.toys.kinds import (
    TOY,
    TOY_DEPLOYMENT,
    Toy,
    ToyDeployment,
    ToyDeploymentSpec,
    ToySet,
    ToySetSpec,
    ToyTemplate,
)
from simulation.toys.policy import DESIRED, NO_CREATION, NUMBER, TOY_SETS, read

from ..replicas.things import but

LABELS = {"app": "a"}
RANDOM = but(TOY_SETS, number_annotation="", keeps_controlled=True, look=lambda _set: "around")
CONTROLLER = OwnerReference(
    api_version="toys.example.com/v1", kind="ToyDeployment", name="d", uid="d", controller=True
)


def toy_set(*, matches: dict[str, str] = LABELS, replicas: int = 3, **annotations: str) -> ToySet:
    notes = {key.replace("_", "-"): value for key, value in annotations.items()}
    meta = ObjectMeta(
        name="s", namespace="n", uid="s", owner_references=(CONTROLLER,), annotations=notes, labels=LABELS
    )
    template = ToyTemplate(metadata=ObjectMeta(labels=LABELS))
    spec = ToySetSpec(replicas=replicas, selector=LabelSelector(match_labels=matches), template=template)
    return ToySet(metadata=meta, spec=spec)


def noted(of: ToySet, **notes: str) -> ToySet:
    return structs.replace(of, metadata=structs.replace(of.metadata, annotations=notes))


def toy(name: str, *, owner: str = "s", app: str = "a", deleted: bool = False) -> Toy:
    ref = OwnerReference(
        api_version="toys.example.com/v1", kind="ToySet", name=owner, uid=owner, controller=True
    )
    meta = ObjectMeta(
        name=name,
        namespace="n",
        uid=f"uid-{name}",
        labels={"app": app},
        owner_references=(ref,) if owner else (),
        finalizers=("f",),
        deletion_timestamp=BEGIN if deleted else None,
    )
    return Toy(metadata=meta)


def numbered(number: int) -> Toy:
    made = toy(f"s-{letters('s', number)}")
    return structs.replace(made, metadata=structs.replace(made.metadata, annotations={NUMBER: str(number)}))


def deployment(replicas: int) -> ToyDeployment:
    meta = ObjectMeta(name="d", namespace="n", uid="d")
    return ToyDeployment(metadata=meta, spec=ToyDeploymentSpec(replicas=replicas))


class Sets(Shelf):
    """The caches of toys and of their deployments, and the looker of sets."""

    def __init__(self, policy: SetPolicy[Any, Any, Any] = TOY_SETS) -> None:
        super().__init__()
        self.index = MemberIndex(self.caches.get(TOY), read, self.client.steady())
        self.memory = Memory()
        self.looker = Looker(policy, self.index, self.caches.get(TOY_DEPLOYMENT), self.clock)


class Them:
    """Equals members of these names, in this order."""

    def __init__(self, *names: str) -> None:
        self.names = names

    def __eq__(self, other: object) -> bool:
        return isinstance(other, tuple) and tuple(each.name for each in other) == self.names

    def __hash__(self) -> int:
        return hash(self.names)

    def __repr__(self) -> str:
        return f"{self.names}"


def scene(
    found: ToySet,
    *toys: Toy,
    before: Callable[[Sets], object] = lambda _sets: None,
    pause: Wait | None = None,
    policy: SetPolicy[Any, Any, Any] = TOY_SETS,
) -> Callable[[], Awaitable[Seen[Any, Any]]]:
    async def look() -> Seen[Any, Any]:
        sets = Sets(policy)
        await sets.put(TOY, *toys)
        before(sets)
        return sets.looker.look(found, sets.memory, pause)

    return look


def _remembers(sets: Sets) -> None:
    sets.clock.passed, sets.clock.ahead = 60, 3600
    sets.memory.belongs_to_another("s-taken")
    sets.index.creations.creating("s", "s-new", 0.0)


PAUSE = Wait("it waits", 3.0)
LOOK = Look(
    "replicas.set.look",
    Seen,
    (
        Scene(
            "a set without members",
            scene(toy_set()),
            {"policy": TOY_SETS, "set": toy_set(), "now": BEGIN.timestamp(), "wall": BEGIN, "members": ()}
            | {
                "unselected": (),
                "orphans": (),
                "problem": "",
                "doubts": (),
                "taken": frozenset(),
                "pause": None,
            }
            | {"blocked": None, "number": 0, "around": None},
        ),
        Scene(
            "members, those that it does not select any more, and orphans",
            scene(
                toy_set(replicas=1),
                toy("b"),
                toy("a", deleted=True),
                toy("c", app="other"),
                toy("d", owner=""),
                toy("e", owner="", app="other"),
                toy("f", owner="", deleted=True),
                toy("g", owner="another"),
            ),
            {
                "set": toy_set(replicas=1),
                "members": Them("a", "b"),
                "unselected": Them("c"),
                "orphans": Them("d"),
            },
        ),
        Scene(
            "the same where a set keeps what it controls, and does not number its members",
            scene(toy_set(), toy("b"), toy("c", app="other"), policy=RANDOM),
            {"policy": RANDOM, "members": Them("b", "c"), "unselected": ()}
            | {"around": "around", "number": Random(0).randrange(SPACE)},
        ),
        Scene(
            "a member with a number",
            scene(toy_set(), numbered(5), numbered(4)),
            {"number": 5, "members": Them(*sorted(f"s-{letters('s', number)}" for number in (4, 5)))},
        ),
        Scene(
            "what this process remembers of it",
            scene(toy_set(), before=_remembers, pause=PAUSE),
            {"taken": frozenset(("s-taken",)), "doubts": ("s-new",), "pause": PAUSE}
            | {"wall": BEGIN + timedelta(seconds=3660), "now": BEGIN.timestamp() + 3660},
        ),
        Scene(
            "its selector does not select its template",
            scene(toy_set(matches={"app": "b"})),
            {"problem": "spec.selector: does not match the labels of spec.template"},
        ),
        Scene(
            "its deployment holds it",
            scene(noted(toy_set(), **{NO_CREATION: "true"})),
            {"blocked": Wait("its deployment holds it")},
        ),
    ),
    given={"burst": f"a constant, {BURST}, which only tests of decisions change"},
)


async def contradicted(sized_for: int, wanted: int, *after: float) -> list[Wait | None]:
    """Why the set pauses at each of these moments, sized for one number while its deployment wants another."""
    sets, pauses = Sets(), []
    await sets.put(TOY_DEPLOYMENT, deployment(wanted))
    found = noted(toy_set(), **{DESIRED: str(sized_for)})
    for moment in after:
        sets.clock.passed = moment
        pauses.append(sets.looker.pause(found, sets.memory))
    return pauses


SIZED = Awaited("its deployment to size it", "see the events of the deployment")
WAITS = "it waits for a new size: its own was computed for 3 toys, its deployment wants 5"


def waits(seconds: float) -> Wait:
    return Wait(WAITS, seconds, SIZED)
