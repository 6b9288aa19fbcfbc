"""Decide what a health check writes: how many machines may be replaced, and what each machine is told. Pure.

Theory.      A health check replaces nothing itself. It tells the owner of an unhealthy machine to do so, by a
             condition of the machine; or it creates an external remediation request from a template, for
             another controller. It does neither while too many machines are unhealthy: then the fault is
             more likely elsewhere. Nor while too few are, where a range says how many it takes.
Invariants.  Every machine is looked at in every pass, whatever became of the others. A remediation that
             has begun is its owner's business. What is paused is not written. A machine that is healthy
             again before its owner has begun is left alone.
Source       capi.md §8, steps 4 and 5, with both loops mended.
Called by    ``reconciler``; ``status`` uses ``allowance``.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

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
from kubewright.api.cluster.v1beta1 import Condition, Machine, MachineHealthCheckSpec
from kubewright.api.cluster.validate import MAX_UNHEALTHY, read_unhealthy_range
from kubewright.api.conditions import condition_of, without_condition
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
from kubewright.clusters.healthcheck.verdict import Health, Verdict, verdict
from kubewright.rollout.model import INT32_MAX, resolve


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
    """The plan for one pass."""
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
