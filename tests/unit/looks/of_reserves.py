"""Scenes of a CapacityReserve: what the caches of both clusters hold, and what the look must say of it."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

from kubewright.reserves.act import Caches, Reserves
from kubewright.reserves.seen import Seen
from kubewright.reserves.sizing import Pool
from kubewright.testing.clocks import BEGIN
from kubewright.testing.looks import Look, Named, Scene

from . import reserves
from .planes import Planes, There
from .reserves import a_class, a_node, a_reserve, placed


def scene(of: There, *there: There, at: float = 0, image: str = "pause") -> Callable[[], Awaitable[Seen]]:
    async def look() -> Seen:
        shelf = Planes()
        settings = replace(reserves.SETTINGS, image=image)
        reconciler = Reserves(shelf.environment, Caches(shelf.environment), settings)
        await shelf.holds(*there)
        shelf.clock.passed = at
        return await reconciler.look(of[1])

    return look


FOUND = a_reserve()
LOOK = Look(
    "reserves.act",
    Seen,
    (
        Scene(
            "a reserve without anything",
            scene(FOUND),
            {"reserve": FOUND[1], "now": BEGIN, "image": "pause", "problem": "", "pool": Pool()}
            | {"found": None, "classes": {}, "taken": False},
        ),
        Scene(
            "with its pool, of which one node is not Ready, and what stands for it",
            scene(
                a_reserve(generation=2), a_node("b", "2"), a_node("a"), a_node("c", ready="False"), placed(),
                a_class(), at=60, image="other",
            ),
            {"reserve": Named("spare"), "now": BEGIN + timedelta(seconds=60), "image": "other"}
            | {"pool": Pool(({"cpu": Decimal(4)}, {"cpu": Decimal(2)}))}
            | {"found": Named(reserves.DEPLOYMENT_NAME), "classes": {reserves.CLASS_NAME: "c"}},
        ),
        Scene(
            "it breaks a rule",
            scene(a_reserve({"unit": {"cpu": "1"}, "replicas": -1})),
            {"problem": "spec.replicas: Invalid value: -1: must not be negative"},
        ),
        Scene(
            "a PriorityClass of its name is another's",
            scene(FOUND, a_class("x")),
            {"taken": True, "classes": {}},
        ),
        Scene(
            "a PriorityClass of a former priority is its own, too",
            scene(FOUND, a_class(), a_class(name=f"{reserves.DEPLOYMENT_NAME}.minus-7")),
            {"taken": False}
            | {"classes": {reserves.CLASS_NAME: "c", f"{reserves.DEPLOYMENT_NAME}.minus-7": "c"}},
        ),
        Scene("a Deployment of its name is seen, whose it is", scene(FOUND, placed(uid="x")),
              {"found": Named(reserves.DEPLOYMENT_NAME)}),
    ),
    given={"refused": "the pass adds it, after the writes"},
)  # fmt: skip
