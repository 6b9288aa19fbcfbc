"""Scenes of KubewrightMachines: what their act sends to the API server, and what it asks of the driver."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from msgspec import structs

from kubewright.api.cluster.v1beta1 import Condition
from kubewright.api.infra.names import (
    CLOUD_OWNER_ANNOTATION,
    MACHINE_COMPONENT,
    MACHINE_FINALIZER,
    EventReason,
)
from kubewright.api.infra.v1beta1 import KUBEWRIGHT_MACHINE, KubewrightMachine, KubewrightMachineStatus
from kubewright.api.meta import ObjectMeta
from kubewright.base.errors import KubewrightError
from kubewright.base.plan import Event
from kubewright.driver.contract import Instance
from kubewright.driver.life.calls import VmCalls
from kubewright.driver.life.seen import NOTHING, ConsoleSeen, Verb, VmSeen
from kubewright.infra.machine import seen as steps
from kubewright.infra.machine.act import InfraMachines
from kubewright.infra.machine.seen import Seen
from kubewright.infra.settings import InfraSettings
from kubewright.kube.errors import Deposed
from kubewright.kube.patches import CONTESTS, Contests
from kubewright.runtime.result import Result
from kubewright.testing.acts import NOT_SERVED, Act, Cloud, Happened, Scene, Told, at_rest, happened
from kubewright.testing.clocks import BEGIN
from kubewright.testing.looks import Shelf, Write
from kubewright.wire.errors import Conflict, Forbidden, NotFound
from kubewright.wire.gvk import Key

from ..looks import of_infra_machines as looks

PATH = "/apis/infrastructure.cluster.x-k8s.io/v1beta1/namespaces/n/kubewrightmachines/m"
SEEN = {"uid": "u", "resourceVersion": "101"}
VM = Instance("sim:///here/vm-1", "m", addresses=(("InternalIP", "10.0.0.7"),))
WAITS = Condition(
    type="VMReady", status="False", severity="Info", reason="VMCreating", message="it is being made"
)
MADE = Event(EventReason.VM_CREATED, "VM vm-1 was created")
WRONG = Event(EventReason.FAILED_CREATE_VM, "no VM can be made", warning=True)
META = ObjectMeta(name="m", namespace="n", uid="u", resource_version="101", generation=4)


class Nothing:
    """What an act does not need for these steps."""

    def __init__(self, **what: object) -> None:
        self.__dict__ |= what


def performer(shelf: Shelf, looker: Any, calls: VmCalls, told: Told) -> InfraMachines:
    caches = Nothing(machines=shelf.caches.get(KUBEWRIGHT_MACHINE))
    shared = Nothing(control=shelf.client, clock=shelf.clock, recorder=told, caches=caches)
    return InfraMachines(shared, looker, calls, shelf.clock)


def doing(
    *what: steps.Step,
    finalizers: tuple[str, ...] = (),
    status: KubewrightMachineStatus | None = None,
    answers: Mapping[str, KubewrightError] | None = None,
    there: bool = True,
    seen: Mapping[str, Any] | None = None,
    **says: Any,
) -> Callable[[], Awaitable[tuple[Shelf, Happened]]]:
    """These steps, in a plan that ``says`` more, for a machine that was seen so."""

    async def act_() -> tuple[Shelf, Happened]:
        shelf, told = Shelf(), Told()
        shelf.clock.passed = 30
        of = KubewrightMachine(
            metadata=structs.replace(META, finalizers=finalizers), status=status or KubewrightMachineStatus()
        )
        if there:
            shelf.lay(KUBEWRIGHT_MACHINE, of)
        shelf.answers |= answers or {}
        calls = VmCalls(Cloud(), shelf.clock, lambda _key: None)
        found = Seen(machine=of, settings=InfraSettings(), now=BEGIN, **(seen or {}))
        return shelf, await happened(
            performer(shelf, None, calls, told).carry_out(of, found, steps.Plan(what, **says)), told
        )

    return act_


@dataclass(frozen=True)
class Called(Happened):
    """What came of a call: the cloud, what is known of the VM, and which keys were woken."""

    cloud: Cloud = field(default_factory=Cloud)
    vm: VmSeen = NOTHING
    console: ConsoleSeen | None = None
    woken: tuple[Key, ...] = ()


def calling(verb: Verb, **vms: Instance) -> Callable[[], Awaitable[tuple[Shelf, Happened]]]:
    """A call of the driver, in the pass of a controller; it ends after the pass."""

    async def act_() -> tuple[Shelf, Happened]:
        machines, told, woken = looks.Machines(), Told(), []
        machines.clock.passed = 30
        of = structs.replace(
            looks.machine(driver="sim"), status=KubewrightMachineStatus(last_known_state="old")
        )
        of = structs.replace(of, metadata=structs.replace(of.metadata, resource_version="105"))
        cloud = Cloud({each.provider_id: each for each in vms.values()})
        calls = VmCalls(cloud, machines.clock, woken.append)
        for kind, each in (
            looks.owner("data"),
            looks.cluster(),
            looks.infrastructure(),
            looks.secret("data", value="Ym9vdA=="),
        ):
            await machines.put(kind, each)
        machines.lay(KUBEWRIGHT_MACHINE, of)
        actor = performer(machines, machines.looker, calls, told)
        left = VmSeen(last_known_state="new")
        seen = Seen(machine=of, settings=InfraSettings(), now=BEGIN, vm=left, inputs="these")
        token = CONTESTS.set(Contests(machines.clock.monotonic))
        try:
            found = await happened(actor.carry_out(of, seen, steps.Plan((steps.Call(verb),))), told)
        finally:
            CONTESTS.reset(token)
        assert calls.busy("m"), "it waits for no driver"
        await at_rest(calls, machines.clock)
        return machines, Called(**vars(found), cloud=cloud, vm=calls.seen("m"), woken=tuple(woken))

    return act_


async def reading() -> tuple[Shelf, Happened]:
    """The console of a machine's VM is read, and that has ended."""
    cloud, told, woken, ended = Cloud(), Told(), list[Key](), asyncio.Event()

    def on_done(key: Key) -> None:
        woken.append(key)
        ended.set()

    machines = looks.Machines(driver=cloud)
    calls = VmCalls(cloud, machines.clock, on_done)
    for kind, each in (looks.owner("data"), looks.cluster(), looks.infrastructure()):
        await machines.put(kind, each)
    actor = performer(machines, machines.looker, calls, told)
    seen = Seen(machine=looks.machine(), settings=InfraSettings(), now=BEGIN)
    token = CONTESTS.set(Contests(machines.clock.monotonic))
    try:
        found = await happened(
            actor.carry_out(seen.machine, seen, steps.Plan((steps.ReadConsole(), steps.ReadConsole()))), told
        )
    finally:
        CONTESTS.reset(token)
    assert calls.console("m") is None, "it waits for no driver"
    await ended.wait()
    return machines, Called(**vars(found), cloud=cloud, console=calls.console("m"), woken=tuple(woken))


