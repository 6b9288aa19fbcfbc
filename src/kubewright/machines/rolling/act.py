"""The marks of one deployment's nodes, one pass on the kernel. And what enqueues a deployment.

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

from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, replace

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
    LabelNode,
    MarkNode,
    MarkSet,
    Move,
    Nodes,
    NodeStep,
    PatchNode,
    RollingSeen,
    SeenWithNodes,
    Step,
    UpdateMark,
)
from kubewright.replicas.deployment.act import Deployments
from kubewright.replicas.objects import key_of
from kubewright.replicas.writes import Stale
from kubewright.runtime.controller import Controller, only, spec_or_life
from kubewright.runtime.kernel import Effect, ObjectReconciler, Outcome
from kubewright.runtime.metrics import Metrics
from kubewright.runtime.sessions.session import Session
from kubewright.wire.errors import NotFound
from kubewright.wire.gvk import Key

TAINTED, ANNOTATED, OURS = "tainted", "annotated", "ours"
CANDIDATE, SELECTED, BEGUN, UPDATED, AIMED = "candidate", "selected", "begun", "updated", "aimed"
"""The values of the index ``MARKS`` of nodes; besides ``AIMED`` there is one for each template aimed at."""
PREFERS_OTHERS = (names.PREFER_NO_SCHEDULE, "PreferNoSchedule")
NODES = "nodes"
"""What failed, if a node could not be patched."""
MARKS = "rolling-marks"
BY_NODE = "rolling-node"


@dataclass(frozen=True, slots=True)
class Cached(Container[str]):
    """The names of the nodes in a cache, asked one by one: most passes ask for none."""

    nodes: Informer[Node]

    def __contains__(self, name: object) -> bool:
        return self.nodes.header(Key("", str(name))) is not None


MachineDeployments = Deployments[MachineDeployment, MachineSet, MachineMember]


class RollingNodes(ObjectReconciler[MachineDeployment, SeenWithNodes, Plan[Step]]):
    """The reconciler: a key is that of a deployment, and its nodes are in the cluster ``target``."""

    def __init__(
        self, deployments: MachineDeployments, control: Client, target: Session, *, spare_nodes: bool
    ) -> None:
        super().__init__(control, deployments.objects, deployments.recorder)
        self._deployments = deployments
        self._machines: Informer[Machine] = deployments.index.objects
        self._target = target
        self._watched: Informer[Node] | None = None
        self._controller: Controller | None = None
        self._spare_nodes = spare_nodes
        self._machines.index(BY_NODE, lambda m: filter(None, (names.node_name(m.metadata.labels),)))

    async def look(self, found: MachineDeployment) -> SeenWithNodes:
        """As the reconciler of deployments; and which nodes have which marks."""
        seen, nodes = self._deployments.view(found), self._watched or self._watch_nodes()
        return SeenWithNodes(seen, _seen_nodes(seen, nodes) if nodes.synced else None)

    def decide(self, seen: SeenWithNodes) -> Plan[Step]:
        """As ``decide.decide``."""
        if seen.nodes is None or self._watched is None:
            silent = Awaited("the cluster of the nodes", "see whether its API server answers")
            because = "the cluster of the nodes has not answered yet"
            return Plan(wake=delays.UNHEARD, because=because, awaits=(silent,))
        return self._decided(seen.deployment, seen.nodes, self._watched)

    async def perform(self, seen: SeenWithNodes, plan: Plan[Step], outcome: Outcome) -> None:
        """The steps in four rows. A node has one patch, made of it as it is before the first write."""
        sets = [step for step in plan.steps if isinstance(step, MarkSet)]
        patches = self._patches(step for step in plan.steps if isinstance(step, NodeStep))
        machines = [step for step in plan.steps if isinstance(step, Move | ClearMoved)]
        before, after = ([step for step in sets if step.tainted is tainted] for tainted in (True, False))
        rows = replace(plan, steps=(*before, *patches, *machines, *after))
        await super().perform(seen, rows, outcome)

    def act(self, seen: SeenWithNodes, step: Step, outcome: Outcome) -> Effect:
        """What performs a step. A set says that its nodes are tainted until all have lost the taint."""
        match step:
            case MarkSet(tainted=tainted):
                return self._mark_set(step) if tainted or NODES not in outcome.shown else None
            case PatchNode(key, body):
                return self._target.client.patch(NODE, key, body)
            case Move() | ClearMoved():
                return self._change_machine(step)
            case MarkNode() | LabelNode():
                raise AssertionError("all steps about a node are one patch")

    def together(self, step: Step) -> object:
        """Sets that are annotated; nodes; machines; sets whose annotation goes."""
        if isinstance(step, Move | ClearMoved):
            return "machines"
        return type(step), isinstance(step, MarkSet) and step.tainted

    def after_step(
        self, seen: SeenWithNodes, step: Step, error: KubewrightError | None, outcome: Outcome
    ) -> bool:
        """An error stops no other write but that; what does not exist any more needs none."""
        if error is not None and not isinstance(error, NotFound):
            outcome.errors.append(error)
            if isinstance(step, PatchNode):
                outcome.shown[NODES] = str(error)
        return True

    def _decided(self, seen: RollingSeen, nodes: Nodes, watched: Informer[Node]) -> Plan[Step]:
        """The plan. Only of the nodes in it is read whether one stands on another VM; then the plan is made
        anew without that node. Each round leaves out one more node at least, so there is a last one."""
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

    def _patches(self, steps: Iterable[NodeStep]) -> Iterator[PatchNode]:
        assert self._watched is not None, "a plan that marks nodes was made of them"
        by_node: dict[Key, list[NodeStep]] = {}
        for step in steps:
            by_node.setdefault(Key("", step.node), []).append(step)
        for key, about in by_node.items():
            node = self._watched.get(key)
            if node is not None and (body := patch_of(about, node)):
                yield PatchNode(key, body)

    def _mark_set(self, step: MarkSet) -> Effect:
        value, meta = names.TRUE if step.tainted else None, step.set.metadata
        body = with_uid({"metadata": {"annotations": {names.PREFER_NO_SCHEDULE: value}}}, meta.uid)
        return self.client.patch(MACHINE_SET, key_of(step.set), body)

    async def _change_machine(self, step: Move | ClearMoved) -> None:
        member = step.member
        if isinstance(step, ClearMoved):
            body = with_uid({"metadata": {"labels": {names.UPDATE_RESULT_LABEL: None}}}, member.uid)
        else:
            machine = self._machines.get(member.key)
            if machine is None or machine.metadata.resource_version != member.version:
                raise Stale(f"machine {member.name} is no longer the one that was seen")
            body = onto(moved_patch(machine, step.source, step.target), machine.metadata)
        await self.client.patch(MACHINE, member.key, body)

    def controller(self, clock: Clock, metrics: Metrics | None = None) -> Controller:
        """Workers for this reconciler, which listen to deployments, sets and facts about machines."""
        deployments = self._deployments
        controller = self._controller = Controller("rolloutnodes", self, clock, metrics=metrics)
        controller.watches(self.objects, only(spec_or_life))
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
