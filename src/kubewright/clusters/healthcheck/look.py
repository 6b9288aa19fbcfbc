"""Read a health check, its cluster, and the machines that it watches with their Nodes, from caches.

Theory.      A Node is read through the session with its cluster. How long it has been in a state counts
             from when this process saw it change (``base.witness``), so no step of a clock makes a
             machine unhealthy.
Invariants.  Nothing waits. Without a session the Nodes count as out of sight, never as missing.
Called by    ``wiring``.
"""

from collections.abc import Iterator

from msgspec import to_builtins

from kubewright.api.cluster import names
from kubewright.api.cluster.conditions import ConditionType
from kubewright.api.cluster.v1beta1 import (
    CLUSTER,
    MACHINE,
    MACHINE_HEALTH_CHECK,
    Cluster,
    Machine,
    MachineHealthCheck,
    ObjectReference,
)
from kubewright.api.cluster.validate import default_health_check, validate_health_check
from kubewright.api.conditions import find_true_condition
from kubewright.api.faults import summary
from kubewright.base.clock import SteadyClock, stamp
from kubewright.base.witness import Witness
from kubewright.clusters.external.object import TEMPLATE, External, look_up
from kubewright.clusters.healthcheck.seen import NodeState, Seen, Target
from kubewright.clusters.indexes import BY_CLUSTER, index_by_cluster
from kubewright.clusters.node import CLUSTER_NODE, ClusterNode
from kubewright.clusters.owned import cluster_of
from kubewright.kube.informer import Informer, Informers
from kubewright.replicas.objects import key_of
from kubewright.runtime.references.registry import ControllerLookup
from kubewright.runtime.sessions.session import Lookup, NotConnected
from kubewright.wire import selectors
from kubewright.wire.errors import BadRequest
from kubewright.wire.gvk import Key
from kubewright.wire.selectors import NOTHING, Selector


class Looker:
    """Looks at health checks."""

    def __init__(
        self, informers: Informers, references: ControllerLookup, workloads: Lookup, clock: SteadyClock
    ) -> None:
        self.checks: Informer[MachineHealthCheck] = informers.get(MACHINE_HEALTH_CHECK)
        self.machines: Informer[Machine] = informers.get(MACHINE)
        self.clusters: Informer[Cluster] = informers.get(CLUSTER)
        self._references = references
        self._workloads = workloads
        self._clock = clock
        self._wall = informers.client.clock
        self._witness: Witness[float] = Witness(self._now)
        index_by_cluster(self.checks)
        index_by_cluster(self.machines)

    def look(self, written: MachineHealthCheck) -> Seen:
        """What is seen of one health check, with its defaults."""
        check = default_health_check(written)
        cluster = self.clusters.get(cluster_of(check))
        key, ref = key_of(check), check.spec.remediation_template
        template = look_up(self._references, key, ref) if ref is not None else None
        return Seen(
            check,
            cluster,
            self._now(),
            self._wall.now(),
            targets=tuple(self._targets(check, cluster, ref)),
            template=template,
            problem=summary(validate_health_check(check)),
        )

    def forget(self, check: Key) -> None:
        """There is no such health check any more."""
        self._references.forget(check)
        self._witness.forget(f"session {check}")

    def forget_node(self, node: ClusterNode) -> None:
        """There is no such Node any more."""
        for each in node.status.conditions:
            self._witness.forget(f"{node.metadata.uid}/{each.type}")

    def _now(self) -> float:
        return self._clock.now().timestamp()

    def _targets(
        self, check: MachineHealthCheck, cluster: Cluster | None, ref: ObjectReference | None
    ) -> Iterator[Target]:
        selector, nodes = selector_of(check), self._nodes(cluster_of(check))
        reached = self._witness.began(f"session {key_of(check)}", nodes is not None, None) or 0.0
        found = self.machines.by(BY_CLUSTER, str(cluster_of(check)))
        for machine in sorted(found, key=lambda each: each.name):
            meta = machine.metadata
            if not selector.matches(meta.labels) or names.paused(meta.annotations):
                continue
            if names.SKIP_REMEDIATION_ANNOTATION in meta.annotations:
                continue
            if self.machines.problem(Key(meta.namespace, meta.name)):  # of its health only a part is seen
                continue
            yield Target(
                machine,
                self._node(machine, nodes),
                nodes is not None,
                max(reached, _could_join_since(machine, cluster)),
                self._request(check, machine, ref) if ref is not None else None,
            )

    def _nodes(self, cluster: Key) -> Informer[ClusterNode] | None:
        try:
            return self._workloads.get(cluster).informer(CLUSTER_NODE)
        except NotConnected:
            return None

    def _node(self, machine: Machine, nodes: Informer[ClusterNode] | None) -> NodeState | None:
        ref = machine.status.node_ref
        node = nodes.get(Key("", ref.name)) if nodes is not None and ref is not None else None
        if node is None:
            return None
        states = {}
        for each in node.status.conditions:
            since = self._witness.since(f"{node.metadata.uid}/{each.type}", stamp(each.last_transition_time))
            states[each.type] = (each.status, since if since is not None else self._now())
        return NodeState(states)

    def _request(self, check: MachineHealthCheck, machine: Machine, ref: ObjectReference) -> External:
        """The remediation request of a machine, which has the machine's name."""
        wanted = ObjectReference(
            api_version=ref.api_version, kind=ref.kind.removesuffix(TEMPLATE), name=machine.name
        )
        return look_up(self._references, key_of(check), wanted)


def selector_of(check: MachineHealthCheck) -> Selector:
    """Which machines of its cluster a health check watches; none if its selector is empty or wrong."""
    try:
        found = selectors.from_object(to_builtins(check.spec.selector) if check.spec.selector else None)
    except BadRequest:
        return NOTHING
    return found or NOTHING


def _could_join_since(machine: Machine, cluster: Cluster | None) -> float:
    """From when a machine could become a Node: it was made, and its cluster was ready for it."""
    conditions = cluster.status.conditions if cluster is not None else ()
    moments = [machine.metadata.creation_timestamp]
    for kind in (ConditionType.CONTROL_PLANE_INITIALIZED, ConditionType.INFRASTRUCTURE_READY):
        found = find_true_condition(conditions, kind)
        moments.append(found.last_transition_time if found is not None else None)
    return max((stamp(each) or 0.0 for each in moments), default=0.0)
