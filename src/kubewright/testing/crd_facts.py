"""A CustomResourceDefinition as a table of facts: what it means, and none of its words.

Theory.      Two CRDs of one kind are interchangeable when their tables are equal: names, subresources,
             columns, and of each field its path, its type and what else the schema says of it. Descriptions
             are left out, and so is what does not change the meaning: the order of fields, and a default
             that is written out.
Invariants.  Pure. One fact is one line, and fields are sorted, so a difference is a line. An item of a list
             has ``[]`` in its path, a value of a map ``{}``.
Called by    tests of our CRDs; ``tools/crd_facts.py`` writes the tables of other projects' CRDs.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

Schema = Mapping[str, Any]

WORDS = ("description", "example", "externalDocs", "title")
INNER = ("properties", "items", "additionalProperties", "required")
IMPLIED = {"x-kubernetes-list-type": "atomic", "x-kubernetes-map-type": "granular", "minLength": 0}
"""What means the same as nothing."""


def facts(crd: Mapping[str, Any], version: str) -> list[str]:
    """The facts about one version of a CRD.

    Raises:
        KeyError: it has no such version.
    """
    spec = crd["spec"]
    found = {each["name"]: each for each in spec["versions"]}[version]
    lines = [*_of_names(spec), *_of_version(found)]
    for place, column in enumerate(found.get("additionalPrinterColumns", ())):
        priority = f" priority {column['priority']}" if column.get("priority") else ""
        lines.append(f"column {place} {column['name']} {column['type']} {column['jsonPath']}{priority}")
    fields = _fields(found["schema"]["openAPIV3Schema"], "", required=False)
    return [*lines, *sorted(f"field {line}" for line in fields)]


def _of_names(spec: Mapping[str, Any]) -> Iterator[str]:
    yield f"group {spec['group']}"
    yield f"scope {spec['scope']}"
    for key, value in sorted(spec["names"].items()):
        yield f"name {key} {', '.join(value) if isinstance(value, list) else value}"


def _of_version(version: Mapping[str, Any]) -> Iterator[str]:
    stored = [word for word in ("served", "storage", "deprecated") if version.get(word)]
    yield f"version {version['name']} {' '.join(stored)}"
    for name, paths in sorted(version.get("subresources", {}).items()):
        yield " ".join([f"subresource {name}", *(f"{key}={path}" for key, path in sorted(paths.items()))])


def _fields(schema: Schema, path: str, *, required: bool) -> Iterator[str]:
    yield f"{path or '.'} {_type(schema)}{' required' if required else ''}{_rest(schema)}"
    names = schema.get("required", ())
    for name, inner in schema.get("properties", {}).items():
        yield from _fields(inner, f"{path}.{name}", required=name in names)
    for key, mark in (("items", "[]"), ("additionalProperties", "{}")):
        if isinstance(inner := schema.get(key), Mapping):
            yield from _fields(inner, path + mark, required=False)


def _type(schema: Schema) -> str:
    if schema.get("x-kubernetes-int-or-string"):
        return "int-or-string"
    return str(schema.get("type", "any"))


def _rest(schema: Schema) -> str:
    """What a schema says beside type and members: ``format=int32 minimum=0``."""
    known = (*WORDS, *INNER, "type", "anyOf", "x-kubernetes-int-or-string")
    rest = {key: value for key, value in schema.items() if key not in known and IMPLIED.get(key) != value}
    return "".join(f" {key}={json.dumps(value, sort_keys=True)}" for key, value in sorted(rest.items()))
