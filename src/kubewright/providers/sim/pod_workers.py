"""The pods of the hollow kubelets: workers that start pods and remove them.

Theory.      Pods have a delay queue and workers of their own, so that a thousand pods do not delay a
             Lease, nor the other way round. ``pods`` decides what to do with one; here it is done.
Invariants.  Only pods that are bound to a node of ours whose kubelet is alive are touched. A pod is
             removed by its uid, so never a later one of the same name.
Called by    ``kubelets``, which knows which kubelets are alive, and wakes the pods of one that starts.
"""

import asyncio
from collections.abc import Callable
from datetime import datetime
from functools import partial

import structlog

from kubewright.api.core import POD, Pod
from kubewright.base.errors import KubewrightError
from kubewright.kube.cache import Change
from kubewright.kube.informer import Informers
from kubewright.kube.patches import with_uid
from kubewright.providers.sim.delay_queue import DelayQueue
from kubewright.providers.sim.pods import (
    Confirm,
    PodSlice,
    Remove,
    Start,
    Wait,
    confirmed,
    decide,
    read_pod,
    running,
)
from kubewright.providers.sim.settings import SYNC_SECONDS, KubeletSettings
from kubewright.providers.sim.vm import Vm
from kubewright.wire.errors import Conflict, NotFound
from kubewright.wire.gvk import Key
from kubewright.wire.http import STRATEGIC_PATCH

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
