"""The kubeconfig of the embedded server: everything inline, one cluster, one user, one context.

Theory.      Our entries are written anew at each start (the port may have changed). What kubectl or a user
             put beside them or into them (``kubectl config set-context --namespace``) stays. A kubeconfig
             that has nothing of ours is never changed, not even to add a context and not even in our data
             folder (which may be any folder of the user): users keep the keys of their real clusters in such
             files. Only ``change`` does that, for ``up --merge-kubeconfig``.
             A kubeconfig that a user wrote has an order, comments and quotes; parsed and written anew it
             would lose them. So only the text of our entries changes (``merged``, which is pure): the syntax
             tree says where they stand. The result is parsed and compared with what was wanted. Where the two
             differ, the file is left alone: YAML of an unforeseen form leads to a refusal, never to a lost
             entry.
Invariants.  Mode 0600, and always a whole file: a reader meanwhile sees the old or the new one. An entry that
             is ours already keeps what others added to it (a namespace, a proxy). An entry of the same name
             that is not ours is refused. Without a change the text is the same.
Called by    the composition root, when the server listens; ``cli.up.command``.
"""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from stat import S_ISREG
from typing import Any

import yaml

from kubewright.apiserver.http.pki import make_private_folder, write_private
from kubewright.base.clock import SystemClock
from kubewright.base.errors import InvalidInput
from kubewright.pki import clusters
from kubewright.pki.certificates import Identity
from kubewright.wire import goyaml

NAME = "kubewright"
"""Of the context, the cluster and the user."""

LARGEST = 4 * 1024 * 1024
"""Bytes of a file that may be a kubeconfig."""

OWNER_ONLY = 0o600

STALE_SECONDS = 60.0
"""A lock of our own kubeconfig is held for milliseconds; one of this age was left behind."""


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


def render(url: str, authority: bytes, identity: Identity) -> bytes:
    """The text of a kubeconfig: where the server is, the authority to trust, and the user."""
    return clusters.kubeconfig(NAME, NAME, url, authority, clusters.by_certificate(identity), context=NAME)


def write(path: Path, content: bytes, data_dir: Path) -> None:
    """Put the entries of a kubeconfig of ours into ``path``, which keeps what else it has.

    Raises:
        InvalidInput: the file there has nothing of ours, or it cannot be read or written.
    """
    before = _existing(path)
    if not _has_ours(before, content, data_dir):
        raise InvalidInput(
            f"{path} is not a kubeconfig of ours and will not be overwritten; "
            "choose another file with --kubeconfig, or move this one away"
        )
    patience = STALE_SECONDS if path.absolute().parent == data_dir.absolute() else None
    change(path, ours_in(content, NAME, data_dir), certain=True, patience=patience)


def change(
    path: Path, ours: Ours, *, use: bool = False, certain: bool = False, patience: float | None = None
) -> None:
    """Put entries into the file at ``path``, as ``merged`` does, under kubectl's own lock.

    ``patience``: seconds after which a lock was left by a process that was killed; None: no lock is.

    Raises:
        InvalidInput: it has the name for something else, or cannot be changed safely, read or written;
            another program is changing it.
    """
    _existing(path)  # before anything is made beside it
    if not path.parent.is_dir():
        make_private_folder(path.parent)
    with _locked(path, patience):
        before = _text(path, _existing(path))
        try:
            after = merged(before, ours, use=use, certain=certain)
        except InvalidInput as error:
            raise InvalidInput(f"{path} was left as it is: {error}") from None
        if after != before:
            write_private(path, after.encode())
        elif before:
            path.chmod(OWNER_ONLY)


def ours_in(content: bytes, name: str, data_dir: Path) -> Ours:
    """Our entries in a kubeconfig that ``write`` or ``render`` made, under another name."""
    whole = goyaml.loads(content)
    cluster, user = (
        next(entry[body] for entry in whole[part] if entry["name"] == NAME)
        for part, body in (("clusters", "cluster"), ("users", "user"))
    )
    return Ours(name, cluster, user, str(data_dir.absolute()))


def _has_ours(before: bytes, content: bytes, data_dir: Path) -> bool:
    """Whether a file is empty, has entries of our name only, or has the cluster of this data folder."""
    if not before.strip():
        return True
    try:
        found = goyaml.loads(before)
    except goyaml.Unreadable:
        return False
    if not isinstance(found, Mapping):
        return False
    named = {each for part in BODIES for each in _names(found.get(part))}
    return named == {NAME} or is_cluster_of(found, ours_in(content, NAME, data_dir))


def _names(entries: Any) -> set[Any]:
    """The names in a list of named things, none where there is none; {None} where it is not such a list."""
    if entries is None:
        return set()
    if not isinstance(entries, list):
        return {None}
    return {str(entry.get("name")) if isinstance(entry, Mapping) else None for entry in entries}


def _existing(path: Path) -> bytes:
    """What a kubeconfig has now, nothing where there is none.

    Only a regular file is opened, and so replaced later: a pipe would never end, and a device such as
    ``/dev/null`` would become a file for every program of the machine.
    """
    try:
        if not S_ISREG(path.stat().st_mode):
            raise InvalidInput(f"{path} is no regular file, so it cannot become a kubeconfig")
        with path.open("rb") as file:
            content = file.read(LARGEST + 1)
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise InvalidInput(f"cannot read {path}: {error.strerror or error}") from None
    if len(content) > LARGEST:
        raise InvalidInput(f"{path} was left as it is: it is too large for a kubeconfig")
    return content


def _text(path: Path, content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise InvalidInput(f"{path} was left as it is: it is not UTF-8") from None


@contextmanager
def _locked(path: Path, patience: float | None) -> Iterator[None]:
    """Hold kubectl's own lock of a kubeconfig, so that neither program loses what the other writes."""
    lock = path.with_name(path.name + ".lock")
    try:
        if (
            patience is not None
            and lock.exists()
            and SystemClock().now().timestamp() > lock.stat().st_mtime + patience
        ):
            lock.unlink(missing_ok=True)
        os.close(os.open(lock, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, OWNER_ONLY))
    except FileExistsError:
        raise InvalidInput(f"another program is changing {path}; if none is, delete {lock}") from None
    except OSError as error:
        raise InvalidInput(f"cannot write {lock}: {error.strerror or error}") from None
    try:
        yield
    finally:
        lock.unlink(missing_ok=True)


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
