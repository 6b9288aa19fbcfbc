"""How far a long run is: one line on the terminal, drawn by rich; nothing without a terminal.

Called by    ``campaign``.
"""

from typing import TextIO

from rich.console import Console
from rich.progress import Progress as Bar
from rich.progress import ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.text import Text


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
