"""The cells of Pods. ``Status`` is the one that users look at most, so it is exactly kubectl's.

Theory.      Init containers come first, in order: the first that is not done gives the status. Then
             the containers, from the last to the first: each that waits or has ended overwrites
             the status, so the first of them decides.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from kubewright.apiserver.registry.builtin.cells import NONE, at, since
from kubewright.apiserver.registry.kind import Object

Status = Mapping[str, Any]
_OVER = ("Succeeded", "Failed")


@dataclass(slots=True)
class _Summary:
    """What is known from the containers looked at so far."""

    reason: str
    ready: int = 0
    restarts: int = 0
    last_restart: str = ""

    def restarted(self, status: Status) -> None:
        self.restarts += status.get("restartCount", 0)
        self.last_restart = max(self.last_restart, at(status, "lastState.terminated.finishedAt", ""))


def _ended(end: Status, prefix: str = "") -> str:
    """How a container ended: its reason, else the signal, else the exit code."""
    if end.get("reason"):
        return f"{prefix}{end['reason']}"
    if end.get("signal"):
        return f"{prefix}Signal:{end['signal']}"
    return f"{prefix}ExitCode:{end.get('exitCode', 0)}"


def _sidecars(pod: Object) -> set[str]:
    """Init containers that go on running beside the others."""
    init: Iterable[Status] = at(pod, "spec.initContainers", ())
    return {c.get("name", "") for c in init if c.get("restartPolicy") == "Always"}


def _init_word(status: Status, done: int, total: int) -> str:
    """The status of a pod with an init container that is not done."""
    if (end := at(status, "state.terminated")) is not None:
        return _ended(end, "Init:")
    waiting = at(status, "state.waiting.reason", "")
    if waiting and waiting != "PodInitializing":
        return f"Init:{waiting}"
    return f"Init:{done}/{total}"


def _add_init_containers(pod: Object, summary: _Summary) -> bool:
    """Add the init containers in order; true while one of them is not done."""
    sidecars = _sidecars(pod)
    total = len(at(pod, "spec.initContainers", ()))
    for done, status in enumerate(at(pod, "status.initContainerStatuses", ())):
        summary.restarted(status)
        sidecar = status.get("name") in sidecars
        if at(status, "state.terminated.exitCode") == 0:
            continue
        if sidecar and status.get("started"):
            summary.ready += bool(status.get("ready"))
            continue
        summary.reason = _init_word(status, done, total)
        return True
    return False


def _add_containers(pod: Object, summary: _Summary) -> None:
    sidecars = _sidecars(pod)
    summary.restarts, summary.last_restart = 0, ""
    for status in at(pod, "status.initContainerStatuses", ()):
        if status.get("name") in sidecars:
            summary.restarted(status)
    running, failed = False, ""
    for status in reversed(at(pod, "status.containerStatuses", ())):
        summary.restarted(status)
        end = at(status, "state.terminated")
        if waiting := at(status, "state.waiting.reason", ""):
            summary.reason = waiting
        elif end is not None:
            summary.reason = _ended(end)
            failed = summary.reason if end.get("exitCode") else failed
        elif status.get("ready") and at(status, "state.running") is not None:
            running = True
            summary.ready += 1
    if summary.reason == "Completed":
        summary.reason = _completed(pod, running, failed)


def _completed(pod: Object, running: bool, failed: str) -> str:
    """One container is done; the others decide what the pod is."""
    if running and _condition(pod, "Ready") == "True":
        return "Running"
    return failed or ("NotReady" if running else "Completed")


def _condition(pod: Object, wanted: str, key: str = "status") -> str:
    found = (c.get(key, "") for c in at(pod, "status.conditions", ()) if c.get("type") == wanted)
    return str(next(found, ""))


def _summary(pod: Object) -> _Summary:
    summary = _Summary(at(pod, "status.reason", "") or at(pod, "status.phase", ""))
    if _condition(pod, "PodScheduled", "reason") == "SchedulingGated":
        summary.reason = "SchedulingGated"
    if not _add_init_containers(pod, summary) or _condition(pod, "Initialized") == "True":
        _add_containers(pod, summary)
    return summary


def ready(pod: Object, _now: datetime) -> str:
    return f"{_summary(pod).ready}/{len(at(pod, 'spec.containers', ())) + len(_sidecars(pod))}"


def status(pod: Object, _now: datetime) -> str:
    if at(pod, "metadata.deletionTimestamp"):
        if at(pod, "status.reason") == "NodeLost":
            return "Unknown"
        if at(pod, "status.phase") not in _OVER:
            return "Terminating"
    return _summary(pod).reason


def restarts(pod: Object, now: datetime) -> str:
    summary = _summary(pod)
    if summary.restarts and summary.last_restart:
        return f"{summary.restarts} ({since(summary.last_restart, now)} ago)"
    return str(summary.restarts)


def ip(pod: Object, _now: datetime) -> str:
    first: Status = next(iter(at(pod, "status.podIPs", ())), {})
    return str(first.get("ip") or at(pod, "status.podIP", "") or NONE)


def readiness_gates(pod: Object, _now: datetime) -> str:
    gates = at(pod, "spec.readinessGates", ())
    passed = sum(_condition(pod, gate.get("conditionType", "")) == "True" for gate in gates)
    return f"{passed}/{len(gates)}" if gates else NONE
