"""What to do next with the process of one program. Pure.

Theory.      Four things are seen: what is wanted, the process that there is, how it answers, and how the last
             one ended. From them follows one step, and when to look again. A process that is not as wanted,
             or that fails its liveness or startup probe, is asked to end; after its grace it is killed. After
             one that ended by itself the next start waits: for a second, then twice as long each time, up to
             five minutes, and for a second again once a process has lasted ten minutes. A process with more
             memory than its limit is killed, as the kernel kills a container. We look ourselves: we may not
             make control groups everywhere, and a limit of the address space (RLIMIT_AS) counts what programs
             in Go reserve and never use.
Invariants.  A start follows only when no process is there. An end counts as a failure when the process ended
             by itself or was not well, never when it was not wanted. Times are those of a monotonic clock.
Source       nested.md D4 (back-off, grace).
Called by    ``supervisor``.
"""

from dataclasses import dataclass

from kubewright.base.plan import Plan, in_seconds
from kubewright.processes.program import GRACE, Process, Program

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 300.0
LASTED = 600.0
"""A process that lived so long was well; the next pause is the first again."""
MIB = 1024 * 1024
KILLED_AGAIN = 1.0
"""Between two SIGKILLs to a process that the kernel cannot end yet, such as one that waits for a disk."""


@dataclass(frozen=True, slots=True)
class Start:
    """Start a process for the program."""


@dataclass(frozen=True, slots=True)
class Terminate:
    """Ask the process to end (SIGTERM). ``failed``: it has to end because it is not well.

    ``at_once``   it must not go on even for its grace (SIGKILL)
    """

    failed: bool = False
    at_once: bool = False


@dataclass(frozen=True, slots=True)
class Kill:
    """End it (SIGKILL)."""


@dataclass(frozen=True, slots=True)
class Forget:
    """There is nothing to keep running: the program is dropped."""


Step = Start | Terminate | Kill | Forget


@dataclass(frozen=True, slots=True)
class NextPlan(Plan[Step]):
    """At most one step, and when to look again; ``because`` is shown to users."""


@dataclass(frozen=True, slots=True)
class Health:
    """What the probes of a process say. ``unwell``: why it has to be replaced; empty if it need not."""

    started: bool = False
    ready: bool = False
    unwell: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class Failures:
    """Ends that were not wanted, and starts that failed.

    ``count``  all of them
    ``row``    those since a process last lasted
    ``at``     when the last one was
    ``last``   how it was, a sentence without a full stop
    """

    count: int = 0
    row: int = 0
    at: float = 0.0
    last: str = ""

    def with_end(self, told: str, now: float, lived: float) -> "Failures":
        """After another one; the process had lived so long."""
        row = 1 if lived >= LASTED else self.row + 1
        return Failures(self.count + 1, row, now, told)

    @property
    def pause(self) -> float:
        """Seconds from the last one until the next start."""
        if not self.row:
            return 0.0
        doublings = min(self.row - 1, 16)  # far beyond the longest pause; the power stays small
        return min(FIRST_PAUSE * 2.0**doublings, LONGEST_PAUSE)


@dataclass(frozen=True, slots=True)
class Seen:
    """All that a decision reads.

    ``wanted``    None: the program was dropped
    ``asked``     when the process was asked to end; None: it was not
    ``grace``     of the program that the process runs
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
    if seen.failures.row and due > seen.now:
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
