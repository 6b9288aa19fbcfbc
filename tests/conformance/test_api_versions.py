"""Kinds with several versions: what is stored, what each version shows, and what converts between them."""

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
from tests.conformance.converters import CRDS, KEPT, TEXT, V1, V2, Gates, Webhook, version, webhook

from kubewright.testing.api import Answer, Api, Object
from kubewright.wire.http import APPLY_PATCH, JSON_PATCH, MERGE_PATCH

pytestmark = pytest.mark.looptime(False)


@pytest.fixture(scope="module")
def hook() -> Iterator[Webhook]:
    with webhook() as found:
        yield found


@pytest.fixture
async def gates(api: Api, hook: Webhook) -> AsyncIterator[Gates]:
    """v1 and v2, stored in v2, converted by the webhook."""
    found = Gates(api)
    hook.answers.clear()
    await found.define([version("v1", V1), version("v2", V2, storage=True)], hook)
    yield found
    hook.answers.clear()


SENT = {"length": 3, "unit": "m", "color": "red"}
SHOWN = {"size": "3m"}


async def test_an_object_is_shown_in_each_version_as_the_webhook_converts_it(gates: Gates) -> None:
    made = (await gates.post("v2", "a", SENT, labels={"a": "b"})).ok()
    seen = await gates.get("v1", "a")
    assert (seen["apiVersion"], seen["spec"]) == (f"{gates.group}/v1", SHOWN)
    assert seen["metadata"]["annotations"] == {KEPT: "red"}
    assert seen["metadata"]["labels"] == {"a": "b"}
    same = ("uid", "resourceVersion", "creationTimestamp", "generation")
    assert [seen["metadata"][name] for name in same] == [made["metadata"][name] for name in same]


async def test_an_object_that_is_made_in_one_version_is_stored_in_another(
    gates: Gates, hook: Webhook
) -> None:
    made = (await gates.post("v1", "a", SHOWN)).ok()
    assert (made["apiVersion"], made["spec"]) == (f"{gates.group}/v1", SHOWN)
    asked = len(hook.asked)
    seen = await gates.get("v2", "a")
    assert seen["spec"] == {"length": 3, "unit": "m"}
    assert len(hook.asked) == asked, "the version that is stored needs no conversion"


async def test_a_change_in_one_version_keeps_what_only_the_other_holds(gates: Gates) -> None:
    (await gates.post("v2", "a", SENT)).ok()
    changed = (await gates.api.patch(gates.path("v1", "a"), {"spec": {"size": "4m"}})).ok()
    assert changed["spec"] == {"size": "4m"}
    assert changed["metadata"]["generation"] == 2
    assert (await gates.get("v2", "a"))["spec"] == {"length": 4, "unit": "m", "color": "red"}
    json_patch = [{"op": "replace", "path": "/spec/size", "value": "5k"}]
    (await gates.api.patch(gates.path("v1", "a"), json_patch, content_type=JSON_PATCH)).ok()
    seen = await gates.get("v1", "a")
    seen["spec"]["replicas"] = 2
    (await gates.api.put(gates.path("v1", "a"), seen)).ok()
    found = (await gates.get("v2", "a"))["spec"]
    assert found == {"length": 5, "unit": "k", "color": "red", "replicas": 2}


async def test_a_lock_on_a_version_holds_whichever_version_is_written(gates: Gates) -> None:
    (await gates.post("v2", "a", SENT)).ok()
    old, newer = await gates.get("v1", "a"), await gates.get("v2", "a")
    newer["spec"]["color"] = "blue"
    (await gates.api.put(gates.path("v2", "a"), newer)).ok()
    old["spec"]["size"] = "9m"
    refused = await gates.api.put(gates.path("v1", "a"), old)
    assert (refused.code, refused.reason) == (409, "Conflict")


