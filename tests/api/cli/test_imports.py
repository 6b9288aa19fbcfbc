"""What each command loads: counts of modules, since a time would differ from machine to machine.

A command runs in a process of its own, up to where it would connect, and says at its end what was loaded.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

SAY = """
import atexit, json, os, sys
atexit.register(lambda: os.write(2, b"\\n" + json.dumps(sorted(sys.modules)).encode()))
from kubewright.cli import main
main(sys.argv[1:])
"""
OURS = "kubewright."
SERVER = "kubewright.apiserver.server"
EXTRAS = ("grpc", "aiobotocore", "botocore")
"""What is not installed with the package alone: only what a user names may need it."""
WIRING = tuple(
    f"kubewright.{context}.wiring"
    for context in ("machines", "clusters", "bootstrap", "infra", "controlplanes", "reserves")
)
PLANES = (
    "kubewright.controlplanes.component",
    "kubewright.controlplanes.plane",
    "kubewright.compose.own_planes",
)
HTTP = ("aiohttp", "cryptography", "structlog", "rich", "jsonschema_rs", "prometheus_client")


class Command(NamedTuple):
    """``most``: modules of ours that it may load, about a tenth above what it does; ``never``: packages that it has no use for."""

    most: int
    never: tuple[str, ...]


COMMANDS = {
    "--help": Command(30, (*HTTP, *WIRING, SERVER, "kubewright.compose", "kubewright.api")),
    "version": Command(30, (*HTTP, *WIRING, SERVER, "kubewright.compose", "kubewright.api")),
    "completion bash": Command(30, (*HTTP, *WIRING, SERVER, "kubewright.compose", "kubewright.api")),
    "up --help": Command(30, (*HTTP, *WIRING, SERVER, "kubewright.compose", "kubewright.api")),
    "run --help": Command(190, (*WIRING, *PLANES, SERVER, "aiohttp", "jsonschema_rs", "kubewright.builtin")),
    "run --kubeconfig=missing --controllers=machineset": Command(
        240, (*WIRING, *PLANES, SERVER, "jsonschema_rs", "kubewright.builtin", "kubewright.replicas")
    ),
    "crds": Command(195, (*WIRING, *PLANES, SERVER, "aiohttp", "jsonschema_rs", "kubewright.builtin")),
    "status --data-dir=missing": Command(
        130, (*WIRING, *PLANES, SERVER, "jsonschema_rs", "kubewright.machines")
    ),
    "cluster describe demo --data-dir=missing": Command(
        140, (*WIRING, *PLANES, SERVER, "jsonschema_rs", "kubewright.clusters")
    ),
}


@pytest.mark.parametrize("words", COMMANDS)
def test_a_command_loads_only_what_it_needs(words: str, tmp_path: Path) -> None:
    loaded, allowed = modules(words, tmp_path), COMMANDS[words]
    needless = [
        name
        for name in loaded
        if name.startswith(prefixes(*allowed.never, *EXTRAS)) or name in (*allowed.never, *EXTRAS)
    ]
    ours = sum(name.startswith(OURS) for name in loaded)
    assert (needless, ours <= allowed.most) == ([], True), f"{ours} modules of ours"


def prefixes(*packages: str) -> tuple[str, ...]:
    return tuple(f"{each}." for each in packages)


def modules(words: str, folder: Path) -> list[str]:
    """The names of the modules that a command has loaded when it ends."""
    done = subprocess.run(
        [sys.executable, "-c", SAY, *words.split()],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    return list(json.loads(done.stderr.splitlines()[-1]))
