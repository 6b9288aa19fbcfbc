"""Whether the API server of a cluster verifies by an authority that is not that of its kubeconfig.

Theory.      A user may put another pair into ``<cluster>-ca`` at any time, and the API server knows nothing
             of it before its own files are changed. A kubeconfig of the new pair would lock out everyone
             until then. So the API server is asked, with a certificate that the new authority has signed: it
             must show one that this authority trusts, and know who has signed ours.
Invariants.  It is asked beside the workers, of ``AT_ONCE`` clusters at one time, of one again after
             ``PERIOD``, and for ``SECONDS`` at most. A certificate that is shown is good for ``LIFETIME``.
             ``run`` owns every task. No answer contains a part of a key.
Called by    ``look``; ``reconciler`` runs it and listens to its answers.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta

import structlog

from kubewright.base import delays
from kubewright.base.clock import Clock
from kubewright.base.errors import InvalidInput
from kubewright.clusters.sessions.workload import Connect, by_sockets
from kubewright.kube.access import Access
from kubewright.kube.errors import TransportError, Untrusted
from kubewright.pki.certificates import Identity, new_client
from kubewright.pki.credentials import ADMIN
from kubewright.pki.keys import KeyPair
from kubewright.wire.gvk import Key
from kubewright.wire.http import Request

log = structlog.get_logger(__name__)

AT_ONCE = 8
PERIOD = delays.UNHEARD
SECONDS = 5.0
LIFETIME = timedelta(minutes=10)
UNAUTHORIZED, FAILED = 401, 500

NOT_TRUSTED = "its API server shows a certificate that this authority has not signed"
NOT_KNOWN = "its API server does not know this authority"


@dataclass(slots=True)
class _Asked:
    """``answer``: None while there is none yet; ``at``: when it came, in monotonic seconds."""

    server: str
    authority: KeyPair
    answer: str | None = None
    at: float = 0.0


class Verifier:
    """Asks API servers, and remembers what they answered. ``answered`` is called after each answer."""

    def __init__(self, clock: Clock, connect: Connect = by_sockets) -> None:
        self.answered: Callable[[Key], None] = lambda cluster: None
        self._clock = clock
        self._connect = connect
        self._known: dict[Key, _Asked] = {}
        self._queue: asyncio.Queue[Key] = asyncio.Queue()
        self._waiting: set[Key] = set()
        """Those that are in the queue or being asked, forgotten or not: none is twice."""

    def problem(self, cluster: Key, server: str, authority: KeyPair) -> str | None:
        """Why the API server at this URL does not verify by it. Empty: it does; None: it is being asked."""
        known = self._known.get(cluster)
        if known is None or (known.server, known.authority) != (server, authority):
            known = self._known[cluster] = _Asked(server, authority)
        due = known.answer is None or self._clock.monotonic() - known.at >= PERIOD.total_seconds()
        if due and cluster not in self._waiting:
            self._waiting.add(cluster)
            self._queue.put_nowait(cluster)
        return known.answer

    def forget(self, cluster: Key) -> None:
        """There is no such question any more."""
        self._known.pop(cluster, None)

    async def run(self) -> None:
        """Ask until cancelled."""
        async with asyncio.TaskGroup() as group:
            for number in range(AT_ONCE):
                group.create_task(self._work(), name=f"verification {number}")

    async def _work(self) -> None:
        while True:
            cluster = await self._queue.get()
            try:
                if (asked := self._known.get(cluster)) is None:
                    continue
                answer = await self._answer(cluster, asked)
                asked.answer, asked.at = answer, self._clock.monotonic()
            finally:
                self._waiting.discard(cluster)
            self.answered(cluster)

    async def _answer(self, cluster: Key, asked: _Asked) -> str:
        """What one API server answers; a fault of ours ends this question, and no worker."""
        try:
            return await self._ask(asked.server, asked.authority)
        except Exception as error:
            log.exception("the verification of an API server failed here", cluster=str(cluster))
            return f"its API server cannot be asked: {type(error).__name__} in Kubewright itself"

    async def _ask(self, server: str, authority: KeyPair) -> str:
        try:
            signer = Identity(authority.certificate, authority.key)
            own = new_client(signer, ADMIN, self._clock.now(), LIFETIME)
            access = Access(server, ca=authority.certificate, certificate=own.certificate, key=own.key)
            transport = self._connect(access, self._clock)
        except (InvalidInput, ValueError) as error:
            return f"no certificate can be signed with it: {error}"
        try:
            answer = await transport.request(Request("GET", "/version"), timeout=SECONDS)
        except Untrusted:
            return NOT_TRUSTED
        except TransportError as error:
            return f"its API server cannot be asked: {error}"
        finally:
            with suppress(TransportError):
                await transport.close()
        if answer.status >= FAILED:
            return f"its API server cannot be asked: it answers {answer.status}"
        return NOT_KNOWN if answer.status == UNAUTHORIZED else ""
