"""The cells of kinds on which nothing here acts: autoscalers, ingresses, quotas and claims.

Theory.      What no controller has written yet shows as kube-apiserver shows it then, such as ``<unknown>``
             for a metric that was never measured.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from kubewright.apiserver.registry.builtin.cells import NONE, Cell, at
from kubewright.apiserver.registry.kind import Object

SHOWN = 2
"""Metrics of an autoscaler that are shown by name; of more, the number."""


def target(scaler: Object, _now: datetime) -> str:
    return f"{at(scaler, 'spec.scaleTargetRef.kind', '')}/{at(scaler, 'spec.scaleTargetRef.name', '')}"


def least_pods(scaler: Object, _now: datetime) -> str:
    return str(at(scaler, "spec.minReplicas", "<unset>"))


def metrics(scaler: Object, _now: datetime) -> str:
    """``cpu: 20%/80%, memory: <unknown>/1Gi``: of each metric what is measured, and what is wanted."""
    wanted = at(scaler, "spec.metrics", ())
    if not wanted:
        return NONE
    measured = at(scaler, "status.currentMetrics", ())
    found = [
        _metric(each, measured[index] if index < len(measured) else {}) for index, each in enumerate(wanted)
    ]
    more = f" + {len(found) - SHOWN} more..." if len(found) > SHOWN else ""
    return ", ".join(found[:SHOWN]) + more


def _metric(wanted: Mapping[str, Any], measured: Mapping[str, Any]) -> str:
    kind = str(wanted.get("type", ""))
    source = kind[:1].lower() + kind[1:]
    goal, current = at(wanted, f"{source}.target", {}), at(measured, f"{source}.current", {})
    shown = f"{_amount(current) or '<unknown>'}/{_amount(goal) or '<auto>'}"
    if kind in ("Resource", "ContainerResource"):
        return f"{at(wanted, f'{source}.name', '')}: {shown}"
    return f"{shown} (avg)" if "averageValue" in goal else shown


def _amount(value: Mapping[str, Any]) -> str:
    if value.get("averageUtilization") is not None:
        return f"{value['averageUtilization']}%"
    return str(value.get("averageValue") or value.get("value") or "")


def hosts(ingress: Object, _now: datetime) -> str:
    found = [rule["host"] for rule in at(ingress, "spec.rules", ()) if rule.get("host")]
    more = f" + {len(found) - 3} more..." if len(found) > 3 else ""
    return ",".join(found[:3]) + more if found else "*"


def addresses(ingress: Object, _now: datetime) -> str:
    found = at(ingress, "status.loadBalancer.ingress", ())
    return ",".join(each.get("ip") or each.get("hostname") or "" for each in found)


def ingress_ports(ingress: Object, _now: datetime) -> str:
    return "80, 443" if at(ingress, "spec.tls") else "80"


def parameters(ingress_class: Object, _now: datetime) -> str:
    """``kind.group/name`` of what has the parameters."""
    found = at(ingress_class, "spec.parameters")
    if not found:
        return NONE
    group = f".{found['apiGroup']}" if found.get("apiGroup") else ""
    return f"{found.get('kind', '')}{group}/{found.get('name', '')}"


def used(*, limits: bool) -> Cell:
    """``pods: 3/10``: of what a quota counts, how much is used; either the limits or everything else."""

    def shown(quota: Object) -> Iterator[str]:
        hard, spent = at(quota, "status.hard", {}), at(quota, "status.used", {})
        for name in sorted(hard):
            if name.startswith("limits") == limits:
                yield f"{name}: {spent.get(name, 0)}/{hard[name]}"

    return lambda quota, _now: ", ".join(shown(quota))


def claim_state(claim: Object, _now: datetime) -> str:
    """``allocated,reserved``; ``pending`` while no devices are allocated."""
    states = [word for word, there in _states(claim) if there]
    return ",".join(states) or "pending"


def _states(claim: Object) -> Iterator[tuple[str, bool]]:
    yield "deleted", bool(at(claim, "metadata.deletionTimestamp"))
    yield "allocated", at(claim, "status.allocation") is not None
    yield "reserved", bool(at(claim, "status.reservedFor"))