def _was_read(_shelf: Shelf, after: Any) -> None:
    ((verb, request),) = after.cloud.asked
    assert (verb, request.name, request.secret.data) == ("console", "m", {})
    assert not after.cloud.in_a_pass
    assert (after.console, after.woken) == (ConsoleSeen(BEGIN, "panic"), (Key("n", "m"),))


LEFT = Write(
    "PATCH",
    f"{PATH}/status",
    {"status": {"lastKnownState": "new"}, "metadata": {"uid": "m", "resourceVersion": "105"}},
)


def called(*verbs: str, data: str = "") -> Callable[[Shelf, Any], None]:
    """The cloud was asked so, from the machine and its data as they are, with what it left for this call."""

    def then(_shelf: Shelf, after: Any) -> None:
        assert [verb for verb, _ in after.cloud.asked] == list(verbs)
        for _, request in after.cloud.asked:
            assert (request.name, request.namespace, request.last_known_state) == ("m", "n", "new")
            assert request.secret.data.get("userData", b"").decode() == data
        assert not after.cloud.in_a_pass, "a call outlives the pass, and what it writes is not counted in it"
        assert (after.vm.inputs, after.vm.running, after.woken) == ("these", False, (Key("n", "m"),))
        assert after.outcome == Result.done()

    return then


