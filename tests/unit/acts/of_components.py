"""Scenes of components of control planes: what their act asks of a host and an etcd, writes, and tells."""

from collections.abc import Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

from msgspec import structs

from kubewright.api.cluster.names import CLUSTER_NAME_LABEL
from kubewright.api.controlplane.names import COMPONENT_REPORTER, FINALIZER, Phase
from kubewright.api.controlplane.v1alpha4 import NESTED_API_SERVER, NestedAPIServerSpec
from kubewright.api.diff import merge_patch
from kubewright.base import delays
from kubewright.base.errors import After, InvalidInput, KubewrightError
from kubewright.controlplanes import members
from kubewright.controlplanes.caches import Caches
from kubewright.controlplanes.component import act
from kubewright.controlplanes.component.decide import (
    AddFinalizer,
    Apply,
    ChangeMembers,
    KeepCertificates,
    Plan,
    Remove,
    RemoveFinalizer,
    Replace,
    Reserve,
    Step,
)
from kubewright.controlplanes.component.look import ComponentSetup
from kubewright.controlplanes.component.policies import API_SERVER
from kubewright.controlplanes.component.seen import Seen
from kubewright.controlplanes.component.status import status_of
from kubewright.controlplanes.etcd import NoAnswer
from kubewright.controlplanes.family import Pause
from kubewright.controlplanes.hosting.contract import EMBEDDED, Hosts, Running, Workload, WorkloadIdentity
from kubewright.kube.errors import Deposed
from kubewright.runtime.kernel import Outcome
from kubewright.runtime.sessions.session import Session
from kubewright.testing.acts import Act, Happened, Scene, Told, happened
from kubewright.testing.looks import Shelf, Write
from kubewright.wire.errors import Conflict, Forbidden
from kubewright.wire.gvk import Key

from ..controlplanes.component_views import (
    PLACE,
    RUNNING,
    WAITING,
    instance,
    running,
    with_meta,
    workload,
)

PATH = "/apis/controlplane.cluster.x-k8s.io/v1alpha4/namespaces/team/nestedapiservers/front"
KEY = Key("team", "front")
ACCESS: Any = "with keys"
LEARNER = members.AddLearner("demo-etcd-1", "https://peer")


class Full(KubewrightError):
    """A host has no room."""

    retry = After(7.0)


@dataclass
class Around:
    """What the act asks besides the API server, as it is afterwards.

    ``runs``      what should run, by host: how many of which version
    ``reserved``  for what addresses were reserved
    ``anew``      the instances that were started anew
    ``gone``      what was removed, and whether its data was kept
    ``members``   the changes of the members of etcd
    ``made``      for which components certificates were made
    """

    runs: list[str] = field(default_factory=list)
    reserved: list[str] = field(default_factory=list)
    anew: list[str] = field(default_factory=list)
    gone: list[tuple[str, bool]] = field(default_factory=list)
    members: list[str] = field(default_factory=list)
    made: list[str] = field(default_factory=list)


@dataclass
class Place:
    """A host. ``has``: the workload that it has something of; ``fails``: what it answers."""

    name: str
    around: Around
    has: WorkloadIdentity | None = None
    fails: KubewrightError | None = None

    def status(self, identity: WorkloadIdentity) -> Running:
        return Running(exists=identity == self.has)

    def _answer(self) -> None:
        if self.fails is not None:
            raise self.fails

    def must_reserve(self, _workload: Workload) -> bool:
        return True

    async def reserve(self, of: Workload) -> None:
        self._answer()
        self.around.reserved.append(f"{self.name}: {of.identity.workload}")

    async def apply(self, of: Workload) -> None:
        self._answer()
        self.around.runs.append(f"{self.name}: {of.replicas} of {of.version}")

    async def replace(self, identity: WorkloadIdentity, ordinal: int) -> None:
        self._answer()
        self.around.anew.append(f"{self.name}: {identity.instance(ordinal)}")

    async def remove(self, identity: WorkloadIdentity, *, keep_data: bool) -> None:
        self._answer()
        self.around.gone.append((f"{self.name}: {identity.workload}", keep_data))


