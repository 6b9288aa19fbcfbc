"""Scenes of NestedControlPlanes: what their act writes onto them and their components, and what it tells."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

from msgspec import structs, to_builtins

from kubewright.api.cluster.conditions import false_condition
from kubewright.api.cluster.v1beta1 import ApiEndpoint
from kubewright.api.controlplane.names import FINALIZER, PLANE_REPORTER, PUBLISHED_ANNOTATION, Component
from kubewright.api.controlplane.v1alpha4 import NESTED_CONTROL_PLANE
from kubewright.api.diff import merge_patch
from kubewright.api.meta import OwnerReference
from kubewright.base.delays import WORDS_SECONDS
from kubewright.base.errors import KubewrightError
from kubewright.base.plan import AT_ONCE
from kubewright.controlplanes.caches import Caches
from kubewright.controlplanes.family import KINDS, Family, Pause
from kubewright.controlplanes.plane import act
from kubewright.controlplanes.plane.decide import (
    AddFinalizer,
    Adopt,
    DeleteComponent,
    Plan,
    PublishEndpoint,
    RemoveFinalizer,
    Step,
)
from kubewright.controlplanes.plane.seen import Rest, Seen
from kubewright.controlplanes.plane.status import status_of
from kubewright.kube.errors import Deposed
from kubewright.runtime.result import Result
from kubewright.testing.acts import Act, Happened, Scene, Told, happened
from kubewright.testing.clocks import BEGIN
from kubewright.testing.looks import Shelf, Write
from kubewright.wire.errors import Conflict, Forbidden

from ..controlplanes.test_plane_decisions import ENDPOINT, component, moved, owner, plane, seen

PLACE = "/apis/controlplane.cluster.x-k8s.io/v1alpha4/namespaces/ns"
PATH, STATUS = f"{PLACE}/nestedcontrolplanes/demo", f"{PLACE}/nestedcontrolplanes/demo/status"
ETCD_PATH, SERVER_PATH = f"{PLACE}/nestedetcds/my-etcd", f"{PLACE}/nestedapiservers/my-apiserver"
ETCD, SERVER = Component.ETCD, Component.API_SERVER
HERE, THERE = ApiEndpoint(host="127.0.0.2", port=6443), ApiEndpoint(host="api.example.com", port=443)


def at(version: int, uid: str = "p") -> dict[str, str]:
    """What a patch names of what was read."""
    return {"uid": uid, "resourceVersion": str(version)}


def read(of: Any, version: int = 101) -> Any:
    """As it is on a new shelf; the control plane is laid there first."""
    return structs.replace(of, metadata=structs.replace(of.metadata, resource_version=str(version)))


def with_owners(of: Any, *owners: OwnerReference) -> Any:
    return structs.replace(of, metadata=structs.replace(of.metadata, owner_references=owners))


ORPHAN = read(component(ETCD, by=None), 102)
MY_ETCD, MY_SERVER = read(component(ETCD), 102), read(component(SERVER), 103)
BOTH = ((ETCD, MY_ETCD), (SERVER, MY_SERVER))
OURS = {**owner(), "blockOwnerDeletion": True}
BESIDE = {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "x"}
SHARED = with_owners(
    ORPHAN,
    OwnerReference(api_version="v1", kind="NestedControlPlane", name="demo", uid="p"),
    OwnerReference(api_version="v1", kind="ConfigMap", name="x", uid="x"),
)


def finalizers(*names: str) -> Write:
    """The write of these finalizers."""
    return Write("PATCH", PATH, {"metadata": {"finalizers": list(names) or None, **at(101)}})


def reconciler(shelf: Shelf, told: Told) -> act.ControlPlanes:
    """That of control planes, which writes to the server and reads no caches."""
    environment: Any = SimpleNamespace(control=SimpleNamespace(client=shelf.client), recorder=told)
    return act.ControlPlanes(environment, Caches(shelf.caches))


def doing(
    *steps: Step,
    of: Seen | None = None,
    there: tuple[tuple[Component, Any], ...] = (),
    refused: tuple[str, KubewrightError] | None = None,
    laid: bool = True,
    **plan: Any,
) -> Callable[[], Any]:
    """A plan, performed. ``there``: components on the server. ``laid``: the control plane is there too."""

    async def act_() -> tuple[Shelf, Happened]:
        shelf, told = Shelf(), Told()
        view = of if of is not None else seen(read(plane()), *there)
        if laid:
            shelf.lay(NESTED_CONTROL_PLANE, view.family.plane)
        for which, each in there:
            shelf.lay(KINDS[which], each)
        if refused is not None:
            shelf.answers[refused[0]] = refused[1]
        actor, of_view = reconciler(shelf, told), view.family.plane
        came = await happened(actor.carry_out(of_view, view, Plan(steps, **plan)), told)
        assert told.sources <= {PLANE_REPORTER}
        return shelf, came

    return act_


def twice(first: Seen, second: Seen, *, after: float) -> Callable[[], Any]:
    """Two passes that only write the status, ``after`` seconds between them; the outcome of the second."""

    async def act_() -> tuple[Shelf, Happened]:
        shelf, told = Shelf(), Told()
        shelf.lay(NESTED_CONTROL_PLANE, first.family.plane)
        actor = reconciler(shelf, told)
        await actor.carry_out(first.family.plane, first, Plan())
        shelf.clock.passed += after
        return shelf, await happened(actor.carry_out(second.family.plane, second, Plan()), told)

    return act_


def with_status(view: Seen, version: int = 101, **status: Any) -> Seen:
    """The same, of a control plane whose status says what it should but for ``status``."""
    of = structs.replace(view.family.plane, status=structs.replace(status_of(view), **status))
    return replace(view, family=Family(read(of, version), view.family.cluster, view.family.components))


def says(view: Seen, version: int = 101) -> Write:
    """The write of its status."""
    patch = merge_patch(view.family.plane.status, status_of(view))
    return Write("PATCH", STATUS, {"status": patch, "metadata": at(version)})


def ended(*what: object) -> Callable[[Shelf, Happened], None]:
    """The outcome is this one."""

    def check(_shelf: Shelf, found: Happened) -> None:
        assert (found.outcome,) == what

    return check


def told(message: str) -> Callable[[Shelf, Happened], None]:
    """The error says so."""

    def check(_shelf: Shelf, found: Happened) -> None:
        assert str(found.error) == message

    return check


def published(version: int = 101) -> Write:
    """The write of the endpoint ``THERE``."""
    mark = {"annotations": {PUBLISHED_ANNOTATION: str(THERE)}, **at(version)}
    endpoint = {"host": THERE.host, "port": THERE.port}
    return Write("PATCH", PATH, {"metadata": mark, "spec": {"controlPlaneEndpoint": endpoint}})


def adopted(path: str, meta: dict[str, str], *others: dict[str, Any]) -> Write:
    """The write that makes the control plane the last and the controlling owner."""
    return Write("PATCH", path, {"metadata": {"ownerReferences": [*others, OURS], **meta}})


def deleted(path: str, uid: str) -> Write:
    """The deletion of this very object."""
    body = {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": uid}}
    return Write("DELETE", path, body)


def event(reason: str, message: str, *, warning: bool = False) -> tuple[str, str, str, bool]:
    return ("demo", reason, message, warning)


REACHED = {"controlPlaneEndpoint": {"host": HERE.host, "port": HERE.port}}
UP = seen(read(plane(spec=REACHED)))
DOWN = seen(read(plane(spec=REACHED)), (ETCD, component(ETCD)))
ASLEEP = replace(UP, rest=Rest(asleep=True, until=BEGIN + timedelta(hours=8)))
ASKED = "its API server is reached at api.example.com:443 now, no longer at 127.0.0.2:6443"
MISSING = "there is no NestedAPIServer my-apiserver"
TAKEN = "NestedEtcd my-etcd: NestedControlPlane x controls it"
CONFLICT = seen(read(plane(spec=REACHED)), (ETCD, component(ETCD, by="x")))
STOPPED = false_condition("Ready", "Sleeping", "Info", "")
ALL_ENDED = replace(
    seen(
        read(plane(spec=REACHED)),
        *((each, component(each, ready=False, conditions=[to_builtins(STOPPED)])) for each in Component),
    ),
    rest=ASLEEP.rest,
)
STUCK = moved(clusters=ENDPOINT)


def conditions(view: Seen) -> Any:
    """Those of its status, as they are written."""
    return merge_patch(view.family.plane.status, status_of(view))["conditions"]


def worded(about: str, message: str, reason: str = "") -> Any:
    """The conditions of the one with a conflict, but for one of them."""
    return tuple(
        structs.replace(each, message=message, reason=reason or each.reason) if each.type == about else each
        for each in status_of(CONFLICT).conditions
    )


STEPS = (
    Scene(
        "its finalizer is put beside that of another",
        doing(AddFinalizer(), of=seen(read(plane(finalizer=False, finalizers=["x"]))), silent=True),
        (AddFinalizer,),
        (finalizers("x", FINALIZER),),
        then=ended(Result.done()),
    ),
    Scene(
        "its finalizer goes, and that of another stays",
        doing(
            RemoveFinalizer(), of=seen(read(plane(finalizer=False, finalizers=["x", FINALIZER]))), silent=True
        ),
        (RemoveFinalizer,),
        (finalizers("x"),),
        then=ended(Result.done()),
    ),
    Scene(
        "its finalizer goes, and the object is gone already",
        doing(RemoveFinalizer(), silent=True, laid=False),
        (RemoveFinalizer,),
        (finalizers(),),
        then=ended(Result.done()),
    ),
    Scene(
        "the first endpoint is written with the mark that it is ours, and not told",
        doing(PublishEndpoint(THERE), silent=True),
        (PublishEndpoint,),
        (published(),),
        then=ended(Result.done()),
    ),
    Scene(
        "an endpoint in the place of one without a host is not told either",
        doing(
            PublishEndpoint(THERE),
            of=seen(read(plane(spec={"controlPlaneEndpoint": {"host": ""}}))),
            silent=True,
        ),
        (PublishEndpoint,),
        (published(),),
    ),
    Scene(
        "an endpoint in the place of another is told",
        doing(PublishEndpoint(THERE), of=UP, silent=True),
        (PublishEndpoint,),
        (published(),),
        (event("EndpointMoved", ASKED),),
    ),
    Scene(
        "a component without owners is adopted in the version that was read",
        doing(Adopt(ETCD, ORPHAN), there=((ETCD, ORPHAN),), silent=True),
        (Adopt,),
        (adopted(ETCD_PATH, at(102, "u-etcd")),),
    ),
    Scene(
        "a component keeps its other owners, and has the control plane but once",
        doing(Adopt(ETCD, SHARED), there=((ETCD, SHARED),), silent=True),
        (Adopt,),
        (adopted(ETCD_PATH, at(102, "u-etcd"), BESIDE),),
    ),
    Scene(
        "one after another is deleted, each only if it is the very object",
        doing(DeleteComponent(ETCD, MY_ETCD), DeleteComponent(SERVER, MY_SERVER), there=BOTH, silent=True),
        (DeleteComponent,),
        (deleted(ETCD_PATH, "u-etcd"), deleted(SERVER_PATH, "u-apiserver")),
    ),
    Scene(
        "a component that is gone is deleted, and so is the next",
        doing(
            DeleteComponent(ETCD, MY_ETCD), DeleteComponent(SERVER, MY_SERVER), there=BOTH[1:], silent=True
        ),
        (DeleteComponent,),
        (deleted(ETCD_PATH, "u-etcd"), deleted(SERVER_PATH, "u-apiserver")),
        then=ended(Result.done()),
    ),
)
ORDER = (
    Scene(
        "each write onto it names the version that the last one left, and so does its status",
        doing(AddFinalizer(), PublishEndpoint(THERE), of=UP),
        (AddFinalizer, PublishEndpoint),
        (finalizers(FINALIZER), published(102), says(UP, 103)),
        (event("EndpointMoved", ASKED), event("Ready", "all components that it names are ready")),
        then=ended(Result.done()),
    ),
    Scene(
        "once its finalizer is off no status is written: there may be no such object any more",
        doing(RemoveFinalizer(), of=UP),
        (RemoveFinalizer,),
        (finalizers(),),
    ),
    Scene(
        "what is written onto components leaves its own version",
        doing(
            Adopt(ETCD, ORPHAN), DeleteComponent(SERVER, MY_SERVER), of=UP, there=((ETCD, ORPHAN), BOTH[1])
        ),
        (Adopt, DeleteComponent),
        (adopted(ETCD_PATH, at(102, "u-etcd")), deleted(SERVER_PATH, "u-apiserver"), says(UP)),
        (event("Ready", "all components that it names are ready"),),
    ),
    Scene(
        "the status is written though a component is gone",
        doing(DeleteComponent(ETCD, MY_ETCD), of=UP),
        (DeleteComponent,),
        (deleted(ETCD_PATH, "u-etcd"), says(UP)),
        (event("Ready", "all components that it names are ready"),),
    ),
    Scene(
        "nothing is written where a plan is silent",
        doing(of=UP, silent=True),
        (),
        then=ended(Result.done()),
    ),
    Scene(
        "the status waits for the next pass",
        doing(AddFinalizer(), of=UP, wake=AT_ONCE, silent=True),
        (),
        (finalizers(FINALIZER),),
    ),
)
REFUSED = (
    Scene(
        "an endpoint that is refused is not told, and nothing comes after it",
        doing(PublishEndpoint(THERE), Adopt(ETCD, ORPHAN), of=UP, refused=(PATH, Forbidden("no"))),
        (),
        (published(),),
        error=Forbidden,
    ),
    Scene(
        "a component that has changed is not adopted, and the status waits",
        doing(Adopt(ETCD, read(ORPHAN, 7)), of=UP, there=((ETCD, ORPHAN),)),
        (),
        (adopted(ETCD_PATH, at(7, "u-etcd")),),
        error=Conflict,
    ),
    Scene(
        "a deletion that is refused leaves the next one undone",
        doing(
            DeleteComponent(ETCD, MY_ETCD),
            DeleteComponent(SERVER, MY_SERVER),
            there=BOTH,
            refused=(ETCD_PATH, Conflict("another uid")),
        ),
        (),
        (deleted(ETCD_PATH, "u-etcd"),),
        error=Conflict,
    ),
    Scene(
        "a process that does not lead any more has adopted nothing more",
        doing(
            Adopt(ETCD, ORPHAN),
            Adopt(SERVER, MY_SERVER),
            there=((ETCD, ORPHAN), BOTH[1]),
            refused=(SERVER_PATH, Deposed("no")),
        ),
        (),
        (adopted(ETCD_PATH, at(102, "u-etcd")), adopted(SERVER_PATH, at(103, "u-apiserver"))),
        error=Deposed,
    ),
    Scene(
        "a status that meets another version is told nobody",
        doing(of=seen(read(plane(spec=REACHED), 7))),
        (),
        (says(UP, 7),),
        error=Conflict,
    ),
    Scene(
        "a status of one that is gone is told nobody either",
        doing(of=UP, laid=False),
        (),
        (says(UP),),
        then=ended(Result.done()),
    ),
)
STATUSES = (
    Scene(
        "a status that is there already is not written again",
        doing(of=with_status(UP)),
        (),
        then=ended(Result.done()),
    ),
    Scene(
        "a paused one gets the condition that says so",
        doing(of=replace(UP, pause=Pause("by hand"))),
        (),
        (says(replace(UP, pause=Pause("by hand"))),),
    ),
    Scene(
        "a status that only says what is still waited for waits, and asks to come back",
        doing(of=with_status(DOWN, observed_generation=2)),
        (),
        then=ended(Result.later(WORDS_SECONDS)),
    ),
    Scene(
        "it falls asleep and says until when, without what has not ended",
        doing(of=with_status(ASLEEP, asleep=False)),
        (),
        (Write("PATCH", STATUS, {"status": {"asleep": True}, "metadata": at(101)}),),
        (event("Asleep", "it sleeps until 2030-01-01T08:00:00Z"),),
    ),
    Scene(
        "it wakes",
        doing(of=with_status(UP, asleep=True)),
        (),
        (Write("PATCH", STATUS, {"status": {"asleep": False}, "metadata": at(101)}),),
        (event("Waking", "its components start again, one after the other"),),
    ),
    Scene(
        "it is not ready any more, and says why",
        doing(of=with_status(DOWN, ready=True)),
        (),
        (Write("PATCH", STATUS, {"status": {"ready": False}, "metadata": at(101)}),),
        (event("NotReady", MISSING, warning=True),),
    ),
)
TOLD = (
    Scene(
        "it sleeps, and nothing of it runs",
        doing(of=with_status(ALL_ENDED, asleep=False)),
        (),
        (Write("PATCH", STATUS, {"status": {"asleep": True}, "metadata": at(101)}),),
        (event("Asleep", "it sleeps until 2030-01-01T08:00:00Z"),),
    ),
    Scene(
        "a component that another object controls is told",
        doing(of=with_status(CONFLICT, conditions=())),
        (),
        (Write("PATCH", STATUS, {"status": {"conditions": conditions(CONFLICT)}, "metadata": at(101)}),),
        (event("ComponentConflict", TAKEN, warning=True),),
    ),
    Scene(
        "it is not told again while it lasts",
        doing(of=with_status(CONFLICT, apiserver=None)),
        (),
        (says(with_status(CONFLICT, apiserver=None)),),
    ),
    Scene(
        "it is told again when it says something else",
        doing(of=with_status(CONFLICT, conditions=worded("ComponentConflict", "another"), apiserver=None)),
        (),
        (says(with_status(CONFLICT, conditions=worded("ComponentConflict", "another"), apiserver=None)),),
        (event("ComponentConflict", TAKEN, warning=True),),
    ),
    Scene(
        "it is told when the same words had another reason",
        doing(
            of=with_status(CONFLICT, conditions=worded("ComponentConflict", TAKEN, "Other"), apiserver=None)
        ),
        (),
        (
            says(
                with_status(CONFLICT, conditions=worded("ComponentConflict", TAKEN, "Other"), apiserver=None)
            ),
        ),
        (event("ComponentConflict", TAKEN, warning=True),),
    ),
    Scene(
        "that an endpoint is still waited for is told nobody",
        doing(of=seen(read(plane()))),
        (),
        (says(seen(read(plane()))),),
        (event("Ready", "all components that it names are ready"),),
    ),
    Scene(
        "a conflict that has ended is told nobody",
        doing(of=with_status(DOWN, conditions=status_of(CONFLICT).conditions)),
        (),
        (says(with_status(DOWN, conditions=status_of(CONFLICT).conditions)),),
    ),
    Scene(
        "an endpoint that the Cluster does not follow is told",
        doing(of=with_status(STUCK, conditions=())),
        (),
        (says(with_status(STUCK, conditions=())),),
        (event("EndpointMoved", STUCK.not_followed, warning=True),),
    ),
    Scene(
        "it is told once",
        doing(of=with_status(STUCK, apiserver=None)),
        (),
        (says(with_status(STUCK, apiserver=None)),),
    ),
    Scene(
        "a status that comes too soon after another waits for the rest of the time",
        twice(with_status(UP, asleep=True), with_status(UP, ready=False), after=0.125),
        (),
        (Write("PATCH", STATUS, {"status": {"asleep": False}, "metadata": at(101)}),),
        (event("Waking", "its components start again, one after the other"),),
        then=ended(Result.later(0.375)),
    ),
)
ACT = Act("controlplanes.plane.act", Step, (*STEPS, *ORDER, *REFUSED, *STATUSES, *TOLD))
