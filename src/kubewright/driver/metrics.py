"""Driver calls for Prometheus, under the names that MCM's dashboards and alerts know.

``mcm_cloud_api_driver_request_duration_seconds``  histogram  provider, operation
``mcm_cloud_api_driver_requests_failed_total``     counter    provider, operation, error_code

Source    mcm.md §10.5. A call whose caller left (Canceled) is timed but not a failure.
"""

from prometheus_client import CollectorRegistry, Counter, Histogram

from kubewright.driver.errors import Code
from kubewright.driver.guard import CallEnded, Listener

_SECONDS = (0.01, 0.05, 0.25, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 240.0)
"""Buckets from a cached answer to the longest deadline of a call; the wait for its slot counts as well."""


class DriverMetrics:
    """The two series; ``of`` gives the listener that feeds them for one provider."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._seconds = Histogram(
            "mcm_cloud_api_driver_request_duration_seconds",
            "Seconds that a driver took for one call, its wait for a slot included.",
            ("provider", "operation"),
            buckets=_SECONDS,
            registry=registry,
        )
        self._failed = Counter(
            "mcm_cloud_api_driver_requests_failed",
            "Driver calls that ended with an error, by its code.",
            ("provider", "operation", "error_code"),
            registry=registry,
        )

    def of(self, provider: str) -> Listener:
        """A listener for ``guard.GuardedDriver(on_end=...)``; a driver that stands for several clouds names
        the one that was called."""

        def count(ended: CallEnded) -> None:
            cloud = ended.provider or provider
            self._seconds.labels(cloud, ended.operation.value).observe(ended.seconds)
            if ended.code not in (Code.OK, Code.Canceled):
                self._failed.labels(cloud, ended.operation.value, ended.code.name).inc()

        return count
