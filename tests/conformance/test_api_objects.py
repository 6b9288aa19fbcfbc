"""Objects: created, read, replaced; fields that only the server writes, and which of two writes wins."""

import asyncio
from typing import Any

import pytest
import yaml

from kubewright.testing.api import Api


def config_map(name: str, data: dict[str, str] | None = None, **metadata: Any) -> dict[str, Any]:
    found = {"name": name, **metadata} if name else metadata
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": found, "data": data or {"k": "v"}}


async def test_what_is_created_comes_back_with_the_fields_of_the_server(api: Api) -> None:
    answer = await api.post(api.at("configmaps"), config_map("a", labels={"x": "y"}))
    made = answer.ok()
    assert answer.code == 201
    assert (made["kind"], made["apiVersion"], made["data"]) == ("ConfigMap", "v1", {"k": "v"})
    assert made["metadata"]["namespace"] == api.namespace
    assert made["metadata"]["labels"] == {"x": "y"}
    assert len(made["metadata"]["uid"]) == 36
    assert int(made["metadata"]["resourceVersion"]) > 0
    assert made["metadata"]["creationTimestamp"].endswith("Z")
    assert (await api.get(api.at("configmaps", "a"))).ok() == made


async def test_the_server_overrules_what_a_client_says_about_its_fields(api: Api) -> None:
    given = config_map("a", uid="mine", creationTimestamp="2001-01-01T00:00:00Z", generation=7)
    made = (await api.post(api.at("configmaps"), given)).ok()["metadata"]
    assert made["uid"] != "mine"
    assert not made["creationTimestamp"].startswith("2001")
    assert "selfLink" not in made


async def test_a_body_without_kind_is_of_the_kind_of_its_url(api: Api) -> None:
    made = (await api.post(api.at("configmaps"), {"metadata": {"name": "a"}})).ok()
    assert (made["kind"], made["apiVersion"]) == ("ConfigMap", "v1")


async def test_yaml_is_read_as_json_is(api: Api) -> None:
    body = b"kind: ConfigMap\napiVersion: v1\nmetadata: {name: a}\ndata:\n  text: |\n    one\n    two\n"
    answer = await api.call("POST", api.at("configmaps"), body, content_type="application/yaml")
    assert answer.ok()["data"] == {"text": "one\ntwo\n"}


async def test_yaml_is_written_when_asked_for(api: Api) -> None:
    await api.post(api.at("configmaps"), config_map("a", {"n": "1"}))
    answer = await api.get(api.at("configmaps", "a"), accept="application/yaml")
    assert answer.code == 200
    assert yaml.safe_load(answer.body)["data"] == {"n": "1"}


async def test_a_taken_name_is_refused(api: Api) -> None:
    await api.post(api.at("configmaps"), config_map("a"))
    answer = await api.post(api.at("configmaps"), config_map("a"))
    assert (answer.code, answer.reason) == (409, "AlreadyExists")
    assert answer.message == 'configmaps "a" already exists'
    assert answer.body["details"] == {"name": "a", "kind": "configmaps"}


async def test_names_are_taken_per_namespace_and_kind(api: Api) -> None:
    await api.post(api.at("configmaps"), config_map("a"))
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}}
    assert (await api.post(api.at("secrets"), secret)).code == 201
    elsewhere = f"{api.namespace}-other"
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": elsewhere}}
    (await api.post("/api/v1/namespaces", namespace)).ok()
    answer = await api.post(f"/api/v1/namespaces/{elsewhere}/configmaps", config_map("a"))
    assert answer.code == 201


async def test_a_generated_name_has_five_safe_letters_and_is_new_each_time(api: Api) -> None:
    made = [
        (await api.post(api.at("configmaps"), config_map("", generateName="g-"))).ok()["metadata"]
        for _ in range(3)
    ]
    assert all(one["generateName"] == "g-" for one in made)
    suffixes = {one["name"].removeprefix("g-") for one in made}
    assert len(suffixes) == 3
    assert all(len(s) == 5 and set(s) <= set("bcdfghjklmnpqrstvwxz2456789") for s in suffixes)


async def test_a_long_prefix_of_a_generated_name_is_cut(api: Api) -> None:
    made = (await api.post(api.at("configmaps"), config_map("", generateName="p" * 100))).ok()
    assert len(made["metadata"]["name"]) == 63


