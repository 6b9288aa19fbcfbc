"""What should run as one process, and what can be seen of it: values.

Theory.      The words are the kubelet's: three probes, a termination grace period, a restart count, a
             container that waits, runs or has terminated. A fingerprint stands for all that a process was
             started with: when it differs from that of the program that is wanted, the process is replaced.
             All of it can be written down as JSON, so that a caller can keep what it wanted.
Invariants.  The content of files is in no ``repr``. Times are seconds of a monotonic clock, unless said.
Called by    the other modules here, and what makes programs of manifests.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import sha256
from pathlib import Path

import msgspec

import kubewright

BALANCER = "kubewright.processes.balancer"
GRACE = 30.0
"""Seconds between SIGTERM and SIGKILL: the default of a Pod."""
FILES = "files"
"""The folder of a program's files, inside of the program's folder."""


class HttpGet(msgspec.Struct, frozen=True, tag=True):
    """Good when the URL answers with a status from 200 to 399. Like a kubelet it checks no certificate."""

    url: str


class TcpConnect(msgspec.Struct, frozen=True, tag=True):
    """Good when the port accepts a connection."""

    host: str
    port: int


class Command(msgspec.Struct, frozen=True, tag=True):
    """Good when the command, in the program's folder and environment, exits with 0."""

    argv: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Probe:
    """A startup, readiness or liveness probe, with Kubernetes' defaults. Times in seconds.

    ``failures``   attempts that fail in a row until the probe has failed (failureThreshold)
    ``delay``      from the start, or from the end of the startup probe, to the first attempt
    """

    check: HttpGet | TcpConnect | Command
    period: float = 10.0
    timeout: float = 1.0
    failures: int = 3
    delay: float = 0.0


@dataclass(frozen=True, slots=True)
class Program:
    """What should run under one name.

    ``name``         names the folder: lower-case letters, digits, ``.``, ``-``, and ``/`` between parts
    ``argv``         the program's path and its arguments; no secret is among them
    ``environment``  all of it; nothing is inherited
    ``files``        content by path below ``files/`` in the folder; written before the start, mode 0600
    ``data``         folders below the program's own, which it may write to and which stay
    ``grace``        seconds between SIGTERM and SIGKILL
    ``user``         uid and gid to run as; None: as the supervisor does
    ``memory``       the most resident bytes that it may have; 0: there is no limit
    ``oom_score``    from 0 to 1000: the higher, the sooner the kernel ends it when memory is short
    ``settings``     the fingerprint, where the caller knows it; empty: it is computed from the other fields
    """

    name: str
    argv: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    data: tuple[str, ...] = ()
    startup: Probe | None = None
    readiness: Probe | None = None
    liveness: Probe | None = None
    grace: float = GRACE
    user: tuple[int, int] | None = None
    memory: int = 0
    oom_score: int = 0
    settings: str = ""

    @property
    def fingerprint(self) -> str:
        """A process with another fingerprint is replaced; probes, grace and limits change without that."""
        if self.settings:
            return self.settings
        digest = sha256()
        parts = [*self.argv, *(f"{key}={value}" for key, value in sorted(self.environment.items()))]
        for text in (*parts, repr(self.user)):
            digest.update(text.encode() + b"\0")
        for path, content in sorted(self.files.items()):
            digest.update(path.encode() + b"\0" + sha256(content).digest())
        return digest.hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Process:
    """A process that a supervisor of ours started; with a pid alone it could be another one's.

    ``ticks``        when it started, in clock ticks since boot (``/proc/<pid>/stat``)
    ``mark``         a random word in its environment, drawn anew for each start
    ``fingerprint``  of the program that it was started for
    """

    pid: int
    ticks: int
    mark: str
    fingerprint: str


@dataclass(frozen=True, slots=True)
class Exit:
    """How a process ended: its exit code, or minus the signal; None when it was not our child."""

    code: int | None = None

    def __str__(self) -> str:
        if self.code is None:
            return "it ended"
        return f"signal {-self.code} ended it" if self.code < 0 else f"it ended with exit code {self.code}"


class Phase(StrEnum):
    """What a program is doing, in the kubelet's words where it has one."""

    WAITING = "Waiting"
    STARTING = "Starting"
    RUNNING = "Running"
    TERMINATING = "Terminating"
    BACK_OFF = "CrashLoopBackOff"
    STOPPED = "Stopped"


@dataclass(frozen=True, slots=True)
class Status:
    """What can be seen of a program.

    ``ready``     its process has started, and its readiness probe says so
    ``since``     when the process started, in seconds since the epoch; 0.0 without one
    ``restarts``  how often a process of it failed with these settings: ended by itself, or had to be ended
    ``message``   what is wrong, or what is waited for; a clause such as "it is ending"
    ``memory``    resident bytes of the process
    ``cpu``       seconds of processor time that it has used
    """

    name: str
    phase: Phase
    ready: bool = False
    pid: int = 0
    fingerprint: str = ""
    since: float = 0.0
    restarts: int = 0
    message: str = ""
    memory: int = 0
    cpu: float = 0.0


def balancer(
    name: str, endpoint: tuple[str, int], arguments: Sequence[str], environment: Mapping[str, str]
) -> Program:
    """The program that balances the connections to an endpoint (``balancer``), with these further arguments;
    another version of Kubewright that wants the same goes on with it."""
    given = (f"--listen={endpoint[0]}:{endpoint[1]}", *arguments)
    listens = TcpConnect(*endpoint)
    return Program(
        name=name,
        argv=(sys.executable, "-S", "-P", "-m", BALANCER, *given),
        environment={**environment, "PYTHONPATH": str(Path(kubewright.__file__).parents[1])},
        startup=Probe(listens, period=0.1, failures=600),
        readiness=Probe(listens),
        grace=15.0,
        settings=sha256("\0".join(given).encode()).hexdigest()[:16],
    )


def safe_name(name: str) -> bool:
    """Whether a name can be a folder: no part is empty or begins with a dot."""
    allowed = set("abcdefghijklmnopqrstuvwxyz0123456789.-")
    return all(part and part[0] != "." and set(part) <= allowed for part in name.split("/"))


def folder_of(root: Path, name: str) -> Path:
    """The folder of a program."""
    return root.joinpath(*name.split("/"))
