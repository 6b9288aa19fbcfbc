"""Numbers about clusters and their machines, for Prometheus: phases, replicas, health.

Theory.      Each is read from the caches at the moment of a scrape, so no reconciliation does work for it,
             and only the fields that it needs are decoded. The names are those that users of Cluster
             API know from its configuration of kube-state-metrics, and so are the labels ``namespace``,
             ``name`` and ``cluster_name``; dashboards that sum or filter by these work.
Invariants.  Of clusters, sets, deployments and health checks there is a row for each object; of machines,
             of which there are many, only a count for each cluster and phase. A set that has no machines and
             is to have none (an old revision) has no row.
Called by    ``clusters.world``, once per term.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial

import msgspec
from msgspec import Struct, field

from kubewright.api.cluster.v1beta1 import (
    CLUSTER,
    MACHINE,
    MACHINE_DEPLOYMENT,
    MACHINE_HEALTH_CHECK,
    MACHINE_SET,
)
from kubewright.kube.header import Header
from kubewright.runtime.metrics import MetricFamily, Row, Rows, decoded

UNKNOWN = "Unknown"
"""The phase of an object whose status has none yet."""


class Spec(Struct, rename="camel", gc=False):
    """The fields of a spec that are decoded."""

    cluster_name: str = ""
    replicas: int = 0


class Status(Struct, rename="camel", gc=False):
    """The fields of a status that are decoded."""

    phase: str = ""
    replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    unavailable_replicas: int = 0
    updated_replicas: int = 0
    expected_machines: int = 0
    current_healthy: int = 0
    remediations_allowed: int = 0


class Decoded(Struct, gc=False):
    """The fields of an object that are decoded."""

    spec: Spec = field(default_factory=Spec)
    status: Status = field(default_factory=Status)


_decoder = msgspec.json.Decoder(Decoded)

Number = Callable[[Decoded], int]


def number(of: Number, counts: Callable[[Decoded], bool] = lambda _found: True) -> Rows:
    """A row for each object that counts, with this number."""

    def rows(headers: Iterable[Header]) -> Iterator[Row]:
        for header, found in decoded(headers, _decoder):
            if counts(found):
                yield (header.key.namespace, header.key.name, found.spec.cluster_name), float(of(found))

    return rows


def has_machines(found: Decoded) -> bool:
    """Whether a set has machines, or is to have some."""
    return bool(found.spec.replicas or found.status.replicas)


def phase(headers: Iterable[Header]) -> Iterator[Row]:
    """A row for each object of a cluster, with its phase."""
    for header, found in decoded(headers, _decoder):
        key = header.key
        yield (key.namespace, key.name, found.spec.cluster_name, found.status.phase or UNKNOWN), 1.0


def phase_of_cluster(headers: Iterable[Header]) -> Iterator[Row]:
    """A row for each Cluster, with its phase."""
    for header, found in decoded(headers, _decoder):
        yield (header.key.namespace, header.key.name, found.status.phase or UNKNOWN), 1.0


def machines(headers: Iterable[Header]) -> Iterator[Row]:
    """How many machines of each cluster are in each phase."""
    counted = Counter(
        (header.key.namespace, found.spec.cluster_name, found.status.phase or UNKNOWN)
        for header, found in decoded(headers, _decoder)
    )
    yield from ((labels, float(count)) for labels, count in counted.items())


OF_OBJECT = ("namespace", "name", "cluster_name")
REPLICAS: tuple[tuple[str, str, Number], ...] = (
    ("spec_replicas", "Machines that are wanted", lambda each: each.spec.replicas),
    ("status_replicas", "Machines that there are", lambda each: each.status.replicas),
    ("status_replicas_ready", "Machines with a healthy Node", lambda each: each.status.ready_replicas),
    (
        "status_replicas_available",
        "Machines that have been ready for minReadySeconds",
        lambda each: each.status.available_replicas,
    ),
)
"""Of sets, and of deployments."""
ROLLOUT: tuple[tuple[str, str, Number], ...] = (
    (
        "status_replicas_unavailable",
        "Machines that are wanted and not available",
        lambda each: each.status.unavailable_replicas,
    ),
    (
        "status_replicas_updated",
        "Machines of the present template",
        lambda each: each.status.updated_replicas,
    ),
)
HEALTH: tuple[tuple[str, str, Number], ...] = (
    ("status_expected_machines", "Machines that are watched", lambda each: each.status.expected_machines),
    ("status_current_healthy", "Machines that are healthy", lambda each: each.status.current_healthy),
    (
        "status_remediations_allowed",
        "Machines that may be replaced now",
        lambda each: each.status.remediations_allowed,
    ),
)


def families() -> Iterator[MetricFamily]:
    """All families."""
    of_cluster = (*OF_OBJECT[:2], "phase")
    yield MetricFamily(
        CLUSTER, "capi_cluster_status_phase", "1 for the phase of a Cluster", of_cluster, phase_of_cluster
    )
    in_cluster = ("namespace", "cluster_name", "phase")
    yield MetricFamily(MACHINE, "capi_machines", "Machines of a cluster by phase", in_cluster, machines)
    help_text = "1 for the phase of a MachineDeployment"
    with_phase = (*OF_OBJECT, "phase")
    yield MetricFamily(
        MACHINE_DEPLOYMENT, "capi_machinedeployment_status_phase", help_text, with_phase, phase
    )
    for kind, prefix, numbers, rows in (
        (MACHINE_SET, "capi_machineset", REPLICAS, partial(number, counts=has_machines)),
        (MACHINE_DEPLOYMENT, "capi_machinedeployment", (*REPLICAS, *ROLLOUT), number),
        (MACHINE_HEALTH_CHECK, "capi_machinehealthcheck", HEALTH, number),
    ):
        for name, help_text, of in numbers:
            yield MetricFamily(kind, f"{prefix}_{name}", help_text, OF_OBJECT, rows(of))
