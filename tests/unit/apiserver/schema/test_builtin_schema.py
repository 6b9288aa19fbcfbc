"""The schemas of built-in kinds: notation, patch keys, decoding, and the promises of the data file."""

from typing import Any

import pytest

from kubewright.apiserver.schema import builtin
from kubewright.apiserver.schema.builtin import BuiltinSchema, closure, definition, table

LINES = [
    ("a scalar", "3 int32", {"type": "integer", "format": "int32"}),
    ("a pointer", "3 *string", {"type": "string"}),
    ("a list", "1 [string]", {"type": "array", "items": {"type": "string"}}),
    (
        "a map",
        "1 {quantity}",
        {
            "type": "object",
            "additionalProperties": {"x-kubernetes-int-or-string": True, "format": "quantity"},
        },
    ),
    (
        "a struct, which Go always writes",
        "1 core.v1.PodSpec",
        {"$ref": "#/components/schemas/core.v1.PodSpec", "x-go-zero": {}},
    ),
    ("a pointer to a struct", "1 *core.v1.PodSpec", {"$ref": "#/components/schemas/core.v1.PodSpec"}),
    (
        "a required list, for which Go writes null",
        "1 [string] required",
        {"type": "array", "items": {"type": "string"}, "x-go-zero": None},
    ),
    ("a required number", "1 int32 required", {"type": "integer", "format": "int32", "x-go-zero": 0}),
    (
        "a list with one manager",
        "1 [string] patch(merge) atomic",
        {
            "type": "array",
            "items": {"type": "string"},
            "x-kubernetes-patch-strategy": "merge",
            "x-kubernetes-list-type": "atomic",
        },
    ),
    (
        "a list by keys",
        "1 [core.v1.ContainerPort] by(containerPort,protocol) patch(merge) key(containerPort)",
        {
            "type": "array",
            "items": {"$ref": "#/components/schemas/core.v1.ContainerPort"},
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["containerPort", "protocol"],
            "x-kubernetes-patch-strategy": "merge",
            "x-kubernetes-patch-merge-key": "containerPort",
        },
    ),
    ("a default", '1 string ="TCP"', {"type": "string", "default": "TCP"}),
]


@pytest.mark.parametrize(("line", "schema"), [c[1:] for c in LINES], ids=[c[0] for c in LINES])
def test_notation(line: str, schema: dict[str, Any]) -> None:
    assert builtin.read_definition({"f": line})["properties"]["f"] == schema


def test_required_stands_on_the_definition() -> None:
    assert builtin.read_definition({"a": "1 string required", "b": "2 string"})["required"] == ["a"]


def test_an_unknown_word_is_an_error() -> None:
    with pytest.raises(ValueError, match="frobnicate"):
        builtin.read_definition({"a": "1 string frobnicate"})


def test_every_definition_can_be_read_and_refers_only_to_known_ones() -> None:
    names = table("builtin.json").keys()
    for name in names:
        assert set(closure(name)) <= names
        assert definition(name)["type"] == "object"


def test_descriptions_are_about_fields_that_exist() -> None:
    for name, words in table("descriptions.json").items():
        if name != "*":
            assert words.keys() - {""} <= table("builtin.json")[name].keys(), name


MERGE_KEYS = [
    ("core.v1.Pod", "spec.containers", "name", ("merge",)),
    ("core.v1.Pod", "spec.containers.ports", "containerPort", ("merge",)),
    ("core.v1.Pod", "spec.volumes", "name", ("merge", "retainKeys")),
    ("core.v1.Pod", "spec.tolerations", None, ()),
    ("core.v1.Pod", "metadata.ownerReferences", "uid", ("merge",)),
    ("core.v1.Pod", "metadata.finalizers", None, ("merge",)),
    ("core.v1.Pod", "metadata.labels", None, ()),
    ("core.v1.Node", "status.conditions", "type", ("merge",)),
    ("core.v1.Node", "spec.taints", None, ()),
    ("apps.v1.Deployment", "spec.strategy", None, ("retainKeys",)),
    ("apps.v1.Deployment", "spec.template.spec.containers.env", "name", ("merge",)),
    ("core.v1.Pod", "no.such.path", None, ()),
]


@pytest.mark.parametrize(("name", "path", "key", "strategies"), MERGE_KEYS, ids=str)
def test_patch_keys(name: str, path: str, key: str | None, strategies: tuple[str, ...]) -> None:
    assert BuiltinSchema(name).merge_keys(tuple(path.split("."))) == (key, frozenset(strategies))


def test_a_definition_that_contains_itself_is_tied_into_a_loop() -> None:
    crd = BuiltinSchema("apiextensions.v1.CustomResourceDefinition")
    node = crd.node
    for name in ("spec", "versions"):
        node = node.fields[name]
    assert node.items is not None
    schema = node.items.fields["schema"].fields["openAPIV3Schema"]
    inner = schema.fields["properties"].values
    assert inner is not None
    assert inner.fields is schema.fields


def test_nulls_mean_what_they_mean_to_gos_decoder() -> None:
    pod = BuiltinSchema("core.v1.Pod")
    body = {
        "metadata": {"name": "p", "creationTimestamp": None},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    assert pod.decode_error(body) is None
    assert "creationTimestamp" not in pod.default(body)["metadata"]


def test_whole_numbers_are_written_without_a_fraction() -> None:
    body = {"spec": {"terminationGracePeriodSeconds": 3.0}}
    assert BuiltinSchema("core.v1.Pod").decode_error(body) == (
        "json: cannot unmarshal number 3.0 into Go struct field "
        "PodSpec.spec.terminationGracePeriodSeconds of type int64"
    )


@pytest.mark.parametrize(
    ("sent", "written"),
    [(1.5, "1500m"), (1e9, "1G"), (2.0, "2"), (0.0, "0"), (1e-9, "1n"), (2, 2), ("0.5", "0.5")],
)
def test_a_quantity_that_was_sent_with_a_fraction_is_stored_as_text(sent: Any, written: Any) -> None:
    containers = [{"name": "a", "resources": {"requests": {"cpu": sent}}}]
    pod: dict[str, Any] = {"spec": {"containers": containers}}
    stored = BuiltinSchema("core.v1.Pod").whole(pod)
    assert stored["spec"]["containers"][0]["resources"]["requests"] == {"cpu": written}
    node: dict[str, Any] = {"status": {"capacity": {"cpu": sent}}}
    assert BuiltinSchema("core.v1.Node").whole(node)["status"]["capacity"] == {"cpu": written}
