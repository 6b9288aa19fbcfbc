"""Deployments and ReplicaSets: the same tests judge our controllers and a real kube-controller-manager."""

import re
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

from kubewright.testing.api import Object
from kubewright.testing.workloads import (
    HASH,
    NOWHERE,
    Workloads,
    complete,
    condition,
    is_ready,
    pod_template,
    revision,
)

NewWorkloads = Callable[[], AbstractAsyncContextManager[Workloads]]
LETTERS = "[bcdfghjklmnpqrstvwxz2456789]"
DEPLOYMENT, REPLICA_SET = "deployment-controller", "replicaset-controller"


def names(objects: list[Object]) -> set[str]:
    return {each["metadata"]["name"] for each in objects}


def owner(obj: Object) -> Object:
    (reference,) = obj["metadata"]["ownerReferences"]
    return reference


def image(obj: Object) -> str:
    spec = obj["spec"].get("template", obj)["spec"]
    return spec["containers"][0]["image"]


# ---------------------------------------------------------------- Deployments


async def test_a_deployment_of_three(new_workloads: NewWorkloads) -> None:
    async with new_workloads() as apps:
        await apps.deploy("web", 3)
        web = await apps.rolled_out("web")
        (its_set,) = await apps.sets("web")
        pods = await apps.pods("web")
        hashed, set_name = its_set["metadata"]["labels"][HASH], its_set["metadata"]["name"]

        assert set_name == f"web-{hashed}"
        assert its_set["metadata"]["labels"] == {"app": "web", HASH: hashed}
        assert its_set["metadata"]["annotations"] == {
            "deployment.kubernetes.io/desired-replicas": "3",
            "deployment.kubernetes.io/max-replicas": "4",
            "deployment.kubernetes.io/revision": "1",
        }
        assert its_set["spec"]["selector"] == {"matchLabels": {"app": "web", HASH: hashed}}
        assert its_set["spec"]["template"]["metadata"]["labels"] == {"app": "web", HASH: hashed}
        assert owner(its_set) == {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "name": "web",
            "uid": web["metadata"]["uid"],
            "controller": True,
            "blockOwnerDeletion": True,
        }
        assert len(pods) == 3
        for pod in pods:
            assert re.fullmatch(f"{set_name}-{LETTERS}{{5}}", pod["metadata"]["name"])
            assert pod["metadata"]["generateName"] == f"{set_name}-"
            assert {"app": "web", HASH: hashed}.items() <= pod["metadata"]["labels"].items()
            assert "annotations" not in pod["metadata"]
            assert "finalizers" not in pod["metadata"]
            assert owner(pod) == {
                "apiVersion": "apps/v1",
                "kind": "ReplicaSet",
                "name": set_name,
                "uid": its_set["metadata"]["uid"],
                "controller": True,
                "blockOwnerDeletion": True,
            }


async def test_the_status_of_a_deployment_and_its_set(new_workloads: NewWorkloads) -> None:
    async with new_workloads() as apps:
        await apps.deploy("web", 2)
        web = await apps.rolled_out("web")
        (its_set,) = await apps.sets("web")
        set_name = its_set["metadata"]["name"]
        numbers = {key: value for key, value in web["status"].items() if value and key != "conditions"}
        assert numbers == {
            "availableReplicas": 2,
            "observedGeneration": 1,
            "readyReplicas": 2,
            "replicas": 2,
            "updatedReplicas": 2,
        }
        assert condition(web, "Available") == (
            "True",
            "MinimumReplicasAvailable",
            "Deployment has minimum availability.",
        )
        assert condition(web, "Progressing") == (
            "True",
            "NewReplicaSetAvailable",
            f'ReplicaSet "{set_name}" has successfully progressed.',
        )
        assert web["metadata"]["annotations"] == {"deployment.kubernetes.io/revision": "1"}
        assert "finalizers" not in web["metadata"]
        status = {key: value for key, value in its_set["status"].items() if value}
        assert status == {
            "availableReplicas": 2,
            "fullyLabeledReplicas": 2,
            "observedGeneration": 1,
            "readyReplicas": 2,
            "replicas": 2,
        }
        assert "finalizers" not in its_set["metadata"]


