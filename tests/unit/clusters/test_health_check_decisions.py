"""What a MachineHealthCheck decides: the health of one machine, how many may be replaced, what is written."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from msgspec import structs

from kubewright.api.cluster.v1beta1 import (
    Cluster,
    ClusterStatus,
    Condition,
    Machine,
    MachineHealthCheck,
    MachineHealthCheckSpec,
    MachineStatus,
    ObjectReference,
    UnhealthyCondition,
)
from kubewright.api.meta import ObjectMeta, OwnerReference
from kubewright.clusters.external.object import External
from kubewright.clusters.healthcheck.decide import Health, allowance, decide, status_of, verdict
from kubewright.clusters.healthcheck.seen import (
    CreateRemediationRequest,
    DeleteRemediationRequest,
    NodeState,
    Seen,
    Target,
    UpdateHealthCheck,
    WriteConditions,
)

WALL = datetime(2030, 1, 1, tzinfo=UTC)
NOW = WALL.timestamp()
OWNER = OwnerReference(api_version="cluster.x-k8s.io/v1beta1", kind="Cluster", name="demo", uid="u")


def condition(kind, status="True", reason="", severity="", message=""):
    return Condition(
        type=kind, status=status, reason=reason, severity=severity, message=message, last_transition_time=WALL
    )


INITIALIZED, INFRASTRUCTURE = condition("ControlPlaneInitialized"), condition("InfrastructureReady")


def cluster(*conditions):
    status = ClusterStatus(conditions=conditions)
    return Cluster(metadata=ObjectMeta(name="demo", namespace="ns", uid="u"), status=status)


READY = cluster(INITIALIZED, INFRASTRUCTURE)
SPEC = MachineHealthCheckSpec(
    cluster_name="demo",
    unhealthy_conditions=(
        UnhealthyCondition(type="Ready", status="Unknown", timeout="5m"),
        UnhealthyCondition(type="Ready", status="False", timeout="2m"),
    ),
    node_startup_timeout="10m0s",
    max_unhealthy="100%",
)
META = ObjectMeta(
    name="check", namespace="ns", labels={"cluster.x-k8s.io/cluster-name": "demo"}, owner_references=(OWNER,)
)


def seen(*targets, of=READY, template=None, **spec):
    check = MachineHealthCheck(metadata=META, spec=structs.replace(SPEC, **spec))
    return Seen(check, of, NOW, WALL, targets=targets, template=template)


GOOD = NodeState({"Ready": ("True", NOW - 9999)})


def target(name="m", *, node=GOOD, reachable=True, since=NOW - 60, request=None, status=None, **meta):
    given = {"node_ref": ObjectReference(name="n")} if node is not None or not reachable else {}
    machine = Machine(
        metadata=ObjectMeta(name=name, namespace="ns", **meta),
        status=MachineStatus(**{**given, **(status or {})}),
    )
    return Target(machine, node, reachable, since, request)


def state(status, ago):
    return NodeState({"Ready": (status, NOW - ago)})


HEALTHY, UNHEALTHY, WAITING, UNKNOWN = Health.HEALTHY, Health.UNHEALTHY, Health.WAITING, Health.UNKNOWN
LOST = {"node_ref": ObjectReference(name="n")}
CASES = {
    "a machine with a good node": (seen(), target(), (HEALTHY, "", None)),
    "one that a user wants replaced": (
        seen(), target(annotations={"cluster.x-k8s.io/remediate-machine": ""}),
        (UNHEALTHY, "HasRemediateMachineAnnotation", None),
    ),
    "one whose provider has given up": (
        seen(), target(status={"failure_reason": "CreateError"}), (UNHEALTHY, "MachineHasFailure", None),
    ),
    "one whose provider says what is wrong": (
        seen(), target(status={"failure_message": "no quota"}), (UNHEALTHY, "MachineHasFailure", None),
    ),
    "one whose node is gone": (seen(), target(node=None, status=LOST), (UNHEALTHY, "NodeNotFound", None)),
    "one whose node cannot be seen": (
        seen(), target(node=None, reachable=False), (UNKNOWN, "", None),
    ),
    "one before the control plane is initialized": (
        seen(of=cluster(INFRASTRUCTURE)), target(node=None, since=0), (UNKNOWN, "", None),
    ),
    "one of that control plane": (
        seen(of=cluster(INFRASTRUCTURE)),
        target(node=None, since=0, labels={"cluster.x-k8s.io/control-plane": ""}),
        (UNHEALTHY, "NodeStartupTimeout", None),
    ),
    "one before the infrastructure is ready": (
        seen(of=cluster(INITIALIZED)), target(node=None, since=0), (UNKNOWN, "", None),
    ),
    "one without a cluster": (seen(of=None), target(node=None, since=0), (UNKNOWN, "", None)),
    "one that may still start": (seen(), target(node=None, since=NOW - 60), (WAITING, "", 541.0)),
    "one that is just in time": (seen(), target(node=None, since=NOW - 600), (WAITING, "", 1.0)),
    "one that did not start": (seen(), target(node=None, since=NOW - 601), (UNHEALTHY, "NodeStartupTimeout", None)),
    "one whose cluster is out of reach while it should start": (
        seen(), target(node=None, reachable=False, since=0, status={"node_ref": None}), (UNKNOWN, "", None),
    ),
    "one of a control plane that cannot be reached before it is initialized": (
        seen(of=cluster(INFRASTRUCTURE)),
        target(
            node=None,
            reachable=False,
            since=0,
            status={"node_ref": None},
            labels={"cluster.x-k8s.io/control-plane": ""},
        ),
        (UNHEALTHY, "NodeStartupTimeout", None),
    ),
    "one that need not start": (
        seen(node_startup_timeout="0s"), target(node=None, since=0), (UNKNOWN, "", None),
    ),
    "one whose node is bad for long": (seen(), target(node=state("False", 121)), (UNHEALTHY, "UnhealthyNode", None)),
    "one whose node is bad since just now": (seen(), target(node=state("False", 20)), (WAITING, "", 101.0)),
    "one whose node says nothing": (seen(), target(node=NodeState()), (HEALTHY, "", None)),
    "one with a longer limit for another state": (
        seen(), target(node=state("Unknown", 121)), (WAITING, "", 180.0),
    ),
    "one that is being deleted": (seen(), target(deletion_timestamp=WALL), (UNKNOWN, "", None)),
    "one that is being deleted without a node": (
        seen(), target(node=None, status=LOST, deletion_timestamp=WALL), (UNHEALTHY, "NodeNotFound", None),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("picture", "about", "wanted"), CASES.values(), ids=CASES)
def test_the_health_of_a_machine(picture, about, wanted):
    found = verdict(picture, about)
    assert (found.health, found.reason, found.seconds) == wanted


MESSAGES = {
    "Node failed to report startup in 10m0s": target(node=None, since=0),
    "Condition Ready on node is reporting status False for more than 2m0s": target(node=state("False", 999)),
    "FailureMessage: no quota": target(status={"failure_message": "no quota"}),
}


@pytest.mark.parametrize("message", MESSAGES)
def test_what_is_said(message):
    assert verdict(seen(), MESSAGES[message]).message == message


MANY, FEW, WRONG = "TooManyUnhealthy Warning", "TooFewUnhealthy Info", "InvalidConfiguration Error"
ALLOWED = {
    "all may be unhealthy": ({}, 3, 0, 0, ""),
    "a number that is not reached": ({"max_unhealthy": 2}, 5, 4, 1, ""),
    "a number that is reached": ({"max_unhealthy": 2}, 5, 3, 0, ""),
    "a number that is exceeded": ({"max_unhealthy": 2}, 5, 2, 0, MANY),
    "a share, rounded down": ({"max_unhealthy": "40%"}, 4, 3, 0, ""),
    "a share that is exceeded": ({"max_unhealthy": "40%"}, 4, 2, 0, MANY),
    "a share of more than there are": ({"max_unhealthy": "999999999%"}, 2**31 - 1, 2**31 - 1, 2**31 - 1, ""),
    "a share that is none": ({"max_unhealthy": "many"}, 5, 5, 0, WRONG),
    "a number that is none": ({"max_unhealthy": -1}, 5, 5, 0, WRONG),
    "none at all": ({"max_unhealthy": 0}, 3, 3, 0, ""),
    "within a range": ({"unhealthy_range": "[1-3]", "max_unhealthy": 0}, 5, 3, 1, ""),
    "the beginning of a range": ({"unhealthy_range": "[1-3]"}, 5, 4, 2, ""),
    "the end of a range": ({"unhealthy_range": "[1-3]"}, 5, 2, 0, ""),
    "a range of one number": ({"unhealthy_range": "[2-2]"}, 5, 3, 0, ""),
    "all is well, below a range": ({"unhealthy_range": "[1-3]"}, 5, 5, 0, FEW),
    "below a range": ({"unhealthy_range": "[2-3]"}, 5, 4, 0, FEW),
    "above a range": ({"unhealthy_range": "[1-3]"}, 5, 1, 0, MANY),
    "a range from none": ({"unhealthy_range": "[0-3]"}, 5, 5, 3, ""),
    "a range that ends before it begins": ({"unhealthy_range": "[3-1]"}, 5, 3, 0, WRONG),
    "a range that is none": ({"unhealthy_range": "1-3"}, 5, 3, 0, WRONG),
    "no machines": ({"max_unhealthy": "40%"}, 0, 0, 0, ""),
}


@pytest.mark.parametrize(("spec", "expected", "healthy", "more", "refused"), ALLOWED.values(), ids=ALLOWED)
def test_how_many_may_be_replaced(spec, expected, healthy, more, refused):
    found = allowance(structs.replace(SPEC, **spec), expected, healthy)
    told = f"{found.reason} {found.severity}" if found.refusal else ""
    assert (found.remediations, told) == (more, refused)


REFUSALS = {
    "exceeds maxUnhealthy (total: 5, unhealthy: 3, maxUnhealthy: 2)": {"max_unhealthy": 2},
    "is below the range (total: 5, unhealthy: 3, unhealthyRange: [4-5])": {"unhealthy_range": "[4-5]"},
    "is above the range (total: 5, unhealthy: 3, unhealthyRange: [1-2])": {"unhealthy_range": "[1-2]"},
}


@pytest.mark.parametrize("end", REFUSALS)
def test_a_refusal_says_which_bound_is_broken_and_how(end):
    counted = "Remediation is not allowed, the number of not started or unhealthy machines"
    assert allowance(structs.replace(SPEC, **REFUSALS[end]), 5, 2).refusal == f"{counted} {end}"


def test_a_range_that_cannot_be_is_named_with_what_is_wrong_with_it():
    told = "must not begin with more machines than it ends with: 3 is more than 1"
    refusal = allowance(structs.replace(SPEC, unhealthy_range="[3-1]"), 5, 2).refusal
    assert refusal == f"Remediation is not allowed: unhealthyRange: [3-1] {told}"


def written(plan):
    """By machine: type, status and reason of each condition that is written."""
    return {
        step.machine.name: [(each.type, each.status, each.reason) for each in step.conditions]
        for step in plan.steps
        if isinstance(step, WriteConditions)
    }


SICK = {"failure_message": "no"}
WAITS = ("OwnerRemediated", "False", "WaitingForRemediation")
FAILED = ("HealthCheckSucceeded", "False", "MachineHasFailure")
FINE = ("HealthCheckSucceeded", "True", "")


def test_owners_are_told_of_unhealthy_machines_and_healthy_ones_get_their_condition():
    plan = decide(seen(target("a", status=SICK), target("b")))
    assert written(plan) == {"a": [FAILED, WAITS], "b": [FINE]}


def test_no_owner_is_told_while_too_many_are_unhealthy():
    plan = decide(seen(target("a", status=SICK), target("b"), max_unhealthy=0))
    assert written(plan) == {"a": [FAILED], "b": [FINE]}


def test_a_remediation_that_has_begun_is_the_owners():
    begun = condition("OwnerRemediated", "False", "RemediationInProgress", "Warning")
    status = {**SICK, "conditions": (begun,)}
    assert written(decide(seen(target("a", status=status))))["a"][1] == (
        "OwnerRemediated", "False", "RemediationInProgress",
    )  # fmt: skip


def test_a_remediation_that_is_over_is_asked_for_again():
    status = {**SICK, "conditions": (condition("OwnerRemediated"),)}
    assert written(decide(seen(target("a", status=status)))) == {"a": [FAILED, WAITS]}


def test_a_machine_that_recovers_before_its_owner_has_begun_is_left_alone():
    waits = condition("OwnerRemediated", "False", "WaitingForRemediation", "Warning")
    assert written(decide(seen(target("a", status={"conditions": (waits,)})))) == {"a": [FINE]}


def test_nothing_is_written_twice():
    fine = condition("HealthCheckSucceeded")
    assert decide(seen(target("a", status={"conditions": (fine,)}))).steps == ()


def test_a_paused_machine_is_not_written():
    plan = decide(seen(target("a", status=SICK, annotations={"cluster.x-k8s.io/paused": ""})))
    assert plan.steps == ()


TEMPLATE = External(
    ObjectReference(api_version="r.io/v1", kind="FooRepairTemplate", name="t"), {"spec": {"template": {}}}
)
ABSENT = External(ObjectReference(api_version="r.io/v1", kind="FooRepair", name="a"), gone=True)
THERE = replace(ABSENT, gone=False, found={"metadata": {"uid": "r"}})
GOING = replace(THERE, found={"metadata": {"uid": "r", "deletionTimestamp": "2030-01-01T00:00:00Z"}})
REQUESTS = {
    "an unhealthy machine": (target("a", status=SICK, request=ABSENT), [CreateRemediationRequest]),
    "one that was asked for": (target("a", status=SICK, request=THERE), []),
    "a healthy machine": (target("a", request=ABSENT), []),
    "one that was repaired": (target("a", request=THERE), [DeleteRemediationRequest]),
    "one whose request goes": (target("a", request=GOING), []),
    "one that may become unhealthy": (target("a", node=state("False", 1), request=THERE), []),
}


@pytest.mark.parametrize(("about", "wanted"), REQUESTS.values(), ids=REQUESTS)
def test_another_controller_is_asked_to_repair(about, wanted):
    plan = decide(seen(about, template=TEMPLATE))
    assert [type(step) for step in plan.steps if not isinstance(step, WriteConditions)] == wanted
    assert all("OwnerRemediated" not in [each[0] for each in found] for found in written(plan).values())


def test_one_request_that_is_there_does_not_stop_the_others():
    plan = decide(
        seen(
            target("a", status=SICK, request=THERE),
            target("b", status=SICK, request=ABSENT),
            target("c", request=ABSENT),
            template=TEMPLATE,
        )
    )
    assert [step.machine.name for step in plan.steps if isinstance(step, CreateRemediationRequest)] == ["b"]
    assert written(plan) == {"a": [FAILED], "b": [FAILED], "c": [FINE]}


def test_a_check_becomes_its_clusters():
    bare = seen()
    plan = decide(replace(bare, check=structs.replace(bare.check, metadata=ObjectMeta(name="check"))))
    (step,) = plan.steps
    assert isinstance(step, UpdateHealthCheck)
    assert step.meta.owner_references == (OWNER,)
    assert step.meta.labels == META.labels


def test_the_next_look_is_when_the_first_machine_may_become_unhealthy():
    plan = decide(seen(target("a", node=state("False", 20)), target("b", node=None, since=NOW - 60)))
    assert plan.wake is not None
    assert plan.wake.total_seconds() == 101


def test_the_status_counts_and_says_why_nothing_is_replaced():
    found = status_of(seen(target("b", status=SICK), target("a"), max_unhealthy=0), {})
    assert (found.expected_machines, found.current_healthy, found.remediations_allowed) == (2, 1, 0)
    assert found.targets == ("a", "b")
    (allowed,) = found.conditions
    assert (allowed.type, allowed.status, allowed.reason) == (
        "RemediationAllowed",
        "False",
        "TooManyUnhealthy",
    )
    assert allowed.message.endswith("exceeds maxUnhealthy (total: 2, unhealthy: 1, maxUnhealthy: 0)")


def test_the_status_tells_that_there_is_no_cluster():
    (allowed,) = status_of(replace(seen(), cluster=None), {}).conditions
    assert (allowed.status, allowed.reason, allowed.message) == (
        "False",
        "ClusterNotFound",
        "waiting: there is no Cluster demo",
    )


def test_the_status_tells_of_a_template_that_is_missing_and_of_requests_that_fail():
    missing = replace(TEMPLATE, found=None, problem="there is none")
    found = status_of(seen(template=missing), {"a": "no"})
    assert [(each.type, each.status, each.message) for each in found.conditions] == [
        ("ExternalRemediationRequestAvailable", "False", "a: no"),
        ("ExternalRemediationTemplateAvailable", "False", "FooRepairTemplate t: there is none"),
        ("RemediationAllowed", "True", ""),
    ]
    before = structs.replace(seen().check, status=found)
    assert [each.type for each in status_of(replace(seen(), check=before), {}).conditions] == [
        "RemediationAllowed"
    ]


def test_a_check_names_what_keeps_machines_from_being_replaced():
    held = decide(seen(target("a", status=SICK), target("b"), max_unhealthy=0))
    (wait,) = held.awaits
    assert (wait.what, "maxUnhealthy: 0" in wait.remedy) == (
        "a number of unhealthy machines that the check allows",
        True,
    )
    assert decide(seen(target("a", status=SICK), target("b"))).awaits == ()
    assert decide(seen(target("b"), max_unhealthy=0)).awaits == ()