async def test_a_replacement_replaces_all_but_what_the_server_owns(api: Api) -> None:
    path = api.at("configmaps", "a")
    before = (await api.post(api.at("configmaps"), config_map("a", labels={"x": "y"}))).ok()
    after = (await api.put(path, config_map("a", {"other": "1"}))).ok()
    assert after["data"] == {"other": "1"}
    assert "labels" not in after["metadata"]
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert after["metadata"]["creationTimestamp"] == before["metadata"]["creationTimestamp"]
    assert int(after["metadata"]["resourceVersion"]) > int(before["metadata"]["resourceVersion"])


async def test_a_replacement_that_changes_nothing_is_no_write(api: Api) -> None:
    path = api.at("configmaps", "a")
    before = (await api.post(api.at("configmaps"), config_map("a"))).ok()
    after = (await api.put(path, before)).ok()
    assert after["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]


async def test_a_replacement_of_an_old_version_conflicts(api: Api) -> None:
    path = api.at("configmaps", "a")
    old = (await api.post(api.at("configmaps"), config_map("a"))).ok()
    (await api.put(path, {**old, "data": {"k": "2"}})).ok()
    answer = await api.put(path, {**old, "data": {"k": "3"}})
    assert (answer.code, answer.reason) == (409, "Conflict")
    assert answer.message == (
        'Operation cannot be fulfilled on configmaps "a": the object has been modified; '
        "please apply your changes to the latest version and try again"
    )
    assert answer.body["details"] == {"name": "a", "kind": "configmaps"}
    assert (await api.get(path)).ok()["data"] == {"k": "2"}


async def test_a_replacement_of_another_object_of_that_name_conflicts(api: Api) -> None:
    await api.post(api.at("configmaps"), config_map("a"))
    answer = await api.put(api.at("configmaps", "a"), config_map("a", uid="0123"))
    assert (answer.code, answer.reason) == (409, "Conflict")
    assert "Precondition failed: UID in precondition: 0123, UID in object meta: " in answer.message


@pytest.mark.parametrize("subresource", ["", "/status"], ids=["the object", "its status"])
async def test_an_empty_uid_is_as_good_as_none(api: Api, subresource: str) -> None:
    """Clients that write every field of their structs send it."""
    body = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "a"}}
    size = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1"}}}
    made = (await api.post(api.at("persistentvolumeclaims"), {**body, "spec": size})).ok()
    metadata = {**made["metadata"], "uid": "", "labels": {"a": "b"}}
    path = api.at("persistentvolumeclaims", "a") + subresource
    replaced = (await api.put(path, {**made, "metadata": metadata})).ok()["metadata"]
    patched = (await api.patch(path, {"metadata": {"uid": "", "labels": {"c": "d"}}})).ok()["metadata"]
    assert [each["uid"] for each in (replaced, patched)] == [made["metadata"]["uid"]] * 2
    assert patched["labels"] == {"a": "b", "c": "d"}


async def test_of_many_writers_that_read_the_same_version_one_wins(api: Api) -> None:
    path = api.at("configmaps", "a")
    seen = (await api.post(api.at("configmaps"), config_map("a"))).ok()
    answers = await asyncio.gather(*(api.put(path, {**seen, "data": {"k": str(n)}}) for n in range(10)))
    assert sorted(answer.code for answer in answers) == [200] + [409] * 9
    (won,) = (answer for answer in answers if answer.code == 200)
    assert (await api.get(path)).ok()["data"] == won.body["data"]


@pytest.mark.parametrize("verb", ["create", "replace", "patch", "delete"])
async def test_a_dry_run_answers_as_if_and_leaves_no_trace(api: Api, verb: str) -> None:
    path = api.at("configmaps", "a")
    if verb != "create":
        await api.post(api.at("configmaps"), config_map("a"))
    before = await api.get(path)
    match verb:
        case "create":
            answer = await api.post(api.at("configmaps"), config_map("a"), dryRun="All")
        case "replace":
            answer = await api.put(path, config_map("a", {"k": "2"}), dryRun="All")
        case "patch":
            answer = await api.patch(path, {"data": {"k": "2"}}, dryRun="All")
        case _:
            answer = await api.delete(path, dryRun="All")
    assert answer.code < 300
    if verb in ("replace", "patch"):
        assert answer.body["data"] == {"k": "2"}
    after = await api.get(path)
    assert (after.code, after.body) == (before.code, before.body)


async def test_the_generation_counts_changes_of_the_spec_only(api: Api) -> None:
    path = api.at("deployments", "d", group="apps")
    made = (await api.post(api.at("deployments", group="apps"), deployment())).ok()
    assert made["metadata"]["generation"] == 1
    labelled = (await api.patch(path, {"metadata": {"labels": {"x": "y"}}})).ok()
    assert labelled["metadata"]["generation"] == 1
    scaled = (await api.patch(path, {"spec": {"replicas": 0, "paused": True}})).ok()
    assert scaled["metadata"]["generation"] == 2


