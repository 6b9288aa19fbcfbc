"""A MachineDeployment's status (DEP-13) and the autoscaler's list (DEP-05)."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec import structs

from kubewright.api.diff import merge_patch
from kubewright.api.machine import names
from kubewright.api.machine.names import Phase
from kubewright.api.machine.v1alpha1 import (
    ClassSpec,
    MachineDeployment,
    MachineDeploymentCondition,
    MachineDeploymentSpec,
    MachineDeploymentStatus,
    MachineSet,
    MachineSetCondition,
    MachineSetStatus,
    MachineSpec,
    MachineSummary,
    MachineTemplateSpec,
)
from kubewright.api.meta import LabelSelector, ObjectMeta
from kubewright.machines.deployment import MACHINE_DEPLOYMENTS, deployment_status, triggered, why_rewritten
from kubewright.machines.machineset.decide import FROZEN
from kubewright.machines.machineset.member import MachineMember
from kubewright.replicas.deployment.decide import new_set
from kubewright.replicas.deployment.seen import Failures, Seen
from kubewright.replicas.deployment.status import next_look, progress_reported
from kubewright.rollout.model import Sizes
from kubewright.rollout.progress import Counts
from kubewright.wire.gvk import Key

T0 = datetime(2030, 1, 1, tzinfo=UTC)


def deployment(status: MachineDeploymentStatus | None = None, **spec: Any) -> MachineDeployment:
    machine_class = ClassSpec(kind="MachineClass", name="small")
    return MachineDeployment(
        metadata=ObjectMeta(name="md", namespace="ns", uid="md-uid", generation=5),
        spec=MachineDeploymentSpec(
            replicas=spec.pop("replicas", 2),
            selector=LabelSelector(match_labels={"app": "a"}),
            template=MachineTemplateSpec(
                metadata=ObjectMeta(labels={"app": "a"}), spec=MachineSpec(machine_class=machine_class)
            ),
            **spec,
        ),
        status=status or MachineDeploymentStatus(),
    )


def member(name: str, phase: Phase = Phase.RUNNING, **facts: Any) -> MachineMember:
    facts.setdefault("deleting", False)
    return MachineMember(Key("ns", name), name, "set-uid", {}, phase=phase, **facts)


def seen(
    *members: MachineMember,
    md: MachineDeployment | None = None,
    at: datetime = T0,
    failure: str = "",
    **more: Any,
) -> Seen:
    md = md or deployment()
    found = new_set(MACHINE_DEPLOYMENTS, md, 1, Sizes(desired=2, ceiling=3), md.spec.replicas)
    condition = MachineSetCondition(
        type="ReplicaFailure", status="True", reason="FailedCreate", message=failure
    )
    found = structs.replace(
        found,
        metadata=structs.replace(found.metadata, name="ms", uid="set-uid", creation_timestamp=T0),
        status=MachineSetStatus(machine_set_condition=(condition,) if failure else ()),
    )
    return Seen(
        MACHINE_DEPLOYMENTS,
        md,
        at,
        more.pop("now", at.timestamp()),
        more.pop("sets", (found,)),
        members={"set-uid": members},
        reported=more.pop("reported", progress_reported(md)),
        **more,
    )


def said(status: MachineDeploymentStatus, kind: str) -> tuple[str, str, str] | None:
    return next(((c.status, c.reason, c.message) for c in status.conditions if c.type == kind), None)


def test_counts_come_from_the_machines() -> None:
    status = deployment_status(
        seen(member("a"), member("b", Phase.PENDING), member("c", deleting=True)), Failures()
    )
    assert (status.replicas, status.updated_replicas) == (3, 3)
    assert (status.ready_replicas, status.available_replicas, status.unavailable_replicas) == (1, 1, 1)
    assert status.observed_generation == 5


@pytest.mark.parametrize(
    ("members", "expect"),
    [
        pytest.param((member("a"), member("b")), "True", id="all available"),
        pytest.param((member("a"),), "False", id="one missing, none may be"),
    ],
)
def test_minimum_availability(members: tuple[MachineMember, ...], expect: str) -> None:
    condition = said(deployment_status(seen(*members), Failures()), "Available")
    assert condition is not None
    assert condition[0] == expect


def after(
    *members: MachineMember, status: MachineDeploymentStatus, seconds: float = 60, **spec: Any
) -> MachineDeploymentStatus:
    world = seen(*members, md=deployment(status, **spec), at=T0 + timedelta(seconds=seconds))
    return deployment_status(world, Failures())


FRESH = deployment_status(seen(), Failures())


def test_a_rollout_from_the_first_report_to_the_last() -> None:
    assert said(FRESH, "Progressing") == ("True", "NewMachineSetCreated", 'Created new machine set "ms"')
    half = after(member("a"), status=FRESH)
    assert said(half, "Progressing") == ("True", "MachineSetUpdated", 'MachineSet "ms" is progressing.')
    done = after(member("a"), member("b"), status=half)
    assert said(done, "Progressing") == (
        "True",
        "NewMachineSetAvailable",
        'MachineSet "ms" has successfully progressed.',
    )
    sick = after(
        member("a"), member("b", Phase.UNKNOWN), status=done, seconds=999, progress_deadline_seconds=1
    )
    assert said(sick, "Progressing") == said(done, "Progressing"), "a failure later is no failed rollout"


def test_a_rollout_that_stands_still_runs_out_of_time() -> None:
    assert said(after(status=FRESH, seconds=59, progress_deadline_seconds=60), "Progressing") == said(
        FRESH, "Progressing"
    )
    late = after(status=FRESH, seconds=61, progress_deadline_seconds=60)
    assert said(late, "Progressing") == (
        "False", "ProgressDeadlineExceeded", 'MachineSet "ms" has timed out progressing.'
    )  # fmt: skip
    moving = after(member("a"), status=late, progress_deadline_seconds=60)
    assert said(moving, "Progressing") == ("True", "MachineSetUpdated", 'MachineSet "ms" is progressing.')


def reported(reason: str, message: str, status: str = "True") -> MachineDeploymentStatus:
    """A status that says this about the rollout, and has seen two machines that are well."""
    known = MachineDeploymentCondition(
        type="Progressing", status=status, reason=reason, message=message, last_update_time=T0
    )
    return MachineDeploymentStatus(
        replicas=2, updated_replicas=2, ready_replicas=2, available_replicas=2, conditions=(known,)
    )


DONE = reported("NewMachineSetAvailable", 'MachineSet "ms" has successfully progressed.')
BEFORE = reported("NewMachineSetAvailable", 'MachineSet "ms-before" has successfully progressed.')
LATE = reported("ProgressDeadlineExceeded", 'MachineSet "ms-before" has timed out progressing.', "False")
SICK = (member("a"), member("b", Phase.UNKNOWN))
REUSED = {names.REVISION_HISTORY_ANNOTATION: "1"}


@pytest.mark.parametrize(
    ("status", "world", "expect"),
    [
        pytest.param(DONE, {}, "NewMachineSetAvailable", id="a machine that becomes unhealthy later is no rollout"),
        pytest.param(BEFORE, {}, "NewMachineSetCreated", id="a condition about another set is not about this rollout"),
        pytest.param(LATE, {}, "NewMachineSetCreated", id="nor is the time-out of another set"),
        pytest.param(BEFORE, {"annotations": REUSED}, "FoundNewMachineSet", id="a set that was current before is found"),
        pytest.param(BEFORE, {"older": True}, "FoundNewMachineSet", id="so is one that is older than its deployment"),
        pytest.param(BEFORE, {"members": (member("a"), member("b"))}, "NewMachineSetAvailable",
                     id="a rollout that is over before it was reported is over"),
        pytest.param(DONE, {"old": 1}, "MachineSetUpdated", id="an old set with replicas is a rollout"),
        pytest.param(BEFORE, {"gone": True}, "MachineSetUpdated", id="a current set that does not exist yet is a rollout"),
        pytest.param(None, {"gone": True}, "", id="no condition before there is any set"),
    ],
)  # fmt: skip
def test_which_rollout_a_condition_is_about(
    status: MachineDeploymentStatus | None, world: dict[str, Any], expect: str
) -> None:
    md = deployment(status, progress_deadline_seconds=600)
    if world.get("older"):
        md = structs.replace(md, metadata=structs.replace(md.metadata, creation_timestamp=T0 + timedelta(1)))
    (found,) = seen(md=md).sets
    if extra := world.get("annotations"):
        annotations = {**found.metadata.annotations, **extra}
        found = structs.replace(found, metadata=structs.replace(found.metadata, annotations=annotations))
    sets = () if world.get("gone") and status is None else (found,)
    if world.get("old") or (world.get("gone") and sets):
        other = MachineSpec(machine_class=ClassSpec(kind="MachineClass", name="before"))
        meta = structs.replace(found.metadata, name="ms-old", uid="old-uid")
        spec = structs.replace(
            found.spec, replicas=1, template=structs.replace(found.spec.template, spec=other)
        )
        old = structs.replace(found, metadata=meta, spec=spec)
        sets = (old,) if world.get("gone") else (found, old)
    picture = seen(*world.get("members", SICK), md=md, sets=sets)
    word = said(deployment_status(picture, Failures()), "Progressing")
    assert (word[1] if word else "") == expect


def test_what_was_lost_and_made_again_is_no_progress() -> None:
    before = reported("MachineSetUpdated", 'MachineSet "ms" is progressing.')
    fewer = structs.replace(before, updated_replicas=1, replicas=1, ready_replicas=0, available_replicas=0)
    md, late = deployment(fewer, progress_deadline_seconds=60), T0 + timedelta(seconds=61)
    made_again = (member("c", Phase.PENDING), member("d", Phase.PENDING))
    best = Counts(2, 2, 0, 0)
    for known, expect in ((best, "ProgressDeadlineExceeded"), (None, "MachineSetUpdated")):
        word = said(
            deployment_status(seen(*made_again, md=md, at=late, best=known), Failures()), "Progressing"
        )
        assert word is not None
        assert word[1] == expect


def test_a_set_that_cannot_be_made_is_late_in_time_whatever_its_error_says() -> None:
    status = reported("NewMachineSetAvailable", 'MachineSet "ms-before" has successfully progressed.')
    for seconds, error in ((0, "no 1"), (40, "no 2"), (61, "no 3")):
        md = deployment(status, progress_deadline_seconds=60)
        picture = seen(md=md, at=T0 + timedelta(seconds=seconds), sets=())
        status = deployment_status(picture, Failures(create_error=error, failed=True))
    assert said(status, "Progressing") == (
        "False", "ProgressDeadlineExceeded", 'Machine Deployment "md" has timed out progressing. no 3'
    )  # fmt: skip


def test_pausing_and_resuming() -> None:
    paused = after(status=FRESH, paused=True)
    assert said(paused, "Progressing") == ("Unknown", "DeploymentPaused", "Deployment is paused")
    assert said(after(member("a"), status=paused, paused=True), "Progressing") == said(paused, "Progressing")
    assert said(after(status=paused), "Progressing") == (
        "Unknown",
        "DeploymentResumed",
        "Deployment is resumed",
    )


def test_an_unchanged_world_writes_nothing() -> None:
    first = after(member("a"), status=FRESH)
    assert merge_patch(first, after(member("a"), status=first, seconds=99)) == {}


def test_a_set_that_fails_makes_the_deployment_say_so_and_take_it_back() -> None:
    failed = deployment_status(seen(failure="quota"), Failures())
    assert said(failed, "ReplicaFailure") == ("True", "FailedCreate", "quota")
    assert said(after(status=failed), "ReplicaFailure") is None


def test_preserved_failed_machines_are_counted_and_lower_the_floor() -> None:
    kept = member("b", Phase.FAILED, preserved_until=T0.timestamp() + 60)
    status = deployment_status(seen(member("a"), kept), Failures())
    word = said(status, "Available")
    assert (status.preserved_failed_replicas, word and word[0]) == (1, "True")


def test_machines_whose_last_operation_failed_are_listed_by_name() -> None:
    troubles = [MachineSummary(name=name) for name in "ba"]
    found = [member(each.name, failure_summary=each) for each in troubles]
    assert deployment_status(seen(*found, member("c")), Failures()).failed_machines == tuple(troubles[::-1])


@pytest.mark.parametrize(
    ("label", "reason", "expect"),
    [
        pytest.param("True", "", "FreezeLabel", id="by its label"),
        pytest.param("True", "OverShooting", "OverShooting", id="with the reason of its own condition"),
        pytest.param("False", "OverShooting", None, id="not without the label"),
    ],
)
def test_a_set_is_frozen(label: str, reason: str, expect: str | None) -> None:
    (found,) = seen().sets
    condition = MachineSetCondition(type="Frozen", status="True", reason=reason)
    found = structs.replace(
        found,
        metadata=structs.replace(found.metadata, labels={names.FREEZE_LABEL: label}),
        status=MachineSetStatus(machine_set_condition=(condition,) if reason else ()),
    )
    word = said(deployment_status(seen(sets=(found,)), Failures()), "Frozen")
    assert word == (("True", expect, f'MachineSet "ms" is frozen. {FROZEN}') if expect else None)


def test_a_set_that_cannot_be_made() -> None:
    status = deployment_status(seen(sets=()), Failures(create_error="Failed: no", failed=True))
    assert said(status, "Progressing") == ("False", "MachineSetCreateError", "Failed: no")
    assert status.observed_generation == 0


def test_an_invalid_deployment_says_why() -> None:
    status = deployment_status(seen(md=deployment(replicas=-1), sets=()), Failures())
    condition = said(status, "Progressing")
    assert condition is not None
    assert condition[:2] == ("False", "InvalidSpec")
    assert "spec.replicas" in condition[2]


@pytest.mark.parametrize(
    ("world", "expect"),
    [
        pytest.param(
            seen(md=deployment(FRESH, progress_deadline_seconds=60)), 61.0, id="the progress deadline"
        ),
        pytest.param(seen(md=deployment(FRESH)), None, id="no deadline, nothing to wait for"),
        pytest.param(
            seen(member("a", ready_since=T0.timestamp() - 10), md=deployment(FRESH, min_ready_seconds=30)),
            20.0,
            id="a machine that will have been ready for long enough",
        ),
    ],
)
def test_when_time_alone_changes_something(world: Seen, expect: float | None) -> None:
    assert next_look(world) == expect


TIME, LATER = "2030-01-01T00:00:00Z", "2030-01-02T00:00:00Z"


@pytest.mark.parametrize(
    ("text", "changed", "members", "marks", "left"),
    [
        pytest.param(
            f"a~{TIME}", "", (member("a"),), {"a": TIME}, f"a~{TIME}", id="a machine that is listed is marked"
        ),
        pytest.param(
            "a", LATER, (member("a"),), {"a": LATER}, f"a~{LATER}", id="without a time: the last change"
        ),
        pytest.param("a", "", (member("a"),), {"a": TIME}, f"a~{TIME}", id="without any time: now"),
        pytest.param("a~soon", "", (member("a"),), {}, "", id="a bad time is dropped"),
        pytest.param(f"a~{TIME}", "", (), {}, "", id="a machine that is gone is dropped"),
        pytest.param(f"a~{TIME}", "", (member("a", Phase.FAILED),), {}, "", id="so is a failed one"),
        pytest.param(f"a~{TIME}", "", (member("a", deleting=True),), {}, "", id="so is a terminating one"),
        pytest.param(
            f"a~{TIME},b~{TIME}",
            "",
            (member("a", priority=1, marked_at=1.0), member("b")),
            {"b": TIME},
            f"a~{TIME},b~{TIME}",
            id="a machine that is marked already is left as it is",
        ),
        pytest.param(
            f"a~{TIME}",
            "",
            (member("a", priority=1),),
            {"a": TIME},
            f"a~{TIME}",
            id="one that only has the priority, from a user, is marked",
        ),
        pytest.param("", "", (member("a"),), {}, "", id="without a list no machine is marked"),
    ],
)
def test_triggered_deletions(
    text: str, changed: str, members: tuple[MachineMember, ...], marks: dict[str, str], left: str
) -> None:
    annotations = {names.TRIGGER_DELETION_ANNOTATION: text, names.LAST_SCALER_CHANGE_ANNOTATION: changed}
    found = triggered(annotations, members, T0)
    key = names.MARKED_FOR_DELETION_TIME_ANNOTATION
    assert {mark.member.name: mark.annotations[key] for mark in found.changes} == marks
    assert found.text == left


@pytest.mark.parametrize(
    ("text", "because"),
    [
        pytest.param(
            "m1~2030-01-01T00:00:00Z,other~2030-01-01T00:00:00Z",
            "names machines that do not exist, are being deleted or are Failed: other",
            id="a machine is gone",
        ),
        pytest.param("m1~yesterday", "names times that cannot be read, of machines: m1", id="a time is none"),
        pytest.param("m1", "lacks a time", id="a time is missing"),
    ],
)
def test_why_the_list_of_the_autoscaler_is_rewritten(text: str, because: str) -> None:
    found = triggered({names.TRIGGER_DELETION_ANNOTATION: text}, (member("m1"),), T0)
    assert why_rewritten(found) == f"the autoscaler's list {because}"


def test_a_set_without_size_annotations_is_not_mistaken_for_a_scaled_one() -> None:
    bare: MachineSet = seen().sets[0]
    stripped = structs.replace(bare, metadata=structs.replace(bare.metadata, annotations={}))
    assert seen(sets=(stripped,)).groups["ms"].desired is None
