"""What may stand in a Container Linux Config, and a text as values of these types.

Theory.      The notation is a tree of named fields, each of one type. One table has them all. A text is read
             against the table: what does not fit is an error, what the table lacks a remark, as for the
             transpiler, which reads with Go's types: a number is text where text belongs, and text that
             says ``yes`` is true where a switch belongs.
Invariants.  Pure. In what is read, an absent field and one that is null are both absent, and every other
             value has the type of the table.
Source       the notation's published specification.
Called by    ``transpile``.
"""

import base64
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kubewright.bootstrap.containerlinux import options
from kubewright.bootstrap.containerlinux.options import COUNT, NUMBER, SWITCH, TEXT, Version
from kubewright.wire import goyaml
from kubewright.wire.goyaml import Word

Tree = dict[str, Any]

_OWNER: Tree = {"id": NUMBER, "name": TEXT}
_VERIFICATION: Tree = {"hash": {"function": TEXT, "sum": TEXT}}
_REFERENCE: Tree = {"source": TEXT, "verification": _VERIFICATION}
_NODE: Tree = {"filesystem": TEXT, "path": TEXT, "user": _OWNER, "group": _OWNER, "overwrite": SWITCH}
_CONTENTS: Tree = {
    "remote": {"url": TEXT, "compression": TEXT, "verification": _VERIFICATION},
    "inline": TEXT,
    "local": TEXT,
}
_DROPIN: Tree = {"name": TEXT, "contents": TEXT}
_ACCOUNT: Tree = {
    "uid": NUMBER,
    "gecos": TEXT,
    "home_dir": TEXT,
    "no_create_home": SWITCH,
    "primary_group": TEXT,
    "groups": [TEXT],
    "no_user_group": SWITCH,
    "system": SWITCH,
    "no_log_init": SWITCH,
    "shell": TEXT,
}
_PARTITION: Tree = {
    "label": TEXT,
    "number": NUMBER,
    "size": TEXT,
    "start": TEXT,
    "guid": TEXT,
    "type_guid": TEXT,
}
_MOUNT: Tree = {
    "device": TEXT,
    "format": TEXT,
    "create": {"force": SWITCH, "options": [TEXT]},
    "wipe_filesystem": SWITCH,
    "label": TEXT,
    "uuid": TEXT,
    "options": [TEXT],
}
_STORAGE: Tree = {
    "disks": [{"device": TEXT, "wipe_table": SWITCH, "partitions": [_PARTITION]}],
    "raid": [{"name": TEXT, "level": TEXT, "devices": [TEXT], "spares": NUMBER, "options": [TEXT]}],
    "filesystems": [{"name": TEXT, "mount": _MOUNT, "path": TEXT}],
    "files": [{**_NODE, "mode": NUMBER, "contents": _CONTENTS, "append": SWITCH}],
    "directories": [{**_NODE, "mode": NUMBER}],
    "links": [{**_NODE, "hard": SWITCH, "target": TEXT}],
}
_UNIT: Tree = {
    "name": TEXT,
    "enable": SWITCH,
    "enabled": SWITCH,
    "mask": SWITCH,
    "contents": TEXT,
    "dropins": [_DROPIN],
}
NOTATION: Tree = {
    "version": NUMBER,
    "ignition": {
        "config": {"append": [_REFERENCE], "replace": _REFERENCE},
        "timeouts": {"http_response_headers": NUMBER, "http_total": NUMBER},
        "security": {"tls": {"certificate_authorities": [_REFERENCE]}},
    },
    "storage": _STORAGE,
    "systemd": {"units": [_UNIT]},
    "networkd": {"units": [{"name": TEXT, "contents": TEXT, "dropins": [_DROPIN]}]},
    "passwd": {
        "users": [
            {
                "name": TEXT,
                "password_hash": TEXT,
                "ssh_authorized_keys": [TEXT],
                "create": _ACCOUNT,
                **_ACCOUNT,
            }
        ],
        "groups": [{"name": TEXT, "gid": COUNT, "password_hash": TEXT, "system": SWITCH}],
    },
    "update": {
        "group": TEXT,
        "server": TEXT,
        "pcr_policy_server": TEXT,
        "download_user": TEXT,
        "download_password": TEXT,
        "machine_alias": TEXT,
    },
    "docker": {"flags": [TEXT]},
    "locksmith": {
        "reboot_strategy": TEXT,
        "window_start": TEXT,
        "window_length": TEXT,
        "group": TEXT,
        "etcd_endpoints": TEXT,
        "etcd_cafile": TEXT,
        "etcd_certfile": TEXT,
        "etcd_keyfile": TEXT,
    },
}
"""All but ``etcd`` and ``flannel``, whose fields depend on a version. A list has the type of its items."""

LARGEST = 2**63
_VERSION = re.compile(r"(\d{1,18})\.(\d{1,18})\.(\d{1,18})(-[0-9A-Za-z.-]*)?(\+[0-9A-Za-z.-]*)?")


@dataclass(slots=True)
class Report:
    """What is wrong with a text, and what the transpiler remarks on, which is wrong if it is to be strict."""

    errors: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)


