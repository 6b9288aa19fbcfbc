"""Volumes that pods leave behind on a draining node: whose they are, and who waits for them, and how long."""

from datetime import UTC, datetime, timedelta

import pytest

from kubewright.api.core import POD
from kubewright.nodes.drain.decide import plan_pass
from kubewright.nodes.drain.policy import DrainPolicy, Force
from kubewright.nodes.drain.volumes import Attached, Moving, Trip, awaited, claims, follow, users
from kubewright.wire.gvk import Key

T0 = datetime(2030, 1, 1, tzinfo=UTC)
SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)
POLICY = DrainPolicy(detach_timeout=2 * MINUTE, reattach_timeout=90 * SECOND)
NOWHERE = Attached()


def pod(name, *named, owner="StatefulSet", leaving=False, priority=0):
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}"}
    if owner:
        metadata["ownerReferences"] = [{"kind": owner, "name": "o", "uid": "o", "controller": True}]
    if leaving:
        metadata |= {"deletionTimestamp": T0.isoformat(), "deletionGracePeriodSeconds": 30}
    volumes = [{"name": claim, "persistentVolumeClaim": {"claimName": claim}} for claim in named]
    return POD.from_plain({"metadata": metadata, "spec": {"priority": priority, "volumes": volumes}})


def here(*volumes):
    return Attached(frozenset(volumes))


def there(*volumes):
    return Attached(elsewhere=lambda volume: volume in volumes)


