"""CustomResourceDefinitions: from their creation to their deletion with all objects of the kind."""

import asyncio
from typing import Any

import pytest

from kubewright.testing.api import Api, Object
from kubewright.wire.http import STRATEGIC_PATCH

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
SPEC = {
    "type": "object",
    "required": ["size"],
    "properties": {
        "size": {"type": "integer", "minimum": 1, "maximum": 10},
        "replicas": {"type": "integer"},
        "colour": {"type": "string", "enum": ["red", "blue"], "default": "red"},
        "name": {"type": "string", "pattern": "^[a-z]+$", "maxLength": 5},
        "deep": {"type": "object", "properties": {"name": {"type": "string", "default": "d"}}},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "any": {"x-kubernetes-int-or-string": True},
        "list": {"type": "array", "maxItems": 2, "items": {"type": "string"}},
        "nothing": {"type": "string", "nullable": True},
    },
}
STATUS = {
    "type": "object",
    "properties": {
        "phase": {"type": "string"},
        "replicas": {"type": "integer"},
        "selector": {"type": "string"},
    },
}
COLUMNS = [
    {"name": "Size", "type": "integer", "jsonPath": ".spec.size", "description": "How large."},
    {"name": "Phase", "type": "string", "jsonPath": ".status.phase"},
    {"name": "Deep", "type": "string", "jsonPath": ".spec.deep.name", "priority": 1},
    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
]
SCALE = {
    "specReplicasPath": ".spec.replicas",
    "statusReplicasPath": ".status.replicas",
    "labelSelectorPath": ".status.selector",
}


def version(name: str = "v1", **members: Any) -> Object:
    schema = {"type": "object", "description": "A widget.", "properties": {"spec": SPEC, "status": STATUS}}
    return {
        "name": name,
        "served": True,
        "storage": name == "v1",
        "subresources": {"status": {}, "scale": SCALE},
        "additionalPrinterColumns": COLUMNS,
        "schema": {"openAPIV3Schema": schema},
        **members,
    }


def definition(group: str, plural: str = "widgets", kind: str = "Widget", **spec: Any) -> Object:
    names = {"plural": plural, "singular": kind.lower(), "kind": kind, "shortNames": [kind[:2].lower()]}
    return {
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": [version()], **spec},
    }


class Widgets:
    """The custom resources of one test: their group, their collection."""

    def __init__(self, api: Api, version: str = "v1", group: str = "") -> None:
        self.api = api
        self.group = group or f"{api.namespace}.example.io"
        self.crd = f"{CRDS}/widgets.{self.group}"
        self.path = api.at("widgets", group=self.group, version=version)

    def widget(self, name: str = "w", spec: Any = None, **members: Any) -> Object:
        kind = {"apiVersion": f"{self.group}/v1", "kind": "Widget", "metadata": {"name": name}}
        return {**kind, "spec": {"size": 1} if spec is None else spec, **members}

    async def define(self, **spec: Any) -> Object:
        made = (await self.api.post(CRDS, definition(self.group, **spec))).ok()

        async def served() -> bool:
            return (await self.api.get(self.path)).code == 200

        await self.api.eventually(served, "the new kind is served")
        return made


@pytest.fixture
async def widgets(api: Api) -> Widgets:
    """A definition that all tests of one server share, because a real server takes seconds for it."""
    found = Widgets(api, group="shared.example.io")
    if (await api.get(found.path)).code == 404:
        await found.define()
    return found


def conditions(crd: Object) -> dict[str, str]:
    return {c["type"]: c["status"] for c in crd.get("status", {}).get("conditions") or []}


async def test_a_definition_is_accepted_and_established(widgets: Widgets) -> None:
    crd = (await widgets.api.get(widgets.crd)).ok()
    assert conditions(crd) == {"NamesAccepted": "True", "Established": "True"}
    assert crd["spec"]["names"]["listKind"] == "WidgetList"
    assert crd["spec"]["conversion"] == {"strategy": "None"}
    assert crd["status"]["acceptedNames"] == crd["spec"]["names"]
    assert crd["status"]["storedVersions"] == ["v1"]


