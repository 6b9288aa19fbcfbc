"""Scenes of rollouts of machines: which marks their act writes on sets, nodes and machines, and in which order."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from kubewright.api.core import NODE, Node
from kubewright.api.machine.names import NODE_LABEL, PREFER_NO_SCHEDULE
from kubewright.api.machine.v1alpha1 import MACHINE, MACHINE_DEPLOYMENT, MACHINE_SET, Machine, MachineSet
from kubewright.api.meta import ObjectMeta
from kubewright.base.errors import KubewrightError
from kubewright.base.plan import Plan
from kubewright.kube.patches import onto
from kubewright.machines.deployment import MACHINE_DEPLOYMENTS
from kubewright.machines.machineset.member import MachineMember, read
from kubewright.machines.machineset.policy import moved_patch
from kubewright.machines.rolling import act, seen
from kubewright.replicas.deployment.act import Deployments
from kubewright.replicas.members import MemberIndex
from kubewright.runtime.kernel import Outcome
from kubewright.testing.acts import Act, Happened, Scene, Told, happened
from kubewright.testing.looks import Shelf, Write
from kubewright.wire.errors import Forbidden, NotFound
from kubewright.wire.gvk import Key

from .of_infra_machines import Nothing

SETS = "/apis/machine.sapcloud.io/v1alpha1/namespaces/ns/machinesets"
MACHINES = "/apis/machine.sapcloud.io/v1alpha1/namespaces/ns/machines"
OLD, NEW = (MachineSet(metadata=ObjectMeta(name=each, namespace="ns", uid=each)) for each in ("old", "new"))
NODES = {
    each: Node(metadata=ObjectMeta(name=f"n-{each}", uid=f"n-{each}", resource_version=version))
    for each, version in (("a", "103"), ("b", "104"))
}


def machine(name: str) -> Machine:
    meta = ObjectMeta(name=name, namespace="ns", uid=name, labels={NODE_LABEL: f"n-{name}"})
    return Machine(metadata=meta)


def member(name: str, version: int) -> MachineMember:
    labels = {NODE_LABEL: f"n-{name}"}
    return MachineMember(Key("ns", name), name, "old", labels, deleting=False, version=str(version))


A, B = member("a", 101), member("b", 102)
CANDIDATE = seen.LabelNode(A, seen.UpdateMark.CANDIDATE)
TAINTED, ALONE = seen.MarkNode(A, taint=True), seen.MarkNode(B, taint=True)
ANNOTATE, CLEAR = seen.MarkSet(OLD, tainted=True), seen.MarkSet(NEW, tainted=False)
MOVE, MOVED = seen.Move(A, OLD, NEW), seen.ClearMoved(B)


def doing(
    *what: seen.Step, answers: Mapping[str, KubewrightError] | None = None, overtaken: bool = False
) -> Callable[[], Awaitable[tuple[Shelf, Happened]]]:
    """``overtaken``: the cache shows another version of machine a by now."""

    async def act_() -> tuple[Shelf, Happened]:
        shelf, told = Shelf(), Told()
        index = MemberIndex(shelf.caches.get(MACHINE), read, shelf.client.steady())
        deployments = Deployments(MACHINE_DEPLOYMENTS, shelf.caches, told, index=index)
        target = Nothing(client=shelf.client, caches=shelf.caches)
        rolling = act.RollingNodes(deployments, shelf.client, target, spare_nodes=True)
        rolling.controller(shelf.clock)
        of = MACHINE_DEPLOYMENT.from_plain({"metadata": {"name": "d", "namespace": "ns", "uid": "d"}})
        saw = await rolling.look(of)
        await shelf.put(MACHINE, machine("a"), machine("b"))
        await shelf.put(NODE, *NODES.values())
        await shelf.put(MACHINE_SET, OLD, NEW)
        if overtaken:
            await shelf.change(MACHINE, Key("ns", "a"), {"metadata": {"labels": {"x": "y"}}})
        shelf.answers |= answers or {}
        outcome = Outcome(of.metadata)
        after = await happened(rolling.perform(saw, Plan(what), outcome), told)
        return shelf, Happened(outcome, after.error, after.events, after.sources)

    return act_


def ended(*errors: type[KubewrightError]) -> Callable[[Shelf, Happened], None]:
    def then(_shelf: Shelf, after: Happened) -> None:
        assert isinstance(after.outcome, Outcome)
        assert [type(each) for each in after.outcome.errors] == list(errors)

    return then


def of_set(of: MachineSet, value: str | None) -> Write:
    body = {"metadata": {"annotations": {PREFER_NO_SCHEDULE: value}, "uid": of.metadata.uid}}
    return Write("PATCH", f"{SETS}/{of.name}", body)


def of_node(name: str, *steps: seen.NodeStep) -> Write:
    return Write("PATCH", f"/api/v1/nodes/n-{name}", dict(act.patch_of(steps, NODES[name])))


def of_machine(name: str, body: Mapping[str, Any]) -> Write:
    return Write("PATCH", f"{MACHINES}/{name}", dict(body))


UNMOVED = of_machine(
    "b", {"metadata": {"labels": {"node.machine.sapcloud.io/update-result": None}, "uid": "b"}}
)
GIVEN = of_machine(
    "a",
    onto(
        moved_patch(machine("a"), OLD, NEW),
        ObjectMeta(name="a", namespace="ns", uid="a", resource_version="101"),
    ),
)
ALL = (CANDIDATE, MOVED, TAINTED, ANNOTATE, CLEAR, ALONE)

ACT = Act(
    "machines.rolling.act",
    seen.Step,
    (
        Scene(
            "a set is annotated before its nodes, which get one patch each, and loses the annotation last",
            doing(*ALL),
            (seen.MarkSet, seen.MarkNode, seen.LabelNode, seen.PatchNode, seen.ClearMoved),
            (
                of_set(OLD, "True"),
                of_node("a", CANDIDATE, TAINTED),
                of_node("b", ALONE),
                UNMOVED,
                of_set(NEW, None),
            ),
            then=ended(),
        ),
        Scene(
            "no set loses the annotation while one of its nodes may have the taint; the rest goes on",
            doing(*ALL, answers={"/api/v1/nodes/n-a": Forbidden("no")}),
            (seen.MarkSet, seen.MarkNode),
            (of_set(OLD, "True"), of_node("a", CANDIDATE, TAINTED), of_node("b", ALONE), UNMOVED),
            then=ended(Forbidden),
        ),
        Scene(
            "what does not exist any more needs no mark",
            doing(TAINTED, MOVED, CLEAR, answers={"/api/v1/nodes/n-a": NotFound("gone")}),
            (seen.MarkNode,),
            (of_node("a", TAINTED), UNMOVED, of_set(NEW, None)),
            then=ended(),
        ),
        Scene(
            "a machine whose node was updated is given to the current set, as it was seen",
            doing(MOVE),
            (seen.Move,),
            (GIVEN,),
            then=ended(),
        ),
        Scene(
            "a machine that has changed since is not moved",
            doing(MOVE, overtaken=True),
            (seen.Move,),
            then=ended(act.Stale),
        ),
    ),
)  # fmt: skip
