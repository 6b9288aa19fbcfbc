"""What should run as one process, what can be seen of it, and what is done with it next. Pure.

Theory.      The words are the kubelet's: three probes, a termination grace period, a restart count, a
             container that waits, runs or has terminated. A fingerprint stands for all that a process was
             started with: when it differs from that of the program that is wanted, the process is replaced.
             All of it can be written down as JSON, so that a caller can keep what it wanted.
             What to do next with the process of one program. A decision reads four things: the program that
             is wanted, its process, what the probes say, and how the last process ended. From them follow one
             step, and when to look again. A process that was started with other settings, or that fails its
             liveness or startup probe, gets SIGTERM, and SIGKILL after its grace period. After a process that
             ended by itself the next start waits: for a second, then twice as long each time, up to five
             minutes, and for a second again once a process has lasted ten minutes. A process with more memory
             than its limit is killed, as the kernel kills a container. The worker measures that memory
             itself: it may not make control groups everywhere, and a limit of the address space (RLIMIT_AS)
             counts what programs in Go reserve and never use.
Invariants.  The content of files is in no ``repr``. Times are seconds of a monotonic clock, unless said.
             A start follows only when no process is there. An end counts as a failure when the process ended
             by itself or was not well, never when it was not wanted. Times are those of a monotonic clock.
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
from kubewright.base.plan import Plan, in_seconds

BALANCER = "kubewright.processes.balancer"
GRACE = 30.0
"""Seconds between SIGTERM and SIGKILL: the default of a Pod."""
STARTS = 2
"""Programs that start at one time: on two cores more of them only make each other late."""
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


FIRST_PAUSE, LONGEST_PAUSE = 1.0, 300.0
LASTED = 600.0
"""Seconds. After a process that lived so long, the next pause is the first one again."""
MIB = 1024 * 1024
KILLED_AGAIN = 1.0
"""Seconds between two SIGKILLs to a process that the kernel cannot end yet: it may wait for a disk."""


@dataclass(frozen=True, slots=True)
class Start:
    """Start a process for the program."""


@dataclass(frozen=True, slots=True)
class Terminate:
    """Ask the process to end (SIGTERM).

    ``failed``    it has to end because of a fault of its own, so its end counts as a failure
    ``at_once``   it gets no grace period (SIGKILL)
    """

    failed: bool = False
    at_once: bool = False


@dataclass(frozen=True, slots=True)
class Kill:
    """The grace period is over: end the process (SIGKILL)."""


@dataclass(frozen=True, slots=True)
class Forget:
    """Nothing runs and nothing is wanted: delete the record, and end the worker."""


Step = Start | Terminate | Kill | Forget


@dataclass(frozen=True, slots=True)
class NextPlan(Plan[Step]):
    """At most one step, and when to look again; ``because`` is shown to users."""


@dataclass(frozen=True, slots=True)
class Health:
    """What the probes of a process say.

    ``unwell``    why the process has to be replaced; empty if it may go on
    ``message``   why a probe of the last round failed; empty if none did
    """

    started: bool = False
    ready: bool = False
    unwell: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class Failures:
    """Ends of processes by a fault of their own, and starts that failed.

    ``count``        all of them
    ``consecutive``  those since a process lived for ``LASTED``; the pause follows from them
    ``at``           when the last one was
    ``last``         what happened then, a sentence without a full stop
    """

    count: int = 0
    consecutive: int = 0
    at: float = 0.0
    last: str = ""

    def with_end(self, told: str, now: float, lived: float) -> "Failures":
        """With one more. ``told``: what happened; ``lived``: for how many seconds the process ran."""
        consecutive = 1 if lived >= LASTED else self.consecutive + 1
        return Failures(self.count + 1, consecutive, now, told)

    @property
    def pause(self) -> float:
        """Seconds from the last one until the next start."""
        if not self.consecutive:
            return 0.0
        doublings = min(self.consecutive - 1, 16)  # far beyond the longest pause; the power stays small
        return min(FIRST_PAUSE * 2.0**doublings, LONGEST_PAUSE)


@dataclass(frozen=True, slots=True)
class Seen:
    """All that a decision reads.

    ``wanted``    the program; None: it was dropped
    ``asked``     when the process was asked to end; None: it was not
    ``grace``     seconds from then until it is killed
    ``memory``    resident bytes of the process
    """

    now: float
    wanted: Program | None
    process: Process | None = None
    health: Health = Health()
    asked: float | None = None
    grace: float = GRACE
    failures: Failures = Failures()
    memory: int = 0


def decide(seen: Seen) -> NextPlan:
    """The one step that is next, and when to look again without an event."""
    if seen.process is not None:
        return _end(seen, seen.process) or NextPlan(because="it runs")
    if seen.wanted is None:
        return NextPlan((Forget(),), because="it is not wanted")
    due = seen.failures.at + seen.failures.pause
    if seen.failures.consecutive and due > seen.now:
        told = f"{seen.failures.last}; the next start is {seen.failures.pause:g} s after that"
        return NextPlan(wake=in_seconds(due - seen.now), because=told)
    return NextPlan((Start(),), because="it does not run")


def _end(seen: Seen, process: Process) -> NextPlan | None:
    """The end of a process that must not go on; None if it may."""
    if seen.asked is not None:
        due = seen.asked + seen.grace
        if due <= seen.now:
            because = f"it did not end within {seen.grace:g} s"
            return NextPlan((Kill(),), wake=in_seconds(KILLED_AGAIN), because=because)
        return NextPlan(wake=in_seconds(due - seen.now), because="it is ending")
    wake = in_seconds(seen.grace)
    if seen.wanted is None:
        return NextPlan((Terminate(),), wake, "it is not wanted any more")
    if process.fingerprint != seen.wanted.fingerprint:
        return NextPlan((Terminate(),), wake, "it was started with other settings")
    if seen.wanted.memory and seen.memory > seen.wanted.memory:
        used, limit = (f"{each / MIB:.0f} MiB" for each in (seen.memory, seen.wanted.memory))
        because = f"it used {used} of memory, and its limit is {limit}"
        return NextPlan((Terminate(failed=True, at_once=True),), wake, because)
    if seen.health.unwell:
        return NextPlan((Terminate(failed=True),), wake, seen.health.unwell)
    return None