async def test_a_custom_object_is_defaulted_and_pruned(widgets: Widgets) -> None:
    spec = {"size": 2, "unknown": 1, "deep": {}, "free": {"any": {"thing": 1}}}
    answer = await widgets.api.post(widgets.path, widgets.widget(spec=spec))
    made = answer.ok()
    assert made["spec"] == {"size": 2, "colour": "red", "deep": {"name": "d"}, "free": {"any": {"thing": 1}}}
    assert made["metadata"]["generation"] == 1
    assert answer.headers["warning"] == '299 - "unknown field \\"spec.unknown\\""'
    assert (await widgets.api.get(f"{widgets.path}/w")).ok() == made


async def test_an_unknown_field_is_refused_when_strict(widgets: Widgets) -> None:
    body = widgets.widget(spec={"size": 1, "unknown": 1})
    answer = await widgets.api.post(widgets.path, body, fieldValidation="Strict")
    assert (answer.code, answer.reason) == (400, "BadRequest")
    assert answer.message == (
        'Widget in version "v1" cannot be handled as a Widget: strict decoding error: '
        'unknown field "spec.unknown"'
    )


VIOLATIONS = [
    ("a required field is missing", {}, "Required", "spec.size", "Required value"),
    (
        "a string for a number",
        {"size": "a"},
        "TypeInvalid",
        "spec.size",
        'Invalid value: "string": spec.size in body must be of type integer: "string"',
    ),
    (
        "too large",
        {"size": 11},
        "Invalid",
        "spec.size",
        "Invalid value: 11: spec.size in body should be less than or equal to 10",
    ),
    (
        "too small",
        {"size": 0},
        "Invalid",
        "spec.size",
        "Invalid value: 0: spec.size in body should be greater than or equal to 1",
    ),
    (
        "not one of those",
        {"size": 1, "colour": "green"},
        "NotSupported",
        "spec.colour",
        'Unsupported value: "green": supported values: "red", "blue"',
    ),
    (
        "not of that pattern",
        {"size": 1, "name": "UP"},
        "Invalid",
        "spec.name",
        "Invalid value: \"UP\": spec.name in body should match '^[a-z]+$'",
    ),
    (
        "too long",
        {"size": 1, "name": "toolong"},
        "TooLong",
        "spec.name",
        "Too long: may not be more than 5 bytes",
    ),
    (
        "too many",
        {"size": 1, "list": ["a", "b", "c"]},
        "TooMany",
        "spec.list",
        "Too many: 3: must have at most 2 items",
    ),
    (
        "a number in a list of strings",
        {"size": 1, "list": [1]},
        "TypeInvalid",
        "spec.list[0]",
        'Invalid value: "integer": spec.list[0] in body must be of type string: "integer"',
    ),
    (
        "neither number nor string",
        {"size": 1, "any": True},
        "TypeInvalid",
        "spec.any",
        'Invalid value: "boolean": spec.any in body must be of type integer,string: "boolean"',
    ),
]


@pytest.mark.parametrize(
    ("spec", "reason", "field", "message"),
    [row[1:] for row in VIOLATIONS],
    ids=[row[0] for row in VIOLATIONS],
)
async def test_what_breaks_the_schema_is_refused(
    widgets: Widgets, spec: Object, reason: str, field: str, message: str
) -> None:
    answer = await widgets.api.post(widgets.path, widgets.widget("x", spec))
    assert (answer.code, answer.reason) == (422, "Invalid")
    assert answer.causes == [(f"FieldValue{reason}", field, message)]
    assert answer.message == f'Widget.{widgets.group} "x" is invalid: {field}: {message}'
    assert answer.body["details"]["group"] == widgets.group
    assert (await widgets.api.get(f"{widgets.path}/x")).code == 404


async def test_every_violation_is_reported(widgets: Widgets) -> None:
    answer = await widgets.api.post(widgets.path, widgets.widget("x", {"size": 0, "name": "toolong"}))
    assert {(reason, field) for reason, field, _ in answer.causes} == {
        ("FieldValueTooLong", "spec.name"),
        ("FieldValueInvalid", "spec.size"),
    }
    assert answer.message.startswith(f'Widget.{widgets.group} "x" is invalid: [')


