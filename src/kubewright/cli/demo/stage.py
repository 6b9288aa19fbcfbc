"""How the story is shown: a live table on a terminal, one line per change elsewhere."""

import sys
from types import TracebackType

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from kubewright.cli.demo.view import PENDING, TERMINATING, View
from kubewright.cli.program import program

WIDE = 76
"""Columns of a terminal that has room for the class and the node of each machine."""

_COLOURS = {"Running": "green", PENDING: "yellow", "Unknown": "magenta", "Failed": "red",
            TERMINATING: "dim"}  # fmt: skip


class _Console(Console):
    """A console whose reader may leave; rich would end the process on the spot, with all that runs in it."""

    def on_broken_pipe(self) -> None:
        self.quiet = True
        raise BrokenPipeError


class Stage:
    """Shows chapters and what happens in them."""

    def __init__(self, chapters: int, console: Console | None = None) -> None:
        self._console = console or _Console(file=sys.stdout, highlight=False)
        self._chapters = chapters
        self._live: Live | None = None
        self._title = ""
        self._last = ""
        self._done: list[tuple[str, float]] = []

    def __enter__(self) -> "Stage":
        if self._console.is_terminal:
            self._live = Live(console=self._console, refresh_per_second=10, transient=True)
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def open(self, title: str, types: str) -> None:
        """A chapter begins."""
        self._title, self._last = title, ""
        self._console.print(f"\n[bold]{len(self._done) + 1}/{self._chapters}  {title}[/bold]")
        self._console.print(Text(f"     $ {types}", style="dim"), soft_wrap=True)

    def show(self, now: View, took: float) -> None:
        """What is there now."""
        if self._live is not None:
            wide = self._console.width >= WIDE
            self._live.update(
                Group(_table(now, wide), Text(f"     {_line(now)}   {took:.1f} s", style="dim"))
            )
        elif (line := _line(now)) != self._last:
            self._last = line
            self._console.print(f"     {took:5.1f} s  {line}", soft_wrap=True)

    def close(self, took: float, remark: str = "") -> None:
        """The chapter ended well."""
        self._done.append((self._title, took))
        told = f": {remark}" if remark else ""
        self._console.print(f"     [green]done[/green] in {took:.1f} s{told}", soft_wrap=True)

    def fail(self, title: str, now: View, within: float) -> None:
        """The chapter did not end in time."""
        self._console.print(
            f"     [red]failed[/red]: {title!r} was not done within {within:g} s; {_line(now)}",
            soft_wrap=True,
        )

    def summary(self, now: View) -> None:
        """All chapters, their times, and what is left."""
        table = Table(box=None, pad_edge=False)
        table.add_column("chapter")
        table.add_column("seconds", justify="right")
        for title, took in self._done:
            table.add_row(title, f"{took:.1f}")
        table.add_row("all together", f"{sum(took for _, took in self._done):.1f}", style="bold")
        self._console.print("\n[bold]What happened[/bold]")
        self._console.print(table)
        left = "Nothing is left" if now.empty else f"Left: {_line(now)}"
        self._console.print(
            f"\n{left}. Next: {program()} up, and kubectl in another terminal.", soft_wrap=True
        )


def _line(now: View) -> str:
    states = sorted({row.state for row in now.rows})
    told = ", ".join(f"{now.count(state)} {state}" for state in states) or "none"
    return f"machines: {told}; nodes: {now.ready_nodes} of {now.nodes} ready; VMs: {now.vms}"


def _table(now: View, wide: bool) -> Table:
    table = Table(box=None, pad_edge=True, padding=(0, 2))
    for name in ("machine", "state", "class", "node") if wide else ("machine", "state"):
        table.add_column(name, style="dim" if name != "state" else "", no_wrap=True)
    for row in now.rows:
        state = Text(row.state, style=_COLOURS.get(row.state, ""))
        table.add_row(row.name, state, *((row.machine_class, row.node) if wide else ()))
    return table
