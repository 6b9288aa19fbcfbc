"""Which pods leave a draining node, in which order, and when no pod is waited for any more."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from kubewright.api.capacity.v1alpha1 import PLACEHOLDER_LABEL
from kubewright.api.core import POD, NodeCondition
from kubewright.base.delays import EVICTION, POLL, SOON
from kubewright.nodes.drain.decide import FORCED_TRIES, PODS_PER_PASS, plan_pass
from kubewright.nodes.drain.plan import NO_REQUESTS, DrainPlan, Held, Obstacle, Requests, Try
from kubewright.nodes.drain.policy import DrainPolicy, Force

T0 = datetime(2030, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
FORCE = Force(
    at_timeout=True,
    sick_after=timedelta(minutes=5),
    healthy={"Ready": "True", "ReadonlyFilesystem": "False"},
    refusals=360,
)
LIMITED = DrainPolicy(2 * HOUR, FORCE)
GENTLE = DrainPolicy()


def pod(name, *, owner="ReplicaSet", mirror=False, claim=False, priority=0, leaving=None, grace=30):
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}"}
    if owner:
        metadata["ownerReferences"] = [{"kind": owner, "name": "o", "uid": "o", "controller": True}]
    if mirror:
        metadata["annotations"] = {"kubernetes.io/config.mirror": "x"}
    if leaving is not None:
        metadata |= {"deletionTimestamp": leaving.isoformat(), "deletionGracePeriodSeconds": grace}
    volumes = (
        [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]
        if claim
        else [{"name": "e", "emptyDir": {}}]
    )
    return POD.from_plain({"metadata": metadata, "spec": {"priority": priority, "volumes": volumes}})


def placeholder(name, **more):
    found = pod(name, priority=-1, **more)
    labelled = structs.replace(found.metadata, labels={PLACEHOLDER_LABEL: "reserve"})
    return structs.replace(found, metadata=labelled)


def drain(*pods, at=timedelta(), policy=LIMITED, force=False, refusals=None, **more):
    forced = replace(policy.force, requested=force, refusals=refusals or policy.force.refusals)
    return plan_pass(pods, replace(policy, force=forced), now=T0 + at, started=T0, **more)


def names(pods):
    return [item.metadata.name for item in pods]


def pods_of(plan: DrainPlan):
    return names(plan.evict), names(plan.delete), names(plan.waiting)


def refused(name, times=1, at=timedelta()):
    return {f"uid-{name}": Try(times, T0 + at)}


FORCE_AT = [
    # of three refusals so many, the last of them at, now, and force is told to begin: seconds after the first one
    pytest.param(1, 0, 0, 60, id="the first try has just been refused"),
    pytest.param(2, 21, 22, 60, id="tries that take a second are told of as if they took none"),
    pytest.param(2, 85, 90, 140, id="a second try of 65 s has delayed the third, and force"),
    pytest.param(2, 85, 160, 180, id="while the third takes long, force is not told to have begun"),
    pytest.param(3, 170, 175, 200, id="after the last refusal the pod only rests"),
]


class TestPlaceholders:
    def test_they_are_deleted_at_once_while_workload_is_evicted(self):
        plan = drain(pod("a"), placeholder("p"))
        assert pods_of(plan) == (["a"], ["p"], [])
        assert plan.because == "pods: 1 to evict, 1 to delete as placeholders"

    def test_they_go_in_any_turn(self):
        ordered = replace(GENTLE, order=lambda each: int(each.metadata.name == "p"))
        assert pods_of(drain(pod("a", leaving=T0), placeholder("p"), policy=ordered)) == ([], ["p"], ["a"])
        last = replace(GENTLE, order=lambda each: int(each.metadata.name == "a"))
        assert pods_of(drain(pod("a"), placeholder("p"), policy=last)) == (["a"], ["p"], [])

    @pytest.mark.parametrize(
        ("stays", "tries"),
        [
            pytest.param(placeholder("p", leaving=T0), {}, id="one that is leaving"),
            pytest.param(placeholder("p"), refused("p"), id="one whose deletion was refused"),
            pytest.param(placeholder("p", leaving=T0 - HOUR), {}, id="one that does not end"),
        ],
    )
    @pytest.mark.parametrize("policy", [LIMITED, GENTLE])
    def test_none_holds_up_a_drain(self, stays, tries, policy):
        plan = drain(stays, policy=policy, tries=tries)
        assert (plan.done, plan.obstacles, plan.because) == (True, "", "no pods are left")
        assert plan.known == {"uid-p"}  # what is known of its refusal is kept

    def test_none_is_told_to_stay_when_the_time_is_up(self):
        late = DrainPolicy(HOUR)
        assert drain(pod("a"), placeholder("p"), at=HOUR, policy=late).because.startswith("1 pods stay ")
        assert pods_of(drain(placeholder("p"), at=HOUR, policy=late)) == ([], ["p"], [])

    def test_they_share_the_bound_of_a_pass(self):
        plan = drain(*(placeholder(f"p{number:03}") for number in range(PODS_PER_PASS + 5)))
        assert (len(plan.delete), plan.more, plan.wake) == (PODS_PER_PASS, True, POLL)

    def test_a_forced_drain_deletes_them_with_all_others(self):
        assert pods_of(drain(pod("a"), placeholder("p"), force=True)) == ([], ["a", "p"], [])
        assert drain(placeholder("p"), force=True, tries=refused("p")).done


class TestAsking:
    def test_an_empty_node_is_done(self):
        assert drain().done

    def test_all_pods_without_claims_at_once(self):
        assert pods_of(drain(pod("a"), pod("b", owner=""))) == (["a", "b"], [], [])

    @pytest.mark.parametrize(
        "stays", [pod("d", owner="DaemonSet"), pod("m", mirror=True)], ids=["daemon", "mirror"]
    )
    def test_left_alone(self, stays):
        assert drain(stays).done
        assert pods_of(drain(stays, pod("a"))) == (["a"], [], [])

    def test_a_leaving_pod_is_awaited_and_not_asked_twice(self):
        plan = drain(pod("a", leaving=T0))
        assert pods_of(plan) == ([], [], ["a"])
        assert not plan.done
        assert plan.wake == POLL

    def test_a_refused_pod_rests_and_is_asked_again(self):
        assert pods_of(drain(pod("a"), tries=refused("a"))) == ([], [], ["a"])
        assert drain(pod("a"), tries=refused("a"), at=timedelta(seconds=5)).wake == EVICTION - timedelta(
            seconds=5
        )
        assert pods_of(drain(pod("a"), tries=refused("a"), at=EVICTION)) == (["a"], [], [])

    def test_after_too_many_refusals_it_is_deleted(self):
        assert pods_of(drain(pod("a"), tries=refused("a", 3), refusals=3, at=EVICTION)) == ([], ["a"], [])

    def test_a_short_timeout_allows_fewer_refusals(self):
        short = replace(LIMITED, timeout=3 * EVICTION)
        assert names(drain(pod("a"), policy=short, at=EVICTION, tries=refused("a", 3)).delete) == ["a"]

    def test_one_pass_has_a_bound(self):
        plan = drain(*(pod(f"p{number:03}") for number in range(PODS_PER_PASS + 5)))
        assert len(plan.evict) == PODS_PER_PASS

    @pytest.mark.parametrize(("count", "more"), [(PODS_PER_PASS, False), (PODS_PER_PASS + 1, True)])
    @pytest.mark.parametrize(
        "under_way", [NO_REQUESTS, Requests(frozenset(f"uid-q{number}" for number in range(PODS_PER_PASS)))]
    )
    def test_the_pods_beyond_the_bound_wait_for_the_end_of_requests_and_not_in_a_loop(
        self, count, more, under_way
    ):
        asked = [pod(uid.removeprefix("uid-")) for uid in under_way.uids]
        plan = drain(*asked, *(pod(f"p{number:03}") for number in range(count)), under_way=under_way)
        assert (plan.more, plan.wake) == (more, POLL)

    def test_deletions_and_evictions_share_the_bound(self):
        pods = [pod(f"p{number:03}") for number in range(PODS_PER_PASS + 5)]
        plan = drain(*pods, at=EVICTION, refusals=3, tries=refused("p000", 3) | refused("p001", 3))
        assert (len(plan.delete), len(plan.evict)) == (2, PODS_PER_PASS - 2)

    def test_all_pods_are_known_though_they_stay_when_the_time_is_up(self):
        plan = drain(pod("a"), pod("b"), at=HOUR, policy=DrainPolicy(HOUR))
        assert (plan.done, plan.known) == (True, {"uid-a", "uid-b"})

    def test_it_looks_again_when_the_time_is_up(self):
        plan = drain(pod("a"), tries=refused("a", at=2 * HOUR - EVICTION / 2), at=2 * HOUR - EVICTION / 2)
        assert plan.wake == EVICTION / 2

    def test_a_pod_that_ends_by_itself_is_awaited_and_never_evicted(self):
        policy = replace(GENTLE, awaits=lambda each: each.metadata.name == "batch")
        plan = drain(pod("a"), pod("batch"), policy=policy)
        assert pods_of(plan) == (["a"], [], ["batch"])
        plan = drain(pod("batch"), policy=policy)
        assert (plan.done, plan.wake, plan.because) == (False, EVICTION, "pods: 1 to complete by themselves")

    def test_pods_of_a_higher_order_wait_until_all_of_the_lower_are_gone(self):
        order = {"a": 0, "b": 0, "c": 1, "d": 2}
        policy = replace(GENTLE, order=lambda each: order[each.metadata.name])
        a, b, c, d = (pod(name) for name in "abcd")
        assert pods_of(drain(d, c, b, a, policy=policy)) == (["b", "a"], [], ["d", "c"])
        plan = drain(pod("a", leaving=T0), c, policy=policy)
        assert (pods_of(plan), plan.wake) == (([], [], ["a", "c"]), POLL)
        assert pods_of(drain(a, c, policy=policy, tries=refused("a"))) == ([], [], ["a", "c"])
        assert pods_of(drain(pod("d", leaving=T0), c, policy=policy)) == (["c"], [], ["d"])
        assert pods_of(drain(d, policy=policy)) == (["d"], [], [])

    def test_it_stays_when_the_time_is_up(self):
        policy = DrainPolicy(HOUR, awaits=lambda _pod: True)
        assert drain(pod("batch"), policy=policy, at=HOUR).done

    def test_it_says_where_it_stands(self):
        pods = [pod("a"), pod("b"), pod("c", leaving=T0), pod("d", leaving=T0 - HOUR)]
        assert drain(*pods, tries=refused("b")).because == (
            "pods: 1 to evict, 1 leaving, "
            "1 leaving later than their grace allows, 1 refused, to be tried again"
        )
        assert drain().because == "no pods are left"


def held(name, why, *, times=1, first=timedelta()):
    return {f"uid-{name}": Try(times, T0, first=T0 + first, why=why)}


SOFT = Obstacle("budget x is exhausted", topic="x")
FIRM = Obstacle("budget y never yields", firm=True, topic="y")


class TestHeld:
    def test_who_holds_whom_is_reported_until_it_leaves(self):
        tries = held("a", SOFT) | held("b", SOFT)
        plan = drain(pod("a"), pod("b"), pod("c"), tries=tries)
        assert plan.obstacles == 'error while evicting pod "default/a", "default/b": budget x is exhausted'
        assert not plan.failed
        assert drain(pod("a"), tries=tries, at=EVICTION).obstacles  # asked again in this pass: not free yet
        assert not drain(pod("a", leaving=T0), pod("c"), tries=tries).obstacles

    def test_what_never_yields_is_a_failure_and_told_first(self):
        plan = drain(pod("a"), pod("b"), tries=held("a", SOFT) | held("b", FIRM))
        assert plan.failed
        assert plan.obstacles.startswith('error while evicting pod "default/b": budget y never yields; ')
        assert plan.topics == {"x", "y"}

    def test_a_pod_that_does_not_end_is_a_failure(self):
        plan = drain(pod("a", leaving=T0), at=timedelta(seconds=31))
        assert plan.failed
        assert plan.obstacles == (
            'timeout expired while waiting for pod "default/a" terminating scheduled on node '
        )
        in_time = drain(pod("a", leaving=T0), at=timedelta(seconds=30))
        assert (in_time.failed, in_time.because) == (False, "pods: 1 leaving")

    def test_force_begins_with_the_drains_timeout(self):
        assert drain(pod("a"), tries=held("a", SOFT)).force_at == T0 + 2 * HOUR

    def test_also_if_refusals_never_lead_to_force(self):
        policy = DrainPolicy(2 * HOUR, Force(at_timeout=True))
        assert drain(pod("a"), policy=policy, tries=held("a", SOFT)).force_at == T0 + 2 * HOUR

    def test_also_if_refusals_would_lead_to_it_later(self):
        policy = DrainPolicy(HOUR, Force(at_timeout=True, refusals=9))
        tries = held("a", SOFT, first=HOUR - timedelta(minutes=1))
        assert drain(pod("a"), policy=policy, tries=tries).force_at == T0 + HOUR

    def test_or_when_the_first_pod_has_refused_too_often(self):
        tries = held("a", SOFT, times=2, first=HOUR) | held("b", SOFT, first=timedelta(minutes=1))
        assert drain(pod("a"), pod("b"), tries=tries, refusals=3).force_at == T0 + timedelta(minutes=2)

    @pytest.mark.parametrize(("failed", "last", "at", "told"), FORCE_AT)
    def test_the_time_of_force_follows_evictions_that_take_longer_than_their_pause(
        self, failed, last, at, told
    ):
        seconds = timedelta(seconds=1)
        tries = {"uid-a": Try(failed, T0 + last * seconds, first=T0, why=SOFT)}
        plan = drain(pod("a"), tries=tries, refusals=3, at=at * seconds)
        assert (plan.force_at - T0).total_seconds() == told

    def test_a_time_too_short_for_a_second_try_is_the_time_of_force(self):
        short = replace(LIMITED, timeout=EVICTION / 2)
        plan = drain(pod("a"), policy=short, tries=held("a", SOFT), at=timedelta(seconds=1))
        assert plan.force_at == T0 + EVICTION / 2

    def test_a_sick_node_brings_the_time_of_force_forward(self):
        sick = [condition("Ready", "Unknown", timedelta(minutes=2))]
        plan = drain(pod("a"), tries=held("a", SOFT), conditions=sick, at=timedelta(minutes=1))
        assert plan.force_at == T0 + timedelta(minutes=3)
        well = [condition("Ready", "True", timedelta(minutes=2))]
        assert drain(pod("a"), tries=held("a", SOFT), conditions=well).force_at == T0 + 2 * HOUR

    def test_without_obstacles_there_is_nothing_to_tell(self):
        plan = drain(pod("a"), pod("b", leaving=T0))
        assert (plan.obstacles, plan.force_at, plan.topics) == ("", None, frozenset())

    def test_a_forced_pod_is_held_by_no_budget(self):
        assert not drain(pod("a"), tries=held("a", FIRM), force=True).obstacles


class TestClaims:
    def test_one_after_another_by_priority(self):
        pods = [pod("low", claim=True), pod("high", claim=True, priority=9), pod("free")]
        assert pods_of(drain(*pods)) == (["free", "high"], [], ["low"])

    def test_the_next_waits_for_the_one_that_leaves(self):
        assert pods_of(drain(pod("a", claim=True, leaving=T0), pod("b", claim=True, priority=9))) == (
            [],
            [],
            ["a", "b"],
        )

    def test_a_refused_one_lets_the_next_go_first(self):
        assert pods_of(drain(pod("a", claim=True, priority=9), pod("b", claim=True), tries=refused("a"))) == (
            ["b"],
            [],
            ["a"],
        )

    def test_the_next_waits_for_the_one_that_is_deleted(self):
        pods = [pod("a", claim=True, priority=9), pod("b", claim=True)]
        plan = drain(*pods, at=EVICTION, tries=refused("a", 3), refusals=3)
        assert pods_of(plan) == ([], ["a"], ["b"])

    def test_a_pod_without_claims_that_is_deleted_holds_up_none_with_claims(self):
        pods = [pod("free"), pod("a", claim=True, priority=9), pod("b", claim=True)]
        tries = refused("free", 3, at=-EVICTION) | refused("a")
        assert pods_of(drain(*pods, tries=tries, refusals=3)) == (["b"], ["free"], ["a"])


def condition(kind, status, since):
    return NodeCondition(type=kind, status=status, last_transition_time=T0 - since)


FORCED = [
    ("a user asks", {"force": True}, "a user asked to force it"),
    ("the time is up", {"at": 2 * HOUR + timedelta(seconds=1)}, "the drain took longer than 2h0m0s"),
    ("the kubelet is silent", {"conditions": [condition("Ready", "Unknown", timedelta(minutes=6))]},
     "Ready of the node has been Unknown for more than 5m0s"),
    ("the disk is read-only", {"conditions": [condition("ReadonlyFilesystem", "True", timedelta(minutes=6))]},
     "ReadonlyFilesystem of the node has been True for more than 5m0s"),
]  # fmt: skip


class TestForce:
    @pytest.mark.parametrize(("how", "because"), [c[1:] for c in FORCED], ids=[c[0] for c in FORCED])
    def test_everything_goes_at_once(self, how, because):
        pods = [pod("a", claim=True), pod("b"), pod("c", leaving=T0), pod("d", owner="DaemonSet")]
        plan = drain(*pods, **how)
        assert pods_of(plan) == ([], ["a", "b", "c"], [])
        assert plan.forced
        assert plan.because == f"3 pods are removed, because {because}"

    @pytest.mark.parametrize(
        "conditions",
        [(), [condition("Ready", "Unknown", timedelta(minutes=5))], [condition("Ready", "True", HOUR)],
         [condition("ReadonlyFilesystem", "False", HOUR)],
         [condition("ReadonlyFilesystem", "True", timedelta(minutes=5))], [condition("DiskPressure", "True", HOUR)]],
        ids=["none", "silent for 5 minutes", "ready", "writable", "read-only for 5 minutes", "another condition"],
    )  # fmt: skip
    def test_not_forced_by(self, conditions):
        assert not drain(pod("a"), conditions=conditions).forced

    @pytest.mark.parametrize(("count", "more"), [(PODS_PER_PASS, False), (PODS_PER_PASS + 1, True)])
    def test_the_pods_beyond_the_bound_of_a_forced_drain_wait_as_well(self, count, more):
        plan = drain(*(pod(f"p{number:03}") for number in range(count)), force=True)
        assert (len(plan.delete), plan.more, plan.wake) == (PODS_PER_PASS, more, SOON)

    def test_a_pod_that_only_a_finalizer_keeps_delays_no_other(self):
        assert drain(pod("a", leaving=T0, grace=0), force=True).done

    def test_a_deletion_that_was_refused_delays_no_other_either(self):
        plan = drain(pod("a"), force=True, tries={"uid-a": Try(1, T0, forced=1, refused=True)})
        assert plan.done
        assert plan.because.endswith("; 1 pods stay, since the server does not delete them")

    def test_a_deletion_that_failed_is_tried_again_after_a_pause_and_given_up_at_last(self):
        def after(failed, seconds):
            tries = {"uid-a": Try(failed, T0, forced=failed)}
            return drain(pod("a"), pod("b"), force=True, tries=tries, at=timedelta(seconds=seconds))

        assert pods_of(after(1, 4)) == ([], ["b"], ["a"])
        assert pods_of(after(FORCED_TRIES - 1, 5)) == ([], ["a", "b"], [])
        assert pods_of(after(FORCED_TRIES, 5)) == ([], ["b"], [])

    def test_refused_evictions_do_not_count_as_failed_deletions(self):
        assert names(drain(pod("a"), force=True, tries=refused("a", 9)).delete) == ["a"]


def kept(item):
    return item.metadata.labels.get("drain") == "skip"


A, B, HELD_UP = pod("a"), pod("b"), {"uid-a": Try(9, T0, first=T0, why=SOFT)}
C1, C2 = pod("c1", claim=True), pod("c2", claim=True)
LABELLED = POD.from_plain(
    {"metadata": {"name": "s", "namespace": "default", "uid": "uid-s", "labels": {"drain": "skip"}}}
)
SILENT = (condition("Ready", "Unknown", HOUR),)
WEEK = timedelta(days=7)
POLICIES = [
    ("without a limit it asks again after a week, and only then looks when a pod may have left",
     GENTLE, {"pods": [A], "at": WEEK},
     DrainPlan(evict=(A,), wake=POLL, because="pods: 1 to evict")),
    ("without a limit a pod that is refused is never deleted, and no time is told for force",
     GENTLE, {"pods": [A], "at": WEEK, "tries": HELD_UP},
     DrainPlan(evict=(A,), wake=POLL, because="pods: 1 to evict", held=(Held(SOFT, ("default/a",)),))),
    ("without a limit a pod that rests is what the next pass waits for",
     GENTLE, {"pods": [A], "at": timedelta(seconds=5), "tries": HELD_UP},
     DrainPlan(waiting=(A,), wake=EVICTION - timedelta(seconds=5), because="pods: 1 refused, to be tried again",
               held=(Held(SOFT, ("default/a",)),))),
    ("without a limit and without pods it is over at once",
     GENTLE, {"pods": []}, DrainPlan(done=True, because="no pods are left")),
    ("a node that is silent forces nothing unless the policy says so",
     GENTLE, {"pods": [A], "conditions": SILENT},
     DrainPlan(evict=(A,), wake=POLL, because="pods: 1 to evict")),
    ("refusals end in a deletion without a limit of time, too, if the policy says so",
     DrainPolicy(force=Force(refusals=9)), {"pods": [A], "at": WEEK, "tries": HELD_UP},
     DrainPlan(delete=(A,), wake=POLL, because="pods: 1 to delete after too many refusals")),
    ("force at the first refusals is told beforehand",
     DrainPolicy(force=Force(refusals=10)), {"pods": [A], "at": EVICTION, "tries": HELD_UP},
     DrainPlan(evict=(A,), wake=POLL, because="pods: 1 to evict", held=(Held(SOFT, ("default/a",)),),
               force_at=T0 + 10 * EVICTION)),
    ("a limit without force: until it is over, pods are asked",
     DrainPolicy(HOUR), {"pods": [A], "at": HOUR - timedelta(seconds=1), "tries": HELD_UP},
     DrainPlan(evict=(A,), wake=timedelta(seconds=1), because="pods: 1 to evict",
               held=(Held(SOFT, ("default/a",)),))),
    ("a limit without force: once it is over, what is left stays",
     DrainPolicy(HOUR), {"pods": [A, B], "at": HOUR, "tries": HELD_UP},
     DrainPlan(done=True, because="2 pods stay until their node goes, because the drain took longer than 1h0m0s")),
    ("a limit without force: an empty node is just empty",
     DrainPolicy(HOUR), {"pods": [], "at": HOUR}, DrainPlan(done=True, because="no pods are left")),
    ("a user's request forces whatever the limit is",
     DrainPolicy(force=Force(requested=True)), {"pods": [A, B]},
     DrainPlan(delete=(A, B), forced=True, wake=SOON,
               because="2 pods are removed, because a user asked to force it")),
    ("force of a sick node alone",
     DrainPolicy(force=Force(sick_after=HOUR / 2, healthy={"Ready": "True"})),
     {"pods": [A], "conditions": SILENT},
     DrainPlan(delete=(A,), forced=True, wake=SOON,
               because="1 pods are removed, because Ready of the node has been Unknown for more than 30m0s")),
    ("force of a sick node looks at the conditions that the policy names",
     DrainPolicy(force=Force(sick_after=HOUR / 2, healthy={"DiskPressure": "False"})),
     {"pods": [A], "conditions": SILENT}, DrainPlan(evict=(A,), wake=POLL, because="pods: 1 to evict")),
    ("pods that the predicate skips are neither evicted nor awaited",
     DrainPolicy(skips=kept), {"pods": [A, LABELLED]},
     DrainPlan(evict=(A,), wake=POLL, because="pods: 1 to evict")),
    ("the predicate replaces the default: a pod of a DaemonSet leaves, too",
     DrainPolicy(skips=kept), {"pods": [pod("d", owner="DaemonSet")]},
     DrainPlan(evict=(pod("d", owner="DaemonSet"),), wake=POLL, because="pods: 1 to evict")),
    ("a node with nothing but skipped pods is drained",
     DrainPolicy(skips=kept), {"pods": [LABELLED]}, DrainPlan(done=True, because="no pods are left")),
    ("force spares what is skipped",
     DrainPolicy(force=Force(requested=True), skips=kept), {"pods": [LABELLED]},
     DrainPlan(done=True, forced=True,
               because="no pod is waited for, because a user asked to force it")),
    ("pods with claims one by one",
     GENTLE, {"pods": [C1, C2]},
     DrainPlan(evict=(C1,), waiting=(C2,), wake=POLL,
               because="pods: 1 to evict, 1 queued behind others with volumes")),
    ("or all at once",
     DrainPolicy(one_by_one=False), {"pods": [C1, C2]},
     DrainPlan(evict=(C1, C2), wake=POLL, because="pods: 2 to evict")),
]  # fmt: skip


@pytest.mark.parametrize(("policy", "seen", "plan"), [c[1:] for c in POLICIES], ids=[c[0] for c in POLICIES])
def test_a_policy_decides(policy, seen, plan):
    pods, at = seen["pods"], seen.get("at", timedelta())
    more = {key: value for key, value in seen.items() if key not in ("pods", "at")}
    assert plan_pass(pods, policy, now=T0 + at, started=T0, **more) == plan


DETACHED = [
    ("no limit", None, HOUR, None),
    ("some time is left", HOUR, HOUR / 4, HOUR * 3 / 4),
    ("its time is just over", HOUR, HOUR, timedelta()),
    ("volumes are not awaited at all", timedelta(), timedelta(), timedelta()),
]


@pytest.mark.parametrize(("limit", "since", "left"), [c[1:] for c in DETACHED], ids=[c[0] for c in DETACHED])
def test_how_long_volumes_are_awaited(limit, since, left):
    assert DrainPolicy(detach_timeout=limit).until_detached(T0, T0 + since) == left


PODS = st.lists(
    st.builds(
        pod,
        st.text("abcdef", min_size=1, max_size=3),
        owner=st.sampled_from(["", "ReplicaSet", "DaemonSet"]),
        mirror=st.booleans(),
        claim=st.booleans(),
        priority=st.integers(-2, 2),
        leaving=st.sampled_from([None, T0, T0 - HOUR]),
        grace=st.sampled_from([0, 30]),
    ),
    max_size=12,
    unique_by=lambda item: item.metadata.name,
)
TRIES = st.dictionaries(
    st.text("abcdef", min_size=1, max_size=3).map(lambda name: f"uid-{name}"),
    st.builds(Try, st.integers(1, 5), st.sampled_from([T0, T0 - HOUR]), st.booleans()),
)


@given(PODS, TRIES, st.booleans())
def test_every_pod_is_in_one_place_and_an_unfinished_plan_has_something_to_do(pods, tries, force):
    plan = drain(*pods, tries=tries, force=force, refusals=3)
    placed = names((*plan.evict, *plan.delete, *plan.waiting))
    assert len(placed) == len(set(placed))
    protected = {
        item.metadata.name
        for item in pods
        if item.metadata.annotations
        or (item.metadata.controller and item.metadata.controller.kind == "DaemonSet")
    }
    assert not protected & set(placed)
    assert plan.done == (not placed)
    assert timedelta() <= plan.wake <= 2 * HOUR
    if not force:
        assert set(placed) == set(names(pods)) - protected
        claims = [
            item for item in (*plan.evict, *plan.delete) if item.spec.volumes[0].persistent_volume_claim
        ]
        assert len(claims) <= 1


@given(PODS, st.booleans())
def test_a_drain_whose_requests_succeed_ends(pods, force):
    left = list(pods)
    for _ in range(len(pods) + 2):
        plan = drain(*left, force=force)
        if plan.done:
            return
        going = set(names((*plan.evict, *plan.delete))) | {
            item.metadata.name for item in plan.waiting if item.metadata.deleting
        }
        left = [item for item in left if item.metadata.name not in going]
    pytest.fail("the drain did not end")
