"""Numbers for Prometheus: one registry per manager, no globals; and gauges about the objects in caches.

Theory.      What happens is counted where it happens (a reconciliation, a request); what *is* (depth
             of a queue, size of a cache) is read from ``statistics()`` at the moment of a scrape, so
             that a reconciliation does no work for them.
Families.    A world lists its families of gauges as values: the kind, the name, the labels, and a pure
             function from the headers of a cache to rows. Of an object only the fields are decoded that a
             family needs. A series ends with its object: nothing remembers it. An object that cannot be read
             is left out: a scrape never fails because of one.
Names.       ``workqueue_*`` and ``rest_client_requests_total`` are those of Kubernetes' own programs, but for
             ``workqueue_delayed`` and ``workqueue_failing``, which those lack, and for the labels of
             requests.
Called by    ``controller``, ``clusters.metrics``, ``machines.metrics``, ``compose``; rendered by ``health``.
"""

from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec
from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from kubewright.api.kinds import Kind
from kubewright.base.errors import After, Backoff, KubewrightError, OnChange, Retry
from kubewright.kube.header import Header
from kubewright.kube.informer import Informer, Informers, Statistics
from kubewright.kube.transport import Transport
from kubewright.runtime.lease import WHOLE, Shard
from kubewright.runtime.queue import QueueStatistics
from kubewright.runtime.result import Result
from kubewright.wire.errors import ApiError
from kubewright.wire.http import Request, Response

NO_ANSWER = 0
"""The code of a request that was not answered."""

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_SECONDS = (0.001, 0.005, 0.02, 0.1, 0.5, 2.0, 10.0, 60.0, 300.0)
"""Histogram bounds: few, since every controller has two histograms."""

ReadQueue = Callable[[], QueueStatistics]