async def test_a_secret_turns_its_clear_text_into_data(api: Api) -> None:
    secret = {"metadata": {"name": "s"}, "data": {"a": "AAA=", "b": "AAA="}, "stringData": {"a": "hello"}}
    made = (await api.post(api.at("secrets"), secret)).ok()
    assert made["data"] == {"a": "aGVsbG8=", "b": "AAA="}
    assert "stringData" not in made
    assert made["type"] == "Opaque"


async def test_an_immutable_config_map_stays_as_it_is(api: Api) -> None:
    path = api.at("configmaps", "a")
    (await api.post(api.at("configmaps"), {**config_map("a"), "immutable": True})).ok()
    answer = await api.patch(path, {"data": {"k": "2"}})
    assert (answer.code, answer.reason) == (422, "Invalid")
    assert answer.causes == [
        ("FieldValueForbidden", "data", "Forbidden: field is immutable when `immutable` is set")
    ]
    assert (await api.patch(path, {"metadata": {"labels": {"x": "y"}}})).code == 200


async def test_a_node_gets_a_provider_id_once(api: Api) -> None:
    name = f"{api.namespace}-node"
    path = f"/api/v1/nodes/{name}"
    (await api.post("/api/v1/nodes", {"metadata": {"name": name}})).ok()
    assert (await api.patch(path, {"spec": {"providerID": "sim:///1"}})).code == 200
    answer = await api.patch(path, {"spec": {"providerID": "sim:///2"}})
    assert (answer.code, answer.reason) == (422, "Invalid")
    assert answer.causes == [
        (
            "FieldValueForbidden",
            "spec.providerID",
            'Forbidden: node updates may not change providerID except from "" to valid',
        )
    ]
    assert (await api.delete(path)).code == 200


async def test_a_new_namespace_is_active_and_labelled_with_its_name(api: Api) -> None:
    made = (await api.get(f"/api/v1/namespaces/{api.namespace}")).ok()
    assert made["status"] == {"phase": "Active"}
    assert made["spec"] == {"finalizers": ["kubernetes"]}
    assert made["metadata"]["labels"] == {"kubernetes.io/metadata.name": api.namespace}


async def test_times_of_a_lease_keep_their_microseconds(api: Api) -> None:
    path = api.at("leases", group="coordination.k8s.io")
    spec = {"holderIdentity": "me", "leaseDurationSeconds": 15, "renewTime": "2030-01-01T00:00:00.123456Z"}
    assert (await api.post(path, {"metadata": {"name": "l"}, "spec": spec})).ok()["spec"] == spec


def deployment(name: str = "d") -> dict[str, Any]:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {"replicas": 0, "selector": {"matchLabels": labels}, "template": template},
    }


UID = "6a0c5b7e-0000-4000-8000-000000000000"
OWNER = {"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": UID}


async def test_an_owner_reference_is_kept_once(api: Api) -> None:
    owner = (await api.post(api.at("configmaps"), config_map("o"))).ok()
    reference = {**OWNER, "uid": owner["metadata"]["uid"]}
    answer = await api.post(api.at("configmaps"), config_map("a", ownerReferences=[reference, reference]))
    assert answer.ok()["metadata"]["ownerReferences"] == [reference]
    assert "contains duplicate entries; API server dedups" in answer.headers["warning"]
    patch = {"metadata": {"ownerReferences": [reference, reference]}}
    answer = await api.patch(api.at("configmaps", "a"), patch)
    assert answer.ok()["metadata"]["ownerReferences"] == [reference]
    assert "contains duplicate entries after mutating admission happens" in answer.headers["warning"]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"apiVersion": "a/b/c"}, ".apiVersion"),
        ({"apiVersion": "apps/"}, ".apiVersion"),
        ({"kind": ""}, ".kind"),
        ({"kind": "Event"}, ""),
    ],
    ids=["two slashes", "no version", "no kind", "an event"],
)
async def test_an_owner_that_cannot_be_is_refused(api: Api, change: dict[str, Any], field: str) -> None:
    answer = await api.post(api.at("configmaps"), config_map("a", ownerReferences=[{**OWNER, **change}]))
    assert (answer.code, [cause[1] for cause in answer.causes]) == (422, [f"metadata.ownerReferences{field}"])
