"""The summary of many runs: what was tried, which faults were injected, and what failed.

Theory.      Columns are data: each run belongs to one, and the table counts runs by story and column.
             Everything but ``Effort`` is a function of the plots, so two campaigns that tried the same
             print the same. One digest stands for all traces: when it is the same on two machines, every
             world went the same way, write by write.
Called by    ``campaign`` (adds), ``__main__`` (prints).
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, TextIO

from rich.console import Console
from rich.progress import Progress as Bar
from rich.progress import ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.text import Text

from simulation.run import Outcome
from simulation.schedule import API, AT, CALL, WATCH


class Progress:
    """On ``stream`` when it is a terminal."""

    def __init__(self, stream: TextIO) -> None:
        self._shown = stream.isatty()
        self._bar = Bar(
            _Worlds(), TimeRemainingColumn(), TextColumn("left"),
            console=Console(file=stream), disable=not self._shown, transient=True,
            refresh_per_second=5, redirect_stdout=False, redirect_stderr=False,
        )  # fmt: skip
        self._all = self._failed = 0
        self._task = self._bar.add_task("", total=0, failed=0)

    def expect(self, more: int) -> None:
        """So many steps more will come."""
        self._all += more
        self._bar.update(self._task, total=self._all)

    def step(self, *, good: bool) -> None:
        """One is done."""
        self._failed += not good
        self._bar.update(self._task, advance=1, failed=self._failed)
        self._bar.start()

    def clear(self) -> None:
        """Clear the line, so that other output can be written; the next step shows it again."""
        if self._shown:
            self._bar.stop()


class _Worlds(ProgressColumn):
    def render(self, task: Task) -> Text:
        failed = f", {task.fields['failed']} failed" if task.fields["failed"] else ""
        done, pace = f"{task.completed:.0f} of {task.total:.0f} worlds", f"{task.speed or 0:.0f} a second"
        return Text(f"{done}{failed}, {pace},")


CALM = "calm"
"""Undisturbed runs: they give a story's writes and have no column."""
SEED = "seeds"
"""The column of random worlds."""
FAULTS_IN_A_ROW = 3
ENOUGH_SEEDS, ENOUGH_STORIES = 300, 30
"""So many random worlds, of so many stories, have every fault: ``make sim`` runs as many, always the same."""
DRAWN = {"api": tuple(API), "watch": tuple(WATCH), "call": CALL, "at": AT}
"""The faults that a seed may draw, by the place that they are counted under."""
_HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class Effort:
    """What the campaign took, in real time."""

    seconds: float
    jobs: int


@dataclass(slots=True)
class Table:
    """Counts by story and column, and by kind of fault."""

    columns: tuple[str, ...]
    writes: dict[str, int] = field(default_factory=dict)
    runs: Counter[tuple[str, str]] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    _traces: Any = field(default_factory=lambda: blake2b(digest_size=8))

    def add(self, column: str, outcome: Outcome) -> None:
        """One run is over."""
        name = outcome.story
        self.runs[name, column] += 1
        self.failed[name] += not outcome.good
        self.faults.update(outcome.counts.faults)
        self.seconds += outcome.seconds
        self._traces.update(outcome.digest.encode())
        if column == CALM:
            self.writes[name] = outcome.counts.writes

    @property
    def worlds(self) -> int:
        """How many there were."""
        return self.runs.total()

    @property
    def good(self) -> bool:
        """Whether nothing was violated, and every fault happened that should have."""
        return not self.failed.total() and not self.silent

    @property
    def silent(self) -> list[str]:
        """The faults that no random world had, in a campaign that is long enough for each of them.

        A fault that cannot happen any more proves nothing of what it was written for.
        """
        seeds = sum(count for (_, column), count in self.runs.items() if column == SEED)
        stories = {story for story, column in self.runs if column == SEED}
        if seeds < ENOUGH_SEEDS or len(stories) < ENOUGH_STORIES:
            return []
        return sorted(
            {f"{place}:{word}" for place, words in DRAWN.items() for word in words} - self.faults.keys()
        )

    def lines(self, effort: Effort) -> Iterator[str]:
        """The table, for a terminal of a hundred columns."""
        if self.worlds:
            yield from self._stories()
            yield from self._injected()
            yield self._summary(effort)

    def _stories(self) -> Iterator[str]:
        head = ("story", "writes", *self.columns, "failed")
        names = sorted({story for story, _ in self.runs})
        body = [
            (name, self.writes.get(name, ""), *(self.runs[name, c] for c in self.columns), self.failed[name])
            for name in names
        ]
        foot = ("all", sum(self.writes.values()), *self._tried().values(), self.failed.total())
        yield from _aligned([head, *body, foot])

    def _injected(self) -> Iterator[str]:
        if not self.faults:
            return
        yield f"\n{self.faults.total()} faults injected"
        told = [f"{name:21}{count:>5}" for name, count in sorted(self.faults.items())]
        rows = -(-len(told) // FAULTS_IN_A_ROW)
        for row in range(rows):
            yield "   ".join(told[row::rows])

    def _summary(self, effort: Effort) -> str:
        hours, pace = self.seconds / _HOUR, self._pace(effort)
        wrong = f"{self.failed.total()} worlds failed" if self.failed.total() else "nothing was violated"
        if self.silent:
            wrong += f"\nno world had these faults: {', '.join(self.silent)}"
        return (
            f"\n{self.worlds} worlds of {hours:.0f} hours together in {effort.seconds:.0f} s, "
            f"{pace:.1f} a second, {effort.jobs} at a time\n"
            f"all traces: {self._traces.hexdigest()}\n{wrong}"
        )

    def _tried(self) -> Mapping[str, int]:
        return {
            column: sum(count for (_, of), count in self.runs.items() if of == column)
            for column in self.columns
        }

    def _pace(self, effort: Effort) -> float:
        return self.worlds / max(effort.seconds, 0.001)

    def as_json(self, effort: Effort) -> Mapping[str, Any]:
        """The same numbers for programs."""
        names = sorted({story for story, _ in self.runs})
        return {
            "stories": {
                name: {
                    "writes": self.writes.get(name, 0),
                    "runs": {column: self.runs[name, column] for column in self.columns},
                    "failed": self.failed[name],
                }
                for name in names
            },
            "runs": self._tried(),
            "faults": dict(sorted(self.faults.items())),
            "worlds": self.worlds,
            "failed": self.failed.total(),
            "traces": self._traces.hexdigest(),
            "simulatedSeconds": round(self.seconds, 3),
            "wallSeconds": round(effort.seconds, 3),
            "worldsPerSecond": round(self._pace(effort), 2),
            "jobs": effort.jobs,
        }


def _aligned(rows: Sequence[Sequence[object]]) -> Iterator[str]:
    """The first column to the left, the others to the right, each as wide as it must be."""
    widths = [max(len(str(cell)) for cell in column) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (f"{cell!s:>{width}}" for cell, width in zip(row[1:], widths[1:], strict=True))
        yield f"{row[0]!s:{widths[0]}} " + " ".join(cells)
