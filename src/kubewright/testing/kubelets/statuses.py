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


def status_once(
    pod: Mapping[str, Any], outcome: Mapping[str, Any], address: str, now: datetime, *, missing: str = ""
) -> Json:
    """The status of a pod that is done once. ``outcome``: what ``sequence`` wrote; empty: nothing yet."""
    spec, step = pod["spec"], outcome.get("step")
    names = [each["name"] for each in (*spec.get("initContainers", ()), *spec["containers"])]
    at = len(names) if step == "" else names.index(step) if step else -1
    shown = []
    for number, name in enumerate(names):
        state: Json = {"waiting": {"reason": "PodInitializing", **({"message": missing} if missing else {})}}
        if number < at:
            state = {"terminated": {"exitCode": 0, "reason": "Completed"}}
        elif number == at and outcome["code"]:
            state = {"terminated": {"exitCode": outcome["code"], "reason": "Error"}}
        elif number == at:
            state = {"running": {}}
        shown.append(
            {"name": name, "image": "", "imageID": "", "restartCount": 0, "ready": False, "state": state}
        )
    phase = "Pending" if at < 0 else "Succeeded" if at == len(names) else "Running"
    before = {each["type"]: each for each in pod.get("status", {}).get("conditions", ())}
    return {
        "phase": "Failed" if outcome.get("code") else phase,
        "podIP": address,
        "podIPs": [{"ip": address}],
        "hostIP": "127.0.0.1",
        "conditions": [_condition("PodScheduled", True, before.get("PodScheduled"), now)],
        "initContainerStatuses": shown[:-1],
        "containerStatuses": shown[-1:],
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
