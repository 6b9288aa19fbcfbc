"""Group the objects of a namespace that wait for something, and choose the warnings to show. Pure.

Invariants.  Each object that waits for something is in one trouble. Machines come first, since
             sets, deployments and clusters wait for their machines.
Called by    ``command``, which prints it as lines or, with ``-o json``, as JSON.
"""

import re
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from kubewright.api.core import Event
from kubewright.api.meta import Value
from kubewright.cli.explain.story import Story
from kubewright.runtime.records import MOST_WAITS, Pass, longest_waits

RECENT = timedelta(hours=1)
"""How old a warning may be to be shown."""

LASTS = timedelta(seconds=30)
"""For how long a controller has waited when that is shown: most waits are over sooner."""

WAITS = 10
"""How many waits are shown: the longest."""

WARNINGS = 10
"""How many warnings are shown: the last ones."""


class Trouble(Value, frozen=True, kw_only=True):
    """Objects of one kind in one state that wait for the same; ``since`` when the first of them does."""

    kind: str
    namespace: str = ""
    names: tuple[str, ...] = ()
    state: str = ""
    since: datetime | None = None
    waits_for: tuple[str, ...] = ()


class Warned(Value, frozen=True, kw_only=True):
    """A Warning event about an object that is in no trouble."""

    about: str
    namespace: str = ""
    reason: str = ""
    message: str = ""
    at: datetime | None = None
    count: int = 1


class Wait(Value, frozen=True, kw_only=True):
    """A wait of a controller that lasts: about which object, for what, since when, and what a user can do."""

    about: str
    namespace: str = ""
    what: str
    remedy: str = ""
    since: datetime


class Troubles(Value, frozen=True, kw_only=True):
    """What ``status -n`` found. ``namespace``: empty for all of them; ``notes``: what could not be read.

    ``waits``: the longest of what the manager waits for; empty where no manager could be asked.
    """

    namespace: str = ""
    looked_at: int = 0
    troubles: tuple[Trouble, ...] = ()
    waits: tuple[Wait, ...] = ()
    warnings: tuple[Warned, ...] = ()
    notes: tuple[str, ...] = ()


_VARYING = re.compile(r"\"[^\"]*\"|\b(?:\d+h)?(?:\d+m)?\d+(?:\.\d+)?s\b|\d{4}-\d\d-\d\dT[\d:.]+Z")
"""What differs between objects that wait for the same: names in quotes, durations, times."""


def _masked(text: str, name: str) -> str:
    return _VARYING.sub("…", _nameless(text, name))


def _nameless(text: str, name: str) -> str:
    return re.sub(rf"(?<![\w-]){re.escape(name)}(?![\w-])", "NAME", text)


def troubles(stories: Iterable[Story]) -> list[Trouble]:
    """The troubles among these objects, those of machines first."""
    alike: dict[tuple[object, ...], list[Story]] = {}
    for each in stories:
        if each.waits_for:
            waits = tuple(_masked(text, each.name) for text in each.waits_for)
            alike.setdefault((each.kind, each.namespace, each.state, waits), []).append(each)
    found = [_trouble(same) for same in alike.values()]
    return sorted(found, key=lambda each: (not each.kind.startswith("machine."), each.kind, each.names))


def warnings(events: Iterable[Event], told: Sequence[Trouble], now: datetime) -> list[Warned]:
    """The last warnings about objects that are in no trouble, oldest first."""
    known = {(each.namespace, _kind(each), name) for each in told for name in each.names}
    found = []
    for each in events:
        about, at = each.involved_object, each.last_timestamp or each.metadata.creation_timestamp
        if each.type != "Warning" or at is None or now - at > RECENT:
            continue
        if (about.namespace, about.kind.lower(), about.name) not in known:
            found.append(
                Warned(
                    about=f"{about.kind.lower()}/{about.name}",
                    namespace=about.namespace,
                    reason=each.reason,
                    message=each.message,
                    at=at,
                    count=max(1, each.count),
                )
            )
    return sorted(found, key=lambda each: each.at.timestamp() if each.at else 0.0)[-WARNINGS:]


def waits(passes: Iterable[Pass], now: datetime) -> list[Wait]:
    """The longest waits of a manager, the longest first; what several controllers say is said once."""
    found: dict[tuple[str, str, str], Wait] = {}
    for record, wait in longest_waits(passes, MOST_WAITS):
        if now - wait.since >= LASTS:
            about = f"{record.controller} {record.name}"
            said = Wait(
                about=about, namespace=record.namespace, what=wait.what, remedy=wait.remedy, since=wait.since
            )
            found.setdefault((record.namespace, record.name, wait.what), said)
    return list(found.values())[:WAITS]


def _trouble(same: Sequence[Story]) -> Trouble:
    first = same[0]
    alone = len(same) == 1
    return Trouble(
        kind=first.kind,
        namespace=first.namespace,
        names=tuple(each.name for each in same),
        state=first.state,
        since=min((each.since for each in same if each.since is not None), default=None),
        waits_for=tuple(
            text if alone else _nameless(text, first.name) for text in first.waits_for if text != first.state
        ),
    )


def _kind(each: Trouble) -> str:
    return each.kind.partition(".")[0]
