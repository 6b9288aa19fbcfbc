"""What to do next with the process of one program. Pure.

Theory.      A decision reads four things: the program that is wanted, its process, what the probes say, and
             how the last process ended. From them follow one step, and when to look again. A process that was
             started with other settings, or that fails its liveness or startup probe, gets SIGTERM, and
             SIGKILL after its grace period. After a process that ended by itself the next start waits: for a
             second, then twice as long each time, up to five minutes, and for a second again once a process
             has lasted ten minutes. A process with more memory than its limit is killed, as the kernel kills
             a container. The worker measures that memory itself: it may not make control groups everywhere,
             and a limit of the address space (RLIMIT_AS) counts what programs in Go reserve and never use.
Invariants.  A start follows only when no process is there. An end counts as a failure when the process ended
             by itself or was not well, never when it was not wanted. Times are those of a monotonic clock.
Source       nested.md D4 (back-off, grace).
Called by    ``supervisor``, which counts failures with ``Failures``.
"""

from dataclasses import dataclass

from kubewright.base.plan import Plan, in_seconds
from kubewright.processes.program import GRACE, Process, Program

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
