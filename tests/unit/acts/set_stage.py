"""The stage of scenes of sets: toys on a server and in a cache, and what came of a plan for their set."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from msgspec import structs

from kubewright.api.meta import ObjectMeta, OwnerReference
from kubewright.base.errors import KubewrightError
from kubewright.base.limits import DOUBT_SECONDS
from kubewright.base.plan import Plan
from kubewright.kube.client import Client
from kubewright.replicas.objects import number_of
from kubewright.replicas.set import act
from kubewright.replicas.set import seen as steps
from kubewright.replicas.set.seen import Failure, Seen, SetPolicy
from kubewright.runtime.kernel import Outcome
from kubewright.testing.acts import Happened, Told, happened
from kubewright.testing.looks import Shelf, Write
from kubewright.wire.gvk import Key
from simulation.toys.kinds import BODY, GROUP, TOY, TOY_SET, Part, Toy, ToySet
from simulation.toys.policy import FINALIZER, NUMBER, TOY_SETS

from ..looks.of_sets import Sets, toy_set
from ..replicas.things import but

TOYS, SETS = (f"/apis/{GROUP}/v1/namespaces/n/{plural}" for plural in ("toys", "toysets"))
SCRIPTS, BODIES = (f"/apis/{GROUP}/v1/namespaces/n/{plural}" for plural in ("scripts", "bodies"))
SET = f"{SETS}/s"
OTHERS = OwnerReference(api_version="v1", kind="ConfigMap", name="other", uid="other")
OTHER = {"apiVersion": "v1", "kind": "ConfigMap", "name": "other", "uid": "other"}
OURS = {
    "apiVersion": f"{GROUP}/v1",
    "kind": "ToySet",
    "name": "s",
    "uid": "s",
    "controller": True,
    "blockOwnerDeletion": True,
}


@dataclass(frozen=True)
class Performed(Happened):
    """What else came of a plan. ``open``: the names that are in doubt; ``taken``: those that others have;
    ``sets``: all that the process has."""

    open: tuple[str, ...] = ()
    taken: frozenset[str] = frozenset()
    sets: Sets = field(default_factory=Sets)
    deleted: tuple[str, ...] = ()


Events = tuple[tuple[str, str, str, bool], ...]
Makes = Callable[[Seen[Any, Any]], Iterable[steps.Step]]
Now = Callable[[Sets], Awaitable[object]]
Does = Callable[[], Awaitable[tuple[Shelf, Performed]]]


def with_finalizers(*finalizers: str) -> ToySet:
    of = toy_set()
    return structs.replace(of, metadata=structs.replace(of.metadata, finalizers=finalizers))


def doing(
    makes: Makes,
    *toys: Toy,
    of: ToySet | None = None,
    there: bool = True,
    now: "Now | None" = None,
    answers: Mapping[str, KubewrightError] | None = None,
    doubts: tuple[str, ...] = (),
    policy: SetPolicy[Any, Any, Any] = TOY_SETS,
) -> Does:
    """The steps that are made of what the look saw; ``now``: what has changed since on the server."""

    async def act_() -> tuple[Shelf, Performed]:
        deleted: list[str] = []
        noting = but(policy, deleted=lambda member: deleted.append(member.name))
        sets, told = Sets(noting), Told()
        sets.clock.passed = 30
        found = of or toy_set()
        found = structs.replace(found, metadata=structs.replace(found.metadata, resource_version="101"))
        sets.lay(TOY_SET, found)
        await sets.put(TOY, *toys)
        of_sets = act.Sets(noting, sets.caches, told, index=sets.index)
        seen = await of_sets.look(found)
        if not there:
            del sets.objects[SET]
        if now is not None:
            await now(sets)
            sets.writes.clear()
        sets.answers |= answers or {}
        for name in doubts:
            sets.index.creations.creating("s", name, 0.0)
        outcome, plan = Outcome(found.metadata), Plan(tuple(makes(seen)))
        after = await happened(of_sets.perform(seen, plan, outcome), told)
        opened = sets.index.creations.open("s")
        taken = (await of_sets.look(found)).taken
        facts = {**vars(after), "outcome": outcome}
        return sets, Performed(**facts, open=opened, taken=taken, sets=sets, deleted=tuple(deleted))

    return act_


def always(*what: steps.Step) -> Makes:
    return lambda _seen: what


def ended(
    *errors: type[KubewrightError],
    failure: Failure | None = None,
    gone: bool = False,
    open: tuple[str, ...] = (),
    taken: tuple[str, ...] = (),
    says: str = "",
    deleted: tuple[str, ...] = (),
    has: tuple[str, ...] = (),
    lacks: tuple[str, ...] = (),
) -> Callable[[Shelf, Any], None]:
    """The pass came to its end so. ``has``, ``lacks``: paths on the server afterwards."""

    def then(shelf: Shelf, after: Performed) -> None:
        outcome = after.outcome
        assert isinstance(outcome, Outcome)
        assert tuple(type(each) for each in outcome.errors) == errors
        assert says in [str(each) for each in outcome.errors] or not says
        shown = {failure.reason: failure.message} if failure is not None else {}
        assert (outcome.shown, outcome.gone) == (shown, gone)
        assert (after.open, after.taken) == (open, frozenset(taken))
        assert after.deleted == deleted
        assert set(has) <= set(shelf.objects)
        assert not set(lacks) & set(shelf.objects)

    return then


def in_doubt(error: type[KubewrightError], failure: Failure) -> Callable[[Shelf, Any], None]:
    """``x`` is in doubt, with its parts, and for as long as its request may still be on its way."""

    def then(shelf: Shelf, after: Performed) -> None:
        ended(error, failure=failure, open=("x",), has=(f"{SCRIPTS}/x", f"{BODIES}/x"))(shelf, after)
        doubts, sent = after.sets.index.creations, 30
        for passed, open_ in ((DOUBT_SECONDS - 1, ("x",)), (DOUBT_SECONDS, ())):
            doubts.expire("s", sent + passed)
            assert doubts.open("s") == open_

    return then


def failed(message: str) -> Callable[[Shelf, Happened], None]:
    def then(_shelf: Shelf, after: Happened) -> None:
        assert str(after.error) == message

    return then


def patch(path: str, body: Mapping[str, Any], uid: str, version: str = "") -> Write:
    conditions = {"uid": uid, **({"resourceVersion": version} if version else {})}
    return Write("PATCH", path, {**body, "metadata": {**body.get("metadata", {}), **conditions}})


def of_set(in_version: str = "101", **metadata: Any) -> Write:
    return patch(SET, {"metadata": metadata}, "s", in_version)


def of_toy(name: str, version: int, **metadata: Any) -> Write:
    return patch(f"{TOYS}/{name}", {"metadata": metadata}, f"uid-{name}", str(version))


def deletion(name: str, version: int) -> Write:
    conditions = {"uid": f"uid-{name}", "resourceVersion": str(version)}
    options = {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": conditions}
    return Write("DELETE", f"{TOYS}/{name}", options)


def part(name: str) -> Part:
    return Part(metadata=ObjectMeta(name=name, namespace="n"))


def parts(name: str) -> tuple[Write, Write]:
    """The creations of what a toy needs before it."""
    ours = {key: value for key, value in OURS.items() if key not in ("controller", "blockOwnerDeletion")}
    meta = {"name": name, "namespace": "n", "ownerReferences": [ours]}
    of = {"apiVersion": f"{GROUP}/v1", "metadata": meta, "spec": {}}
    return Write("POST", SCRIPTS, {**of, "kind": "Script"}), Write("POST", BODIES, {**of, "kind": "Body"})


def made(name: str) -> tuple[Write, ...]:
    """All creations for a toy."""
    number = number_of("s", name)
    meta = {
        "name": name,
        "namespace": "n",
        "labels": {"app": "a"},
        **({"annotations": {NUMBER: str(number)}} if number else {}),
        "finalizers": [FINALIZER],
        "ownerReferences": [OURS],
    }
    of = {"apiVersion": f"{GROUP}/v1", "kind": "Toy", "metadata": meta, "spec": {}, "status": {}}
    return *parts(name), Write("POST", TOYS, of)


def discarded(name: str) -> tuple[Write, Write]:
    return Write("DELETE", f"{SCRIPTS}/{name}"), Write("DELETE", f"{BODIES}/{name}")


def created(*names: str) -> Events:
    return tuple(("s", "SuccessfulCreate", f'Created toy "{name}"', False) for name in names)


def warned(reason: str, message: str) -> tuple[str, str, str, bool]:
    return ("s", reason, message, True)


def uid(name: str) -> Now:
    """Since the look the object of this name has been made again; the cache does not show it yet."""

    async def now(sets: Sets) -> None:
        sets.objects[f"{TOYS}/{name}"]["metadata"]["uid"] = "another"

    return now


def version(name: str) -> Now:
    """Since the look another client has written onto a toy; the cache does not show it yet."""

    async def now(sets: Sets) -> None:
        sets.objects[f"{TOYS}/{name}"]["metadata"]["resourceVersion"] = "1000"

    return now


def of_the_set(**meta: Any) -> Now:
    """Since the look the set has become so."""

    async def now(sets: Sets) -> None:
        sets.objects[SET]["metadata"] |= meta

    return now


def gone(*paths: str) -> Now:
    """Since the look these have gone; the cache does not show it yet."""

    async def now(sets: Sets) -> None:
        for path in paths:
            del sets.objects[path]

    return now


def lays(*objects: tuple[Any, Any]) -> Now:
    """What else is on the server, and in no cache."""

    async def now(sets: Sets) -> None:
        for kind, each in objects:
            sets.lay(kind, each)

    return now


def replaced(*after: Toy) -> Now:
    """Since the look toy ``a`` has gone, and these have come; the cache shows it."""

    async def now(sets: Sets) -> None:
        await sets.client.delete(TOY, Key("n", "a"), uid="uid-a")
        await sets.put(TOY, *after)

    return now


async def before(client: Client, _owner: ToySet, found: Toy) -> None:
    await client.patch(BODY, Key("n", found.name), {"spec": {"flavor": "new"}})


def propagating(body: Mapping[str, Any], *, parts: bool = False) -> SetPolicy[Any, Any, Any]:
    """A policy of sets that change this on their members."""
    how = {"before_propagation": before} if parts else {}
    return but(TOY_SETS, propagation=lambda _set, _toy: dict(body), **how)


async def no_discard(*_what: object) -> None:
    """What a policy that creates nothing before a member has to delete."""
