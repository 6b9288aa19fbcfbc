"""A session: one cluster as controllers see it, and the lookup that finds it.

Theory.      A controller asks a ``Lookup`` for the cluster that its object belongs to, and never waits: it
             gets a session, or ``NotConnected`` with the reason. So one cluster that does not answer delays
             the objects that belong to it, and no other. Where there is exactly one cluster for the whole
             life of the process, ``Fixed`` is the lookup.
Invariants.  A session that a lookup answers has synced caches. When it ends, its client refuses every
             request (``ConnectFailed``), so a reconciliation that still has it cannot write with it.
             Listeners are called synchronously and in the order in which they subscribed; an error of one is
             logged, and stops neither the other listeners nor the session.
Called by    contexts, through ``Lookup``; ``registry`` and ``lending`` tell listeners; ``registry`` makes
             sessions, ``compose`` the fixed one.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol, TypeVar

import structlog

from kubewright.api.kinds import Kind
from kubewright.base.errors import KubewrightError, OnChange, Retry
from kubewright.kube.client import Client
from kubewright.kube.informer import Informer, Informers
from kubewright.wire.gvk import Key

T = TypeVar("T")

log = structlog.get_logger("kubewright.sessions")

NAMELESS = Key("", "")
"""The key of a cluster that no object represents, such as the only one."""


class NotConnected(KubewrightError):
    """There is no session with the cluster now; the message says why.

    Not retried by time: ``Controller.watches_in`` enqueues its keys when the cluster is connected.
    """

    retry: Retry = OnChange()


@dataclass(frozen=True, slots=True)
class Session:
    """A client of one cluster, and the caches that are kept through it."""

    client: Client
    caches: Informers
    cluster: Key = NAMELESS

    def informer(self, kind: Kind[T]) -> Informer[T]:
        """The cache of a kind that was asked for before the session began.

        Raises:
            KeyError: nothing asked for this kind.
        """
        return self.caches.existing(kind)


@dataclass(frozen=True, slots=True)
class Health:
    """Whether a cluster answers; moments are monotonic seconds.

    ``connected``  there is a session
    ``answers``    whether the last probe was answered
    ``since``      when that began to be so: the first probe in a row that was answered, or that was not
    ``heard``      when it last answered a probe; None: it has not yet
    ``error``      why there is no session, or why the last probe failed; empty while all is well
    """

    connected: bool
    answers: bool
    since: float
    heard: float | None = None
    error: str = ""


class Lookup(Protocol):
    """Finds the session with a cluster."""

    def get(self, cluster: Key, /) -> Session:
        """The session, at once.

        Raises:
            NotConnected: there is none now.
        """


class Fixed:
    """The lookup where there is one cluster: it answers the same session to every question."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def get(self, _cluster: Key = NAMELESS, /) -> Session:
        return self._session


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
