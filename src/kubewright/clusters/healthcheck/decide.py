"""Decide what a health check writes: how many machines may be replaced, and what each machine is told. Pure.

Theory.      A health check replaces nothing itself. It tells the owner of an unhealthy machine to do so, by a
             condition of the machine; or it creates an external remediation request from a template, for
             another controller. It does neither while too many machines are unhealthy: then the fault is
             more likely elsewhere. Nor while too few are, where a range says how many it takes.
Verdicts.    The tests are asked in order, and the first that gives a verdict decides. A user's annotation
             and a failure that a provider reports make a machine unhealthy at once; a Node that does not
             appear, or has an unhealthy condition, when its time-out is over. While no machine can join the
             cluster, none is unhealthy because of that.
Status.      The status of a MachineHealthCheck, from what was seen and how the pass went.
Invariants.  Every machine is looked at in every pass, whatever became of the others. A remediation that has
             begun is its owner's business. What is paused is not written. A machine that is healthy again
             before its owner has begun is left alone. Without a session with its cluster no machine becomes
             unhealthy because of its Node. An unchanged world gives an equal status, so nothing is written.
             A failure is in a condition while it lasts.
Called by    ``act``.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cached_property

from msgspec import structs

from kubewright.api.cluster import names
from kubewright.api.cluster.conditions import (
    ERROR,
    INFO,
    WARNING,
    ConditionType,
    FailureReason,
    Reason,
    false_condition,
    true_condition,
    with_conditions,
)
from kubewright.api.cluster.v1beta1 import (
    Condition,
    Machine,
    MachineHealthCheckSpec,
    MachineHealthCheckStatus,
)
from kubewright.api.cluster.validate import MAX_UNHEALTHY, read_unhealthy_range
from kubewright.api.conditions import condition_of, is_condition_true, without_condition
from kubewright.base.durations import format_duration, parse_duration
from kubewright.base.limits import MESSAGE_CHARS
from kubewright.base.plan import Awaited, Plan, in_seconds, soonest
from kubewright.clusters import owned
from kubewright.clusters.external.object import CORRECT
from kubewright.clusters.healthcheck.seen import (
    CreateRemediationRequest,
    DeleteRemediationRequest,
    Seen,
    Step,
    Target,
    UpdateHealthCheck,
    WriteConditions,
)
from kubewright.rollout.model import INT32_MAX, resolve


class Health(Enum):
    """What is known of a machine's health."""

    HEALTHY = "healthy"
    UNHEALTHY = "unhealthy"
    WAITING = "waiting"
    """It will be unhealthy if it stays as it is."""
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Verdict:
    """A health, why it is so, and in how many seconds it may change by time alone."""

    health: Health
    reason: str = ""
    message: str = ""
    seconds: float | None = None


UNKNOWN = Verdict(Health.UNKNOWN)
Test = Callable[[Seen, Target], Verdict | None]


def verdict(seen: Seen, target: Target) -> Verdict:
    """The verdict of the first test that gives one; healthy, if none does."""
    for test in TESTS:
        if (found := test(seen, target)) is not None:
            return found
    return Verdict(Health.HEALTHY)


def _marked_by_user(_seen: Seen, target: Target) -> Verdict | None:
    if names.REMEDIATE_MACHINE_ANNOTATION not in target.machine.metadata.annotations:
        return None
    message = "Marked for remediation via remediate-machine annotation"
    return Verdict(Health.UNHEALTHY, Reason.HAS_REMEDIATE_MACHINE_ANNOTATION, message)


def _failed(_seen: Seen, target: Target) -> Verdict | None:
    status = target.machine.status
    for name, text in (("FailureReason", status.failure_reason), ("FailureMessage", status.failure_message)):
        if text:
            return Verdict(Health.UNHEALTHY, Reason.MACHINE_HAS_FAILURE, f"{name}: {text}")
    return None


def _node_missing(_seen: Seen, target: Target) -> Verdict | None:
    if target.machine.status.node_ref is None or target.node is not None:
        return None
    return Verdict(Health.UNHEALTHY, Reason.NODE_NOT_FOUND) if target.reachable else UNKNOWN


