"""Scenes of a deployment, of things: its sets and their members in the caches, and what the look must say."""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

from msgspec import structs

from kubewright.api.meta import LabelSelector, OwnerReference
from kubewright.kube.header import Header
from kubewright.replicas.deployment.look import look as look_at
from kubewright.replicas.deployment.seen import Seen
from kubewright.replicas.members import MemberIndex
from kubewright.replicas.objects import WITHOUT_CONTROLLER, Member, NotCreated, namespace_if_uncontrolled
from kubewright.rollout.progress import Counts
from kubewright.testing.clocks import BEGIN
from kubewright.testing.looks import Look, Scene, Shelf
from kubewright.wire.errors import Forbidden

from ..replicas.things import GROUP, POLICY, SETS, THINGS, Thing, ThingSet, but, deployment, thing_set
from .of_sets import Them

KEEPS = but(POLICY, keeps_controlled=True, look=lambda _deployment: "around")
COUNTS = Counts(3, 2, 1)


def owned(of: ThingSet, by: str = "d-uid", **labels: str) -> ThingSet:
    ref = OwnerReference(api_version=f"{GROUP}/v1", kind="ThingDeployment", name="d", uid=by, controller=True)
    meta = structs.replace(of.metadata, owner_references=(ref,), labels={**of.metadata.labels, **labels})
    return structs.replace(of, metadata=meta)


def going(of: ThingSet) -> ThingSet:
    return structs.replace(
        of, metadata=structs.replace(of.metadata, deletion_timestamp=BEGIN, finalizers=("f",))
    )


def thing(name: str, of: str) -> Thing:
    ref = OwnerReference(
        api_version=f"{GROUP}/v1", kind="ThingSet", name=of, uid=f"{of}-uid", controller=True
    )
    return Thing(
        metadata=structs.replace(deployment().metadata, name=name, uid=name, owner_references=(ref,))
    )


def fact(header: Header, _thing: Thing | None) -> Member:
    return Member(header.key, header.uid, header.owner_uid, header.labels, header.deleting)


def scene(
    written: Any,
    *sets: ThingSet,
    things: tuple[Thing, ...] = (),
    broken: str = "",
    doubts: tuple[tuple[str, str], ...] = (),
    policy: Any = POLICY,
    at: float = 0,
    ahead: float = 0,
    **remembered: Any,
) -> Callable[[], Awaitable[Seen[Any, Any, Any]]]:
    async def look() -> Seen[Any, Any, Any]:
        shelf = Shelf()
        in_cache = shelf.caches.get(SETS)
        in_cache.index(WITHOUT_CONTROLLER, namespace_if_uncontrolled)
        index = MemberIndex(shelf.caches.get(THINGS), fact, shelf.client.steady())
        await shelf.put(SETS, *sets)
        await shelf.put(THINGS, *things)
        for owner, name in doubts:
            index.creations.creating(owner, name, 0.0)
        index.time()
        shelf.clock.passed, shelf.clock.ahead = at, ahead
        return look_at(policy, written, in_cache, index, wall=shelf.clock.now(), **remembered)

    return look


OLD, NEW = owned(thing_set("old", 1, 1)), owned(thing_set("new", 2, 2))
STRAY = owned(thing_set("stray", 1, 1), app="other")
ORPHAN = thing_set("orphan", 1, 1)
REFUSED = NotCreated(NEW, Forbidden("no"))
LOOK = Look(
    "replicas.deployment.look",
    Seen,
    (
        Scene(
            "nothing else is there",
            scene(deployment()),
            {"policy": POLICY, "written": deployment(), "wall": BEGIN, "now": BEGIN.timestamp(), "sets": ()}
            | {"unselected": (), "orphans": (), "members": {}, "doubted": {}, "reported": None, "best": None}
            | {"selector_problem": "", "around": None, "in_doubt": False, "not_created": None},
        ),
        Scene(
            "its sets, one that it does not select any more, and orphans",
            scene(
                deployment(),
                *(NEW, OLD, STRAY, ORPHAN, owned(thing_set("other", 1, 1), by="another")),
                going(thing_set("going", 1, 1)),
                structs.replace(
                    ORPHAN, metadata=structs.replace(ORPHAN.metadata, name="o", labels={"app": "x"})
                ),
                things=(thing("b", "new"), thing("a", "new"), thing("c", "old"), thing("s", "stray")),
                doubts=(("new-uid", "a"), ("new-uid", "unseen"), ("old-uid", "d"), ("old-uid", "e")),
            ),
            {"sets": Them("d-new", "d-old"), "unselected": Them("d-stray"), "orphans": Them("d-orphan")}
            | {
                "members": {
                    "new-uid": Them("a", "b"),
                    "old-uid": Them("c"),
                    "stray-uid": Them("s"),
                },
                "doubted": {"new-uid": 1, "old-uid": 2, "stray-uid": 0},
            },
        ),
        Scene(
            "the same where a deployment keeps what it controls",
            scene(
                deployment(image="next"),
                NEW,
                STRAY,
                policy=KEEPS,
                at=30,
                ahead=3600,
                reported=7.0,
                best=COUNTS,
            ),
            {"policy": KEEPS, "written": deployment(image="next"), "sets": Them("d-new", "d-stray")}
            | {"unselected": (), "around": "around", "reported": 7.0, "best": COUNTS}
            | {"wall": BEGIN + timedelta(seconds=3630), "now": BEGIN.timestamp() + 30},
        ),
        Scene(
            "it is being deleted: all that it controls go with it",
            scene(deployment(meta={"deletion_timestamp": BEGIN}), NEW, STRAY),
            {"sets": Them("d-new", "d-stray"), "unselected": ()},
        ),
        Scene(
            "what came of its last write is not known yet",
            scene(deployment(), in_doubt=True, not_created=REFUSED),
            {"in_doubt": True, "not_created": REFUSED},
        ),
        Scene(
            "its selector does not select its template",
            scene(
                structs.replace(
                    deployment(),
                    spec=structs.replace(
                        deployment().spec, selector=LabelSelector(match_labels={"app": "b"})
                    ),
                )
            ),
            {"selector_problem": "spec.selector: does not match the labels of spec.template"},
        ),
    ),
)
