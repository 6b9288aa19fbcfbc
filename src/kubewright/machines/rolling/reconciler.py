"""Reconcile the marks of one deployment's nodes: look, decide, act. And what enqueues a deployment.

Theory.      The cache of nodes has an index of those with marks, so a pass over a thousand nodes decodes only
             those that it changes. Deployment, sets and machines are read by the look of the reconciler of
             deployments (``replicas.deployment``). If the patch of one node fails, the others are written.
Invariants.  A patch of a node carries its uid; where it changes taints, its version too. A node of the
             machine's name that stands on another VM is not the machine's, and is left alone.
Called by    ``runtime.controller``; put together by ``machines.world``.
"""

from collections.abc import Container
from dataclasses import dataclass
from typing import assert_never

from kubewright.api.core import NODE, Node
from kubewright.api.kinds import Undecodable
from kubewright.api.machine import names, updates
from kubewright.api.machine.updates import UpdateReason, UpdateResult
from kubewright.api.machine.v1alpha1 import MACHINE, MACHINE_SET, Machine, MachineDeployment, MachineSet
from kubewright.base import delays
from kubewright.base.clock import Clock
from kubewright.base.errors import KubewrightError
from kubewright.kube.cache import Change
from kubewright.kube.client import Client
from kubewright.kube.informer import Informer
from kubewright.kube.patches import onto, with_uid
from kubewright.machines.machine.caches import belongs
from kubewright.machines.machine.in_place import reason_in
from kubewright.machines.machine.node_marks import rolling
from kubewright.machines.machineset.member import MachineMember
from kubewright.machines.machineset.template import moved_patch
from kubewright.machines.rolling.decide import MarkNode, MarkSet, Nodes, decide
from kubewright.machines.rolling.updating import (
    LabelNode,
    Move,
    RollingSeen,
    Unmark,
    aim_of,
    update_labels,
)
from kubewright.replicas.deployment.reconciler import Deployments
from kubewright.replicas.doubts import Stale
from kubewright.replicas.effects import error_of, run_parallel
from kubewright.replicas.ownership import key_of
from kubewright.runtime.controller import Controller
from kubewright.runtime.mapping import only, spec_or_life
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


MachineDeployments = Deployments[MachineDeployment, MachineSet, MachineMember]


