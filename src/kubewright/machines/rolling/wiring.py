"""Reconcile the marks of one deployment's nodes: look, decide, act. And what enqueues a deployment.

Theory.      The cache of nodes has an index of those with marks, so a pass over a thousand nodes decodes
             only those that it changes. Deployment, sets and machines are read by the look of the reconciler
             of deployments (``replicas.deployment``). If a write fails, the others are tried all the same,
             but for one: a set says that its nodes are tainted until all of them have lost the taint.
Invariants.  A node has one patch in a pass, made from the node as it was decided on, and with its uid. Where
             it changes taints it carries the version, too, and where it releases a node or calls it anew: the
             machine's controller may just have told the agent to begin. A node of the machine's name that
             stands on another VM is not the machine's, and is left alone.
Called by    ``runtime.controller``; put together by ``machines.world``.
"""

from collections.abc import Awaitable, Container, Iterable
from dataclasses import dataclass, replace
from typing import Any

from kubewright.api.core import NODE, Node
from kubewright.api.diff import Patch
from kubewright.api.kinds import Undecodable
from kubewright.api.machine import excess, names
from kubewright.api.machine.names import UpdateReason, UpdateResult
from kubewright.api.machine.v1alpha1 import MACHINE, MACHINE_SET, Machine, MachineDeployment, MachineSet
from kubewright.base import delays
from kubewright.base.clock import Clock
from kubewright.base.errors import KubewrightError
from kubewright.base.plan import Awaited, Plan
from kubewright.kube.cache import Change
from kubewright.kube.client import Client
from kubewright.kube.informer import Informer
from kubewright.kube.patches import onto, with_uid
from kubewright.machines.caches import belongs
from kubewright.machines.machine.living import reason_in
from kubewright.machines.machineset.member import MachineMember
from kubewright.machines.machineset.policy import moved_patch
from kubewright.machines.node_marks import rolling
from kubewright.machines.rolling.decide import aim_of, decide, update_labels
from kubewright.machines.rolling.seen import (
    ClearMoved,
    MarkNode,
    MarkSet,
    Move,
    Nodes,
    NodeStep,
    RollingSeen,
    Step,
    UpdateMark,
)
from kubewright.replicas.deployment.act import Deployments
from kubewright.replicas.objects import key_of
from kubewright.replicas.writes import Stale, error_of, run_parallel
from kubewright.runtime.controller import Controller, only, spec_or_life
from kubewright.runtime.metrics import Metrics
from kubewright.runtime.passes import idle, planned
from kubewright.runtime.result import Result
from kubewright.runtime.sessions.session import Session
from kubewright.wire.errors import NotFound
from kubewright.wire.gvk import Key

TAINTED, ANNOTATED, OURS = "tainted", "annotated", "ours"
CANDIDATE, SELECTED, BEGUN, UPDATED, AIMED = "candidate", "selected", "begun", "updated", "aimed"
"""The values of the index ``MARKS`` of nodes; besides ``AIMED`` there is one for each template aimed at."""
PREFERS_OTHERS = (names.PREFER_NO_SCHEDULE, "PreferNoSchedule")
MARKS = "rolling-marks"
BY_NODE = "rolling-node"


@dataclass(frozen=True, slots=True)
class Cached(Container[str]):
    """The names of the nodes in a cache, asked one by one: most passes ask for none."""

    nodes: Informer[Node]

    def __contains__(self, name: object) -> bool:
        return self.nodes.header(Key("", str(name))) is not None


@dataclass(frozen=True, slots=True)
class NodePatch:
    """What is written on a node; an empty body writes nothing."""

    key: Key
    body: Patch


MachineDeployments = Deployments[MachineDeployment, MachineSet, MachineMember]


