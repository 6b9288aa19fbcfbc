"""The troubles of a namespace as text: one table, and below each line what is waited for. Pure.

Called by    ``command``.
"""

from collections.abc import Iterator
from datetime import datetime

from kubewright.apiserver.registry.builtin.cells import human
from kubewright.cli.cluster.page import BAD, GOOD, WAITING
from kubewright.cli.cluster.tree import some
from kubewright.cli.explain.page import Line
from kubewright.cli.troubles.decide import Trouble, Troubles, Wait, Warned

LINES_SHOWN = 30
"""Troubles on one screen; of the rest only the number is shown."""


def lines(found: Troubles, now: datetime) -> Iterator[Line]:
    """All lines."""
    where = f"namespace {found.namespace}" if found.namespace else "all namespaces"
    if not found.troubles and found.notes:
        yield Line(f"{where}: no trouble was found, but not everything could be read", WAITING)
    elif not found.troubles:
        yield Line(f"{where}: all is well; {found.looked_at} objects were looked at", GOOD)
    else:
        count = sum(len(each.names) for each in found.troubles)
        yield Line(f"{where}: {count} of {found.looked_at} objects wait for something", "bold")
    for each in found.troubles[:LINES_SHOWN]:
        yield from _trouble(each, now, everywhere=not found.namespace)
    if (more := len(found.troubles) - LINES_SHOWN) > 0:
        yield Line(f"  and {more} more; -o json has all")
    if found.waits:
        yield Line("the longest waits of the controllers", "bold")
    for wait in found.waits:
        yield from _wait(wait, now, everywhere=not found.namespace)
    if found.warnings:
        yield Line("warnings of the last hour about other objects", "bold")
    yield from (_warning(each, now) for each in found.warnings)
    yield from (Line(f"note: {each}") for each in found.notes)


def _trouble(each: Trouble, now: datetime, *, everywhere: bool) -> Iterator[Line]:
    colour = BAD if each.state == "Failed" else WAITING
    since = f" for {human(now - each.since)}" if each.since is not None else ""
    where = f"{each.namespace}: " if everywhere and each.namespace else ""
    count = f"{len(each.names)} " if len(each.names) > 1 else ""
    yield Line(
        f"  {where}{count}{each.kind} {some(each.names)}: {each.state or 'not ready'}{since}", colour, 4
    )
    for text in each.waits_for:
        yield Line(f"      {text}", hang=8)


def _wait(each: Wait, now: datetime, *, everywhere: bool) -> Iterator[Line]:
    where = f"{each.namespace}: " if everywhere and each.namespace else ""
    yield Line(f"  {human(now - each.since):<8}{where}{each.about} waits for {each.what}", WAITING, 12)
    if each.remedy:
        yield Line(f"          {each.remedy}", hang=12)


def _warning(each: Warned, now: datetime) -> Line:
    age = f"{human(now - each.at)} ago" if each.at is not None else ""
    times = f" ({each.count} times)" if each.count > 1 else ""
    return Line(f"  {age:<10}{each.about} {each.reason}: {each.message}{times}", hang=14)
