"""The cells of Pods. ``Status`` is the one that users look at most, so it is exactly kubectl's.

Theory.      A pod's status is told by its most troubled part. Init containers speak first, in order,
             and while one of them is not done the others are not asked. Then the containers, last
             to first, so that the first one has the last word.
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
class _Told:
    """What the containers told so far."""

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
    """What an init container that is not done says."""
    if (end := at(status, "state.terminated")) is not None:
        return _ended(end, "Init:")
    waiting = at(status, "state.waiting.reason", "")
    if waiting and waiting != "PodInitializing":
        return f"Init:{waiting}"
    return f"Init:{done}/{total}"


def _hear_init(pod: Object, told: _Told) -> bool:
    """Ask the init containers in order; true while one of them is not done."""
    sidecars = _sidecars(pod)
    total = len(at(pod, "spec.initContainers", ()))
    for done, status in enumerate(at(pod, "status.initContainerStatuses", ())):
        told.restarted(status)
        sidecar = status.get("name") in sidecars
        if at(status, "state.terminated.exitCode") == 0:
            continue
        if sidecar and status.get("started"):
            told.ready += bool(status.get("ready"))
            continue
        told.reason = _init_word(status, done, total)
        return True
    return False


def _hear_containers(pod: Object, told: _Told) -> None:
    sidecars = _sidecars(pod)
    told.restarts, told.last_restart = 0, ""
    for status in at(pod, "status.initContainerStatuses", ()):
        if status.get("name") in sidecars:
            told.restarted(status)
    running, failed = False, ""
    for status in reversed(at(pod, "status.containerStatuses", ())):
        told.restarted(status)
        end = at(status, "state.terminated")
        if waiting := at(status, "state.waiting.reason", ""):
            told.reason = waiting
        elif end is not None:
            told.reason = _ended(end)
            failed = told.reason if end.get("exitCode") else failed
        elif status.get("ready") and at(status, "state.running") is not None:
            running = True
            told.ready += 1
    if told.reason == "Completed":
        told.reason = _completed(pod, running, failed)


def _completed(pod: Object, running: bool, failed: str) -> str:
    """One container is done; the others decide what the pod is."""
    if running and _condition(pod, "Ready") == "True":
        return "Running"
    return failed or ("NotReady" if running else "Completed")


def _condition(pod: Object, wanted: str, key: str = "status") -> str:
    found = (c.get(key, "") for c in at(pod, "status.conditions", ()) if c.get("type") == wanted)
    return str(next(found, ""))


def _told(pod: Object) -> _Told:
    told = _Told(at(pod, "status.reason", "") or at(pod, "status.phase", ""))
    if _condition(pod, "PodScheduled", "reason") == "SchedulingGated":
        told.reason = "SchedulingGated"
    if not _hear_init(pod, told) or _condition(pod, "Initialized") == "True":
        _hear_containers(pod, told)
    return told


def ready(pod: Object, _now: datetime) -> str:
    return f"{_told(pod).ready}/{len(at(pod, 'spec.containers', ())) + len(_sidecars(pod))}"


def status(pod: Object, _now: datetime) -> str:
    if at(pod, "metadata.deletionTimestamp"):
        if at(pod, "status.reason") == "NodeLost":
            return "Unknown"
        if at(pod, "status.phase") not in _OVER:
            return "Terminating"
    return _told(pod).reason


def restarts(pod: Object, now: datetime) -> str:
    told = _told(pod)
    if told.restarts and told.last_restart:
        return f"{told.restarts} ({since(told.last_restart, now)} ago)"
    return str(told.restarts)


def ip(pod: Object, _now: datetime) -> str:
    first: Status = next(iter(at(pod, "status.podIPs", ())), {})
    return str(first.get("ip") or at(pod, "status.podIP", "") or NONE)


def readiness_gates(pod: Object, _now: datetime) -> str:
    gates = at(pod, "spec.readinessGates", ())
    passed = sum(_condition(pod, gate.get("conditionType", "")) == "True" for gate in gates)
    return f"{passed}/{len(gates)}" if gates else NONE