@dataclass
class Etcd:
    """The members of an etcd, and the keeper of certificates."""

    around: Around
    access: object = None
    fails: KubewrightError | None = None

    async def perform(self, what: Any) -> None:
        if self.fails is not None:
            raise self.fails
        if isinstance(what, Seen):
            self.around.made.append(what.component.name)
        else:
            self.around.members.append(f"{self.access}: {what}")


class Watched(Shelf):
    """A server that notes, whenever it is asked, whether the act says that it writes this status."""

    actor: act.Components | None = None
    known = False

    async def handle(self, request: Any) -> Any:
        self.known = self.actor is not None and self.actor.writing == {KEY}
        return await super().handle(request)


class Stage:
    """The reconciler, and all that it works with.

    ``holds``    the host that has something of the workload
    ``fails``    what hosts, etcd and keeper answer; ``refused``: the API server
    ``leads``    for how many steps this process leads
    """

    def __init__(
        self,
        *,
        holds: str = "programs",
        fails: KubewrightError | None = None,
        refused: KubewrightError | None = None,
        leads: int = 99,
    ) -> None:
        self.around, self.shelf, self.told = Around(), Watched(), Told()
        self.fails, self.leads = fails, leads
        places: dict[str, Any] = {
            name: Place(name, self.around, PLACE if name == holds else None, fails)
            for name in ("embedded", "programs")
        }
        keeper, catalog = Etcd(self.around, None, fails), {}
        setup = ComponentSetup(Hosts(**places), catalog, "", keeper, self.connect, self.entitled)
        session: Any = Session(self.shelf.client, self.shelf.caches)
        environment: Any = SimpleNamespace(control=session, recorder=self.told)
        caches = Caches(self.shelf.caches)
        self.actor = self.shelf.actor = act.Components(API_SERVER, environment, caches, setup)
        if refused is not None:
            self.shelf.answers[PATH] = refused

    def entitled(self) -> bool:
        self.leads -= 1
        return self.leads >= 0

    @asynccontextmanager
    async def connect(self, access: object):
        yield Etcd(self.around, access, self.fails)


def read(view: Seen, version: str = "101", **changes: Any) -> Seen:
    """The same, as it is on a new shelf."""
    meta = {"resource_version": version, **changes}
    return replace(view, component=with_meta(view.component, **meta))


HERE = replace(read(RUNNING), access=ACCESS)


def doing(*steps: Step, of: Seen = HERE, laid: bool = True, **stage: Any) -> Callable[[], Any]:
    """A plan, performed; the outcome is what was asked of others than the API server."""

    async def act_() -> tuple[Shelf, Happened]:
        on = Stage(**stage)
        if laid:
            on.shelf.lay(NESTED_API_SERVER, structs.replace(of.component, metadata=with_version(of)))
        came = await happened(on.actor.perform(of, Plan(steps), Outcome(of.component.metadata)), on.told)
        assert on.told.sources <= {COMPONENT_REPORTER}
        return on.shelf, replace(came, outcome=on.around)

    return act_


def with_version(of: Seen) -> Any:
    """Its metadata without a version: the shelf gives it one."""
    return structs.replace(of.component.metadata, resource_version="")


def reporting(*views: Seen, forgets: bool = False, laid: bool = True, **stage: Any) -> Callable[[], Any]:
    """Statuses of one process, one after the other, each of a component that was read anew."""

    async def act_() -> tuple[Shelf, Happened]:
        on = Stage(**stage)
        if laid:
            on.shelf.lay(NESTED_API_SERVER, views[0].component)
        for view in views:
            of = view.component
            came = await happened(on.actor.report(of, view, Plan(), Outcome(of.metadata)), on.told)
            assert on.told.sources <= {COMPONENT_REPORTER}
            assert on.shelf.known or not on.shelf.writes
            assert not on.actor.writing
            if forgets:
                on.actor.forget(KEY, of.metadata.uid)
                on.actor.forget(KEY, of.metadata.uid)  # nothing is known of it any more
        return on.shelf, came

    return act_


