"""The records of passes as values, and the answer of a manager's ``/debug/plans``. Pure.

Called by    ``passes`` (keeps them), ``health`` and ``compose.embedded`` (serve them), ``cli.explain`` (reads
             them).
"""

from collections.abc import Iterable, Sequence
from datetime import datetime

from kubewright.api.meta import Value

PATH = "/debug/plans"
"""Where they are served; ``?namespace=`` and ``?name=`` say which."""


class Acted(Value, frozen=True, kw_only=True):
    """The last pass that had steps: when it began, its reason, and the steps by their names."""

    at: datetime
    because: str = ""
    steps: tuple[str, ...] = ()


class Pass(Value, frozen=True, kw_only=True):
    """The last pass of one key.

    ``at``       when it began, by our wall clock; ``seconds``: how long it took
    ``why``      what enqueued the key
    ``because``  the reason of its plan; ``steps``: the plan's steps, by their names
    ``since``    since when passes have given this reason, and ended with this error
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
    error: str = ""
    next: datetime | None = None
    next_because: str = ""
    acted: Acted | None = None


class Answer(Value, frozen=True, kw_only=True):
    """What ``/debug/plans`` answers.

    ``passes``     the records that were asked for
    ``waits_for``  the Leases that this process does not hold, each with its holder: another process decides
    """

    passes: tuple[Pass, ...] = ()
    waits_for: tuple[tuple[str, str], ...] = ()


def answer(found: Iterable[Pass], waits_for: Sequence[tuple[str, str]]) -> Answer:
    """An answer with these records, oldest pass first."""
    return Answer(passes=tuple(sorted(found, key=lambda each: each.at)), waits_for=tuple(waits_for))
