"""MachineDeployment: what ``replicas.deployment`` has to know to roll out machines. Pure.

Theory.      A rollout replaces machines, so it happens only for what cannot be changed on a living machine.
             The node template, the configuration and the class's kind flow down to machines as they are, so
             they take no part in the identity of a template; nor does the label that holds the hash itself.
             Sets are found by their template, never by their hash, so the hash may be any stable one. A
             deployment has the label ``freeze`` while one of its sets has it, because dashboards and users
             look there first; that label stops nothing, frozen sets create no machines. A user who wants all
             sets unfrozen annotates the deployment: the annotation is written onto the frozen sets, and then
             taken off. The write that takes an earlier template (``spec.rollbackTo``) also clears the
             request, so one request causes one rollback; while the deployment is paused it waits, and no old
             set is pruned. Cluster-autoscaler lowers the replicas and names machines in an annotation,
             ``name~time,...``. Each of them gets priority 1 and the time; the ranking then puts them first,
             and the set deletes them even when a later scale-up has made the numbers equal again. An entry is
             dropped once its machine is gone, Failed or being deleted, or if its time cannot be read; without
             a time it gets that of the last change of scale. A Failed machine that is preserved is
             unavailable on purpose: it lowers the floor of the condition Available. That a set is frozen, or
             waits for a cloud that has no more VMs, is copied into the status.
Invariants.  A set that is not frozen is not annotated. The deployment loses the annotation after the sets
             have it, so a process that ends between the two writes repeats the first. A set that becomes
             frozen after that stays so: the request was about those that were.
Called by    ``machines.world``. What is done to nodes meanwhile: ``machines.rolling``. The statements of MCM:
             docs/reference/mcm-parity.md.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec
from msgspec import structs

from kubewright.api.conditions import condition_of, find_true_condition
from kubewright.api.faults import summary
from kubewright.api.machine import excess, names
from kubewright.api.machine.names import (
    ConditionReason,
    ConditionType,
    EventReason,
    Orchestration,
    Phase,
    StrategyType,
)
from kubewright.api.machine.v1alpha1 import (
    MACHINE,
    MACHINE_DEPLOYMENT,
    MACHINE_SET,
    ClassSpec,
    MachineDeployment,
    MachineDeploymentCondition,
    MachineDeploymentStatus,
    MachineSet,
    MachineSpec,
    MachineTemplateSpec,
)
from kubewright.api.machine.validate import validate_deployment, with_defaults
from kubewright.base.clock import parse_rfc3339, rfc3339
from kubewright.base.names import child_name, fnv32a, safe_encode
from kubewright.base.plan import AT_ONCE, Plan
from kubewright.machines.machineset.decide import FROZEN, frozen_by_count, is_frozen
from kubewright.machines.machineset.member import CHOSEN_PRIORITY, MachineMember, ranking
from kubewright.replicas.deployment.seen import (
    AnnotateMembers,
    ChangeDeployment,
    ChangeSet,
    Decider,
    DeploymentPolicy,
    Failures,
    MemberAnnotations,
    MetadataKeys,
    Reasons,
    RecordEvent,
    Seen,
    Step,
    Words,
)
from kubewright.replicas.deployment.status import TRUE, Copies, Statement, conditions, counted
from kubewright.replicas.objects import INVALID, annotated, with_annotations, with_hash
from kubewright.rollout.model import Rank
from kubewright.rollout.planner import InPlaceUpdate, Recreate, RollingUpdate, Strategy
from kubewright.rollout.revisions import rollback_target

DeploymentSeen = Seen[MachineDeployment, MachineSet, MachineMember]

METADATA_KEYS = MetadataKeys(
    template_hash=names.TEMPLATE_HASH_LABEL,
    revision=names.REVISION_ANNOTATION,
    history=names.REVISION_HISTORY_ANNOTATION,
    desired=names.DESIRED_REPLICAS_ANNOTATION,
    ceiling=names.MAX_REPLICAS_ANNOTATION,
    no_creation_label=(names.SCALE_UP_DISABLED_LABEL, names.SCALE_UP_DISABLED_BY_US),
    own=frozenset(
        (
            names.LAST_APPLIED_CONFIG_ANNOTATION,
            names.PREFER_NO_SCHEDULE,
            names.UNFREEZE_ANNOTATION,
            names.TRIGGER_DELETION_ANNOTATION,
            names.LAST_NUMBER_ANNOTATION,
            excess.KEPT_ANNOTATION,
        )
    ),
    mirrored=frozenset((names.MAX_REPLACEMENTS_ANNOTATION,)),
)

REASONS = Reasons(
    created=ConditionReason.NEW_MACHINE_SET_CREATED,
    found=ConditionReason.FOUND_NEW_MACHINE_SET,
    updated=ConditionReason.MACHINE_SET_UPDATED,
    complete=ConditionReason.NEW_MACHINE_SET_AVAILABLE,
    timed_out=ConditionReason.PROGRESS_DEADLINE_EXCEEDED,
    paused=ConditionReason.DEPLOYMENT_PAUSED,
    resumed=ConditionReason.DEPLOYMENT_RESUMED,
    create_error=ConditionReason.MACHINE_SET_CREATE_ERROR,
    invalid=INVALID,
    selects_all=EventReason.SELECTING_ALL,
    available=ConditionReason.MINIMUM_REPLICAS_AVAILABLE,
    unavailable=ConditionReason.MINIMUM_REPLICAS_UNAVAILABLE,
    scaled=EventReason.SCALING_MACHINE_SET,
)

WORDS = Words(
    deployment="Machine Deployment",
    set="machine set",
    member="machine",
    scaled="Scaled {direction} machine set {name} to {after}",
)


def strategy(deployment: MachineDeployment) -> Strategy:
    """How old machines give way to new ones."""
    given = deployment.spec.strategy
    rolling, in_place = given.rolling_update, given.in_place_update
    if given.type == StrategyType.IN_PLACE_UPDATE and in_place is not None:
        above, below = in_place.max_surge, in_place.max_unavailable
        manual = in_place.orchestration_type == Orchestration.MANUAL
        return InPlaceUpdate(above if above is not None else 1, below if below is not None else 0, manual)
    if given.type != StrategyType.ROLLING_UPDATE or rolling is None:
        return Recreate()
    surge, unavailable = rolling.max_surge, rolling.max_unavailable
    return RollingUpdate(surge if surge is not None else 1, unavailable if unavailable is not None else 0)


def replaces(deployment: MachineDeployment) -> bool:
    """Whether machines of old sets give way to new ones: not while it is paused, nor where they are updated
    in place."""
    return not deployment.spec.paused and not isinstance(strategy(deployment), InPlaceUpdate)


_NAME_LETTERS = 5


def identity(template: MachineTemplateSpec) -> bytes:
    """Equal for templates between which nothing is to be rolled out."""
    spec = template.spec
    kept = MachineTemplateSpec(
        metadata=structs.replace(
            with_hash(template, names.TEMPLATE_HASH_LABEL, "").metadata, creation_timestamp=None
        ),
        spec=MachineSpec(
            machine_class=ClassSpec(api_group=spec.machine_class.api_group, name=spec.machine_class.name),
            provider_id=spec.provider_id,
        ),
    )
    return msgspec.json.encode(kept, order="deterministic")


def name_and_hash(deployment: MachineDeployment) -> tuple[str, str]:
    """``<deployment>-<five letters>``, and a decimal number that a collision changes."""
    collisions = deployment.status.collision_count
    tail = b"" if collisions is None else collisions.to_bytes(4, "little") + bytes(4)
    hashed = str(fnv32a(identity(deployment.spec.template) + tail))
    return child_name(deployment.name, safe_encode(hashed)[:_NAME_LETTERS]), hashed


def propagated_template(template: MachineTemplateSpec, wanted: MachineTemplateSpec) -> MachineTemplateSpec:
    """``template`` with everything that takes no part in ``identity`` as ``wanted`` has it."""
    mine = template.spec.machine_class
    spec = structs.replace(
        wanted.spec,
        provider_id=template.spec.provider_id,
        machine_class=ClassSpec(
            api_group=mine.api_group, kind=wanted.spec.machine_class.kind, name=mine.name
        ),
    )
    return structs.replace(template, spec=spec)


def follow_freeze(seen: DeploymentSeen) -> Plan[Step]:
    """Pass a request to unfreeze on to the sets, and keep the label in line with theirs."""
    key, written = names.UNFREEZE_ANNOTATION, seen.written
    if key in written.metadata.annotations:
        frozen_sets = [s for s in seen.sets if names.FREEZE_LABEL in s.metadata.labels or is_frozen(s.status)]
        asked = tuple(
            ChangeSet(s, annotated(s, key, names.TRUE))
            for s in frozen_sets
            if key not in s.metadata.annotations
        )
        after = annotated(written, key, "")
        return Plan((*asked, ChangeDeployment(after)), AT_ONCE, "a user asks to unfreeze its sets", last=True)
    frozen = any(names.frozen(each.metadata.labels) for each in seen.sets)
    if frozen == (names.FREEZE_LABEL in written.metadata.labels):
        return Plan()
    labels = {name: text for name, text in written.metadata.labels.items() if name != names.FREEZE_LABEL}
    wanted = {**labels, names.FREEZE_LABEL: names.TRUE} if frozen else labels
    after = structs.replace(written, metadata=structs.replace(written.metadata, labels=wanted))
    because = "a set of it is frozen" if frozen else "no set of it is frozen"
    return Plan((ChangeDeployment(after),), AT_ONCE, because, last=True)


def roll_back(seen: DeploymentSeen) -> Plan[Step]:
    """Take an earlier template if ``spec.rollbackTo`` asks for it; while paused it waits."""
    written, request = seen.written, seen.written.spec.rollback_to
    if request is None or written.spec.paused:
        return Plan()
    spec = structs.replace(written.spec, rollback_to=None)
    after = structs.replace(written, spec=spec)
    target = rollback_target(tuple(seen.groups.values()), request.revision)
    if target is None:
        asked = f"revision {request.revision}" if request.revision else "the last revision"
        there = ", ".join(str(found) for found in sorted(g.revision for g in seen.groups.values())) or "none"
        message = f"Unable to find {asked}; revisions that exist: {there}"
        return _refused(after, EventReason.ROLLBACK_REVISION_NOT_FOUND, message)
    source = seen.named(target.name)
    if identity(source.spec.template) == identity(written.spec.template):
        message = f"the template of revision {target.revision} is the one that the deployment has"
        return _refused(after, EventReason.ROLLBACK_TEMPLATE_UNCHANGED, message)
    keys = seen.policy.metadata_keys
    shared = keys.shared(source.metadata.annotations)
    earlier = {key: text for key, text in shared.items() if key not in keys.mirrored}
    template = with_hash(source.spec.template, names.TEMPLATE_HASH_LABEL, "")
    after = structs.replace(after, spec=structs.replace(spec, template=template))
    after = with_annotations(after, {**written.metadata.annotations, **earlier})
    message = f'Rolled back deployment "{written.name}" to revision {target.revision}'
    steps = (ChangeDeployment(after), RecordEvent(EventReason.ROLLBACK, message))
    return Plan(steps, AT_ONCE, message, last=True)


def _refused(after: MachineDeployment, reason: str, message: str) -> Plan[Step]:
    """Clear the request, and then tell why: an event of a write that meets a conflict would be told twice."""
    steps = (ChangeDeployment(after), RecordEvent(reason, message, warning=True))
    return Plan(steps, AT_ONCE, message, last=True)


@dataclass(frozen=True, slots=True)
class Triggered:
    """The annotations to write on machines, and the list as it should be (empty: no annotation).

    ``gone``        names that are dropped: their machines do not exist, are being deleted or are Failed
    ``unreadable``  names that are dropped since their times cannot be read
    """

    changes: tuple[MemberAnnotations, ...]
    text: str
    gone: tuple[str, ...] = ()
    unreadable: tuple[str, ...] = ()


def trigger_deletions(seen: DeploymentSeen) -> Plan[Step]:
    """Mark the machines that the autoscaler lists for deletion; take those off its list that do not exist,
    are being deleted or are Failed."""
    key, annotations = names.TRIGGER_DELETION_ANNOTATION, seen.written.metadata.annotations
    found = triggered(annotations, seen.all_members, seen.wall)
    steps: list[Step] = [AnnotateMembers(found.changes)] if found.changes else []
    reasons = (
        [f"the autoscaler chose {', '.join(m.member.name for m in found.changes)}"] if found.changes else []
    )
    if found.text != annotations.get(key, ""):
        steps.append(ChangeDeployment(annotated(seen.written, key, found.text)))
        reasons.append(why_rewritten(found))
    return Plan(tuple(steps), AT_ONCE if steps else None, "; ".join(reasons), last=bool(steps))


def why_rewritten(found: Triggered) -> str:
    """Why the list changes, in a clause."""
    reasons = (
        ("machines that do not exist, are being deleted or are Failed", found.gone),
        ("times that cannot be read, of machines", found.unreadable),
    )
    named = " and ".join(f"{what}: {', '.join(those)}" for what, those in reasons if those)
    return f"the autoscaler's list names {named}" if named else "the autoscaler's list lacks a time"


def triggered(annotations: Mapping[str, str], members: Iterable[MachineMember], wall: datetime) -> Triggered:
    """Read the list of a deployment whose machines are ``members``."""
    wanted = names.triggered_deletions(annotations)
    if not wanted:
        return Triggered((), "")
    living = {member.name: member for member in members if member.alive and member.phase is not Phase.FAILED}
    default = _time(annotations.get(names.LAST_SCALER_CHANGE_ANNOTATION, "")) or rfc3339(wall)
    times = {name: _time(text) if text else default for name, text in wanted.items() if name in living}
    kept = {name: time for name, time in times.items() if time}
    changes = tuple(_mark(living[name], time) for name, time in kept.items() if not living[name].chosen)
    gone = tuple(name for name in wanted if name not in living)
    unreadable = tuple(name for name, time in times.items() if not time)
    return Triggered(changes, names.format_triggered_deletions(kept), gone, unreadable)


def _mark(member: MachineMember, time: str) -> MemberAnnotations:
    """The annotations by which a machine is deleted first: its priority, and when it was chosen."""
    key = names.MARKED_FOR_DELETION_TIME_ANNOTATION
    return MemberAnnotations(member, {names.PRIORITY_ANNOTATION: str(CHOSEN_PRIORITY), key: time})


def _time(text: str) -> str:
    """The text when it is an RFC 3339 time, else an empty one."""
    try:
        parse_rfc3339(text)
    except ValueError:
        return ""
    return text


def deployment_status(seen: DeploymentSeen, failures: Failures) -> MachineDeploymentStatus:
    """The status to write, from what was seen after a pass and what happened in it."""
    members = seen.all_members
    preserved = sum(member.preserved_failed for member in members)
    copies: Copies[MachineSet] = {ConditionType.FROZEN: _frozen, ConditionType.RESOURCE_EXHAUSTED: _exhausted}
    troubles = [member.failure_summary for member in members if member.failure_summary is not None]
    return structs.replace(
        seen.written.status,
        **counted(seen, failures),
        preserved_failed_replicas=preserved,
        conditions=conditions(seen, failures, MachineDeploymentCondition, copies, preserved),
        failed_machines=tuple(sorted(troubles, key=lambda trouble: trouble.name)),
    )


def _exhausted(machine_set: MachineSet) -> Statement | None:
    """What a set says of a cloud that has no more VMs."""
    found = find_true_condition(machine_set.status.machine_set_condition, ConditionType.RESOURCE_EXHAUSTED)
    return Statement(TRUE, found.reason, found.message) if found is not None else None


def _frozen(machine_set: MachineSet) -> Statement | None:
    """The condition of a frozen set, with the reason that the set's own condition has."""
    if not names.frozen(machine_set.metadata.labels):
        return None
    condition = condition_of(machine_set.status.machine_set_condition, ConditionType.FROZEN)
    message = f'MachineSet "{machine_set.metadata.name}" is frozen. {FROZEN}'
    if condition is not None and frozen_by_count(machine_set.status):
        message = condition.message
    return Statement(TRUE, condition.reason if condition else ConditionReason.FREEZE_LABEL, message)