async def test_what_happens_is_reported_in_events(new_workloads: NewWorkloads) -> None:
    async with new_workloads() as apps:
        await apps.deploy("web", 2)
        await apps.rolled_out("web")
        (its_set,) = await apps.sets("web")
        set_name = its_set["metadata"]["name"]
        before = names(await apps.pods("web"))
        await apps.until_events(
            "web",
            (DEPLOYMENT, "Normal", "ScalingReplicaSet", f"Scaled up replica set {set_name} from 0 to 2"),
        )
        await apps.until_events(
            set_name,
            *((REPLICA_SET, "Normal", "SuccessfulCreate", f"Created pod: {name}") for name in before),
        )
        await apps.change("web", {"replicas": 1})
        (left,) = await apps.pods_are("web", 1)
        (gone,) = before - names([left])
        await apps.until_events(
            "web",
            (DEPLOYMENT, "Normal", "ScalingReplicaSet", f"Scaled down replica set {set_name} from 2 to 1"),
        )
        await apps.until_events(set_name, (REPLICA_SET, "Normal", "SuccessfulDelete", f"Deleted pod: {gone}"))


async def test_it_scales_up_and_down_and_keeps_its_pods(new_workloads: NewWorkloads) -> None:
    async with new_workloads() as apps:
        await apps.deploy("web", 2)
        await apps.rolled_out("web")
        first = names(await apps.pods("web"))
        await apps.change("web", {"replicas": 5})
        await apps.rolled_out("web")
        all_five = names(await apps.pods("web"))
        assert first < all_five
        await apps.change("web", {"replicas": 1})
        await apps.rolled_out("web")
        (left,) = await apps.pods_are("web", 1)
        assert names([left]) < all_five  # which one: upstream decides by uid among Pods of like age
        (its_set,) = await apps.sets("web")
        notes = its_set["metadata"]["annotations"]
        assert notes["deployment.kubernetes.io/desired-replicas"] == "1"
        assert notes["deployment.kubernetes.io/max-replicas"] == "2"
        await apps.change("web", {"replicas": 0})
        await apps.until("web", complete, "nothing left")
        assert await apps.pods("web") == []


async def test_a_new_template_rolls_within_its_bounds(new_workloads: NewWorkloads) -> None:
    async with new_workloads() as apps:
        strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}}
        await apps.deploy("web", 4, strategy=strategy)
        await apps.rolled_out("web")
        before = names(await apps.pods("web"))
        async with (
            apps.watching(apps.api.at("replicasets", group="apps")) as sets,
            apps.watching(apps.api.at("pods")) as pods,
        ):
            await apps.retemplate("web")
            await apps.rolled_out("web")
            after = await apps.pods_are("web", 4)
        wanted = [
            sum(each["spec"]["replicas"] for each in state.values()) for state in sets if len(state) == 2
        ]
        ready = [sum(map(is_ready, state.values())) for state in pods]
        assert max(wanted) <= 5
        assert min(ready[ready.index(4) :]) >= 3
        assert not before & names(after)
        assert {image(each) for each in after} == {"app:2"}
        old, new = await apps.sets("web")
        assert (old["spec"]["replicas"], new["spec"]["replicas"]) == (0, 4)
        assert (revision(old), revision(new), revision(await apps.deployment("web"))) == (1, 2, 2)


async def test_recreate_ends_all_old_pods_before_the_first_new_one(new_workloads: NewWorkloads) -> None:
    async with new_workloads() as apps:
        await apps.deploy("web", 3, strategy={"type": "Recreate"})
        await apps.rolled_out("web")
        async with apps.watching(apps.api.at("pods")) as states:
            await apps.retemplate("web")
            await apps.rolled_out("web")
        images = [{image(each) for each in state.values()} for state in states]
        assert {"app:1", "app:2"} not in images
        assert images[-1] == {"app:2"}


async def test_a_paused_deployment_scales_and_does_not_roll(new_workloads: NewWorkloads) -> None:
    async with new_workloads() as apps:
        await apps.deploy("web", 2)
        await apps.rolled_out("web")
        await apps.change("web", {"paused": True})
        await apps.until(
            "web",
            lambda d: condition(d, "Progressing") == ("Unknown", "DeploymentPaused", "Deployment is paused"),
            "the condition says that it is paused",
        )
        await apps.retemplate("web")
        await apps.change("web", {"replicas": 3})
        await apps.pods_are("web", 3)
        (only,) = await apps.sets("web")
        assert image(only) == "app:1"
        await apps.change("web", {"paused": False})
        await apps.rolled_out("web")
        after = await apps.pods_are("web", 3)
        assert {image(each) for each in after} == {"app:2"}
        assert condition(await apps.deployment("web"), "Progressing")[1] == "NewReplicaSetAvailable"


