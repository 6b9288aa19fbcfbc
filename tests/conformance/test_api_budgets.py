"""Disruption budgets: which selectors are refused, and what they allow for pods of all kinds of owners."""

from typing import Any

import pytest

from kubewright.testing.api import Api, Object

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
GROUP = "budgets.example.com"
RUNNING = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
SCALE = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}


async def defined(api: Api, plural: str, kind: str, **subresources: Object) -> None:
    """Have a kind served, with these subresources."""
    fields = {"spec": {"type": "object", "properties": {"replicas": {"type": "integer"}}}}
    schema = {"type": "object", "properties": {**fields, "status": fields["spec"]}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": plural, "kind": kind}
    spec = {"group": GROUP, "scope": "Namespaced", "names": names}
    body = {
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {**spec, "versions": [{**version, "subresources": {"status": {}, **subresources}}]},
    }
    assert (await api.post(CRDS, body)).code in (201, 409)

    async def served() -> bool:
        return (await api.get(api.at(plural, group=GROUP))).code == 200

    await api.eventually(served, f"{plural} are served")


async def owner(api: Api, plural: str, kind: str, replicas: int) -> Object:
    body = {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": {"name": "o"}}
    made = await api.post(api.at(plural, group=GROUP), {**body, "spec": {"replicas": replicas}})
    return {**reference(kind), "uid": made.ok()["metadata"]["uid"]}


def reference(kind: str, group: str = GROUP) -> Object:
    uid = "6a0c5b7e-0000-4000-8000-000000000000"
    return {"apiVersion": f"{group}/v1", "kind": kind, "name": "o", "uid": uid, "controller": True}


async def pods(api: Api, count: int, *owners: Object) -> None:
    for number in range(count):
        metadata = {"name": f"p{number}", "labels": {"app": "x"}, "ownerReferences": list(owners)}
        spec = {"nodeName": "n1", "containers": [{"name": "c", "image": "i"}]}
        (await api.post(api.at("pods"), {"metadata": metadata, "spec": spec})).ok()
        (await api.patch(api.at("pods", f"p{number}") + "/status", RUNNING)).ok()


async def judged(api: Api, reason: str = "", **spec: Any) -> Object:
    """The status of a new budget for all pods of the namespace, once all of them are counted.

    ``reason``: wait for this one in the condition. The real controller knows a new kind after half a minute,
    and looks again only when a pod changes.
    """
    body = {"metadata": {"name": "b"}, "spec": {"selector": {"matchLabels": {"app": "x"}}, **spec}}
    (await api.post(api.at("poddisruptionbudgets", group="policy"), body)).ok()
    count = len((await api.get(api.at("pods"))).ok()["items"])

    async def current() -> Object | None:
        await api.patch(
            api.at("pods", "p0"), {"metadata": {"annotations": {"at": str(api.clock.monotonic())}}}
        )
        status: Object = (await api.get(api.at("poddisruptionbudgets", "b", group="policy"))).ok()["status"]
        if not (found := status.get("conditions")):
            return None
        if reason:
            return status if reason in found[0]["message"] else None
        return status if status["currentHealthy"] == count and found[0]["reason"] != "SyncFailed" else None

    found: Object = await api.eventually(current, "the budget is judged", seconds=60)
    return found


def condition(status: Object) -> tuple[str, str, str]:
    (found,) = status["conditions"]
    return found["status"], found["reason"], found["message"]


def numbers(status: Object) -> tuple[int, int, int, int]:
    """Of the status; all of them are written, zeros too."""
    names = ("expectedPods", "currentHealthy", "desiredHealthy", "disruptionsAllowed")
    return tuple(status[name] for name in names)  # type: ignore[return-value]


async def evicted(api: Api, name: str = "p0") -> tuple[int, str]:
    kind = {"apiVersion": "policy/v1", "kind": "Eviction"}
    answer = await api.post(api.at("pods", name) + "/eviction", {**kind, "metadata": {"name": name}})
    return answer.code, answer.causes[0][2] if answer.causes else ""


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({"maxUnavailable": 1}, (0, 3, 0, 0), id="one may be unavailable"),
        pytest.param({"maxUnavailable": "100%"}, (0, 3, 0, 0), id="all may be unavailable"),
        pytest.param({"minAvailable": "0%"}, (0, 3, 0, 0), id="none must be available, in percent"),
        pytest.param({"minAvailable": 0}, (3, 3, 0, 3), id="none must be available"),
        pytest.param({"minAvailable": 2}, (3, 3, 2, 1), id="two must be available"),
        pytest.param({}, (0, 3, 0, 0), id="no number"),
    ],
)
async def test_pods_without_a_controller_count_only_under_a_number_of_available_ones(
    api: Api, spec: Object, expected: tuple[int, int, int, int]
) -> None:
    await pods(api, 3)
    status = await judged(api, **spec)
    assert numbers(status) == expected
    allowed = expected[-1] > 0
    words = ("True", "SufficientPods", "") if allowed else ("False", "InsufficientPods", "")
    assert condition(status) == words
    told = "" if allowed else "The disruption budget b does not allow evicting pods currently"
    assert await evicted(api) == (201 if allowed else 429, told)


