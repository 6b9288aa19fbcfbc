"""Subresources: status apart from spec, scale, and evictions that honour disruption budgets."""

from typing import Any

import pytest

from kubewright.testing.api import Api, Object
from kubewright.wire.http import MERGE_PATCH, STRATEGIC_PATCH

BLOCKED = "Cannot evict pod as it would violate the pod's disruption budget."
RUNNING = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}


def deployment(replicas: int = 1) -> Object:
    labels = {"app": "d"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"replicas": replicas, "paused": True, "selector": {"matchLabels": labels}, "template": template}
    return {"metadata": {"name": "d"}, "spec": spec}


@pytest.fixture
async def scale(api: Api) -> str:
    (await api.post(api.at("deployments", group="apps"), deployment())).ok()
    return api.at("deployments", "d", group="apps") + "/scale"


async def settled(api: Api, path: str) -> Object:
    """The object once no controller of the real world changes it any more."""
    before = (await api.get(path)).ok()

    async def quiet() -> Object | None:
        nonlocal before
        after = (await api.get(path)).ok()
        same = after["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
        before = after
        return after if same else None

    found: Object = await api.eventually(quiet, f"{path} is quiet")
    return found


async def test_the_scale_shows_replicas_and_selector(api: Api, scale: str) -> None:
    seen = (await api.get(scale)).ok()
    deployment = (await api.get(scale.removesuffix("/scale"))).ok()
    assert (seen["kind"], seen["apiVersion"]) == ("Scale", "autoscaling/v1")
    assert seen["metadata"]["uid"] == deployment["metadata"]["uid"]
    assert seen["spec"] == {"replicas": 1}
    assert seen["status"] == {"replicas": 0, "selector": "app=d"}


async def test_the_scale_is_patched_and_replaced(api: Api, scale: str) -> None:
    assert (await api.patch(scale, {"spec": {"replicas": 3}})).ok()["spec"] == {"replicas": 3}
    body = {"metadata": {"name": "d", "namespace": api.namespace}, "spec": {"replicas": 2}}
    assert (await api.put(scale, body)).ok()["spec"] == {"replicas": 2}
    found = (await api.get(scale.removesuffix("/scale"))).ok()
    assert found["spec"]["replicas"] == 2
    assert found["metadata"]["generation"] == 3


async def test_an_old_scale_conflicts(api: Api, scale: str) -> None:
    body = {
        "metadata": {"name": "d", "namespace": api.namespace, "resourceVersion": "1"},
        "spec": {"replicas": 2},
    }
    answer = await api.put(scale, body)
    assert (answer.code, answer.reason) == (409, "Conflict")
    assert answer.message.startswith('Operation cannot be fulfilled on deployments.apps "d": ')


async def test_a_negative_scale_is_invalid(api: Api, scale: str) -> None:
    answer = await api.patch(scale, {"spec": {"replicas": -2}})
    assert (answer.code, answer.reason) == (422, "Invalid")
    assert answer.message == (
        'Scale.autoscaling "d" is invalid: spec.replicas: Invalid value: -2: must be greater than or equal to 0'
    )


async def test_a_scale_of_nothing_is_not_found(api: Api) -> None:
    answer = await api.get(api.at("deployments", "zz", group="apps") + "/scale")
    assert (answer.code, answer.reason, answer.message) == (
        404,
        "NotFound",
        'deployments.apps "zz" not found',
    )


async def test_a_scale_cannot_be_deleted(api: Api, scale: str) -> None:
    assert (await api.delete(scale)).code == 405


async def test_a_status_and_a_log_cannot_be_created_or_deleted(api: Api) -> None:
    """Else a role that allows every verb on a subresource would allow them on the whole object."""
    pod = await running(api, "e")
    for part in ("status", "log"):
        assert (await api.post(f"{pod}/{part}", (await api.get(pod)).ok())).code == 405
        assert (await api.delete(f"{pod}/{part}")).code == 405
    assert "deletionTimestamp" not in (await api.get(pod)).ok()["metadata"]


async def test_the_uid_in_the_status_of_a_built_in_object_is_a_condition(api: Api, scale: str) -> None:
    """Controllers write a status for the very object that they saw: its name may be another one's by now."""
    places = {"Pod": await running(api, "e"), "Deployment.apps": scale.removesuffix("/scale")}
    for kind, path in places.items():
        before = (await api.get(path)).ok()
        name, condition = before["metadata"]["name"], {"type": "A", "status": "True"}
        for content_type in (MERGE_PATCH, STRATEGIC_PATCH):
            body = {"metadata": {"uid": "zz"}, "status": {"conditions": [condition]}}
            answer = await api.patch(path + "/status", body, content_type=content_type)
            assert (answer.code, answer.message) == (
                422,
                f'{kind} "{name}" is invalid: metadata.uid: Invalid value: "zz": field is immutable',
            )
        kept = {"metadata": {"uid": before["metadata"]["uid"]}, "status": {"conditions": [condition]}}
        assert (await api.patch(path + "/status", kept)).code == 200


async def test_status_and_spec_do_not_touch_each_other(api: Api, scale: str) -> None:
    path = scale.removesuffix("/scale")
    await settled(api, path)
    status = (await api.patch(path + "/status", {"spec": {"replicas": 9}, "status": {"replicas": 4}})).ok()
    assert status["spec"]["replicas"] == 1
    assert status["status"]["replicas"] == 4
    generation = status["metadata"]["generation"]
    main = (await api.patch(path, {"status": {"replicas": 7}, "spec": {"replicas": 0}})).ok()
    assert main["status"].get("replicas") != 7
    assert main["spec"]["replicas"] == 0
    assert main["metadata"]["generation"] == generation + 1


async def test_status_keeps_labels_as_they_are(api: Api) -> None:
    name = f"{api.namespace}-node"
    (await api.post("/api/v1/nodes", {"metadata": {"name": name}})).ok()
    condition = {"type": "Ready", "status": "True"}
    body = {"metadata": {"labels": {"x": "y"}}, "status": {"conditions": [condition]}}
    (await api.patch(f"/api/v1/nodes/{name}/status", body, content_type=STRATEGIC_PATCH)).ok()
    after = (await api.get(f"/api/v1/nodes/{name}")).ok()
    await api.delete(f"/api/v1/nodes/{name}")
    ready = [c["status"] for c in after["status"]["conditions"] if c["type"] == "Ready"]
    assert ready == ["True"]


async def test_status_can_be_read_and_replaced(api: Api) -> None:
    spec = {"nodeName": "n1", "containers": [{"name": "c", "image": "i"}]}
    (await api.post(api.at("pods"), {"metadata": {"name": "p"}, "spec": spec})).ok()
    path = api.at("pods", "p") + "/status"
    seen = (await api.get(path)).ok()
    assert seen["kind"] == "Pod"
    after = (await api.put(path, {**seen, "status": {**seen["status"], "phase": "Failed"}})).ok()
    assert after["status"]["phase"] == "Failed"


def eviction(api: Api, name: str = "e", **options: Any) -> Object:
    return {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name, "namespace": api.namespace},
        **({"deleteOptions": options} if options else {}),
    }