async def test_a_write_that_changes_nothing_keeps_its_version(gates: Gates) -> None:
    made = (await gates.post("v2", "a", SENT)).ok()
    same = (await gates.api.patch(gates.path("v1", "a"), {"spec": SHOWN})).ok()
    assert same["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]


async def test_status_and_scale_are_written_in_each_version(gates: Gates) -> None:
    (await gates.post("v2", "a", SENT)).ok()
    said = {"status": {"said": "x", "replicas": 2}}
    (await gates.api.patch(f"{gates.path('v1', 'a')}/status", said)).ok()
    assert (await gates.get("v2", "a"))["status"] == said["status"]
    scaled = (await gates.api.patch(f"{gates.path('v1', 'a')}/scale", {"spec": {"replicas": 7}})).ok()
    assert (scaled["spec"], scaled["status"]) == ({"replicas": 7}, {"replicas": 2})
    assert (await gates.api.get(f"{gates.path('v1', 'a')}/scale")).ok()["spec"] == {"replicas": 7}
    assert (await gates.get("v2", "a"))["spec"] == {**SENT, "replicas": 7}


async def test_a_list_is_converted_and_selected_as_its_version_shows_it(gates: Gates) -> None:
    for number in range(5):
        (
            await gates.post("v2", f"g{number}", {"length": number, "unit": "m"}, labels={"n": str(number)})
        ).ok()
    listed = (await gates.api.get(gates.path("v1"))).ok()
    assert [item["spec"]["size"] for item in listed["items"]] == ["0m", "1m", "2m", "3m", "4m"]
    assert {item["apiVersion"] for item in listed["items"]} == {f"{gates.group}/v1"}
    page = (await gates.api.get(gates.path("v1"), limit="2")).ok()
    assert [item["metadata"]["name"] for item in page["items"]] == ["g0", "g1"]
    rest = (
        await gates.api.get(gates.path("v1"), limit="2", **{"continue": page["metadata"]["continue"]})
    ).ok()
    assert [item["metadata"]["name"] for item in rest["items"]] == ["g2", "g3"]
    chosen = (await gates.api.get(gates.path("v1"), labelSelector="n in (1,3)")).ok()
    assert [item["spec"]["size"] for item in chosen["items"]] == ["1m", "3m"]


async def test_a_watch_shows_each_change_in_its_version(gates: Gates) -> None:
    (await gates.post("v2", "a", SENT)).ok()
    async with gates.api.watch(gates.path("v1")) as watch:
        assert (await watch.next("ADDED"))["object"]["spec"] == SHOWN
        (await gates.api.patch(gates.path("v2", "a"), {"spec": {"length": 8}})).ok()
        assert (await watch.next("MODIFIED"))["object"]["spec"] == {"size": "8m"}
        (await gates.api.delete(gates.path("v2", "a"))).ok()
        gone = (await watch.next("DELETED"))["object"]
        assert (gone["apiVersion"], gone["spec"]) == (f"{gates.group}/v1", {"size": "8m"})


async def test_objects_are_deleted_in_each_version(gates: Gates) -> None:
    for name in ("a", "b", "c"):
        (await gates.post("v2", name, SENT, labels={"n": name}, finalizers=[])).ok()
    (await gates.api.delete(gates.path("v1", "a"))).ok()
    await gates.api.gone(gates.path("v1", "a"))
    (await gates.api.call("DELETE", gates.path("v1"), query={"labelSelector": "n=b"})).ok()
    await gates.api.gone(gates.path("v2", "b"))
    assert (await gates.get("v2", "c"))["spec"] == SENT


def _changed(change: Callable[[Object], Any]) -> Callable[[Object], Object]:
    def of(answer: Object) -> Object:
        change(answer["response"])
        return answer

    return of


def _of_one(change: Callable[[Object], Any]) -> Callable[[Object], Object]:
    return _changed(lambda response: change(response["convertedObjects"][0]))


LIES: dict[str, tuple[Callable[[Object], Any], str]] = {
    "another uid of the review": (
        _changed(lambda response: response.update(uid="x")),
        'failed: expected response.uid="<uid>", got "x"',
    ),
    "no response": (lambda answer: {**answer, "response": None}, "failed: no response provided"),
    "another kind of answer": (
        lambda answer: {**answer, "kind": "AdmissionReview"},
        "",
    ),
    "no success": (
        _changed(lambda response: response.update(result={"status": "Failure", "message": "cannot do that"})),
        "failed: cannot do that",
    ),
    "no result": (
        _changed(lambda response: response.pop("result")),
        "failed: response.result.status was '', not 'Success'",
    ),
    "no objects": (
        _changed(lambda response: response.pop("convertedObjects")),
        "returned 0 objects, expected 1",
    ),
    "too many objects": (
        _changed(lambda response: response["convertedObjects"].append(response["convertedObjects"][0])),
        "returned 2 objects, expected 1",
    ),
    "another version": (
        _of_one(lambda obj: obj.update(apiVersion="other.io/v1")),
        "returned invalid object at index 0: invalid groupVersion (expected {group}/v1, received other.io/v1)",
    ),
    "another kind": (
        _of_one(lambda obj: obj.update(kind="Door")),
        "returned invalid object at index 0: invalid kind (expected Gate, received Door)",
    ),
    "another name": (
        _of_one(lambda obj: obj["metadata"].update(name="b")),
        "returned invalid object: must have the same name: a != b",
    ),
    "another namespace": (
        _of_one(lambda obj: obj["metadata"].update(namespace="other")),
        "returned invalid object: must have the same namespace: {namespace} != other",
    ),
    "another uid": (
        _of_one(lambda obj: obj["metadata"].update(uid="1")),
        "returned invalid object: must have the same UID: <uid> != 1",
    ),
    "a label that is no text": (
        _of_one(lambda obj: obj["metadata"].update(labels={"a": 1})),
        "returned invalid metadata: metadata.labels[a] must be a string",
    ),
}


@pytest.mark.parametrize("lie", LIES)
async def test_a_webhook_that_lies_is_not_believed(gates: Gates, hook: Webhook, lie: str) -> None:
    made = (await gates.post("v2", "a", SENT)).ok()
    change, said = LIES[lie]
    hook.answers[:] = [change] * 30
    answer = await gates.api.get(gates.path("v1", "a"))
    hook.answers.clear()
    assert (answer.code, answer.reason) == (500, "")
    about = f"conversion webhook for {gates.group}/v2, Kind=Gate "
    expected = said.replace("{group}", gates.group).replace("{namespace}", gates.api.namespace)
    message = answer.message.replace(made["metadata"]["uid"], "<uid>")
    if lie == "another uid of the review":
        assert message.startswith(about + expected.partition("<uid>")[0])
        assert message.endswith(expected.partition("<uid>")[2])
    else:
        assert message.startswith(about + expected)


async def test_only_labels_and_annotations_of_the_metadata_are_converted(gates: Gates, hook: Webhook) -> None:
    made = (await gates.post("v2", "a", SENT)).ok()

    def changed(obj: Object) -> None:
        obj["metadata"].update(resourceVersion="1", finalizers=["x/y"], labels={"new": "yes"}, generation=9)

    hook.answers[:] = [_of_one(changed)] * 30
    seen = (await gates.get("v1", "a"))["metadata"]
    hook.answers.clear()
    assert seen["labels"] == {"new": "yes"}
    assert "finalizers" not in seen
    assert (seen["resourceVersion"], seen["generation"]) == (made["metadata"]["resourceVersion"], 1)


async def test_a_webhook_that_is_away_is_named(api: Api) -> None:
    gates = Gates(api)
    with webhook() as away:
        await gates.define([version("v1", V1), version("v2", V2, storage=True)], away)
    (await gates.post("v2", "a", SENT)).ok()
    dial = f"dial tcp {away.url.split('/')[2]}: connect: connection refused"
    said = (
        f'conversion webhook for {gates.group}/{{}}, Kind=Gate failed: Post "{away.url}?timeout=30s": {dial}'
    )
    assert (await api.get(gates.path("v2", "a"))).code == 200
    got = await api.get(gates.path("v1", "a"))
    assert (got.code, got.message) == (500, said.format("v2"))
    refused = await gates.post("v1", "b", SHOWN)
    assert (refused.code, refused.message) == (500, said.format("v1"))
    assert (await api.get(gates.path("v2", "b"))).code == 404


async def test_a_webhook_with_a_certificate_of_another_authority_is_not_believed(
    api: Api, hook: Webhook
) -> None:
    gates = Gates(api)
    with webhook() as other:
        wrong = Webhook.__new__(Webhook)
        wrong.url, wrong.bundle = other.url, hook.bundle
        await gates.define([version("v1", V1), version("v2", V2, storage=True)], wrong)
        (await gates.post("v2", "a", SENT)).ok()
        got = await api.get(gates.path("v1", "a"))
    assert got.code == 500
    assert "tls: failed to verify certificate" in got.message


APPLIED = {"fieldManager": "one"}


async def _apply(gates: Gates, ver: str, spec: Object, manager: str, **query: str) -> Answer:
    body = gates.gate(ver, "a", spec)
    asked = {"fieldManager": manager, **query}
    return await gates.api.patch(gates.path(ver, "a"), body, content_type=APPLY_PATCH, **asked)


def managers(obj: Object) -> dict[tuple[str, str], Any]:
    found = {}
    for entry in obj["metadata"]["managedFields"]:
        spec = entry["fieldsV1"].get("f:spec", {})
        found[entry["manager"], entry["apiVersion"].rpartition("/")[2]] = sorted(spec)
    return found


async def test_managers_are_kept_in_the_version_in_which_they_wrote(gates: Gates) -> None:
    (await _apply(gates, "v1", {"size": "3m"}, "one")).ok()
    (await _apply(gates, "v2", {"color": "red"}, "two")).ok()
    seen = await gates.get("v2", "a")
    assert seen["spec"] == SENT
    assert managers(seen) == {("one", "v1"): ["f:size"], ("two", "v2"): ["f:color"]}
    assert managers(await gates.get("v1", "a")) == managers(seen)


async def test_a_conflict_is_found_across_versions(gates: Gates) -> None:
    (await _apply(gates, "v1", {"size": "3m"}, "one")).ok()
    refused = await _apply(gates, "v2", {"length": 4, "unit": "m"}, "two")
    assert refused.code == 409
    assert refused.message == 'Apply failed with 1 conflict: conflict with "one": .spec.size'
    forced = (await _apply(gates, "v2", {"length": 4, "unit": "m"}, "two", force="true")).ok()
    assert managers(forced) == {("two", "v2"): ["f:length", "f:unit"]}


async def test_one_manager_may_apply_in_two_versions_by_turns(gates: Gates) -> None:
    (await _apply(gates, "v1", {"size": "3m", "replicas": 1}, "one")).ok()
    (await _apply(gates, "v2", {"length": 5, "unit": "m", "color": "red"}, "one")).ok()
    seen = await gates.get("v2", "a")
    assert seen["spec"] == {"length": 5, "unit": "m", "color": "red"}
    assert managers(seen) == {("one", "v2"): ["f:color", "f:length", "f:unit"]}
    (await _apply(gates, "v1", {"size": "6k"}, "one")).ok()
    seen = await gates.get("v2", "a")
    assert (seen["spec"]["length"], seen["spec"]["unit"]) == (6, "k")
    assert managers(seen) == {("one", "v1"): ["f:size"]}


async def test_an_update_in_one_version_takes_fields_from_a_manager_of_another(gates: Gates) -> None:
    (await _apply(gates, "v1", {"size": "3m", "replicas": 1}, "one")).ok()
    change = {"spec": {"length": 4}}
    changed = await gates.api.patch(gates.path("v2", "a"), change, content_type=MERGE_PATCH, fieldManager="m")
    assert managers(changed.ok()) == {("one", "v1"): ["f:replicas"], ("m", "v2"): ["f:length"]}


async def test_without_a_webhook_versions_differ_in_their_schema_only(api: Api) -> None:
    gates = Gates(api)
    first = {"both": TEXT, "old": {"type": "string", "default": "O"}}
    second = {"both": TEXT, "new": {"type": "string", "default": "N"}}
    await gates.define([version("v1", first, storage=True), version("v2", second)])
    made = (await gates.post("v2", "a", {"both": "x"})).ok()
    assert made["spec"] == {"both": "x"}, "what is stored has no place for it"
    assert (await gates.get("v1", "a"))["spec"] == {"both": "x", "old": "O"}
    assert (await gates.get("v2", "a"))["spec"] == {"both": "x"}, "a default of a version that is not stored"
    (await gates.post("v1", "b", {"both": "y", "old": "mine"})).ok()
    listed = (await api.get(gates.path("v2"))).ok()["items"]
    assert [item["spec"] for item in listed] == [{"both": "x"}, {"both": "y"}]


async def test_the_storage_version_moves_and_old_versions_may_go_when_all_is_rewritten(gates: Gates) -> None:
    (await gates.post("v2", "a", SENT)).ok()
    assert (await gates.api.get(gates.crd)).ok()["status"]["storedVersions"] == ["v2"]
    moved = [version("v1", V1, storage=True), version("v2", V2)]
    crd = (await gates.api.patch(gates.crd, {"spec": {"versions": moved}})).ok()
    assert crd["status"]["storedVersions"] == ["v2", "v1"]

    async def rewritten() -> bool:
        """A write that changes nothing is one, if the object is in another version than is stored."""
        before = await gates.get("v1", "a")
        after = (await gates.api.put(gates.path("v1", "a"), before)).ok()
        return bool(after["metadata"]["resourceVersion"] != before["metadata"]["resourceVersion"])

    await gates.api.eventually(rewritten, "the object is stored in the other version")
    seen = await gates.get("v1", "a")
    assert seen["spec"] == SHOWN
    assert (await gates.get("v2", "a"))["spec"] == SENT
    alone = {"spec": {"versions": [version("v1", V1, storage=True)]}}
    refused = await gates.api.patch(gates.crd, alone)
    assert (refused.code, refused.causes[0][1]) == (422, "status.storedVersions[0]")
    (await gates.api.patch(f"{gates.crd}/status", {"status": {"storedVersions": ["v1"]}})).ok()
    (await gates.api.patch(gates.crd, alone)).ok()
    assert (await gates.get("v1", "a"))["spec"] == SHOWN


async def test_clients_of_a_deprecated_version_are_warned(api: Api) -> None:
    gates = Gates(api)
    old = version("v1alpha1", V1, deprecated=True)
    told = version("v1beta1", V1, deprecated=True, deprecationWarning="use something else")
    await gates.define([old, told, version("v1", V1, storage=True)])
    (await gates.post("v1", "a", SHOWN)).ok()

    async def warned(version: str, method: str = "GET", name: str = "a") -> str:
        answer = await api.call(method, gates.path(version, name))
        return str(answer.headers.get("warning", ""))

    said = f'299 - "{gates.group}/v1alpha1 Gate is deprecated; use {gates.group}/v1 Gate"'
    assert await warned("v1alpha1") == await warned("v1alpha1", name="") == said
    assert await warned("v1alpha1", name="gone") == said
    assert await warned("v1beta1") == '299 - "use something else"'
    assert await warned("v1") == ""


async def test_each_version_has_its_own_columns_subresources_and_selectable_fields(api: Api) -> None:
    gates = Gates(api)
    columns = [{"name": "Size", "type": "string", "jsonPath": ".spec.size"}]
    first = version("v1", V1, storage=True, additionalPrinterColumns=columns)
    second = version(
        "v2", {"size": TEXT, "unit": TEXT}, subresources={}, selectableFields=[{"jsonPath": ".spec.size"}]
    )
    await gates.define([first, second])
    (await gates.post("v1", "a", {"size": "3m"})).ok()
    (await gates.post("v1", "b", {"size": "4m"})).ok()
    accept = "application/json;as=Table;v=v1;g=meta.k8s.io"
    tables = [(await api.get(gates.path(each), accept=accept)).ok() for each in ("v1", "v2")]
    shown = [[column["name"] for column in table["columnDefinitions"]] for table in tables]
    assert shown == [["Name", "Size"], ["Name", "Age"]]
    assert (await api.get(f"{gates.path('v1', 'a')}/status")).code == 200
    assert (await api.get(f"{gates.path('v2', 'a')}/status")).code == 404
    found = (await api.get(gates.path("v2"), fieldSelector="spec.size=4m")).ok()["items"]
    assert [item["metadata"]["name"] for item in found] == ["b"]
    assert (await api.get(gates.path("v1"), fieldSelector="spec.size=4m")).code == 400
    group = (await api.get(f"/apis/{gates.group}")).ok()
    assert [each["version"] for each in group["versions"]] == ["v2", "v1"]
    assert group["preferredVersion"]["version"] == "v2"


HTTPS = "'https' is the only allowed URL scheme; desired format: https://host[/path]"
WRONG: dict[str, tuple[Object, list[tuple[str, str]]]] = {
    "no strategy that is known": ({"strategy": "Magic"}, [("spec.conversion.strategy", "Unsupported value")]),
    "no client": (
        {"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"]}},
        [("spec.conversion.webhookClientConfig", "Required value: required when strategy is set to Webhook")],
    ),
    "neither url nor service": (
        {"strategy": "Webhook", "webhook": {"clientConfig": {}, "conversionReviewVersions": ["v1"]}},
        [
            (
                "spec.conversion.webhookClientConfig",
                "Required value: exactly one of url or service is required",
            )
        ],
    ),
    "http": (
        {
            "strategy": "Webhook",
            "webhook": {"clientConfig": {"url": "http://a.b/c?d=e"}, "conversionReviewVersions": ["v1"]},
        },
        [
            ("spec.conversion.webhookClientConfig.url", f'Invalid value: "http": {HTTPS}'),
            (
                "spec.conversion.webhookClientConfig.url",
                'Invalid value: "d=e": query parameters are not permitted in the URL',
            ),
        ],
    ),
    "versions of reviews that are not known": (
        {
            "strategy": "Webhook",
            "webhook": {"clientConfig": {"url": "https://a.b"}, "conversionReviewVersions": ["v7", "v7"]},
        },
        [
            ("spec.conversion.conversionReviewVersions[1]", 'Invalid value: "v7": duplicate version'),
            (
                "spec.conversion.conversionReviewVersions",
                'Invalid value: ["v7","v7"]: must include at least one of v1, v1beta1',
            ),
        ],
    ),
    "a webhook without its strategy": (
        {
            "strategy": "None",
            "webhook": {"clientConfig": {"url": "https://a.b"}, "conversionReviewVersions": ["v1"]},
        },
        [
            (
                "spec.conversion.webhookClientConfig",
                "Forbidden: should not be set when strategy is not set to Webhook",
            ),
            (
                "spec.conversion.conversionReviewVersions",
                "Forbidden: should not be set when strategy is not set to Webhook",
            ),
        ],
    ),
    "a service with a bad port and a bad path": (
        {
            "strategy": "Webhook",
            "webhook": {
                "clientConfig": {"service": {"name": "b", "namespace": "a", "path": "/a//b", "port": 0}},
                "conversionReviewVersions": ["v1"],
            },
        },
        [
            (
                "spec.conversion.webhookClientConfig.service.port",
                "Invalid value: 0: port is not valid: must be between 1 and 65535, inclusive",
            ),
            (
                "spec.conversion.webhookClientConfig.service.path",
                'Invalid value: "/a//b": segment[1] may not be empty',
            ),
        ],
    ),
}


