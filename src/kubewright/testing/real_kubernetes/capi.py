"""Cluster API itself, to compare with: the programs of its release, found in the cache and run on loopback.

Theory.      Two of its programs work on an API server that has the CRDs already, ours or theirs: the core
             manager and the manager of its kubeadm bootstrap provider. Each listens for admission too, with a
             certificate that no API server is told of: objects reach them as they were written. The
             third, ``clusterctl``, is run by tests as a person runs it. A decoder of ours
             (tools/kube/cluster-api/strict) says whether the release's own types know every field of objects.
Invariants.  Nothing is downloaded or built here (tools/kube does that). The programs end with us. They
             listen on loopback, but for the port of admission: no flag of theirs takes its address.
Source       the help of Cluster API's managers (flags, with their defaults).
Called by    tools/kube/install.py, the fixtures of tests.
"""

import json
import os
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from kubewright.base.clock import Clock
from kubewright.base.errors import InvalidInput
from kubewright.testing import keys
from kubewright.testing.real_kubernetes.binaries import kubewright_cache
from kubewright.testing.real_kubernetes.cluster import Program, free_ports, write_private

VERSION = "v1.7.1"
"""The release that ``make kube`` builds; pinned in tools/kube/cluster-api/go.mod as well."""

CORE, BOOTSTRAP, CLUSTERCTL = PROGRAMS = ("cluster-api", "kubeadm-bootstrap", "clusterctl")
DECODER = "strict-decoder"
READY_SECONDS = 60.0
PROBE = aiohttp.ClientTimeout(total=2.0)


class NoClusterApi(InvalidInput):
    """This machine has no Cluster API to compare with; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Managers:
    """Where the programs are: ``core`` and ``bootstrap`` are managers, ``clusterctl`` is for people."""

    core: Path
    bootstrap: Path
    clusterctl: Path


def cache_folder(environ: Mapping[str, str] | None = None) -> Path:
    """Where ``make kube`` puts ``VERSION``; outside every checkout, shared by all of them."""
    return kubewright_cache(environ) / "cluster-api" / VERSION


def in_folder(folder: Path) -> Managers | None:
    """The programs in a folder, if it has all of them."""
    paths = [folder / name for name in PROGRAMS]
    return Managers(*paths) if all(os.access(path, os.X_OK) for path in paths) else None


def find(environ: Mapping[str, str] | None = None) -> Managers:
    """The programs to use.

    Raises:
        NoClusterApi: the cache has not got them.
    """
    if (found := in_folder(cache_folder(environ))) is not None:
        return found
    raise NoClusterApi(f"no Cluster API {VERSION} on this machine; `make kube` builds one")


def decoder_folder(environ: Mapping[str, str] | None = None) -> Path:
    """Where ``make kube`` puts the decoder; apart from the programs, which are complete without it."""
    return kubewright_cache(environ) / DECODER / VERSION


def decoder_in(folder: Path) -> Path | None:
    """The decoder in a folder, if it is there."""
    program = folder / DECODER
    return program if os.access(program, os.X_OK) else None


def misread(objects: Iterable[Mapping[str, Any]]) -> str:
    """What the types of the release do not know in objects, or cannot read, in lines; empty if all is well.

    Raises:
        NoClusterApi: the cache has not got the decoder.
    """
    if (program := decoder_in(decoder_folder())) is None:
        raise NoClusterApi(f"no decoder of Cluster API {VERSION} on this machine; `make kube` builds one")
    text = "\n".join(json.dumps(each) for each in objects)
    done = subprocess.run(
        [program], input=text, capture_output=True, text=True, timeout=READY_SECONDS, check=False
    )
    return "" if done.returncode == 0 else done.stdout + done.stderr


async def start(program: Path, kubeconfig: Path, folder: Path, clock: Clock, *flags: str) -> Program:
    """Start a manager against the server of ``kubeconfig``; ``folder`` gets its log and its certificate.

    Returns when it works. The caller stops it.

    Raises:
        NotReady: it ended, or does not work within a minute.
    """
    served = keys.in_memory(clock).server
    certificates = folder / f"{program.name}-certificates"
    certificates.mkdir(mode=0o700)
    write_private(certificates / "tls.crt", served.certificate)
    write_private(certificates / "tls.key", served.key)
    health, webhook = free_ports(2)
    running = Program(
        [
            program,
            f"--kubeconfig={kubeconfig}",
            f"--health-addr=127.0.0.1:{health}",
            "--diagnostics-address=127.0.0.1:0",
            "--insecure-diagnostics",
            f"--webhook-port={webhook}",
            f"--webhook-cert-dir={certificates}",
            "--leader-elect=false",
            *flags,
        ],
        folder / f"{program.name}.log",
        clock,
    )
    await running.wait_until(lambda: answers(f"http://127.0.0.1:{health}/readyz"), READY_SECONDS)
    return running


async def answers(url: str) -> bool:
    """Whether a program says at ``url``, by plain HTTP, that it is well."""
    try:
        async with aiohttp.ClientSession(timeout=PROBE) as http, http.get(url) as answer:
            return answer.status == 200
    except (aiohttp.ClientError, TimeoutError, OSError):
        return False