def asked(**what: object) -> Callable[[Shelf, Happened], None]:
    """What was asked of others, and nothing else."""

    def check(_shelf: Shelf, found: Happened) -> None:
        assert found.outcome == Around(**what)

    return check


def failed(message: str, retry: object, **what: object) -> Callable[[Shelf, Happened], None]:
    """What the error says, how it is tried again, and what was asked of others before."""

    def check(shelf: Shelf, found: Happened) -> None:
        assert (str(found.error), found.error.retry) == (message, retry)
        asked(**what)(shelf, found)

    return check


def event(reason: str, message: str, *, warning: bool = False) -> tuple[str, str, str, bool]:
    return ("front", reason, message, warning)


def patch(metadata: dict[str, Any]) -> Write:
    """A write onto its metadata."""
    return Write("PATCH", PATH, {"metadata": {**metadata, "uid": "a", "resourceVersion": "101"}})


def says(view: Seen) -> Write:
    """The write of its status."""
    written = merge_patch(view.component.status, status_of(view))
    version = view.component.metadata.resource_version
    body = {"status": written, "metadata": {"uid": "a", "resourceVersion": version}}
    return Write("PATCH", f"{PATH}/status", body)


ONE, TWO, INSIDE = workload(), workload(replicas=2), workload(EMBEDDED)
BARE = read(WAITING, finalizers=("x",), labels={})
FINISHED = patch({"finalizers": ["x", FINALIZER], "labels": {CLUSTER_NAME_LABEL: "demo"}})
ONE_RUNS = event("Applied", "1 instance of version 1.36.3 should run")
BEGINS = event("ReplacingInstance", "demo-apiserver-0 is replaced by one with what the spec says now")
JOINED = event("MembersChanged", str(LEARNER))

