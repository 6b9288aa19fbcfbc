"""Kinds that are served in two shapes and stored in one: HorizontalPodAutoscalers and Events.

Theory.      autoscaling/v1 has one metric, the share of cpu; older kubectls still write it. The store holds
             the shape of v2. What the older one has no field for is in four annotations there, named as by
             kube-apiserver, so that a client of the older version loses nothing that it sends back. Of what
             is measured, the older one shows the share of cpu.
             Old clients write ``involvedObject``, ``message``, ``count`` of an Event; new ones write
             ``regarding``, ``note``, ``deprecatedCount``. The store holds the core shape; that of
             events.k8s.io differs only in the names of fields.
Invariants.  Pure. What is read in the other shape and sent back means the same, spec and status.
Called by    ``builtin.served``, as the ``to_stored`` and ``from_stored`` of a kind; ``check``, ``stored`` and
             ``columns``, which look at one shape only.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from kubewright.apiserver.schema.node import Object, at
from kubewright.wire.gvk import Resource

NEWER = Resource("autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler")
PERCENT = 80
"""Of the cpu that pods request: the metric of an autoscaler that names none."""

_PREFIX = "autoscaling.alpha.kubernetes.io"
_METRICS, _BEHAVIOR = f"{_PREFIX}/metrics", f"{_PREFIX}/behavior"
_CURRENT, _CONDITIONS = f"{_PREFIX}/current-metrics", f"{_PREFIX}/conditions"
_TARGET, _MEASURED = "targetCPUUtilizationPercentage", "currentCPUUtilizationPercentage"
_OF_STATUS: Mapping[str, str] = {_CURRENT: "currentMetrics", _CONDITIONS: "conditions"}
"""What the older status has no field for, by annotation. Such a note counts more than the share of cpu."""


def cpu(percent: int) -> dict[str, Any]:
    """The metric of the older version in the newer one."""
    target = {"type": "Utilization", "averageUtilization": percent}
    return {"type": "Resource", "resource": {"name": "cpu", "target": target}}


def to_newer(obj: Object) -> Object:
    """An object of autoscaling/v1 in the shape of v2."""
    meta, spec, status = (dict(obj.get(name) or {}) for name in ("metadata", "spec", "status"))
    notes = dict(meta.get("annotations") or {})
    others, behavior = _read(notes.pop(_METRICS, None), list), _read(notes.pop(_BEHAVIOR, None), dict)
    percent = spec.pop(_TARGET, None)
    metrics = [*([] if percent is None else [cpu(percent)]), *(others or ())]
    spec |= {"metrics": metrics or [cpu(PERCENT)], **({"behavior": behavior} if behavior else {})}
    measured = status.pop(_MEASURED, None)
    if measured is not None:
        current = {"averageUtilization": measured, "averageValue": "0"}
        status["currentMetrics"] = [{"type": "Resource", "resource": {"name": "cpu", "current": current}}]
    for note, name in _OF_STATUS.items():
        if (kept := _read(notes.pop(note, None), list)) is not None:
            status[name] = kept
    return _put(obj, NEWER.api_version, meta, notes, spec, status)


def to_older(obj: Object) -> Object:
    """An object of autoscaling/v2 in the shape of v1."""
    meta, spec, status = (dict(obj.get(name) or {}) for name in ("metadata", "spec", "status"))
    notes = dict(meta.get("annotations") or {})
    metrics, behavior = spec.pop("metrics", None) or (), spec.pop("behavior", None)
    percent = next((share for each in metrics if (share := _share(each, "target")) is not None), None)
    if percent is not None:
        spec[_TARGET] = percent
    if others := [each for each in metrics if _share(each, "target") is None]:
        notes[_METRICS] = orjson.dumps(others).decode()
    if behavior:
        notes[_BEHAVIOR] = orjson.dumps(behavior).decode()
    for note, name in _OF_STATUS.items():
        if name in status:
            notes[note] = orjson.dumps(status[name]).decode()
    status.pop("conditions", None)
    for each in status.pop("currentMetrics", None) or ():
        if (share := _share(each, "current")) is not None:
            status[_MEASURED] = share
    return _put(obj, "autoscaling/v1", meta, notes, spec, status)


def _share(metric: Mapping[str, Any], of: str) -> int | None:
    """The share of cpu that is wanted (``target``) or measured (``current``), if that is what it is about."""
    if metric.get("type") != "Resource" or at(metric, "resource.name") != "cpu":
        return None
    share: int | None = at(metric, f"resource.{of}.averageUtilization")
    return share


def _read(text: Any, form: type) -> Any:
    """What an annotation says; None for one that is missing, or is not what we write."""
    try:
        found = orjson.loads(text) if isinstance(text, str) else None
    except orjson.JSONDecodeError:
        return None
    if isinstance(found, list) and not all(isinstance(each, dict) for each in found):
        return None
    return found if isinstance(found, form) else None


def _put(
    obj: Object, version: str, meta: dict[str, Any], notes: dict[str, str], *parts: Mapping[str, Any]
) -> Object:
    meta.pop("annotations", None)
    whole = {**meta, **({"annotations": notes} if notes else {})}
    named: Sequence[str] = ("spec", "status")
    changed = {name: part for name, part in zip(named, parts, strict=True) if part or name in obj}
    return {**obj, "apiVersion": version, "metadata": whole, **changed}


AUTOSCALERS: Mapping[str, Any] = {"stored_as": NEWER, "to_stored": to_newer, "from_stored": to_older}


CORE_EVENT = Resource("", "v1", "events", "Event")

_CORE_NAME_OF: Mapping[str, str] = {
    "regarding": "involvedObject",
    "note": "message",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}
_EVENTS_NAME_OF = {core: new for new, core in _CORE_NAME_OF.items()}


def to_core_event(obj: Object) -> Object:
    """An events.k8s.io Event in core's shape."""
    return {_CORE_NAME_OF.get(name, name): value for name, value in obj.items()} | {"apiVersion": "v1"}


def from_core_event(obj: Object) -> Object:
    """A core Event in the shape of events.k8s.io."""
    renamed = {_EVENTS_NAME_OF.get(name, name): value for name, value in obj.items()}
    return renamed | {"apiVersion": "events.k8s.io/v1"}


EVENTS: Mapping[str, Any] = {
    "stored_as": CORE_EVENT,
    "to_stored": to_core_event,
    "from_stored": from_core_event,
}