@pytest.mark.parametrize("wrong", WRONG)
async def test_a_conversion_that_cannot_be_is_refused(api: Api, wrong: str) -> None:
    conversion, causes = WRONG[wrong]
    group = f"w.{api.namespace}.example.io"
    names = {"plural": "gates", "kind": "Gate"}
    spec = {
        "group": group,
        "scope": "Namespaced",
        "names": names,
        "versions": [version("v1", V1, storage=True)],
    }
    body = {"metadata": {"name": f"gates.{group}"}, "spec": {**spec, "conversion": conversion}}
    refused = await api.post(CRDS, body)
    assert refused.code == 422
    told = sorted((field, message) for _, field, message in refused.causes)
    assert len(told) == len(causes)
    for (field, message), (where, said) in zip(told, sorted(causes), strict=True):
        assert field == where
        assert message.startswith(said)


async def test_versions_that_cannot_be_are_refused(api: Api) -> None:
    gates = Gates(api)
    await gates.define([version("v1", V1), version("v2", V1, storage=True)])
    both = [version("v1", V1, storage=True), version("v2", V1, storage=True)]
    none = [version("v1", V1), version("v2", V1)]
    for versions in (both, none):
        refused = await api.patch(gates.crd, {"spec": {"versions": versions}})
        assert refused.code == 422
        assert "must have exactly one version marked as storage version" in refused.message
    gone = await api.patch(gates.crd, {"spec": {"versions": [version("v1", V1, storage=True)]}})
    assert [field for _, field, _ in gone.causes] == ["status.storedVersions[0]"]

    fields = [{"jsonPath": ".spec.size"}]
    same = [version("v1", V1), version("v2", V1, storage=True, selectableFields=fields)]
    odd = await api.patch(gates.crd, {"spec": {"versions": same}})
    words = 'Invalid value: "": may only be set when `version.schema.openAPIV3Schema` is not included'
    assert odd.causes == [("FieldValueInvalid", "spec.versions[1].selectableFields", words)]
