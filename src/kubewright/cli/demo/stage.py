"""How the demo is shown: one line per event, and on a terminal a live table below them."""

import os
import re
import shutil
import sys
import textwrap
from collections.abc import Sequence
from types import TracebackType

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from kubewright.cli.cluster.tree import LEAST_NAME, shortened
from kubewright.cli.demo.view import EMPTY, LEAVING, RUNNING, Row, View, Words, fitting, happened
from kubewright.compose.options import program

INDENT = 5
"""Columns before what belongs to a chapter."""


def sentence(text: str, width: int | None, *, first: str = "", hang: int = 0) -> str:
    """``first`` and the text, in lines of ``width`` (None: in one); the others begin after ``hang``."""
    if width is None:
        return first + text
    room = max(width, hang + 20)
    return textwrap.fill(
        text, room, initial_indent=first, subsequent_indent=" " * hang, break_long_words=False,
        break_on_hyphens=False,
    )  # fmt: skip


def command(text: str, width: int | None) -> str:
    """A command after a prompt. Where it is broken a shell reads on: after a backslash, or inside quotes."""
    first, hang = " " * INDENT + "$ ", " " * (INDENT + 4)
    if width is None:
        return first + text
    lines, line = [], first
    for word in _words(text):
        if len(line) + len(word) + len(" \\") > width and line != first:
            lines.append(line.rstrip() + " \\")
            line = hang
        line += word + " "
        while len(line) > width + 1 and (cut := line.rfind(" ", len(hang), width - 1)) > 0:
            quoted = "".join([*lines, line[:cut]]).count("'") % 2 == 1
            lines.append(line[:cut] + ("" if quoted else " \\"))
            line = hang + line[cut + 1 :]
    return "\n".join([*lines, line.rstrip()])


def _words(text: str) -> list[str]:
    """As a shell splits a command, with the quotes left on, and each switch with its value."""
    return re.findall(r"(?:--?[\w-]+ )?(?:[^\s']|'[^']*')+", text)


PADDING = 4
"""Columns between two columns of the table."""

SPARE = 6
"""Lines of a terminal that the table leaves to its head, its foot and what happened last."""

_COLOURS = {RUNNING: "green", "Unknown": "magenta", "Failed": "red", "Unhealthy": "red",
            **dict.fromkeys(("Pending", "Provisioning", "Provisioned"), "yellow"),
            **dict.fromkeys(LEAVING, "dim")}  # fmt: skip


class _Console(Console):
    """A console whose pipe may be closed; rich would exit then, with all that runs in this process."""

    def on_broken_pipe(self) -> None:
        self.quiet = True
        raise BrokenPipeError