async def test_nulls_are_dropped_unless_the_schema_wants_them(widgets: Widgets) -> None:
    spec = {"size": 1, "colour": None, "name": None, "nothing": None}
    answer = await widgets.api.post(widgets.path, widgets.widget(spec=spec))
    if answer.code == 422:
        assert {field for _, field, _ in answer.causes} == {"spec.name"}
    else:
        assert answer.ok()["spec"] == {"size": 1, "colour": "red", "nothing": None}


@pytest.mark.parametrize(
    ("change", "code", "message"),
    [
        ({"kind": "Foo"}, 422, 'Foo.{group} "x" is invalid: kind: Invalid value: "Foo": must be Widget'),
        (
            {"apiVersion": "{group}/v2"},
            400,
            "the API version in the data ({group}/v2) does not match the expected API version ({group}/v1)",
        ),
    ],
    ids=["another kind", "another version"],
)
async def test_another_kind_or_version_is_refused(
    widgets: Widgets, change: dict[str, str], code: int, message: str
) -> None:
    filled = {name: value.format(group=widgets.group) for name, value in change.items()}
    answer = await widgets.api.post(widgets.path, widgets.widget("x") | filled)
    assert (answer.code, answer.message) == (code, message.format(group=widgets.group))


async def test_a_replacement_must_name_its_version(widgets: Widgets) -> None:
    (await widgets.api.post(widgets.path, widgets.widget())).ok()
    answer = await widgets.api.put(f"{widgets.path}/w", widgets.widget(spec={"size": 2}))
    assert (answer.code, answer.reason) == (422, "Invalid")
    assert answer.causes == [
        ("FieldValueInvalid", "metadata.resourceVersion", "Invalid value: 0: must be specified for an update")
    ]


async def test_there_is_no_strategic_patch(widgets: Widgets) -> None:
    (await widgets.api.post(widgets.path, widgets.widget())).ok()
    answer = await widgets.api.patch(f"{widgets.path}/w", {"spec": {}}, content_type=STRATEGIC_PATCH)
    assert (answer.code, answer.reason) == (415, "UnsupportedMediaType")


async def test_the_uid_in_a_status_is_no_condition(widgets: Widgets) -> None:
    """Of its own kinds a server takes nothing but the status; only the version is compared before that."""
    (await widgets.api.post(widgets.path, widgets.widget())).ok()
    path = f"{widgets.path}/{widgets.widget()['metadata']['name']}/status"
    body = {"metadata": {"uid": "zz"}, "status": {"phase": "Up"}}
    assert (await widgets.api.patch(path, body)).ok()["status"] == {"phase": "Up"}
    old = {"metadata": {"uid": "zz", "resourceVersion": "1"}, "status": {"phase": "Down"}}
    assert (await widgets.api.patch(path, old)).code == 409


async def test_status_and_spec_do_not_touch_each_other(widgets: Widgets) -> None:
    made = (await widgets.api.post(widgets.path, widgets.widget(status={"phase": "New"}))).ok()
    assert "status" not in made
    path = f"{widgets.path}/w"
    body = {"spec": {"size": 9}, "status": {"phase": "Up"}}
    status = (await widgets.api.patch(path + "/status", body)).ok()
    assert (status["spec"]["size"], status["status"]) == (1, {"phase": "Up"})
    assert status["metadata"]["generation"] == 1
    main = (await widgets.api.patch(path, {"status": {"phase": "Down"}, "spec": {"size": 2}})).ok()
    assert (main["spec"]["size"], main["status"]) == (2, {"phase": "Up"})
    assert main["metadata"]["generation"] == 2