async def test_a_resumed_deployment_says_so(new_workloads: NewWorkloads) -> None:
    async with new_workloads() as apps:
        await apps.deploy("web", 1, pod_template("web", **NOWHERE), paused=True)
        await apps.until("web", lambda d: condition(d, "Progressing")[1] == "DeploymentPaused", "paused")
        assert await apps.sets("web") == []
        await apps.change("web", {"paused": False})
        told = await apps.until(
            "web",
            lambda d: condition(d, "Progressing")[1] not in ("DeploymentPaused", "DeploymentResumed"),
            "resumed",
        )
        assert condition(told, "Progressing")[0] == "True"
        assert condition(told, "Available") == (
            "False",
            "MinimumReplicasUnavailable",
            "Deployment does not have minimum availability.",
        )


async def test_an_earlier_template_takes_its_old_set_again(new_workloads: NewWorkloads) -> None:
    async with new_workloads() as apps:
        cause = "kubernetes.io/change-cause"
        await apps.deploy("web", 2, annotations={cause: "first"})
        await apps.rolled_out("web")
        second_template = {
            "metadata": {"annotations": {cause: "second"}},
            "spec": {"template": pod_template("web", "app:2")},
        }
        (await apps.api.patch(apps.api.at("deployments", "web", group="apps"), second_template)).ok()
        await apps.rolled_out("web")
        first, second = await apps.sets("web")
        assert [each["metadata"]["annotations"][cause] for each in (first, second)] == ["first", "second"]
        await apps.retemplate("web", "app:1")
        await apps.rolled_out("web")
        two, three = await apps.sets("web")
        assert names([two, three]) == names([first, second])
        assert (revision(two), revision(three)) == (2, 3)
        assert names([three]) == names([first])
        assert three["metadata"]["annotations"]["deployment.kubernetes.io/revision-history"] == "1"
        assert {image(each) for each in await apps.pods_are("web", 2)} == {"app:1"}


async def test_only_so_many_old_sets_are_kept(new_workloads: NewWorkloads) -> None:
    async with new_workloads() as apps:
        await apps.deploy("web", 1, revisionHistoryLimit=1)
        await apps.rolled_out("web")
        for number in (2, 3, 4):
            await apps.retemplate("web", f"app:{number}")
            await apps.rolled_out("web")

        async def pruned() -> bool:
            return [revision(each) for each in await apps.sets("web")] == [3, 4]

        await apps.api.eventually(pruned, "the sets of revisions 3 and 4 are left")


async def test_a_rollout_that_is_stuck_says_so_and_keeps_its_floor(new_workloads: NewWorkloads) -> None:
    async with new_workloads() as apps:
        strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}}
        await apps.deploy("web", 4, strategy=strategy, progressDeadlineSeconds=3)
        await apps.rolled_out("web")
        await apps.retemplate("web", **NOWHERE)
        stuck = await apps.until(
            "web", lambda d: condition(d, "Progressing")[0] == "False", "the deadline is over"
        )
        old, new = await apps.sets("web")
        assert condition(stuck, "Progressing") == (
            "False",
            "ProgressDeadlineExceeded",
            f'ReplicaSet "{new["metadata"]["name"]}" has timed out progressing.',
        )
        assert condition(stuck, "Available")[0] == "True"
        assert (old["spec"]["replicas"], new["spec"]["replicas"]) == (3, 2)
        counts = ("replicas", "updatedReplicas", "availableReplicas", "unavailableReplicas")
        assert [stuck["status"].get(name) for name in counts] == [5, 2, 3, 2]
        await apps.retemplate("web", "app:1", nodeSelector=None)
        healed = await apps.rolled_out("web")
        assert condition(healed, "Progressing")[1] == "NewReplicaSetAvailable"


