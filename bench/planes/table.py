"""The result of control planes as tables, beside the budgets and what others publish."""

from dataclasses import dataclass, field
from math import nan

from rich.console import Console
from rich.table import Table

from bench.planes.changes import LATE_SECONDS, NOT_MEASURED, Cost
from bench.table import Budget, beside

EMBEDDED, REAL = "embedded", "1.36"
"""The channels: control planes inside of ``kubewright up``, and of Kubernetes' programs beside it."""
EARLIER = "1.35"
"""The channel from which a control plane of real programs is upgraded; `make kube RELEASE=1.35` builds it."""
LIMITS = {EMBEDDED: (1.0, 1.0), REAL: (6.0, 5.0)}
"""Budgets in seconds, by channel: from nothing to usable, and from asleep to usable."""
PUBLISHED = (
    ("Kamaji", "ready in 16 s; 100 in 7.5 min: 4.5 s each, 2 replicas", "320 MiB asked for, etcd shared"),
    ("k0smotron", "", "210 to 560 MiB at 100, by kind of store"),
    ("vCluster", "seconds; restart about 6 s", "300 to 500 MiB, as users report"),
    ("HyperShift", "10 to 15 min", "8.5 GiB asked for, one replica"),
    ("1.20 by hand, here", "8.1 to 10.8 s; the API server again 3.5 s", "338 MiB PSS of three side by side"),
)
"""What other systems publish, and what was measured here of Kubernetes 1.20 by hand: system, time, memory."""


@dataclass(slots=True)
class One:
    """One control plane alone; nan: not measured.

    ``usable``, ``asleep``, ``awake``  seconds: from nothing to usable, to sleep, from there to usable
    ``memory``                         MiB of its programs
    ``rotated``, ``upgraded``          what it costs to replace all its authorities, and its version
    """

    channel: str
    replicas: int = 1
    usable: float = nan
    memory: float = nan
    asleep: float = nan
    awake: float = nan
    rotated: Cost = NOT_MEASURED
    upgraded: Cost = NOT_MEASURED


@dataclass(slots=True)
class Many:
    """Many of one channel at once; nan: not measured.

    ``usable``, ``gone``                      seconds until the last one is usable, and until all are deleted
    ``ours``, ``programs``                    MiB by which ``kubewright`` grew, and of their programs
    ``cpu_ours``, ``cpu_programs``            CPU-seconds of the same two until half a minute after that
    ``idle_before``, ``idle_after``           cores that ``kubewright`` uses at rest, without and with them
    ``idle_programs``                         cores that their programs use at rest
    """

    channel: str
    count: int
    usable: float = nan
    ours: float = nan
    programs: float = nan
    cpu_ours: float = nan
    cpu_programs: float = nan
    idle_before: float = nan
    idle_after: float = nan
    idle_programs: float = nan
    gone: float = nan


@dataclass(slots=True)
class Results:
    """What was measured, and sentences about what was not.

    ``left_behind``  processes after all deletions
    ``stopped``      what was waited for in vain, so that nothing more was measured; empty: all was
    """

    ones: list[One] = field(default_factory=list)
    many: list[Many] = field(default_factory=list)
    left_behind: float = nan
    stopped: str = ""
    notes: list[str] = field(default_factory=list)


def show(results: Results, console: Console) -> None:
    """Print the tables, and below them what others publish."""
    for channel in LIMITS:  # their budgets differ
        if ones := [each for each in results.ones if each.channel == channel]:
            columns = [f"replicas {each.replicas}" for each in ones]
            title = f"one control plane of channel {channel}, alone"
            console.print(beside(title, columns, [_of_one(each) for each in ones]))
    if results.many:
        title = f"side by side; m: a thousandth of a core; left behind: {results.left_behind:g} processes"
        columns = [f"channel {each.channel}" for each in results.many]
        console.print(beside(title, columns, [_of_many(each) for each in results.many]))
    for note in results.notes:
        console.print(note)
    console.print(_published())


def _of_one(one: One) -> list[Budget]:
    usable, awake = LIMITS[one.channel] if one.replicas == 1 else (None, None)
    return [
        Budget("created to usable kubeconfig", "s", usable, one.usable),
        Budget("memory of its programs", "MiB", None, one.memory or nan),
        Budget("to sleep", "s", None, one.asleep),
        Budget("woken to usable", "s", awake, one.awake),
        *_of_change("all its authorities replaced", one.rotated),
        *_of_change(f"upgraded from {EARLIER} to {REAL}", one.upgraded),
    ]


def _of_change(what: str, cost: Cost) -> list[Budget]:
    return [
        Budget(what, "s", None, cost.seconds),
        Budget(f"  of these without an answer within {LATE_SECONDS:g} s", "s", None, cost.silent),
        Budget("  requests that failed", "", None, cost.failed),
        Budget("  slowest answer", "s", None, cost.longest),
    ]


def _of_many(many: Many) -> list[Budget]:
    n = many.count
    return [
        Budget("how many", "", None, n),
        Budget("all usable after", "s", None, many.usable),
        Budget("  seconds each", "s", None, many.usable / n),
        Budget("memory of kubewright, each", "MiB", None, many.ours / n),
        Budget("memory of their programs, each", "MiB", None, many.programs / n or nan),
        Budget("CPU of kubewright until then, each", "ms", None, many.cpu_ours / n * 1000),
        Budget("CPU of their programs until then, each", "ms", None, many.cpu_programs / n * 1000 or nan),
        Budget(
            "at rest: CPU of kubewright, each", "m", None, (many.idle_after - many.idle_before) / n * 1000
        ),
        Budget("at rest: CPU of their programs, each", "m", None, many.idle_programs / n * 1000 or nan),
        Budget("all deleted after", "s", None, many.gone),
    ]


def _published() -> Table:
    table = Table(title="published by others, and measured here before", title_justify="left")
    for column in ("what", "from nothing to ready", "memory each"):
        table.add_column(column)
    for row in PUBLISHED:
        table.add_row(*row)
    return table
