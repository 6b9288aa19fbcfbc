"""Numbers about machines, sets and deployments, under the names that MCM's dashboards and alerts know.

Theory.      Each of MCM's families is a value here: its name, its labels, and a function from an object to
             values (``runtime.metrics``). The caches are read at each scrape, so all series of an
             object end when it is deleted; in MCM only those of the phase do. A scrape reads ten thousand
             objects, so only the fields that the values need are decoded, by types of their own.
Invariants.  Names and labels are those of MCM; a test compares them with MCM's list (INS-05). The values
             mean the same, but for two that MCM gets wrong: the replicas of a set's status are its replicas,
             and a surge that is a percentage is the number of machines that it comes to, where MCM exports 0.
Called by    ``machines.world``, once per term.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, TypeVar

import msgspec
from msgspec import Struct, field

from kubewright.api.kinds import Kind
from kubewright.api.machine.names import NODE_LABEL
from kubewright.api.machine.v1alpha1 import MACHINE, MACHINE_DEPLOYMENT, MACHINE_SET
from kubewright.kube.header import Header
from kubewright.rollout.model import resolve
from kubewright.runtime.metrics import MetricFamily, Row, Rows, decoded

PHASES = {"Terminating": -4, "Failed": -3, "CrashLoopBackOff": -2, "Unknown": -1, "Pending": 0, "Running": 1}
"""The numbers of phases; 0 for all others (Available, InPlaceUpdating), as in MCM."""

STATUSES = {"True": 1, "False": 0, "Unknown": 2}
"""The numbers of a condition's status."""


class Metadata(Struct, rename="camel", gc=False):
    """The metadata that are decoded."""

    creation_timestamp: datetime | None = None
    labels: dict[str, str] = field(default_factory=dict)


class ClassRef(Struct, rename="camel", gc=False):
    """The class of a machine."""

    api_group: str = ""
    kind: str = ""
    name: str = ""


class Condition(Struct, gc=False):
    """One condition."""

    type: str = ""
    status: str = ""


class Operation(Struct, gc=False):
    """The last operation on a failed machine."""

    state: str = ""
    type: str = ""


class Summary(Struct, rename="camel", gc=False):
    """A failed machine in the status of its set."""

    name: str = ""
    provider_id: str = field(default="", name="providerID")
    owner_ref: str = ""
    last_operation: Operation = field(default_factory=Operation)


class MachineSpec(Struct, rename="camel", gc=False):
    """The spec of a machine, or of the template of one."""

    machine_class: ClassRef = field(default_factory=ClassRef, name="class")
    provider_id: str = field(default="", name="providerID")


class CurrentStatus(Struct, gc=False):
    """Where a machine is in its life."""

    phase: str = ""


class MachineStatus(Struct, rename="camel", gc=False):
    """The status of a machine."""

    conditions: list[Condition] | None = None
    current_status: CurrentStatus = field(default_factory=CurrentStatus)


class MachineFields(Struct, gc=False):
    """The fields of a Machine that are decoded."""

    metadata: Metadata = field(default_factory=Metadata)
    spec: MachineSpec = field(default_factory=MachineSpec)
    status: MachineStatus = field(default_factory=MachineStatus)


class Template(Struct, gc=False):
    """The template of machines."""

    spec: MachineSpec = field(default_factory=MachineSpec)


class Rolling(Struct, rename="camel", gc=False):
    """The bounds of a rollout."""

    max_surge: int | str | None = None
    max_unavailable: int | str | None = None


class Strategy(Struct, rename="camel", gc=False):
    """How machines are replaced."""

    type: str = ""
    rolling_update: Rolling | None = None


class Rollback(Struct, gc=False):
    """A request for an earlier template."""

    revision: int = 0


class Spec(Struct, rename="camel", gc=False):
    """The spec of a set or a deployment."""

    replicas: int = 0
    min_ready_seconds: int = 0
    template: Template = field(default_factory=Template)
    strategy: Strategy = field(default_factory=Strategy)
    paused: bool = False
    revision_history_limit: int | None = None
    progress_deadline_seconds: int | None = None
    rollback_to: Rollback | None = None
    excess_replicas: int | None = None


class Status(Struct, rename="camel", gc=False):
    """The status of a set or a deployment."""

    replicas: int = 0
    fully_labeled_replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    unavailable_replicas: int = 0
    updated_replicas: int = 0
    collision_count: int | None = None
    machine_set_condition: list[Condition] | None = None
    conditions: list[Condition] | None = None
    failed_machines: list[Summary] | None = None