async def test_a_stuck_rollout_is_scaled_in_proportion(new_workloads: NewWorkloads) -> None:
    async with new_workloads() as apps:
        strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}}
        await apps.deploy("web", 4, strategy=strategy)
        await apps.rolled_out("web")
        await apps.retemplate("web", **NOWHERE)
        await apps.until("web", lambda d: d["status"].get("unavailableReplicas") == 2, "stuck")

        async def sizes() -> list[int]:
            return [each["spec"]["replicas"] for each in await apps.sets("web")]

        async def stuck() -> bool:
            return await sizes() == [3, 2]

        async def spread() -> bool:
            return await sizes() == [7, 4]

        await apps.api.eventually(stuck, "three old and two new")
        await apps.change("web", {"replicas": 10})
        await apps.api.eventually(spread, "the growth is shared")
        await apps.change("web", {"replicas": 5})

        async def shrunk() -> bool:
            return sum(await sizes()) == 6

        await apps.api.eventually(shrunk, "both shrink")


async def test_a_pod_is_available_only_after_a_while(new_workloads: NewWorkloads) -> None:
    async with new_workloads() as apps:
        await apps.deploy("web", 2, minReadySeconds=3)
        fresh = await apps.until("web", lambda d: d.get("status", {}).get("readyReplicas") == 2, "ready")
        assert fresh["status"].get("availableReplicas", 0) == 0
        began = apps.clock.monotonic()
        await apps.rolled_out("web")
        assert apps.clock.monotonic() - began >= 1


async def test_a_deployment_takes_what_it_left_behind(new_workloads: NewWorkloads) -> None:
    async with new_workloads() as apps:
        await apps.deploy("web", 2)
        await apps.rolled_out("web")
        (before,) = await apps.sets("web")
        pods = names(await apps.pods("web"))
        await apps.delete("deployments", "web", "Orphan")
        await apps.api.gone(apps.api.at("deployments", "web", group="apps"))

        async def ownerless() -> bool:
            (found,) = await apps.sets("web")
            return "ownerReferences" not in found["metadata"]

        await apps.api.eventually(ownerless, "the set has no owner")
        assert names(await apps.pods_are("web", 2)) == pods
        again = await apps.deploy("web", 3)
        await apps.rolled_out("web")
        (after,) = await apps.sets("web")
        assert after["metadata"]["uid"] == before["metadata"]["uid"]
        assert owner(after)["uid"] == again["metadata"]["uid"]
        assert pods < names(await apps.pods("web"))


async def test_everything_goes_with_the_deployment(new_workloads: NewWorkloads) -> None:
    async with new_workloads() as apps:
        await apps.deploy("web", 2)
        await apps.rolled_out("web")
        await apps.delete("deployments", "web")

        async def empty() -> bool:
            return not (await apps.sets("web") or await apps.pods("web"))

        await apps.api.eventually(empty, "no sets and no pods are left")


async def test_foreground_deletion_ends_the_pods_first(new_workloads: NewWorkloads) -> None:
    async with new_workloads() as apps:
        await apps.deploy("web", 2)
        await apps.rolled_out("web")
        await apps.delete("deployments", "web", "Foreground")
        await apps.api.gone(apps.api.at("deployments", "web", group="apps"))
        assert await apps.sets("web") == []
        assert await apps.pods("web") == []


async def test_another_set_that_has_its_name_makes_it_take_another_name(new_workloads: NewWorkloads) -> None:
    async with new_workloads() as apps:
        await apps.deploy("web", 1)
        await apps.rolled_out("web")
        (before,) = await apps.sets("web")
        taken = before["metadata"]["name"]
        await apps.delete("deployments", "web", "Foreground")
        await apps.api.gone(apps.api.at("deployments", "web", group="apps"))
        other = {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {"name": taken},
            "spec": {
                "replicas": 0,
                "selector": {"matchLabels": {"app": "other"}},
                "template": pod_template("other"),
            },
        }
        (await apps.api.post(apps.api.at("replicasets", group="apps"), other)).ok()
        await apps.deploy("web", 1)
        web = await apps.rolled_out("web")
        (after,) = await apps.sets("web")
        assert web["status"]["collisionCount"] == 1
        assert after["metadata"]["name"] != taken


async def test_a_pod_that_goes_is_replaced(new_workloads: NewWorkloads) -> None:
    async with new_workloads() as apps:
        await apps.deploy("web", 2)
        await apps.rolled_out("web")
        pods = names(await apps.pods("web"))
        victim = min(pods)
        await apps.delete("pods", victim)

        async def replaced() -> bool:
            found = await apps.pods("web")
            return len(found) == 2 and victim not in names(found) and all(map(is_ready, found))

        await apps.api.eventually(replaced, "another pod")
        await apps.rolled_out("web")