STEPS = (
    Scene(
        "its finalizer is put beside that of another, with the label of its cluster",
        doing(AddFinalizer("demo"), of=BARE),
        (AddFinalizer,),
        (FINISHED,),
        then=asked(),
    ),
    Scene(
        "its finalizer goes, and that of another stays",
        doing(RemoveFinalizer(), of=read(WAITING, finalizers=("x", FINALIZER))),
        (RemoveFinalizer,),
        (patch({"finalizers": ["x"]}),),
        then=asked(),
    ),
    Scene(
        "its finalizer goes, and the object is gone already",
        doing(RemoveFinalizer(), laid=False),
        (RemoveFinalizer,),
        (patch({"finalizers": None}),),
        then=asked(),
    ),
    Scene(
        "certificates are made, without asking whether this process leads",
        doing(KeepCertificates(()), leads=0),
        (KeepCertificates,),
        then=asked(made=["front"]),
    ),
    Scene(
        "addresses are reserved by the host of its version",
        doing(Reserve(ONE), Reserve(INSIDE)),
        (Reserve,),
        then=asked(reserved=["programs: demo-apiserver", "embedded: demo-apiserver"]),
    ),
    Scene(
        "what should run is told to the host of its version",
        doing(Apply(ONE), Apply(INSIDE), Apply(TWO)),
        (Apply,),
        (),
        (
            ONE_RUNS,
            event("Applied", "1 instance of version embedded should run"),
            event("Applied", "2 instances of version 1.36.3 should run"),
        ),
        then=asked(runs=["programs: 1 of 1.36.3", "embedded: 1 of embedded", "programs: 2 of 1.36.3"]),
    ),
    Scene(
        "an instance is started anew by the host that has it",
        doing(Replace(0), holds="embedded"),
        (Replace,),
        (),
        (BEGINS,),
        then=asked(anew=["embedded: demo-apiserver-0"]),
    ),
    Scene(
        "an instance that no host has is not started anew, and nobody is told",
        doing(Replace(0), holds=""),
        (Replace,),
        then=asked(),
    ),
    Scene(
        "members of etcd are changed with the credentials that were found",
        doing(ChangeMembers(LEARNER)),
        (ChangeMembers,),
        (),
        (JOINED,),
        then=asked(members=[f"with keys: {LEARNER}"]),
    ),
    Scene(
        "what runs is removed, and its data is kept",
        doing(Remove(keep_data=True)),
        (Remove,),
        then=asked(gone=[("programs: demo-apiserver", True)]),
    ),
    Scene(
        "what runs is removed with its data",
        doing(Remove(keep_data=False), holds="embedded"),
        (Remove,),
        then=asked(gone=[("embedded: demo-apiserver", False)]),
    ),
    Scene(
        "what no host has is not removed", doing(Remove(keep_data=False), holds=""), (Remove,), then=asked()
    ),
)
FULL, SILENT = Full("no room"), NoAnswer("no member answers")
REFUSED = (
    Scene(
        "a host that fails to apply ends the plan, and what it says is tried again as it says",
        doing(Apply(ONE), RemoveFinalizer(), fails=FULL),
        (),
        error=act.HostFailed,
        then=failed("no room", Full.retry),
    ),
    Scene(
        "a host that fails to reserve ends the plan",
        doing(Reserve(ONE), RemoveFinalizer(), fails=FULL),
        (),
        error=act.HostFailed,
        then=failed("no room", Full.retry),
    ),
    Scene(
        "a program that is missing on the host's machine is looked for again: no object changes with it",
        doing(Apply(ONE), fails=InvalidInput("there is no etcd of version 9")),
        (),
        error=act.HostFailed,
        then=failed("there is no etcd of version 9", delays.MEDIUM),
    ),
    Scene(
        "an instance that could not be started anew is told nobody",
        doing(Replace(0), RemoveFinalizer(), fails=FULL),
        (),
        error=act.HostFailed,
        then=failed("no room", Full.retry),
    ),
    Scene(
        "the finalizer stays while a host fails to remove",
        doing(Remove(keep_data=False), RemoveFinalizer(), fails=FULL),
        (),
        error=act.HostFailed,
        then=failed("no room", Full.retry),
    ),
    Scene(
        "a host on a server that refuses fails as a host, not as our own write",
        doing(Apply(ONE), fails=Forbidden("no")),
        (),
        error=act.HostFailed,
        then=failed("no", Forbidden.retry),
    ),
    Scene(
        "members that do not answer are changed in no event, and tried again as a host that fails",
        doing(ChangeMembers(LEARNER), RemoveFinalizer(), fails=SILENT),
        (),
        error=act.HostFailed,
        then=failed("no member answers", NoAnswer.retry),
    ),
    Scene(
        "certificates that the API server refuses end the plan with its own answer",
        doing(KeepCertificates(()), Apply(ONE), fails=Forbidden("no")),
        (),
        error=Forbidden,
        then=failed("no", Forbidden.retry),
    ),
    Scene(
        "a finalizer that meets another version ends the plan before the host is asked",
        doing(AddFinalizer("demo"), Apply(ONE), of=read(BARE, "7")),
        (),
        (replace(FINISHED, body={"metadata": {**FINISHED.body["metadata"], "resourceVersion": "7"}}),),
        error=Conflict,
        then=asked(),
    ),
    Scene(
        "a process that leads no more asks no host",
        doing(KeepCertificates(()), Reserve(ONE), Apply(ONE), leads=1),
        (),
        error=Deposed,
        then=failed(
            "Apply of front: we do not lead any more",
            Deposed.retry,
            made=["front"],
            reserved=["programs: demo-apiserver"],
        ),
    ),
    Scene(
        "a process that leads no more changes no members",
        doing(ChangeMembers(LEARNER), leads=0),
        (),
        error=Deposed,
        then=failed("ChangeMembers of front: we do not lead any more", Deposed.retry),
    ),
)


def with_replicas(of: Any, replicas: int) -> Any:
    return structs.replace(of, spec=structs.replace(of.spec, replicas=replicas))


def was(view: Seen, **status: Any) -> Seen:
    """The same, of a component whose status says what it should but for ``status``."""
    before = structs.replace(status_of(view), **status)
    return replace(view, component=structs.replace(view.component, status=before))