class Metrics:
    """The registry of one manager."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry(auto_describe=False)
        self._waited = self._seconds(
            "workqueue_queue_duration_seconds", "From a key's place in line to its turn"
        )
        self._took = self._seconds("workqueue_work_duration_seconds", "How long reconciliations took")
        self._results = Counter(
            "controller_reconcile_total",
            "Reconciliations by how they ended: success, later, backoff, delayed (a fixed retry), "
            "rejected (only a change can help)",
            ("controller", "result"),
            registry=self.registry,
        )
        self._requests = Counter(
            "rest_client_requests_total",
            "Requests to API servers by answer; code 0 means that none came",
            ("client", "method", "resource", "code"),
            registry=self.registry,
        )
        self._series: dict[tuple[str, str, str, int], Counter] = {}
        """Those of requests; to find one by its labels costs as much as all else of a count."""
        self._counters: dict[str, Counter] = {}
        self._second_names: set[str] = set()
        self._families = _Families()
        self.registry.register(self._families)
        for make, metric, help_text, _ in _QUEUE_METRICS:
            self._families.declare(make, metric, help_text, ("name",))

    def controller(self, name: str, read: ReadQueue) -> "ControllerMetrics":
        """Take a controller in; its queue is read at each scrape."""
        for make, metric, help_text, of in _QUEUE_METRICS:
            self._families.declare(make, metric, help_text, ("name",))[name] = _of_queue(name, read, of)
        return ControllerMetrics(self._waited, self._took, self._results, name)

    def gauge(
        self, name: str, help_text: str, labels: tuple[str, ...], read: "ReadRows", *, source: str = ""
    ) -> None:
        """A family of gauges that ``read`` fills at each scrape with (label values, value).

        Naming a family again with another ``source`` adds a reader to it; with the same, replaces it.
        """
        self._families.declare(GaugeMetricFamily, name, help_text, labels)[source] = read

    def counter(self, name: str, help_text: str, labels: tuple[str, ...]) -> Counter:
        """A family of counters, which goes on counting when it is asked for again in a later term."""
        if name not in self._counters:
            self._counters[name] = Counter(name, help_text, labels, registry=self.registry)
        return self._counters[name]

    def queues_as(self, prefix: str) -> None:
        """Show the families of the queues under a second name, too: ``prefix`` before their own."""
        if prefix not in self._second_names:
            self._second_names.add(prefix)
            self.registry.register(_SecondNames(prefix, (self._families, self._waited, self._took)))

    def informers(self, informers: Informers) -> None:
        """Take the caches of one cluster in; they are read at each scrape."""
        for name, help_text, of in _INFORMER_GAUGES:
            read = _reader(informers, of)
            self.gauge(name, help_text, ("cluster", "resource"), read, source=informers.client.name)

    def requested(self, client: str, method: str, resource: str, code: int) -> None:
        """A request to an API server ended with ``code``, or with none (0)."""
        labels = client, method, resource, code
        series = self._series.get(labels)
        if series is None:
            series = self._series[labels] = self._requests.labels(client, method, resource, str(code))
        series.inc()

    def render(self) -> bytes:
        """The text that Prometheus scrapes."""
        return generate_latest(self.registry)

    def _seconds(self, name: str, help_text: str) -> Histogram:
        return Histogram(name, help_text, ("name",), buckets=_SECONDS, registry=self.registry)


ReadRows = Callable[[], Iterable[tuple[tuple[str, ...], float]]]
"""The label values of a family with a number each, at this moment."""

Make = type[GaugeMetricFamily] | type[CounterMetricFamily]


class ControllerMetrics:
    """What one controller reports."""

    def __init__(self, waited: Histogram, took: Histogram, results: Counter, name: str) -> None:
        self._waited = waited.labels(name)
        self._took = took.labels(name)
        self._results = {
            label: results.labels(name, label)
            for label in ("success", "later", "backoff", "delayed", "rejected")
        }

    def observe(self, waited: float, took: float, outcome: Result | Retry) -> None:
        """A reconciliation ended: seconds in line, seconds of work, and how it ended."""
        self._waited.observe(waited)
        self._took.observe(took)
        self._results[_label(outcome)].inc()


def _label(outcome: Result | Retry) -> str:
    match outcome:
        case Result(None):
            return "success"
        case Result():
            return "later"
        case Backoff():
            return "backoff"
        case After():
            return "delayed"
        case OnChange():
            return "rejected"


_QUEUE_METRICS: tuple[tuple[Make, str, str, Callable[[QueueStatistics], float]], ...] = (
    (GaugeMetricFamily, "workqueue_depth", "Keys in line", lambda seen: seen.waiting),
    (GaugeMetricFamily, "workqueue_delayed", "Keys that wait for a moment", lambda seen: seen.delayed),
    (
        GaugeMetricFamily,
        "workqueue_failing",
        "Keys in backoff: they failed and have not succeeded since",
        lambda seen: seen.failing,
    ),
    (
        GaugeMetricFamily,
        "workqueue_unfinished_work_seconds",
        "Age of all running work",
        lambda seen: seen.unfinished,
    ),
    (
        GaugeMetricFamily,
        "workqueue_longest_running_processor_seconds",
        "Age of the oldest running work",
        lambda seen: seen.longest_running,
    ),
    (CounterMetricFamily, "workqueue_adds", "Places taken in line", lambda seen: seen.adds),
    (
        CounterMetricFamily,
        "workqueue_retries",
        "Failures that led to a retry with backoff",
        lambda seen: seen.retries,
    ),
)
_INFORMER_GAUGES: tuple[tuple[str, str, Callable[[Statistics], float]], ...] = (
    ("informer_objects", "Objects in a cache", lambda seen: seen.objects),
    ("informer_bytes", "Bytes of these objects", lambda seen: seen.bytes),
    ("informer_synced", "1 once the first list is complete", lambda seen: seen.synced),
    ("reflector_lists", "Lists begun since the start", lambda seen: seen.lists),
    ("reflector_watches", "Watches begun since the start", lambda seen: seen.watches),
    ("reflector_failures", "Failures in a row", lambda seen: seen.failures),
)


def _reader(informers: Informers, of: Callable[[Statistics], float]) -> "ReadRows":
    cluster = informers.client.name
    return lambda: [((cluster, seen.resource), of(seen)) for seen in informers.statistics()]


def _of_queue(name: str, read: ReadQueue, of: Callable[[QueueStatistics], float]) -> "ReadRows":
    return lambda: [((name,), of(read()))]


class _Families(Collector):
    """Reads whatever is registered, at the moment of a scrape."""

    def __init__(self) -> None:
        self._families: dict[str, tuple[Make, str, tuple[str, ...], dict[str, ReadRows]]] = {}

    def declare(self, make: Make, name: str, help_text: str, labels: tuple[str, ...]) -> dict[str, ReadRows]:
        """The readers of a family, by source; without any it is shown as empty."""
        return self._families.setdefault(name, (make, help_text, labels, {}))[3]

    def collect(self) -> Iterator[Metric]:
        for name, (make, help_text, labels, reads) in self._families.items():
            family = make(name, help_text, labels=labels)
            for values, value in (entry for read in reads.values() for entry in read()):
                family.add_metric(values, value)
            yield family


class _SecondNames(Collector):
    """The families of the queues once more, for dashboards that know them under names of their own."""

    def __init__(self, prefix: str, collectors: tuple[Collector, ...]) -> None:
        self._prefix = prefix
        self._collectors = collectors

    def collect(self) -> Iterator[Metric]:
        for each in self._collectors:
            for family in each.collect():
                if family.name.startswith("workqueue_"):
                    again = Metric(self._prefix + family.name, family.documentation, family.type)
                    again.samples = [  # but not the times at which counters began, which no dashboard shows
                        one._replace(name=self._prefix + one.name)
                        for one in family.samples
                        if not one.name.endswith("_created")
                    ]
                    yield again


class Metered:
    """``inner``, with its requests counted for ``client``. A stream counts when it opens, as method WATCH."""

    def __init__(self, inner: Transport, metrics: Metrics, client: str) -> None:
        self._inner = inner
        self._metrics = metrics
        self._client = client

    async def request(self, request: Request, *, timeout: float) -> Response:
        """As ``Transport.request``."""
        code = NO_ANSWER
        try:
            response = await self._inner.request(request, timeout=timeout)
            code = response.status
            return response
        finally:
            self._count(request.method, request.path, code)

    async def close(self) -> None:
        """As ``Transport.close``."""
        await self._inner.close()

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        """As ``Transport.stream``."""
        opened = False
        try:
            async with self._inner.stream(request) as chunks:
                opened = True
                self._count("WATCH", request.path, 200)
                yield chunks
        except KubewrightError as error:
            if not opened:
                code = error.code if isinstance(error, ApiError) else NO_ANSWER
                self._count("WATCH", request.path, code)
            raise

    def _count(self, method: str, path: str, code: int) -> None:
        self._metrics.requested(self._client, method, resource_of(path), code)


def resource_of(path: str) -> str:
    """The resource, and subresource, that a path is about; the path itself where it is about none.

    ``/api/v1/namespaces/n/pods/p/eviction``: ``pods/eviction``. ``/api/v1/namespaces/n/status``:
    ``namespaces/status``, since a namespace is an object, too.
    """
    match path.strip("/").split("/"):
        case ["api", _, "namespaces", _, plural, *rest] | ["apis", _, _, "namespaces", _, plural, *rest] if (
            plural not in {"finalize", "status"}
        ):
            pass
        case ["api", _, plural, *rest] | ["apis", _, _, plural, *rest]:
            pass
        case _:
            return path
    return "/".join([plural, *rest[1:]])


D = TypeVar("D")

Row = tuple[tuple[str, ...], float]
"""The values of a family's labels, and its value."""