def result(after: float | None) -> Callable[[Shelf, Happened], None]:
    """The pass ends well, and the next one comes then."""

    def then(_shelf: Shelf, happened: Happened) -> None:
        assert happened.outcome == Result(after)

    return then


def patch(body: Mapping[str, Any], version: str = "101", *, status: bool = False) -> Write:
    meta = {**body.get("metadata", {}), "uid": "u", "resourceVersion": version}
    return Write("PATCH", f"{PATH}/status" if status else PATH, {**body, "metadata": meta})


def report(version: str = "101") -> Write:
    """The status that tells of what the machine waits for."""
    told = {"type": "VMReady", "status": "False", "severity": "Info", "reason": "VMCreating"}
    dated = {**told, "message": "it is being made", "lastTransitionTime": "2030-01-01T00:00:30Z"}
    return patch(
        {"status": {"conditions": [{**dated, "type": "Ready"}, dated], "observedGeneration": 4}},
        version,
        status=True,
    )


RECORDED = patch({"spec": {"providerID": "sim:///here/vm-1"}})
ADDED = patch(
    {"metadata": {"annotations": {CLOUD_OWNER_ANNOTATION: "me"}, "finalizers": ["f", MACHINE_FINALIZER]}}
)
ADD = steps.AddFinalizer("me")
RECORD = steps.Record(VM)
OURS = ("f", MACHINE_FINALIZER)
TOLD = (("m", "VMCreated", "VM vm-1 was created", False),)

