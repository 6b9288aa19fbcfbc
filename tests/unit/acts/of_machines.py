"""Scenes of Machines of MCM's API: what their act sends to both API servers, and what it asks of the driver."""

from datetime import timedelta
from unittest.mock import ANY

from msgspec import structs

from kubewright.api.core import SECRET, Secret
from kubewright.api.machine import names
from kubewright.api.machine.names import EventReason, OperationState, OperationType, Phase
from kubewright.api.machine.v1alpha1 import LastOperation
from kubewright.api.meta import ObjectMeta
from kubewright.api.storage import VOLUME_ATTACHMENT, VolumeAttachment
from kubewright.base.clock import rfc3339
from kubewright.driver.contract import Instance
from kubewright.driver.errors import Code
from kubewright.driver.life.seen import Verb
from kubewright.kube.errors import Deposed, Silent
from kubewright.machines.machine import act
from kubewright.machines.machine.act import token_description
from kubewright.machines.machine.memory import Notes
from kubewright.machines.machine.seen import (
    AddFinalizer,
    Annotate,
    Attachment,
    Begun,
    Call,
    Cordon,
    DeleteBootstrapToken,
    DeleteMachine,
    DeleteNode,
    DeleteVolumeAttachments,
    Drain,
    EndPreservation,
    Milestone,
    Record,
    Refused,
    RemoveFinalizer,
    Report,
    SetDrainFailedCondition,
    SetPreservationMarks,
    SetPreservedCondition,
    SetTerminatingCondition,
    SetUpdateCondition,
    Step,
    SyncCapacity,
    SyncNode,
    UpdateVm,
)
from kubewright.nodes.drain.plan import DrainPlan
from kubewright.testing.acts import NOT_SERVED, Act, Scene
from kubewright.testing.looks import Write
from kubewright.testing.scenes import NOW, POD, READY, SILENT, VM, machine, minutes, node
from kubewright.wire.errors import Conflict, Forbidden, NotFound, ServerError, TooManyRequests

from ..looks.of_machines import SETTINGS
from .machine_stage import (
    ATTACHMENTS,
    GOING,
    KEY,
    NODE_PATH,
    PATH,
    RUNNING,
    TOKEN,
    TOKEN_PATH,
    asked,
    calling,
    deleted,
    doing,
    gone,
    guarded,
    node_has,
    none_asked,
    on_node,
    patched,
    says,
    told_as,
    tried,
    updated,
    updating,
)
from .of_infra_machines import result

ITS_TOKEN = Secret(
    metadata=ObjectMeta(name=TOKEN.name, namespace=TOKEN.namespace, uid="t1"),
    data={"description": token_description("m1").encode()},
)


def attachment(name: str) -> VolumeAttachment:
    return VolumeAttachment(metadata=ObjectMeta(name=name, uid=f"uid-{name}"))


