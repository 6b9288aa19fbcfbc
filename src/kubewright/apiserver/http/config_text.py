"""A kubeconfig as text: adds or replaces our entries, and keeps every other byte. Pure.

Theory.      A kubeconfig that a user wrote has an order, comments and quotes; parsed and written anew it
             would lose them. So only the text of our entries changes: the syntax tree says where they
             stand. The result is parsed and compared with what was wanted. Where the two differ, the
             file is left alone: YAML of an unforeseen form leads to a refusal, never to a lost entry.
Invariants.  An entry that is ours already keeps what others added to it (a namespace, a proxy).
             An entry of the same name that is not ours is refused. Without a change the text is the same.
Called by    ``kubeconfig``.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from kubewright.base.errors import InvalidInput
from kubewright.wire import goyaml

Plain = dict[str, Any]

BODIES = {"clusters": "cluster", "contexts": "context", "users": "user"}
"""The three lists of a kubeconfig, and what each entry has beside its name."""

CURRENT = "current-context"
MARK = "kubewright"
"""Name of the extension that marks a cluster entry as written by ``kubewright up``."""


@dataclass(frozen=True, slots=True)
class Ours:
    """Our entries, all of one name: the bodies of the cluster and the user, and the data folder."""

    name: str
    cluster: Mapping[str, Any]
    user: Mapping[str, Any]
    data_dir: str

    def bodies(self) -> Mapping[str, Plain]:
        """The body of our entry in each of the three lists."""
        marks = [{"name": MARK, "extension": {"dataDir": self.data_dir}}]
        return {
            "clusters": {**self.cluster, "extensions": marks},
            "contexts": {"cluster": self.name, "user": self.name},
            "users": dict(self.user),
        }


@dataclass(frozen=True, slots=True)
class _Edit:
    """Characters from ``start`` to ``end`` become ``text``."""

    start: int
    end: int
    text: str


def merged(text: str, ours: Ours, *, use: bool = False, certain: bool = False) -> str:
    """The text with our entries in it. ``use``, or a text without a current context, makes ours current.

    ``certain``: entries of our name are ours, whatever authority they have.

    Raises:
        InvalidInput: it is no kubeconfig, the name is taken, or the text cannot be changed safely.
    """
    found = _read(text)
    if not certain and (foreign := _foreign_entry(found, ours)) is not None:
        raise InvalidInput(
            f"its {foreign} {ours.name!r} is not this data folder's; choose another name with --context"
        )
    wanted = _wanted(found, ours, use=use)
    if wanted == found:
        return text
    try:
        made = _as_json(text, wanted) or _spliced(text, found, wanted, ours.name)
        kept = _parsed(made) == wanted
    except (
        goyaml.Unreadable,
        yaml.YAMLError,
        RecursionError,
    ):  # the parser with places in the text takes less
        kept = False
    if not kept:
        raise InvalidInput(
            "it is written in a way that cannot be changed without risk; put entries into another file, and "
            "name both in KUBECONFIG"
        )
    return made


def _parsed(text: str) -> Any:
    """The parsed text; JSON is parsed as JSON, since its escapes are not quite YAML's."""
    try:
        return json.loads(text)
    except ValueError:
        documents = goyaml.load_all(text)
    if len(documents) > 1:
        raise goyaml.Unreadable("it has more than one document")
    return documents[0] if documents else None


def _read(text: str) -> Plain:
    try:
        found = _parsed(text)
    except goyaml.Unreadable as error:
        place = f" in line {error.line}" if error.line else ""
        raise InvalidInput(f"it is not YAML{place}; mend it, or move it away") from None
    if found is None:
        return {}
    if not isinstance(found, dict) or not all(
        _is_list(found.get(part), body) for part, body in BODIES.items()
    ):
        raise InvalidInput("it is no kubeconfig")
    if (found.get("kind") or "Config") != "Config":
        raise InvalidInput(f"it is no kubeconfig, but a {found['kind']}")
    return found


def _is_list(entries: Any, body: str) -> bool:
    """Whether a value is a list of entries with ``body``, or empty."""
    return not entries or (
        isinstance(entries, list)
        and all(isinstance(each, dict) and isinstance(each.get(body) or {}, dict) for each in entries)
    )


def _extensions(body: Plain) -> list[Plain]:
    found = body.get("extensions")
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


# ---------------------------------------------------------------- the wanted content