def _cluster_not_ready(seen: Seen, target: Target) -> Verdict | None:
    """Machines of a control plane are judged before it is initialized, so the first can be replaced."""
    first = names.CONTROL_PLANE_LABEL in target.machine.metadata.labels
    initialized = _has(seen, ConditionType.CONTROL_PLANE_INITIALIZED)
    return None if (initialized or first) and _has(seen, ConditionType.INFRASTRUCTURE_READY) else UNKNOWN


def _has(seen: Seen, condition: ConditionType) -> bool:
    """Whether the Cluster has this condition with status True."""
    return seen.cluster is not None and is_condition_true(seen.cluster.status.conditions, condition)


def _without_node(seen: Seen, target: Target) -> Verdict | None:
    """A machine without a Node; one whose cluster is out of reach cannot join it, nor be seen there."""
    if target.node is not None:
        return None
    if not target.reachable and _has(seen, ConditionType.CONTROL_PLANE_INITIALIZED):
        return UNKNOWN
    limit = parse_duration(seen.check.spec.node_startup_timeout or "0").total_seconds()
    if not limit:
        return UNKNOWN
    left = target.since + limit - seen.now
    if left >= 0:
        return Verdict(Health.WAITING, seconds=left + 1)
    message = f"Node failed to report startup in {_shown(seen.check.spec.node_startup_timeout)}"
    return Verdict(Health.UNHEALTHY, Reason.NODE_STARTUP_TIMEOUT, message)


def _unhealthy_condition(seen: Seen, target: Target) -> Verdict | None:
    waits: list[float] = []
    conditions = target.node.conditions if target.node is not None else {}
    for each in seen.check.spec.unhealthy_conditions:
        status, since = conditions.get(each.type, ("", 0.0))
        if status != each.status:
            continue
        left = since + parse_duration(each.timeout).total_seconds() - seen.now
        if left < 0:
            limit = _shown(each.timeout)
            message = f"Condition {each.type} on node is reporting status {each.status} for more than {limit}"
            return Verdict(Health.UNHEALTHY, Reason.UNHEALTHY_NODE, message)
        waits.append(left + 1)
    return Verdict(Health.WAITING, seconds=min(waits)) if waits else None


def _being_deleted(_seen: Seen, target: Target) -> Verdict | None:
    return UNKNOWN if target.machine.metadata.deleting else None


def _shown(duration: str | None) -> str:
    return format_duration(parse_duration(duration or "0"))


TESTS: tuple[Test, ...] = (
    _marked_by_user,
    _failed,
    _node_missing,
    _cluster_not_ready,
    _without_node,
    _unhealthy_condition,
    _being_deleted,
)
"""In the order in which they are asked."""


@dataclass(frozen=True)
class Judged:
    """What was seen, with the verdict on each machine."""

    seen: Seen

    @cached_property
    def verdicts(self) -> tuple[tuple[Target, Verdict], ...]:
        """Each machine with its verdict."""
        return tuple((target, verdict(self.seen, target)) for target in self.seen.targets)

    @cached_property
    def healthy(self) -> int:
        """How many machines are healthy."""
        return sum(found.health is Health.HEALTHY for _, found in self.verdicts)

    @cached_property
    def waiting(self) -> tuple[Machine, ...]:
        """The machines that will be unhealthy if their Nodes stay as they are; those that start are none."""
        return tuple(
            target.machine
            for target, found in self.verdicts
            if found.health is Health.WAITING and target.node is not None
        )

    @cached_property
    def allowance(self) -> "Allowance":
        """Whether unhealthy machines may be replaced now."""
        return allowance(self.seen.check.spec, len(self.seen.targets), self.healthy)


@dataclass(frozen=True, slots=True)
class Allowance:
    """How many more machines may be replaced; ``refusal``: why none may, as a sentence, with the reason and
    the severity of the condition that tells it."""

    remediations: int
    refusal: str = ""
    reason: str = Reason.TOO_MANY_UNHEALTHY
    severity: str = WARNING


