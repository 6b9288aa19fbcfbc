"""Pods on simulated nodes: they start when bound, and end when deleted. Nothing else happens to them.

Theory.      A pod whose node's kubelet is alive is started after ``podStartSeconds``; one that is
             being deleted ends after ``podStopSeconds`` or its grace period, whichever is less, and is
             then removed as kubelets do it (grace 0, this very uid). On a silent node pods stay as
             they are, which is what drains of dead nodes have to cope with.
Invariants.  ``decide`` is pure. Pods never succeed or fail by themselves.
Called by    ``pod_workers``.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import blake2b
from typing import Any

import msgspec

from kubewright.api.core import Pod, PodSpec
from kubewright.api.meta import Value
from kubewright.base.clock import rfc3339
from kubewright.providers.sim.settings import KubeletSettings
from kubewright.providers.sim.vm import Vm

AFTERMATH = timedelta(seconds=10)
"""How long after a node is back others may still write that its pods are not ready."""


class Container(Value, frozen=True):
    """A container, as far as a hollow kubelet reports on it."""

    name: str = ""
    image: str = ""


class _Spec(PodSpec, frozen=True):
    containers: tuple[Container, ...] = ()


class PodSlice(Pod, frozen=True):
    """What a hollow kubelet reads of a pod, which is more than what controllers read."""

    spec: _Spec = _Spec()


_decoder = msgspec.json.Decoder(PodSlice)


def read_pod(data: bytes) -> PodSlice:
    """The slice of a pod from a cache's bytes."""
    return _decoder.decode(data)


@dataclass(frozen=True, slots=True)
class Start:
    """Report the pod as running."""


@dataclass(frozen=True, slots=True)
class Confirm:
    """Report again that the pod is ready: it was said not to be while its kubelet was silent."""


@dataclass(frozen=True, slots=True)
class Remove:
    """The pod has ended: delete it with grace 0."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Look again at ``until``; None: when the pod changes."""

    until: datetime | None = None


Step = Start | Confirm | Remove | Wait


def decide(
    pod: PodSlice,
    settings: KubeletSettings,
    now: datetime,
    ready_since: Callable[[], datetime | None] = lambda: None,
) -> Step:
    """What to do with a pod whose kubelet is alive; ``ready_since``: since when its Node is, if it is."""
    if (by := pod.metadata.deletion_timestamp) is not None:
        grace = pod.metadata.deletion_grace_period_seconds or 0
        if not grace:
            return Wait()  # it was removed already; a finalizer holds what is left
        ends = by - timedelta(seconds=grace) + timedelta(seconds=min(grace, settings.pod_stop_seconds))
        return Remove() if ends <= now else Wait(ends)
    if pod.status.phase not in ("", "Pending"):
        return Confirm() if _was_doubted(pod, ready_since) else Wait()
    created = pod.metadata.creation_timestamp or now
    starts = created + timedelta(seconds=settings.pod_start_seconds)
    return Start() if starts <= now else Wait(starts)


def _was_doubted(pod: PodSlice, ready_since: Callable[[], datetime | None]) -> bool:
    """Whether a pod that we started lost its Ready while its Node was not. One that loses it on a Node that
    is ready stays so: a user plays an unready pod."""
    known = {each.type: each for each in pod.status.conditions}
    ready, containers = known.get("Ready"), known.get("ContainersReady")
    if ready is None or ready.status != "False" or ready.last_transition_time is None:
        return False
    since = ready_since() if containers is not None and containers.status == "True" else None
    return since is not None and ready.last_transition_time <= since + AFTERMATH


def confirmed(now: datetime) -> dict[str, Any]:
    """The strategic merge patch that reports a running pod as ready again."""
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": rfc3339(now)}
    return {"status": {"conditions": [ready]}}


def running(pod: PodSlice, vm: Vm, now: datetime) -> dict[str, Any]:
    """The strategic merge patch that reports a pod as running."""
    timestamp = rfc3339(now)
    address = _address(pod.metadata.uid)
    types = ("Initialized", "Ready", "ContainersReady", "PodScheduled")
    return {
        "status": {
            "phase": "Running",
            "hostIP": vm.address,
            "podIP": address,
            "podIPs": [{"ip": address}],
            "startTime": timestamp,
            "conditions": [
                {"type": kind, "status": "True", "lastTransitionTime": timestamp} for kind in types
            ],
            "containerStatuses": [_container(container, timestamp) for container in pod.spec.containers],
        }
    }


def _container(container: Container, timestamp: str) -> Mapping[str, Any]:
    return {
        "name": container.name,
        "image": container.image,
        "imageID": "",
        "ready": True,
        "started": True,
        "restartCount": 0,
        "state": {"running": {"startedAt": timestamp}},
    }


def _address(uid: str) -> str:
    """An address of the shared range 100.64.0.0/10, the same for the same pod."""
    digest = blake2b(uid.encode(), digest_size=3).digest()
    return f"100.{64 + digest[0] % 64}.{digest[1]}.{digest[2]}"
