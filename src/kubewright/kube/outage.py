"""Decides which of many watches logs that their server cannot be reached, so that one does. Pure.

Theory.      A server that is away ends a dozen watches in the same moment, and each of them would log it, and
             again when it is back. So only the first watch to notice logs it, and the last one to
             recover logs the end. A new kind of trouble is logged again. Trouble with one resource alone
             (not served, may not be read) does not pass through here.
Called by    ``feed``; one for each ``Client``.
"""


class Outage:
    """The watches of one server that have trouble now, and the kind of trouble that was logged."""

    def __init__(self) -> None:
        self._troubled: dict[str, str] = {}
        self._said = ""

    def begins(self, who: str, trouble: str) -> bool:
        """The watch ``who`` cannot reach the server, for ``trouble``; whether to log that."""
        self._troubled[who] = trouble
        news, self._said = trouble != self._said, trouble
        return news

    def ends(self, who: str) -> bool:
        """The watch ``who`` reaches the server again, or has ended; whether to log the end of the outage."""
        self._troubled.pop(who, None)
        if self._troubled or not self._said:
            return False
        self._said = ""
        return True
