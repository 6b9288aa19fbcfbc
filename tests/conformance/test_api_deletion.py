"""Deletion: preconditions, grace, finalizers, propagation to dependents, whole namespaces."""

from typing import Any

import pytest

from kubewright.testing.api import Api, Object

HOLD = "example.io/hold"


def config_map(name: str = "a", **metadata: Any) -> Object:
    return {"metadata": {"name": name, **metadata}, "data": {"k": "v"}}


def pod(name: str = "p", *, node: str = "", **spec: Any) -> Object:
    return {
        "metadata": {"name": name},
        "spec": {**({"nodeName": node} if node else {}), "containers": [{"name": "c", "image": "i"}], **spec},
    }


async def made(api: Api, obj: Object, plural: str = "configmaps") -> Object:
    return (await api.post(api.at(plural), obj)).ok()


def owned_by(owner: Object, *, blocking: bool = False) -> list[Object]:
    return [
        {
            "apiVersion": owner["apiVersion"],
            "kind": owner["kind"],
            "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"],
            "blockOwnerDeletion": blocking,
        }
    ]


async def test_a_deletion_answers_success_and_the_uid(api: Api) -> None:
    obj = await made(api, config_map())
    status = (await api.delete(api.at("configmaps", "a"))).ok()
    assert (status["kind"], status["status"]) == ("Status", "Success")
    assert status["details"] == {"name": "a", "kind": "configmaps", "uid": obj["metadata"]["uid"]}
    again = await api.delete(api.at("configmaps", "a"))
    assert (again.code, again.reason, again.message) == (404, "NotFound", 'configmaps "a" not found')


async def test_a_deletion_of_another_uid_conflicts(api: Api) -> None:
    uid = (await made(api, config_map()))["metadata"]["uid"]
    answer = await api.delete(api.at("configmaps", "a"), {"preconditions": {"uid": "zz"}})
    assert (answer.code, answer.reason) == (409, "Conflict")
    assert answer.message == (
        'Operation cannot be fulfilled on ConfigMap "a": the UID in the precondition (zz) does not match the UID '
        f"in record ({uid}). The object might have been deleted and then recreated"
    )
    assert (await api.delete(api.at("configmaps", "a"), {"preconditions": {"uid": uid}})).code == 200


async def test_a_deletion_of_an_old_version_conflicts(api: Api) -> None:
    version = (await made(api, config_map()))["metadata"]["resourceVersion"]
    path = api.at("configmaps", "a")
    answer = await api.delete(path, {"preconditions": {"resourceVersion": "1"}})
    assert (answer.code, answer.reason) == (409, "Conflict")
    assert answer.message == (
        'Operation cannot be fulfilled on ConfigMap "a": the ResourceVersion in the precondition (1) does not '
        f"match the ResourceVersion in record ({version}). The object might have been modified"
    )
    assert (await api.delete(path, {"preconditions": {"resourceVersion": version}})).code == 200


@pytest.mark.parametrize(
    ("options", "code", "reason", "message"),
    [
        pytest.param(
            {"propagationPolicy": "Foo"},
            422,
            "Invalid",
            'DeleteOptions.meta.k8s.io "" is invalid: propagationPolicy: Unsupported value: "Foo": '
            'supported values: "Foreground", "Background", "Orphan", "nil"',
            id="an unknown propagation",
        ),
        pytest.param(
            {"propagationPolicy": "Orphan", "orphanDependents": True},
            422,
            "Invalid",
            'DeleteOptions.meta.k8s.io "" is invalid: propagationPolicy: Invalid value: "Orphan": '
            "orphanDependents and deletionPropagation cannot be both set",
            id="two kinds of propagation",
        ),
        pytest.param(
            b"{",
            400,
            "BadRequest",
            "couldn't get version/kind; json parse error: unexpected end of JSON input",
            id="cut off JSON",
        ),
    ],
)
async def test_bad_options_are_refused_and_nothing_is_deleted(
    api: Api, options: Any, code: int, reason: str, message: str
) -> None:
    await made(api, config_map())
    answer = await api.delete(api.at("configmaps", "a"), options)
    assert (answer.code, answer.reason, answer.message) == (code, reason, message)
    assert (await api.get(api.at("configmaps", "a"))).code == 200


async def test_a_finalizer_holds_an_object_until_it_is_taken_off(api: Api) -> None:
    path = api.at("configmaps", "a")
    await made(api, config_map(finalizers=[HOLD]))
    held = (await api.delete(path)).ok()
    assert held["metadata"]["deletionTimestamp"]
    assert held["metadata"]["deletionGracePeriodSeconds"] == 0
    assert held["metadata"]["finalizers"] == [HOLD]
    assert (await api.get(path)).ok()["metadata"]["deletionTimestamp"] == held["metadata"][
        "deletionTimestamp"
    ]
    released = (await api.patch(path, {"metadata": {"finalizers": None}})).ok()
    assert "finalizers" not in released["metadata"]
    assert (await api.get(path)).code == 404


