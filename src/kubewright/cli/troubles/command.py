"""``kubewright status -n NAMESPACE``: read everything of a namespace, and print what is in trouble.

Invariants.  Only reads. A kind that the server does not serve has no objects; one that the user may not list
             becomes a note in the words of the server, which name the verb and the resource.
Called by    ``cli.app``.
"""

from collections.abc import Iterator
from datetime import datetime

import msgspec

from kubewright.api.core import EVENT, NODE
from kubewright.api.kinds import dynamic
from kubewright.base.clock import SystemClock
from kubewright.base.durations import human
from kubewright.cli.asking import asked, refuse_unknown, require_namespace
from kubewright.cli.cluster.tree import BAD, GOOD, WAITING, some
from kubewright.cli.explain import reading
from kubewright.cli.explain.command import print_lines, subjects
from kubewright.cli.explain.story import Facts, JsonObject, Line, Story, tell
from kubewright.cli.explain.subjects import Subject
from kubewright.cli.switches import Where
from kubewright.cli.troubles.decide import Trouble, Troubles, Wait, Warned, troubles, waits, warnings
from kubewright.kube.client import Client
from kubewright.wire.errors import Forbidden, NotFound

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


def status(where: Where, namespace: str, manager: str, output: str) -> int:
    """Print the troubles of a namespace, empty for all; return 1 if there are any or not all could be read.

    Raises:
        InvalidInput: there is no such form of output, or no manager at the address.
        ApiError, TransportError: the server refused, or did not answer.
    """
    refuse_unknown(output)
    found = asked(where, lambda client: looked(client, namespace, manager))
    if output == "json":
        print(msgspec.json.format(msgspec.json.encode(found), indent=2).decode())
    else:
        print_lines(list(lines(found, SystemClock().now())))
    return 1 if found.troubles or found.notes else 0


async def looked(client: Client, namespace: str, manager: str = "") -> Troubles:
    """The troubles of a namespace. Raises as ``status``; InvalidInput if it does not exist."""
    if namespace:
        await require_namespace(client, namespace)
    managed = await reading.ask(client, manager, **({"namespace": namespace} if namespace else {}))
    stories: list[Story] = []
    notes: list[str] = []
    for subject in subjects():
        if subject.kind == NODE:  # the story of its machine says what is wrong with it
            continue
        for each in await _listed(client, subject, namespace, notes):
            stories.append(tell(Facts(subject, each, reading.records(managed, subject, each))))
    found = troubles(stories)
    try:
        events = await client.list(EVENT, namespace)
    except Forbidden as error:
        events = []
        notes.append(error.message)
    return Troubles(
        namespace=namespace,
        looked_at=len(stories),
        troubles=tuple(found),
        waits=tuple(waits(managed.answer.passes if managed.answer else (), client.clock.now())),
        warnings=tuple(warnings(events, found, client.clock.now())),
        notes=tuple(notes),
    )


async def _listed(client: Client, subject: Subject, namespace: str, notes: list[str]) -> list[JsonObject]:
    try:
        listed = await client.list(dynamic(subject.kind.resource), namespace)
    except NotFound:
        return []
    except Forbidden as error:
        notes.append(error.message)
        return []
    return list(listed)
