"""What an omitted field of a MachineDeployment means, and the rules beyond the schema, in MCM's words.

Theory.      Upstream checks these when it reconciles and only logs what is wrong; so do we check,
             but the controllers tell it in events and conditions. Messages and paths equal
             upstream's where upstream has the rule, because users search for them.
             MCM's documentation promises defaults that MCM never fills in: an empty strategy is a
             RollingUpdate, and its bounds have values. Our CRDs say so too, where a schema can; what it
             cannot say (bounds for a RollingUpdate that has no block), and a cluster that has upstream's
             CRDs, need ``with_defaults``: controllers apply it when they read a deployment, and never write
             the result back. An omitted ``excessReplicas`` means what an annotation says
             (``excess.KEPT_ANNOTATION``).
             An omitted bound means 1 for maxSurge and 0 for maxUnavailable, as Gardener gives its workers:
             nothing is taken away before its successor is there. With a surge of 0 an omitted maxUnavailable
             means 1, because both cannot be 0 (where both are given as 0, ``rollout`` takes 1 as well).
Invariants.  Pure. Completing is idempotent; a field that is set is never changed, and what is wrong stays
             wrong: the rules judge the result. An InPlaceUpdate gets the same bounds, but never a strategy
             block or an orchestration that it did not have. Every violation is reported, in the order of the
             fields. Each error reads like kube-apiserver's:
             ``spec.class.kind: Required value: Kind is required``.
Source       docs/reference/mcm-parity.md. Ours are the rules that upstream crashes on or cannot have: a
             missing or empty selector, unreadable durations and percentages, negative numbers.
Called by    ``machines``; ``api.catalog``, by which a server refuses what would break a rule.
"""

import re
from collections.abc import Callable, Collection, Mapping
from typing import TypeVar

from msgspec import structs

from kubewright.api.faults import Errors, Fault, FieldError, duration_problem
from kubewright.api.machine import excess
from kubewright.api.machine.names import Orchestration, StrategyType
from kubewright.api.machine.v1alpha1 import (
    MACHINE_CLASS,
    ClassSpec,
    Machine,
    MachineClass,
    MachineConfiguration,
    MachineDeployment,
    MachineDeploymentSpec,
    MachineDeploymentStrategy,
    MachineSet,
    MachineTemplateSpec,
    RollingUpdate,
)
from kubewright.api.meta import LabelSelector, integer
from kubewright.base.limits import number_of
from kubewright.wire.naming import machine_name_problem

MAX_SURGE = 1
MAX_UNAVAILABLE = 0

Bounds = TypeVar("Bounds", bound=RollingUpdate)


def with_defaults(deployment: MachineDeployment) -> MachineDeployment:
    """The deployment as controllers must understand it."""
    given = deployment.spec
    strategy, more = _complete_strategy(given.strategy), given.excess_replicas
    if more is None and excess.KEPT_ANNOTATION in deployment.metadata.annotations:
        more = integer(deployment.metadata.annotations, excess.KEPT_ANNOTATION)
    if (strategy, more) == (given.strategy, given.excess_replicas):
        return deployment
    return structs.replace(deployment, spec=structs.replace(given, strategy=strategy, excess_replicas=more))


def _complete_strategy(given: MachineDeploymentStrategy) -> MachineDeploymentStrategy:
    kind = given.type or StrategyType.ROLLING_UPDATE
    rolling, in_place = given.rolling_update, given.in_place_update
    if kind == StrategyType.ROLLING_UPDATE:
        rolling = _complete_bounds(rolling or RollingUpdate())
    if kind == StrategyType.IN_PLACE_UPDATE and in_place is not None:
        in_place = _complete_bounds(in_place)
    return MachineDeploymentStrategy(type=kind, rolling_update=rolling, in_place_update=in_place)


def _complete_bounds(given: Bounds) -> Bounds:
    surge, unavailable = given.max_surge, given.max_unavailable
    if surge is None:
        surge = MAX_SURGE
    if unavailable is None:
        unavailable = 1 if _is_zero(surge) else MAX_UNAVAILABLE
    return structs.replace(given, max_surge=surge, max_unavailable=unavailable)


def _is_zero(value: int | str) -> bool:
    return value in (0, "0%")


INT32_MAX = 2**31 - 1
_WHOLE = re.compile("[0-9]{1,10}")
WHOLE_PERCENT = 100
CLASS_KIND = MACHINE_CLASS.resource.kind
T = TypeVar("T")
_PERCENT = re.compile(r"\d{1,9}%")


