"""Scenes of sets, of the simulator's toys: what their act writes on the set and on its members, and tells."""

from typing import Any

from msgspec import structs

from kubewright.kube.errors import Deposed, Disconnected
from kubewright.replicas.objects import AddFinalizer, RemoveFinalizer
from kubewright.replicas.set import seen as steps
from kubewright.replicas.set.seen import Failure
from kubewright.replicas.writes import Stale
from kubewright.testing.acts import NOT_SERVED, Act, Scene
from kubewright.testing.looks import Write
from kubewright.wire.errors import AlreadyExists, Conflict, Forbidden, NotFound, ServerError
from kubewright.wire.gvk import Key
from simulation.toys.kinds import BODY, TOY, TOY_SET
from simulation.toys.policy import FINALIZER, LAST_NUMBER, TOY_SETS

from ..looks.of_sets import toy
from ..replicas.things import but
from .set_stage import (
    BODIES,
    OTHER,
    OTHERS,
    OURS,
    SCRIPTS,
    SET,
    TOYS,
    Does,
    always,
    created,
    deletion,
    discarded,
    doing,
    ended,
    failed,
    gone,
    in_doubt,
    lays,
    made,
    no_discard,
    of_set,
    of_the_set,
    of_toy,
    part,
    parts,
    patch,
    propagating,
    replaced,
    uid,
    version,
    warned,
    with_finalizers,
)

A, B = toy("a", owner=""), toy("b", owner="")
MINE, YOURS = toy("a"), toy("b")
QUOTA = Failure("FailedCreate", "exceeded quota")
FORBIDDEN = Forbidden("exceeded quota")
NO_QUOTA = warned("FailedCreate", "Error creating: exceeded quota")
ENDING = Forbidden("it is going", details={"causes": [{"reason": "NamespaceTerminating"}]})
NEW = {"spec": {"flavor": "new"}}


LABEL, WRONG_LABEL = (
    steps.PatchObject(TOY_SET, Key("n", "s"), of_set(version, labels={"k": "v"}).body)
    for version in ("101", "7")
)

