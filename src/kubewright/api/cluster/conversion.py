"""The kinds of ``cluster.x-k8s.io`` in v1beta1 and v1beta2: tables of what differs. Pure.

Theory.      Each table is the difference of two versions of a kind, row by row, as upstream's webhooks of
             v1.14.2 convert it: references lose version and namespace, durations become seconds, and old
             conditions, counters and failures move below ``status.deprecated.v1beta1``, while v1beta2's own
             stand in v1beta1 below ``status.v1beta2``. Rows that several kinds share, such as those of a
             machine's spec, are written once, and put below a path by ``below``.
Invariants.  Both ways lose nothing that upstream keeps, and write what upstream writes: a test in the lane
             of real programs compares them with upstream's own code. A topology, which is refused, is moved
             as it is, but for the name of its class.
Called by    ``catalog``, for servers that convert.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from kubewright.api.cluster import health, v1beta2
from kubewright.api.cluster.v1beta1 import VERSION
from kubewright.api.conversion import (
    Context,
    Intent,
    Move,
    Obj,
    Table,
    duration_of,
    each,
    long_reference,
    put,
    renamed,
    seconds_of,
    short_reference,
)

_DEPRECATED = "status.deprecated.v1beta1"


def below(path: str, moves: Sequence[Move]) -> tuple[Move, ...]:
    """The same rows for a part that stands at a path."""
    return tuple(Move(f"{path}.{m.old}", f"{path}.{m.new}", m.up, m.down) for m in moves)


def old(*names: str) -> tuple[Move, ...]:
    """Fields of v1beta1's status that v1beta2 keeps apart."""
    return tuple(Move(f"status.{name}", f"{_DEPRECATED}.{name}") for name in names)


def new(*names: str) -> tuple[Move, ...]:
    """Fields of v1beta2's status that v1beta1 keeps apart."""
    return tuple(Move(f"status.v1beta2.{name}", f"status.{name}") for name in names)


def reference(path: str) -> Move:
    """A reference whose version follows from the contract."""
    return Move(path, path, short_reference, long_reference)


def duration(path: str, seconds: str) -> Move:
    """A duration that is seconds in v1beta2."""
    return Move(path, seconds, seconds_of, duration_of)


FAILURES = ("failureReason", "failureMessage")
COUNTERS = ("readyReplicas", "availableReplicas")
GONE = Move("", "status.deprecated")
"""What is left of it when all rows have taken theirs."""
STATUS = (*old("conditions", *FAILURES), *new("conditions"))
DELETION = ("nodeDrainTimeout", "nodeVolumeDetachTimeout", "nodeDeletionTimeout")
MACHINE_SPEC = (
    reference("infrastructureRef"),
    reference("bootstrap.configRef"),
    *(duration(name, f"deletion.{name}Seconds") for name in DELETION),
)
MACHINE_ZEROS: Mapping[str, Any] = {"clusterName": "", "bootstrap": {}, "infrastructureRef": {}}
TEMPLATE = "spec.template.spec"
TEMPLATE_ZEROS = {
    "+spec.clusterName": "",
    "+spec.selector": {},
    "+spec.template.metadata": {},
    "+spec.template.spec.clusterName": "",
    "+spec.template.spec.bootstrap": {},
    "+spec.template.spec.infrastructureRef": {},
}


def _domains(found: Mapping[str, Any], _context: Context) -> list[Obj]:
    return [{"name": name, "controlPlane": False, **(found[name] or {})} for name in sorted(found)]


def _domains_by_name(found: Sequence[Mapping[str, Any]], _context: Context) -> Obj:
    return {
        each["name"]: {key: value for key, value in each.items() if key != "name" and value} for each in found
    }


def _node(found: Mapping[str, Any], _context: Context) -> Obj | None:
    return {"name": found["name"]} if found.get("name") else None


def _node_reference(found: Mapping[str, Any], _context: Context) -> Obj:
    return {"apiVersion": "v1", "kind": "Node", "name": found["name"]}


CLUSTER = Table(
    v1beta2.CLUSTER,
    VERSION,
    moves=(
        reference("spec.infrastructureRef"),
        reference("spec.controlPlaneRef"),
        *STATUS,
        GONE,
        *new("controlPlane", "workers"),
        Move("status.failureDomains", "status.failureDomains", _domains, _domains_by_name),
        Move("spec.topology.class", "spec.topology.classRef.name"),
        Move("spec.topology.classNamespace", "spec.topology.classRef.namespace"),
    ),
    intents=(
        Intent("spec.paused", "spec.paused"),
        Intent("status.controlPlaneReady", "status.initialization.controlPlaneInitialized"),
        Intent("status.infrastructureReady", "status.initialization.infrastructureProvisioned"),
    ),
    zeros={
        "+spec.controlPlaneEndpoint.host": "",
        "+spec.controlPlaneEndpoint.port": 0,
        "+status.infrastructureReady": False,
        "+status.controlPlaneReady": False,
    },
)


def _running(result: Obj) -> None:
    """v1beta1 has no word for an update in place."""
    if result.get("status", {}).get("phase") == "Updating":
        put(result, "status.phase", "Running")


