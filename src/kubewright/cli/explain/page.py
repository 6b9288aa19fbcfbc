"""A story as lines of text: the object, then a paragraph each for state, waits for, decided, next… Pure.

Called by    ``command``.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from kubewright.apiserver.registry.builtin.cells import human
from kubewright.base.clock import rfc3339
from kubewright.cli.cluster.page import BAD, GOOD, PLAIN, WAITING
from kubewright.cli.explain.story import OBJECTS, WELL, Decision, Expected, Happened, Story

WIDTH = 12
"""Columns of the words on the left."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line and its colour."""

    text: str
    colour: str = PLAIN


def lines(story: Story, now: datetime) -> Iterator[Line]:
    """All lines of a story."""
    where = f" in namespace {story.namespace}" if story.namespace else ""
    yield Line(f"{story.kind}/{story.name}{where}", "bold")
    yield from _paragraph("state", [_state(story, now)], _colour(story))
    yield from _paragraph("waits for", story.waits_for, WAITING)
    yield from _paragraph("decided", [each for one in story.decisions for each in _decision(one, now)])
    yield from _paragraph("next", [_expected(each, now) for each in story.next])
    yield from _paragraph("belongs to", [", ".join(story.belongs_to)] if story.belongs_to else [])
    for each in story.events:
        colour = WAITING if each.type == "Warning" else PLAIN
        yield from _paragraph("events" if each is story.events[0] else "", [_event(each, now)], colour)
    yield from _paragraph("note", story.notes)


def _paragraph(word: str, texts: Sequence[str], colour: str = PLAIN) -> Iterator[Line]:
    for number, text in enumerate(texts):
        yield Line(f"  {(word if number == 0 else ''):<{WIDTH}}{text}", colour)


def _state(story: Story, now: datetime) -> str:
    since = f" since {rfc3339(story.since)} ({human(now - story.since)})" if story.since else ""
    said = f": {story.says}" if story.says else ""
    return f"{story.state or 'it says nothing of its state'}{since}{said}"


def _decision(each: Decision, now: datetime) -> Iterator[str]:
    by = f"{each.by}, by what this server shows" if each.source == OBJECTS else each.by
    since = f" (for {human(now - each.since)})" if each.since is not None else ""
    yield f"{by}: {each.because or 'there is nothing to do'}{since}{_steps(each.steps)}"
    if each.at is not None:
        why = f", because {each.why}" if each.why else ""
        yield f"  it looked {human(now - each.at)} ago{why}"
    if each.error:
        yield f"  that failed: {each.error}"
    if each.acted is not None and each.acted.at != each.at:
        acted = each.acted
        yield f"  it acted last {human(now - acted.at)} ago: {acted.because}{_steps(acted.steps)}"


def _steps(steps: Sequence[str]) -> str:
    return f" [{', '.join(steps)}]" if steps else ""


def _expected(each: Expected, now: datetime) -> str:
    if each.at is None:
        return each.what
    left = each.at - now
    when = f"in {human(left)}" if left.total_seconds() > 0 else "now"
    return f"at {rfc3339(each.at)} ({when}) at the latest: {each.what}"


def _event(each: Happened, now: datetime) -> str:
    age = f"{human(now - each.at)} ago" if each.at is not None else ""
    times = f" ({each.count} times)" if each.count > 1 else ""
    return f"{age:<10}{each.reason}: {each.message}{times}"


def _colour(story: Story) -> str:
    if story.state == "Failed":
        return BAD
    well = story.state in (*WELL, "Ready") or not story.waits_for
    return GOOD if well and not story.waits_for else WAITING