# ---------------------------------------------------------------- ReplicaSets


async def test_a_set_alone_keeps_its_number(new_workloads: NewWorkloads) -> None:
    async with new_workloads() as apps:
        await apps.replicate("web", 2)
        pods = await apps.pods_are("web", 2)
        for pod in pods:
            assert re.fullmatch(f"web-{LETTERS}{{5}}", pod["metadata"]["name"])
        await apps.change("web", {"replicas": 4}, "replicasets")
        assert names(pods) < names(await apps.pods_are("web", 4))
        await apps.change("web", {"replicas": 1}, "replicasets")
        await apps.pods_are("web", 1)

        async def counted() -> bool:
            status = (await apps.replica_set("web"))["status"]
            return (status["replicas"], status.get("availableReplicas")) == (1, 1)

        await apps.api.eventually(counted, "the status says one")


async def test_a_set_adopts_a_pod_that_matches(new_workloads: NewWorkloads) -> None:
    async with new_workloads() as apps:
        mine = await apps.run_pod("mine", {"app": "web"})
        its_set = await apps.replicate("web", 2)
        pods = await apps.pods_are("web", 2)
        (adopted,) = [each for each in pods if each["metadata"]["name"] == "mine"]
        assert adopted["metadata"]["uid"] == mine["metadata"]["uid"]
        assert owner(adopted)["uid"] == its_set["metadata"]["uid"]


async def test_a_pod_that_matches_a_full_set_is_surplus(new_workloads: NewWorkloads) -> None:
    async with new_workloads() as apps:
        await apps.replicate("web", 1)
        await apps.pods_are("web", 1)
        await apps.run_pod("more", {"app": "web"})

        async def one() -> bool:
            return len(await apps.pods("web")) == 1

        await apps.api.eventually(one, "one of the two is deleted")


async def test_a_pod_that_no_longer_matches_is_released(new_workloads: NewWorkloads) -> None:
    async with new_workloads() as apps:
        await apps.replicate("web", 2)
        pods = sorted(names(await apps.pods_are("web", 2)))
        await apps.label(pods[0], app="other")

        async def released() -> bool:
            (found,) = await apps.pods("other")
            return "ownerReferences" not in found["metadata"]

        await apps.api.eventually(released, "the pod has no owner")
        assert pods[1] in names(await apps.pods_are("web", 2))


async def test_the_cheapest_pods_go_first(new_workloads: NewWorkloads) -> None:
    async with new_workloads() as apps:
        await apps.replicate("web", 3)
        pods = sorted(names(await apps.pods_are("web", 3)))
        for name, cost in zip(pods, ("5", "-5", "0"), strict=True):
            body = {"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": cost}}}
            (await apps.api.patch(apps.api.at("pods", name), body)).ok()
        await apps.change("web", {"replicas": 1}, "replicasets")
        assert names(await apps.pods_are("web", 1)) == {pods[0]}


async def test_pods_that_are_not_ready_go_before_ready_ones(new_workloads: NewWorkloads) -> None:
    async with new_workloads() as apps:
        await apps.replicate("web", 2)
        pods = names(await apps.pods_are("web", 2))
        body = {"spec": {"template": {"spec": NOWHERE}, "replicas": 3}}
        (await apps.api.patch(apps.api.at("replicasets", "web", group="apps"), body)).ok()
        await apps.pods_are("web", 3, ready=False)
        await apps.change("web", {"replicas": 2}, "replicasets")
        assert names(await apps.pods_are("web", 2)) == pods


async def test_a_pod_that_is_refused_is_reported_in_conditions_and_events(
    new_workloads: NewWorkloads,
) -> None:
    async with new_workloads() as apps:
        await apps.deploy("web", 1, pod_template("web", priorityClassName="missing"))
        web = await apps.until("web", lambda d: condition(d, "ReplicaFailure")[0], "it says that it fails")
        (its_set,) = await apps.sets("web")
        set_name = its_set["metadata"]["name"]
        why = f'pods "{set_name}-" is forbidden: no PriorityClass with name missing was found'
        assert condition(web, "ReplicaFailure") == ("True", "FailedCreate", why)
        assert condition(its_set, "ReplicaFailure") == ("True", "FailedCreate", why)
        await apps.until_events(set_name, (REPLICA_SET, "Warning", "FailedCreate", f"Error creating: {why}"))
