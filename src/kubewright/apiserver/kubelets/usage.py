"""What nodes and pods use, from the summaries of their kubelets: metrics.k8s.io without a metrics-server.

Theory.      A kubelet's summary (``/stats/summary?only_cpu_and_memory=true``) has rates that the kubelet
             measured itself, so one request is enough; from the counters of ``/metrics/resource`` a rate is
             known only after a second one. The summaries are asked for when a client wants them, and good for
             ``FRESH_SECONDS``. A node whose kubelet does not answer in time is left out, as by
             metrics-server, and so is each pod of which a number is missing. Simulated nodes measure nothing:
             no number is invented for them.
Invariants.  A kubelet is asked by one request at a time, however many clients want its numbers; at most
             ``AT_ONCE`` are asked at a time, each for ``KUBELET_SECONDS`` and all together for
             ``ALL_SECONDS``. A summary is bounded in bytes, and what in it is of another form than expected
             is left out.
Called by    ``http.usage``.
"""

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass

import msgspec
import structlog

from kubewright.apiserver.kubelets.dialing import Dialer
from kubewright.apiserver.kubelets.where import Kubelet
from kubewright.apiserver.schema.node import Object
from kubewright.base.clock import Clock, parse_rfc3339
from kubewright.wire.errors import ApiError, ServerError

log = structlog.get_logger("kubewright.apiserver")

VERSION = "metrics.k8s.io/v1beta1"
PATH = "/stats/summary?only_cpu_and_memory=true"
SUMMARY_BYTES = 8 * 1024 * 1024
"""A node with 500 pods has some 600 KiB."""

FRESH_SECONDS, KUBELET_SECONDS, ALL_SECONDS = 5.0, 5.0, 15.0
AT_ONCE = 32
WINDOW = "10s"
"""Over which a kubelet measures a rate, if it is configured as usual."""


class Cpu(msgspec.Struct, frozen=True, rename="camel"):
    time: str = ""
    usage_nano_cores: int | None = None


class Memory(msgspec.Struct, frozen=True, rename="camel"):
    working_set_bytes: int | None = None


class Measured(msgspec.Struct, frozen=True, rename="camel"):
    """A node, or a container with its ``name``."""

    name: str = ""
    cpu: Cpu = Cpu()
    memory: Memory = Memory()

    @property
    def usage(self) -> dict[str, str] | None:
        """None: a number is missing, or makes no sense, or when it was measured is no time."""
        cores, held = self.cpu.usage_nano_cores, self.memory.working_set_bytes
        if cores is None or held is None or cores < 0 or held < 0 or not _is_time(self.cpu.time):
            return None
        return {"cpu": f"{cores}n", "memory": f"{held // 1024}Ki"}


def _is_time(text: str) -> bool:
    """Whether it is a time as clients read it; one that is not would cost them the whole list."""
    with suppress(ValueError):
        return bool(parse_rfc3339(text))
    return False


class PodReference(msgspec.Struct, frozen=True):
    name: str
    namespace: str


class MeasuredPod(msgspec.Struct, frozen=True, rename="camel"):
    pod_ref: PodReference
    containers: tuple[Measured, ...] = ()


class Summary(msgspec.Struct, frozen=True):
    node: Measured = Measured()
    pods: tuple[MeasuredPod, ...] = ()


NOTHING = Summary()
_read = msgspec.json.Decoder(Summary).decode


def of_node(node: Object, summary: Summary) -> Object | None:
    """The NodeMetrics of a Node; None: its kubelet has not measured it."""
    if (usage := summary.node.usage) is None:
        return None
    head = _head("NodeMetrics", node, summary.node.cpu.time)
    return {**head, "usage": usage}


def of_pods(pods: Iterable[Object], summaries: Mapping[str, Summary]) -> Iterator[Object]:
    """The PodMetrics of those Pods that are measured. ``summaries``: by the name of the node."""
    measured = {
        (node, each.pod_ref.namespace, each.pod_ref.name): each
        for node, summary in summaries.items()
        for each in summary.pods
    }
    for pod in pods:
        meta = pod["metadata"]
        found = measured.get((pod["spec"].get("nodeName", ""), meta["namespace"], meta["name"]))
        if found is None:
            continue
        containers = [(each.name, each.usage) for each in found.containers]
        if containers and all(usage is not None for _, usage in containers):
            head = _head("PodMetrics", pod, max(each.cpu.time for each in found.containers))
            yield {**head, "containers": [{"name": name, "usage": usage} for name, usage in containers]}


def _head(kind: str, obj: Object, at: str) -> Object:
    meta = obj["metadata"]
    kept = {key: meta[key] for key in ("name", "namespace", "labels") if meta.get(key)}
    metadata = {**kept, "creationTimestamp": at}
    return {"kind": kind, "apiVersion": VERSION, "metadata": metadata, "timestamp": at, "window": WINDOW}


@dataclass(frozen=True, slots=True)
class _Known:
    """What a kubelet has answered, and when."""

    summary: Summary
    at: float


class Usage:
    """Asks kubelets for their summaries, and keeps each for a moment."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._known: dict[Kubelet, _Known] = {}
        self._asking: dict[Kubelet, asyncio.Task[Summary]] = {}
        self._turns = asyncio.Semaphore(AT_ONCE)

    async def of(self, kubelets: Iterable[Kubelet], dialer: Dialer) -> dict[str, Summary]:
        """The summaries of these kubelets that there are now or soon, by the names of their nodes."""
        wanted = list(kubelets)
        now = self._clock.monotonic()
        self._known = {each: known for each, known in self._known.items() if now < known.at + FRESH_SECONDS}
        found = {each.node: self._known[each].summary for each in wanted if each in self._known}
        asked = {each.node: self._ask(each, dialer) for each in wanted if each not in self._known}
        if asked:
            await asyncio.wait(asked.values(), timeout=ALL_SECONDS)
        answered = {
            name: task.result() for name, task in asked.items() if task.done() and not task.cancelled()
        }
        return found | answered

    def close(self) -> None:
        for task in self._asking.values():
            task.cancel()

    def _ask(self, kubelet: Kubelet, dialer: Dialer) -> asyncio.Task[Summary]:
        task = self._asking.get(kubelet)
        if task is None:
            asking = self._asked(kubelet, dialer)
            task = self._asking[kubelet] = asyncio.create_task(asking, name="ask a kubelet what is used")
            task.add_done_callback(lambda _: self._asking.pop(kubelet, None))
        return task

    async def _asked(self, kubelet: Kubelet, dialer: Dialer) -> Summary:
        summary = NOTHING
        try:
            async with self._turns, asyncio.timeout(KUBELET_SECONDS):
                summary = _read(await dialer.whole(kubelet, PATH, SUMMARY_BYTES))
        except (ApiError, ServerError, TimeoutError, msgspec.MsgspecError, RecursionError) as error:
            log.debug("a kubelet says nothing of use", node=kubelet.node, why=str(error) or "too slow")
        self._known[kubelet] = _Known(summary, self._clock.monotonic())
        return summary