ACT = Act(
    "infra.machine.act",
    steps.Step,
    (
        Scene(
            "the finalizer, with the owner of what is in the cloud",
            doing(ADD, finalizers=("f",)),
            (steps.AddFinalizer,),
            (ADDED,),
            then=result(None),
        ),
        Scene("a VM is put on record", doing(RECORD), (steps.Record,), (RECORDED,)),
        Scene(
            "a VM is put on record with its place",
            doing(steps.Record(VM, "a")),
            (steps.Record,),
            (patch({"spec": {"providerID": "sim:///here/vm-1", "failureDomain": "a"}}),),
        ),
        Scene(
            "the finalizer is taken off, and the others stay",
            doing(steps.RemoveFinalizer(), finalizers=OURS),
            (steps.RemoveFinalizer,),
            (patch({"metadata": {"finalizers": ["f"]}}),),
        ),
        Scene(
            "the last finalizer is taken off, and the machine goes: no status is written any more",
            doing(steps.RemoveFinalizer(), finalizers=(MACHINE_FINALIZER,), report=WAITS, event=MADE),
            (steps.RemoveFinalizer,),
            (patch({"metadata": {"finalizers": None}}),),
            then=result(None),
        ),
        Scene(
            "the finalizer of a machine that is gone is off",
            doing(steps.RemoveFinalizer(), finalizers=OURS, there=False, event=MADE),
            (steps.RemoveFinalizer,),
            (patch({"metadata": {"finalizers": ["f"]}}),),
            TOLD,
        ),
        Scene(
            "a 404 that does not name the machine is no proof that it is gone",
            doing(steps.RemoveFinalizer(), finalizers=OURS, answers={PATH: NOT_SERVED}, event=MADE),
            (steps.RemoveFinalizer,),
            (patch({"metadata": {"finalizers": ["f"]}}),),
            error=NotFound,
        ),
        Scene(
            "another version than the one that was seen keeps its finalizer",
            doing(steps.RemoveFinalizer(), finalizers=OURS, answers={PATH: Conflict("changed")}, event=MADE),
            (steps.RemoveFinalizer,),
            (patch({"metadata": {"finalizers": ["f"]}}),),
            error=Conflict,
        ),
        Scene(
            "the status is written onto the version that the steps have made, and told",
            doing(RECORD, report=WAITS, event=MADE, wake=timedelta(seconds=7)),
            (steps.Record,),
            (RECORDED, report("102")),
            TOLD,
            then=result(7.0),
        ),
        Scene(
            "each step and the status name the version that the one before has made",
            doing(steps.AddFinalizer("me"), RECORD, steps.Call(Verb.LOOK), finalizers=("f",), report=WAITS),
            (steps.AddFinalizer, steps.Record, steps.Call),
            (ADDED, patch({"spec": {"providerID": "sim:///here/vm-1"}}, "102"), report("103")),
        ),
        Scene(
            "a status that says nothing new is not written, and nothing is told",
            doing(
                report=WAITS,
                event=MADE,
                status=KubewrightMachineStatus(
                    observed_generation=4,
                    conditions=tuple(
                        structs.replace(WAITS, type=each, last_transition_time=BEGIN)
                        for each in ("Ready", "VMReady")
                    ),
                ),
            ),
            (),
        ),
        Scene(
            "a plan without a report tells its event, and leaves the status",
            doing(event=WRONG),
            (),
            (),
            (("m", "FailedCreateVM", "no VM can be made", True),),
            then=lambda _shelf, happened: _sources(happened, {MACHINE_COMPONENT}),
        ),
        Scene(
            "a paused machine's status is left alone, and nothing is told",
            doing(report=WAITS, event=MADE, seen={"paused": True}),
            (),
        ),
        Scene(
            "what the driver left for its next call is put on record without a report",
            doing(seen={"vm": VmSeen(last_known_state="halfway")}),
            (),
            (patch({"status": {"lastKnownState": "halfway"}}, status=True),),
        ),
        Scene(
            "a step that the server refuses ends the pass: what comes after it is neither done nor told",
            doing(ADD, RECORD, finalizers=("f",), answers={PATH: Forbidden("no")}, report=WAITS, event=MADE),
            (steps.AddFinalizer, steps.Record),
            (ADDED,),
            error=Forbidden,
        ),
        Scene(
            "no VM is asked for that could not be kept by a finalizer",
            doing(ADD, steps.Call(Verb.ENSURE), finalizers=("f",), answers={PATH: Deposed("it is over")}),
            (steps.AddFinalizer, steps.Call),
            (ADDED,),
            error=Deposed,
        ),
        Scene(
            "a machine that is gone has no VM put on record",
            doing(RECORD, there=False, report=WAITS),
            (steps.Record,),
            (RECORDED,),
            error=NotFound,
        ),
        Scene(
            "a status that is refused is told by its error, not by an event",
            doing(RECORD, report=WAITS, event=MADE, answers={f"PATCH {PATH}/status": Forbidden("no")}),
            (steps.Record,),
            (RECORDED, report("102")),
            error=Forbidden,
        ),
        Scene(
            "a VM is asked for after the pass, with its data",
            calling(Verb.ENSURE),
            (steps.Call,),
            (LEFT,),
            then=called("status", "create", data="boot"),
        ),
        Scene(
            "a VM is looked for after the pass",
            calling(Verb.LOOK),
            (steps.Call,),
            (LEFT,),
            then=called("status"),
        ),
        Scene("a console is read once, after the pass", reading, (steps.ReadConsole,), (), then=_was_read),
        Scene(
            "a VM is deleted after the pass",
            calling(Verb.DELETE, there=Instance("sim:///here/m", "m", "m")),
            (steps.Call,),
            (LEFT,),
            then=called("delete"),
        ),
    ),
)


def _sources(happened: Happened, wanted: set[str]) -> None:
    assert happened.sources == wanted