def _wanted(found: Plain, ours: Ours, *, use: bool) -> Plain:
    wanted = {"apiVersion": "v1", "kind": "Config", **found} if not found else dict(found)
    for part, body in ours.bodies().items():
        entries = list(found.get(part) or [])
        place = _place(entries, ours.name)
        key = BODIES[part]
        if place is None:
            entries.insert(0, {"name": ours.name, key: body})
        else:
            old = entries[place].get(key) or {}
            entries[place] = {**entries[place], key: _joined(old, body)}
        wanted[part] = entries
    if use or not found.get(CURRENT):
        wanted[CURRENT] = ours.name
    return wanted


def _joined(old: Plain, new: Plain) -> Plain:
    """The new body, with the fields and the extensions that others added to the old one."""
    others = [each for each in _extensions(old) if each.get("name") != MARK]
    joined = {**old, **new}
    if "extensions" in new:
        joined["extensions"] = [*others, *new["extensions"]]
    return joined


def _foreign_entry(found: Plain, ours: Ours) -> str | None:
    """The entry that has our name and is not ours. A cluster is ours by its mark or its authority."""
    taken = {
        part: place for part in BODIES if (place := _place(found.get(part) or [], ours.name)) is not None
    }
    if not taken:
        return None
    if "clusters" not in taken:
        return BODIES[next(iter(taken))]
    return None if is_cluster_of(found, ours) else "cluster"


def is_cluster_of(found: Mapping[str, Any], ours: Ours) -> bool:
    """Whether a kubeconfig has a cluster of our name with our authority, or the mark of our folder."""
    entries = found.get("clusters")
    named = [each for each in entries if isinstance(each, dict)] if isinstance(entries, list) else []
    place = _place(named, ours.name)
    cluster = {} if place is None else named[place].get("cluster")
    if not isinstance(cluster, dict):
        return False
    authority = "certificate-authority-data"
    marks = [each.get("extension") for each in _extensions(cluster) if each.get("name") == MARK]
    return cluster.get(authority) == ours.cluster[authority] or {"dataDir": ours.data_dir} in marks


def _place(entries: Sequence[Plain], name: str) -> int | None:
    return next((at for at, entry in enumerate(entries) if entry.get("name") == name), None)


# ---------------------------------------------------------------- the edits of the text


def _as_json(text: str, wanted: Plain) -> str:
    """The wanted content as JSON, where the text is JSON, which has no comments to lose; else empty."""
    try:
        json.loads(text)
    except ValueError:
        return ""
    return json.dumps(wanted, indent=2, ensure_ascii=False) + "\n"


def _spliced(text: str, found: Plain, wanted: Plain, name: str) -> str:
    root = goyaml.marked(text)
    values = {key.value: value for key, value in root.value} if isinstance(root, yaml.MappingNode) else {}
    edits, added = [], {}
    for key, value in wanted.items():
        if found.get(key) == value:
            continue
        if key not in values:
            added[key] = value
        elif key in BODIES:
            edits.append(_entry(text, values[key], value, name))
        else:
            edits.append(_replaced(values[key], _inline(value)))
    for edit in sorted(edits, key=lambda each: -each.start):
        text = text[: edit.start] + edit.text + text[edit.end :]
    if added:
        text += "\n" * bool(text and not text.endswith("\n")) + _block(added)
    return text


def _entry(text: str, node: yaml.Node, entries: Sequence[Plain], name: str) -> _Edit:
    """The edit that puts our entry into a list: in its old place, or before all others."""
    place = _place(entries, name) or 0
    if not isinstance(node, yaml.SequenceNode) or not node.value:
        return _replaced(node, "\n" + _block([entries[place]]).rstrip("\n"))
    if not node.flow_style and len(node.value) < len(entries):
        column = node.start_mark.column
        return _Edit(node.start_mark.index, node.start_mark.index, _block([entries[0]], column))
    item = node.value[place]
    start, end = item.start_mark.index, _end(item)
    line = "\n" if text[start:end].endswith("\n") else ""
    return _Edit(start, end, _block(entries[place], item.start_mark.column).rstrip("\n ") + line)


def _replaced(node: yaml.Node, text: str) -> _Edit:
    """The edit that replaces a value; an empty value begins right after its colon."""
    start, end = node.start_mark.index, node.end_mark.index
    return _Edit(start, end, text if end > start or text.startswith("\n") else " " + text)


def _end(node: yaml.Node) -> int:
    """Where a node's own text ends; the end mark of a block is after the comments that follow it."""
    if isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        return _end(last[1] if isinstance(last, tuple) else last)
    return int(node.end_mark.index)


def _block(value: Any, column: int = 0) -> str:
    """A value in block style, to be put at ``column``: all lines but the first are indented to it."""
    text = goyaml.dumped(value)
    return text.replace("\n", "\n" + " " * column)


def _inline(value: str) -> str:
    return goyaml.dumped([value], flow=True).strip()[1:-1]
