"""Scenes of deployments, of things: what their act writes on them, on their sets and on members, and tells."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import msgspec
from msgspec import structs

from kubewright.api.meta import OwnerReference
from kubewright.base.errors import KubewrightError, first_to_return
from kubewright.base.plan import Plan
from kubewright.kube.errors import Deposed, Disconnected
from kubewright.replicas.deployment import act
from kubewright.replicas.deployment import seen as steps
from kubewright.replicas.deployment.seen import DeploymentPolicy
from kubewright.replicas.members import MemberIndex
from kubewright.replicas.objects import AddFinalizer, Member, NotCreated, RemoveFinalizer
from kubewright.replicas.writes import Stale
from kubewright.runtime.kernel import Outcome
from kubewright.testing.acts import NOT_SERVED, Act, Happened, Scene, Told, happened
from kubewright.testing.looks import Shelf, Write
from kubewright.wire.errors import AlreadyExists, Forbidden, NotFound, ServerError, TooManyRequests
from kubewright.wire.gvk import Key

from ..looks.of_deployments import fact, going, owned, thing
from ..replicas.things import (
    DEPLOYMENTS,
    FINALIZER,
    FINALIZING,
    GROUP,
    POLICY,
    SETS,
    THINGS,
    ThingDeployment,
    ThingSet,
    but,
    deployment,
    seen,
    thing_set,
)

THERE = f"/apis/{GROUP}/v1/namespaces/ns"
DEPLOYMENT, OLD, NEW = f"{THERE}/thingdeployments/d", f"{THERE}/thingsets/d-old", f"{THERE}/thingsets/d-new"
OURS = {
    "apiVersion": f"{GROUP}/v1",
    "kind": "ThingDeployment",
    "name": "d",
    "uid": "d-uid",
    "controller": True,
    "blockOwnerDeletion": True,
}
OTHERS = OwnerReference(api_version="v1", kind="ConfigMap", name="other", uid="other")
COLLISIONS = but(POLICY, metadata_keys=replace(POLICY.metadata_keys, collisions="collisions"))


@dataclass(frozen=True)
class Performed(Happened):
    """What else came of a plan.

    ``asks``      what the process then asks, to learn what came of the last write; nothing: it knows
    ``resolved``  and what it learns: an error, or a set that may still come
    """

    asks: tuple[str, ...] = ()
    resolved: NotCreated | KubewrightError | None = None


Does = Callable[[], Awaitable[tuple[Shelf, Performed]]]
Now = Callable[[Shelf], object]


def in_version(of: Any, version: int) -> Any:
    return structs.replace(of, metadata=structs.replace(of.metadata, resource_version=str(version)))


WRITTEN: ThingDeployment = in_version(deployment(), 101)
A, B = in_version(owned(thing_set("old", 1, 1)), 102), in_version(owned(thing_set("new", 2, 2)), 103)
ORPHAN = in_version(thing_set("old", 1, 1), 102)


def nothing(_shelf: Shelf) -> None:
    """The server is as the caches say."""


def doing(
    *what: steps.Step,
    of: ThingDeployment = WRITTEN,
    sets: tuple[ThingSet, ...] = (A, B),
    now: Now = nothing,
    answers: Mapping[str, KubewrightError] | None = None,
    policy: DeploymentPolicy[Any, Any, Any] = POLICY,
) -> Does:
    """These steps, planned from these caches; ``now``: what has changed since on the server."""

    async def act_() -> tuple[Shelf, Performed]:
        shelf, told = Shelf(), Told()
        shelf.clock.passed = 30
        index = MemberIndex(shelf.caches.get(THINGS), fact, shelf.client.steady())
        of_deployments = act.Deployments(policy, shelf.caches, told, index=index)
        await shelf.put(DEPLOYMENTS, of)
        await shelf.put(SETS, *sets)
        for name in ("a", "b"):
            shelf.lay(THINGS, thing(name, "old"))
        now(shelf)
        shelf.answers |= answers or {}
        found, outcome = seen(of, *sets, policy=policy), Outcome(of.metadata)
        after = await happened(of_deployments.perform(found, Plan(what), outcome), told)
        if outcome.errors and not outcome.shown:
            after = replace(after, error=first_to_return(outcome.errors))
        facts, writes, asked = {**vars(after), "outcome": outcome}, tuple(shelf.writes), len(shelf.asked)
        resolved: Any = None
        try:
            looked = await of_deployments.look(of)
            if (closer := of_deployments.closer(looked, Plan())) is not None:
                resolved = (await closer).not_created
        except KubewrightError as error:
            resolved = error
        shelf.writes[:] = writes
        return shelf, Performed(**facts, asks=tuple(shelf.asked[asked:]), resolved=resolved)

    return act_


def ended(*asks: str, says: str = "", learns: type | None = None) -> Callable[[Shelf, Any], None]:
    """The pass came to its end so; ``says`` its error; ``learns`` what came of the last write."""

    def then(_shelf: Shelf, after: Performed) -> None:
        assert (str(after.error) if after.error is not None else "") == says
        assert after.asks == asks
        assert (type(after.resolved) if after.resolved is not None else None) is learns

    return then


def fails(*asks: str, says: str, learns: type | None = None) -> Callable[[Shelf, Any], None]:
    return ended(*asks, says=says, learns=learns)


def patch(path: str, body: Mapping[str, Any], uid: str, version: str = "") -> Write:
    conditions = {"uid": uid, **({"resourceVersion": version} if version else {})}
    return Write("PATCH", path, {**body, "metadata": {**body.get("metadata", {}), **conditions}})


def of_deployment(body: Mapping[str, Any]) -> Write:
    return patch(DEPLOYMENT, body, "d-uid", "101")


def of_old(body: Mapping[str, Any]) -> Write:
    return patch(OLD, body, "old-uid", "102")


def of_new(body: Mapping[str, Any]) -> Write:
    return patch(NEW, body, "new-uid", "103")


def deletion(path: str, uid: str, version: str) -> Write:
    conditions = {"uid": uid, "resourceVersion": version}
    return Write("DELETE", path, {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": conditions})


def changed(path: str, **meta: Any) -> Now:
    """Since the look this object has become so; the cache does not show it yet."""

    def now(shelf: Shelf) -> None:
        shelf.objects[path]["metadata"] |= meta or {"resourceVersion": "1000"}

    return now


def gone(path: str) -> Now:
    return lambda shelf: shelf.objects.pop(path)


def lays(of: ThingSet) -> Now:
    return lambda shelf: shelf.lay(SETS, of)


def sized(of: Any, size: int) -> Any:
    return structs.replace(of, spec=structs.replace(of.spec, replicas=size))


def finalized(*finalizers: str) -> ThingDeployment:
    return structs.replace(WRITTEN, metadata=structs.replace(WRITTEN.metadata, finalizers=finalizers))


def counting(count: int | None = None, **notes: str) -> ThingDeployment:
    """A deployment whose sets' names were taken so often already."""
    of = structs.replace(WRITTEN, status=structs.replace(WRITTEN.status, collision_count=count))
    return structs.replace(of, metadata=structs.replace(of.metadata, annotations=notes))