async def test_a_custom_object_has_a_scale(widgets: Widgets) -> None:
    (await widgets.api.post(widgets.path, widgets.widget(spec={"size": 1, "replicas": 1}))).ok()
    path = f"{widgets.path}/w"
    (await widgets.api.patch(path + "/status", {"status": {"replicas": 2, "selector": "a=b"}})).ok()
    seen = (await widgets.api.get(path + "/scale")).ok()
    assert (seen["spec"], seen["status"]) == ({"replicas": 1}, {"replicas": 2, "selector": "a=b"})
    assert (await widgets.api.patch(path + "/scale", {"spec": {"replicas": 4}})).code == 200
    assert (await widgets.api.get(path)).ok()["spec"]["replicas"] == 4
    answer = await widgets.api.patch(path + "/scale", {"spec": {"replicas": -4}})
    assert (answer.code, answer.reason) == (422, "Invalid")


async def test_a_table_has_the_columns_of_the_definition(widgets: Widgets) -> None:
    (await widgets.api.post(widgets.path, widgets.widget(spec={"size": 3, "deep": {}}))).ok()
    table = (await widgets.api.get(widgets.path, accept="application/json;as=Table;v=v1;g=meta.k8s.io")).ok()
    columns = [(c["name"], c["type"], c["priority"]) for c in table["columnDefinitions"]]
    assert columns == [
        ("Name", "string", 0),
        ("Size", "integer", 0),
        ("Phase", "string", 0),
        ("Deep", "string", 1),
        ("Age", "date", 0),
    ]
    (row,) = table["rows"]
    assert row["cells"][:4] == ["w", 3, None, "d"]
    assert row["cells"][4].endswith("s")
    assert row["object"]["kind"] == "PartialObjectMetadata"


async def test_a_custom_kind_is_watched(widgets: Widgets) -> None:
    listed = (await widgets.api.get(widgets.path)).ok()
    async with widgets.api.watch(
        widgets.path, resourceVersion=listed["metadata"]["resourceVersion"]
    ) as watch:
        made = (await widgets.api.post(widgets.path, widgets.widget())).ok()
        assert (await watch.next("ADDED"))["object"] == made


async def test_a_custom_kind_is_discovered(widgets: Widgets) -> None:
    found = (await widgets.api.get(f"/apis/{widgets.group}/v1")).ok()
    by_name = {resource["name"]: resource for resource in found["resources"]}
    assert set(by_name) == {"widgets", "widgets/status", "widgets/scale"}
    widget = by_name["widgets"]
    assert (widget["kind"], widget["singularName"], widget["shortNames"]) == ("Widget", "widget", ["wi"])
    assert widget["namespaced"] is True
    assert set(widget["verbs"]) == {
        "create", "delete", "deletecollection", "get", "list", "patch", "update", "watch",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("change", "field", "message"),
    [
        (
            {"scope": "Foo"},
            "spec.scope",
            'Unsupported value: "Foo": supported values: "Cluster", "Namespaced"',
        ),
        (
            {"group": "other.io"},
            "metadata.name",
            'Invalid value: "widgets.{group}": must be spec.names.plural+"."+spec.group',
        ),
        (
            {"versions": [version(schema=None)]},
            "spec.versions[0].schema.openAPIV3Schema",
            "Required value",
        ),
    ],
    ids=["scope", "name", "schema"],
)
async def test_bad_definitions_are_refused(api: Api, change: Object, field: str, message: str) -> None:
    group = f"{api.namespace}.example.io"
    body = definition(group)
    body["spec"] |= change
    answer = await api.post(CRDS, body)
    assert (answer.code, answer.reason) == (422, "Invalid")
    assert (field, message.format(group=group)) in [(path, said) for _, path, said in answer.causes]


async def test_the_storage_version_must_be_one(api: Api) -> None:
    body = definition(f"{api.namespace}.example.io", versions=[version(storage=False)])
    answer = await api.post(CRDS, body)
    assert (answer.code, answer.reason) == (422, "Invalid")
    assert "must have exactly one version marked as storage version" in answer.message


async def test_the_scope_of_a_definition_is_fixed(widgets: Widgets) -> None:
    answer = await widgets.api.patch(widgets.crd, {"spec": {"scope": "Cluster"}})
    assert (answer.code, answer.reason) == (422, "Invalid")
    assert answer.causes == [
        ("FieldValueInvalid", "spec.scope", 'Invalid value: "Cluster": field is immutable')
    ]