class MachineDeployments(DeploymentPolicy[MachineDeployment, MachineSet, MachineMember]):
    """What deployments of machines do."""

    name = "machinedeployment"
    component = names.DEPLOYMENT_COMPONENT
    kind = MACHINE_DEPLOYMENT
    set_kind = MACHINE_SET
    member_kind = MACHINE
    finalizer = names.FINALIZER
    metadata_keys = METADATA_KEYS
    reasons = REASONS
    words = WORDS

    def with_defaults(self, deployment: MachineDeployment) -> MachineDeployment:
        """As ``api.machine.validate`` has them."""
        return with_defaults(deployment)

    def validate(self, deployment: MachineDeployment) -> str:
        """What validation says; empty for a valid deployment."""
        return summary(validate_deployment(deployment))

    def desired(self, deployment: MachineDeployment) -> int:
        """With those that are kept free."""
        return deployment.spec.desired

    def strategy(self, deployment: MachineDeployment) -> Strategy:
        """As ``strategy``."""
        return strategy(deployment)

    def keeps_history(self, deployment: MachineDeployment) -> bool:
        """While a rollback is asked for."""
        return deployment.spec.rollback_to is not None

    def identity(self, template: MachineTemplateSpec) -> bytes:
        """As ``identity``."""
        return identity(template)

    def name_and_hash(self, deployment: MachineDeployment) -> tuple[str, str]:
        """As ``name_and_hash``."""
        return name_and_hash(deployment)

    def propagated(self, of: MachineSet, deployment: MachineDeployment) -> MachineSet:
        """The set with all of the deployment that needs no rollout."""
        mine, theirs = of.spec, deployment.spec
        spec = structs.replace(
            mine,
            auto_preserve_failed_machine_max=theirs.auto_preserve_failed_machine_max,
            template=propagated_template(mine.template, theirs.template),
        )
        return structs.replace(of, spec=spec)

    def ranking(
        self, of: MachineSet, wall: float, living: Sequence[MachineMember]
    ) -> Callable[[MachineMember], Rank]:
        """As ``machineset.member.ranking``."""
        return ranking(of, wall, living)

    def as_sized(self, of: MachineSet, deployment: MachineDeployment) -> MachineSet:
        """The set with the number of machines that it keeps free when it shrinks: the deployment's, or none
        where its machines give way to new ones, and those that are free go first. Where they do not, an old
        set shrinks only since fewer replicas are wanted, and keeps them as the current one does."""
        kept, wanted = deployment.spec.excess_replicas or 0, deployment.spec.template
        if kept and (not replaces(deployment) or identity(of.spec.template) == identity(wanted)):
            return annotated(of, excess.KEPT_ANNOTATION, str(kept))
        known = excess.KEPT_ANNOTATION in of.metadata.annotations
        return annotated(of, excess.KEPT_ANNOTATION, "") if known else of

    def set_conditions(self, of: MachineSet) -> tuple[Any, ...]:
        """Under their name in this API."""
        return of.status.machine_set_condition

    def deciders(self) -> tuple[Decider[MachineDeployment, MachineSet, MachineMember], ...]:
        """Freezing, deletions that cluster-autoscaler asks for, and rollbacks."""
        return (follow_freeze, trigger_deletions, roll_back)

    def status(self, seen: DeploymentSeen, failures: Failures) -> MachineDeploymentStatus:
        """As ``deployment_status``."""
        return deployment_status(seen, failures)


MACHINE_DEPLOYMENTS = MachineDeployments()
