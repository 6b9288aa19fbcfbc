"""What Ignition 2.3 takes, of a config as the transpiler writes it. Pure.

Theory.      A config that Ignition refuses makes a machine that does not boot, and nobody is told. So the
             transpiler checks what it wrote by Ignition's own rules, and what only looks wrong is a remark.
Invariants.  Each message begins with the path of what is wrong.
Source       the specification of Ignition 2.3 and its validation.
Called by    ``transpile``.
"""

import re
from base64 import b64decode
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import parse_qs, urlsplit

from kubewright.bootstrap.containerlinux.notation import Report, Tree

LARGEST_MODE = 0o7777
LONGEST_LINE = 2048
"""Bytes of a line that systemd reads."""

_UNITS = (
    *("service", "socket", "device", "mount", "automount", "swap", "target", "path", "timer", "snapshot"),
    *("slice", "scope"),
)
_NETWORK_UNITS = ("link", "netdev", "network")
_LABELS = {"ext4": 16, "btrfs": 256, "xfs": 12, "swap": 15, "vfat": 11}
"""The formats of file systems, with the bytes that a label may have."""

_RAIDS = ("linear", "raid0", "0", "stripe", "raid1", "1", "mirror", "raid4", "4", "raid5", "5", "raid6", "6")
_RAID_LEVELS = (*_RAIDS, "raid10", "10")
_WITHOUT_SPARES = _RAIDS[:4]
_GUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_HASH = re.compile(r"sha512-.{128}", re.DOTALL)
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_BAD_ESCAPE = re.compile(r"%(?![0-9a-fA-F]{2})")
_DATA = re.compile(r"(?:[!$&-;=?-Z_a-z~]|%[0-9a-fA-F]{2})*+")
_PLAIN_SCHEMES = ("http", "https", "oem", "tftp")
_OF_ACCOUNT = (
    *("gecos", "groups", "homeDir", "noCreateHome", "noLogInit", "noUserGroup", "primaryGroup", "shell"),
    *("system", "uid"),
)


def check(config: Tree, report: Report) -> None:
    """Add what is wrong with a config."""
    storage = config.get("storage", {})
    for path, source in _sources(config):
        _check_source(path, source, report)
    for number, each in enumerate(storage.get("disks", ())):
        _check_disk(f"storage.disks[{number}]", each, report)
    for number, each in enumerate(storage.get("raid", ())):
        _check_raid(f"storage.raid[{number}]", each, report)
    for number, each in enumerate(storage.get("filesystems", ())):
        _check_filesystem(f"storage.filesystems[{number}]", each, report)
    _check_nodes(storage, report)
    for number, each in enumerate(config.get("systemd", {}).get("units", ())):
        _check_unit(f"systemd.units[{number}]", each, report)
    for number, each in enumerate(config.get("networkd", {}).get("units", ())):
        _check_network_unit(f"networkd.units[{number}]", each, report)
    for number, each in enumerate(config.get("passwd", {}).get("users", ())):
        _check_user(f"passwd.users[{number}]", each, report)