async def test_a_changed_definition_holds_for_what_comes_after(api: Api) -> None:
    widgets = Widgets(api)
    await widgets.define()
    (await widgets.api.post(widgets.path, widgets.widget(spec={"size": 10}))).ok()
    lower = {**SPEC, "properties": {**SPEC["properties"], "size": {"type": "integer", "maximum": 5}}}  # type: ignore[dict-item]
    schema = {"type": "object", "properties": {"spec": lower, "status": STATUS}}
    body = {"spec": {"versions": [version(schema={"openAPIV3Schema": schema})]}}
    (await widgets.api.patch(widgets.crd, body)).ok()

    async def refused() -> bool:
        answer = await widgets.api.post(widgets.path, widgets.widget("x", {"size": 6}), dryRun="All")
        return answer.code == 422

    await widgets.api.eventually(refused, "the new schema holds")
    assert (await widgets.api.get(f"{widgets.path}/w")).ok()["spec"]["size"] == 10


async def test_one_object_is_served_in_every_version(api: Api) -> None:
    widgets = Widgets(api)
    await widgets.define(
        versions=[version(), version("v2", storage=False), version("v3", served=False, storage=False)]
    )
    (await api.post(widgets.path, widgets.widget())).ok()
    newer = Widgets(api, "v2")

    async def same() -> Object | None:
        answer = await api.get(f"{newer.path}/w")
        return answer.body if answer.code == 200 else None

    seen = await api.eventually(same, "the second version is served")
    assert seen["apiVersion"] == f"{widgets.group}/v2"
    assert (await api.get(Widgets(api, "v3").path)).code == 404
    await api.delete(widgets.crd)


async def test_a_kind_that_is_taken_is_not_accepted(widgets: Widgets) -> None:
    body = definition(widgets.group, "gadgets", "Widget")
    (await widgets.api.post(CRDS, body)).ok()
    path = f"{CRDS}/gadgets.{widgets.group}"

    async def judged() -> Object | None:
        crd = (await widgets.api.get(path)).ok()
        return crd if conditions(crd).get("NamesAccepted") else None

    crd = await widgets.api.eventually(judged, "the names are judged")
    assert conditions(crd)["NamesAccepted"] == "False"
    assert conditions(crd).get("Established") != "True"
    await widgets.api.delete(path)


async def test_the_objects_of_a_definition_are_deleted_with_it(api: Api) -> None:
    widgets = Widgets(api)
    await widgets.define()
    held = widgets.widget()
    held["metadata"]["finalizers"] = ["example.io/hold"]
    (await api.post(widgets.path, held)).ok()
    ending = (await api.delete(widgets.crd)).ok()
    assert ending["metadata"]["finalizers"] == ["customresourcecleanup.apiextensions.k8s.io"]

    async def object_ends() -> bool:
        return "deletionTimestamp" in (await api.get(f"{widgets.path}/w")).ok()["metadata"]

    await api.eventually(object_ends, "the objects are being deleted")
    late = await api.post(widgets.path, widgets.widget("late"))
    assert (late.code, late.message) == (
        403,
        f'widgets.{widgets.group} "late" is forbidden: create not allowed while custom resource definition '
        "is terminating",
    )
    await api.patch(f"{widgets.path}/w", {"metadata": {"finalizers": None}})
    await api.gone(widgets.crd)

    async def unserved() -> bool:
        return (await api.get(widgets.path)).code == 404

    await api.eventually(unserved, "the kind is no longer served")


async def test_a_watch_of_a_dropped_kind_ends(api: Api) -> None:
    widgets = Widgets(api)
    await widgets.define()
    listed = (await api.get(widgets.path)).ok()
    async with api.watch(
        widgets.path, resourceVersion=listed["metadata"]["resourceVersion"], timeoutSeconds="30"
    ) as watch:
        await api.delete(widgets.crd)
        async with asyncio.timeout(25):
            events = await watch.rest()
    assert all(event["type"] in ("BOOKMARK", "ERROR", "DELETED") for event in events)