def annotating(*names: str) -> steps.AnnotateMembers:
    members = [Member(Key("ns", name), name, "old-uid", {}, False) for name in names]
    return steps.AnnotateMembers(tuple(steps.MemberAnnotations(each, {"k": "v"}) for each in members))


def annotated(name: str) -> Write:
    return patch(f"{THERE}/things/{name}", {"metadata": {"annotations": {"k": "v"}}}, name)


ADD, REMOVE = AddFinalizer(), RemoveFinalizer()
GROW = steps.ChangeSet(B, sized(B, 3))
SHRINK = steps.ChangeSet(A, sized(A, 0))
GROWN, SHRUNK = of_new({"spec": {"replicas": 3}}), of_old({"spec": {"replicas": 0}})
SCALED = steps.RecordEvent("Scaled", "Scaled up")
TOLD = (("d", "Scaled", "Scaled up", False),)
DELETE = steps.DeleteSets((A, B))
DELETED = (deletion(OLD, "old-uid", "102"), deletion(NEW, "new-uid", "103"))
FRESH = owned(thing_set("new", 2, 2))
CREATE = steps.CreateSet(FRESH)
CREATED = Write("POST", f"{THERE}/thingsets", msgspec.json.decode(SETS.encode(FRESH)))
ASK, ASK_AGAIN = f"GET {NEW}", f"POST {THERE}/thingsets"
MESSAGE = 'Failed to create new set of things "d-new": no'
FAILED = ("d", "Create_Error", MESSAGE, True)


def count(number: int) -> Write:
    return replace(of_deployment({"status": {"collisionCount": number}}), path=f"{DEPLOYMENT}/status")


