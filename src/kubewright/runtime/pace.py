"""How soon a status is written, by what is new in it. Pure.

Theory.      A status that says something new is written at once, or a moment later where news comes in
             parts. One that only says what is still waited for is written when that lasts, and later still
             where many objects come up at once. Which status says something new, each API says for its kinds
             (``Pace.only_waiting``).
Called by    ``reports``; policies and reconcilers choose a pace for their kind.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kubewright.base.delays import MANY, for_words

STATUS_SECONDS = 0.5
"""Least time between two status writes of one object."""

FEW_MEMBERS = 250
"""Up to so many members a set is small: of what changes in a larger one, more is gathered."""

LARGE_SECONDS = 1.0
"""Least time between two status writes of a set, or a deployment, with more than ``FEW_MEMBERS``."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How soon the statuses of one kind are written.

    ``quiet_seconds``  what a status that says nothing new waits for: so long must it have differed, and so
                       long ago must the last write be. Nothing is new if only words of conditions differ, or
                       if it is ``only_waiting``
    ``steady_for``     seconds that a status with news waits: what it is computed from comes in several parts
    ``only_waiting``   of the status on the server and the new one: whether the new one only says what is
                       still waited for
    """

    quiet_seconds: float = 0.0
    steady_for: float = 0.0
    only_waiting: Callable[[Any, Any], bool] = lambda _before, _status: False

    def is_news(self, patch: Any, before: Any, status: Any) -> bool:
        """Whether a status says something new; ``patch`` is how it differs from the one on the server."""
        rewords = patch.keys() == {"conditions"} and _states(before) == _states(status)
        return not self.quiet_seconds or not (rewords or self.only_waiting(before, status))

    def due(self, *, news: bool, waiting: int, members: int = 0) -> tuple[float, float]:
        """The seconds that the status must differ, or have been news, and those since the last write.

        ``waiting``: of how many objects of the kind the status differs; ``members``: how many the object has.
        """
        least = LARGE_SECONDS if members > FEW_MEMBERS else STATUS_SECONDS
        if news:
            return self.steady_for, least
        words = max(self.quiet_seconds, for_words(waiting)) if waiting > MANY else self.quiet_seconds
        return words, max(least, words)


UNPACED = Pace()
"""Every status is news, whatever differs in it."""


def _states(status: Any) -> list[tuple[str, str, str]]:
    """What conditions say but for reasons, messages and times; what is wrong now, and was not, is another."""
    return [(each.type, each.status, getattr(each, "severity", "")) for each in status.conditions]
