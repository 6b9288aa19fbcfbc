"""The records of passes as values, and the answer of a manager's ``/debug/plans``. Pure.

Called by    ``passes`` (keeps them), ``health`` and ``compose.embedded`` (serve them), ``cli.explain`` (reads
             them).
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from heapq import nsmallest

from kubewright.api.meta import Value

PATH = "/debug/plans"
"""Where they are served; ``?namespace=`` and ``?name=`` say which, and ``?waits=20`` asks for those alone
that have the twenty longest waits. ``?provider=`` asks which driver makes the VMs of such classes."""


MOST_WAITS = 1000
"""Waits in one answer."""


class Acted(Value, frozen=True, kw_only=True):
    """The last pass that had steps: when it began, its reason, and the steps by their names."""

    at: datetime
    because: str = ""
    steps: tuple[str, ...] = ()


class Waited(Value, frozen=True, kw_only=True):
    """What the plan of a pass waits for, and may wait for in vain.

    ``what``    it, with its kind and name
    ``remedy``  what a user can do, as a clause: ``create it``
    ``since``   since when: as an object says, else since the first of the passes in a row that named it
    """

    what: str
    remedy: str = ""
    since: datetime


class Pass(Value, frozen=True, kw_only=True):
    """The last pass of one key.

    ``at``       when it began, by our wall clock; ``seconds``: how long it took
    ``why``      what enqueued the key
    ``because``  the reason of its plan; ``steps``: the plan's steps, by their names
    ``since``    since when passes have given this reason, and ended with this error
    ``waits``    what the plan waits for
    ``error``    why it failed; empty if it did not
    ``next``     when the key is looked at again at the latest, and ``next_because`` why; None: on a change
    ``acted``    the last pass that had steps, if there was one
    """

    controller: str
    namespace: str = ""
    name: str
    at: datetime
    seconds: float = 0.0
    why: str = ""
    because: str = ""
    steps: tuple[str, ...] = ()
    since: datetime
    waits: tuple[Waited, ...] = ()
    error: str = ""
    next: datetime | None = None
    next_because: str = ""
    acted: Acted | None = None


class Answer(Value, frozen=True, kw_only=True):
    """What ``/debug/plans`` answers.

    ``passes``     the records that were asked for
    ``waits_for``  the Leases that this process does not hold, each with its holder: another process decides
    ``driver``     which driver makes the VMs of the provider that was asked about, and whether it is there
    """

    passes: tuple[Pass, ...] = ()
    waits_for: tuple[tuple[str, str], ...] = ()
    driver: str = ""


def answer(
    found: Iterable[Pass], waits_for: Sequence[tuple[str, str]], waits: int = 0, driver: str = ""
) -> Answer:
    """An answer with these records, oldest pass first.

    ``waits``: only those with so many of the longest waits, if it is not 0.
    """
    if waits > 0:
        longest = longest_waits(found, waits)
        found = {(each.controller, each.namespace, each.name): each for each, _ in longest}.values()
    passes = tuple(sorted(found, key=lambda each: each.at))
    return Answer(passes=passes, waits_for=tuple(waits_for), driver=driver)


def longest_waits(found: Iterable[Pass], most: int) -> list[tuple[Pass, Waited]]:
    """The longest waits in some records, ``most`` of them, the longest first."""

    def order(both: tuple[Pass, Waited]) -> tuple[datetime, str, str, str]:
        record, wait = both
        return wait.since, record.namespace, record.name, wait.what

    return nsmallest(most, ((each, wait) for each in found for wait in each.waits), key=order)


def wanted_waits(text: str) -> int:
    """How many waits ``?waits=`` asks for; 0, which asks for all records, where it is no number."""
    return min(int(text), MOST_WAITS) if text.isascii() and text.isdigit() and len(text) < 10 else 0
