"""Who is told when a session with a workload cluster begins and when it ends.

Theory.      A session is announced where it is made (``registry``), and again to each term that borrows it
             (``lending``). Both keep their listeners here.
Invariants.  Listeners are called synchronously and in the order in which they subscribed. The error of one is
             logged, and stops neither the other listeners nor the session.
Called by    ``registry``, ``lending``.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import structlog

from kubewright.runtime.sessions.session import Session

log = structlog.get_logger("kubewright.sessions")


@dataclass(frozen=True, slots=True)
class Listener:
    """Two functions that are called, synchronously, when a session begins and when it ends.

    ``gained``  the cluster is connected, and the caches of its session are synced
    ``lost``    the session has ended, and why; it is closed next
    """

    gained: Callable[[Session], None]
    lost: Callable[[Session, str], None]


class Listeners:
    """All listeners of one place that announces sessions."""

    def __init__(self) -> None:
        self._listeners: list[Listener] = []

    def add(self, listener: Listener) -> Callable[[], None]:
        """Tell ``listener`` from now on; returns a function that removes it."""
        self._listeners.append(listener)

        def remove() -> None:
            if listener in self._listeners:
                self._listeners.remove(listener)

        return remove

    def gained(self, session: Session) -> None:
        """A session has begun."""
        for each in tuple(self._listeners):
            _notify(session, partial(each.gained, session))

    def lost(self, session: Session, because: str) -> None:
        """A session has ended."""
        for each in tuple(self._listeners):
            _notify(session, partial(each.lost, session, because))


def _notify(session: Session, call: Callable[[], None]) -> None:
    try:
        call()
    except Exception:
        log.exception("a listener failed", cluster=str(session.cluster))
