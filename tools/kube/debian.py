"""Put programs of Debian into the cache, for ``make kube``: their packages are downloaded and unpacked only.

Invariants.  No right of root is used, and a program is complete from its first moment. Where apt-get is
             missing or has no such package, the message says what a user can do.
Called by    tools/kube/install.py.
"""

import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from kubewright.testing.real_kubernetes import cloud_init, promtool
from kubewright.testing.real_kubernetes.cached import Cached, NoProgram

PROMTOOL = (promtool.PROMTOOL, promtool.find, ("prometheus",), Path("usr/bin") / promtool.PROMTOOL.name)
CLOUD_INIT = (
    cloud_init.CLOUD_INIT,
    cloud_init.find,
    (
        *("cloud-init", "python3-configobj", "python3-jinja2", "python3-jsonpatch", "python3-jsonschema"),
        *("python3-requests", "python3-yaml"),
        *("python3-markupsafe", "python3-six", "python3-json-pointer", "python3-attr", "python3-pyrsistent"),
        *("python3-urllib3", "python3-chardet", "python3-idna", "python3-certifi"),
    ),
    Path("usr"),
)
"""Each: the place in the cache, what finds it, its packages, and what of them is kept."""

SECONDS = 300.0


class Unavailable(Exception):
    """A program could not be had; the message is for a person."""


def place(cached: Cached, find: Callable[[], Path], packages: tuple[str, ...], kept: Path) -> Path:
    """The program, which is unpacked into the cache where it is neither installed nor cached.

    Raises:
        Unavailable: Debian's packages cannot be had here.
    """
    try:
        return find()
    except NoProgram as none:
        folder = cached.folder()
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".deb-", dir=folder.parent) as scratch:
            try:
                unpack(Path(scratch), packages)
            except (OSError, subprocess.SubprocessError) as failure:
                raise Unavailable(
                    f"{none}; {packages[0]} could not be downloaded: {_words(failure)}"
                ) from failure
            folder.mkdir(exist_ok=True)
            (Path(scratch) / kept).replace(folder / kept.name)
    return find()


def unpack(scratch: Path, packages: tuple[str, ...]) -> None:
    """Download Debian's packages into a folder and unpack them there."""
    _run(scratch, "apt-get", "download", *packages)
    for package in scratch.glob("*.deb"):
        _run(scratch, "dpkg-deb", "--extract", package.name, ".")


def _run(folder: Path, *command: str) -> None:
    subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=SECONDS, check=True)


def _words(failure: Exception) -> str:
    said = getattr(failure, "stderr", "") or str(failure)
    return str(said).strip().splitlines()[-1]