OF_THE_DEPLOYMENT = (
    Scene(
        "its size, in the version that was seen",
        doing(steps.ChangeDeployment(sized(WRITTEN, 5))),
        (steps.ChangeDeployment,),
        (of_deployment({"spec": {"replicas": 5}}),),
        then=ended(),
    ),
    Scene(
        "nothing is written that is so already",
        doing(steps.ChangeDeployment(WRITTEN)),
        (steps.ChangeDeployment,),
    ),
    Scene(
        "its finalizer is added to the others",
        doing(ADD, of=finalized("f"), policy=FINALIZING),
        (AddFinalizer,),
        (of_deployment({"metadata": {"finalizers": ["f", FINALIZER]}}),),
        then=ended(),
    ),
    Scene(
        "its finalizer is taken off, and the others stay",
        doing(REMOVE, of=finalized("f", FINALIZER), policy=FINALIZING),
        (RemoveFinalizer,),
        (of_deployment({"metadata": {"finalizers": ["f"]}}),),
        then=ended(),
    ),
    Scene(
        "its last finalizer is taken off",
        doing(REMOVE, of=finalized(FINALIZER), policy=FINALIZING),
        (RemoveFinalizer,),
        (of_deployment({"metadata": {"finalizers": None}}),),
    ),
    Scene(
        "the finalizer of a deployment that is gone is another look's business",
        doing(REMOVE, of=finalized(FINALIZER), policy=FINALIZING, now=gone(DEPLOYMENT)),
        (RemoveFinalizer,),
        (of_deployment({"metadata": {"finalizers": None}}),),
        error=Stale,
        then=fails(
            f"GET {DEPLOYMENT}",
            says="ThingDeployment d has changed since it was read",
            learns=Stale,
        ),
    ),
    Scene(
        "a warning",
        doing(steps.RecordEvent("SelectingAll", "it selects all", warning=True)),
        (steps.RecordEvent,),
        (),
        (("d", "SelectingAll", "it selects all", True),),
    ),
)

OF_SETS = (
    Scene(
        "sizes go together, each in the version that was seen, and are told after they are written",
        doing(GROW, SHRINK, SCALED),
        (steps.ChangeSet, steps.RecordEvent),
        (GROWN, SHRUNK),
        TOLD,
        then=ended(),
    ),
    Scene(
        "the cache is awaited also while the server does not serve the kind",
        doing(GROW, now=changed(NEW), answers={f"GET {NEW}": NOT_SERVED}),
        (steps.ChangeSet,),
        (GROWN,),
        error=Stale,
        then=fails(ASK, says="ThingSet d-new has changed since it was read", learns=NotFound),
    ),
    *(
        Scene(
            f"a set that {what} ends the pass: no other is sized, nothing is told, and the cache is awaited",
            doing(GROW, SHRINK, SCALED, now=now),
            (steps.ChangeSet, steps.RecordEvent),
            (GROWN,),
            error=Stale,
            then=fails(ASK, says="ThingSet d-new has changed since it was read", learns=Stale),
        )
        for what, now in (("has changed", changed(NEW)), ("is gone", gone(NEW)))
    ),
    Scene(
        "a size that is refused ends the pass, and it is known what came of it",
        doing(GROW, SHRINK, SCALED, answers={NEW: Forbidden("no")}),
        (steps.ChangeSet, steps.RecordEvent),
        (GROWN,),
        error=Forbidden,
        then=fails(says="no"),
    ),
    Scene(
        "a size that is not answered ends the pass, and is looked for",
        doing(GROW, SHRINK, answers={f"PATCH {NEW}": ServerError("broken")}),
        (steps.ChangeSet,),
        (GROWN,),
        error=ServerError,
        then=fails(ASK, says="broken"),
    ),
    Scene(
        "orphans are adopted by a deployment that is still there",
        doing(steps.Adopt((ORPHAN,)), sets=(ORPHAN,)),
        (steps.Adopt,),
        (of_old({"metadata": {"ownerReferences": [OURS]}}),),
        then=ended(),
    ),
    *(
        Scene(
            f"nothing is adopted by a deployment {why}",
            doing(steps.Adopt((ORPHAN,)), sets=(ORPHAN,), now=now),
            (steps.Adopt,),
            error=Stale,
            then=fails(says="ThingDeployment d is gone, or is being deleted"),
        )
        for why, now in (
            ("that is gone", gone(DEPLOYMENT)),
            ("whose name another one has", changed(DEPLOYMENT, uid="another")),
            ("that is being deleted", changed(DEPLOYMENT, deletionTimestamp="2030-01-01T00:00:00Z")),
        )
    ),
    Scene(
        "sets that it does not select any more are disowned, and other owners stay",
        doing(
            steps.Disown(
                (
                    structs.replace(
                        A,
                        metadata=structs.replace(
                            A.metadata, owner_references=(OTHERS, *A.metadata.owner_references)
                        ),
                    ),
                    B,
                )
            )
        ),
        (steps.Disown,),
        (
            of_old(
                {
                    "metadata": {
                        "ownerReferences": [
                            {"apiVersion": "v1", "kind": "ConfigMap", "name": "other", "uid": "other"}
                        ]
                    }
                }
            ),
            of_new({"metadata": {"ownerReferences": None}}),
        ),
        then=ended(),
    ),
    Scene(
        "sets are deleted as they were seen",
        doing(DELETE),
        (steps.DeleteSets,),
        DELETED,
        then=ended(),
    ),
    Scene(
        "a set that is gone is deleted",
        doing(DELETE, now=gone(OLD)),
        (steps.DeleteSets,),
        DELETED,
        then=ended(),
    ),
    Scene(
        "a set that has changed since is not deleted, and the others are",
        doing(DELETE, SCALED, now=changed(OLD)),
        (steps.DeleteSets, steps.RecordEvent),
        DELETED,
        error=Stale,
        then=fails(says="ThingSet d-old has changed since it was chosen for deletion"),
    ),
    Scene(
        "of several deletions that fail, the one that may be tried first is told",
        doing(DELETE, answers={OLD: TooManyRequests("wait", retry_after=None), NEW: Forbidden("no")}),
        (steps.DeleteSets,),
        DELETED,
        error=TooManyRequests,
        then=fails(says="wait"),
    ),
)

