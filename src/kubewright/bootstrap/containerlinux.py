"""Container Linux Config, the notation in which users add to an Ignition config, as Ignition 2.3.

Theory.      The notation is Ignition's own tree with other names (``ssh_authorized_keys``), and contents in
             the place of data URLs. One table has the names at each level; what is not in it is a mistake, or
             one of the short forms for programs that nodes do not run (``etcd``, ``flannel``).
Invariants.  Pure. What is unknown is refused when ``strict``, else left out. Merging appends lists, and the
             addition's values win.
Source       capi.md §9.7; the notation's published specification.
Called by    ``ignition``.
"""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import yaml

from kubewright.base.errors import InvalidInput

Tree = dict[str, Any]

FILE_MODE, FOLDER_MODE = 0o644, 0o755
"""The modes of files and folders where the user gives none."""

_NODE: Tree = {
    "filesystem": "filesystem",
    "path": "path",
    "mode": "mode",
    "overwrite": "overwrite",
    "user": ("user", {"id": "id", "name": "name"}),
    "group": ("group", {"id": "id", "name": "name"}),
}
_FILE: Tree = {
    **_NODE,
    "append": "append",
    "contents": ("contents", None),
}
_USER: Tree = {
    "name": "name",
    "password_hash": "passwordHash",
    "ssh_authorized_keys": "sshAuthorizedKeys",
    "uid": "uid",
    "gecos": "gecos",
    "home_dir": "homeDir",
    "no_create_home": "noCreateHome",
    "primary_group": "primaryGroup",
    "groups": "groups",
    "no_user_group": "noUserGroup",
    "system": "system",
    "no_log_init": "noLogInit",
    "shell": "shell",
}
_UNIT: Tree = {
    "name": "name",
    "enabled": "enabled",
    "mask": "mask",
    "contents": "contents",
    "dropins": ("dropins", {"name": "name", "contents": "contents"}),
}
_PARTITION: Tree = {
    "label": "label",
    "number": "number",
    "guid": "guid",
    "type_guid": "typeGuid",
    "wipe_partition_entry": "wipePartitionEntry",
}
_MOUNT: Tree = {
    "device": "device",
    "format": "format",
    "wipe_filesystem": "wipeFilesystem",
    "label": "label",
    "uuid": "uuid",
    "options": "options",
}
NAMES: Tree = {
    "passwd": (
        "passwd",
        {
            "users": ("users", _USER),
            "groups": (
                "groups",
                {"name": "name", "gid": "gid", "password_hash": "passwordHash", "system": "system"},
            ),
        },
    ),
    "systemd": ("systemd", {"units": ("units", _UNIT)}),
    "networkd": ("networkd", {"units": ("units", {"name": "name", "contents": "contents"})}),
    "storage": (
        "storage",
        {
            "files": ("files", _FILE),
            "directories": ("directories", _NODE),
            "links": ("links", {**_NODE, "target": "target", "hard": "hard"}),
            "disks": (
                "disks",
                {"device": "device", "wipe_table": "wipeTable", "partitions": ("partitions", _PARTITION)},
            ),
            "filesystems": ("filesystems", {"name": "name", "path": "path", "mount": ("mount", _MOUNT)}),
            "raid": ("raid", {"name": "name", "level": "level", "devices": "devices", "spares": "spares"}),
        },
    ),
}
"""At each level: our user's name to Ignition's, with the names below it where there are some."""


def converted(text: str, *, strict: bool) -> Tree:
    """An addition as Ignition has it; empty for an empty text.

    Raises:
        InvalidInput: it is not YAML, has another shape, or with ``strict`` a name that is not known.
    """
    try:
        parsed = yaml.load(text, yaml.CSafeLoader)
    except yaml.YAMLError as error:
        raise InvalidInput(
            f"additionalConfig is not YAML: {getattr(error, 'problem', None) or error}"
        ) from None
    if parsed is None:
        return {}
    if not isinstance(parsed, dict):
        raise InvalidInput("additionalConfig must have names and values")
    found: Tree = _renamed(parsed, NAMES, "additionalConfig", strict=strict)
    storage = found.get("storage", {})
    for kind, mode in (("files", FILE_MODE), ("directories", FOLDER_MODE)):
        for node in storage.get(kind, []):
            node.setdefault("filesystem", "root")
            node.setdefault("mode", mode)
    return found


def _renamed(value: Any, known: Mapping[str, Any], path: str, *, strict: bool) -> Any:
    if isinstance(value, list):
        return [
            _renamed(each, known, f"{path}[{number}]", strict=strict) for number, each in enumerate(value)
        ]
    if not isinstance(value, dict):
        raise InvalidInput(f"{path} must have names and values")
    found: Tree = {}
    for key, inner in value.items():
        match known.get(key):
            case None if strict:
                raise InvalidInput(f"{path}.{key} is not known")
            case None:
                continue
            case "mode":
                found["mode"] = _mode(inner, path)
            case str(name):
                found[name] = inner
            case (name, None):
                found[name] = _contents(inner, f"{path}.{key}")
            case (name, below):
                found[name] = _renamed(inner, below, f"{path}.{key}", strict=strict)
    return found


def _mode(value: Any, path: str) -> int:
    """A mode: YAML 1.1 reads ``0644`` as an octal number; as text it is one too."""
    try:
        return int(value, 8) if isinstance(value, str) else int(value)
    except (TypeError, ValueError):
        raise InvalidInput(f"{path}.mode is no number") from None


def _contents(value: Any, path: str) -> Tree:
    """Contents: text in place, or an address with a hash."""
    if not isinstance(value, dict):
        raise InvalidInput(f"{path} must have inline or remote")
    if isinstance(inline := value.get("inline"), str):
        return {"source": f"data:,{quote(inline)}"}
    remote = value.get("remote")
    if isinstance(remote, dict) and isinstance(url := remote.get("url"), str):
        return {"source": url} | _verification(remote.get("verification"))
    raise InvalidInput(f"{path} must have inline or remote")


def _verification(value: Any) -> Tree:
    if not isinstance(value, dict) or not isinstance(digest := value.get("hash"), dict):
        return {}
    return {"verification": {"hash": f"{digest.get('function', 'sha512')}-{digest.get('sum', '')}"}}


def merged(base: Any, addition: Any) -> Any:
    """``addition`` over ``base``: maps by key, lists one after the other, its values instead of others."""
    if isinstance(base, dict) and isinstance(addition, dict):
        both = {key: merged(base[key], addition[key]) for key in base.keys() & addition.keys()}
        return {**base, **addition, **both}
    if isinstance(base, list) and isinstance(addition, list):
        return [*base, *addition]
    return addition