OF_THE_SET = (
    Scene(
        "its finalizer, in the version that was seen",
        doing(always(AddFinalizer())),
        (AddFinalizer,),
        (of_set(finalizers=[FINALIZER]),),
        then=ended(),
    ),
    Scene(
        "nothing is created for a set that is gone",
        doing(always(AddFinalizer(), steps.Create(("x",))), there=False),
        (AddFinalizer, steps.Create),
        (of_set(finalizers=[FINALIZER]),),
        error=Stale,
        then=failed("ToySet s is gone, or is being deleted"),
    ),
    Scene(
        "nothing is created for a set that has changed since",
        doing(always(AddFinalizer(), steps.Create(("x",))), now=of_the_set(resourceVersion="1000")),
        (AddFinalizer, steps.Create),
        (of_set(finalizers=[FINALIZER]),),
        error=Conflict,
    ),
    Scene(
        "its last finalizer is taken off",
        doing(always(RemoveFinalizer()), of=with_finalizers(FINALIZER)),
        (RemoveFinalizer,),
        (of_set(finalizers=None),),
        then=ended(gone=True),
    ),
    Scene(
        "its finalizer is taken off, and the others stay",
        doing(always(RemoveFinalizer()), of=with_finalizers("f", FINALIZER)),
        (RemoveFinalizer,),
        (of_set(finalizers=["f"]),),
        then=ended(gone=True),
    ),
    *(
        Scene(
            f"{type(step).__name__}: a 404 that does not name the set is no proof that it is gone",
            doing(always(step), of=with_finalizers("f", FINALIZER), answers={SET: NOT_SERVED}),
            (type(step),),
            (write,),
            error=NotFound,
        )
        for step, write in (
            (RemoveFinalizer(), of_set(finalizers=["f"])),
            (steps.RecordNumber(5), of_set(annotations={LAST_NUMBER: "5"})),
        )
    ),
    Scene(
        "its finalizer is added to the others",
        doing(always(AddFinalizer()), of=with_finalizers("f")),
        (AddFinalizer,),
        (of_set(finalizers=["f", FINALIZER]),),
    ),
    Scene(
        "the finalizer of a set that is gone is off",
        doing(always(RemoveFinalizer()), of=with_finalizers("f", FINALIZER), there=False),
        (RemoveFinalizer,),
        (of_set(finalizers=["f"]),),
        then=ended(gone=True),
    ),
    Scene(
        "the number of its highest member is recorded, before that is deleted",
        doing(lambda seen: (steps.RecordNumber(5), steps.Delete(seen.members)), MINE),
        (steps.RecordNumber, steps.Delete),
        (of_set(annotations={LAST_NUMBER: "5"}), deletion("a", 102)),
        (("s", "SuccessfulDelete", 'Deleted toy "a"', False),),
        then=ended(deleted=("a",), lacks=(f"{TOYS}/a",)),
    ),
    Scene(
        "each write onto the set names the version that the one before has made",
        doing(always(AddFinalizer(), LABEL, steps.RecordNumber(5), RemoveFinalizer())),
        (AddFinalizer, steps.PatchObject, steps.RecordNumber, RemoveFinalizer),
        (
            of_set(finalizers=[FINALIZER]),
            of_set("102", labels={"k": "v"}),
            of_set("103", annotations={LAST_NUMBER: "5"}),
            of_set("104", finalizers=None),
        ),
        then=ended(gone=True),
    ),
    Scene(
        "a write onto the set that is refused has made no version",
        doing(always(AddFinalizer(), WRONG_LABEL, steps.RecordNumber(5))),
        (AddFinalizer, steps.PatchObject, steps.RecordNumber),
        (
            of_set(finalizers=[FINALIZER]),
            of_set("7", labels={"k": "v"}),
            of_set("102", annotations={LAST_NUMBER: "5"}),
        ),
        then=ended(Conflict),
    ),
    Scene(
        "a write onto another object names the version that it was planned with",
        doing(
            always(AddFinalizer(), steps.PatchObject(BODY, Key("n", "s"), LABEL.body), steps.RecordNumber(5)),
            now=lays((BODY, part("s"))),
        ),
        (AddFinalizer, steps.PatchObject, steps.RecordNumber),
        (
            of_set(finalizers=[FINALIZER]),
            Write("PATCH", f"{BODIES}/s", LABEL.body),
            of_set("103", annotations={LAST_NUMBER: "5"}),
        ),
        then=ended(Conflict),
    ),
    Scene(
        "no member is deleted whose number could not be recorded",
        doing(
            lambda seen: (steps.RecordNumber(5), steps.Delete(seen.members)),
            MINE,
            answers={SET: Forbidden("no")},
        ),
        (steps.RecordNumber, steps.Delete),
        (of_set(annotations={LAST_NUMBER: "5"}),),
        error=Forbidden,
    ),
    Scene(
        "another object is patched as the step says, which makes no version of the set",
        doing(
            always(steps.PatchObject(BODY, Key("n", "a"), NEW), steps.RecordNumber(5)),
            now=lays((BODY, part("a"))),
        ),
        (steps.PatchObject, steps.RecordNumber),
        (Write("PATCH", f"{BODIES}/a", NEW), of_set(annotations={LAST_NUMBER: "5"})),
        then=ended(),
    ),
    Scene(
        "a patch of the set that names no version is sent as it is",
        doing(always(steps.PatchObject(TOY_SET, Key("n", "s"), NEW), AddFinalizer())),
        (steps.PatchObject, AddFinalizer),
        (Write("PATCH", SET, NEW), of_set("102", finalizers=[FINALIZER])),
        then=ended(),
    ),
    Scene(
        "what cannot be written on another object is tried again, and the rest goes on",
        doing(always(steps.PatchObject(BODY, Key("n", "a"), NEW), AddFinalizer())),
        (steps.PatchObject, AddFinalizer),
        (Write("PATCH", f"{BODIES}/a", NEW), of_set(finalizers=[FINALIZER])),
        then=ended(NotFound),
    ),
)


def adopting(**how: Any) -> Does:
    return doing(lambda seen: (steps.Adopt(seen.orphans),), A, B, **how)


ADOPTED = (of_toy("a", 102, ownerReferences=[OURS]), of_toy("b", 103, ownerReferences=[OURS]))