async def test_what_is_being_deleted_may_change_but_gets_no_new_finalizer(api: Api) -> None:
    path = api.at("configmaps", "a")
    await made(api, config_map(finalizers=[HOLD]))
    await api.delete(path)
    assert (await api.patch(path, {"data": {"k": "2"}})).code == 200
    answer = await api.patch(path, {"metadata": {"finalizers": [HOLD, "example.io/more"]}})
    assert (answer.code, answer.reason) == (422, "Invalid")
    assert answer.message == (
        'ConfigMap "a" is invalid: metadata.finalizers: Forbidden: no new finalizers can be added if the object '
        'is being deleted, found new finalizers []string{"example.io/more"}'
    )


async def test_a_deletion_cannot_be_taken_back(api: Api) -> None:
    path = api.at("configmaps", "a")
    await made(api, config_map(finalizers=[HOLD]))
    moment = (await api.delete(path)).ok()["metadata"]["deletionTimestamp"]
    body = {"metadata": {"deletionTimestamp": None, "deletionGracePeriodSeconds": None}}
    await api.patch(path, body)
    assert (await api.get(path)).ok()["metadata"]["deletionTimestamp"] == moment


async def test_a_name_is_taken_while_its_object_is_being_deleted(api: Api) -> None:
    await made(api, config_map(finalizers=[HOLD]))
    await api.delete(api.at("configmaps", "a"))
    answer = await api.post(api.at("configmaps"), config_map())
    assert (answer.code, answer.reason) == (409, "AlreadyExists")
    assert answer.message == 'object is being deleted: configmaps "a" already exists'


async def test_a_pod_without_a_node_is_gone_at_once(api: Api) -> None:
    await made(api, pod(), "pods")
    assert (await api.delete(api.at("pods", "p"))).code == 200
    assert (await api.get(api.at("pods", "p"))).code == 404


async def test_a_pod_on_a_node_has_its_grace(api: Api) -> None:
    path = api.at("pods", "p")
    await made(api, pod(node="n1"), "pods")
    ending = (await api.delete(path)).ok()
    assert ending["metadata"]["deletionGracePeriodSeconds"] == 30
    again = (await api.delete(path)).ok()
    assert again["metadata"]["deletionTimestamp"] == ending["metadata"]["deletionTimestamp"]
    shorter = (await api.delete(path, {"gracePeriodSeconds": 1})).ok()
    assert shorter["metadata"]["deletionGracePeriodSeconds"] == 1
    assert shorter["metadata"]["deletionTimestamp"] < ending["metadata"]["deletionTimestamp"]
    longer = (await api.delete(path, {"gracePeriodSeconds": 60})).ok()
    assert longer["metadata"]["deletionGracePeriodSeconds"] == 1
    assert (await api.delete(path, {"gracePeriodSeconds": 0})).code == 200
    assert (await api.get(path)).code == 404


async def test_the_grace_period_of_a_pod_counts(api: Api) -> None:
    await made(api, pod(node="n1", terminationGracePeriodSeconds=7), "pods")
    ending = (await api.delete(api.at("pods", "p"))).ok()
    assert ending["metadata"]["deletionGracePeriodSeconds"] == 7


async def test_grace_may_stand_in_the_query(api: Api) -> None:
    await made(api, pod(node="n1"), "pods")
    ending = (await api.delete(api.at("pods", "p"), gracePeriodSeconds="3")).ok()
    assert ending["metadata"]["deletionGracePeriodSeconds"] == 3


async def test_a_finished_pod_needs_no_grace(api: Api) -> None:
    await made(api, pod(node="n1"), "pods")
    await api.patch(api.at("pods", "p") + "/status", {"status": {"phase": "Succeeded"}})
    await api.delete(api.at("pods", "p"))
    assert (await api.get(api.at("pods", "p"))).code == 404


async def test_a_collection_is_deleted_by_selector(api: Api) -> None:
    for name, colour in (("a", "red"), ("b", "red"), ("c", "blue")):
        await made(api, config_map(name, labels={"colour": colour}))
    deleted = (await api.delete(api.at("configmaps"), labelSelector="colour=red")).ok()
    assert deleted["kind"] == "ConfigMapList"
    assert [item["metadata"]["name"] for item in deleted["items"]] == ["a", "b"]
    left = (await api.get(api.at("configmaps"))).ok()["items"]
    assert [item["metadata"]["name"] for item in left] == ["c"]