class RollingNodes:
    """The reconciler: a key is that of a deployment, and its nodes are in the cluster ``target``."""

    def __init__(
        self, deployments: MachineDeployments, control: Client, target: Session, *, annotate: bool
    ) -> None:
        self._deployments = deployments
        self._machines: Informer[Machine] = deployments.index.objects
        self._control = control
        self._target = target
        self._watched: Informer[Node] | None = None
        self._controller: Controller | None = None
        self._annotate = annotate
        self._machines.index(BY_NODE, lambda m: filter(None, (names.node_name(m.metadata.labels),)))

    async def reconcile(self, key: Key) -> Result:
        """One pass.

        Raises:
            KubewrightError: a write failed; those after it were tried all the same.
        """
        seen = self._deployments.look(key)
        if seen is None:
            return Result.done()
        if not self._nodes.synced:
            idle("the cluster of the nodes has not answered yet")
            return Result.later(delays.UNHEARD)
        plan = decide(seen, self._seen_nodes(seen), annotate=self._annotate)
        planned(plan)
        nodes = [step for step in plan.steps if isinstance(step, MarkNode | LabelNode)]
        errors = await run_parallel(nodes, self._mark_node)
        if not errors:
            others = [step for step in plan.steps if not isinstance(step, MarkNode | LabelNode)]
            errors = await run_parallel(others, self._mark_object)
        return Result.later(plan.wake).unless(errors)

    @property
    def _nodes(self) -> Informer[Node]:
        """The nodes; their watch begins with the first pass.

        A watch that the group waits for before it works would hold up the sets beside us, which need no node.
        """
        if self._watched is None:
            self._watched = self._target.caches.get(NODE, namespace="")
            self._watched.index(MARKS, marks_of)
            assert self._controller is not None, "passes are those of the controller"
            self._controller.watches(self._watched, self._of_node)
        return self._watched

    def _seen_nodes(self, seen: RollingSeen) -> Nodes:
        aim = aim_of(seen.current) if seen.current is not None else ""
        return Nodes(
            Cached(self._nodes),
            tainted=self._with(TAINTED),
            annotated=self._with(ANNOTATED),
            ours=self._with(OURS),
            candidates=self._with(CANDIDATE),
            selected=self._with(SELECTED),
            begun=self._with(BEGUN),
            updated=self._with(UPDATED),
            aimed=self._with(AIMED),
            misaimed=self._with(AIMED) - self._with(f"{AIMED}:{aim}"),
        )

    def _with(self, mark: str) -> frozenset[str]:
        return frozenset(key.name for key in self._nodes.keys_by(MARKS, mark))

    async def _mark_node(self, step: MarkNode | LabelNode) -> KubewrightError | None:
        key = Key("", names.node_name(step.member.labels))
        try:
            node, machine = self._nodes.get(key), self._machines.get(step.member.key)
        except Undecodable as unreadable:
            return unreadable
        if node is None or machine is None or not belongs(node, machine):
            return None
        if isinstance(step, MarkNode):
            patch = rolling(node, taint=step.taint, annotated=step.annotate)
        else:
            patch = update_labels(node, step.mark, step.aim)
        body = with_uid(patch, node.metadata.uid)
        error = await error_of(self._target.client.patch(NODE, key, body)) if patch else None
        return None if isinstance(error, NotFound) else error

    async def _mark_object(self, step: MarkSet | Move | Unmark) -> KubewrightError | None:
        match step:
            case MarkSet(found, tainted):
                value = names.TRUE if tainted else None
                body = {"metadata": {"annotations": {names.PREFER_NO_SCHEDULE: value}}}
                body = with_uid(body, found.metadata.uid)
                error = await error_of(self._control.patch(MACHINE_SET, key_of(found), body))
            case Unmark(member):
                body = with_uid({"metadata": {"labels": {updates.UPDATE_RESULT_LABEL: None}}}, member.uid)
                error = await error_of(self._control.patch(MACHINE, member.key, body))
            case Move(member, source, target):
                machine = self._machines.get(member.key)
                if machine is None or machine.metadata.resource_version != member.version:
                    return Stale(f"machine {member.name} is no longer the one that was seen")
                body = onto(moved_patch(machine, source, target), machine.metadata)
                error = await error_of(self._control.patch(MACHINE, member.key, body))
            case _:
                assert_never(step)
        return None if isinstance(error, NotFound) else error

    def controller(self, clock: Clock, metrics: Metrics | None = None) -> Controller:
        """Workers for this reconciler, which listen to deployments, sets and facts about machines."""
        deployments = self._deployments
        controller = self._controller = Controller("rolloutnodes", self, clock, metrics=metrics)
        controller.watches(deployments.deployments, only(spec_or_life))
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


def marks_of(node: Node) -> list[str]:
    """The marks of a node, as values of the index."""
    labels, annotations = node.metadata.labels, node.metadata.annotations
    reason, result = reason_in(node.status.conditions), updates.update_result(labels)
    aim = annotations.get(updates.UPDATE_AIM_ANNOTATION)
    found = {
        TAINTED: any((taint.key, taint.effect) == PREFERS_OTHERS for taint in node.spec.taints),
        ANNOTATED: names.SCALE_DOWN_DISABLED_ANNOTATION in annotations,
        OURS: names.SCALE_DOWN_DISABLED_BY_US_ANNOTATION in annotations,
        CANDIDATE: updates.CANDIDATE_LABEL in labels,
        SELECTED: updates.SELECTED_LABEL in labels,
        BEGUN: reason in (UpdateReason.DRAINED, UpdateReason.READY) and updates.CANDIDATE_LABEL in labels,
        UPDATED: (result, reason) == (UpdateResult.SUCCESSFUL, UpdateReason.SUCCESSFUL),
        AIMED: aim is not None,
        f"{AIMED}:{aim}": aim is not None,
    }
    return [mark for mark, there in found.items() if there]


def _marked(node: Node | None) -> list[str]:
    return marks_of(node) if node is not None else []