MACHINE = Table(
    v1beta2.MACHINE,
    VERSION,
    moves=(
        *below("spec", MACHINE_SPEC),
        *STATUS,
        GONE,
        Move("status.nodeRef", "status.nodeRef", _node, _node_reference),
        Move("", "spec.minReadySeconds"),
        Move("", "status.failureDomain"),
    ),
    intents=(
        Intent("status.bootstrapReady", "status.initialization.bootstrapDataSecretCreated"),
        Intent("status.infrastructureReady", "status.initialization.infrastructureProvisioned"),
    ),
    restored=("spec.minReadySeconds", "status.phase", "status.failureDomain"),
    zeros={
        **{f"+spec.{name}": value for name, value in MACHINE_ZEROS.items()},
        "+status.bootstrapReady": False,
        "+status.infrastructureReady": False,
    },
    finish_down=_running,
)
NAMING = Move("spec.machineNamingStrategy", "spec.machineNaming")


def _no_zero(value: Any, _context: Context) -> Any:
    return value or None


MACHINE_SET = Table(
    v1beta2.MACHINE_SET,
    VERSION,
    moves=(
        *below(TEMPLATE, MACHINE_SPEC),
        *STATUS,
        *old(*COUNTERS, "fullyLabeledReplicas"),
        GONE,
        *new(*COUNTERS, "upToDateReplicas"),
        NAMING,
        Move("spec.deletePolicy", "spec.deletion.order"),
        Move("spec.minReadySeconds", f"{TEMPLATE}.minReadySeconds", _no_zero, _no_zero),
    ),
    zeros={
        **TEMPLATE_ZEROS,
        **{f"+status.{name}": 0 for name in ("replicas", "fullyLabeledReplicas", *COUNTERS)},
    },
    new_zeros={
        "+status.replicas": 0,
        **{f"+{_DEPRECATED}.{name}": 0 for name in ("fullyLabeledReplicas", *COUNTERS)},
    },
    keeps=False,
)
OLD_COUNTERS = ("updatedReplicas", *COUNTERS, "unavailableReplicas")
MACHINE_DEPLOYMENT = Table(
    v1beta2.MACHINE_DEPLOYMENT,
    VERSION,
    moves=(
        *below(TEMPLATE, MACHINE_SPEC),
        *old("conditions", *OLD_COUNTERS),
        GONE,
        *new("conditions", *COUNTERS, "upToDateReplicas"),
        NAMING,
        Move("spec.strategy.type", "spec.rollout.strategy.type"),
        *(
            Move(f"spec.strategy.rollingUpdate.{name}", f"spec.rollout.strategy.rollingUpdate.{name}")
            for name in ("maxUnavailable", "maxSurge")
        ),
        Move("spec.strategy.rollingUpdate.deletePolicy", "spec.deletion.order"),
        Move("spec.strategy.remediation.maxInFlight", "spec.remediation.maxInFlight"),
        Move("spec.rolloutAfter", "spec.rollout.after"),
        Move("spec.minReadySeconds", f"{TEMPLATE}.minReadySeconds"),
    ),
    intents=(Intent("spec.paused", "spec.paused"),),
    zeros={**TEMPLATE_ZEROS, **{f"+status.{name}": 0 for name in ("replicas", *OLD_COUNTERS)}},
    new_zeros={"+status.replicas": 0, **{f"+{_DEPRECATED}.{name}": 0 for name in OLD_COUNTERS}},
)
_LASTING = each(renamed("timeout", "timeoutSeconds", seconds_of))
_LASTED = each(renamed("timeoutSeconds", "timeout", duration_of))
WATCHED = ("expectedMachines", "currentHealthy", "remediationsAllowed")


def _template(found: Mapping[str, Any], _context: Context) -> Obj:
    return {name: found[name] for name in ("kind", "name", "apiVersion") if found.get(name)}


def _template_reference(found: Mapping[str, Any], context: Context) -> Obj:
    return {**found, "namespace": context.namespace} if context.namespace else dict(found)


MACHINE_HEALTH_CHECK = Table(
    health.MACHINE_HEALTH_CHECK,
    VERSION,
    moves=(
        *old("conditions"),
        GONE,
        *new("conditions"),
        Move("spec.unhealthyConditions", "spec.checks.unhealthyNodeConditions", _LASTING, _LASTED),
        Move("spec.unhealthyMachineConditions", "spec.checks.unhealthyMachineConditions", _LASTING, _LASTED),
        duration("spec.nodeStartupTimeout", "spec.checks.nodeStartupTimeoutSeconds"),
        Move("spec.maxUnhealthy", "spec.remediation.triggerIf.unhealthyLessThanOrEqualTo"),
        Move("spec.unhealthyRange", "spec.remediation.triggerIf.unhealthyInRange"),
        Move("spec.remediationTemplate", "spec.remediation.templateRef", _template, _template_reference),
    ),
    intents=tuple(Intent(f"status.{name}", f"status.{name}") for name in WATCHED),
    zeros={"+spec.clusterName": "", "+spec.selector": {}, **{f"+status.{name}": 0 for name in WATCHED}},
)
MACHINE_DRAIN_RULE = Table(v1beta2.MACHINE_DRAIN_RULE, VERSION, keeps=False)

TABLES = (CLUSTER, MACHINE, MACHINE_SET, MACHINE_DEPLOYMENT, MACHINE_HEALTH_CHECK, MACHINE_DRAIN_RULE)
