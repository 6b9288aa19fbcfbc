"""The pods of the hollow kubelets: workers that start pods and remove them.

Theory.      Pods have a delay queue and workers of their own, so that a thousand pods do not delay a Lease,
             nor the other way round. ``decide`` says what to do with one.
             Pods on simulated nodes: they start when bound, and end when deleted. Nothing else happens to
             them. A pod whose node's kubelet is alive is started after ``podStartSeconds``; one that is being
             deleted ends after ``podStopSeconds`` or its grace period, whichever is less, and is then removed
             as kubelets do it (grace 0, this very uid). On a silent node pods stay as they are, which is what
             drains of dead nodes have to cope with.
Invariants.  Only pods that are bound to a node of ours whose kubelet is alive are touched. A pod is removed
             by its uid, so never a later one of the same name.
             ``decide`` is pure. Pods never succeed or fail by themselves.
Called by    ``kubelets``, which knows which kubelets are alive, and wakes the pods of one that starts.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from hashlib import blake2b
from typing import Any

import msgspec
import structlog

from kubewright.api.core import POD, Pod, PodSpec
from kubewright.api.meta import Value
from kubewright.base.clock import rfc3339
from kubewright.base.errors import KubewrightError
from kubewright.kube.cache import Change
from kubewright.kube.informer import Informers
from kubewright.kube.patches import with_uid
from kubewright.providers.sim.delay_queue import DelayQueue
from kubewright.providers.sim.spec import SYNC_SECONDS, KubeletSettings
from kubewright.providers.sim.vm import Vm
from kubewright.wire.errors import Conflict, NotFound
from kubewright.wire.gvk import Key
from kubewright.wire.http import STRATEGIC_PATCH

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


log = structlog.get_logger(__name__)
BY_NODE = "sim.node"
"""Our index of pods, by the node that they are bound to."""
PAUSE_SECONDS = 5.0
"""Before a pod whose request failed is looked at again."""


class PodWorkers:
    """All pods of one cluster that are bound to simulated nodes, or to the node ``only``."""

    def __init__(
        self,
        informers: Informers,
        settings: KubeletSettings,
        host_of: Callable[[str], Vm | None],
        ready_since: Callable[[str], datetime | None],
        only: str = "",
    ) -> None:
        self._informers = informers
        self._client = informers.client
        self._clock = informers.client.clock
        self._settings = settings
        self._host_of = host_of
        self._ready_since = ready_since
        self._visits: DelayQueue[Key] = DelayQueue(self._clock)
        self._pods = informers.get(POD, namespace="", fields=f"spec.nodeName={only}" if only else "")
        self._pods.index(BY_NODE, _bound_to)

    async def run(self) -> None:
        """Start and remove pods until cancelled."""
        await self._pods.wait_synced(SYNC_SECONDS)
        unsubscribe = self._pods.subscribe(self._pod_changed)
        try:
            async with asyncio.TaskGroup() as group:
                for number in range(self._settings.workers):
                    group.create_task(self._work(), name=f"pod workers {number}")
        finally:
            unsubscribe()
            self._informers.release(self._pods)

    def wake(self, node_name: str) -> None:
        """A kubelet started, or its Node is Ready again: look at its pods."""
        for key in self._pods.keys_by(BY_NODE, node_name):
            self._visits.soon(key)

    def _pod_changed(self, change: Change[Pod]) -> None:
        if change.new is None:
            self._visits.drop(change.key)
        else:
            self._visits.soon(change.key)

    async def _work(self) -> None:
        while True:
            key = await self._visits.take()
            again = None
            try:
                again = await self._visit(key)
            except Exception:  # one odd pod must not hold up all others
                log.exception("a visit to a simulated pod failed", pod=str(key))
            finally:
                self._visits.done(key, again)

    async def _visit(self, key: Key) -> float | None:
        """Do what is due for one pod; returns when to come back (``Clock.monotonic``)."""
        if (header := self._pods.header(key)) is None:
            return None
        pod = read_pod(header.data)
        if (vm := self._host_of(pod.spec.node_name)) is None:
            return None
        node_ready = partial(self._ready_since, pod.spec.node_name)
        step = decide(pod, self._settings, self._clock.now(), node_ready)
        now = self._clock.monotonic()
        if isinstance(step, Wait):
            return None if step.until is None else now + (step.until - self._clock.now()).total_seconds()
        try:
            await self._act(step, key, pod, vm)
        except (NotFound, Conflict):
            return None  # it is gone, or another has its name: the watch will show it
        except KubewrightError as error:
            log.debug("a simulated pod could not be written", pod=str(key), error=str(error))
            return now + PAUSE_SECONDS
        return None

    async def _act(self, step: Start | Confirm | Remove, key: Key, pod: PodSlice, vm: Vm) -> None:
        match step:
            case Start():
                body = running(pod, vm, self._clock.now())
                await self._client.patch(POD, key, body, subresource="status", content_type=STRATEGIC_PATCH)
            case Confirm():
                body = with_uid(confirmed(self._clock.now()), pod.metadata.uid)
                await self._client.patch(POD, key, body, subresource="status", content_type=STRATEGIC_PATCH)
            case Remove():
                await self._client.delete(POD, key, uid=pod.metadata.uid, grace=0)


def _bound_to(pod: Pod) -> tuple[str, ...]:
    return (pod.spec.node_name,) if pod.spec.node_name else ()
