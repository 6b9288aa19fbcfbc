"""A story as lines of text: the object, then a paragraph each for state, console, waits for, decided… Pure.

Invariants.  A sentence of more than ``SHORT`` letters is printed once, and ``ABOVE`` where it is said again.
Called by    ``command``.
"""

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from kubewright.apiserver.registry.builtin.cells import human
from kubewright.base.clock import rfc3339
from kubewright.cli.cluster.page import BAD, GOOD, PLAIN, WAITING
from kubewright.cli.explain.story import OBJECTS, WELL, Decision, Expected, Happened, Story

WIDTH = 12
"""Columns of the words on the left."""

ABOVE = "as said above"
SHORT = 40

AGE = 10
"""Columns of the age of an event."""

LEAST_ROOM = 20
"""Columns that a sentence has at least, however narrow the terminal is."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line and its colour. ``hang``: the indent of its further rows on a narrow terminal."""

    text: str
    colour: str = PLAIN
    hang: int = 0

    def wrapped(self, width: int) -> str:
        """The line in as many rows as it needs; no word is broken."""
        room = max(width, self.hang + LEAST_ROOM)
        return textwrap.fill(
            self.text, room, subsequent_indent=" " * self.hang, break_long_words=False, break_on_hyphens=False
        )


def lines(story: Story, now: datetime) -> Iterator[Line]:
    """All lines of a story."""
    where = f" in namespace {story.namespace}" if story.namespace else ""
    yield Line(f"{story.kind}/{story.name}{where}", "bold")
    yield from _paragraph("state", [_state(story, now)], _colour(story))
    yield from _paragraph("console", story.console)
    yield from _paragraph("waits for", [_once(each, [story.says]) for each in story.waits_for], WAITING)
    above = sorted({story.says, *story.waits_for}, key=len, reverse=True)
    yield from _paragraph("decided", [each for one in story.decisions for each in _decision(one, now, above)])
    yield from _paragraph("next", [_once(_expected(each, now), above) for each in story.next])
    yield from _paragraph("driver", [_once(story.driver, above)] if story.driver else [])
    yield from _paragraph("belongs to", [", ".join(story.belongs_to)] if story.belongs_to else [])
    for each in story.events:
        colour = WAITING if each.type == "Warning" else PLAIN
        word = "events" if each is story.events[0] else ""
        yield from _paragraph(word, [_event(each, now, story.says)], colour, AGE)
    yield from _paragraph("note", story.notes)


def _once(text: str, above: Sequence[str]) -> str:
    """A text without the sentences in it that stand ``above``, the longer ones first."""
    for sentence in above:
        if len(sentence) > SHORT:
            text = text.replace(sentence, ABOVE)
    return text


def _paragraph(word: str, texts: Sequence[str], colour: str = PLAIN, hang: int = 2) -> Iterator[Line]:
    for number, text in enumerate(texts):
        indent = len(text) - len(text.lstrip())
        yield Line(f"  {(word if number == 0 else ''):<{WIDTH}}{text}", colour, WIDTH + 2 + indent + hang)


def _state(story: Story, now: datetime) -> str:
    since = f" since {rfc3339(story.since)} ({human(now - story.since)})" if story.since else ""
    said = f": {story.says}" if story.says else ""
    return f"{story.state or 'it says nothing of its state'}{since}{said}"


def _decision(each: Decision, now: datetime, above: Sequence[str]) -> Iterator[str]:
    by = f"{each.by}, by what this server shows" if each.source == OBJECTS else each.by
    since = f" (for {human(now - each.since)})" if each.since is not None else ""
    because = _once(each.because, above) or "there is nothing to do"
    yield f"{by}: {because}{since}{_steps(each.steps)}"
    if each.at is not None:
        why = f", because {each.why}" if each.why else ""
        yield f"  it looked {human(now - each.at)} ago{why}"
    for wait in each.waits:
        remedy = f"; {_once(wait.remedy, above)}" if wait.remedy else ""
        yield f"  it waits for {wait.what}, for {human(now - wait.since)}{remedy}"
    if each.error:
        yield f"  that failed: {_once(each.error, above)}"
    if each.acted is not None and each.acted.at != each.at:
        acted = each.acted
        because = _once(acted.because, above)
        yield f"  it acted last {human(now - acted.at)} ago: {because}{_steps(acted.steps)}"


def _steps(steps: Sequence[str]) -> str:
    return f" [{', '.join(steps)}]" if steps else ""


def _expected(each: Expected, now: datetime) -> str:
    if each.at is None:
        return each.what
    left = each.at - now
    when = f"in {human(left)}" if left.total_seconds() > 0 else "now"
    return f"at {rfc3339(each.at)} ({when}) at the latest: {each.what}"


def _event(each: Happened, now: datetime, says: str) -> str:
    age = f"{human(now - each.at)} ago" if each.at is not None else ""
    times = f" ({each.count} times)" if each.count > 1 else ""
    message = ABOVE if len(each.message) > SHORT and each.message in says else each.message
    return f"{age:<{AGE}}{each.reason}: {message}{times}"


def _colour(story: Story) -> str:
    if story.state == "Failed":
        return BAD
    well = story.state in (*WELL, "Ready") or not story.waits_for
    return GOOD if well and not story.waits_for else WAITING