class ReplicasFields(Struct, gc=False):
    """The fields of a set or a deployment that are decoded."""

    metadata: Metadata = field(default_factory=Metadata)
    spec: Spec = field(default_factory=Spec)
    status: Status = field(default_factory=Status)


F = TypeVar("F")
_machine = msgspec.json.Decoder(MachineFields)
_replicas = msgspec.json.Decoder(ReplicasFields)

NAMED = ("name", "namespace")
CLASS = ("spec_machine_class_api_group", "spec_machine_class_kind", "spec_machine_class_name")
FAILED = (
    "failed_machine_name",
    "failed_machine_provider_id",
    "failed_machine_owner_ref",
    "failed_machine_last_operation_state",
    "failed_machine_last_operation_machine_operation_type",
)


def families() -> Iterator[MetricFamily]:
    """All families."""
    yield from _of_machines()
    yield from _of_sets()
    yield from _of_deployments()


def _of_machines() -> Iterator[MetricFamily]:
    info = ("createdAt", "spec_provider_id", "spec_class_api_group", "spec_class_kind", "spec_class_name")
    yield MetricFamily(MACHINE, "mcm_machine_items_total", "Machines", (), _count)
    yield MetricFamily(
        MACHINE, "mcm_machine_current_status_phase", "The phase of a machine as a number", NAMED,
        _rows(_machine, lambda each: [((), PHASES.get(each.status.current_status.phase, 0))]),
    )  # fmt: skip
    yield MetricFamily(
        MACHINE, "mcm_machine_info", "1 for each machine", (*NAMED, *info, "node_name"),
        _rows(_machine, _machine_info),
    )  # fmt: skip
    yield MetricFamily(
        MACHINE, "mcm_machine_status_condition", "The conditions of a machine's node",
        (*NAMED, "condition"), _rows(_machine, lambda each: _conditions(each.status.conditions)),
    )  # fmt: skip


def _of_sets() -> Iterator[MetricFamily]:
    yield MetricFamily(MACHINE_SET, "mcm_machine_set_items_total", "Sets of machines", (), _count)
    yield MetricFamily(
        MACHINE_SET, "mcm_machine_set_info", "1 for each set", (*NAMED, "createdAt", *CLASS),
        _rows(_replicas, lambda each: [(_created_and_class(each), 1)]),
    )  # fmt: skip
    numbers: Sequence[tuple[str, Callable[[ReplicasFields], int]]] = (
        ("info_spec_replicas", lambda each: each.spec.replicas),
        ("info_spec_min_ready_seconds", lambda each: each.spec.min_ready_seconds),
        ("status_available_replicas", lambda each: each.status.available_replicas),
        ("status_fully_labelled_replicas", lambda each: each.status.fully_labeled_replicas),
        ("status_ready_replicas", lambda each: each.status.ready_replicas),
        ("status_replicas", lambda each: each.status.replicas),
    )
    yield from (_number(MACHINE_SET, f"mcm_machine_set_{name}", of) for name, of in numbers)
    yield from _troubles(MACHINE_SET, "mcm_machine_set", lambda each: each.status.machine_set_condition)


def _of_deployments() -> Iterator[MetricFamily]:
    kind, prefix = MACHINE_DEPLOYMENT, "mcm_machine_deployment"
    yield MetricFamily(kind, f"{prefix}_items_total", "Deployments of machines", (), _count)
    yield MetricFamily(
        kind, f"{prefix}_info", "1 for each deployment",
        (*NAMED, "createdAt", *CLASS, "spec_strategy_type"),
        _rows(_replicas, lambda each: [((*_created_and_class(each), each.spec.strategy.type), 1)]),
    )  # fmt: skip
    numbers: Sequence[tuple[str, Callable[[ReplicasFields], int | None]]] = (
        ("info_spec_paused", lambda each: int(each.spec.paused)),
        ("info_spec_replicas", lambda each: each.spec.replicas),
        ("info_spec_min_ready_seconds", lambda each: each.spec.min_ready_seconds),
        ("info_spec_rolling_update_max_surge", lambda each: _bound(each, surge=True)),
        ("info_spec_rolling_update_max_unavailable", lambda each: _bound(each, surge=False)),
        ("info_spec_revision_history_limit", lambda each: each.spec.revision_history_limit),
        ("info_spec_progress_deadline_seconds", lambda each: each.spec.progress_deadline_seconds),
        ("info_spec_rollback_to_revision", _rollback),
        ("status_available_replicas", lambda each: each.status.available_replicas),
        ("status_unavailable_replicas", lambda each: each.status.unavailable_replicas),
        ("status_ready_replicas", lambda each: each.status.ready_replicas),
        ("status_updated_replicas", lambda each: each.status.updated_replicas),
        ("status_replicas", lambda each: each.status.replicas),
        ("status_collision_count", lambda each: each.status.collision_count),
    )
    yield from (_number(kind, f"{prefix}_{name}", of) for name, of in numbers)
    yield from _troubles(kind, prefix, lambda each: each.status.conditions)