Rows = Callable[[Iterable[Header]], Iterator[Row]]


@dataclass(frozen=True, slots=True)
class MetricFamily:
    """A family of gauges about the objects of one kind."""

    kind: Kind[Any]
    name: str
    help: str
    labels: tuple[str, ...]
    rows: Rows


def decoded(headers: Iterable[Header], decoder: msgspec.json.Decoder[D]) -> Iterator[tuple[Header, D]]:
    """The objects of a cache, with the fields that the decoder knows; unreadable objects are left out."""
    for header in headers:
        try:
            yield header, decoder.decode(header.data)
        except msgspec.DecodeError:
            continue


def register_families(
    metrics: Metrics,
    caches: Informers,
    families: Iterable[MetricFamily],
    kinds: Iterable[Kind[Any]],
    shard: Shard = WHOLE,
) -> None:
    """Register the families of these kinds; each scrape reads them, about the objects of ``shard``, from the
    caches of the controllers."""
    wanted = {kind.resource for kind in kinds}
    for family in families:
        if family.kind.resource in wanted:
            rows = _rows_of(family, caches.get(family.kind), shard)
            metrics.gauge(family.name, family.help, family.labels, rows)


def _rows_of(family: MetricFamily, informer: Informer[Any], shard: Shard) -> Callable[[], Iterable[Row]]:
    return lambda: family.rows(header for header in informer.headers() if shard.has(header.uid))
