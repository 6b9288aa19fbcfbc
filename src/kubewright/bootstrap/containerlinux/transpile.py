"""A Container Linux Config as an Ignition config.

Theory.      Most of the notation is Ignition's own tree with other names. What is more: contents become data
             URLs, sizes mebibytes, names of types of partitions GUIDs, and what a user leaves out gets a
             default. Programs are one floor below (``programs``), and what comes of it all is checked
             (``rules``).
Invariants.  Pure. Nothing of a text is lost in silence: what is not known is a remark, and refuses the text
             when ``strict``. Merging appends lists, and the addition's values win.
Source       the notation's published specification.
Called by    ``bootstrap.ignition``.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from typing import Any
from urllib.parse import quote

from kubewright.base.errors import InvalidInput
from kubewright.bootstrap.containerlinux import programs, rules
from kubewright.bootstrap.containerlinux.notation import LARGEST, Report, Tree, read
from kubewright.wire.goyaml import Unreadable

VERSION = "2.3.0"
FILE_MODE, FOLDER_MODE = 0o644, 0o755
"""The modes of files and folders where the user gives none."""

MEBIBYTE = 2**20
SHOWN = 5
"""How many of the faults of a text are named."""

UNRESERVED = "-_.!~*'()"
"""What stands in a data URL as it is, beside letters and digits (RFC 2396)."""

_URL_CHARACTERS = "%/:@!$&'()*+,;=~[]"
_TYPES = {
    "raid_containing_root": "be9067b9-ea49-4f15-b4f6-f36f8c9e1818",
    "linux_filesystem_data": "0fc63daf-8483-4772-8e79-3d69d8477de4",
    "swap_partition": "0657fd6d-a4ab-43c4-84e5-0933c84b4f4f",
    "raid_partition": "a19d880f-05fc-4d3b-a006-743f0f84911e",
}
_UNITS = {unit: 1024**power for power, unit in enumerate(("", "K", "M", "G", "T", "P", "E"))}
_SIZE = re.compile(r"(\d++\.?\d*+|\.\d++)([KMGTPE]?)(iB|B)", re.ASCII)
_LONGEST_SIZE = 100
"""The most characters of a size; each of them may begin a search for a unit."""


def converted(text: str, *, strict: bool) -> Tree:
    """An addition as Ignition has it; empty for an empty text.

    Raises:
        InvalidInput: it is not YAML, or the transpiler would refuse it, or with ``strict`` remark on it.
    """
    report = Report()
    try:
        given = read(text, report)
    except Unreadable as error:
        raise InvalidInput(f"additionalConfig is not YAML: {error}") from None
    if given.get("version"):
        report.errors.append("version must be 0")
    config = {} if report.errors else _config(given, report)
    rules.check(config, report)
    faults = [*report.errors, *(report.remarks if strict else ())]
    if faults:
        more = f"; and {len(faults) - SHOWN} more" if len(faults) > SHOWN else ""
        raise InvalidInput(f"additionalConfig: {'; '.join(faults[:SHOWN])}{more}")
    return config


def _config(given: Tree, report: Report) -> Tree:
    own = [_unit(each) for each in given.get("systemd", {}).get("units", ())]
    return _present(
        {
            "ignition": _ignition(given.get("ignition", {})),
            "storage": _storage(given, report),
            "systemd": _present({"units": [*programs.units(given, report), *own]}),
            "networkd": _present(
                {"units": [_unit(each) for each in given.get("networkd", {}).get("units", ())]}
            ),
            "passwd": _passwd(given.get("passwd", {})),
        }
    )


def _ignition(given: Tree) -> Tree:
    config, timeouts = given.get("config", {}), given.get("timeouts", {})
    authorities = given.get("security", {}).get("tls", {}).get("certificate_authorities", ())
    found: Tree = {"append": [_reference(each) for each in config.get("append", ())]}
    if "replace" in config:
        found["replace"] = _reference(config["replace"])
    trusted = [_reference(each) for each in authorities]
    return _present(
        {
            "config": _present(found),
            "timeouts": {_camel(name): value for name, value in timeouts.items()},
            "security": {"tls": {"certificateAuthorities": trusted}} if trusted else {},
        }
    )


def _reference(given: Tree) -> Tree:
    return {"source": given.get("source", "")} | _verification(given)


def _verification(given: Tree) -> Tree:
    digest = given.get("verification", {}).get("hash", {})
    function, total = digest.get("function", ""), digest.get("sum", "")
    return {"verification": {"hash": f"{function}-{total}"}} if function and total else {}


def _storage(given: Tree, report: Report) -> Tree:
    storage = given.get("storage", {})
    files = [_file(number, each, report) for number, each in enumerate(storage.get("files", ()))]
    if contents := programs.update_file(given, report):
        files.append(
            _node({"path": programs.UPDATE_FILE}) | {"mode": FILE_MODE, "contents": _inline(contents)}
        )
    return _present(
        {
            "disks": [*_disks(storage.get("disks", ()), report)],
            "raid": [_raid(each) for each in storage.get("raid", ())],
            "filesystems": [_filesystem(each) for each in storage.get("filesystems", ())],
            "files": files,
            "directories": [
                _directory(number, each, report) for number, each in enumerate(storage.get("directories", ()))
            ],
            "links": [
                _node(each) | _present({"hard": each.get("hard")}) | {"target": each.get("target", "")}
                for each in storage.get("links", ())
            ],
        }
    )


def _node(given: Tree) -> Tree:
    found = {"filesystem": given.get("filesystem") or "root", "path": given.get("path", "")}
    owners = {
        owner: {name: value for name, value in given[owner].items() if value != ""}
        for owner in ("user", "group")
        if owner in given
    }
    overwrite = {"overwrite": given["overwrite"]} if "overwrite" in given else {}
    return found | owners | overwrite


def _file(number: int, given: Tree, report: Report) -> Tree:
    path, contents = f"storage.files[{number}]", given.get("contents", {})
    if "mode" not in given:
        report.remarks.append(f"{path}.mode is not given, and will be 0644")
    remote = contents.get("remote", {})
    sources = [each for each in (remote.get("url"), contents.get("inline"), contents.get("local")) if each]
    if len(sources) > 1:
        report.errors.append(f"{path}.contents has more than one of remote.url, inline and local")
    if contents.get("local"):
        report.errors.append(f"{path}.contents.local names a file, and there are none here: use inline")
    found = _remote(remote["url"]) if remote.get("url") else _inline(contents.get("inline", ""))
    found |= _present({"compression": remote.get("compression")}) | _verification(remote)
    append = {"append": True} if given.get("append") else {}
    return _node(given) | {"mode": given.get("mode", FILE_MODE), "contents": found} | append


def _remote(url: str) -> Tree:
    """A URL as Go writes it: in its path, what a path cannot have is escaped."""
    head, slashes, rest = url.partition("://")
    found = re.match(r"[^?#]*", rest)
    path = found[0] if found is not None else ""
    return {"source": f"{head}{slashes}{quote(path, safe=_URL_CHARACTERS)}{rest[len(path) :]}"}


def _inline(text: str) -> Tree:
    return {"source": f"data:,{quote(text.encode(errors='surrogateescape'), safe=UNRESERVED)}"}


def _directory(number: int, given: Tree, report: Report) -> Tree:
    if "mode" not in given:
        report.remarks.append(f"storage.directories[{number}].mode is not given, and will be 0755")
    return _node(given) | {"mode": given.get("mode", FOLDER_MODE)}


def _disks(disks: Iterable[Tree], report: Report) -> Iterator[Tree]:
    for number, disk in enumerate(disks):
        partitions = [
            _partition(f"storage.disks[{number}].partitions[{index}]", each, report)
            for index, each in enumerate(disk.get("partitions", ()))
        ]
        yield {"device": disk.get("device", "")} | _present(
            {"wipeTable": disk.get("wipe_table"), "partitions": partitions}
        )


def _partition(path: str, given: Tree, report: Report) -> Tree:
    kind = given.get("type_guid", "")
    found = {
        "number": given.get("number"),
        "guid": given.get("guid"),
        "typeGuid": _TYPES.get(kind, kind),
    }
    sizes = {
        f"{name}MiB": _mebibytes(f"{path}.{name}", given[name], report)
        for name in ("size", "start")
        if given.get(name)
    }
    label = {"label": given["label"]} if "label" in given else {}
    return _present(found) | label | sizes


def _mebibytes(path: str, size: str, report: Report) -> int:
    """A size such as ``1GiB`` in mebibytes. ``GB`` is the same: all units are powers of two here."""
    unsigned = size.removeprefix("+").removeprefix("-")
    if len(size) > _LONGEST_SIZE:
        report.errors.append(f"{path} is no size such as 512MiB: it has {len(size)} characters")
        return 0
    total, place = Fraction(0), 0
    suffix = {found[3] for found in _SIZE.finditer(unsigned) if found[2]}
    while found := _SIZE.match(unsigned, place):
        if (found[3] == "iB" and not found[2]) or len(suffix) > 1:
            break
        total += Fraction(found[1]) * _UNITS[found[2]]
        place = found.end()
    if unsigned != "0" and (not unsigned or place < len(unsigned)):
        report.errors.append(f"{path} is no size such as 512MiB")
    elif size.startswith("-") and total:
        report.errors.append(f"{path} is negative")
    elif total >= LARGEST:
        report.errors.append(f"{path} is larger than any disk")
    elif int(total) % MEBIBYTE:
        report.errors.append(f"{path} is not a whole number of MiB")
    return int(total) // MEBIBYTE


def _raid(given: Tree) -> Tree:
    found = {
        "name": given.get("name", ""),
        "level": given.get("level", ""),
        "devices": given.get("devices", []),
    }
    return found | _present({"spares": given.get("spares"), "options": given.get("options")})


def _filesystem(given: Tree) -> Tree:
    found = _present({"name": given.get("name")}) | ({"path": given["path"]} if "path" in given else {})
    if "mount" not in given:
        return found
    mount = given["mount"]
    made = {"device": mount.get("device", ""), "format": mount.get("format", "")}
    made |= {name: mount[name] for name in ("label", "uuid") if name in mount}
    made |= _present({"wipeFilesystem": mount.get("wipe_filesystem"), "options": mount.get("options")})
    if "create" in mount:
        made["create"] = _present(mount["create"])
    return found | {"mount": made}


def _unit(given: Tree) -> Tree:
    """A unit of systemd or networkd."""
    dropins = [
        {"name": each.get("name", "")} | _present({"contents": each.get("contents")})
        for each in given.get("dropins", ())
    ]
    found = {"name": given.get("name", "")} | ({"enabled": given["enabled"]} if "enabled" in given else {})
    names = ("enable", "mask", "contents")
    return found | _present({name: given.get(name) for name in names} | {"dropins": dropins})


def _passwd(given: Tree) -> Tree:
    return _present(
        {
            "users": [_user(each) for each in given.get("users", ())],
            "groups": [_account(each) for each in given.get("groups", ())],
        }
    )


def _user(given: Tree) -> Tree:
    found = _account(given, kept=("password_hash",))
    if "create" in given:
        found["create"] = _account(given["create"], named=False)
    return found


def _account(given: Tree, *, kept: Iterable[str] = (), named: bool = True) -> Tree:
    """A user or a group; what is empty is left out, but for numbers and those that are ``kept``."""
    name = {"name": given.get("name", "")} if named else {}
    others = {
        _camel(key): value
        for key, value in given.items()
        if key not in ("name", "create") and (value or key in ("uid", "gid", *kept))
    }
    return name | others


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(each.title() for each in rest)


def _present(values: Mapping[str, Any]) -> Tree:
    """What is there: neither None nor empty, 0 or false."""
    return {key: value for key, value in values.items() if value}


def merged(base: Any, addition: Any) -> Any:
    """``addition`` over ``base``: maps by key, lists one after the other, its values instead of others."""
    if isinstance(base, dict) and isinstance(addition, dict):
        both = {key: merged(base[key], addition[key]) for key in base.keys() & addition.keys()}
        return {**base, **addition, **both}
    if isinstance(base, list) and isinstance(addition, list):
        return [*base, *addition]
    return addition