UP = read(RUNNING)
ROLLING = replace(UP, running=running(instance(of=workload("1.35.1"), ready=False), of=ONE))
BROKEN = replace(UP, problem="its spec is wrong")
OFTEN = replace(UP, problem="its spec is as wrong as ever")
IGNORED = "spec.channel test is ignored, because spec.version is 1.36.3"
BOTH_SAID = replace(
    UP, component=structs.replace(UP.component, spec=NestedAPIServerSpec(version="1.36.3", channel="test"))
)
REPORTS = (
    Scene(
        "the first status is written, and that it is ready is told",
        reporting(UP),
        (),
        (says(UP),),
        (event("Ready", "1 instance of version 1.36.3 ready"),),
    ),
    Scene("a status that is there already is not written again", reporting(was(UP)), ()),
    Scene(
        "a status that meets another version is told nobody",
        reporting(read(BROKEN, "7")),
        (),
        (says(read(BROKEN, "7")),),
        error=Conflict,
    ),
    Scene(
        "a problem is told once while it lasts",
        reporting(was(BROKEN), was(BROKEN)),
        (),
        (),
        (event("Problem", "its spec is wrong", warning=True),),
    ),
    Scene(
        "another problem is told, and so is the first when it comes back",
        reporting(was(BROKEN), was(OFTEN), was(BROKEN)),
        (),
        (),
        (
            event("Problem", "its spec is wrong", warning=True),
            event("Problem", "its spec is as wrong as ever", warning=True),
            event("Problem", "its spec is wrong", warning=True),
        ),
    ),
    Scene(
        "a problem is told again of another object with its name",
        reporting(was(BROKEN), was(read(BROKEN, uid="b"))),
        (),
        (),
        (event("Problem", "its spec is wrong", warning=True),) * 2,
    ),
    Scene(
        "a problem of an object that is gone is forgotten",
        reporting(was(BROKEN), was(BROKEN), forgets=True),
        (),
        (),
        (event("Problem", "its spec is wrong", warning=True),) * 2,
    ),
    Scene(
        "a channel beside a version is told once",
        reporting(was(BOTH_SAID), was(BOTH_SAID), was(BOTH_SAID)),
        (),
        (),
        (event("ChannelIgnored", IGNORED, warning=True),),
    ),
    Scene(
        "a paused one gets the condition that says so, and old problems are not told as new ones",
        reporting(replace(was(BROKEN), pause=Pause("by hand"))),
        (),
        (says(replace(was(BROKEN), pause=Pause("by hand"))),),
    ),
    Scene(
        "one that is ready no more is told with the reason",
        reporting(was(replace(UP, running=running(instance(ready=False))), ready=True)),
        (),
        (
            Write(
                "PATCH",
                f"{PATH}/status",
                {"status": {"ready": False}, "metadata": {"uid": "a", "resourceVersion": "101"}},
            ),
        ),
        (event("NotReady", "ready instances: 0 of 1", warning=True),),
    ),
)
ASLEEP = replace(UP, running=Running(), component=with_replicas(UP.component, 0))
SLEEPING = event("Sleeping", "it has no instance, as its spec says")
REPORTS += (
    Scene(
        "one that has no instance any more is told as asleep, not as one that fails",
        reporting(was(ASLEEP, ready=True, phase=Phase.READY)),
        (),
        (says(was(ASLEEP, ready=True, phase=Phase.READY)),),
        (SLEEPING,),
    ),
    Scene(
        "one that sleeps on is not told again",
        reporting(was(ASLEEP, healthy=False)),
        (),
        (says(was(ASLEEP, healthy=False)),),
    ),
    Scene(
        "one that is being made anew is not told as one that fails",
        reporting(was(ROLLING, ready=True)),
        (),
        (says(was(ROLLING, ready=True)),),
    ),
)
ACT = Act("controlplanes.component.act", Step, (*STEPS, *REFUSED, *REPORTS))