def validate_machine(machine: Machine) -> list[FieldError]:
    """Every broken rule of a Machine; empty when it is good."""
    spec = machine.spec
    name = _name(machine.metadata.name) if not spec.provider_id else ()  # one with a VM had room for it
    return [*name, *_class(spec.machine_class, "spec"), *_configuration(spec, "spec")]


def validate_set(machine_set: MachineSet) -> list[FieldError]:
    """Every broken rule of a MachineSet; empty when it is good."""
    spec = machine_set.spec
    return [
        *_count(spec.replicas),
        *_selector(spec.selector, spec.template),
        *_template(spec.template),
        *_not_negative("spec.minReadySeconds", spec.min_ready_seconds),
    ]


def validate_deployment(deployment: MachineDeployment) -> list[FieldError]:
    """Every broken rule of a MachineDeployment that has its defaults; empty when it is good."""
    spec = deployment.spec
    return [
        *_count(spec.replicas),
        *_excess(spec, deployment.metadata.annotations),
        *_selector(spec.selector, spec.template),
        *_strategy(spec.strategy),
        *_template(spec.template),
        *_not_negative("spec.minReadySeconds", spec.min_ready_seconds),
        *_not_negative("spec.revisionHistoryLimit", spec.revision_history_limit),
        *_not_negative("spec.progressDeadlineSeconds", spec.progress_deadline_seconds),
    ]


def validate_class(machine_class: MachineClass) -> list[FieldError]:
    """Every broken rule of a MachineClass; empty when it is good."""
    template = machine_class.node_template
    if template is None:
        return []
    told = "MachineClass NodeTemplate Capacity should mandatorily have CPU, GPU and Memory configured"
    errors = [
        FieldError("nodeTemplate.capacity", told)
        for resource in ("cpu", "gpu", "memory")
        if resource not in template.capacity
    ]
    if not (template.instance_type and template.region and template.zone):
        told = "MachineClass NodeTemplate Instance Type, region and zone cannot be empty"
        errors.append(FieldError("nodeTemplate", told))
    return errors


def class_kinds(
    found: Machine | MachineSet | MachineDeployment, migrated: Collection[str]
) -> list[FieldError]:
    """What is wrong with the kind of the class: no machine is made of it, and it is none of those that a
    driver makes MachineClasses of."""
    if isinstance(found, Machine):
        ref, path = found.spec.machine_class, "spec.class.kind"
    else:
        ref, path = found.spec.template.spec.machine_class, "spec.template.spec.class.kind"
    if ref.kind in ("", CLASS_KIND, *migrated):
        return []
    told = (
        f"machines are made of kind {CLASS_KIND}, and no driver here migrates others: write kind "
        f"{CLASS_KIND}, and make one named {ref.name} with the driver's name as its provider and the old "
        "class's spec as its providerSpec"
    )
    return [FieldError(path, told, Fault.INVALID, ref.kind)]


def unless_before(
    rule: Callable[[T], list[FieldError]],
) -> Callable[[T, T | None], list[FieldError]]:
    """A rule for writes: what the object broke before, it may go on breaking. So one that was stored before
    the rule was there can be changed in its other fields, scaled, and mended step by step."""

    def check(new: T, old: T | None) -> list[FieldError]:
        before = [] if old is None else rule(old)
        return [each for each in rule(new) if each not in before]

    return check


def is_count_or_percent(value: int | str) -> bool:
    """Whether a bound can be read: ``0`` to the largest int32, or ``0%`` and above."""
    if isinstance(value, str):
        return _PERCENT.fullmatch(value) is not None
    return 0 <= value <= INT32_MAX


def _name(name: str) -> Errors:
    if problem := machine_name_problem(name):
        yield FieldError("metadata.name", problem, Fault.INVALID, name)


def _class(ref: ClassSpec, path: str) -> Errors:
    if not ref.kind:
        yield FieldError(f"{path}.class.kind", "Kind is required")
    if not ref.name:
        yield FieldError(f"{path}.class.name", "Name is required")


def _configuration(config: MachineConfiguration, path: str) -> Errors:
    durations = (
        ("drainTimeout", config.drain_timeout),
        ("healthTimeout", config.health_timeout),
        ("creationTimeout", config.creation_timeout),
        ("inPlaceUpdateTimeout", config.in_place_update_timeout),
        ("machinePreserveTimeout", config.machine_preserve_timeout),
    )
    for name, text in durations:
        if text is not None and (problem := duration_problem(text)):
            yield FieldError(f"{path}.{name}", problem, Fault.INVALID, text)
    yield from _not_negative(f"{path}.maxEvictRetries", config.max_evict_retries)


