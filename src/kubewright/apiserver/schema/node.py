"""A structural schema as a tree of nodes: what pruning, defaulting and patching walk along.

Theory.      Walking OpenAPI dicts for every request would be slow, so a ``Node`` has the keywords as
             attributes. Definitions that refer to themselves (JSONSchemaProps) become cycles, so a
             node is built once and shared.
Invariants.  Nodes do not change once ``build`` has returned.
Continues    in ``walk`` (prune, default, unknown fields), ``decode`` (Go's type errors).
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

import orjson

MISSING: Final = object()
"""No default: ``None`` would be one."""

OBJECT_META: Final = "#/components/schemas/meta.v1.ObjectMeta"
"""The one definition to which a custom resource's schema refers, implicitly."""

OpenApi = Mapping[str, Any]
Resolve = Callable[[str], "Node"]


class Node:
    """One place of a schema. ``values`` describes a map's values, ``items`` a list's items.

    ``atomic``    a map that has one manager as a whole (x-kubernetes-map-type).
    ``open``      unknown fields are kept here (x-kubernetes-preserve-unknown-fields).
    ``embedded``  the object is a whole API object with apiVersion, kind and metadata.
    ``defaults``  this node or one below it has a default; without one, defaulting skips the subtree. Of
                  an object it visits only ``default_fields``.
    ``unique``    the same for lists whose items must differ, with ``unique_fields``.
    ``zero``      what a Go encoder writes for this field when it was not set, if it writes anything.
    ``struct``    the Go struct that built-in definitions come from, e.g. ``v1.PodSpec``.
    """

    __slots__ = (
        "atomic", "default", "default_bytes", "default_fields", "defaults", "embedded", "fields", "format",
        "go", "items", "list_keys", "list_type", "merge_key", "nullable", "open", "strategies", "struct",
        "type", "unique", "unique_fields", "values", "zero",
    )  # fmt: skip

    def __init__(self) -> None:
        self.type = ""
        self.format = ""
        self.go = ""
        self.struct = ""
        self.fields: dict[str, Node] = {}
        self.values: Node | None = None
        self.items: Node | None = None
        self.atomic = False
        self.open = False
        self.embedded = False
        self.nullable = False
        self.default: Any = MISSING
        self.default_bytes = 0
        self.zero: Any = MISSING
        self.defaults = False
        self.default_fields: tuple[tuple[str, Node], ...] = ()
        self.merge_key: str | None = None
        self.strategies: frozenset[str] = frozenset()
        self.list_type = ""
        self.list_keys: tuple[str, ...] = ()
        self.unique = False
        self.unique_fields: tuple[tuple[str, Node], ...] = ()

    @property
    def has_default(self) -> bool:
        return self.default is not MISSING


ANYTHING: Final = Node()
"""The values of a map about which its schema says nothing (``additionalProperties: true``)."""


def unresolved(ref: str) -> Node:
    """For schemas that cannot contain references: those of CustomResourceDefinitions."""
    raise ValueError(f"$ref {ref!r} is not allowed here")


def build(schema: OpenApi, resolve: Resolve = unresolved, *, into: Node | None = None) -> Node:
    """The tree of a schema; ``resolve`` gives the (maybe unfinished) node of a reference."""
    node = into or Node()
    if (ref := schema.get("$ref")) is not None:
        _copy_into(node, resolve(ref))
    else:
        _shape(node, schema, resolve)
    _extensions(node, schema)
    if node.embedded:
        _embed(node, resolve)
    _sum_up(node)
    return node


def _sum_up(node: Node) -> None:
    """Note which children have defaults or unique lists. Metadata is handled elsewhere."""
    own = [(name, child) for name, child in node.fields.items() if not (node.embedded and name == "metadata")]
    inner = [child for child in (node.values, node.items) if child is not None]
    node.default_fields = tuple((name, child) for name, child in own if child.defaults)
    node.unique_fields = tuple((name, child) for name, child in own if child.unique)
    node.defaults = node.has_default or bool(node.default_fields) or any(child.defaults for child in inner)
    node.unique = (
        node.list_type in ("set", "map") or bool(node.unique_fields) or any(child.unique for child in inner)
    )


def _copy_into(node: Node, target: Node) -> None:
    """Share the content of a definition; keywords beside the reference are the node's own."""
    for name in ("type", "format", "struct", "fields", "values", "items", "open", "atomic", "strategies"):
        setattr(node, name, getattr(target, name))


def _shape(node: Node, schema: OpenApi, resolve: Resolve) -> None:
    node.type = schema.get("type", "")
    node.format = schema.get("format", "")
    for name, child in schema.get("properties", {}).items():
        node.fields[name] = build(child, resolve)
    values = schema.get("additionalProperties")
    if isinstance(values, Mapping):
        node.values = build(values, resolve)
    elif values is True:
        node.values = ANYTHING
    if (items := schema.get("items")) is not None:
        node.items = build(items, resolve)


def _embed(node: Node, resolve: Resolve) -> None:
    """An embedded API object: the schema need not declare apiVersion, kind and metadata."""
    node.fields["metadata"] = resolve(OBJECT_META)
    for name in ("apiVersion", "kind"):
        node.fields.setdefault(name, build({"type": "string"}))


def _extensions(node: Node, schema: OpenApi) -> None:
    node.go = schema.get("x-go-type", node.go)
    node.atomic = schema.get("x-kubernetes-map-type", "atomic" if node.atomic else "") == "atomic"
    node.open = bool(schema.get("x-kubernetes-preserve-unknown-fields", node.open))
    node.embedded = bool(schema.get("x-kubernetes-embedded-resource"))
    node.nullable = bool(schema.get("nullable"))
    node.zero = schema.get("x-go-zero", MISSING)
    node.default = schema.get("default", MISSING)
    if node.default is None and not node.nullable:
        node.default = MISSING
    node.default_bytes = 0 if node.default is MISSING else len(orjson.dumps(node.default))
    node.list_type = schema.get("x-kubernetes-list-type", "")
    node.list_keys = tuple(schema.get("x-kubernetes-list-map-keys", ()))
    node.merge_key = schema.get("x-kubernetes-patch-merge-key")
    if strategy := schema.get("x-kubernetes-patch-strategy"):
        node.strategies = frozenset(strategy.split(","))