def read(text: str, report: Report) -> Tree:
    """The values in a text.

    Raises:
        goyaml.Unreadable: it is no YAML.
    """
    found = goyaml.words(text)
    if found is None or (isinstance(found, Word) and _resolved(found) is None):
        report.remarks.append("it is empty")
        return {}
    if not isinstance(found, Mapping):
        report.errors.append("it must have names and values")
        return {}
    table = dict(NOTATION)
    for program, table_of in (("etcd", _etcd), ("flannel", _flannel)):
        given = found.get(program)
        table[program] = table_of(given.get("version"), report) if isinstance(given, Mapping) else {}
    values: Tree = _value(found, table, "", report)
    return values


def _etcd(given: Any, report: Report) -> Tree:
    """The fields of ``etcd`` in the version that is given."""
    version, wanted = _version(given, "etcd", report), options.ETCD_DEFAULT
    if version is not None:
        wanted, newest = version[0], options.ETCD_NEWEST.get(version[0][0], 0)
        if version < (options.ETCD_OLDEST, 1):
            report.errors.append("etcd.version is older than 2.3.0")
        elif wanted[0] > max(options.ETCD_NEWEST):
            report.errors.append(f"etcd.version {wanted[0]} is not known")
        elif wanted[1] > newest:
            report.remarks.append(f"etcd.version has the options of {wanted[0]}.{newest}")
    return {"version": TEXT, **options.etcd(wanted)}


def _flannel(given: Any, report: Report) -> Tree:
    """The fields of ``flannel`` in the version that is given."""
    version, wanted = _version(given, "flannel", report), options.FLANNEL_DEFAULT
    if version is not None:
        wanted = version[0]
        if version < (options.FLANNEL_OLDEST, 1):
            report.errors.append("flannel.version is older than 0.5.0")
        elif wanted[0] == 0 and wanted[1] > options.FLANNEL_NEWEST:
            report.remarks.append(f"flannel.version has the options of 0.{options.FLANNEL_NEWEST}")
    return {"version": TEXT, "network_config": TEXT, **options.flannel(wanted)}


def _version(given: Any, program: str, report: Report) -> tuple[Version, int] | None:
    """A version, with 0 for a pre-release and 1 for a release; None: there is none."""
    if given is None or (isinstance(given, Word) and _resolved(given) is None):
        return None
    found = _VERSION.fullmatch(given.text) if isinstance(given, Word) else None
    if found is None:
        report.errors.append(f"{program}.version is no version such as 3.5.0")
        return None
    return (int(found[1]), int(found[2]), int(found[3])), 0 if (found[4] or "-") != "-" else 1


def _value(given: Any, wanted: Any, path: str, report: Report) -> Any:
    """A value of the wanted type; None where it is absent or does not fit."""
    if isinstance(given, Word) and not isinstance(wanted, str) and _resolved(given) is None:
        return None
    if isinstance(wanted, Mapping):
        if not isinstance(given, Mapping):
            report.errors.append(f"{path} must have names and values")
            return None
        return _fields(given, wanted, path, report)
    if isinstance(wanted, Sequence) and not isinstance(wanted, str):
        if not isinstance(given, list):
            report.errors.append(f"{path} must be a list")
            return None
        (item,) = wanted
        values = [_value(each, item, f"{path}[{number}]", report) for number, each in enumerate(given)]
        return [each for each in values if each is not None]
    if not isinstance(given, Word):
        report.errors.append(f"{path} must be {'true or false' if wanted == SWITCH else f'a {wanted}'}")
        return None
    return _scalar(given, wanted, path, report)


def _fields(given: Mapping[str, Any], wanted: Mapping[str, Any], path: str, report: Report) -> Tree:
    found: Tree = {}
    for name, inner in given.items():
        where = f"{path}.{name}" if path else name
        if name not in wanted:
            report.remarks.append(f"{where} is not known")
        elif (value := _value(inner, wanted[name], where, report)) is not None:
            found[name] = value
    return found


def _scalar(word: Word, wanted: str, path: str, report: Report) -> Any:
    value = _resolved(word)
    if value is None:
        return None
    if wanted == TEXT:
        return _binary(word, path, report) if word.tag == "binary" else word.text
    if wanted in (NUMBER, COUNT) and isinstance(value, int | float) and not isinstance(value, bool):
        if (-LARGEST if wanted == NUMBER else 0) <= value < LARGEST:
            return int(value)
    elif wanted == SWITCH and isinstance(switch := goyaml.resolved(word.text), bool):
        return switch  # ``yes`` and its like too, and in quotes as well
    report.errors.append(f"{path} must be {'true or false' if wanted == SWITCH else f'a {wanted}'}")
    return None


def _binary(word: Word, path: str, report: Report) -> str | None:
    try:
        return base64.b64decode("".join(word.text.split()), validate=True).decode(errors="surrogateescape")
    except ValueError:
        report.errors.append(f"{path} is not base64")
        return None


def _resolved(word: Word) -> Any:
    """What a word is for ``gopkg.in/yaml.v3``: of booleans it has no more than true and false."""
    if word.quoted or word.tag not in ("", "int", "float", "bool", "null"):
        return word.text
    found = goyaml.resolved(word.text)
    if isinstance(found, bool) and word.text.lower() not in ("true", "false"):
        return word.text
    return found


def is_json_object(text: str) -> bool:
    """Whether a text is an object in JSON."""
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False
