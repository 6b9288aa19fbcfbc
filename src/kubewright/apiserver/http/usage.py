"""The group metrics.k8s.io: what ``kubectl top`` reads, served beside the kinds that are stored.

Theory.      On other clusters an aggregated API server (metrics-server) serves it. Here there is nothing to
             install: each answer is computed from what kubelets have measured. A kubelet's summary
             (``/stats/summary?only_cpu_and_memory=true``) has rates that the kubelet measured itself, so one
             request is enough; from the counters of ``/metrics/resource`` a rate is known only after a second
             one. The summaries are asked for when a client wants them, and good for ``FRESH_SECONDS``.
             A node whose kubelet does not answer in time is left out, as by metrics-server, and so is each
             pod of which a number is missing. Simulated nodes measure nothing: no number is invented.
             A list looks at nodes with kubelets, and at the pods that these have measured: where most nodes
             are simulated, most pods are not read. A kubelet measures no pod of another node.
Invariants.  The objects are read-only and cannot be watched. Rules of authorization apply as to any resource.
             A kubelet is asked by one request at a time, however many clients want its numbers; at most
             ``AT_ONCE`` are asked at a time, each for ``KUBELET_SECONDS`` and all together for
             ``ALL_SECONDS``. A summary is bounded in bytes, and what in it is of another form than expected
             is left out.
Called by    ``app``; ``discovery`` lists what is served.
"""

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

import msgspec
import structlog

from kubewright.apiserver.http.answers import Form, form, plain
from kubewright.apiserver.http.dialing import Dialer
from kubewright.apiserver.http.discovery import MEASURED, MEASURED_VERBS
from kubewright.apiserver.http.kubelet_requests import Kubelet, kubelet_of
from kubewright.apiserver.http.kubelets import Kubelets
from kubewright.apiserver.http.requests import ResourcePath
from kubewright.apiserver.registry import refusals
from kubewright.apiserver.registry.kind import Catalog, ServedKind, Target
from kubewright.apiserver.registry.reading import Filter, filter_of
from kubewright.apiserver.schema.node import Object
from kubewright.apiserver.store import Store
from kubewright.base.clock import Clock, parse_rfc3339
from kubewright.wire.errors import ApiError, ServerError
from kubewright.wire.gvk import Resource
from kubewright.wire.http import Request, Response

KINDS = {each.plural: each for each in MEASURED}
GROUP, VERSION = MEASURED[0].group, MEASURED[0].api_version

MOST_AT_ONCE = 500
"""Nodes that are decoded before others are served; of ten thousand most may be simulated."""

log = structlog.get_logger("kubewright.apiserver")

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


class Measurements:
    """Answers requests for metrics.k8s.io."""

    def __init__(self, store: Store, catalog: Catalog, kubelets: Kubelets, clock: Clock) -> None:
        self._store, self._catalog, self._kubelets, self._clock = store, catalog, kubelets, clock
        self._usage = Usage(clock)
        self.close = self._usage.close

    async def serve(self, request: Request, path: ResourcePath, verb: str) -> Response:
        """The answer.

        Raises:
            NotFound, MethodNotAllowed, BadRequest
        """
        resource = KINDS.get(path.plural)
        if resource is None or path.version != resource.version or path.subresource:
            raise refusals.no_such_path()
        if path.namespace and not resource.namespaced:
            raise refusals.no_such_path()
        if verb not in MEASURED_VERBS:
            raise refusals.not_allowed()
        wanted = _unshaped(form(request.headers.get("accept", "")))
        if path.name:
            return plain(await self._one(resource, path), wanted)
        kind = self._kind(path.plural)
        matches = filter_of(kind, request.param("labelSelector"), request.param("fieldSelector"))
        found = await (self._pods(path.namespace, matches) if resource.namespaced else self._nodes(matches))
        items = [{key: each[key] for key in each if key not in ("kind", "apiVersion")} for each in found]
        kind_and_version = {"kind": f"{resource.kind}List", "apiVersion": resource.api_version}
        return plain({**kind_and_version, "metadata": {}, "items": items}, wanted)

    async def _one(self, resource: Resource, path: ResourcePath) -> Object:
        stored = self._kubelets.look(Target(self._kind(path.plural), path.namespace, path.name))
        node = stored if stored is None or not resource.namespaced else self._node_of(stored)
        summaries = {} if node is None else await self._summaries([node])
        for found in () if stored is None or node is None else self._measured(resource, stored, summaries):
            return found
        named = replace(resource, plural=resource.kind.lower())  # as metrics-server calls it
        raise refusals.not_found(named, f"{path.namespace}/{path.name}" if path.namespace else path.name)

    def _measured(
        self, resource: Resource, stored: Object, summaries: Mapping[str, Summary]
    ) -> Iterable[Object]:
        if resource.namespaced:
            return of_pods([stored], summaries)
        return filter(None, (of_node(stored, each) for each in summaries.values()))

    async def _nodes(self, matches: Filter) -> list[Object]:
        nodes = await self._with_kubelets(matches)
        summaries = await self._summaries(nodes)
        measured = ((node, summaries.get(node["metadata"]["name"])) for node in nodes)
        found = (of_node(node, summary) for node, summary in measured if summary is not None)
        return [each for each in found if each is not None]

    async def _pods(self, namespace: str, matches: Filter) -> list[Object]:
        """Those that match of the pods that kubelets have measured; those on simulated nodes are not read."""
        everything = filter_of(self._kind("nodes"), "", "")
        summaries = await self._summaries(await self._with_kubelets(everything))
        kind = matches.kind
        references = {
            (each.pod_ref.namespace, each.pod_ref.name)
            for summary in summaries.values()
            for each in summary.pods
            if namespace in ("", each.pod_ref.namespace)
        }
        places = (Target(kind, where, name) for where, name in sorted(references))
        records = (self._store.get(place.collection, place.key) for place in places)
        pods = (kind.decode(each) for each in records if each is not None and matches(each))
        return list(of_pods(pods, summaries))

    async def _with_kubelets(self, matches: Filter) -> list[Object]:
        """The nodes that match and have kubelets."""
        found = []
        for number, record in enumerate(tuple(self._store.scan(str(matches.kind.resource))), 1):
            if number % MOST_AT_ONCE == 0:
                await self._clock.sleep(0)  # others work
            if matches(record) and kubelet_of(node := matches.kind.decode(record)) is not None:
                found.append(node)
        return found

    async def _summaries(self, nodes: Iterable[Object]) -> dict[str, Summary]:
        kubelets = [kubelet for node in nodes if (kubelet := kubelet_of(node)) is not None]
        dialer = self._kubelets.dialer
        return {} if dialer is None or not kubelets else await self._usage.of(kubelets, dialer)

    def _node_of(self, pod: Object) -> Object | None:
        name = pod["spec"].get("nodeName")
        return self._kubelets.look(Target(self._kind("nodes"), "", name)) if name else None

    def _kind(self, plural: str) -> ServedKind:
        kind = self._catalog.find("", "v1", plural)
        assert kind is not None
        return kind


def _unshaped(wanted: Form) -> Form:
    """There are no Tables of these; kubectl makes its own of the objects."""
    return Form() if wanted.shape else wanted