async def test_a_finalizer_that_may_be_another_programs_is_warned_of(widgets: Widgets) -> None:
    words = "prefer a domain-qualified finalizer name{} to avoid accidental conflicts with other finalizer writers"
    path, api = widgets.path, widgets.api
    for finalizer, more in (("foo", ""), ("foo.io", " including a path (/)")):
        metadata = {"name": f"w-{finalizer}", "finalizers": [finalizer]}
        answer = await api.post(path, widgets.widget(metadata=metadata))
        assert words.format(more) in answer.headers["warning"], answer
        answer = await api.patch(f"{path}/w-{finalizer}", {"metadata": {"labels": {"a": "b"}}})
        assert "warning" not in answer.headers
        await api.patch(f"{path}/w-{finalizer}", {"metadata": {"finalizers": None}})
    metadata = {"name": "qualified", "finalizers": ["example.com/foo"]}
    answer = await api.post(path, widgets.widget(metadata=metadata))
    assert "warning" not in answer.headers
    await api.patch(f"{path}/qualified", {"metadata": {"finalizers": None}})


async def test_custom_resources_have_head(widgets: Widgets) -> None:
    api = widgets.api
    (await api.post(widgets.path, widgets.widget())).ok()
    group = f"/apis/{widgets.group}"
    for path in (group, f"{group}/v1", widgets.path, f"{widgets.path}/w", f"{widgets.path}/w/status"):
        answer = await api.call("HEAD", path)
        assert (answer.code, bool(answer.body)) == (200, False), path
    assert (await api.call("HEAD", f"{widgets.path}/nope")).code == 404
    watched = await api.call("HEAD", widgets.path, query={"watch": "1", "timeoutSeconds": "1"})
    assert (watched.code, bool(watched.body)) == (200, False)


async def test_a_version_in_which_objects_may_be_stored_stays(api: Api) -> None:
    widgets = Widgets(api)
    await widgets.define(versions=[version("v1", storage=False), version("v2", storage=True)])
    (await api.patch(f"{widgets.crd}/status", {"status": {"storedVersions": ["v1", "v2"]}})).ok()
    alone = {"spec": {"versions": [version("v2", storage=True)]}}
    refused = await api.patch(widgets.crd, alone)
    assert (refused.code, refused.reason) == (422, "Invalid")
    assert refused.causes == [
        (
            "FieldValueInvalid",
            "status.storedVersions[0]",
            'Invalid value: "v1": missing from spec.versions; v1 was previously a storage version, and must '
            "remain in spec.versions until a storage migration ensures no data remains persisted in v1 and "
            "removes v1 from status.storedVersions",
        )
    ]
    (await api.patch(f"{widgets.crd}/status", {"status": {"storedVersions": ["v2"]}})).ok()
    assert [each["name"] for each in (await api.patch(widgets.crd, alone)).ok()["spec"]["versions"]] == ["v2"]


async def test_an_object_larger_than_an_etcd_takes_is_not_stored(widgets: Widgets) -> None:
    def sized(length: int) -> Object:
        return widgets.widget("large", {"size": 1, "free": {"a": "x" * length}})

    refused = await widgets.api.post(widgets.path, sized(1_572_500))
    assert refused.message == "etcdserver: request is too large"
    assert refused.code == (413 if widgets.api.differs("refusals that are 500 upstream") else 500)
    (await widgets.api.post(widgets.path, sized(1_571_000))).ok()
    grown = await widgets.api.patch(f"{widgets.path}/large", {"spec": {"free": {"b": "x" * 2_000}}})
    assert grown.code == refused.code


async def test_a_label_that_is_null_is_empty(widgets: Widgets) -> None:
    for path, body in (
        (widgets.path, widgets.widget("n")),
        (widgets.api.at("configmaps"), {"metadata": {"name": "n"}}),
    ):
        body["metadata"] |= {"labels": {"a": None, "b": "c"}, "annotations": {"x": None}}
        made = (await widgets.api.post(path, body)).ok()["metadata"]
        assert (made["labels"], made["annotations"]) == ({"a": "", "b": "c"}, {"x": ""})
