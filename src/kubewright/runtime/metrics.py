"""Numbers for Prometheus: one registry per manager, no globals.

Theory.      What happens is counted where it happens (a reconciliation, a request); what *is* (depth
             of a queue, size of a cache) is read from ``statistics()`` at the moment of a scrape, so
             that the hot path pays for nothing nobody looks at.
Names.       ``workqueue_*`` and ``rest_client_requests_total`` are those of Kubernetes' own programs.
Called by    ``controller``, ``manager``; rendered by ``health``.
"""

from collections.abc import Callable, Iterable, Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from kubewright.base.errors import After, Backoff, OnChange, Retry
from kubewright.kube.informer import Statistics
from kubewright.kube.informers import Informers
from kubewright.runtime.queue import QueueStatistics
from kubewright.runtime.result import Result

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_SECONDS = (0.001, 0.005, 0.02, 0.1, 0.5, 2.0, 10.0, 60.0, 300.0)
"""Histogram bounds: few, since every controller has two histograms."""

Reading = Callable[[], QueueStatistics]


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
            "Reconciliations by how they ended: success, later, backoff, delayed, rejected",
            ("controller", "result"),
            registry=self.registry,
        )
        self._requests = Counter(
            "rest_client_requests_total",
            "Requests to API servers by answer; code 0 means that none came",
            ("client", "method", "resource", "code"),
            registry=self.registry,
        )
        self._queues = _Queues()
        self._gauges = _Gauges()
        self._counters: dict[str, Counter] = {}
        self.registry.register(self._queues)
        self.registry.register(self._gauges)

    def controller(self, name: str, reading: Reading) -> "Numbers":
        """Take a controller in; its queue is read at each scrape."""
        self._queues.readings[name] = reading
        return Numbers(self._waited, self._took, self._results, name)

    def gauge(
        self, name: str, help_text: str, labels: tuple[str, ...], read: "ReadGauge", *, source: str = ""
    ) -> None:
        """A family of gauges that ``read`` fills at each scrape with (label values, value).

        Naming a family again with another ``source`` adds a reader to it; with the same, replaces it.
        """
        self._gauges.families.setdefault(name, (help_text, labels, {}))[2][source] = read

    def counter(self, name: str, help_text: str, labels: tuple[str, ...]) -> Counter:
        """A family of counters, which goes on counting when it is asked for again in a later term."""
        if name not in self._counters:
            self._counters[name] = Counter(name, help_text, labels, registry=self.registry)
        return self._counters[name]

    def informers(self, informers: Informers) -> None:
        """Take the caches of one cluster in; they are read at each scrape."""
        for name, help_text, of in _INFORMER_GAUGES:
            read = _reader(informers, of)
            self.gauge(name, help_text, ("cluster", "resource"), read, source=informers.client.name)

    def requested(self, client: str, method: str, resource: str, code: int) -> None:
        """A request to an API server ended with ``code``, or with none (0)."""
        self._requests.labels(client, method, resource, str(code)).inc()

    def render(self) -> bytes:
        """The text that Prometheus scrapes."""
        return generate_latest(self.registry)

    def _seconds(self, name: str, help_text: str) -> Histogram:
        return Histogram(name, help_text, ("name",), buckets=_SECONDS, registry=self.registry)


ReadGauge = Callable[[], Iterable[tuple[tuple[str, ...], float]]]


class Numbers:
    """What one controller reports."""

    def __init__(self, waited: Histogram, took: Histogram, results: Counter, name: str) -> None:
        self._waited = waited.labels(name)
        self._took = took.labels(name)
        self._results = {
            label: results.labels(name, label)
            for label in ("success", "later", "backoff", "delayed", "rejected")
        }

    def worked(self, waited: float, took: float, outcome: Result | Retry) -> None:
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


_QUEUE_GAUGES: tuple[tuple[str, str, Callable[[QueueStatistics], float]], ...] = (
    ("workqueue_depth", "Keys in line", lambda seen: seen.waiting),
    ("workqueue_delayed", "Keys that wait for a moment", lambda seen: seen.delayed),
    ("workqueue_failing", "Keys whose last reconciliation failed", lambda seen: seen.failing),
    ("workqueue_unfinished_work_seconds", "Age of all running work", lambda seen: seen.unfinished),
    (
        "workqueue_longest_running_processor_seconds",
        "Age of the oldest running work",
        lambda seen: seen.longest_running,
    ),
)
_QUEUE_COUNTERS: tuple[tuple[str, str, Callable[[QueueStatistics], float]], ...] = (
    ("workqueue_adds", "Places taken in line", lambda seen: seen.adds),
    ("workqueue_retries", "Failures that led to a retry with backoff", lambda seen: seen.retries),
)


_INFORMER_GAUGES: tuple[tuple[str, str, Callable[[Statistics], float]], ...] = (
    ("informer_objects", "Objects in a cache", lambda seen: seen.objects),
    ("informer_bytes", "Bytes of these objects", lambda seen: seen.bytes),
    ("informer_synced", "1 once the first list is complete", lambda seen: seen.synced),
    ("reflector_lists", "Lists begun since the start", lambda seen: seen.lists),
    ("reflector_watches", "Watches begun since the start", lambda seen: seen.watches),
    ("reflector_failures", "Failures in a row", lambda seen: seen.failures),
)


def _reader(informers: Informers, of: Callable[[Statistics], float]) -> "ReadGauge":
    cluster = informers.client.name
    return lambda: [((cluster, seen.resource), of(seen)) for seen in informers.statistics()]


class _Queues(Collector):
    """Reads every queue at the moment of a scrape."""

    def __init__(self) -> None:
        self.readings: dict[str, Reading] = {}

    def collect(self) -> Iterator[Metric]:
        seen = {name: reading() for name, reading in self.readings.items()}
        for metric, help_text, of in _QUEUE_GAUGES:
            gauge = GaugeMetricFamily(metric, help_text, labels=("name",))
            for name, statistics in seen.items():
                gauge.add_metric((name,), of(statistics))
            yield gauge
        for metric, help_text, of in _QUEUE_COUNTERS:
            counter = CounterMetricFamily(metric, help_text, labels=("name",))
            for name, statistics in seen.items():
                counter.add_metric((name,), of(statistics))
            yield counter


class _Gauges(Collector):
    """Reads whatever else was registered, at the moment of a scrape."""

    def __init__(self) -> None:
        self.families: dict[str, tuple[str, tuple[str, ...], dict[str, ReadGauge]]] = {}

    def collect(self) -> Iterator[Metric]:
        for name, (help_text, labels, reads) in self.families.items():
            gauge = GaugeMetricFamily(name, help_text, labels=labels)
            for values, value in (entry for read in reads.values() for entry in read()):
                gauge.add_metric(values, value)
            yield gauge
