"""How a Machine is deleted: one fixed order of stages, each derived from what still exists. Pure.

Theory.      The stages are: pre-drain hooks, drain, volumes, pre-terminate hooks, infrastructure, bootstrap,
             Node, finalizer. The first stage that is not over gives the plan, and the message of the
             condition Deleting. Pre-drain hooks, drain, volumes and Node are skipped where the Node need not
             or cannot be drained: ``SKIPS`` has the rules. While the workload cluster cannot be reached these
             stages wait, for as long as the time-outs of the Machine say; they are skipped when the Cluster
             is gone or is being deleted.
Drain rules. A rule selects machines, by their labels and their Cluster's, and pods, by their labels and
             their Namespace's. Of several rules for one pod the first by name counts; without one a pod is
             evicted, in order 0. What is waited for has the order 0, too.
Invariants.  The infrastructure is deleted only after the stages before it are over or skipped, and nothing
             that another object controls is deleted. The Node goes after the infrastructure. The finalizer
             goes last. Times count from conditions that were written when a stage ended
             (``PreDrainDeleteHookSucceeded``, ``DrainingSucceeded``), so they outlive this process. A rule
             whose selectors cannot be read stops the drain: a pod that it protects must not be evicted
             because of a typing error. A Namespace that is not known has no labels.
Called by    ``decide``; ``status`` reads ``stage``.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from msgspec import to_builtins

from kubewright.api.cluster import names
from kubewright.api.cluster.conditions import Reason
from kubewright.api.cluster.parts import DRAIN, SKIP, WAIT_COMPLETED, MachineDrainRule
from kubewright.api.cluster.v1beta1 import Cluster, Machine
from kubewright.api.core import Pod
from kubewright.api.meta import LabelSelector
from kubewright.base.delays import SOON, UNHEARD
from kubewright.base.durations import format_duration
from kubewright.base.errors import KubewrightError
from kubewright.base.plan import AT_ONCE, Awaited, Plan
from kubewright.clusters.external import fields
from kubewright.clusters.external.mirroring import awaited_in_deletion
from kubewright.clusters.external.object import External
from kubewright.clusters.machine.seen import (
    BOOTSTRAP,
    INFRASTRUCTURE,
    DeleteExternal,
    DeleteNode,
    Drain,
    PatchNode,
    RemoveFinalizer,
    Seen,
    Step,
    cluster_awaited,
    parse_timeout,
)
from kubewright.clusters.machine.wanted import silent
from kubewright.clusters.node import ClusterNode
from kubewright.nodes import marks
from kubewright.nodes.drain.policy import DrainPolicy, comes_back
from kubewright.wire import selectors
from kubewright.wire.errors import BadRequest

Labels = Mapping[str, str]
Selects = Callable[[Labels, Labels], bool]
"""Whether two sets of labels are selected: a machine's and its Cluster's, a pod's and its Namespace's."""


class UnreadableRule(KubewrightError):
    """The message names the rule, and what is wrong with it."""


@dataclass(frozen=True, slots=True)
class Rule:
    """What one rule says: its behavior, the order, and for which pods.

    ``by_namespace``: it asks for the labels of Namespaces.
    """

    behavior: str
    order: int
    selects: Selects
    by_namespace: bool


@dataclass(frozen=True, slots=True)
class DrainRules:
    """The rules for one machine, in their order. ``namespaces``: labels by the name of a Namespace."""

    rules: tuple[Rule, ...] = ()
    namespaces: Mapping[str, Labels] = field(default_factory=dict)

    @property
    def by_namespace(self) -> bool:
        """Whether the labels of Namespaces must be known."""
        return any(each.by_namespace for each in self.rules)

    def behavior_of(self, pod: Pod) -> tuple[str, int]:
        """What is done with a pod, and in which order."""
        outer = self.namespaces.get(pod.namespace, {})
        for each in self.rules:
            if each.selects(pod.metadata.labels, outer):
                return each.behavior, each.order
        return DRAIN, 0


NO_RULES = DrainRules()


def rules_for(machine: Machine, cluster: Cluster | None, found: Iterable[MachineDrainRule]) -> DrainRules:
    """The rules of the machine's namespace that are for it.

    Raises:
        UnreadableRule: a selector of a rule, whether it is for this machine or not, cannot be read.
    """
    labels = cluster.metadata.labels if cluster is not None else {}
    rules: list[Rule] = []
    for each in sorted(found, key=lambda rule: rule.name):
        try:
            machines = [_both(it.selector, it.cluster_selector) for it in each.spec.machines]
            pods = [_both(it.selector, it.namespace_selector) for it in each.spec.pods]
        except BadRequest as error:
            raise UnreadableRule(f"MachineDrainRule {each.name} cannot be read: {error}") from None
        if _any(machines)(machine.metadata.labels, labels):
            drain, namespaced = each.spec.drain, any(it.namespace_selector for it in each.spec.pods)
            order = (drain.order or 0) if drain.behavior == DRAIN else 0
            rules.append(Rule(drain.behavior, order, _any(pods), namespaced))
    return DrainRules(tuple(rules))


def _any(selects: list[Selects]) -> Selects:
    """By one of them; by none at all, everything."""
    return lambda labels, outer: not selects or any(each(labels, outer) for each in selects)


def _both(own: LabelSelector | None, outer_selector: LabelSelector | None) -> Selects:
    mine, theirs = _read(own), _read(outer_selector)
    return lambda labels, outer: mine.matches(labels) and theirs.matches(outer)


def _read(selector: LabelSelector | None) -> selectors.Selector:
    plain: Mapping[str, Any] = to_builtins(selector) if selector is not None else {}
    return selectors.from_object(plain)


NODE_DELETION_TIMEOUT = timedelta(seconds=10)
"""How long to try to delete the Node where the Machine does not say."""

NODE_DELETION_ATTEMPTS = timedelta(seconds=10)
"""For how long attempts to delete the Node must fail at least before it is left, as upstream's."""