OF_OWNERS = (
    Scene("orphans are adopted", adopting(), (steps.Adopt,), ADOPTED, then=ended()),
    *(
        Scene(
            f"nothing is adopted by a set {why}",
            adopting(now=now),
            (steps.Adopt,),
            error=Stale,
            then=failed("ToySet s is gone, or is being deleted"),
        )
        for why, now in (
            ("that is gone", gone(SET)),
            ("whose name another one has by now", of_the_set(uid="another")),
            ("that is being deleted", of_the_set(deletionTimestamp="2030-01-01T00:00:00Z")),
        )
    ),
    Scene(
        "nothing is adopted while it cannot be asked whether the set is still there",
        adopting(answers={SET: Forbidden("no")}),
        (steps.Adopt,),
        error=Forbidden,
    ),
    Scene(
        "an orphan that has changed since is left for another look, and the next one is adopted",
        adopting(now=version("a")),
        (steps.Adopt,),
        ADOPTED,
        then=ended(Stale, says="toy a is no longer the one that was seen"),
    ),
    Scene(
        "an orphan that was made again is left alone",
        adopting(now=replaced(structs.replace(A, metadata=structs.replace(A.metadata, uid="another")))),
        (steps.Adopt,),
        (ADOPTED[1],),
        then=ended(),
    ),
    Scene("an orphan that is gone is left alone", adopting(now=replaced()), (steps.Adopt,), (ADOPTED[1],)),
    Scene(
        "members that it does not select any more are disowned, and other owners stay",
        doing(
            lambda seen: (steps.Disown(seen.unselected),),
            structs.replace(
                toy("a", app="b"),
                metadata=structs.replace(
                    toy("a", app="b").metadata, owner_references=(OTHERS, *toy("a").metadata.owner_references)
                ),
            ),
            toy("b", app="b"),
        ),
        (steps.Disown,),
        (of_toy("a", 102, ownerReferences=[OTHER]), of_toy("b", 103, ownerReferences=None)),
        then=ended(),
    ),
    Scene(
        "a member that may not be disowned is tried again, and the next one is",
        doing(
            lambda seen: (steps.Disown(seen.unselected),),
            toy("a", app="b"),
            toy("b", app="b"),
            answers={f"{TOYS}/a": Forbidden("no")},
        ),
        (steps.Disown,),
        (of_toy("a", 102, ownerReferences=None), of_toy("b", 103, ownerReferences=None)),
        then=ended(Forbidden),
    ),
)

OF_MEMBERS = (
    Scene(
        "an annotation of members, each in the version that was seen",
        doing(lambda seen: (steps.Annotate(seen.members, "k", "v"),), MINE, YOURS),
        (steps.Annotate,),
        (of_toy("a", 102, annotations={"k": "v"}), of_toy("b", 103, annotations={"k": "v"})),
        then=ended(),
    ),
    Scene(
        "an annotation is taken off",
        doing(lambda seen: (steps.Annotate(seen.members, "k", None),), MINE),
        (steps.Annotate,),
        (of_toy("a", 102, annotations={"k": None}),),
    ),
    Scene(
        "what the template changes, on the very members that were seen",
        doing(lambda seen: (steps.Propagate(seen.members),), MINE, policy=propagating(NEW)),
        (steps.Propagate,),
        (patch(f"{TOYS}/a", NEW, "uid-a"),),
        then=ended(),
    ),
    Scene(
        "a member that was made again, unseen, is left for another look",
        doing(lambda seen: (steps.Propagate(seen.members),), MINE, now=uid("a"), policy=propagating(NEW)),
        (steps.Propagate,),
        (patch(f"{TOYS}/a", NEW, "uid-a"),),
        then=ended(Stale, says="toy a is no longer the one that was seen"),
    ),
    Scene(
        "what belongs to a member is written before the member",
        doing(
            lambda seen: (steps.Propagate(seen.members),),
            MINE,
            now=lays((BODY, part("a"))),
            policy=propagating(NEW, parts=True),
        ),
        (steps.Propagate,),
        (Write("PATCH", f"{BODIES}/a", NEW), patch(f"{TOYS}/a", NEW, "uid-a")),
        then=ended(),
    ),
    Scene(
        "a member is not written on when what belongs to it could not be, and the next one is",
        doing(
            lambda seen: (steps.Propagate(seen.members),),
            MINE,
            YOURS,
            now=lays((BODY, part("b"))),
            policy=propagating(NEW, parts=True),
        ),
        (steps.Propagate,),
        (
            Write("PATCH", f"{BODIES}/a", NEW),
            Write("PATCH", f"{BODIES}/b", NEW),
            patch(f"{TOYS}/b", NEW, "uid-b"),
        ),
        then=ended(NotFound),
    ),
    Scene(
        "a member that lacks nothing is not written on, nor what belongs to it",
        doing(lambda seen: (steps.Propagate(seen.members),), MINE, policy=propagating({}, parts=True)),
        (steps.Propagate,),
    ),
    Scene(
        "nothing is written on members where nothing is propagated",
        doing(lambda seen: (steps.Propagate(seen.members),), MINE),
        (steps.Propagate,),
        then=ended(),
    ),
    Scene(
        "what fails in one step is still told when later ones succeed",
        doing(
            lambda seen: (
                steps.PatchObject(BODY, Key("n", "x"), NEW),
                steps.Annotate(seen.members, "k", "v"),
                steps.Propagate(seen.members),
                steps.Adopt(seen.orphans),
            ),
            MINE,
            B,
            policy=propagating(NEW),
        ),
        (steps.PatchObject, steps.Annotate, steps.Propagate, steps.Adopt),
        (
            Write("PATCH", f"{BODIES}/x", NEW),
            of_toy("a", 102, annotations={"k": "v"}),
            patch(f"{TOYS}/a", NEW, "uid-a"),
            ADOPTED[1],
        ),
        then=ended(NotFound),
    ),
    Scene(
        "a member that has changed since it was chosen is not deleted, and that is no failure",
        doing(lambda seen: (steps.Delete(seen.members),), MINE, YOURS, now=version("a")),
        (steps.Delete,),
        (deletion("a", 102), deletion("b", 103)),
        (("s", "SuccessfulDelete", 'Deleted toy "b"', False),),
        then=ended(Conflict, deleted=("b",), has=(f"{TOYS}/a",)),
    ),
    Scene(
        "a member that is gone was not deleted by the set",
        doing(lambda seen: (steps.Delete(seen.members),), MINE, now=gone(f"{TOYS}/a")),
        (steps.Delete,),
        (deletion("a", 102),),
        then=ended(NotFound),
    ),
    Scene(
        "members that may not be deleted are a failure that is told, and others are created",
        doing(
            lambda seen: (steps.Delete(seen.members), steps.Create(("x",))),
            MINE,
            YOURS,
            answers={f"{TOYS}/a": Forbidden("no")},
        ),
        (steps.Delete, steps.Create),
        (deletion("a", 102), deletion("b", 103), *made("x")),
        (
            ("s", "SuccessfulDelete", 'Deleted toy "b"', False),
            warned("FailedDelete", "Error deleting: no"),
            *created("x"),
        ),
        then=ended(Forbidden, failure=Failure("FailedDelete", "no"), deleted=("b",), lacks=(f"{TOYS}/b",)),
    ),
    Scene(
        "many deletions are one event",
        doing(lambda seen: (steps.Delete(seen.members),), *map(toy, "abcdef")),
        (steps.Delete,),
        tuple(deletion(name, 102 + number) for number, name in enumerate("abcdef")),
        (("s", "SuccessfulDelete", "Deleted 6 toys", False),),
        then=ended(deleted=tuple("abcdef")),
    ),
)