async def test_a_collection_is_deleted_page_by_page(api: Api) -> None:
    for name in "abcde":
        await made(api, config_map(name))
    page = (await api.delete(api.at("configmaps"), limit="2")).ok()
    assert [item["metadata"]["name"] for item in page["items"]] == ["a", "b"]
    assert page["metadata"]["remainingItemCount"] == 3
    rest = (await api.delete(api.at("configmaps"), **{"continue": page["metadata"]["continue"]})).ok()
    assert [item["metadata"]["name"] for item in rest["items"]] == ["c", "d", "e"]
    assert (await api.get(api.at("configmaps"))).ok()["items"] == []


async def test_dependents_follow_their_owner_in_the_background(api: Api) -> None:
    owner = await made(api, config_map("owner"))
    await made(api, config_map("child", ownerReferences=owned_by(owner)))
    status = (await api.delete(api.at("configmaps", "owner"), {"propagationPolicy": "Background"})).ok()
    assert status["kind"] == "Status"
    await api.gone(api.at("configmaps", "child"))


async def test_an_owner_waits_for_its_dependents_in_the_foreground(api: Api) -> None:
    owner = await made(api, config_map("owner"))
    await made(api, config_map("child", ownerReferences=owned_by(owner, blocking=True), finalizers=[HOLD]))
    path, child = api.at("configmaps", "owner"), api.at("configmaps", "child")
    waiting = (await api.delete(path, {"propagationPolicy": "Foreground"})).ok()
    assert waiting["metadata"]["finalizers"] == ["foregroundDeletion"]

    async def child_ends() -> bool:
        return "deletionTimestamp" in (await api.get(child)).ok()["metadata"]

    await api.eventually(child_ends, "the dependent is being deleted")
    assert (await api.get(path)).code == 200
    await api.patch(child, {"metadata": {"finalizers": None}})
    await api.gone(child)
    await api.gone(path)


async def test_orphans_stay_and_forget_their_owner(api: Api) -> None:
    owner = await made(api, config_map("owner"))
    await made(api, config_map("child", ownerReferences=owned_by(owner)))
    await api.delete(api.at("configmaps", "owner"), {"propagationPolicy": "Orphan"})
    await api.gone(api.at("configmaps", "owner"))
    child = (await api.get(api.at("configmaps", "child"))).ok()
    assert "ownerReferences" not in child["metadata"]


async def test_what_has_another_living_owner_stays(api: Api) -> None:
    first, second = await made(api, config_map("first")), await made(api, config_map("second"))
    both = [*owned_by(first), *owned_by(second)]
    await made(api, config_map("child", ownerReferences=both))
    await api.delete(api.at("configmaps", "first"))
    child = api.at("configmaps", "child")

    async def one_owner() -> bool:
        owners = (await api.get(child)).ok()["metadata"]["ownerReferences"]
        return [owner["name"] for owner in owners] == ["second"]

    await api.eventually(one_owner, "the dead owner is taken off")
    await api.delete(api.at("configmaps", "second"))
    await api.gone(child)


async def test_what_was_created_for_a_deleted_owner_is_deleted_too(api: Api) -> None:
    owner = await made(api, config_map("owner"))
    await api.delete(api.at("configmaps", "owner"))
    await made(api, config_map("child", ownerReferences=owned_by(owner)))
    await api.gone(api.at("configmaps", "child"))


OWNER_WRONG = [
    pytest.param({"name": "another"}, id="another name"),
    pytest.param({"kind": "Secret"}, id="another kind"),
    pytest.param({"kind": "Deployment", "apiVersion": "apps/v1"}, id="another group"),
]


@pytest.mark.parametrize("wrong", OWNER_WRONG)
async def test_a_dependent_whose_owner_is_named_wrongly_is_deleted(api: Api, wrong: Object) -> None:
    owner = await made(api, config_map("owner"))
    (reference,) = owned_by(owner)
    await made(api, config_map("right", ownerReferences=[reference]))
    await made(api, config_map("child", ownerReferences=[{**reference, **wrong}]))
    await api.gone(api.at("configmaps", "child"))
    await api.clock.sleep(1)
    assert (await api.get(api.at("configmaps", "right"))).code == 200


async def test_a_reference_that_keeps_its_uid_is_not_judged_again(api: Api) -> None:
    owner = await made(api, config_map("owner"))
    await made(api, config_map("child", ownerReferences=owned_by(owner)))
    await api.clock.sleep(1)
    (reference,) = owned_by(owner)
    patch = {"metadata": {"ownerReferences": [{**reference, "name": "another"}]}}
    (await api.patch(api.at("configmaps", "child"), patch)).ok()
    await api.clock.sleep(5)
    assert (await api.get(api.at("configmaps", "child"))).code == 200
    await api.delete(api.at("configmaps", "owner"))
    await api.gone(api.at("configmaps", "child"))


