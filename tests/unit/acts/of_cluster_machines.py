"""Scenes of Machines of Cluster API: what their act writes in the management and in the workload cluster."""

from base64 import b64encode
from collections.abc import Callable
from contextlib import AsyncExitStack
from datetime import datetime, timedelta
from typing import Any

from kubewright.api.cluster.names import MACHINE_FINALIZER
from kubewright.api.cluster.v1beta1 import MACHINE
from kubewright.api.core import POD, SECRET, Secret
from kubewright.api.meta import ObjectMeta, OwnerReference
from kubewright.base.errors import After, KubewrightError
from kubewright.base.plan import Plan
from kubewright.clusters.external.object import External, look_up
from kubewright.clusters.machine import act, seen
from kubewright.clusters.machine.act import WorkloadRemovals
from kubewright.clusters.machine.look import CALLS_PER_CLUSTER, ClusterBusy, WorkloadCalls
from kubewright.clusters.node import CLUSTER_NODE
from kubewright.nodes.drain.plan import DrainPlan
from kubewright.runtime.kernel import Outcome
from kubewright.runtime.sessions.session import NotConnected
from kubewright.testing.acts import NOT_SERVED, Act, Happened, Scene, Told, all_ended, happened, laid
from kubewright.testing.clocks import BEGIN
from kubewright.testing.looks import Shelf, Write
from kubewright.wire.errors import Conflict, Forbidden, Invalid, NotFound
from kubewright.wire.gvk import Key

from ..looks.of_cluster_machines import CONFIG, INFRA, KEY, Machines, Providers, machine
from .of_infra_machines import Nothing

MACHINE_PATH = "/apis/cluster.x-k8s.io/v1beta1/namespaces/n/machines/m"
FOO = "/apis/infrastructure.cluster.x-k8s.io/v1beta1/namespaces/n/foos/m"
SECRETS, NODE_PATH = "/api/v1/namespaces/n/secrets", "/api/v1/nodes/node-1"
SEEN = {"uid": "m", "resourceVersion": "101"}
OTHERS = "example.com/mine"
CLUSTER, EARLIER = Key("n", "c"), BEGIN - timedelta(seconds=3)
CLAIM = {"metadata": {"ownerReferences": [], "uid": "foo", "resourceVersion": "1"}}
DRAINED = POD.from_plain({"metadata": {"name": "p", "namespace": "d", "uid": "pod"}})


class Stage(Machines):
    """Both clusters. ``writes`` has those in the workload cluster, too; ``woken``: who was woken, and why.

    ``saw``: what a look after the pass has seen.
    """

    saw: seen.Seen | None = None

    def __init__(self) -> None:
        super().__init__(Providers({}))
        self.workload.writes = self.writes
        self.woken: list[tuple[Key, str]] = []

    def subscribe(self, _listener: object) -> Callable[[], None]:
        return lambda: None


def external(ref: Any, uid: str = "foo") -> External:
    return look_up(Providers({ref.kind: {"metadata": {"name": ref.name, "uid": uid}}}), KEY, ref)


def doing(
    *what: seen.Step,
    finalizers: tuple[str, ...] = (),
    there: tuple[tuple[Any, Any], ...] = (),
    refused: dict[str, KubewrightError] | None = None,
    overtaken: bool = False,
    away: bool = False,
    calls: int = 0,
    before: str = "",
):
    """``there``: what else stands on the server. ``overtaken``: another client has written the Machine since.

    ``away``: the workload cluster is not connected. ``calls``: so many other passes call it. ``before``: why
    the Node could not be deleted in the pass before.
    """

    async def act_() -> tuple[Shelf, Happened]:
        shelf = Stage()
        of = laid(shelf, MACHINE, machine(meta={"finalizers": list(finalizers)}))
        shelf.objects[FOO] = {"metadata": {"name": "m", "uid": "foo", "resourceVersion": "1"}}
        shelf.workload.objects["/api/v1/namespaces/d/pods/p"] = POD.to_plain(DRAINED)
        for kind, each in there:
            shelf.lay(kind, each)
        if overtaken:
            shelf.lay(MACHINE, of)
        await shelf.workload.put(CLUSTER_NODE, NODE_SEEN)
        shelf.away = away
        shelf.looker.notes("m").node_error = before
        shelf.looker.notes("m").node_error_since = EARLIER if before else None
        shelf.answers |= refused or {}
        shelf.workload.answers |= refused or {}
        others = WorkloadCalls(shelf.clock)
        told = Told()
        async with AsyncExitStack() as stack:
            for _ in range(calls):
                await stack.enter_async_context(others.to(CLUSTER))
            saw = seen.Seen(of, BEGIN, BEGIN, external(INFRA))
            found = await happened(performed(shelf, told, saw, others, *what), told)
        await all_ended()
        return shelf, found

    return act_


