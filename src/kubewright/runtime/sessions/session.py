"""A session: one cluster as controllers see it, and the lookup that finds it.

Theory.      A controller asks a ``Lookup`` for the cluster that its object belongs to, and never waits: it
             gets a session, or ``NotConnected`` with the reason. So one cluster that does not answer delays
             the objects that belong to it, and no other. Where there is exactly one cluster for the whole
             life of the process, ``Fixed`` is the lookup.
Invariants.  A session that a lookup answers has synced caches. When it ends, its client refuses every
             request (``ConnectFailed``), so a reconciliation that still has it cannot write with it.
Called by    contexts, through ``Lookup``; ``connection`` makes sessions, ``compose`` the fixed one.
"""

from dataclasses import dataclass
from typing import Protocol, TypeVar

from kubewright.api.kinds import Kind
from kubewright.base.errors import KubewrightError, OnChange, Retry
from kubewright.kube.client import Client
from kubewright.kube.informer import Informer, Informers
from kubewright.wire.gvk import Key

T = TypeVar("T")

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
