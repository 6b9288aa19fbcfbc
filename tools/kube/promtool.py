"""Put Debian's promtool into the cache, for ``make kube``: its package is downloaded and unpacked only.

Invariants.  No right of root is used, and the program is complete from its first moment. Where apt-get is
             missing or has no such package, the message says what a user can do.
Called by    tools/kube/install.py.
"""

import subprocess
import tempfile
from pathlib import Path

from kubewright.testing.real_kubernetes.cached import NoProgram
from kubewright.testing.real_kubernetes.promtool import PROMTOOL, find

PACKAGE = "prometheus"
SECONDS = 300.0


class Unavailable(Exception):
    """promtool could not be had; the message is for a person."""


def place() -> Path:
    """The program, which is unpacked into the cache where neither PATH nor the cache has it.

    Raises:
        Unavailable: Debian's package cannot be had here.
    """
    try:
        return find()
    except NoProgram as none:
        folder = PROMTOOL.folder()
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".deb-", dir=folder.parent) as scratch:
            try:
                unpack(Path(scratch))
            except (OSError, subprocess.SubprocessError) as failure:
                raise Unavailable(
                    f"{none}; {PACKAGE} could not be downloaded: {_words(failure)}"
                ) from failure
            folder.mkdir(exist_ok=True)
            (Path(scratch) / "usr" / "bin" / PROMTOOL.name).replace(folder / PROMTOOL.name)
    return find()


def unpack(scratch: Path) -> None:
    """Download Debian's package into a folder and unpack it there."""
    _run(scratch, "apt-get", "download", PACKAGE)
    (package,) = scratch.glob("*.deb")
    _run(scratch, "dpkg-deb", "--extract", package.name, ".")


def _run(folder: Path, *command: str) -> None:
    subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=SECONDS, check=True)


def _words(failure: Exception) -> str:
    said = getattr(failure, "stderr", "") or str(failure)
    return str(said).strip().splitlines()[-1]