OF_MEMBERS = (
    Scene(
        "annotations of the very members that were seen",
        doing(annotating("a", "b")),
        (steps.AnnotateMembers,),
        (annotated("a"), annotated("b")),
        then=ended(),
    ),
    *(
        Scene(
            f"a member that {what} needs another look, and the next one is annotated",
            doing(annotating("a", "b"), SCALED, now=now),
            (steps.AnnotateMembers,),
            (annotated("a"), annotated("b")),
            error=Stale,
            then=fails(says="thing a is no longer the one that was seen"),
        )
        for what, now in (
            ("is gone", gone(f"{THERE}/things/a")),
            ("was made again", changed(f"{THERE}/things/a", uid="another")),
        )
    ),
    Scene(
        "members that may not be annotated end the pass",
        doing(annotating("a", "b"), GROW, answers={f"{THERE}/things/b": Forbidden("no")}),
        (steps.AnnotateMembers, steps.ChangeSet),
        (annotated("a"), annotated("b")),
        error=Forbidden,
        then=fails(says="no"),
    ),
)


def creating(*more: steps.Step, **how: Any) -> Does:
    return doing(CREATE, *more, **{"sets": (A,), **how})


TAKEN = "the name that ThingSet d-new was to have is taken"
OF_CREATIONS = (
    Scene(
        "the current set is created, and old ones shrink after it",
        creating(SHRINK),
        (steps.CreateSet, steps.ChangeSet),
        (CREATED, SHRUNK),
        then=ended(),
    ),
    Scene(
        "a refusal is told, and no old set shrinks",
        creating(SHRINK, SCALED, answers={ASK_AGAIN: Forbidden("no")}),
        (steps.CreateSet,),
        (CREATED,),
        (FAILED,),
        then=lambda shelf, after: _not_created(after, Forbidden),
    ),
    Scene(
        "a server that is broken is told, and it is asked again whether it has created the set",
        creating(SHRINK, answers={ASK_AGAIN: ServerError("no")}),
        (steps.CreateSet,),
        (CREATED,),
        (FAILED,),
        then=lambda shelf, after: _not_created(after, ServerError, ASK_AGAIN, learns=NotCreated),
    ),
    Scene(
        "a set whose creation was not answered, and that is refused now, is told, and no old set shrinks",
        doing(NotCreated(FRESH, Forbidden("no")), SHRINK, sets=(A,)),
        (NotCreated,),
        (),
        (FAILED,),
        then=lambda shelf, after: _not_created(after, Forbidden),
    ),
    Scene(
        "a creation that is not answered ends the pass, and is asked for again",
        creating(SHRINK, answers={ASK_AGAIN: Disconnected("it broke off")}),
        (steps.CreateSet,),
        (CREATED,),
        error=Disconnected,
        then=fails(ASK_AGAIN, says="it broke off", learns=Disconnected),
    ),
    Scene(
        "a creation that was not sent ends the pass",
        creating(SHRINK, answers={ASK_AGAIN: Deposed("it is over")}),
        (steps.CreateSet,),
        (CREATED,),
        error=Deposed,
        then=fails(says="it is over"),
    ),
    Scene(
        "its own set, which the cache does not show yet, is awaited",
        creating(SHRINK, now=lays(FRESH)),
        (steps.CreateSet,),
        (CREATED,),
        error=Stale,
        then=fails(ASK_AGAIN, says=TAKEN, learns=Stale),
    ),
    *(
        Scene(
            f"{whose} changes the next hash",
            creating(SHRINK, now=lays(there)),
            (steps.CreateSet,),
            (CREATED, count(1)),
            error=Stale,
            then=fails(says=TAKEN),
        )
        for whose, there in (
            ("its own set that is being deleted", going(FRESH)),
            ("its own set of another template", structs.replace(A, metadata=FRESH.metadata)),
            ("another owner's set", owned(FRESH, by="another")),
            ("a set of nobody", thing_set("new", 2, 2)),
        )
    ),
    Scene(
        "each collision counts",
        creating(now=lays(owned(FRESH, by="another")), of=counting(2)),
        (steps.CreateSet,),
        (CREATED, count(3)),
        error=Stale,
        then=fails(says=TAKEN),
    ),
    *(
        Scene(
            f"collisions are counted in an annotation where the API has no field for it: {after}",
            creating(now=lays(owned(FRESH, by="another")), of=before, policy=COLLISIONS),
            (steps.CreateSet,),
            (CREATED, of_deployment({"metadata": {"annotations": {"collisions": after}}})),
            error=Stale,
            then=fails(says=TAKEN),
        )
        for before, after in ((counting(), "1"), (counting(collisions="2"), "3"))
    ),
    Scene(
        "a name whose set has gone meanwhile is free again",
        creating(answers={ASK_AGAIN: AlreadyExists("taken")}),
        (steps.CreateSet,),
        (CREATED,),
        error=Stale,
        then=fails(ASK_AGAIN, says=TAKEN, learns=Stale),
    ),
    Scene(
        "no collision is counted while it cannot be asked whose set it is",
        creating(now=lays(owned(FRESH, by="another")), answers={ASK: Forbidden("no")}),
        (steps.CreateSet,),
        (CREATED,),
        error=Forbidden,
        then=fails(ASK_AGAIN, says="no", learns=Stale),
    ),
    *(
        Scene(
            f"a collision is not counted of a deployment that {what}",
            creating(now=lambda shelf, now=now: (lays(owned(FRESH, by="another"))(shelf), now(shelf))),
            (steps.CreateSet,),
            (CREATED, count(1)),
            error=Stale,
            then=fails(says=TAKEN),
        )
        for what, now in (
            ("is gone", gone(DEPLOYMENT)),
            ("has changed", changed(DEPLOYMENT)),
            ("was made again", changed(DEPLOYMENT, uid="another", resourceVersion="1000")),
        )
    ),
    Scene(
        "a collision that cannot be counted ends the pass",
        creating(now=lays(owned(FRESH, by="another")), answers={DEPLOYMENT: Forbidden("no")}),
        (steps.CreateSet,),
        (CREATED, count(1)),
        error=Forbidden,
        then=fails(says="no"),
    ),
)


