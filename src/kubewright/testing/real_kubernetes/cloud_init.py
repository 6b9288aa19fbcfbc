"""cloud-init itself: what a machine would make of user data.

Theory.      Its own modules render Jinja, read the YAML, check it against their schema, and decode files,
             as they do at boot; nothing is written and no command runs. cloud-init is a library of the
             system's Python, so a process of that Python is asked. Debian's package is there in seconds,
             installed or unpacked into the cache.
Invariants.  The installed one goes before the cache's.
Called by    tools/kube/debian.py, tests/conformance.
"""

import json
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kubewright.testing.real_kubernetes.cached import Cached, NoProgram

CLOUD_INIT = Cached("cloud-init", "debian")
PYTHON = Path("/usr/bin/python3")
LIBRARIES = Path("usr/lib/python3/dist-packages")
SECONDS = 120.0

_READER = """
import json, os, sys, tempfile
from cloudinit import util
from cloudinit.config import cc_write_files as writer
from cloudinit.config.schema import get_schema, validate_cloudconfig_schema
from cloudinit.handlers.jinja_template import render_jinja_payload_from_file

asked = json.load(sys.stdin)
known = os.path.join(tempfile.mkdtemp(dir=sys.argv[1]), "instance-data.json")
with open(known, "w") as file:
    json.dump(asked["instance"], file)

def read(data):
    try:
        rendered = render_jinja_payload_from_file(data, "part-001", known)
        found = util.load_yaml(rendered) if rendered else None
        if not isinstance(found, dict):
            return {"problem": "cloud-init reads no cloud-config"}
        validate_cloudconfig_schema(found, schema=get_schema(), strict=True)
        files = {each["path"]: content(each) for each in found.get("write_files", [])}
    except Exception as error:
        return {"problem": f"{type(error).__name__}: {error}"[:2000]}
    return {"files": files, "sections": found}

def content(entry):
    how = writer.canonicalize_extraction(entry.get("encoding"))
    return util.decode_binary(writer.extract_contents(entry.get("content", ""), how))

json.dump([read(each) for each in asked["data"]], sys.stdout)
"""


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine that booted from user data.

    ``problem``   why it did not; empty if it did
    ``files``     what is written, by path
    ``sections``  the whole cloud-config, as cloud-init reads it
    """

    problem: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    sections: Mapping[str, Any] = field(default_factory=dict)


def find(environ: Mapping[str, str] | None = None) -> Path:
    """The folder with cloud-init's modules.

    Raises:
        NoProgram: there is none.
    """
    installed = Path("/") / LIBRARIES
    if shutil.which(CLOUD_INIT.name) and (installed / "cloudinit").is_dir():
        return installed
    cached = CLOUD_INIT.folder(environ) / LIBRARIES
    if (cached / "cloudinit").is_dir() and PYTHON.exists():
        return cached
    raise NoProgram("no cloud-init on this machine; `apt-get install cloud-init` or `make kube` gets one")


def booted(libraries: Path, scratch: Path, data: Sequence[str], instance: Mapping[str, Any]) -> list[Machine]:
    """What becomes of machines with these user data. ``instance``: what cloud-init knows of each."""
    done = subprocess.run(
        [PYTHON, "-c", _READER, str(scratch)],
        input=json.dumps({"data": list(data), "instance": instance}),
        env={"PYTHONPATH": str(libraries), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=True,
    )
    return [Machine(**each) for each in json.loads(done.stdout)]
