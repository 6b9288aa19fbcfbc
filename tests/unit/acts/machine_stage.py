"""The stage of scenes of Machines of MCM's API: both clusters, a cloud, and what a process has."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from msgspec import structs

from kubewright.api.core import NODE, SECRET
from kubewright.api.machine import names
from kubewright.api.machine.v1alpha1 import MACHINE, MACHINE_CLASS, Machine
from kubewright.base.clock import rfc3339
from kubewright.base.errors import KubewrightError
from kubewright.driver import hot
from kubewright.driver.contract import Instance
from kubewright.driver.life.calls import VmCalls
from kubewright.driver.life.seen import NOTHING, Verb, VmSeen
from kubewright.kube.patches import CONTESTS, Contests
from kubewright.machines.machine import act
from kubewright.machines.machine.act import TOKEN_NAMESPACE, token_name
from kubewright.machines.machine.memory import Memory, Moments, Notes, Request
from kubewright.machines.machine.seen import Call, Plan, Step, UpdateVm
from kubewright.nodes.drain.removals import Removals
from kubewright.runtime.lease import WHOLE
from kubewright.runtime.result import Result
from kubewright.testing.acts import Cloud, Happened, Told, at_rest, happened
from kubewright.testing.looks import Shelf, Write
from kubewright.testing.scenes import NOW, machine, minutes, node, seen
from kubewright.wire.errors import ApiError, Forbidden, is_refusal
from kubewright.wire.gvk import Key
from kubewright.wire.patch import apply_merge

from ..looks.of_machines import SETTINGS, WANTS_TOKEN, Machines, klass, user_data
from .of_infra_machines import Nothing

PATH = "/apis/machine.sapcloud.io/v1alpha1/namespaces/default/machines/m1"
NODE_PATH, STATUS = "/api/v1/nodes/m1", "/api/v1/nodes/m1/status"
ATTACHMENTS = "/apis/storage.k8s.io/v1/volumeattachments"
KEY = Key("default", "m1")
RUNNING, GOING = (
    machine("Running"),
    machine("Terminating", deleted=minutes(1), finalizers=("f", names.FINALIZER)),
)
TOKEN = Key(TOKEN_NAMESPACE, token_name("u1"))
TOKEN_PATH = f"/api/v1/namespaces/{TOKEN.namespace}/secrets/{TOKEN.name}"


IN_CACHE = structs.replace(node(), metadata=structs.replace(node().metadata, resource_version="101"))


@dataclass(frozen=True)
class Performed(Happened):
    """What else came of a plan.

    ``failed``  the step that ended it in a way that later decisions remember, and ``said`` how it was told;
                the error itself is ``error``
    ``done``    the uid of the machine, and each step that was told to have succeeded
    ``notes``   what the process remembers of the machine
    ``woken``   the keys that are to be looked at again, and why
    ``cloud``   the driver's; ``vm``: what is known of the machine's VM
    ``target``  the cluster of the nodes
    """

    failed: Step | str | None = "nothing failed"
    said: str = ""
    done: tuple[tuple[str, Step], ...] = ()
    notes: Notes = field(default_factory=Notes)
    woken: tuple[tuple[Key, str], ...] = ()
    cloud: Cloud = field(default_factory=Cloud)
    vm: VmSeen = NOTHING
    target: Shelf = field(default_factory=Shelf)


Does = Callable[[], Awaitable[tuple[Shelf, Performed]]]


class Remembering(Memory):
    """A memory that has these notes on each machine, lists what succeeded, and takes each silence for long."""

    def __init__(self, moments: Moments, notes: Notes, done: list[tuple[str, Step]]) -> None:
        super().__init__(moments, timedelta())
        self._given, self._done = notes, done

    def notes(self, machine: Machine, *, keep: bool) -> Notes:
        return self._given

    def note_failure(self, uid: str, request: Request) -> bool:
        return True

    def succeeded(self, uid: str, step: Step) -> None:
        self._done.append((uid, step))


class Stage:
    """Both clusters, which note their writes in one list, and what a process has."""

    def __init__(self, of: Machine, *, there: bool = True) -> None:
        self.control, self.target, self.told = Shelf(), Machines(), Told()
        self.target.writes = self.control.writes
        self.control.clock = self.target.clock
        self.of = structs.replace(of, metadata=structs.replace(of.metadata, resource_version="101"))
        if there:
            self.control.lay(MACHINE, self.of)
        self.cloud, self.notes = Cloud(), Notes()
        self.woken: list[tuple[Key, str]] = []
        self.done: list[tuple[str, Step]] = []
        self.said = ""
        self.failed: Step | str | None = "nothing failed"
        self.calls = VmCalls(self.cloud, self.target.clock, lambda key: self.wake(key, "the cloud answered"))
        self.removals = Removals(self.target.client)
        shared = Nothing(
            control=self.control.client,
            target=self.target.client,
            recorder=self.told,
            clock=self.target.clock,
            removals=self.removals,
            caches=self.target.in_caches,
            settings=SETTINGS,
            shard=WHOLE,
            volume_ids=None,
            console=None,
            hot_fields=None,
            one_clock=False,
        )
        self.actor = act.Machines(
            shared,
            self.calls,
            Remembering(Moments(self.target.client.steady()), self.notes, self.done),
            busy=lambda: False,
            wake=self.wake,
            performed=lambda _seen, _plan: None,
        )

    def wake(self, key: Key, why: str) -> None:
        self.woken.append((key, why))

    async def perform(self, plan: Plan, **sees: Any) -> Performed:
        """Perform, in the pass of a controller; what is in the background then comes to its end."""
        token = CONTESTS.set(Contests(self.target.clock.monotonic))
        try:
            found = await happened(self._perform(plan, sees), self.told)
        finally:
            CONTESTS.reset(token)
        await at_rest(self.calls, self.target.clock)
        await at_rest(self.removals, self.target.clock)
        return Performed(
            **vars(found),
            failed=self.failed,
            said=self.said,
            done=tuple(self.done),
            notes=self.notes,
            woken=tuple(self.woken),
            cloud=self.cloud,
            vm=self.calls.seen("u1"),
            target=self.target,
        )

    async def _perform(self, plan: Plan, sees: dict[str, Any]) -> Result:
        at = sees.pop("at", None)
        try:
            return await self.actor.carry_out(self.of, seen(self.of, at, **sees), plan)
        except act.WriteFailed as write:
            self.failed, self.said = write.refused.step, str(write.__cause__)
            raise (write.__cause__ or write) from None
        except ApiError as error:
            if is_refusal(error):
                self.failed, self.said = None, str(error)
            raise


def doing(
    *what: Step,
    of: Machine = RUNNING,
    there: bool = True,
    on_node: bool = True,
    node_now: Mapping[str, Any] | None = None,
    answers: Mapping[str, KubewrightError] | None = None,
    sees: Mapping[str, Any] | None = None,
    lays: tuple[tuple[Any, Any], ...] = (),
    known: str = "",
    **says: Any,
) -> Does:
    """These steps, in a plan that ``says`` more, for a machine and its node that were seen so. ``node_now``: what
    the node has become since, and the cache does not show yet."""

    async def act_() -> tuple[Shelf, Performed]:
        stage = Stage(of, there=there)
        if on_node:
            stage.target.lay(NODE, node())
        if node_now is not None:
            there_ = stage.target.objects[NODE_PATH]
            stage.target.objects[NODE_PATH] = apply_merge(there_, node_now)
        for kind, each in lays:
            stage.target.lay(kind, each)
        for shelf in (stage.control, stage.target):
            shelf.answers |= answers or {}
        stage.notes.topics = frozenset(known)
        return stage.control, await stage.perform(Plan(what, **says), **{"at": IN_CACHE, **(sees or {})})

    return act_


def calling(verb: Verb, *vms: Instance, **sees: Any) -> Does:
    """A call of the driver; the class wants user data with a bootstrap token."""

    async def act_() -> tuple[Shelf, Performed]:
        stage = Stage(machine("", vm=bool(vms)))
        await stage.target.put(MACHINE_CLASS, klass(secret="user-data"))
        await stage.target.put(SECRET, user_data(WANTS_TOKEN))
        stage.cloud.vms |= {each.provider_id: each for each in vms}
        left = VmSeen(last_known_state="new")
        return stage.control, await stage.perform(Plan((Call(verb),)), vm=left, inputs="these", **sees)

    return act_


def updating(annotations: Mapping[str, str], *, refused: bool = False) -> Does:
    """An update of the VM to one tag, from another; the server may refuse the mark."""

    async def act_() -> tuple[Shelf, Performed]:
        stage = Stage(machine("Running"))
        await stage.target.put(MACHINE_CLASS, klass(providerSpec={"tags": {"of": "the class"}}))
        if refused:
            stage.control.answers |= {PATH: Forbidden("no")}
        step = UpdateVm({"annotations": annotations}, {"tags": {"a": "1"}}, {"tags": {"b": "2"}})
        left = VmSeen(last_known_state="new")
        return stage.control, await stage.perform(Plan((step,)), vm=left, inputs="these")

    return act_


def updated(goal: Mapping[str, Any], before: Mapping[str, Any]) -> Callable[[Shelf, Any], None]:
    """The cloud was asked to make the VM so, of what it had before."""

    def then(shelf: Shelf, after: Performed) -> None:
        asked("update")(shelf, after)
        ((_, request),) = after.cloud.asked
        assert (request.machine_class.provider_spec, after.cloud.updates) == (goal, [before])
        assert hot.read(after.vm.applied) == goal
        assert after.vm.settled(Verb.UPDATE)

    return then


def none_asked(after: Performed) -> None:
    assert after.cloud.asked == []
    assert isinstance(after.failed, UpdateVm)


def patched(body: Mapping[str, Any], version: str = "101", *, status: bool = False) -> Write:
    """A patch of the machine, in this version."""
    meta = {**body.get("metadata", {}), "uid": "u1", "resourceVersion": version}
    return Write("PATCH", f"{PATH}/status" if status else PATH, {**body, "metadata": meta})


def on_node(body: Mapping[str, Any], *, status: bool = False, version: str = "") -> Write:
    """A patch of the node, if it still is the one that was seen, and in this version."""
    seen_as = {"uid": "n1", **({"resourceVersion": version} if version else {})}
    meta = {**body.get("metadata", {}), **seen_as}
    return Write("PATCH", STATUS if status else NODE_PATH, {**body, "metadata": meta}, strategic=status)


def deleted(path: str, uid: str) -> Write:
    options = {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": uid}}
    return Write("DELETE", path, options)


def says(**wanted: object) -> Callable[[Shelf, Any], None]:
    """Also this is so of what came of it."""

    def then(_shelf: Shelf, after: Performed) -> None:
        found = {name: getattr(after, name) for name in wanted}
        assert found == wanted

    return then


def asked(*verbs: str, until: timedelta | None = None) -> Callable[[Shelf, Any], None]:
    """The cloud was asked so; a token is good for so long."""

    def then(_shelf: Shelf, after: Performed) -> None:
        assert [verb for verb, _ in after.cloud.asked] == list(verbs)
        for _, request in after.cloud.asked:
            assert (request.name, request.machine_class.metadata.name) == ("m1", "small")
            assert request.last_known_state == "new"
        assert not after.cloud.in_a_pass, "a call outlives the pass, and what it writes is not counted in it"
        assert (after.vm.inputs, after.vm.running) == ("these", False)
        assert after.woken == ((KEY, "the cloud answered"),)
        tokens = [each for path, each in after.target.objects.items() if path == TOKEN_PATH]
        ends = [SECRET.from_plain(each).data["expiration"].decode() for each in tokens]
        assert ends == ([rfc3339(NOW + until)] if until is not None else [])

    return then


def gone(*paths: str, **wanted: object) -> Callable[[Shelf, Any], None]:
    """These are not on the nodes' server any more."""

    def then(shelf: Shelf, after: Performed) -> None:
        assert not set(paths) & set(after.target.objects)
        says(**wanted)(shelf, after)

    return then


def told_as(after: Performed, message: str) -> None:
    assert str(after.error) == message


def node_has(after: Performed, name: str, wanted: object) -> None:
    assert after.target.objects[NODE_PATH][name] == wanted


def guarded(after: Performed, *finalizers: str) -> None:
    """The node is there, with these finalizers, and no later look does without a live one."""
    assert after.target.objects[NODE_PATH]["metadata"]["finalizers"] == list(finalizers)
    assert (after.notes, after.failed) == (Notes(), "nothing failed")


def tried(after: Performed) -> None:
    ((uid, tried),) = after.notes.drain.tries.items()
    assert (uid, tried.failed, tried.last) == ("p1", 1, NOW)
    assert after.woken == ()
