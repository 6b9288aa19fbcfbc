"""Which lists merge in a strategic merge patch, and by which key: the table for patches of components.

Theory.      The API server reads that from the schemas of its kinds. The controllers of components, which may
             not reach into the server, patch manifests of the same kinds before any server sees them. So
             their table is made from the same schemas: for each type the fields on the way to a list or map
             that a patch treats in its own way.
Called by    ``tools/gen.py``.
"""

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache

from kubewright.apiserver.schema.builtin import GROUPS, table

FILE = "merge_keys.json"
_INNER = re.compile(r"[\[\]{}*]")
_KEY, _PATCH = re.compile(r"\bkey\(([^)]*)\)"), re.compile(r"\bpatch\(([^)]*)\)")
ENVELOPE = {"apiVersion", "kind", "metadata"}


def files() -> Mapping[str, str]:
    """The table, as a file."""
    kinds = dict(sorted(_kinds()))
    reached = sorted(_reached(list(kinds.values())))
    types = {name: fields for name in reached if (fields := dict(_fields(name)))}
    lines = [f"  {json.dumps(name)}: {json.dumps(types[name])}" for name in types]
    named = [f"  {json.dumps(name)}: {json.dumps(of)}" for name, of in kinds.items() if of in types]
    text = f'{{\n "kinds": {{\n{_joined(named)}\n }},\n "types": {{\n{_joined(lines)}\n }}\n}}\n'
    return {FILE: text}


def _joined(lines: list[str]) -> str:
    return ",\n".join(lines)


def _kinds() -> Iterator[tuple[str, str]]:
    """``apps/v1 StatefulSet``, and the definition of that kind."""
    for name, fields in table("builtin.json").items():
        package, version, kind = name.split(".", 2)
        if fields.keys() >= ENVELOPE:
            yield f"{GROUPS[package]}/{version} {kind}".removeprefix("/"), name


def _fields(name: str) -> Iterator[tuple[str, list[str | None]]]:
    """The fields of a type that matter: the type of what is inside, the merge key, and the strategies."""
    for field, line in sorted(table("builtin.json")[name].items()):
        key, patch = _KEY.search(line), _PATCH.search(line)
        inner = _inner(line)
        if patch or _leads(inner):
            yield field, [inner or None, key[1] if key else None, patch[1] if patch else None]


def _inner(line: str) -> str:
    """The definition inside of a field; empty: it has a scalar."""
    words = line.split(" ")
    name = _INNER.sub("", words[1]) if len(words) > 1 else ""
    return name if name in table("builtin.json") else ""


@cache
def _leads(name: str) -> bool:
    """Whether a list or map that a patch treats in its own way is somewhere inside of this type."""
    return any(
        _PATCH.search(line) for each in _reached([name]) for line in table("builtin.json")[each].values()
    )


def _reached(names: list[str]) -> set[str]:
    todo, seen = [each for each in names if each], set[str]()
    while todo:
        if (name := todo.pop()) not in seen:
            seen.add(name)
            todo += [inner for line in table("builtin.json")[name].values() if (inner := _inner(line))]
    return seen
