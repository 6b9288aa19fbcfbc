"""The facts about a Pod and a Node by which the Pod is scheduled. Pure.

Theory.      A Pod and a Node are read once per version into a few facts, so that placing a Pod on one of
             a thousand Nodes decodes none of them. Quantities become numbers; a text that is no
             quantity counts as 0.
Called by    ``decide`` and ``reconciler``.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
from msgspec import field as member

from kubewright.api.core import Node, Taint
from kubewright.api.meta import Json, ObjectMeta, Quantity
from kubewright.base.limits import remembered
from kubewright.wire import selectors
from kubewright.wire.errors import BadRequest
from kubewright.wire.quantity import parse
from kubewright.wire.selectors import EVERYTHING, NOTHING, Selector

SCHEDULER = "default-scheduler"
"""The ``schedulerName`` of the Pods that this scheduler binds."""

DISRUPTED, PREEMPTED = "DisruptionTarget", "PreemptionByScheduler"
"""The condition of a Pod that has to make room, and its reason."""

PODS = "pods"
OF_PODS, HUGE_PAGES = ("cpu", "memory"), "hugepages-"
"""What may be requested for a whole Pod."""
FINISHED = ("Succeeded", "Failed")
NEVER_READY = ("False", "Unknown")


class _Part(msgspec.Struct, rename="camel", frozen=True, gc=False):
    """Base of the slices of a Pod."""


class Toleration(_Part, frozen=True):
    """A taint that a Pod tolerates; empty members tolerate any."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None
    """For how long, where the taint evicts; None: for ever."""

    def tolerates(self, taint: Taint) -> bool:
        """Whether it fits this taint."""
        if self.effect not in ("", taint.effect) or self.key not in ("", taint.key):
            return False
        return self.operator == "Exists" or (self.key == taint.key and self.value == taint.value)


class _Resources(_Part, frozen=True):
    requests: Mapping[str, Quantity] = member(default_factory=dict)


class _Container(_Part, frozen=True):
    resources: _Resources = _Resources()
    restart_policy: str = ""

    @property
    def stays(self) -> bool:
        """Whether an init container runs beside the containers, as a sidecar does."""
        return self.restart_policy == "Always"


class _Spec(_Part, frozen=True):
    node_name: str = ""
    scheduler_name: str = SCHEDULER
    priority: int = 0
    preemption_policy: str = ""
    scheduling_gates: tuple[Json, ...] = ()
    node_selector: Mapping[str, str] = member(default_factory=dict)
    tolerations: tuple[Toleration, ...] = ()
    affinity: Json = None
    containers: tuple[_Container, ...] = ()
    init_containers: tuple[_Container, ...] = ()
    resources: _Resources = _Resources()
    overhead: Mapping[str, Quantity] = member(default_factory=dict)


class _Condition(_Part, frozen=True):
    type: str = ""
    status: str = ""
    reason: str = ""


class _Status(_Part, frozen=True):
    phase: str = ""
    nominated_node_name: str = ""
    start_time: str = ""
    conditions: tuple[_Condition, ...] = ()


class PodSlice(_Part, frozen=True):
    """What a scheduler reads of a Pod; more than controllers do, so it has a type of its own."""

    metadata: ObjectMeta = ObjectMeta()
    spec: _Spec = _Spec()
    status: _Status = _Status()

    @property
    def waits(self) -> bool:
        """It has no node yet, and this scheduler is to bind it."""
        spec = self.spec
        ours = spec.scheduler_name == SCHEDULER and not spec.scheduling_gates
        return ours and not (spec.node_name or self.metadata.deleting or self.status.phase in FINISHED)

    @property
    def preempted(self) -> bool:
        """It ends because a scheduler wants its place for another Pod."""
        found = next((each for each in self.status.conditions if each.type == DISRUPTED), None)
        ours = found is not None and (found.status, found.reason) == ("True", PREEMPTED)
        return ours and self.metadata.deleting


_decoder = msgspec.json.Decoder(PodSlice)


def read_pod(data: bytes) -> PodSlice:
    """The slice of a Pod from a cache's bytes.

    Raises:
        msgspec.ValidationError: it does not have the form of a Pod.
    """
    return _decoder.decode(data)


Amounts = Mapping[str, float]


def requests_of(pod: PodSlice) -> Amounts:
    """What a Pod requests, as a kubelet counts it, too: the sum of its containers and sidecars, or the most
    that is in use while it begins; instead, what it says for the whole Pod; its overhead; and one Pod."""
    spec = pod.spec
    total: dict[str, float] = {}
    for container in spec.containers:
        _add(total, container.resources.requests)
    if spec.init_containers:
        _begin(total, spec.init_containers)
    for name, quantity in spec.resources.requests.items():
        if name in OF_PODS or name.startswith(HUGE_PAGES):
            total[name] = amount(quantity)
    _add(total, spec.overhead)
    return {**total, PODS: 1.0}


def _begin(total: dict[str, float], init_containers: Sequence[_Container]) -> None:
    """Count init containers: each runs beside the sidecars that began before it, and ends."""
    sidecars: dict[str, float] = {}
    most: dict[str, float] = {}
    for container in init_containers:
        now = sidecars if container.stays else dict(sidecars)
        _add(now, container.resources.requests)
        if container.stays:
            _add(total, container.resources.requests)
        for name, number in now.items():
            most[name] = max(most.get(name, 0.0), number)
    for name, number in most.items():
        total[name] = max(total.get(name, 0.0), number)


def _add(total: dict[str, float], quantities: Mapping[str, Quantity]) -> None:
    for name, quantity in quantities.items():
        total[name] = total.get(name, 0.0) + amount(quantity)


def amount(quantity: str | int) -> float:
    """A quantity as a number; 0 for a text that is none."""
    return _amount(quantity if isinstance(quantity, str) else str(quantity))


@remembered(4096)
def _amount(quantity: str) -> float:
    try:
        return float(parse(quantity))
    except ValueError:
        return 0.0


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """The facts about a Node. A resource that ``allocatable`` lacks counts as 0; Pods, as unlimited."""

    name: str
    ready: bool = True
    cordoned: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    allocatable: Amounts = field(default_factory=dict)


def node_facts(node: Node) -> NodeFacts:
    """The facts of a Node. One without a Ready condition counts as ready, as for a kube-scheduler."""
    status = node.status
    return NodeFacts(
        node.name,
        ready=not any(each.type == "Ready" and each.status in NEVER_READY for each in status.conditions),
        cordoned=node.spec.unschedulable,
        labels=node.metadata.labels,
        taints=node.spec.taints,
        allocatable={name: amount(quantity) for name, quantity in status.allocatable.items()},
    )


def node_selector_terms(pod: PodSlice) -> Sequence[tuple[Selector, Selector]]:
    """The alternatives of the required node affinity, each by labels and by fields; all nodes without one."""
    required = _at(pod.spec.affinity, "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
    if not isinstance(required, dict):
        return ((EVERYTHING, EVERYTHING),)
    return [
        (_selector(term.get("matchExpressions")), _selector(term.get("matchFields")))
        for term in required.get("nodeSelectorTerms") or ()
        if term
    ]


def _at(value: Any, *path: str) -> Any:
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _selector(expressions: Iterable[Mapping[str, Any]] | None) -> Selector:
    try:
        return selectors.from_node_expressions(list(expressions or ()))
    except BadRequest:
        return NOTHING
