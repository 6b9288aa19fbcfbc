"""What comes next for a reserve, what its status says, and what stands in the cluster of its nodes."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec import structs
from tests.unit.reserves.test_reserve_sizes import a_node

from kubewright.api.apps import DEPLOYMENT, Deployment
from kubewright.api.capacity.v1alpha1 import (
    CAPACITY_RESERVE,
    FINALIZER,
    OWNER_LABEL,
    PLACEHOLDER_LABEL,
    SAFE_TO_EVICT,
    CapacityReserve,
    CapacityReserveStatus,
)
from kubewright.api.conditions import condition_of
from kubewright.kube.patches import onto
from kubewright.reserves import placeholders
from kubewright.reserves.decide import decide, events, status_of
from kubewright.reserves.seen import (
    AddFinalizer,
    ChangePlaceholders,
    CreateClass,
    CreatePlaceholders,
    DeleteClass,
    DeletePlaceholders,
    RemoveFinalizer,
    Seen,
)
from kubewright.reserves.sizing import WINDOW, pool_of
from kubewright.wire.gvk import Key
from kubewright.wire.patch import apply_merge

T0 = datetime(2030, 1, 1, tzinfo=UTC)
KEY = Key("n", "spare")
NAME = placeholders.name_of(KEY)
CLASS = placeholders.class_name(KEY, -1)
SPEC: dict[str, Any] = {"unit": {"cpu": "500m"}, "replicas": 4}
HELD = {"finalizers": [FINALIZER]}


def a_reserve(spec=SPEC, status=None, **meta) -> CapacityReserve:
    metadata = {"name": "spare", "namespace": "n", "uid": "u", "generation": 1, **HELD, **meta}
    return CAPACITY_RESERVE.from_plain({"metadata": metadata, "spec": spec, "status": status or {}})


def there(reserve: CapacityReserve, replicas: int, *, ready: int = 0, uid: str = "u") -> Deployment:
    """The Deployment of a reserve as a server has completed it."""
    body: dict[str, Any] = placeholders.deployment(reserve, replicas, "pause")
    body["metadata"] |= {"uid": "d", "resourceVersion": "7", "labels": {OWNER_LABEL: uid}}
    pod = body["spec"]["template"]["spec"]
    pod |= {"restartPolicy": "Always", "dnsPolicy": "ClusterFirst", "schedulerName": "default-scheduler"}
    pod["containers"][0] |= {"terminationMessagePath": "/dev/termination-log"}
    for empty in ("nodeSelector", "tolerations"):
        if not pod[empty]:
            del pod[empty]
    return DEPLOYMENT.from_plain({**body, "status": {"readyReplicas": ready, "updatedReplicas": replicas}})


def seen(reserve: CapacityReserve, **members: Any) -> Seen:
    given = {"pool": pool_of(reserve.spec, [a_node()]), "image": "pause", "now": T0, **members}
    return Seen(reserve, **given)


def settled(
    reserve: CapacityReserve | None = None, replicas: int = 4, *, ready: int = 4, **more: Any
) -> Seen:
    """A reserve whose objects are there."""
    reserve = reserve or a_reserve(status={"observedGeneration": 1, "replicas": replicas})
    found = there(reserve, replicas, ready=ready)
    return seen(reserve, found=found, classes={CLASS: "c"}, **more)


def steps(of: Seen) -> list[object]:
    return list(decide(of).steps)


class TestSteps:
    def test_the_finalizer_comes_before_all_else(self):
        plan = decide(seen(a_reserve(finalizers=[])))
        assert (plan.steps, plan.last, plan.silent) == ((AddFinalizer(),), True, True)

    def test_the_class_comes_before_the_pods_that_name_it(self):
        assert steps(seen(a_reserve())) == [
            CreateClass(placeholders.priority_class(a_reserve())),
            CreatePlaceholders(placeholders.deployment(a_reserve(), 4, "pause")),
        ]

    def test_nothing_is_written_where_all_is_as_it_should_be(self):
        plan = decide(settled())
        assert (plan.steps, plan.wake, plan.because) == ((), None, "4 placeholders: spec.replicas is 4")

    def test_another_number_is_written_onto_the_version_that_was_seen(self):
        of = settled(a_reserve(SPEC | {"replicas": 6}, {"observedGeneration": 1, "replicas": 4}))
        (step,) = steps(of)
        assert isinstance(step, ChangePlaceholders)
        assert onto(step.patch, step.meta) == {
            "metadata": {"uid": "d", "resourceVersion": "7"},
            "spec": {"replicas": 6},
        }

    def test_another_priority_is_another_class_and_the_old_one_goes_when_no_template_names_it(self):
        of, new = a_reserve(SPEC | {"priority": -5}), placeholders.class_name(KEY, -5)
        found = there(a_reserve(), 4)
        create, change = steps(seen(of, found=found, classes={CLASS: "c"}))
        assert create == CreateClass(placeholders.priority_class(of))
        assert change.patch == {"spec": {"template": {"spec": {"priorityClassName": new}}}}
        after = seen(of, found=there(of, 4), classes={CLASS: "c", new: "e"})
        assert steps(after) == [DeleteClass(CLASS, "c")]

    def test_less_is_wanted_only_after_a_while(self):
        status = {"observedGeneration": 1, "replicas": 4}
        half = {"unit": {"cpu": "500m"}, "percent": {"cpu": 25}}  # two of the one node
        plan = decide(settled(a_reserve(half, status)))
        assert (plan.steps, plan.wake) == ((), WINDOW)
        assert (
            plan.because == "4 placeholders: 25 % of cpu of 1 nodes; 2 would be enough, but not for long yet"
        )
        status |= {"lowerTo": 2, "lowerSince": (T0 - WINDOW).isoformat()}
        (step,) = steps(settled(a_reserve(half, status)))
        assert step.patch == {"spec": {"replicas": 2}}

    @pytest.mark.parametrize(
        ("of", "because"),
        [
            pytest.param(
                replace(settled(), problem="spec.unit: no"), "its spec is not valid: spec.unit: no", id="invalid"
            ),
            pytest.param(
                seen(a_reserve(), found=there(a_reserve(), 1, uid="x")),
                f"Deployment kube-system/{NAME} belongs to another reserve",
                id="a Deployment of another",
            ),
            pytest.param(
                seen(a_reserve(), taken=True), f"PriorityClass {CLASS} belongs to another reserve",
                id="a class of another",
            ),
        ],
    )  # fmt: skip
    def test_what_it_leaves_as_it_is(self, of, because):
        plan = decide(of)
        assert (plan.steps, plan.because, len(plan.awaits)) == ((), because, 1)

    def test_a_deletion_takes_all_of_it_along_and_the_finalizer_last(self):
        ends = a_reserve(deletionTimestamp=T0.isoformat())
        found = there(ends, 4)
        assert steps(seen(ends, found=found, classes={CLASS: "c"})) == [
            DeletePlaceholders(found.metadata),
            DeleteClass(CLASS, "c"),
        ]
        leaving = structs.replace(found, metadata=structs.replace(found.metadata, deletion_timestamp=T0))
        assert steps(seen(ends, found=leaving)) == []
        assert steps(seen(ends)) == [RemoveFinalizer()]
        assert steps(seen(ends, found=there(ends, 4, uid="x"))) == [RemoveFinalizer()]
        assert steps(seen(a_reserve(deletionTimestamp=T0.isoformat(), finalizers=["other"]))) == []


class TestPlaceholders:
    def test_a_placeholder_gives_way_and_can_do_nothing(self):
        template = placeholders.deployment(a_reserve(), 4, "pause")["spec"]["template"]
        pod, (container,) = template["spec"], template["spec"]["containers"]
        assert template["metadata"]["annotations"][SAFE_TO_EVICT] == "true"
        assert template["metadata"]["labels"] == {PLACEHOLDER_LABEL: NAME}
        assert (pod["terminationGracePeriodSeconds"], pod["automountServiceAccountToken"]) == (1, False)
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        assert container["resources"] == {"requests": {"cpu": "500m"}}

    def test_its_class_preempts_nothing_and_is_no_default(self):
        found = placeholders.priority_class(a_reserve())
        assert (found["value"], found["preemptionPolicy"], found["globalDefault"]) == (-1, "Never", False)

    def test_what_cannot_be_overcommitted_has_a_limit(self):
        of = a_reserve(SPEC | {"unit": {"cpu": 1, "example.com/gpu": 2, "hugepages-2Mi": "4Mi"}})
        pod = placeholders.deployment(of, 1, "pause")["spec"]["template"]["spec"]
        assert pod["containers"][0]["resources"] == {
            "requests": {"cpu": "1", "example.com/gpu": "2", "hugepages-2Mi": "4Mi"},
            "limits": {"example.com/gpu": "2", "hugepages-2Mi": "4Mi"},
        }

    @pytest.mark.parametrize(
        ("spread", "otherwise"),
        [("Prefer", ["ScheduleAnyway"]), ("Require", ["DoNotSchedule"]), ("None", [])],
    )
    def test_they_are_spread_over_zones(self, spread, otherwise):
        of = a_reserve(SPEC | {"zoneSpread": spread})
        found = placeholders.deployment(of, 1, "pause")["spec"]["template"]["spec"][
            "topologySpreadConstraints"
        ]
        assert [each["whenUnsatisfiable"] for each in found] == otherwise
        assert {each["topologyKey"] for each in found} <= {"topology.kubernetes.io/zone"}

    def test_names_differ_where_reserves_do(self):
        keys = [Key("a-b", "c"), Key("a", "b-c"), Key("a", "b.c"), Key("a", "x" * 200), Key("a", "x" * 201)]
        names = {placeholders.name_of(key) for key in keys}
        assert len(names) == len(keys)
        assert all(len(name) <= 63 and "." not in name for name in names)

    @pytest.mark.parametrize(
        ("before", "after"),
        [
            pytest.param(
                {"nodeSelector": {"a": "1", "b": "2"}}, {"nodeSelector": {"a": "3"}}, id="a label less"
            ),
            pytest.param({"nodeSelector": {"a": "1"}}, {}, id="no label any more"),
            pytest.param({"tolerations": [{"operator": "Exists"}]}, {}, id="no toleration any more"),
            pytest.param({}, {"tolerations": [{"key": "a", "value": "b"}]}, id="a toleration"),
            pytest.param({}, {"zoneSpread": "None"}, id="no spread"),
            pytest.param({}, {"unit": {"memory": "1Gi"}}, id="another unit"),
            pytest.param({}, {"priority": -3}, id="another priority"),
        ],
    )
    def test_a_change_makes_of_what_is_there_what_is_wanted(self, before, after):
        old, new = a_reserve(SPEC | before), a_reserve(SPEC | after)
        found = there(old, 4)
        patch = placeholders.changes(found, placeholders.deployment(new, 4, "pause"))
        patched = DEPLOYMENT.from_plain(apply_merge(DEPLOYMENT.to_plain(found), patch))
        assert patch
        assert placeholders.changes(patched, placeholders.deployment(new, 4, "pause")) == {}

    @pytest.mark.parametrize(
        ("unit", "found", "same"),
        [
            pytest.param({"cpu": "1000m"}, {"cpu": "1"}, True, id="as a server writes it"),
            pytest.param({"memory": "1024Mi"}, {"memory": "1Gi"}, True, id="powers of 1024"),
            pytest.param({"cpu": "1"}, {"cpu": "2"}, False, id="another amount"),
            pytest.param({"cpu": "1"}, {"cpu": "1", "memory": "1Gi"}, False, id="something more"),
        ],
    )
    def test_quantities_are_compared_by_their_amount(self, unit, found, same):
        of = a_reserve(SPEC | {"unit": unit})
        patch = placeholders.changes(
            there(a_reserve(SPEC | {"unit": found}), 4), placeholders.deployment(of, 4, "pause")
        )
        assert (patch == {}) is same

    @pytest.mark.parametrize(
        "edit",
        [
            pytest.param({"paused": True}, id="a pause"),
            pytest.param({"strategy": {"type": "Recreate", "rollingUpdate": None}}, id="another strategy"),
            pytest.param({"strategy": {"rollingUpdate": {"maxSurge": 1}}}, id="a surge"),
        ],
    )
    def test_what_a_user_edits_of_the_rollout_is_mended(self, edit):
        wanted = placeholders.deployment(a_reserve(), 4, "pause")
        plain = apply_merge(DEPLOYMENT.to_plain(there(a_reserve(), 4)), {"spec": edit})
        patch = placeholders.changes(DEPLOYMENT.from_plain(plain), wanted)
        assert patch
        assert placeholders.changes(DEPLOYMENT.from_plain(apply_merge(plain, patch)), wanted) == {}

    def test_what_a_user_edits_is_mended_and_what_we_do_not_set_is_left(self):
        found, of = there(a_reserve(), 4), a_reserve()
        edited = {**found.spec.template.spec, "terminationGracePeriodSeconds": 600, "hostname": "h"}
        template = structs.replace(found.spec.template, spec=edited)
        found = structs.replace(found, spec=structs.replace(found.spec, template=template))
        patch = placeholders.changes(found, placeholders.deployment(of, 4, "pause"))
        assert patch == {"spec": {"template": {"spec": {"terminationGracePeriodSeconds": 1}}}}


def said(of: Seen, kind: str) -> tuple[str, str, str] | None:
    found = condition_of(status_of(of, decide(of)).conditions, kind)
    return (found.status, found.reason, found.message) if found is not None else None


class TestStatus:
    def test_it_tells_what_is_free(self):
        status = status_of(of := settled(ready=3), decide(of))
        assert (status.replicas, status.ready_replicas, status.pending_replicas, status.nodes) == (4, 3, 1, 1)
        assert status.free == {"cpu": "1500m"}
        assert status.observed_generation == 1

    def test_those_of_another_template_hold_no_unit_of_this_one(self):
        larger = a_reserve(SPEC | {"unit": {"cpu": "1"}}, {"readyReplicas": 4}, generation=2)
        of = seen(larger, found=there(a_reserve(), 4, ready=4), classes={CLASS: "c"})
        status = status_of(of, decide(of))
        assert (status.ready_replicas, status.pending_replicas, status.free) == (0, 4, {"cpu": "0"})
        refused = replace(of, refused="no right")  # so they are what they were
        status = status_of(refused, decide(refused))
        assert (status.ready_replicas, status.free) == (4, {"cpu": "2"})
        half = structs.replace(of.found, status=structs.replace(of.found.status, updated_replicas=1))
        of = replace(settled(), found=half)
        assert status_of(of, decide(of)).ready_replicas == 1

    def test_what_a_deployment_says_of_an_older_spec_changes_nothing_yet(self):
        of = settled(a_reserve(status={"observedGeneration": 1, "replicas": 4, "readyReplicas": 3}))
        meta = structs.replace(of.found.metadata, generation=2)
        of = replace(of, found=structs.replace(of.found, metadata=meta))
        assert status_of(of, decide(of)).ready_replicas == 3

    def test_why_their_pods_are_refused_is_told(self):
        of = settled(ready=1)
        failure = {"type": "ReplicaFailure", "status": "True", "message": "exceeded quota"}
        plain = DEPLOYMENT.to_plain(of.found)
        plain["status"]["conditions"] = [failure]
        assert said(replace(of, found=DEPLOYMENT.from_plain(plain)), "Ready") == (
            "False",
            "Refused",
            "3 of 4 placeholders do not run: their pods cannot be created: exceeded quota",
        )

    def test_a_share_of_no_nodes_is_not_ready(self):
        share = a_reserve({"unit": {"cpu": "500m"}, "percent": {"cpu": 25}})
        of = settled(share, 0, ready=0, pool=pool_of(share.spec, []))
        found = said(of, "Ready")
        assert found is not None
        assert found[:2] == ("False", "NoNodes")
        none = settled(a_reserve(SPEC | {"replicas": 0}), 0, ready=0, pool=pool_of(share.spec, []))
        assert said(none, "Ready") == ("True", "Reserved", "0 placeholders hold room; the pool has 0 nodes")

    def test_more_ready_ones_than_wanted_do_not_count(self):
        status = status_of(of := settled(ready=9), decide(of))
        assert (status.ready_replicas, status.pending_replicas) == (4, 0)

    @pytest.mark.parametrize(
        ("of", "ready"),
        [
            pytest.param(
                settled(), ("True", "Reserved", "4 placeholders hold room; the pool has 1 nodes"), id="all hold room"
            ),
            pytest.param(
                settled(ready=1),
                ("False", "PlaceholdersPending", "3 of 4 placeholders do not run: a workload has their room "
                 "until nodes are added or pods end, or they have not started yet"),
                id="a workload has some of it",
            ),
            pytest.param(
                replace(settled(ready=0), pool=pool_of(a_reserve().spec, [])),
                ("False", "NoNodes", "4 of 4 placeholders do not run: no Ready node has the labels of "
                 "spec.nodeSelector, and no taint beside those tolerated"),
                id="an empty pool",
            ),
            pytest.param(
                settled(a_reserve({"unit": {"cpu": "5"}, "replicas": 4}), ready=0),
                ("False", "UnitFitsNoNode", "4 of 4 placeholders do not run: no node of the pool is large "
                 "enough for spec.unit, even if it is empty (cpu: at most 4)"),
                id="a unit that is larger than a node",
            ),
            pytest.param(
                settled(a_reserve({"unit": {"cpu": "2", "memory": "5Gi"}, "replicas": 4}), ready=2),
                ("False", "LargerThanPool", "2 of 4 placeholders do not run: all 1 nodes of the pool together "
                 "offer less cpu and memory than that"),
                id="a reserve that is larger than its pool",
            ),
        ],
    )  # fmt: skip
    def test_whether_it_is_ready_and_why_not(self, of, ready):
        assert said(of, "Ready") == ready
        assert said(of, "Stalled") is None

    @pytest.mark.parametrize(
        ("of", "reason", "message"),
        [
            pytest.param(replace(settled(), problem="spec: no"), "InvalidSpec", "spec: no", id="invalid"),
            pytest.param(
                seen(a_reserve(), taken=True), "NameTaken",
                f"PriorityClass {CLASS} belongs to another reserve; delete it, or name this one otherwise",
                id="a name that is taken",
            ),
            pytest.param(replace(settled(), refused="no right"), "Refused", "no right", id="a refused write"),
        ],
    )  # fmt: skip
    def test_what_a_user_has_to_mend_is_said_as_kstatus_reads_it(self, of, reason, message):
        assert said(of, "Stalled") == ("True", reason, message)
        assert said(of, "Ready") == ("False", reason, message)

    def test_a_bound_is_told(self):
        of = settled(a_reserve(SPEC | {"limits": {"cpu": "1"}}), 2, ready=2)
        assert said(of, "Limited") == (
            "True",
            "Limits",
            "4 placeholders are asked for: spec.replicas is 4; spec.limits allows 2",
        )
        assert said(settled(), "Limited") is None

    def test_a_mended_reserve_is_stalled_no_more(self):
        stalled = status_of(of := replace(settled(), problem="x"), decide(of))
        of = settled(structs.replace(a_reserve(), status=stalled))
        assert said(of, "Stalled") is None

    def test_the_number_that_waits_to_be_lower_is_on_record(self):
        half = {"unit": {"cpu": "500m"}, "percent": {"cpu": 25}}
        of = settled(
            a_reserve(half, {"observedGeneration": 1, "replicas": 4}), now=T0 + timedelta(seconds=1.5)
        )
        status = status_of(of, decide(of))
        assert (status.replicas, status.lower_to, status.lower_since) == (4, 2, T0 + timedelta(seconds=1))

    def test_equal_views_give_equal_statuses(self):
        status = status_of(of := settled(), decide(of))
        again = settled(structs.replace(a_reserve(), status=status), now=T0 + timedelta(hours=1))
        assert status_of(again, decide(again)) == status


NEW = seen(a_reserve())


class TestEvents:
    def before_and_after(self, first: Seen, second: Seen) -> list[tuple[str, bool]]:
        before = status_of(first, decide(first)) if first is not second else CapacityReserveStatus()
        second = replace(second, reserve=structs.replace(second.reserve, status=before))
        found = events(before, status_of(second, decide(second)))
        return [(each.reason, each.warning) for each in found]

    @pytest.mark.parametrize(
        ("first", "second", "told"),
        [
            pytest.param(settled(), settled(), [], id="nothing is new"),
            pytest.param(settled(ready=1), settled(), [("Reserved", False)], id="room again"),
            pytest.param(settled(), settled(ready=3), [("PlaceholdersPending", False)], id="room is used"),
            pytest.param(settled(ready=3), settled(ready=1), [], id="more of it is used"),
            pytest.param(NEW, NEW, [("Resized", False)], id="new ones"),
            pytest.param(
                settled(), settled(a_reserve(SPEC | {"replicas": 6}, generation=2)), [("Resized", False)],
                id="more are wanted",
            ),
            pytest.param(settled(), replace(settled(), problem="x"), [("InvalidSpec", True)], id="a mistake"),
            pytest.param(
                settled(), settled(a_reserve(SPEC | {"limits": {"cpu": "1"}}, generation=2), 2, ready=2),
                [("Resized", False), ("Limits", True)], id="a limit",
            ),
        ],
    )  # fmt: skip
    def test_users_are_told_what_is_new(self, first, second, told):
        assert self.before_and_after(first, second) == told
