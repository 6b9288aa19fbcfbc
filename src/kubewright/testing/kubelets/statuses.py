"""From what a supervisor says of a program to the status of its pod. Pure.

Called by    ``kubelet``.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from kubewright.base.clock import rfc3339
from kubewright.processes.program import Phase, Status

RUNS = (Phase.STARTING, Phase.RUNNING, Phase.TERMINATING)
Json = dict[str, Any]


def status_of(
    pod: Mapping[str, Any], seen: Status | None, address: str, now: datetime, *, missing: str = ""
) -> Json:
    """The status that a kubelet writes. ``missing``: what keeps the container from being made."""
    (container,) = pod["spec"]["containers"]
    runs = seen is not None and seen.phase in RUNS
    ready = seen is not None and seen.ready
    state = _state(seen, missing)
    shown = {
        "name": container["name"],
        "image": container.get("image", ""),
        "imageID": "",
        "ready": ready,
        "started": runs,
        "restartCount": 0 if seen is None else seen.restarts,
        "state": state,
    }
    conditions = {"PodScheduled": True, "Initialized": True, "ContainersReady": ready, "Ready": ready}
    before = {each["type"]: each for each in pod.get("status", {}).get("conditions", ())}
    return {
        "phase": "Running" if runs or (seen is not None and seen.restarts) else "Pending",
        "podIP": address,
        "podIPs": [{"ip": address}],
        "hostIP": "127.0.0.1",
        "conditions": [_condition(kind, value, before.get(kind), now) for kind, value in conditions.items()],
        "containerStatuses": [shown],
    }


def _state(seen: Status | None, missing: str) -> Json:
    if seen is not None and seen.phase in RUNS:
        return {"running": {"startedAt": rfc3339(datetime.fromtimestamp(seen.since, UTC))}}
    if seen is not None and seen.phase is Phase.BACK_OFF:
        return {"waiting": {"reason": "CrashLoopBackOff", "message": seen.message}}
    return {"waiting": {"reason": "ContainerCreating", **({"message": missing} if missing else {})}}


def _condition(kind: str, value: bool, before: Mapping[str, Any] | None, now: datetime) -> Json:
    status, known = "True" if value else "False", before or {}
    since = known.get("lastTransitionTime") if known.get("status") == status else None
    return {"type": kind, "status": status, "lastTransitionTime": since or rfc3339(now)}