def _troubles(
    kind: Kind[Any], prefix: str, conditions: Callable[[ReplicasFields], list[Condition] | None]
) -> Iterator[MetricFamily]:
    """Conditions and failed machines, of sets and of deployments."""
    yield MetricFamily(
        kind, f"{prefix}_status_condition", "The conditions", (*NAMED, "condition"),
        _rows(_replicas, lambda each: _conditions(conditions(each))),
    )  # fmt: skip
    yield MetricFamily(
        kind, f"{prefix}_failed_machines", "1 for each machine whose last operation failed",
        (*NAMED, *FAILED), _rows(_replicas, _failed),
    )  # fmt: skip


def _number(kind: Kind[Any], name: str, of: Callable[[ReplicasFields], int | None]) -> MetricFamily:
    """A family with one value for each object, and none where ``of`` answers None."""

    def row(each: ReplicasFields) -> Iterable[Row]:
        value = of(each)
        return () if value is None else [((), value)]

    words = name.removeprefix("mcm_").replace("_", " ")
    return MetricFamily(kind, name, f"{words[0].upper()}{words[1:]}", NAMED, _rows(_replicas, row))


def _rows(decoder: "msgspec.json.Decoder[F]", of: Callable[[F], Iterable[Row]]) -> Rows:
    """The rows of each object, with its name and namespace first."""

    def rows(headers: Iterable[Header]) -> Iterator[Row]:
        for header, found in decoded(headers, decoder):
            named = (header.key.name, header.key.namespace)
            for labels, value in of(found):
                yield (*named, *labels), float(value)

    return rows


def _count(headers: Iterable[Header]) -> Iterator[Row]:
    yield (), float(sum(1 for _ in headers))


def _machine_info(each: MachineFields) -> Iterable[Row]:
    ref, node = each.spec.machine_class, each.metadata.labels.get(NODE_LABEL, "")
    yield (_created(each.metadata), each.spec.provider_id, ref.api_group, ref.kind, ref.name, node), 1


def _created_and_class(each: ReplicasFields) -> tuple[str, ...]:
    """When a set or a deployment was created, and the class of its machines, as labels."""
    ref = each.spec.template.spec.machine_class
    return _created(each.metadata), ref.api_group, ref.kind, ref.name


def _created(meta: Metadata) -> str:
    """Seconds since 1970, as MCM writes them."""
    return str(int(meta.creation_timestamp.timestamp())) if meta.creation_timestamp else "0"


def _conditions(conditions: list[Condition] | None) -> Iterator[Row]:
    for each in conditions or ():
        if each.status in STATUSES:
            yield (each.type,), STATUSES[each.status]


def _failed(each: ReplicasFields) -> Iterator[Row]:
    for failed in each.status.failed_machines or ():
        last = failed.last_operation
        yield (failed.name, failed.provider_id, failed.owner_ref, last.state, last.type), 1


def _bound(each: ReplicasFields, *, surge: bool) -> int | None:
    """maxSurge or maxUnavailable as a number of machines; None where none is given that can be read."""
    rolling = each.spec.strategy.rolling_update or Rolling()
    value = rolling.max_surge if surge else rolling.max_unavailable
    of = max(0, each.spec.replicas + (each.spec.excess_replicas or 0))
    try:
        return None if value is None else resolve(value, of, up=surge)
    except ValueError:
        return None


def _rollback(each: ReplicasFields) -> int | None:
    return each.spec.rollback_to.revision if each.spec.rollback_to is not None else None
