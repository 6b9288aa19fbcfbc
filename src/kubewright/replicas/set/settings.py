"""What an operator may set for all sets of one kind."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SetSettings:
    """Bounds of one pass, and how often a status may be written. Times are in seconds."""

    burst: int = 250
    """Members created, and members deleted, in one pass; the next pass follows at once (MCM: 100)."""

    concurrency: int = 32
    """Requests of one pass in flight."""

    status_seconds: float = 0.5
    """Least time between two status writes of one set; the last state is always written."""

    gather_seconds: float = 0.03
    """How long a member's change waits for others before its set looks: bursts become one pass. Large
    sets wait for longer (``members.LOOK_SECONDS``)."""

    doubt_seconds: float = 60.0
    """A creation without an answer may still happen for so long: kube-apiserver's request timeout."""

    resize_seconds: float = 5.0
    """How long a set whose size is for another desired size than its deployment's waits for a new size."""

    workers: int = 10