def creating(*names: str, **how: Any) -> Does:
    return doing(always(steps.Create(names)), **how)


OF_CREATIONS = (
    Scene(
        "members are created by name, each after its parts",
        creating("x", "y"),
        (steps.Create,),
        (*made("x"), *made("y")),
        created("x", "y"),
        then=ended(),
    ),
    Scene(
        "many creations are one event",
        creating(*"uvwxyz"),
        (steps.Create,),
        tuple(write for name in "uvwxyz" for write in made(name)),
        (("s", "SuccessfulCreate", "Created 6 toys", False),),
        then=ended(),
    ),
    Scene(
        "a refusal ends the creations, and takes back what was made before the member",
        creating("x", "y", answers={TOYS: FORBIDDEN}),
        (steps.Create,),
        (*made("x"), *discarded("x")),
        (NO_QUOTA,),
        then=ended(Forbidden, failure=QUOTA, lacks=(f"{SCRIPTS}/x", f"{BODIES}/x")),
    ),
    Scene(
        "a refusal ends the creations where nothing is made before a member",
        creating(
            "x", "y", answers={TOYS: FORBIDDEN}, policy=but(TOY_SETS, creates_parts=False, discard=no_discard)
        ),
        (steps.Create,),
        made("x"),
        (NO_QUOTA,),
        then=ended(Forbidden, failure=QUOTA),
    ),
    Scene(
        "a refusal says nothing about an earlier attempt, whose parts stay",
        creating("x", answers={TOYS: FORBIDDEN}, doubts=("x",)),
        (steps.Create,),
        made("x"),
        (NO_QUOTA,),
        then=ended(Forbidden, failure=QUOTA, open=("x",), has=(f"{SCRIPTS}/x",)),
    ),
    *(
        Scene(
            f"a creation that was not answered stays in doubt: {type(error).__name__}",
            creating("x", answers={TOYS: error}),
            (steps.Create,),
            made("x"),
            (warned("FailedCreate", f"Error creating: {error}"),),
            then=in_doubt(type(error), Failure("FailedCreate", str(error))),
        )
        for error in (Disconnected("it broke off"), ServerError("it is broken"))
    ),
    Scene(
        "a creation that was not sent is in no doubt",
        creating("x", answers={TOYS: Deposed("it is over")}),
        (steps.Create,),
        (*made("x"), *discarded("x")),
        (warned("FailedCreate", "Error creating: it is over"),),
        then=ended(Deposed, failure=Failure("FailedCreate", "it is over")),
    ),
    Scene(
        "a creation whose parts cannot be taken back stays in doubt",
        creating("x", answers={TOYS: FORBIDDEN, f"{SCRIPTS}/x": Forbidden("no")}),
        (steps.Create,),
        made("x"),
        (NO_QUOTA,),
        then=ended(Forbidden, failure=QUOTA, open=("x",), has=(f"{SCRIPTS}/x", f"{BODIES}/x")),
    ),
    Scene(
        "an earlier attempt that has come to be ends the doubt",
        creating("x", doubts=("x",)),
        (steps.Create,),
        made("x"),
        created("x"),
        then=ended(),
    ),
    Scene(
        "its own member that the cache does not show yet is no failure, and stays in doubt",
        creating("x", "y", now=lays((TOY, toy("x")))),
        (steps.Create,),
        made("x"),
        then=ended(AlreadyExists, open=("x",), has=(f"{SCRIPTS}/x",)),
    ),
    *(
        Scene(
            f"the name of a toy {whose} is never tried again",
            creating("x", now=lays((TOY, toy("x", owner=owner)))),
            (steps.Create,),
            (*made("x"), *discarded("x")),
            then=ended(AlreadyExists, taken=("x",), lacks=(f"{SCRIPTS}/x",), has=(f"{TOYS}/x",)),
        )
        for whose, owner in (("of another set", "another"), ("of nobody", ""))
    ),
    Scene(
        "a name whose part belongs to another owner is never tried again, and that part stays",
        creating("x", now=lays((BODY, part("x")))),
        (steps.Create,),
        (*parts("x"), discarded("x")[0]),
        then=ended(AlreadyExists, taken=("x",), has=(f"{BODIES}/x",), lacks=(f"{SCRIPTS}/x",)),
    ),
    Scene(
        "a name is tried again whose object has gone meanwhile",
        creating(
            "x",
            answers={f"POST {TOYS}": AlreadyExists("taken")},
            policy=but(TOY_SETS, creates_parts=False, discard=no_discard),
        ),
        (steps.Create,),
        made("x"),
        then=ended(AlreadyExists),
    ),
    Scene(
        "a name stays in doubt while it cannot be asked who has it",
        creating("x", now=lays((TOY, toy("x"))), answers={f"GET {TOYS}/x": Forbidden("no")}),
        (steps.Create,),
        made("x"),
        (warned("FailedCreate", "Error creating: no"),),
        then=ended(Forbidden, failure=Failure("FailedCreate", "no"), open=("x",)),
    ),
    Scene(
        "a namespace that is being deleted is no failure",
        creating("x", "y", answers={TOYS: ENDING}),
        (steps.Create,),
        (*made("x"), *discarded("x")),
        then=ended(Forbidden),
    ),
)

