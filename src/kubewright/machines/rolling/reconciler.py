"""Reconcile the marks of one deployment's nodes: look, decide, act. And what enqueues a deployment.

Theory.      The cache of nodes has an index of those with marks, so a pass over a thousand nodes decodes only
             those that it changes. Deployment, sets and machines are read by the look of the reconciler of
             deployments (``replicas.deployment``). If the patch of one node fails, the others are written.
Invariants.  A patch of a node carries its uid; where it changes taints, its version too. A node of the
             machine's name that stands on another VM is not the machine's, and is left alone.
Called by    ``runtime.controller``; put together by ``machines.world``.
"""

from collections.abc import Iterable

from kubewright.api.core import NODE, Node
from kubewright.api.kinds import Undecodable
from kubewright.api.machine import names
from kubewright.api.machine.v1alpha1 import MACHINE_SET, Machine, MachineDeployment, MachineSet
from kubewright.base import delays
from kubewright.base.clock import Clock
from kubewright.base.errors import KubewrightError
from kubewright.kube.cache import Change
from kubewright.kube.client import Client
from kubewright.kube.informer import Informer
from kubewright.kube.patches import with_uid
from kubewright.machines.machine.caches import belongs
from kubewright.machines.machine.node_marks import rolling
from kubewright.machines.machineset.member import MachineMember
from kubewright.machines.rolling.decide import MarkNode, MarkSet, Nodes, decide
from kubewright.replicas.deployment.reconciler import Deployments
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
"""The values of the index ``MARKS`` of nodes."""
PREFERS_OTHERS = (names.PREFER_NO_SCHEDULE, "PreferNoSchedule")
MARKS = "rolling-marks"
BY_NODE = "rolling-node"

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
        plan = decide(seen, self._seen_nodes(seen.all_members), annotate=self._annotate)
        planned(plan)
        nodes = [step for step in plan.steps if isinstance(step, MarkNode)]
        errors = await run_parallel(nodes, self._mark_node)
        if not errors:
            sets = [step for step in plan.steps if isinstance(step, MarkSet)]
            errors = await run_parallel(sets, self._mark_set)
        if errors:
            raise errors[0]
        return Result.later(plan.wake)

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

    def _seen_nodes(self, members: Iterable[MachineMember]) -> Nodes:
        nodes = [names.node_name(member.labels) for member in members]
        there = frozenset(name for name in nodes if name and self._nodes.header(Key("", name)))
        tainted, annotated, ours = (
            frozenset(key.name for key in self._nodes.keys_by(MARKS, mark))
            for mark in (TAINTED, ANNOTATED, OURS)
        )
        return Nodes(there, tainted, annotated, ours)

    async def _mark_node(self, step: MarkNode) -> KubewrightError | None:
        key = Key("", step.node)
        try:
            node, machine = self._nodes.get(key), self._machines.get(step.member.key)
        except Undecodable as unreadable:
            return unreadable
        if node is None or machine is None or not belongs(node, machine):
            return None
        body = with_uid(rolling(node, taint=step.taint, annotated=step.annotate), node.metadata.uid)
        error = await error_of(self._target.client.patch(NODE, key, body)) if body else None
        return None if isinstance(error, NotFound) else error

    async def _mark_set(self, step: MarkSet) -> KubewrightError | None:
        value = names.TRUE if step.tainted else None
        body = with_uid(
            {"metadata": {"annotations": {names.PREFER_NO_SCHEDULE: value}}}, step.set.metadata.uid
        )
        error = await error_of(self._control.patch(MACHINE_SET, key_of(step.set), body))
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
            header = self._machines.header(key)
            members = index.owned_by(header.owner_uid) if header is not None else ()
            found |= self._deployments.of_member(None, next((m for m in members if m.key == key), None))
        return found


def marks_of(node: Node) -> list[str]:
    """The marks of a node, as values of the index."""
    annotations = node.metadata.annotations
    found = {
        TAINTED: any((taint.key, taint.effect) == PREFERS_OTHERS for taint in node.spec.taints),
        ANNOTATED: names.SCALE_DOWN_DISABLED_ANNOTATION in annotations,
        OURS: names.SCALE_DOWN_DISABLED_BY_US_ANNOTATION in annotations,
    }
    return [mark for mark, there in found.items() if there]


def _marked(node: Node | None) -> list[str]:
    return marks_of(node) if node is not None else []