async def performed(
    shelf: Stage, told: Any, saw: seen.Seen, calls: WorkloadCalls, *steps: seen.Step
) -> Outcome:
    """What has come of these steps."""
    environment = Nothing(control=Nothing(client=shelf.client), recorder=told)
    machines = act.Machines(
        environment,
        shelf.in_caches.machines,
        shelf.looker,
        shelf,
        calls,
        removals=WorkloadRemovals(shelf),
        wake=lambda key, why: shelf.woken.append((key, why)),
    )
    outcome = Outcome(saw.machine.metadata)
    await machines.perform(saw, Plan(steps), outcome)
    return outcome


def went(
    *errors: type[KubewrightError], gone: bool = False, **failed: str
) -> Callable[[Shelf, Happened], None]:
    """The errors that the outcome has, what the status shall say, and whether the Machine is gone."""

    def then(_shelf: Shelf, found: Happened) -> None:
        outcome = found.outcome
        assert isinstance(outcome, Outcome)
        assert [type(each) for each in outcome.errors] == list(errors)
        assert (outcome.shown, outcome.gone) == (failed, gone)

    return then


def node_error(
    said: str, since: datetime | None, *others: Callable[[Shelf, Happened], None]
) -> Callable[[Shelf, Happened], None]:
    """What is remembered of the deletion of the Node."""

    def then(shelf: Shelf, found: Happened) -> None:
        for each in others:
            each(shelf, found)
        notes = shelf.looker.notes("m")
        assert (notes.node_error, notes.node_error_since) == (said, since)

    return then


def no_cache_has_the_node(shelf: Shelf, _found: Happened) -> None:
    assert shelf.workload.caches.get(CLUSTER_NODE).get(Key("", "node-1")) is None


def tries_again_later(_shelf: Shelf, found: Happened) -> None:
    """No event tells when the name is free, so the pass comes back by itself."""
    (error,) = found.outcome.errors
    assert error.retry == After(30)


def looks_again_when_its_pods_have_been_asked(shelf: Shelf, found: Happened) -> None:
    went()(shelf, found)
    assert shelf.woken == [(KEY, "its pods have been asked to leave")]


def remembers_who_refused(shelf: Shelf, found: Happened) -> None:
    went()(shelf, found)
    (tried,) = shelf.looker.notes("m").drain.tries.items()
    assert (tried[0], tried[1].last) == ("pod", BEGIN)
    assert shelf.woken == []


def patch(**what: Any) -> Write:
    return Write("PATCH", MACHINE_PATH, {**what, "metadata": {**what.get("metadata", {}), **SEEN}})