OF_ANSWERS_THAT_NAME_NOTHING = tuple(
    Scene(
        f"{type(step).__name__}: a 404 that names no object does not say that it is gone",
        doing(step, sets=sets, answers={path: NOT_SERVED}, now=now),
        (type(step),),
        writes,
        error=NotFound,
        then=fails(*asks, says="404 page not found", learns=learns),
    )
    for step, sets, path, now, writes, asks, learns in (
        (GROW, (A, B), NEW, nothing, (GROWN,), (), None),
        (steps.Adopt((ORPHAN,)), (ORPHAN,), DEPLOYMENT, nothing, (), (), None),
        (annotating("a"), (A,), f"{THERE}/things/a", nothing, (annotated("a"),), (), None),
        (steps.DeleteSets((A,)), (A,), OLD, nothing, DELETED[:1], (), None),
        (CREATE, (A,), ASK, lays(FRESH), (CREATED,), (ASK_AGAIN,), Stale),
    )
)


def _not_created(after: Any, error: type[KubewrightError], *asks: str, learns: type | None = None) -> None:
    assert after.outcome.shown == {"d-new": MESSAGE}
    assert [type(each) for each in after.outcome.errors] == [error]
    assert after.asks == asks
    assert (type(after.resolved) if after.resolved is not None else None) is learns


ACT = Act(
    "replicas.deployment.act",
    steps.Step,
    (*OF_THE_DEPLOYMENT, *OF_SETS, *OF_MEMBERS, *OF_CREATIONS, *OF_ANSWERS_THAT_NAME_NOTHING),
)