def allowance(spec: MachineHealthCheckSpec, expected: int, healthy: int) -> Allowance:
    """Whether so few machines are unhealthy that they may be replaced; and, of a range, whether so many.

    Both ends belong to a range. Below it all may be well: that is no warning.
    """
    unhealthy = expected - healthy
    counted = "Remediation is not allowed, the number of not started or unhealthy machines"
    try:
        least, most, limit = _limits(spec, expected)
    except ValueError as error:
        return Allowance(
            0, f"Remediation is not allowed: {error}", FailureReason.INVALID_CONFIGURATION, ERROR
        )
    numbers = f"(total: {expected}, unhealthy: {unhealthy}, {limit})"
    if unhealthy < least:
        below = f"{counted} is below the range {numbers}"
        return Allowance(0, below, Reason.TOO_FEW_UNHEALTHY, INFO)
    if unhealthy > most:
        exceeds = "is above the range" if spec.unhealthy_range else "exceeds maxUnhealthy"
        return Allowance(0, f"{counted} {exceeds} {numbers}")
    return Allowance(min(most - unhealthy, INT32_MAX))


def _limits(spec: MachineHealthCheckSpec, expected: int) -> tuple[int, int, str]:
    """The fewest and the most machines that may be unhealthy, and what says so.

    Raises:
        ValueError: what says so cannot be read.
    """
    if text := spec.unhealthy_range:
        limit = f"unhealthyRange: {text}"
        try:
            return *read_unhealthy_range(text), limit
        except ValueError as error:
            raise ValueError(f"{limit} {error}") from None
    most = MAX_UNHEALTHY if spec.max_unhealthy is None else spec.max_unhealthy
    limit = f"maxUnhealthy: {most}"
    try:
        return 0, resolve(most, expected, up=False), limit
    except ValueError as error:
        raise ValueError(f"{limit}: {error}") from None


def decide(seen: Seen) -> Plan[Step]:
    """The plan for one pass; a check that breaks a rule does nothing."""
    if seen.problem:
        return Plan(because=f"the health check is not valid: {seen.problem}")
    judged = Judged(seen)
    steps: list[Step] = [*_set_cluster_owner(seen)]
    for target, found in judged.verdicts:
        steps += _for_machine(judged, target, found)
    wake = soonest(*(each.seconds for _, each in judged.verdicts))
    unhealthy = sum(each.health is Health.UNHEALTHY for _, each in judged.verdicts)
    because = f"{unhealthy} unhealthy and {judged.healthy} healthy of {len(seen.targets)}"
    wakes = in_seconds(wake) if wake is not None else None
    return Plan(tuple(steps), wakes, because, awaits=tuple(_awaited(judged, unhealthy)))


def _awaited(judged: Judged, unhealthy: int) -> Iterator[Awaited]:
    """What keeps unhealthy machines from being replaced."""
    seen, refusal = judged.seen, judged.allowance.refusal
    if seen.cluster is None:
        name = f"Cluster {seen.check.spec.cluster_name}"
        yield Awaited(name, "create it, or delete the MachineHealthCheck")
    if unhealthy and refusal:
        remedy = f"mend some of them, or change the bound: {refusal}"
        yield Awaited("a number of unhealthy machines that the check allows", remedy)
    template = seen.template
    if unhealthy and template is not None and template.found is None and not template.transient:
        yield Awaited(str(template), template.remedy or CORRECT)


def _set_cluster_owner(seen: Seen) -> Iterator[Step]:
    before = seen.check.metadata
    after = owned.with_cluster_ownership(before, seen.cluster, seen.check.spec.cluster_name, owned=True)
    if after != before:
        yield UpdateHealthCheck(after)


def _for_machine(judged: Judged, target: Target, found: Verdict) -> Iterator[Step]:
    """What is done about one machine."""
    seen, machine = judged.seen, target.machine
    if found.health not in (Health.HEALTHY, Health.UNHEALTHY) or names.paused(machine.metadata.annotations):
        return
    unhealthy = found.health is Health.UNHEALTHY
    remediate = unhealthy and not judged.allowance.refusal and not machine.metadata.deleting
    if seen.template is not None:
        yield from _request(seen, target, remediate=remediate, unhealthy=unhealthy)
    after = _conditions(seen, machine, found, remediate=remediate and seen.template is None)
    if after != machine.status.conditions:
        yield WriteConditions(machine, after, unhealthy=unhealthy)


def _request(seen: Seen, target: Target, *, remediate: bool, unhealthy: bool) -> Iterator[Step]:
    """Create the remediation request of an unhealthy machine once; delete it when the machine is healthy."""
    request, template = target.request, seen.template
    if (
        remediate
        and request is not None
        and request.gone
        and template is not None
        and template.found is not None
    ):
        yield CreateRemediationRequest(target.machine)
    elif not unhealthy and request is not None and request.found is not None and not request.deleting:
        yield DeleteRemediationRequest(target.machine, request)