def _template(template: MachineTemplateSpec) -> Errors:
    yield from _class(template.spec.machine_class, "spec.template.spec")
    yield from _configuration(template.spec, "spec.template.spec")
    told = "is put on machines by the controller that keeps excess machines free, and on no template"
    for number, taint in enumerate(template.spec.node_template.spec.taints):
        if excess.is_ours(taint):
            path = f"spec.template.spec.nodeTemplate.spec.taints[{number}].key"
            yield FieldError(path, told, Fault.INVALID, taint.key)


def _count(replicas: int) -> Errors:
    if replicas < 0:
        yield FieldError("spec.replicas", "Replicas has to be a whole number")


def _excess(spec: MachineDeploymentSpec, annotations: Mapping[str, str]) -> Errors:
    path, noted = "spec.excessReplicas", annotations.get(excess.KEPT_ANNOTATION, "0")
    if _WHOLE.fullmatch(noted) is None:
        noted_at = f"metadata.annotations[{excess.KEPT_ANNOTATION}]"
        yield FieldError(noted_at, "has to be a whole number that is not negative", Fault.INVALID, noted)
    yield from _not_negative(path, spec.excess_replicas)
    if spec.replicas >= 0 and spec.desired > INT32_MAX:
        told = f"is at most {INT32_MAX} together with spec.replicas, which is {spec.replicas}"
        yield FieldError(path, told, Fault.INVALID, spec.excess_replicas)


def _selector(selector: LabelSelector | None, template: MachineTemplateSpec) -> Errors:
    if selector is None or not (selector.match_labels or selector.match_expressions):
        yield FieldError("spec.selector", "an empty selector would select all machines")
        return
    labels = template.metadata.labels
    if any(labels.get(key) != value for key, value in selector.match_labels.items()):
        yield FieldError("spec.selector.matchLabels", "is not matching with spec.template.metadata.labels")


def _strategy(strategy: MachineDeploymentStrategy) -> Errors:
    path = "spec.strategy"
    match strategy.type:
        case StrategyType.RECREATE:
            return
        case StrategyType.ROLLING_UPDATE if strategy.rolling_update is None:
            told = "RollingUpdate parameter cannot be nil for rolling update strategy"
            yield FieldError(f"{path}.rollingUpdate", told)
        case StrategyType.ROLLING_UPDATE if strategy.rolling_update is not None:
            yield from _bounds(strategy.rolling_update, f"{path}.rollingUpdate")
        case StrategyType.IN_PLACE_UPDATE if strategy.in_place_update is None:
            told = "InPlaceUpdate parameter cannot be nil for in-place update strategy"
            yield FieldError(f"{path}.inPlaceUpdate", told)
        case StrategyType.IN_PLACE_UPDATE if strategy.in_place_update is not None:
            yield from _bounds(strategy.in_place_update, f"{path}.inPlaceUpdate")
            yield from _orchestration(strategy.in_place_update.orchestration_type, f"{path}.inPlaceUpdate")
        case other:
            told = "strategy type must be one of [InPlaceUpdate Recreate RollingUpdate]"
            yield FieldError(f"{path}.type", told, Fault.INVALID, other)


def _bounds(bounds: RollingUpdate, path: str) -> Errors:
    for name, value in (("maxUnavailable", bounds.max_unavailable), ("maxSurge", bounds.max_surge)):
        if value is None or not is_count_or_percent(value):
            yield FieldError(f"{path}.{name}", f"unable to convert {name} to int32")
    below = bounds.max_unavailable
    if not isinstance(below, str) or not is_count_or_percent(below):
        return
    if number_of(below.removesuffix("%")) > WHOLE_PERCENT:
        yield FieldError(f"{path}.maxUnavailable", "must not be greater than 100%", Fault.INVALID, below)


def _orchestration(kind: str, path: str) -> Errors:
    if kind not in tuple(Orchestration):
        told = "orchestrationType must be either Auto or Manual"
        yield FieldError(f"{path}.orchestrationType", told, Fault.INVALID, kind)


def _not_negative(path: str, value: int | None) -> Errors:
    if value is not None and value < 0:
        yield FieldError(path, "must be greater than or equal to 0", Fault.INVALID, value)