LOST_AFTER = timedelta(seconds=1)
"""How long after the end of its grace period a pod of a silent Node is no longer waited for."""

DRAIN_LABEL, BY_LABEL = "cluster.x-k8s.io/drain", {"skip": SKIP, "wait-completed": WAIT_COMPLETED}
"""On a pod: it is left where it is, or awaited until it has ended by itself."""

FINISHED = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class Stage:
    """Where a deletion is. ``reason`` is that of the condition Deleting; ``plan`` says what is to be done."""

    reason: Reason
    plan: Plan[Step]


def decide(seen: Seen) -> Plan[Step]:
    """The plan of a Machine that is being deleted."""
    if names.MACHINE_FINALIZER not in seen.machine.metadata.finalizers:
        return Plan(because="the machine is being deleted and has no finalizer of ours")
    return stage(seen).plan


def stage(seen: Seen) -> Stage:
    """The first stage that is not over."""
    return next(found for each in STAGES if (found := each(seen)) is not None)


# ---------------------------------------------------------------- what is skipped


def skip(seen: Seen) -> str:
    """Why pre-drain hooks, drain, volumes and Node are skipped, as a clause; empty: they are not."""
    for matters, applies, because in SKIPS:
        if applies(seen):
            return "" if matters else because
    return ""


def _control_plane_is_deleted(seen: Seen) -> bool:
    external = seen.deletion.control_plane
    return external is not None and (external.deleting or external.gone)


def _managed_elsewhere(seen: Seen) -> bool:
    external = seen.deletion.control_plane
    return external is not None and external.flag(fields.EXTERNALLY_MANAGED)


def _last_control_plane(seen: Seen) -> bool:
    return seen.deletion.active_control_planes == 0


def _cluster_is_deleted(seen: Seen) -> bool:
    return seen.cluster is not None and seen.cluster.metadata.deleting


Skip = tuple[bool, Callable[[Seen], bool], str]
SKIPS: tuple[Skip, ...] = (
    (False, lambda seen: seen.cluster is None, "its Cluster is gone"),
    (False, _cluster_is_deleted, "its Cluster is being deleted"),
    (False, lambda seen: not seen.node_name, "it never became a Node"),
    (False, lambda seen: bool(seen.workload.taken_by), "its Node is another Machine's"),
    (True, _managed_elsewhere, "its control plane is managed elsewhere"),
    (False, _control_plane_is_deleted, "its control plane is being deleted"),
    (False, _last_control_plane, "no other machine of the control plane is left"),
)  # fmt: skip
"""Rules in order, of which the first that applies counts: False skips the stages of the Node; and why."""


def drain_is_over(seen: Seen) -> str:
    """Why no pod is waited for, as a clause; empty: pods are drained, or to be looked at first."""
    timeout, drain = parse_timeout(seen.machine.spec.node_drain_timeout), seen.deletion.drain
    if because := _ends_early(seen, _DRAIN, timeout, seen.deletion.drain_since):
        return because
    if _cannot_look(seen):
        return ""
    if not seen.workload.nodes:
        return "its Node is gone"
    return drain.because if drain is not None and drain.done else ""


def detach_is_over(seen: Seen) -> str:
    """Why no volume is waited for, as a clause; empty: some are attached, or it is not known."""
    timeout = parse_timeout(seen.machine.spec.node_volume_detach_timeout)
    if because := _ends_early(seen, _DETACH, timeout, seen.deletion.detach_since):
        return because
    if _cannot_look(seen):
        return ""
    if not seen.workload.nodes:
        return "its Node is gone"
    return "" if seen.deletion.volumes else "no volume is attached"