async def running(api: Api, name: str, **labels: str) -> str:
    spec = {"nodeName": "n1", "containers": [{"name": "c", "image": "i"}]}
    (await api.post(api.at("pods"), {"metadata": {"name": name, "labels": labels}, "spec": spec})).ok()
    path = api.at("pods", name)
    (await api.patch(path + "/status", RUNNING)).ok()
    return path


async def budget(api: Api, **spec: Any) -> str:
    body = {"metadata": {"name": "b"}, "spec": {"selector": {"matchLabels": {"app": "x"}}, **spec}}
    (await api.post(api.at("poddisruptionbudgets", group="policy"), body)).ok()
    path = api.at("poddisruptionbudgets", "b", group="policy")

    async def counted() -> bool:
        found = (await api.get(path)).ok()
        pods = (await api.get(api.at("pods"), labelSelector="app=x")).ok()["items"]
        status = found.get("status", {})
        return bool(
            status.get("observedGeneration") == found["metadata"]["generation"]
            and status.get("currentHealthy") == len(pods)
        )

    await api.eventually(counted, "the budget has seen its pods")
    return path


async def test_an_eviction_begins_a_deletion(api: Api) -> None:
    pod = await running(api, "e")
    answer = await api.post(pod + "/eviction", eviction(api))
    success = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
    assert (answer.code, answer.body) == (201, success)
    after = (await api.get(pod)).ok()
    assert after["metadata"]["deletionGracePeriodSeconds"] == 30