OF_ANSWERS_THAT_NAME_NOTHING = (
    Scene(
        "while its kind is not served nothing is adopted, and that is no sign that the set is gone",
        adopting(answers={SET: NOT_SERVED}),
        (steps.Adopt,),
        error=NotFound,
    ),
    Scene(
        "a member of a kind that is not served is no reason to look again at once",
        doing(
            lambda seen: (steps.Annotate(seen.members, "k", "v"),), MINE, answers={f"{TOYS}/a": NOT_SERVED}
        ),
        (steps.Annotate,),
        (of_toy("a", 102, annotations={"k": "v"}),),
        then=ended(NotFound, says="404 page not found"),
    ),
    Scene(
        "a deletion that says nothing of the member has failed",
        doing(lambda seen: (steps.Delete(seen.members),), MINE, answers={f"{TOYS}/a": NOT_SERVED}),
        (steps.Delete,),
        (deletion("a", 102),),
        (warned("FailedDelete", "Error deleting: 404 page not found"),),
        then=ended(NotFound, failure=Failure("FailedDelete", "404 page not found")),
    ),
    Scene(
        "a name stays in doubt while the answer says nothing of who has it",
        creating("x", now=lays((TOY, toy("x"))), answers={f"GET {TOYS}/x": NOT_SERVED}),
        (steps.Create,),
        made("x"),
        (warned("FailedCreate", "Error creating: 404 page not found"),),
        then=ended(NotFound, failure=Failure("FailedCreate", "404 page not found"), open=("x",)),
    ),
)

ACT = Act(
    "replicas.set.act",
    steps.Step,
    (*OF_THE_SET, *OF_OWNERS, *OF_MEMBERS, *OF_CREATIONS, *OF_ANSWERS_THAT_NAME_NOTHING),
)
