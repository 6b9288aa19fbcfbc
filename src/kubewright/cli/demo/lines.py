"""Long lines on a terminal: broken between words, and commands so that they can still be pasted. Pure."""

import re
import textwrap

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