class Stage:
    """Shows chapters and what happens in them."""

    def __init__(self, words: Words, chapters: int, console: Console | None = None) -> None:
        self._words = words
        self._console = console or _console()
        self._chapters = chapters
        self._live: Live | None = None
        self._title = ""
        self._seen = EMPTY
        self._when = 0.0
        self._done: list[tuple[str, float]] = []

    def __enter__(self) -> "Stage":
        if self._words.prologue:
            self._say(self._words.prologue)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._clear_table()

    def open(self, title: str, types: str) -> None:
        """A chapter begins. ``types`` is a command, or in parentheses what happens without one."""
        self._title = title
        self._print(Text(f"\n{len(self._done) + 1}/{self._chapters}  {title}", style="bold"))
        typed = _indented(types, self._width) if types.startswith("(") else command(types, self._width)
        self._print(Text(typed, style="dim"))

    def show(self, now: View, took: float) -> None:
        """What is there now: events stay on the screen, the table only as long as the chapter."""
        if self._animated:
            self._draw_table(now, took)
        for event in happened(self._words, self._seen, now):
            self._event(took, event)
        self._seen, self._when = now, took

    def tell(self, took: float, text: str) -> None:
        """One thing that happened, beside what two pictures tell."""
        self._event(took, text)

    def close(self, took: float, remark: str = "") -> None:
        """The chapter ended well."""
        self._clear_table()
        self._event(self._when, _line(self._seen))
        self._done.append((self._title, took))
        text = f": {remark}" if remark else ""
        self._print(Text.assemble(" " * INDENT, ("done", "green"), f" in {took:.1f} s{text}"))

    def fail(self, title: str, now: View, within: float) -> None:
        """The chapter did not end in time."""
        self._clear_table()
        text = f": {title!r} was not done within {within:g} s; {_line(now)}"
        self._print(Text.assemble(" " * INDENT, ("failed", "red"), text))

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
        self._say(f"{left}. Next: {program()} up, and kubectl in another terminal.", before="\n")

    @property
    def _animated(self) -> bool:
        """Whether the console can draw over what it drew; a pipe cannot, and a dumb terminal is no better."""
        return self._console.is_terminal and not self._console.is_dumb_terminal

    @property
    def _width(self) -> int | None:
        """Where lines are broken; None in a pipe, whose reader breaks them."""
        return self._console.width if self._console.is_terminal else None

    def _draw_table(self, now: View, took: float) -> None:
        """Draw the table, or replace it, so that no event is printed above an old one."""
        width = self._console.width
        rows = fitting(now.rows, max(1, self._console.height - SPARE))
        hidden = f"{len(now.rows) - len(rows)} more machines; " if len(rows) < len(now.rows) else ""
        first = f"     {took:5.1f} s  "
        clock = Text(sentence(hidden + _others(now), width, first=first, hang=len(first)), style="dim")
        picture = Group(_table(rows, self._words.sort, width), clock) if rows else Group(clock)
        if self._live is None:
            self._live = Live(picture, console=self._console, refresh_per_second=10, transient=True)
            self._live.start()
        else:
            self._live.update(picture)

    def _clear_table(self) -> None:
        """Clear the table."""
        live, self._live = self._live, None
        if live is not None:
            live.stop()

    def _event(self, took: float, text: str) -> None:
        first = " " * INDENT + f"{took:5.1f} s  "
        self._print(Text(sentence(text, self._width, first=first, hang=len(first))))

    def _say(self, text: str, before: str = "") -> None:
        self._print(Text(before + sentence(text, self._width)))

    def _print(self, text: Text) -> None:
        self._console.print(text, soft_wrap=True)  # what must be broken is broken already


def _console() -> Console:
    """Our standard output; the size of a dumb terminal is asked here, because rich does not."""
    if os.environ.get("TERM", "") not in {"dumb", "unknown"}:
        return _Console(file=sys.stdout, highlight=False)
    size = shutil.get_terminal_size()
    return _Console(file=sys.stdout, highlight=False, width=size.columns, height=size.lines)


def _line(now: View) -> str:
    states = sorted({row.state for row in now.rows})
    counts = ", ".join(f"{now.count(state)} {state}" for state in states) or "none"
    return f"machines: {counts}; {_others(now)}"


def _others(now: View) -> str:
    """What the table does not show."""
    cluster = f"; cluster: {now.cluster}" if now.cluster else ""
    return f"nodes: {now.ready_nodes} of {now.nodes} ready; VMs: {now.vms}{cluster}"


def _indented(words: str, width: int | None) -> str:
    return sentence(words, width, first=" " * INDENT, hang=INDENT)


def _table(rows: Sequence[Row], sort: str, width: int) -> Table:
    """The machines, in as many columns as there is room for; a name may lose its middle, a state nothing."""
    cells = [("machine", "state", sort, "node"), *((row.name, row.state, row.sort, row.node) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    columns = next((n for n in (4, 3) if sum(widths[:n]) + n * PADDING <= width), 2)
    room = max(LEAST_NAME, width - sum(widths[1:columns]) - columns * PADDING)
    table = Table(box=None, pad_edge=True, padding=(0, PADDING // 2))
    for name in cells[0][:columns]:
        table.add_column(name, style="dim" if name != "state" else "", no_wrap=True)
    for row, (name, *rest) in zip(rows, cells[1:], strict=True):
        state = Text(row.state, style=_COLOURS.get(row.state, ""))
        table.add_row(shortened(name, room), state, *rest[1 : columns - 1])
    return table