async def test_a_dependent_with_one_right_owner_loses_the_wrong_one(api: Api) -> None:
    first, second = await made(api, config_map("first")), await made(api, config_map("second"))
    (right,), (wrong,) = owned_by(first), owned_by(second)
    await made(api, config_map("child", ownerReferences=[right, {**wrong, "name": "another"}]))

    async def one_owner() -> bool:
        owners = (await api.get(api.at("configmaps", "child"))).ok()["metadata"]["ownerReferences"]
        return [owner["name"] for owner in owners] == ["first"]

    await api.eventually(one_owner, "the wrong owner is taken off")


async def test_a_dependent_of_an_owner_in_another_namespace_is_deleted_and_an_event_says_why(
    api: Api,
) -> None:
    elsewhere = f"{api.namespace}-elsewhere"
    (await api.post("/api/v1/namespaces", {"metadata": {"name": elsewhere}})).ok()
    owner = (await api.post(f"/api/v1/namespaces/{elsewhere}/configmaps", config_map("owner"))).ok()
    await api.clock.sleep(1)
    child = await made(api, config_map("child", ownerReferences=owned_by(owner)))
    await api.gone(api.at("configmaps", "child"))

    async def told() -> Object | None:
        events = (await api.get(api.at("events"))).ok()["items"]
        return next((each for each in events if each["reason"] == "OwnerRefInvalidNamespace"), None)

    event = await api.eventually(told, "the event")
    uid = owner["metadata"]["uid"]
    named = f"[v1/ConfigMap, namespace: {api.namespace}, name: owner, uid: {uid}]"
    assert event["message"] == f'ownerRef {named} does not exist in namespace "{api.namespace}"'
    assert (event["type"], event["involvedObject"]["uid"]) == ("Warning", child["metadata"]["uid"])
    assert (await api.get(f"/api/v1/namespaces/{elsewhere}/configmaps/owner")).code == 200


async def test_a_cluster_scoped_object_of_an_owner_in_a_namespace_is_kept(api: Api) -> None:
    owner = await made(api, config_map("owner"))
    name = f"kept-{api.namespace}"
    body = {"metadata": {"name": name, "ownerReferences": owned_by(owner)}}
    path = "/apis/scheduling.k8s.io/v1/priorityclasses"
    (await api.post(path, {**body, "value": 1})).ok()
    await api.clock.sleep(6)
    assert (await api.get(f"{path}/{name}")).code == 200
    await api.call("DELETE", f"{path}/{name}")


@pytest.mark.parametrize("policy", ["Orphan", "Background"])
async def test_a_second_deletion_may_say_otherwise_of_the_dependents(api: Api, policy: str) -> None:
    owner = await made(api, config_map("owner"))
    await made(api, config_map("child", ownerReferences=owned_by(owner, blocking=True), finalizers=[HOLD]))
    path, child = api.at("configmaps", "owner"), api.at("configmaps", "child")
    await api.delete(path, {"propagationPolicy": "Foreground"})
    (await api.delete(path, {})).ok()
    assert (await api.get(path)).ok()["metadata"]["finalizers"] == ["foregroundDeletion"]
    (await api.delete(path, {"propagationPolicy": policy})).ok()
    await api.gone(path)
    await api.patch(child, {"metadata": {"finalizers": None}})


async def test_everything_in_a_namespace_is_deleted_with_it(api: Api) -> None:
    path = f"/api/v1/namespaces/{api.namespace}"
    await made(api, config_map(finalizers=[HOLD]))
    await made(api, pod(), "pods")
    ending = (await api.delete(path)).ok()
    assert ending["status"]["phase"] == "Terminating"
    refused = await api.post(api.at("configmaps"), config_map("late"))
    assert (refused.code, refused.reason) == (403, "Forbidden")
    assert refused.message == (
        f'configmaps "late" is forbidden: unable to create new content in namespace {api.namespace} '
        "because it is being terminated"
    )
    assert refused.body["details"]["causes"] == [
        {
            "reason": "NamespaceTerminating",
            "message": f"namespace {api.namespace} is being terminated",
            "field": "metadata.namespace",
        }
    ]

    async def held_item_ends() -> bool:
        return "deletionTimestamp" in (await api.get(api.at("configmaps", "a"))).ok()["metadata"]

    await api.eventually(held_item_ends, "content is being deleted")
    await api.gone(api.at("pods", "p"))
    await api.patch(api.at("configmaps", "a"), {"metadata": {"finalizers": None}})
    await api.gone(path, seconds=40)


@pytest.mark.parametrize("name", ["default", "kube-system"])
async def test_the_first_namespaces_stay(api: Api, name: str) -> None:
    answer = await api.delete(f"/api/v1/namespaces/{name}")
    assert (answer.code, answer.reason) == (403, "Forbidden")
    assert answer.message == f'namespaces "{name}" is forbidden: this namespace may not be deleted'