def deletion(path: str, uid: str) -> Write:
    return Write("DELETE", path, {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": uid}})


def data_secret(*owners: OwnerReference) -> tuple[Any, Any]:
    return SECRET, Secret(metadata=ObjectMeta(name="m-data", namespace="n", owner_references=owners))


def owner(name: str, uid: str, *, controls: bool = True) -> OwnerReference:
    return OwnerReference(
        api_version="cluster.x-k8s.io/v1beta1", kind="Machine", name=name, uid=uid, controller=controls
    )


def text(plain: str) -> str:
    return b64encode(plain.encode()).decode()


STORED = Write(
    "POST",
    SECRETS,
    {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": "m-data",
            "labels": {"cluster.x-k8s.io/cluster-name": "c"},
            "ownerReferences": [
                {
                    "apiVersion": "cluster.x-k8s.io/v1beta1",
                    "kind": "Machine",
                    "name": "m",
                    "uid": "m",
                    "controller": True,
                }
            ],
        },
        "type": "cluster.x-k8s.io/secret",
        "data": {"value": text("boot"), "format": text("cloud-config")},
    },
)
STORE, UPDATE = seen.StoreData("m-data", "boot"), seen.UpdateMachine({"metadata": {"labels": {"x": "y"}}})
UPDATED = patch(metadata={"labels": {"x": "y"}})
CLAIMS = seen.Claim("infrastructure", external(INFRA), CLAIM)
CLAIMED = Write("PATCH", FOO, CLAIM)
NODE_SEEN = CLUSTER_NODE.from_plain({"metadata": {"name": "node-1", "uid": "node"}})
OLDER_NODE = CLUSTER_NODE.from_plain({"metadata": {"name": "node-1", "uid": "older"}})
CORDON = seen.PatchNode(NODE_SEEN, {"spec": {"unschedulable": True}})
CORDONED = Write("PATCH", NODE_PATH, {"spec": {"unschedulable": True}, "metadata": {"uid": "node"}})
DELETE_NODE = seen.DeleteNode("node-1", "node")
NODE_DELETED = deletion(NODE_PATH, "node")
TAKEN = "delete or rename it, or name it in spec.bootstrap.dataSecretName"
EVICTED = Write(
    "POST",
    "/api/v1/namespaces/d/pods/p/eviction",
    {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": "p", "namespace": "d"},
        "deleteOptions": {"preconditions": {"uid": "pod"}},
    },
)
QUOTED = Invalid("data.value: Invalid value: boot")
DELETED = (("m", "Deleted", "Machine m has been deleted", False),)
ACT = Act(
    "clusters.machine.act",
    seen.Step,
    (
        Scene("nothing is to be done", doing(), (), then=went()),
        Scene(
            "its data move into a Secret that it owns, and then the Machine is written",
            doing(STORE, UPDATE),
            (seen.StoreData, seen.UpdateMachine),
            (STORED, UPDATED),
            then=went(),
        ),
        Scene(
            "an earlier pass has stored its data already",
            doing(STORE, UPDATE, there=(data_secret(owner("m", "m")),)),
            (seen.StoreData, seen.UpdateMachine),
            (STORED, UPDATED),
            then=went(),
        ),
        Scene(
            "the Secret is another's: the data stay in the Machine",
            doing(STORE, UPDATE, there=(data_secret(owner("other", "o")),)),
            (seen.StoreData,),
            (STORED,),
            then=went(
                act.SecretTaken,
                machine=f"could not write Secret m-data: it is there, and Machine other controls it; {TAKEN}",
            ),
        ),
        Scene(
            "the Secret is nobody's: the data stay in the Machine",
            doing(STORE, UPDATE, there=(data_secret(owner("m", "m", controls=False)),)),
            (seen.StoreData,),
            (STORED,),
            then=went(
                act.SecretTaken,
                machine=f"could not write Secret m-data: it is there, and no object controls it; {TAKEN}",
            ),
        ),
        Scene(
            "a Secret that is in the way is tried again later",
            doing(STORE, there=(data_secret(),)),
            (seen.StoreData,),
            (STORED,),
            then=tries_again_later,
        ),
        Scene(
            "the Secret is refused: what the server says of it is not repeated",
            doing(STORE, UPDATE, refused={SECRETS: QUOTED}),
            (seen.StoreData,),
            (STORED,),
            then=went(Invalid, machine="could not write Secret m-data: the server answered 422 Invalid"),
        ),
        Scene(
            "the Machine has changed since: the pass ends, and nobody is told",
            doing(UPDATE, CLAIMS, overtaken=True),
            (seen.UpdateMachine,),
            (UPDATED,),
            then=went(Conflict),
        ),
        Scene(
            "the Machine may not be written: the pass ends, and the status says so",
            doing(UPDATE, CLAIMS, refused={MACHINE_PATH: Forbidden("no")}),
            (seen.UpdateMachine,),
            (UPDATED,),
            then=went(Forbidden, machine="could not write the Machine: no"),
        ),
        Scene(
            "the finalizer is removed, and those of others stay",
            doing(seen.RemoveFinalizer(), finalizers=(OTHERS, MACHINE_FINALIZER)),
            (seen.RemoveFinalizer,),
            (patch(metadata={"finalizers": [OTHERS]}),),
            events=DELETED,
            then=went(gone=True),
        ),
        Scene(
            "the last finalizer is removed",
            doing(seen.RemoveFinalizer(), finalizers=(MACHINE_FINALIZER,)),
            (seen.RemoveFinalizer,),
            (patch(metadata={"finalizers": None}),),
            events=DELETED,
            then=went(gone=True),
        ),
        Scene(
            "the finalizer may not be removed: the Machine is not gone",
            doing(seen.RemoveFinalizer(), refused={MACHINE_PATH: Forbidden("no")}),
            (seen.RemoveFinalizer,),
            (patch(metadata={"finalizers": None}),),
            then=went(Forbidden, machine="could not write the Machine: no"),
        ),
        Scene(
            "the object of a provider becomes the Machine's",
            doing(CLAIMS),
            (seen.Claim,),
            (CLAIMED,),
            then=went(),
        ),
        Scene(
            "an object may not be claimed: the Node is written all the same",
            doing(CLAIMS, CORDON, refused={FOO: Forbidden("no")}),
            (seen.Claim, seen.PatchNode),
            (CLAIMED, CORDONED),
            then=went(Forbidden, infrastructure="could not make the Machine the owner of Foo m: no"),
        ),
        Scene(
            "an object of a provider is deleted, if it is the one that was seen",
            doing(seen.DeleteExternal("infrastructure", external(INFRA))),
            (seen.DeleteExternal,),
            (deletion(FOO, "foo"),),
            then=went(),
        ),
        Scene(
            "an object of a provider is another one now: the next look sees it",
            doing(seen.DeleteExternal("infrastructure", external(INFRA, "older"))),
            (seen.DeleteExternal,),
            (deletion(FOO, "older"),),
            then=went(Conflict),
        ),
        Scene(
            "an object of a provider is gone already",
            doing(
                seen.DeleteExternal("bootstrap", external(CONFIG)),
                refused={FOO: NotFound("gone", details={"name": "m"})},
            ),
            (seen.DeleteExternal,),
            (deletion(FOO, "foo"),),
            then=went(),
        ),
        Scene(
            "an object of a provider may not be deleted: the status says so",
            doing(seen.DeleteExternal("bootstrap", external(CONFIG)), refused={FOO: Forbidden("no")}),
            (seen.DeleteExternal,),
            (deletion(FOO, "foo"),),
            then=went(Forbidden, bootstrap="could not delete Bar m: no"),
        ),
        Scene("the Node is written", doing(CORDON), (seen.PatchNode,), (CORDONED,), then=went()),
        Scene(
            "the Node may not be written: the status says so",
            doing(CORDON, refused={NODE_PATH: Forbidden("no")}),
            (seen.PatchNode,),
            (CORDONED,),
            then=went(Forbidden, node="could not write Node node-1: no"),
        ),
        Scene(
            "another Node has the name by now: nothing is written or shown",
            doing(seen.PatchNode(OLDER_NODE, {"spec": {"unschedulable": True}})),
            (seen.PatchNode,),
            (Write("PATCH", NODE_PATH, {"spec": {"unschedulable": True}, "metadata": {"uid": "older"}}),),
            then=went(Conflict),
        ),
        Scene(
            "the cluster is not connected: the next look says so",
            doing(CORDON, CLAIMS, away=True),
            (seen.PatchNode, seen.Claim),
            (CLAIMED,),
            then=went(NotConnected),
        ),
        Scene(
            "the cluster is called by too many passes: another one is sent later",
            doing(CORDON, calls=CALLS_PER_CLUSTER),
            (seen.PatchNode,),
            then=went(ClusterBusy),
        ),
        Scene(
            "there is room for one more call",
            doing(CORDON, calls=CALLS_PER_CLUSTER - 1),
            (seen.PatchNode,),
            (CORDONED,),
            then=went(),
        ),
        Scene(
            "the Node is deleted, if it is the one that was seen",
            doing(DELETE_NODE, before="it said no"),
            (seen.DeleteNode,),
            (NODE_DELETED,),
            then=node_error("", None, went(), no_cache_has_the_node),
        ),
        Scene(
            "the Node is gone already",
            doing(
                DELETE_NODE,
                refused={NODE_PATH: NotFound("gone", details={"name": "node-1"})},
                before="it said no",
            ),
            (seen.DeleteNode,),
            (NODE_DELETED,),
            then=node_error("", None, went(), no_cache_has_the_node),
        ),
        Scene(
            "a proxy finds nothing: the Node may be there, and that was an attempt",
            doing(DELETE_NODE, refused={NODE_PATH: NOT_SERVED}),
            (seen.DeleteNode,),
            (NODE_DELETED,),
            then=node_error(
                "404 page not found",
                BEGIN,
                went(NotFound, node="could not delete Node node-1: 404 page not found"),
            ),
        ),
        Scene(
            "the kind of a provider's object is not served for now: the object may be there",
            doing(seen.DeleteExternal("infrastructure", external(INFRA)), refused={FOO: NOT_SERVED}),
            (seen.DeleteExternal,),
            (deletion(FOO, "foo"),),
            then=went(NotFound, infrastructure="could not delete Foo m: 404 page not found"),
        ),
        Scene(
            "the Node may not be deleted: the status says so, and later passes know it",
            doing(DELETE_NODE, refused={NODE_PATH: Forbidden("no")}),
            (seen.DeleteNode,),
            (NODE_DELETED,),
            then=node_error("no", BEGIN, went(Forbidden, node="could not delete Node node-1: no")),
        ),
        Scene(
            "the Node may still not be deleted: later passes know since when",
            doing(DELETE_NODE, refused={NODE_PATH: Forbidden("no")}, before="it is busy"),
            (seen.DeleteNode,),
            (NODE_DELETED,),
            then=node_error("no", EARLIER),
        ),
        Scene(
            "another Node has the name by now: what was said of the former is forgotten",
            doing(seen.DeleteNode("node-1", "older"), before="it said no"),
            (seen.DeleteNode,),
            (deletion(NODE_PATH, "older"),),
            then=node_error("", None, went(Conflict)),
        ),
        Scene(
            "the cluster is called by too many passes: that is no attempt to delete the Node",
            doing(DELETE_NODE, calls=CALLS_PER_CLUSTER),
            (seen.DeleteNode,),
            then=node_error("", None, went(ClusterBusy)),
        ),
        Scene(
            "the cluster is not connected: that is no attempt to delete the Node",
            doing(DELETE_NODE, away=True, before="it said no"),
            (seen.DeleteNode,),
            then=node_error("it said no", EARLIER, went(NotConnected)),
        ),
        Scene(
            "what other steps cannot do is not about the deletion of the Node",
            doing(CORDON, refused={NODE_PATH: Forbidden("no")}, before="it said no"),
            (seen.PatchNode,),
            (CORDONED,),
            then=node_error("it said no", EARLIER),
        ),
        Scene(
            "its pods are asked to leave, and then it looks again",
            doing(seen.Drain(DrainPlan(evict=(DRAINED,), more=True))),
            (seen.Drain,),
            (EVICTED,),
            then=looks_again_when_its_pods_have_been_asked,
        ),
        Scene(
            "a pod may not be evicted: the drain of this Machine knows it",
            doing(seen.Drain(DrainPlan(evict=(DRAINED,))), refused={EVICTED.path: Forbidden("no")}),
            (seen.Drain,),
            (EVICTED,),
            then=remembers_who_refused,
        ),
        Scene(
            "the cluster is not connected: no pod is asked",
            doing(seen.Drain(DrainPlan(evict=(DRAINED,), more=True)), away=True),
            (seen.Drain,),
            then=went(NotConnected),
        ),
    ),
)