DB = pod("db-0", "data")
JOB = pod("job", "data", owner="")
USED = Trip("pv", "default/db-0", returns=True, attached=True)
LEFT = Trip("pv", "default/db-0", returns=True, attached=True, unused_since=T0)
GONE = Trip("pv", "default/db-0", returns=True, attached=True, unused_since=T0, detached=T0)
NEXT = T0 + MINUTE
LOOKS = [
    ("a pod uses a volume that is attached", [], DB, here("pv"), [USED]),
    ("a pod uses a volume that was never attached: network storage", [], DB, NOWHERE,
     [Trip("pv", "default/db-0", returns=True)]),
    ("it is detached before its pod is gone: that it was attached stays known", [USED], DB, NOWHERE, [USED]),
    ("and when that pod is gone, it is awaited elsewhere as any other", [USED], None, NOWHERE,
     [Trip("pv", "default/db-0", True, True, NEXT, NEXT)]),
    ("then the pod goes, and there is nothing to wait for", [Trip("pv", "default/db-0", returns=True)], None, NOWHERE, []),
    ("the pod is gone, and its volume is attached", [USED], None, here("pv"), [Trip("pv", "default/db-0", True, True, NEXT)]),
    ("since when, stays", [LEFT], None, here("pv"), [LEFT]),
    ("a process that begins in the middle knows no pod, and sees the volume all the same", [], None, here("pv"),
     [Trip("pv", attached=True, unused_since=NEXT)]),
    ("it is detached, and its pod is made again: it should come up elsewhere", [LEFT], None, NOWHERE,
     [Trip("pv", "default/db-0", True, True, T0, NEXT)]),
    ("since when it is detached, stays", [GONE], None, NOWHERE, [GONE]),
    ("it has come up on another node", [GONE], None, there("pv"), []),
    ("another volume has: that of a longer name is not it", [GONE], None, there("pv-1"), [GONE]),
    ("between two looks it was detached and attached elsewhere", [USED], None, there("pv"), []),
    ("detached, of a pod that nothing makes again", [Trip("pv", "default/job", attached=True, unused_since=T0)], None, NOWHERE, []),
    ("detached, of a pod that this process did not see", [Trip("pv", attached=True, unused_since=T0)], None, NOWHERE, []),
    ("another pod of the node uses it again", [LEFT], pod("db-1", "data"), here("pv"),
     [Trip("pv", "default/db-1", returns=True, attached=True)]),
    ("it is attached here again", [GONE], None, here("pv"), [LEFT]),
    ("a pod without a controller", [], JOB, here("pv"), [Trip("pv", "default/job", attached=True)]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("before", "user", "attached", "after"), [c[1:] for c in LOOKS], ids=[c[0] for c in LOOKS]
)
def test_what_becomes_of_a_volume(before, user, attached, after):
    used = {"pv": user} if user else {}
    found = follow({trip.volume: trip for trip in before}, used, attached, NEXT)
    assert found == {trip.volume: trip for trip in after}


OTHER = Trip("pv-b", "default/db-1", returns=True, attached=True, unused_since=T0 + MINUTE)
WAITS = [
    ("volumes in use are not awaited", [USED], 0, POLICY, Moving()),
    ("one that is to be detached is, for its time", [LEFT], 119, POLICY,
     Moving(detaching=(LEFT,), until=T0 + 2 * MINUTE)),
    ("and no longer: then it is late", [LEFT], 120, POLICY, Moving(late=(LEFT,))),
    ("one that is to be attached elsewhere, for its time", [GONE], 89, POLICY,
     Moving(arriving=(GONE,), until=T0 + 90 * SECOND)),
    ("and no longer", [GONE], 90, POLICY, Moving()),
    ("of several the wait that ends first ends first", [LEFT, OTHER], 60, POLICY,
     Moving(detaching=(LEFT, OTHER), until=T0 + 2 * MINUTE)),
    ("without limits there is no end", [LEFT, GONE], 9999, DrainPolicy(), Moving((LEFT,), (GONE,))),
    ("no time to be attached elsewhere: that is not awaited", [GONE], 0,
     DrainPolicy(reattach_timeout=timedelta()), Moving()),
]  # fmt: skip


@pytest.mark.parametrize(
    ("trips", "at", "policy", "moving"), [c[1:] for c in WAITS], ids=[c[0] for c in WAITS]
)
def test_which_volumes_are_awaited(trips, at, policy, moving):
    found = awaited({str(number): trip for number, trip in enumerate(trips)}, policy, T0 + at * SECOND)
    assert found == moving


def test_a_volume_of_two_pods_is_in_use_until_both_are_gone():
    first, second = pod("a", "shared", "own"), pod("b", "shared")
    volumes = {Key("default", "shared"): "pv-shared", Key("default", "own"): "pv-own"}
    assert claims(first) == (Key("default", "shared"), Key("default", "own"))
    assert set(users([first, second], volumes)) == {"pv-shared", "pv-own"}
    assert set(users([second], volumes)) == {"pv-shared"}
    assert users([], volumes) == {}


def test_a_claim_without_a_volume_has_no_user():
    assert users([pod("a", "new")], {Key("default", "new"): ""}) == {}


def planned(*pods, trips, at=0, **more):
    trips = {trip.volume: trip for trip in trips}
    return plan_pass(pods, POLICY, now=T0 + at * SECOND, started=T0, trips=trips, **more)


A, B, WEB = pod("db-1", "one"), pod("db-2", "two", priority=9), pod("web")


def test_the_next_pod_with_volumes_waits_for_those_of_the_one_before_and_all_others_do_not():
    plan = planned(A, B, WEB, trips=[LEFT])
    assert ([each.name for each in plan.evict], [each.name for each in plan.waiting]) == (
        ["web"],
        ["db-2", "db-1"],
    )
    assert plan.because == (
        "pods: 1 to evict, 2 queued behind others with volumes; "
        "volume pv of default/db-0 is to be detached from the node"
    )


def test_and_then_until_they_are_attached_to_another_node():
    plan = planned(A, trips=[GONE])
    assert (plan.evict, plan.wake, plan.failed) == ((), 5 * SECOND, False)
    assert plan.because.endswith("volume pv of default/db-0 is to be attached to another node")
    assert planned(A, trips=[GONE], at=88).wake == 2 * SECOND


def test_a_policy_says_how_soon_pods_and_volumes_are_looked_at_again():
    policy = DrainPolicy(poll=50 * SECOND)
    for pods in ([pod("a", leaving=True)], [A]):
        plan = plan_pass(pods, policy, now=T0, started=T0, trips={"pv": LEFT})
        assert plan.wake == 50 * SECOND


def test_a_volume_that_is_not_detached_in_its_time_is_a_failure_and_holds_up_no_other_pod():
    plan = planned(A, trips=[LEFT], at=120)
    assert [each.name for each in plan.evict] == ["db-1"]
    assert plan.failed
    assert plan.obstacles == "timeout while waiting for PVs to detach from node: pv of default/db-0"
    assert plan.topics == {"pv is attached"}


def test_a_node_without_pods_is_drained_whatever_its_volumes_do():
    plan = planned(trips=[LEFT])
    assert (plan.done, plan.moving.detaching) == (True, (LEFT,))


def test_force_waits_for_no_volume():
    policy = DrainPolicy(force=Force(requested=True), detach_timeout=MINUTE)
    plan = plan_pass([A, B], policy, now=T0, started=T0, trips={"pv": LEFT})
    assert [each.name for each in plan.delete] == ["db-1", "db-2"]
    assert not plan.moving


def test_where_pods_leave_all_at_once_none_waits_for_volumes():
    policy = DrainPolicy(one_by_one=False)
    plan = plan_pass([A, B], policy, now=T0, started=T0, trips={"pv": LEFT})
    assert [each.name for each in plan.evict] == ["db-1", "db-2"]