def _sources(config: Tree) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Everything that is fetched, with its path."""
    ignition = config.get("ignition", {})
    references = ignition.get("config", {})
    for number, each in enumerate(references.get("append", ())):
        yield f"ignition.config.append[{number}]", each
    if "replace" in references:
        yield "ignition.config.replace", references["replace"]
    authorities = ignition.get("security", {}).get("tls", {}).get("certificateAuthorities", ())
    for number, each in enumerate(authorities):
        yield f"ignition.security.tls.certificate_authorities[{number}]", each
    for number, each in enumerate(config.get("storage", {}).get("files", ())):
        yield f"storage.files[{number}].contents", each["contents"]


def _check_source(path: str, source: Mapping[str, Any], report: Report) -> None:
    if told := url_problem(source.get("source", "")):
        report.errors.append(f"{path} has a URL that {told}")
    if source.get("compression", "") not in ("", "gzip"):
        report.errors.append(f"{path} has a compression that is not gzip")
    digest = source.get("verification", {}).get("hash")
    if digest is not None and _HASH.fullmatch(digest) is None:
        report.errors.append(f"{path} has a hash that is not sha512 with its 128 digits")


def url_problem(url: str) -> str:
    """What is wrong with a URL, as the end of a sentence; empty: Ignition fetches it, or it is empty."""
    if not url:
        return ""
    scheme = _SCHEME.match(url)
    if _CONTROL.search(url) or scheme is None:
        return "is none"
    match scheme[1].lower():
        case "data":
            return _data_problem(url)
        case "s3":
            return _s3_problem(url)
        case known if known in _PLAIN_SCHEMES:
            return "" if is_url(url) else "is none"
    return f"has the scheme {scheme[1]}, which Ignition does not fetch"


def _s3_problem(url: str) -> str:
    try:
        query = urlsplit(url).query
    except ValueError:
        return "is none"
    versions = parse_qs(query, keep_blank_values=True).get("versionId", ["x"])
    return "" if versions[0] else "has an empty versionId"


def is_url(text: str) -> bool:
    """Whether Go reads a text as a URL, with a scheme or without."""
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError:
        return False
    if _CONTROL.search(text) or " " in parts.netloc or _BAD_ESCAPE.search(parts.netloc + parts.path):
        return False
    return bool(_SCHEME.match(text)) or ":" not in text.partition("/")[0]


def _data_problem(url: str) -> str:
    head, comma, body = url.partition(",")
    if not comma or _DATA.fullmatch(body) is None:
        return "has no data, or characters that have to be escaped"
    if head.endswith(";base64"):
        try:
            b64decode(body, validate=True)
        except ValueError:
            return "has data that are not base64"
    return ""


def _check_disk(path: str, disk: Mapping[str, Any], report: Report) -> None:
    _check_absolute(f"{path}.device", disk["device"], report)
    partitions = disk.get("partitions", ())
    numbers = [each["number"] for each in partitions if each.get("number")]
    if len(set(numbers)) < len(numbers):
        report.errors.append(f"{path}.partitions has a number twice")
    for number, each in enumerate(partitions):
        where = f"{path}.partitions[{number}]"
        label = each.get("label", "")
        if len(label.encode(errors="surrogateescape")) > 36:
            report.errors.append(f"{where}.label is longer than 36 characters")
        if ":" in label:
            report.remarks.append(f"{where}.label has a colon, which will be cut off")
        for name in ("guid", "typeGuid"):
            if each.get(name) and _GUID.fullmatch(each[name]) is None:
                report.errors.append(f"{where}.{name} is no GUID")


def _check_raid(path: str, raid: Mapping[str, Any], report: Report) -> None:
    level = raid["level"]
    if level not in _RAID_LEVELS:
        report.errors.append(f"{path}.level is not known")
    if level in _WITHOUT_SPARES and raid.get("spares"):
        report.errors.append(f"{path}.spares does not go with level {level}")
    for device in raid["devices"]:
        _check_absolute(f"{path}.devices", device, report)


def _check_filesystem(path: str, filesystem: Mapping[str, Any], report: Report) -> None:
    mount, place = filesystem.get("mount"), filesystem.get("path")
    if mount is None and place is None:
        report.errors.append(f"{path} has neither mount nor path")
    if mount is not None and place is not None:
        report.errors.append(f"{path} has both mount and path")
    if place is not None:
        _check_absolute(f"{path}.path", place, report)
    if mount is None:
        return
    where = f"{path}.mount"
    if "create" in mount:
        report.remarks.append(f"{where}.create is deprecated: use wipe_filesystem, label, uuid and options")
        for name in ("wipeFilesystem", "options"):
            if mount.get(name):
                report.errors.append(f"{where} has create and {name}")
    if mount["format"] not in _LABELS:
        report.errors.append(f"{where}.format is none of {', '.join(_LABELS)}")
    elif len(mount.get("label", "").encode(errors="surrogateescape")) > _LABELS[mount["format"]]:
        report.errors.append(f"{where}.label is longer than {mount['format']} takes")
    _check_absolute(f"{where}.device", mount["device"], report)


def _check_nodes(storage: Mapping[str, Any], report: Report) -> None:
    known = {"root"}
    for number, each in enumerate(storage.get("filesystems", ())):
        if each.get("name", "") in known:
            report.remarks.append(f"storage.filesystems[{number}] has a name that is there already")
        known.add(each.get("name", ""))
    for kind in ("files", "directories", "links"):
        for number, each in enumerate(storage.get(kind, ())):
            path = f"storage.{kind}[{number}]"
            _check_absolute(f"{path}.path", each["path"], report)
            if each["filesystem"] not in known:
                report.remarks.append(f"{path}.filesystem is not in the text")
            if not 0 <= each.get("mode", 0) <= LARGEST_MODE:
                report.errors.append(f"{path}.mode is no mode")
            if each.get("append") and each.get("overwrite"):
                report.errors.append(f"{path} has append and overwrite")
            for owner in ("user", "group"):
                if "id" in each.get(owner, {}) and each[owner].get("name"):
                    report.errors.append(f"{path}.{owner} has id and name")


def _check_unit(path: str, unit: Mapping[str, Any], report: Report) -> None:
    if unit["name"].rpartition(".")[2] not in _UNITS or "." not in unit["name"]:
        report.errors.append(f"{path}.name does not end as that of a unit does")
    sections = _check_contents(f"{path}.contents", unit.get("contents", ""), report)
    if (unit.get("enable") or unit.get("enabled")) and sections and "Install" not in sections:
        report.remarks.append(f"{path} is enabled, and has no section Install")
    _check_dropins(path, unit.get("dropins", ()), report)


def _check_network_unit(path: str, unit: Mapping[str, Any], report: Report) -> None:
    if unit["name"].rpartition(".")[2] not in _NETWORK_UNITS or "." not in unit["name"]:
        report.errors.append(f"{path}.name does not end in .{', .'.join(_NETWORK_UNITS)}")
    _check_contents(f"{path}.contents", unit.get("contents", ""), report)
    _check_dropins(path, unit.get("dropins", ()), report)


def _check_dropins(path: str, dropins: Iterable[Mapping[str, Any]], report: Report) -> None:
    for number, each in enumerate(dropins):
        where = f"{path}.dropins[{number}]"
        if not each["name"].endswith(".conf"):
            report.errors.append(f"{where}.name does not end in .conf")
        _check_contents(f"{where}.contents", each.get("contents", ""), report)


def _check_user(path: str, user: Mapping[str, Any], report: Report) -> None:
    if "create" not in user:
        return
    report.remarks.append(f"{path}.create is deprecated: what is in it belongs to the user itself")
    for name in _OF_ACCOUNT:
        if user.get(name) or (name == "uid" and name in user):
            report.errors.append(f"{path} has create and {name}")


def _check_absolute(path: str, value: str, report: Report) -> None:
    if not value.startswith("/"):
        report.errors.append(f"{path} is no absolute path")


def _check_contents(path: str, contents: str, report: Report) -> set[str]:
    """The sections of a unit that have options."""
    try:
        return set(_sections(contents))
    except ValueError as error:
        report.errors.append(f"{path} is no unit: {error}")
        return set()


def _sections(contents: str) -> Iterator[str]:
    """The section of each option of a unit.

    Raises:
        ValueError: it is none.
    """
    lines = iter(contents.split("\n"))
    section = ""
    for line in lines:
        if len(line.encode(errors="surrogateescape")) > LONGEST_LINE:
            raise ValueError(f"a line is longer than {LONGEST_LINE} bytes")
        text = line.lstrip()
        if not section and not text.startswith(("#", ";")):
            text = (
                text[text.find("[") :] if "[" in text else ""
            )  # what stands before a section does not count
        if not text:
            continue
        if text[0] in "#;":
            _continued(line, lines)
        elif text[0] == "[":
            name, bracket, rest = text[1:].partition("]")
            if not bracket:
                raise ValueError("a section's name does not end")
            if rest.strip():
                raise ValueError("something follows a section's name")
            section = name or " "
        elif "=" not in text:
            raise ValueError("an option has no =")
        else:
            yield section
            _continued(line, lines)


def _continued(line: str, lines: Iterator[str]) -> None:
    """Pass over the lines that continue this one."""
    while line.rstrip("\r").endswith("\\"):
        line = next(lines, "")
        if not line.strip():
            return
