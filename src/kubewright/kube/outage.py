"""That a server cannot be reached, told once, whoever of those that watch it finds out. Pure.

Theory.      A server that is away ends a dozen watches in the same moment, and each of them would say so, and
             again when it is back. The first to find out speaks for all; the last to recover says that
             it is over. What concerns one kind alone (it is not served, it may not be read) is not told here.
Called by    ``feed``; one for each ``Client``.
"""


class Outage:
    """Of one server."""

    def __init__(self) -> None:
        self._troubled: dict[str, str] = {}
        self._said = ""

    def begins(self, who: str, trouble: str) -> bool:
        """``who`` cannot reach it, for this kind of reason. Whether that is news."""
        self._troubled[who] = trouble
        news, self._said = trouble != self._said, trouble
        return news

    def ends(self, who: str) -> bool:
        """``who`` reaches it again, or asks no more. Whether all do, and something was said."""
        self._troubled.pop(who, None)
        if self._troubled or not self._said:
            return False
        self._said = ""
        return True
