"""Read a VM's user data: which files are written, and which commands run after that. Pure.

Theory.      The two forms that bootstrap providers write. cloud-config is YAML below a line
             ``#cloud-config``; above it a line ``## template: jinja`` may stand, and then cloud-init fills
             in what it knows of the VM before it reads the YAML; statements are skipped here. Ignition is
             JSON: files, and units whose ``ExecStart`` runs one of them. Of both, only what bootstraps a node
             counts: users, disks and clocks are skipped.
Invariants.  What cannot be read raises ``Unbootable`` with one sentence, never a part of the content: it
             holds keys and tokens.
Source       capi.md §9.6, §9.7; cloud-init's modules write_files and runcmd.
Called by    ``boots``.
"""

import base64
import binascii
import re
import shlex
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote_to_bytes

from kubewright.base.errors import InvalidInput
from kubewright.wire import gojson, goyaml

CLOUD_CONFIG, IGNITION = "cloud-config", "ignition"
LARGEST = 16 * 1024 * 1024
"""Bytes of all files, unpacked: more is a mistake, or an attack on the process that unpacks them."""

GZIP = 16 + zlib.MAX_WBITS

_JINJA = re.compile(
    r"\{\{\s*(?P<variable>[\w.]+)\s*\}\}"
    r"|\{\{ '(?P<printed>\{[{%#])' \}\}"
    r"|\{%[^%]*+%\}\n?|\{#[^#]*+#\}\n?"
)


class Unbootable(InvalidInput):
    """A VM with this data would not become a node; the message says why."""


@dataclass(frozen=True, slots=True)
class BootData:
    """The files of a VM by path, and the shell lines that run. Its repr shows no contents."""

    files: Mapping[str, str] = field(default_factory=dict, repr=False)
    commands: tuple[str, ...] = ()


def read(data: bytes, data_format: str, variables: Mapping[str, str]) -> BootData:
    """What a VM does with its data: nothing, if they are empty.

    ``variables`` is what cloud-init knows of the VM (``ds.meta_data.…``).

    Raises:
        Unbootable: it is not of that format, or something in it cannot be read.
    """
    readers: Mapping[str, Callable[[], BootData]] = {
        CLOUD_CONFIG: lambda: _cloud_config(_text(data), variables),
        IGNITION: lambda: _ignition(data),
    }
    if (reader := readers.get(data_format)) is None:
        raise Unbootable(f"no image of the simulated cloud reads user data of format {data_format!r}")
    return reader() if data else BootData()


def _cloud_config(text: str, variables: Mapping[str, str]) -> BootData:
    lines = text.splitlines()
    if lines and re.fullmatch(r"##\s*template:\s*jinja\s*", lines[0]):
        text = _JINJA.sub(lambda tag: _filled(tag, variables), "\n".join(lines[1:]))
    if not text.lstrip().startswith("#cloud-config"):
        raise Unbootable("the user data is no cloud-config: it does not begin with #cloud-config")
    try:
        document = goyaml.loads_as_python(text)
    except goyaml.Unreadable as error:
        where = f" in line {error.line}" if error.line else ""
        raise Unbootable(f"the cloud-config is no YAML{where}") from None
    sections = document if isinstance(document, Mapping) else {}
    files, left = dict[str, list[str]](), LARGEST
    for entry in _list(sections, "write_files"):
        if not isinstance(entry, Mapping) or not isinstance(entry.get("path"), str):
            raise Unbootable("an entry of write_files has no path")
        if not entry.get("append"):
            files.pop(entry["path"], None)
        content = _content(entry, left)
        left -= len(content)
        files.setdefault(entry["path"], []).append(content)
    whole = {path: "".join(parts) for path, parts in files.items()}
    return BootData(whole, tuple(_commands(_list(sections, "runcmd"))))


def _filled(found: re.Match[str], variables: Mapping[str, str]) -> str:
    """What stands for a tag: a variable's value, the text of a mark that is printed, of others nothing."""
    if found["variable"]:
        return variables.get(found["variable"], found[0])
    return found["printed"] or ""


def _commands(entries: Iterable[Any]) -> Iterable[str]:
    """The lines of ``runcmd``; a list is one command with its arguments."""
    for entry in entries:
        if isinstance(entry, list):
            yield shlex.join(map(str, entry))
        elif isinstance(entry, str):
            yield entry


def _content(entry: Mapping[str, Any], most: int) -> str:
    content, encoding = entry.get("content") or "", str(entry.get("encoding") or "").lower()
    if not encoding or encoding == "text/plain":
        return str(content)
    raw = content if isinstance(content, bytes) else str(content).encode()
    try:
        if "b64" in encoding or "base64" in encoding:
            raw = base64.b64decode(raw)
        return _text(_unpacked(raw, most) if "gz" in encoding else raw)
    except (binascii.Error, zlib.error):
        raise Unbootable(f"{entry['path']} is not what its encoding {encoding!r} says") from None


def _unpacked(raw: bytes, most: int) -> bytes:
    """What was packed, ``most`` bytes at most.

    Raises:
        Unbootable: it is more.
        zlib.error: it is not packed.
    """
    unpacking = zlib.decompressobj(GZIP)
    found = unpacking.decompress(raw, most + 1)
    if len(found) > most:
        raise Unbootable(f"the files have more than {LARGEST} bytes")
    return found


def _ignition(data: bytes) -> BootData:
    try:
        document = gojson.loads(data)
    except gojson.Unreadable:
        raise Unbootable("the Ignition config is no JSON") from None
    if not isinstance(document, Mapping) or "ignition" not in document:
        raise Unbootable("the user data is no Ignition config: it has no member ignition")
    files: dict[str, str] = {}
    for entry in _maps(document.get("storage"), "files"):
        contents = entry.get("contents")
        source = contents.get("source") if isinstance(contents, Mapping) else ""
        files[str(entry.get("path", ""))] = _data_url(str(source or ""))
    commands: list[str] = []
    for unit in _maps(document.get("systemd"), "units"):
        for line in str(unit.get("contents") or "").splitlines():
            if line.startswith("ExecStart=") and unit.get("enabled", True):
                commands.append(line.removeprefix("ExecStart="))
    return BootData(files, tuple(commands))


def _data_url(source: str) -> str:
    """The content of ``data:[type][;base64],…``; of other addresses nothing: no VM of ours fetches."""
    head, comma, body = source.partition(",")
    if not comma or not head.startswith("data:"):
        return ""
    raw = unquote_to_bytes(body)
    try:
        return _text(base64.b64decode(raw) if head.endswith(";base64") else raw)
    except binascii.Error:
        raise Unbootable("a file of the Ignition config is not what its encoding base64 says") from None


def _maps(sections: Any, name: str) -> list[Mapping[str, Any]]:
    found = _list(sections, name)
    if not all(isinstance(each, Mapping) for each in found):
        raise Unbootable(f"an entry of {name} is no map")
    return found


def _list(sections: Any, name: str) -> list[Any]:
    found = sections.get(name) if isinstance(sections, Mapping) else None
    if found is None:
        return []
    if not isinstance(found, list):
        raise Unbootable(f"{name} is no list")
    return found


def _text(raw: bytes) -> str:
    return raw.decode(errors="replace")