def _conditions(seen: Seen, machine: Machine, found: Verdict, *, remediate: bool) -> tuple[Condition, ...]:
    before, kind = machine.status.conditions, ConditionType.HEALTH_CHECK_SUCCEEDED
    message = found.message[:MESSAGE_CHARS]
    if found.health is Health.HEALTHY:
        return with_conditions(_without_unbegun_remediation(before), (true_condition(kind),), seen.wall)
    wanted = [false_condition(kind, found.reason, WARNING, message)]
    owner = condition_of(before, ConditionType.OWNER_REMEDIATED)
    if remediate and (owner is None or owner.status == "True"):
        wanted.append(
            false_condition(ConditionType.OWNER_REMEDIATED, Reason.WAITING_FOR_REMEDIATION, WARNING)
        )
    return with_conditions(before, wanted, seen.wall)


def _without_unbegun_remediation(before: Iterable[Condition]) -> tuple[Condition, ...]:
    """The conditions without a remediation that its owner has not begun."""
    found = tuple(before)
    owner = condition_of(found, ConditionType.OWNER_REMEDIATED)
    if owner is None or (owner.status, owner.reason) != ("False", Reason.WAITING_FOR_REMEDIATION):
        return found
    return without_condition(found, ConditionType.OWNER_REMEDIATED)


TEMPLATE = ConditionType.EXTERNAL_REMEDIATION_TEMPLATE_AVAILABLE
REQUEST = ConditionType.EXTERNAL_REMEDIATION_REQUEST_AVAILABLE


def status_of(seen: Seen, failed: Mapping[str, str]) -> MachineHealthCheckStatus:
    """The status to write; ``failed``: what went wrong with requests, by machine."""
    judged, before = Judged(seen), seen.check.status
    conditions = before.conditions
    if seen.template is None or seen.template.found is not None:
        conditions = without_condition(conditions, TEMPLATE)
    if not failed:
        conditions = without_condition(conditions, REQUEST)
    return structs.replace(
        before,
        expected_machines=len(seen.targets),
        current_healthy=judged.healthy,
        remediations_allowed=judged.allowance.remediations,
        targets=tuple(sorted(target.name for target in seen.targets)),
        observed_generation=seen.check.metadata.generation,
        conditions=with_conditions(conditions, _own_conditions(judged, failed), seen.wall),
    )


def status_of_invalid(seen: Seen) -> MachineHealthCheckStatus:
    """The status of a check that breaks a rule: it lets no machine be replaced, and says which rule it is."""
    before = seen.check.status
    message = seen.problem[:MESSAGE_CHARS]
    told = false_condition(
        ConditionType.REMEDIATION_ALLOWED, FailureReason.INVALID_CONFIGURATION, ERROR, message
    )
    return structs.replace(
        before,
        remediations_allowed=0,
        observed_generation=seen.check.metadata.generation,
        conditions=with_conditions(before.conditions, (told,), seen.wall),
    )


def _own_conditions(judged: Judged, failed: Mapping[str, str]) -> Iterator[Condition]:
    condition_type, allowed = ConditionType.REMEDIATION_ALLOWED, judged.allowance
    if judged.seen.cluster is None:
        message = f"waiting: there is no Cluster {judged.seen.check.spec.cluster_name}"
        yield false_condition(condition_type, Reason.CLUSTER_NOT_FOUND, ERROR, message)
    else:
        yield (
            false_condition(condition_type, allowed.reason, allowed.severity, allowed.refusal)
            if allowed.refusal
            else true_condition(condition_type)
        )
    template = judged.seen.template
    if template is not None and template.found is None and not template.transient:
        reason = Reason.EXTERNAL_REMEDIATION_TEMPLATE_NOT_FOUND
        yield false_condition(TEMPLATE, reason, ERROR, f"{template}: {template.problem}"[:MESSAGE_CHARS])
    if failed:
        message = "; ".join(f"{name}: {why}" for name, why in sorted(failed.items()))
        reason = Reason.EXTERNAL_REMEDIATION_REQUEST_CREATION_FAILED
        yield false_condition(REQUEST, reason, ERROR, message[:MESSAGE_CHARS])