class _OfNode(NamedTuple):
    """A stage that ends early: the annotation that leaves it out, from what, and what took too long."""

    annotation: str
    excludes: str
    late: str


_DRAIN = _OfNode(names.EXCLUDE_NODE_DRAINING_ANNOTATION, "draining", "the drain")
_DETACH = _OfNode(names.EXCLUDE_WAIT_FOR_NODE_VOLUME_DETACH_ANNOTATION, "waiting for volumes", "the volumes")


def _ends_early(seen: Seen, stage: _OfNode, timeout: timedelta | None, since: datetime | None) -> str:
    """Why a stage is over whatever its Node has, as a clause; empty: it depends on the Node."""
    if because := skip(seen):
        return because
    if stage.annotation in seen.machine.metadata.annotations:
        return f"an annotation excludes it from {stage.excludes}"
    if seen.infrastructure.gone or seen.infrastructure.deleting:
        return "its infrastructure is being deleted already"
    if timeout is not None and since is not None and seen.now - since >= timeout:
        return f"{stage.late} took longer than {format_duration(timeout)}"
    return ""


def _cannot_look(seen: Seen) -> str:
    """Why pods and volumes of the Node are not known, as a clause; empty: they are."""
    return seen.workload.unreachable or seen.deletion.unread


def hooks(seen: Seen, prefix: str) -> tuple[str, ...]:
    """The annotations that hold up the deletion, by the beginning of their names."""
    return tuple(sorted(key for key in seen.machine.metadata.annotations if key.startswith(prefix)))


def drain_policy(seen: Seen, node: ClusterNode, rules: DrainRules = NO_RULES) -> DrainPolicy:
    """How the Node is drained: gently, for as long as the Machine says, and as the rules say of each pod.

    What a pod asks for by its label goes before the rules.
    """
    lost = silent(node)

    def of(pod: Pod) -> tuple[str, int]:
        asked = BY_LABEL.get(pod.metadata.labels.get(DRAIN_LABEL, "").lower())
        return (asked, 0) if asked is not None else rules.behavior_of(pod)

    def skips(pod: Pod) -> bool:
        ends = pod.metadata.deletion_timestamp
        return (
            comes_back(pod)
            or pod.status.phase in FINISHED
            or of(pod)[0] == SKIP
            or (lost and ends is not None and seen.now - ends > LOST_AFTER)
        )

    timeout = parse_timeout(seen.machine.spec.node_drain_timeout)
    return DrainPolicy(
        timeout=timeout,
        skips=skips,
        awaits=lambda pod: of(pod)[0] == WAIT_COMPLETED,
        order=lambda pod: of(pod)[1],
        one_by_one=False,
    )


# ---------------------------------------------------------------- the stages


def _before_drain(seen: Seen) -> Stage | None:
    found = () if skip(seen) else hooks(seen, names.PRE_DRAIN_HOOK_PREFIX)
    told = f"hooks before the drain: {_first_three(found)}"
    return _waits(Reason.WAITING_FOR_PRE_DRAIN_HOOK, told, awaits=_hook(found)) if found else None


def _drain(seen: Seen) -> Stage | None:
    if drain_is_over(seen):
        return None
    reason, plan = Reason.DRAINING_NODE, seen.deletion.drain
    if cordons := tuple(_cordon(seen)):
        return Stage(reason, Plan(cordons, AT_ONCE, "its Node should take no new pods", silent=True))
    if (why := _cannot_look(seen)) or plan is None:
        told = why or "the pods of its Node have not been looked at"
        return _waits(reason, told, UNHEARD, cluster_awaited(seen) if why else None)
    steps = (Drain(plan),) if plan.evict or plan.delete else ()
    because = f"{plan.because}; {plan.obstacles}" if plan.obstacles else plan.because
    remedy = "see which pods and budgets its condition DrainingSucceeded names, or set spec.nodeDrainTimeout"
    awaits = Awaited(f"the pods of Node {seen.node_name} to leave", remedy, seen.deletion.drain_since)
    return Stage(reason, Plan(steps, plan.wake, because, awaits=(awaits,)))


def _cordon(seen: Seen) -> Iterator[PatchNode]:
    for node in seen.workload.nodes:
        if not node.spec.unschedulable:
            yield PatchNode(node, marks.cordon())


def _detach(seen: Seen) -> Stage | None:
    if detach_is_over(seen):
        return None
    why = _cannot_look(seen)
    waits = why or f"volumes are attached to its Node: {_first_three(seen.deletion.volumes)}"
    remedy = "see the driver of the volumes, or set spec.nodeVolumeDetachTimeout"
    volumes = Awaited(
        f"the volumes of Node {seen.node_name} to be detached", remedy, seen.deletion.detach_since
    )
    awaits = cluster_awaited(seen) if why else volumes
    return _waits(Reason.WAITING_FOR_VOLUME_DETACH, waits, UNHEARD, awaits)