async def test_an_owner_of_any_kind_with_a_scale_says_how_many_pods_there_should_be(api: Api) -> None:
    await defined(api, "scaleds", "Scaled", scale=SCALE)
    await pods(api, 2, await owner(api, "scaleds", "Scaled", 4))
    status = await judged(api, maxUnavailable=1)
    assert numbers(status) == (4, 2, 3, 0)
    assert await evicted(api) == (429, "The disruption budget b needs 3 healthy pods and has 2 currently")


async def test_an_owner_with_a_scale_that_is_met_lets_a_pod_go(api: Api) -> None:
    await defined(api, "scaleds", "Scaled", scale=SCALE)
    await pods(api, 2, await owner(api, "scaleds", "Scaled", 2))
    assert numbers(await judged(api, maxUnavailable="50%")) == (2, 2, 1, 1)
    assert await evicted(api) == (201, "")


@pytest.mark.parametrize(
    ("kind", "group", "message"),
    [
        pytest.param(
            "Scaleless", GROUP, f"scalelesses.{GROUP} does not implement the scale subresource", id="no scale"
        ),
        pytest.param("Scaled", GROUP, 'found no controllers for pod "p0"', id="no such owner"),
        pytest.param("Absent", GROUP, f'no matches for kind "Absent" in version "{GROUP}/v1"', id="no such kind"),
        pytest.param(
            "ReplicaSet", "nothing.io", 'no matches for kind "ReplicaSet" in version "nothing.io/v1"', id="no such group"
        ),
    ],
)  # fmt: skip
async def test_a_budget_whose_pods_cannot_be_counted_allows_nothing_and_says_why(
    api: Api, kind: str, group: str, message: str
) -> None:
    await defined(api, "scaleds", "Scaled", scale=SCALE)
    await defined(api, "scalelesses", "Scaleless")
    (await api.post(api.at("scalelesses", group=GROUP), {"apiVersion": f"{GROUP}/v1", "kind": "Scaleless", "metadata": {"name": "o"}})).ok()  # fmt: skip
    unresolved = {**reference(kind, group), "blockOwnerDeletion": False}
    if kind == "Scaled":  # an owner that is not there is no owner for long: the collector deletes the pods
        await owner(api, "scaleds", "Scaled", 1)
    elif kind == "Scaleless":
        found = (await api.get(api.at("scalelesses", "o", group=GROUP))).ok()
        unresolved["uid"] = found["metadata"]["uid"]
    await pods(api, 1, unresolved)
    status = await judged(api, message, maxUnavailable=1)
    assert condition(status) == ("False", "SyncFailed", message)
    assert status["disruptionsAllowed"] == 0
    if kind != "Scaled":
        told = "The disruption budget b is still being processed by the server."
        assert await evicted(api) == (429, told)  # its spec was never counted


def expression(**fields: Any) -> Object:
    return {"matchExpressions": [fields]}


@pytest.mark.parametrize(
    ("selector", "field"),
    [
        pytest.param(expression(key="app", operator="In"), "matchExpressions[0].values", id="in nothing"),
        pytest.param(
            expression(key="app", operator="NotIn", values=[]), "matchExpressions[0].values", id="not in nothing"
        ),
        pytest.param(
            expression(key="app", operator="Exists", values=["x"]), "matchExpressions[0].values", id="exists x"
        ),
        pytest.param(
            expression(key="app", operator="Gt", values=["1"]), "matchExpressions[0].operator", id="of nodes"
        ),
        pytest.param(expression(key="a b", operator="Exists"), "matchExpressions[0].key", id="a key with a space"),
        pytest.param(
            expression(key="app", operator="In", values=["a b"]), "matchExpressions[0].values[0]", id="a value"
        ),
        pytest.param({"matchLabels": {"a b": "x"}}, "matchLabels", id="a label with a space"),
        pytest.param({"matchLabels": {"a": "-x-"}}, "matchLabels", id="a value of a label"),
    ],
)  # fmt: skip
async def test_a_selector_that_cannot_be_read_is_refused(api: Api, selector: Object, field: str) -> None:
    path = api.at("poddisruptionbudgets", group="policy")
    answer = await api.post(
        path, {"metadata": {"name": "b"}, "spec": {"minAvailable": 1, "selector": selector}}
    )
    assert answer.code == 422
    assert {cause[1] for cause in answer.causes} == {f"spec.selector.{field}"}
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    body = {"metadata": {"name": "c"}, "spec": {**claim, "selector": selector}}
    assert (await api.post(api.at("persistentvolumeclaims"), body)).code == 422
    role = {"metadata": {"name": "r"}, "aggregationRule": {"clusterRoleSelectors": [{}, selector]}}
    answer = await api.post("/apis/rbac.authorization.k8s.io/v1/clusterroles", role)
    assert {cause[1].removeprefix("aggregationRule.clusterRoleSelectors[1]") for cause in answer.causes} == {
        "",
        f".{field}",
    }