async def test_an_eviction_brings_its_own_grace(api: Api) -> None:
    pod = await running(api, "e")
    (await api.post(pod + "/eviction", eviction(api, gracePeriodSeconds=5))).ok()
    assert (await api.get(pod)).ok()["metadata"]["deletionGracePeriodSeconds"] == 5


async def test_a_budget_with_no_room_refuses_an_eviction(api: Api) -> None:
    pod = await running(api, "e", app="x")
    await budget(api, minAvailable=1)
    answer = await api.post(pod + "/eviction", eviction(api))
    assert (answer.code, answer.reason, answer.message) == (429, "TooManyRequests", BLOCKED)
    assert answer.causes == [
        ("DisruptionBudget", "", "The disruption budget b needs 1 healthy pods and has 1 currently")
    ]
    assert "deletionTimestamp" not in (await api.get(pod)).ok()["metadata"]


async def test_a_budget_lets_as_many_go_as_it_can_spare(api: Api) -> None:
    pods = {name: await running(api, name, app="x") for name in ("e", "f", "g")}
    await budget(api, minAvailable=2)
    codes = [(await api.post(path + "/eviction", eviction(api, name))).code for name, path in pods.items()]
    assert codes == [201, 429, 429]


async def test_a_pod_that_is_going_anyway_is_not_counted(api: Api) -> None:
    pod = await running(api, "e", app="x")
    await budget(api, minAvailable=1)
    await api.delete(pod)
    assert (await api.post(pod + "/eviction", eviction(api))).code == 201


async def test_a_finished_pod_needs_no_budget(api: Api) -> None:
    pod = await running(api, "e", app="x")
    await budget(api, minAvailable=1)
    await api.patch(pod + "/status", {"status": {"phase": "Succeeded"}})
    assert (await api.post(pod + "/eviction", eviction(api))).code == 201


async def test_an_eviction_in_a_dry_run_evicts_no_pod(api: Api) -> None:
    pod = await running(api, "e")
    assert (await api.post(pod + "/eviction", eviction(api, dryRun=["All"]))).code == 201
    assert "deletionTimestamp" not in (await api.get(pod)).ok()["metadata"]


async def test_an_eviction_of_another_uid_conflicts(api: Api) -> None:
    pod = await running(api, "e")
    answer = await api.post(pod + "/eviction", eviction(api, preconditions={"uid": "zz"}))
    assert (answer.code, answer.reason) == (409, "Conflict")
    assert "deletionTimestamp" not in (await api.get(pod)).ok()["metadata"]


async def test_bad_evictions_are_refused(api: Api) -> None:
    pod = await running(api, "e")
    for body in (eviction(api, "zz"), {}):
        answer = await api.post(pod + "/eviction", body)
        assert (answer.code, answer.message) == (400, "name in URL does not match name in Eviction object")
    answer = await api.post(api.at("pods", "zz") + "/eviction", eviction(api, "zz"))
    assert (answer.code, answer.message) == (404, 'pods "zz" not found')
    assert (await api.get(pod + "/eviction")).code == 405
