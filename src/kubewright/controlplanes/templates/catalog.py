"""Reads a folder of sets of templates into a value.

Theory.      The folder is read once, when the controllers are wired. So an error in it is reported then, with
             the name of the file, and not when a control plane needs it.
Invariants.  Versions and channels that objects name are keys of this value, never paths, so none of them
             leads out of the folder.
Layout       ``<channel>``  YAML: ``manifests``, a list of entries with ``name`` (a package) and ``version``
             ``packages/<package>/<version>/*.yaml``  the manifests, in the order of their files' names
Called by    ``controlplanes.wiring``, and tests of the files.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from kubewright.api.controlplane.names import CHANNEL, PACKAGE
from kubewright.base.errors import InvalidInput
from kubewright.wire import goyaml

PACKAGES = "packages"
LARGEST = 1024 * 1024
"""Bytes of one file; a set of templates is a few thousand."""

Manifest = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a channel. An entry without a package is for every package without an entry of its own."""

    package: str
    version: str


@dataclass(frozen=True, slots=True)
class Catalog:
    """All sets: the entries of each channel, and the manifests of each package and version."""

    channels: Mapping[str, Sequence[Entry]] = field(default_factory=dict)
    packages: Mapping[tuple[str, str], Sequence[Manifest]] = field(default_factory=dict)


def read(folder: Path | Traversable) -> Catalog:
    """The catalog of a folder.

    Raises:
        InvalidInput: a file is not what it should be; the message says which and how.
    """
    channels, packages = {}, {}
    for file in _sorted(folder):
        if file.name == PACKAGES:
            packages = dict(_packages(file))
        elif CHANNEL.fullmatch(file.name):
            channels[file.name] = tuple(_entries(file))
    return Catalog(channels, packages)


def _entries(file: Traversable) -> Iterator[Entry]:
    for document in _documents(file):
        listed = document.get("manifests")
        if not isinstance(listed, list):
            raise InvalidInput(f"channel {file.name}: it has no list named manifests")
        for number, entry in enumerate(listed):
            found = entry if isinstance(entry, dict) else {}
            package, version = str(found.get("name") or ""), str(found.get("version") or "")
            if (package and not PACKAGE.fullmatch(package)) or not PACKAGE.fullmatch(version):
                raise InvalidInput(
                    f"channel {file.name}: manifests[{number}] needs a version, and may have a name"
                )
            yield Entry(package, version)


def _packages(folder: Traversable) -> Iterator[tuple[tuple[str, str], tuple[Manifest, ...]]]:
    for package in _sorted(folder):
        for version in _sorted(package):
            for name in (package.name, version.name):
                if not PACKAGE.fullmatch(name):
                    raise InvalidInput(f"templates: {name!r} cannot be the name of a package or a version")
            files = [each for each in _sorted(version) if each.is_file()]
            yield (package.name, version.name), tuple(part for each in files for part in _documents(each))


def _documents(file: Traversable) -> Iterator[Manifest]:
    text = file.read_bytes()
    if len(text) > LARGEST:
        raise InvalidInput(f"templates: {file.name} is larger than {LARGEST} bytes")
    try:
        documents = goyaml.load_all(text)
    except goyaml.Unreadable as error:
        raise InvalidInput(f"templates: {file.name} is not YAML: {error}") from None
    for document in documents:
        if document is None:
            continue
        if not isinstance(document, dict):
            raise InvalidInput(f"templates: {file.name} holds something that is not an object")
        yield document


def _sorted(folder: Traversable | Path) -> list[Traversable]:
    return sorted(folder.iterdir(), key=lambda each: each.name)