def _hook(found: tuple[str, ...]) -> Awaited:
    """The first of some hooks, which another program should end."""
    return Awaited(
        f"annotation {found[0]} to go" if found else "", "see what its program waits for, or remove it"
    )


def _before_terminate(seen: Seen) -> Stage | None:
    found = hooks(seen, names.PRE_TERMINATE_HOOK_PREFIX)
    told = f"hooks before termination: {_first_three(found)}"
    return _waits(Reason.WAITING_FOR_PRE_TERMINATE_HOOK, told, awaits=_hook(found)) if found else None


def _infrastructure(seen: Seen) -> Stage | None:
    return _external(seen, Reason.WAITING_FOR_INFRASTRUCTURE_DELETION, INFRASTRUCTURE, seen.infrastructure)


def _bootstrap(seen: Seen) -> Stage | None:
    return _external(seen, Reason.WAITING_FOR_BOOTSTRAP_DELETION, BOOTSTRAP, seen.bootstrap)


def _external(seen: Seen, reason: Reason, about: str, external: External | None) -> Stage | None:
    if external is None or external.gone or external.other_controller(seen.owner):
        return None
    awaits = awaited_in_deletion(external)
    if external.found is None:
        told = f"it is not known whether {external} exists: {external.absence}"
        return _waits(reason, told, external.unheard, awaits)
    if external.deleting:
        return _waits(reason, f"{external} is being deleted", awaits=awaits)
    return Stage(
        reason, Plan((DeleteExternal(about, external),), AT_ONCE, f"{external} is deleted now", silent=True)
    )


def _node(seen: Seen) -> Stage | None:
    reason = Reason.DELETING_NODE
    if skip(seen) or node_deletion_over(seen):
        return None
    nodes, why = seen.workload.nodes, seen.workload.unreachable
    if why:
        return _waits(reason, why, SOON, cluster_awaited(seen))
    steps = tuple(DeleteNode(node.name, node.metadata.uid) for node in nodes if not node.metadata.deleting)
    if not steps:
        node = Awaited(f"Node {seen.node_name} to be deleted", "see the finalizers of the Node")
        return _waits(reason, "its Node is being deleted", SOON, node) if nodes else None
    return Stage(reason, Plan(steps, AT_ONCE, f"Node {seen.node_name} is deleted now", silent=True))


def node_deletion_over(seen: Seen) -> bool:
    """The deletion of the Node was tried without success for as long as the Machine says.

    That counts from the deletion of the Machine, and is mostly over when the Node's turn comes. So the
    attempts count, too: a Node is not left behind for one lost connection.
    """
    timeout = parse_timeout(seen.machine.spec.node_deletion_timeout, NODE_DELETION_TIMEOUT)
    begun, failing = seen.deletion.deleted_at, seen.deletion.node_error_since
    late = timeout is not None and begun is not None and seen.now - begun >= timeout
    in_vain = failing is not None and seen.now - failing >= NODE_DELETION_ATTEMPTS
    away = bool(seen.workload.unreachable) and seen.workload.unreachable_for >= NODE_DELETION_ATTEMPTS
    return late and (in_vain or away)


def _finalizer(_seen: Seen) -> Stage:
    plan: Plan[Step] = Plan((RemoveFinalizer(),), AT_ONCE, "nothing of it exists any more", silent=True)
    return Stage(Reason.DELETION_COMPLETED, plan)


STAGES: tuple[Callable[[Seen], Stage | None], ...] = (
    _before_drain, _drain, _detach, _before_terminate, _infrastructure, _bootstrap, _node, _finalizer,
)  # fmt: skip

REASONS = (
    Reason.WAITING_FOR_PRE_DRAIN_HOOK,
    Reason.DRAINING_NODE,
    Reason.WAITING_FOR_VOLUME_DETACH,
    Reason.WAITING_FOR_PRE_TERMINATE_HOOK,
    Reason.WAITING_FOR_INFRASTRUCTURE_DELETION,
    Reason.WAITING_FOR_BOOTSTRAP_DELETION,
    Reason.DELETING_NODE,
    Reason.DELETION_COMPLETED,
)
"""The reasons of ``STAGES``, in their order."""


def _waits(
    reason: Reason, because: str, wake: timedelta | None = None, awaits: Awaited | None = None
) -> Stage:
    return Stage(reason, Plan((), wake, because, awaits=() if awaits is None else (awaits,)))


def _first_three(items: Iterable[str]) -> str:
    """The first three, and how many more there are."""
    found = list(items)
    more = f" and {len(found) - 3} more" if len(found) > 3 else ""
    return f"{', '.join(found[:3])}{more}"