class RollingNodes:
    """The reconciler: a key is that of a deployment, and its nodes are in the cluster ``target``."""

    def __init__(
        self, deployments: MachineDeployments, control: Client, target: Session, *, spare_nodes: bool
    ) -> None:
        self._deployments = deployments
        self._machines: Informer[Machine] = deployments.index.objects
        self._control = control
        self._target = target
        self._watched: Informer[Node] | None = None
        self._controller: Controller | None = None
        self._spare_nodes = spare_nodes
        self._machines.index(BY_NODE, lambda m: filter(None, (names.node_name(m.metadata.labels),)))

    async def reconcile(self, key: Key) -> Result:
        """One pass.

        Raises:
            Unfinished: writes failed; the others were tried all the same.
        """
        found = self._deployments.get(key)
        if found is None:
            return Result.done()
        seen = self._deployments.view(found)
        nodes = self._watched or self._watch_nodes()
        if not nodes.synced:
            silent = Awaited("the cluster of the nodes", "see whether its API server answers")
            idle("the cluster of the nodes has not answered yet", silent)
            return Result.later(delays.UNHEARD)
        plan = self._decided(seen, nodes)
        planned(plan)
        patches = self._patches([step for step in plan.steps if isinstance(step, NodeStep)], nodes)
        sets = [step for step in plan.steps if isinstance(step, MarkSet)]
        machines = [step for step in plan.steps if isinstance(step, Move | ClearMoved)]
        errors = await run_parallel([step for step in sets if step.tainted], self._mark_set)
        errors += (failed := await run_parallel(patches, self._patch_node))
        errors += await run_parallel(machines, self._change_machine)
        if not failed:
            errors += await run_parallel([step for step in sets if not step.tainted], self._mark_set)
        return Result.later(plan.wake).unless(errors)

    def _decided(self, seen: RollingSeen, watched: Informer[Node]) -> Plan[Step]:
        """The plan. Only of the nodes in it is read whether one stands on another VM; then the plan is made
        anew without that node. Each round leaves out one more node at least, so there is a last one."""
        nodes = _seen_nodes(seen, watched)
        while True:
            plan = decide(seen, nodes, spare_nodes=self._spare_nodes)
            steps = [step for step in plan.steps if isinstance(step, NodeStep)]
            foreign = frozenset(step.node for step in steps if self._is_foreign(step, watched))
            if not foreign:
                return plan
            nodes = replace(nodes, foreign=nodes.foreign | foreign)

    def _is_foreign(self, step: NodeStep, watched: Informer[Node]) -> bool:
        try:
            node, machine = watched.get(Key("", step.node)), self._machines.get(step.member.key)
        except Undecodable:
            return True  # nothing shows that the one stands on the VM of the other
        return node is None or machine is None or not belongs(node, machine)

    def _watch_nodes(self) -> Informer[Node]:
        """Begin to watch the nodes, with the first pass.

        A watch that the group waits for before it works would hold up the sets beside us, which need no node.
        """
        watched = self._watched = self._target.caches.get(NODE, namespace="")
        watched.index(MARKS, marks_of)
        assert self._controller is not None, "passes are those of the controller"
        self._controller.watches(watched, self._of_node)
        return watched

    def _patches(self, steps: Iterable[NodeStep], watched: Informer[Node]) -> list[NodePatch]:
        """One for each node, made before the first write of the pass: the decision rests on the nodes as they
        are now."""
        by_node: dict[Key, list[NodeStep]] = {}
        for step in steps:
            by_node.setdefault(Key("", step.node), []).append(step)
        nodes = {key: watched.get(key) for key in by_node}
        return [NodePatch(key, patch_of(by_node[key], node)) for key, node in nodes.items() if node]

    async def _patch_node(self, patch: NodePatch) -> KubewrightError | None:
        if not patch.body:
            return None
        return await _unless_gone(self._target.client.patch(NODE, patch.key, patch.body))

    async def _mark_set(self, step: MarkSet) -> KubewrightError | None:
        value, meta = names.TRUE if step.tainted else None, step.set.metadata
        body = with_uid({"metadata": {"annotations": {names.PREFER_NO_SCHEDULE: value}}}, meta.uid)
        return await _unless_gone(self._control.patch(MACHINE_SET, key_of(step.set), body))

    async def _change_machine(self, step: Move | ClearMoved) -> KubewrightError | None:
        member = step.member
        if isinstance(step, ClearMoved):
            body = with_uid({"metadata": {"labels": {names.UPDATE_RESULT_LABEL: None}}}, member.uid)
            return await _unless_gone(self._control.patch(MACHINE, member.key, body))
        machine = self._machines.get(member.key)
        if machine is None or machine.metadata.resource_version != member.version:
            return Stale(f"machine {member.name} is no longer the one that was seen")
        body = onto(moved_patch(machine, step.source, step.target), machine.metadata)
        return await _unless_gone(self._control.patch(MACHINE, member.key, body))

    def controller(self, clock: Clock, metrics: Metrics | None = None) -> Controller:
        """Workers for this reconciler, which listen to deployments, sets and facts about machines."""
        deployments = self._deployments
        controller = self._controller = Controller("rolloutnodes", self, clock, metrics=metrics)
        controller.watches(deployments.objects, only(spec_or_life))
        controller.watches(deployments.sets, deployments.of_set)
        wait = delays.GATHER_FOR_DEPLOYMENT
        deployments.index.wake(controller, deployments.of_member, wait, "a machine has changed")
        return controller

    def _of_node(self, change: Change[Node]) -> set[Key]:
        """The deployment of a node that is new or whose marks have changed."""
        if change.new is None or (
            change.old is not None and _marked(change.before()) == _marked(change.after())
        ):
            return set()
        index, found = self._deployments.index, set[Key]()
        for key in self._machines.keys_by(BY_NODE, change.key.name):
            found |= self._deployments.of_member(None, index.member(key))
        return found