MARK, CONDITION = {"metadata": {"labels": {"a": "b"}}}, {"status": {"conditions": [{"type": "A"}]}}
MARKS = (SyncNode, SetPreservationMarks, Cordon)
CONDITIONS = (
    SyncCapacity,
    SetPreservedCondition,
    SetUpdateCondition,
    SetTerminatingCondition,
    SetDrainFailedCondition,
)
NO_A = {"annotations": {"a": None}}
ADD = AddFinalizer({"finalizers": ["x"], "annotations": {"p": "3"}})
ADDED = patched({"metadata": {"finalizers": ["x"], "annotations": {"p": "3"}}})
RECORD = Record(VM)
RECORDED = patched({"metadata": {"labels": {"node": "m1"}}, "spec": {"providerID": "sim:///here/vm-1"}})
RELEASE = RemoveFinalizer()
RELEASED = patched({"metadata": {"finalizers": ["f"]}})
END = EndPreservation("it is over")
ENDED = patched({"status": {"currentStatus": {"preserveExpiryTime": None}}}, status=True)
DELETE = DeleteNode("m1", "n1")
FREE = DeleteNode("m1", "n1", ("g",), "101")
FREED = on_node({"metadata": {"finalizers": ["g"]}}, version="101")
CORDON = Cordon(MARK)
TAINTS = {"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}}
TAINT = SyncNode({**TAINTS, "metadata": {"resourceVersion": "101"}})
CORDONED = {"spec": {"unschedulable": True}}
UNSCHEDULABLE = Cordon({**CORDONED, "metadata": {"resourceVersion": "101"}})
OTHER_TAINTS = {
    "metadata": {"resourceVersion": "1000"},
    "spec": {"providerID": VM.provider_id, "taints": [{"key": "o", "effect": "NoExecute"}]},
}
FAILED = Report(Phase.FAILED, OperationType.HEALTH_CHECK, OperationState.FAILED, "it is ill")
TOLD = (("m1", "DeletionTriggered", "it is ill", False),)
OVER = Milestone(EventReason.DELETION_TRIGGERED, "it is ill")
WARNING = (EventReason.FAILED_DRAIN, "a pod stays")
WARNED = (("m1", "FailedDrain", "a pod stays", True),)
ATTACHED = tuple(Attachment(name, f"uid-{name}") for name in ("v", "w"))
DETACHED = tuple(deleted(f"{ATTACHMENTS}/{name}", f"uid-{name}") for name in ("v", "w"))
EVICTED = Write(
    "POST",
    "/api/v1/namespaces/default/pods/web/eviction",
    {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": "web", "namespace": "default"},
        "deleteOptions": {"preconditions": {"uid": "p1"}},
    },
)


def failed(version: str = "101") -> Write:
    """The status that says that the machine has failed."""
    return patched(
        {
            "status": {
                "lastOperation": {
                    "description": "it is ill",
                    "lastUpdateTime": rfc3339(NOW),
                    "state": "Failed",
                    "type": "HealthCheck",
                },
                "currentStatus": {"phase": "Failed", "lastUpdateTime": rfc3339(NOW)},
            }
        },
        version,
        status=True,
    )


def refusal(step: Step | None, left: timedelta) -> Refused:
    return Refused(step, "no", Code.PermissionDenied, NOW + left)


PRESERVED = structs.replace(
    RUNNING,
    metadata=structs.replace(
        RUNNING.metadata, annotations={**RUNNING.metadata.annotations, names.PRESERVE_ANNOTATION: "now"}
    ),
)
UNTIL = NOW + SETTINGS.preserve_timeout
_ILL = machine(
    "Failed",
    operation=LastOperation(
        description="it is ill", state="Failed", type="HealthCheck", last_update_time=NOW
    ),
)
ILL = structs.replace(_ILL, status=structs.replace(_ILL.status, conditions=(READY,)))

OF_THE_MACHINE = (
    Scene("its finalizer and its priority", doing(ADD), (AddFinalizer,), (ADDED,), then=result(None)),
    Scene(
        "its own annotations",
        doing(Annotate(NO_A)),
        (Annotate,),
        (patched({"metadata": NO_A}),),
    ),
    Scene("its VM is put on record", doing(RECORD), (Record,), (RECORDED,)),
    Scene(
        "its preservation ends, and the status is written onto the version that this has made",
        doing(END, report=FAILED),
        (EndPreservation,),
        (ENDED, failed("102")),
        (("m1", "PreservationEnded", "it is over", False),),
    ),
    Scene(
        "a preservation that does not end is not told",
        doing(END, answers={PATH: Conflict("changed")}),
        (EndPreservation,),
        (ENDED,),
        error=Conflict,
    ),
    Scene(
        "it is deleted, as the one that was seen",
        doing(DeleteMachine("it is ill")),
        (DeleteMachine,),
        (deleted(PATH, "u1"),),
        TOLD,
    ),
    Scene(
        "what is new of its node is not written onto a machine that was just deleted: that has made a version",
        doing(DeleteMachine("it is ill"), sees={"at": node(SILENT)}),
        (DeleteMachine,),
        (deleted(PATH, "u1"),),
        TOLD,
        then=result(None),
    ),
    Scene(
        "its deletion is no event when it is gone",
        doing(DeleteMachine("it is ill"), there=False),
        (DeleteMachine,),
        (deleted(PATH, "u1"),),
        then=result(None),
    ),
    Scene(
        "another machine of its name is not deleted",
        doing(DeleteMachine("it is ill"), of=RUNNING, answers={PATH: Conflict("another uid")}),
        (DeleteMachine,),
        (deleted(PATH, "u1"),),
        error=Conflict,
    ),
    Scene(
        "its token and its finalizer go, and then its status is left alone",
        doing(
            DeleteBootstrapToken(),
            RELEASE,
            of=GOING,
            lays=((SECRET, ITS_TOKEN),),
            report=FAILED,
            milestone=OVER,
        ),
        (DeleteBootstrapToken, RemoveFinalizer),
        (deleted(TOKEN_PATH, "t1"), RELEASED),
        then=gone(TOKEN_PATH, done=(("u1", DeleteBootstrapToken()), ("u1", RELEASE))),
    ),
    Scene(
        "a token that never was is none to delete",
        doing(DeleteBootstrapToken()),
        (DeleteBootstrapToken,),
    ),
    Scene(
        "the finalizer of a machine that is gone is off",
        doing(RELEASE, of=GOING, there=False, milestone=OVER),
        (RemoveFinalizer,),
        (RELEASED,),
        TOLD,
    ),
    Scene(
        "the last finalizer",
        doing(RELEASE),
        (RemoveFinalizer,),
        (patched({"metadata": {"finalizers": []}}),),
    ),
)

OF_CALLS = (
    Scene(
        "its VM is asked for after the pass, with a token for the time that it has to join",
        calling(Verb.ENSURE),
        (Call,),
        (
            patched({"status": {"lastKnownState": "new"}}, status=True),
            Write("POST", "/api/v1/namespaces/kube-system/secrets", ANY),
        ),
        then=asked("status", "create", until=SETTINGS.creation_timeout),
    ),
    Scene(
        "a token is good until the creation ends, where that is later",
        calling(Verb.ENSURE, begun=Begun(created=NOW + minutes(5))),
        (Call,),
        (
            patched({"status": {"lastKnownState": "new"}}, status=True),
            Write("POST", "/api/v1/namespaces/kube-system/secrets", ANY),
        ),
        then=asked("status", "create", until=SETTINGS.creation_timeout + minutes(5)),
    ),
    Scene(
        "its VM is looked for after the pass",
        calling(Verb.LOOK),
        (Call,),
        (patched({"status": {"lastKnownState": "new"}}, status=True),),
        then=asked("status"),
    ),
    Scene(
        "its VM is deleted after the pass",
        calling(Verb.DELETE, Instance("sim:///here/m1", "m1")),
        (Call,),
        (patched({"status": {"lastKnownState": "new"}}, status=True),),
        then=asked("delete"),
    ),
    Scene(
        "its VM is updated after the pass, when the mark is written",
        updating({names.UPDATE_ANNOTATION: "hash"}),
        (UpdateVm,),
        (
            patched({"metadata": {"annotations": {names.UPDATE_ANNOTATION: "hash"}}}),
            patched({"status": {"lastKnownState": "new"}}, "102", status=True),
        ),
        then=updated({"tags": {"a": "1"}}, {"tags": {"b": "2"}}),
    ),
    Scene(
        "a mark that is there is not written again",
        updating({}),
        (UpdateVm,),
        (patched({"status": {"lastKnownState": "new"}}, status=True),),
        then=updated({"tags": {"a": "1"}}, {"tags": {"b": "2"}}),
    ),
    Scene(
        "without the mark no driver is called",
        updating({names.UPDATE_ANNOTATION: "hash"}, refused=True),
        (UpdateVm,),
        (patched({"metadata": {"annotations": {names.UPDATE_ANNOTATION: "hash"}}}),),
        error=Forbidden,
        then=lambda _shelf, after: none_asked(after),
    ),
    Scene(
        "what a new VM has of its class is recorded with it",
        doing(Record(VM, {names.APPLIED_SPEC_ANNOTATION: "{}"}), of=machine("", vm=False)),
        (Record,),
        (
            patched(
                {
                    "metadata": {
                        "labels": {names.NODE_LABEL: "m1"},
                        "annotations": {names.APPLIED_SPEC_ANNOTATION: "{}"},
                    },
                    "spec": {"providerID": VM.provider_id},
                }
            ),
        ),
    ),
)

OF_THE_NODE = (
    *(
        Scene(f"{kind.__name__}: the node that was seen", doing(kind(MARK)), (kind,), (on_node(MARK),))
        for kind in MARKS
    ),
    *(
        Scene(
            f"{kind.__name__}: the status of the node that was seen",
            doing(kind(CONDITION)),
            (kind,),
            (on_node(CONDITION, status=True),),
        )
        for kind in CONDITIONS
    ),
    Scene(
        "taints are written onto the version that the step before has made, in which they are the same",
        doing(SyncCapacity(CONDITION), TAINT, UNSCHEDULABLE),
        (SyncCapacity, SyncNode, Cordon),
        (on_node(CONDITION, status=True), on_node(TAINTS, version="102"), on_node(CORDONED, version="103")),
        then=says(done=(("u1", SyncCapacity(CONDITION)), ("u1", TAINT), ("u1", UNSCHEDULABLE))),
    ),
    Scene(
        "a heartbeat since is no reason to look again at taints, which are the same",
        doing(SyncCapacity(CONDITION), TAINT, node_now={"metadata": {"resourceVersion": "1000"}}),
        (SyncCapacity, SyncNode),
        (on_node(CONDITION, status=True), on_node(TAINTS, version="102")),
    ),
    Scene(
        "taints that another client has written since stay",
        doing(SyncCapacity(CONDITION), TAINT, node_now=OTHER_TAINTS),
        (SyncCapacity, SyncNode),
        (on_node(CONDITION, status=True), on_node(TAINTS, version="101")),
        error=Conflict,
        then=lambda _shelf, after: node_has(after, "spec", OTHER_TAINTS["spec"]),
    ),
    Scene(
        "taints that another client has written after the first step stay",
        doing(CORDON, TAINT, UNSCHEDULABLE, node_now={"spec": {"unschedulable": True}}),
        (Cordon, SyncNode),
        (on_node(MARK), on_node(TAINTS, version="101")),
        error=Conflict,
    ),
    Scene(
        "a node that is gone ends the pass until the cache shows it",
        doing(CORDON, RECORD, on_node=False),
        (Cordon, Record),
        (on_node(MARK),),
        error=act.NodeGone,
        then=lambda _shelf, after: told_as(after, "node m1 is gone, and the cache does not show it yet"),
    ),
    Scene(
        "its pods are asked to leave, and others when these have answered",
        doing(Drain(DrainPlan(evict=(POD,), more=True))),
        (Drain,),
        (EVICTED,),
        then=says(
            woken=((KEY, "its pods have been asked to leave"),),
            done=(("u1", Drain(DrainPlan(evict=(POD,), more=True))),),
        ),
    ),
    Scene(
        "a pod that may not leave yet is remembered",
        doing(
            Drain(DrainPlan(evict=(POD,))),
            answers={"/api/v1/namespaces/default/pods/web/eviction": TooManyRequests("a budget")},
        ),
        (Drain,),
        (EVICTED,),
        then=lambda _shelf, after: tried(after),
    ),
    Scene(
        "VolumeAttachments are deleted",
        doing(
            DeleteVolumeAttachments(ATTACHED),
            lays=tuple((VOLUME_ATTACHMENT, attachment(name)) for name in ("v", "w")),
        ),
        (DeleteVolumeAttachments,),
        DETACHED,
        then=gone(f"{ATTACHMENTS}/v", f"{ATTACHMENTS}/w"),
    ),
    Scene(
        "a VolumeAttachment that is gone does not keep the next one",
        doing(DeleteVolumeAttachments(ATTACHED), lays=((VOLUME_ATTACHMENT, attachment("w")),)),
        (DeleteVolumeAttachments,),
        DETACHED,
        then=gone(f"{ATTACHMENTS}/w"),
    ),
    Scene(
        "the node is deleted, and it is remembered that no live look is due for its VM",
        doing(DELETE, of=GOING),
        (DeleteNode,),
        (deleted(NODE_PATH, "n1"),),
        then=gone(NODE_PATH, notes=Notes(vm_checked_after_deletion="sim:///here/vm-1")),
    ),
    Scene(
        "MCM's finalizer goes before the node",
        doing(FREE, of=GOING),
        (DeleteNode,),
        (FREED, deleted(NODE_PATH, "n1")),
        then=gone(NODE_PATH),
    ),
    Scene(
        "MCM's finalizer was the last one",
        doing(DeleteNode("m1", "n1", (), "101"), of=GOING),
        (DeleteNode,),
        (on_node({"metadata": {"finalizers": None}}, version="101"), deleted(NODE_PATH, "n1")),
    ),
    Scene(
        "a finalizer that another client has put on the node since stays, and so does the node",
        doing(
            FREE,
            of=GOING,
            node_now={
                "metadata": {"finalizers": ["g", names.NODE_FINALIZER, "h"], "resourceVersion": "1000"}
            },
        ),
        (DeleteNode,),
        (FREED,),
        error=Conflict,
        then=lambda _shelf, after: guarded(after, "g", names.NODE_FINALIZER, "h"),
    ),
    Scene(
        "a node that is gone is deleted",
        doing(FREE, DELETE, of=GOING, on_node=False),
        (DeleteNode,),
        (FREED, deleted(NODE_PATH, "n1")),
        then=says(done=(("u1", FREE), ("u1", DELETE))),
    ),
    Scene(
        "another node of its name is not deleted",
        doing(DeleteNode("m1", "n0"), of=GOING),
        (DeleteNode,),
        (deleted(NODE_PATH, "n0"),),
        error=Conflict,
        then=says(notes=Notes(), failed="nothing failed"),
    ),
)

OF_REFUSALS = (
    Scene(
        "a step that is refused for good is named, what came before it is done, and nothing after it",
        doing(CORDON, RECORD, END, answers={f"PATCH {PATH}": Forbidden("no")}, report=FAILED),
        (Cordon, Record, EndPreservation),
        (on_node(MARK), RECORDED),
        error=Forbidden,
        then=says(failed=RECORD, said="no", done=(("u1", CORDON),)),
    ),
    *(
        Scene(
            f"{type(step).__name__}: a node that was made again under its name is no refusal, in {what}",
            doing(step, RECORD, of=of, node_now={"metadata": {"uid": "n2"}}),
            (type(step), Record),
            (write,),
            error=Conflict,
            then=says(failed="nothing failed", done=()),
        )
        for what, of in (("a life", RUNNING), ("a deletion", GOING))
        for step, write in (
            (CORDON, on_node(MARK)),
            (SyncCapacity(CONDITION), on_node(CONDITION, status=True)),
            (FREE, FREED),
        )
    ),
    *(
        Scene(
            f"{type(step).__name__}: a 404 that does not name the object is no proof that it is gone",
            doing(step, of=GOING, answers={path: NOT_SERVED}, lays=((VOLUME_ATTACHMENT, attachment("v")),)),
            (type(step),),
            tuple(writes),
            error=NotFound,
            then=says(
                done=(),
                notes=Notes(),
                failed="nothing failed" if path == PATH else step,  # the nodes' server has not answered
            ),
        )
        for step, path, *writes in (
            (RELEASE, PATH, RELEASED),
            (DeleteMachine("it is ill"), PATH, deleted(PATH, "u1")),
            (DeleteVolumeAttachments(ATTACHED), f"{ATTACHMENTS}/v", DETACHED[0]),
            (DELETE, NODE_PATH, deleted(NODE_PATH, "n1")),
            (FREE, NODE_PATH, FREED),
            (CORDON, NODE_PATH, on_node(MARK)),
            (DeleteBootstrapToken(), TOKEN_PATH),
        )
    ),
    Scene(
        "a conflict is no refusal",
        doing(RECORD, answers={f"PATCH {PATH}": Conflict("changed")}, report=FAILED),
        (Record,),
        (RECORDED,),
        error=Conflict,
        then=says(failed="nothing failed"),
    ),
    *(
        Scene(
            f"{kind.__name__}: that the node's server does not answer is remembered of a deletion ({type(error).__name__})",
            doing(step, of=GOING, answers={path: error}),
            (kind,),
            (write,) if write is not None else (),
            error=type(error),
            then=says(failed=step),
        )
        for error in (Silent("no answer"), ServerError("it is broken"))
        for kind, step, path, write in (
            (Cordon, CORDON, NODE_PATH, on_node(MARK)),
            (DeleteNode, DELETE, NODE_PATH, deleted(NODE_PATH, "n1")),
            (DeleteBootstrapToken, DeleteBootstrapToken(), TOKEN_PATH, None),
        )
    ),
    Scene(
        "that the node's server does not answer ends the pass of a living machine",
        doing(CORDON, answers={NODE_PATH: Silent("no answer")}),
        (Cordon,),
        (on_node(MARK),),
        error=Silent,
        then=says(failed="nothing failed"),
    ),
    Scene(
        "that the machine's own server does not answer is not remembered of a deletion",
        doing(RELEASE, of=GOING, answers={PATH: Deposed("it is over")}),
        (RemoveFinalizer,),
        (RELEASED,),
        error=Deposed,
        then=says(failed="nothing failed"),
    ),
    Scene(
        "the status is refused for good",
        doing(report=FAILED, answers={f"PATCH {PATH}/status": Forbidden("no")}, milestone=OVER),
        (),
        (failed(),),
        error=Forbidden,
        then=says(failed=None),
    ),
    Scene(
        "the status cannot be written for now, in a deletion too",
        doing(report=FAILED, of=GOING, answers={f"PATCH {PATH}/status": Silent("no answer")}),
        (),
        (
            patched(
                {
                    "status": {
                        "lastOperation": failed().body["status"]["lastOperation"],
                        "currentStatus": failed().body["status"]["currentStatus"],
                    }
                },
                status=True,
            ),
        ),
        error=Silent,
        then=says(failed="nothing failed"),
    ),
    Scene(
        "a status that was refused a moment ago rests, and is not told",
        doing(RECORD, report=FAILED, sees={"refused": (refusal(None, minutes(1)),)}, milestone=OVER),
        (Record,),
        (RECORDED,),
        then=says(done=(("u1", RECORD),)),
    ),
    Scene(
        "a status that was refused long ago is written again",
        doing(report=FAILED, sees={"refused": (refusal(None, -minutes(1)),)}, milestone=OVER),
        (),
        (failed(),),
        TOLD,
    ),
)

OF_WHAT_IS_TOLD = (
    Scene(
        "a status that says something new is told",
        doing(report=FAILED, milestone=OVER, warning=WARNING, wake=timedelta(seconds=7)),
        (),
        (failed(),),
        (*TOLD, *WARNED),
        then=result(7.0),
    ),
    Scene(
        "a status that says nothing new is not told",
        doing(of=ILL, report=FAILED, milestone=OVER, warning=WARNING, on_node=False),
        (),
    ),
    Scene(
        "a plan without a report is told", doing(milestone=OVER, warning=WARNING), (), (), (*TOLD, *WARNED)
    ),
    Scene(
        "a milestone that most machines pass quickly is no event",
        doing(milestone=Milestone(EventReason.DELETION_TRIGGERED, "it is ill", event=False)),
        (),
    ),
    Scene(
        "a warning whose topics are all known is not repeated",
        doing(warning=WARNING, known="ab", topics=frozenset("ab")),
        (),
        then=says(notes=Notes(topics=frozenset("ab"))),
    ),
    Scene(
        "a warning with a new topic is told, and the topic is known from now on",
        doing(warning=WARNING, known="ab", topics=frozenset("bc")),
        (),
        (),
        WARNED,
        then=says(notes=Notes(topics=frozenset("abc"))),
    ),
    Scene(
        "a preservation that begins is told",
        doing(of=PRESERVED),
        (),
        (patched({"status": {"currentStatus": {"preserveExpiryTime": rfc3339(UNTIL)}}}, status=True),),
        (("m1", "MachinePreserved", f"The machine is preserved until {rfc3339(UNTIL)}", False),),
    ),
)


ACT = Act(
    "machines.machine.act",
    Step,
    (*OF_THE_MACHINE, *OF_CALLS, *OF_THE_NODE, *OF_REFUSALS, *OF_WHAT_IS_TOLD),
)
