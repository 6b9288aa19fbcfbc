"""How far a long run is: one line on the terminal, written anew; nothing where nobody watches.

Called by    ``campaign``.
"""

from datetime import datetime
from typing import TextIO

from kubewright.base.clock import Clock, SystemClock

EVERY_SECONDS = 0.2
"""The line is written at most so often."""
_CLEAR = "\r\x1b[K"


class Progress:
    """On ``stream`` when it is a terminal."""

    def __init__(self, stream: TextIO, clock: Clock | None = None) -> None:
        self._stream = stream
        self._shown = stream.isatty()
        self._clock = clock or SystemClock()
        self._began = self._told = self._clock.now()
        self._done = self._all = self._failed = 0

    def expect(self, more: int) -> None:
        """So many steps more will come."""
        self._all += more

    def step(self, *, good: bool) -> None:
        """One is done."""
        self._done += 1
        self._failed += not good
        now = self._clock.now()
        if self._shown and (now - self._told).total_seconds() >= EVERY_SECONDS:
            self._told = now
            self._stream.write(_CLEAR + self._line(now))
            self._stream.flush()

    def clear(self) -> None:
        """Leave the line empty, for others to write on."""
        if self._shown:
            self._stream.write(_CLEAR)
            self._stream.flush()

    def _line(self, now: datetime) -> str:
        rate = self._done / max((now - self._began).total_seconds(), EVERY_SECONDS)
        minutes, seconds = divmod(round((self._all - self._done) / rate), 60)
        failed = f", {self._failed} failed" if self._failed else ""
        return f"{self._done} of {self._all} worlds{failed}, {rate:.0f} a second, {minutes}:{seconds:02} left"