def patch_of(steps: Iterable[NodeStep], node: Node) -> Patch:
    """What the steps of one node write, on the condition that it is the node that was seen. Pure.

    A step that takes a try back goes by what others write there, and a selection that the server carries out
    late would select a node again whose update is over: both are for the version that was seen.
    """
    patch: Patch = {}
    of_version = False
    for step in steps:
        if isinstance(step, MarkNode):
            patch = _joined(patch, rolling(node, taint=step.taint, annotated=step.annotate))
        else:
            patch = _joined(patch, update_labels(node, step.mark, step.aim))
            of_version |= step.mark is not UpdateMark.CANDIDATE
    return onto(patch, node.metadata) if of_version else with_uid(patch, node.metadata.uid)


def _joined(one: Patch, other: Patch) -> Patch:
    """Two merge patches of one object, which set different fields, as one."""
    both = {**one, **other}
    inside = {key for key in one.keys() & other.keys() if isinstance(one[key], dict)}
    return {**both, **{key: _joined(one[key], other[key]) for key in inside}}


async def _unless_gone(call: Awaitable[Any]) -> KubewrightError | None:
    """The error that a write ended with; None where its object does not exist any more."""
    error = await error_of(call)
    return None if isinstance(error, NotFound) else error


def _seen_nodes(seen: RollingSeen, watched: Informer[Node]) -> Nodes:
    aim = aim_of(seen.current) if seen.current is not None else ""

    def marked(mark: str) -> frozenset[str]:
        return frozenset(key.name for key in watched.keys_by(MARKS, mark))

    return Nodes(
        Cached(watched),
        tainted=marked(TAINTED),
        annotated=marked(ANNOTATED),
        ours=marked(OURS),
        candidates=marked(CANDIDATE),
        selected=marked(SELECTED),
        begun=marked(BEGUN),
        updated=marked(UPDATED),
        aimed=marked(AIMED),
        aimed_elsewhere=marked(AIMED) - marked(f"{AIMED}:{aim}"),
    )


def marks_of(node: Node) -> list[str]:
    """The marks of a node, as values of the index."""
    labels, annotations = node.metadata.labels, node.metadata.annotations
    reason, result = reason_in(node.status.conditions), names.update_result(labels)
    aim = annotations.get(names.UPDATE_AIM_ANNOTATION)
    found = {
        TAINTED: any((taint.key, taint.effect) == PREFERS_OTHERS for taint in node.spec.taints),
        ANNOTATED: names.SCALE_DOWN_DISABLED_ANNOTATION in annotations and not excess.alone(annotations),
        OURS: names.SCALE_DOWN_DISABLED_BY_US_ANNOTATION in annotations,
        CANDIDATE: names.CANDIDATE_LABEL in labels,
        SELECTED: names.SELECTED_LABEL in labels,
        BEGUN: reason in (UpdateReason.DRAINED, UpdateReason.READY) and names.CANDIDATE_LABEL in labels,
        UPDATED: (result, reason) == (UpdateResult.SUCCESSFUL, UpdateReason.SUCCESSFUL),
        AIMED: aim is not None,
        f"{AIMED}:{aim}": aim is not None,
    }
    return [mark for mark, there in found.items() if there]


def _marked(node: Node | None) -> list[str]:
    return marks_of(node) if node is not None else []
