"""The calls that make and refresh bootstrap tokens in workload clusters, as tasks beside the workers.

Theory.      One call does all that a token ever needs: it creates the token's Secret if that is not there,
             and moves its expiration if it would expire too soon. So creation, refresh and the repair of a
             lost Secret are the same call, and repeating it does no harm. A cluster that does not answer
             delays only the machines that want to join it. Where no kubeadm has started the cluster, the call
             first makes what joining takes beside a token (``joining``).
Invariants.  A token is made in the cluster only after its text is on record, in the KubeadmConfig or in its
             data. Its secret is in no log and no message: what a server says about it is not repeated.
Called by    ``look`` (what is known), ``act`` (begins a call); ``world`` owns ``run``.
"""

from collections.abc import Callable
from datetime import datetime, timedelta

from kubewright.api.core import SECRET, Secret
from kubewright.base import delays
from kubewright.base.clock import Clock, rfc3339
from kubewright.base.errors import KubewrightError
from kubewright.bootstrap.joining import Joining, ensure
from kubewright.bootstrap.seen import TokenSeen
from kubewright.bootstrap.tokens import (
    EXPIRATION,
    Token,
    check_every,
    expiration,
    needs_refresh,
    token_secret,
)
from kubewright.kube.client import Client
from kubewright.kube.patches import onto
from kubewright.runtime.calls import Calls
from kubewright.runtime.queue import Curve
from kubewright.runtime.sessions.session import Lookup, NotConnected
from kubewright.wire.errors import AlreadyExists, ApiError, NotFound
from kubewright.wire.gvk import Key

RETRIES = Curve(base=1.0, cap=60.0)
"""Between calls that fail, for each machine."""


class TokenRefused(KubewrightError):
    """The workload cluster did not take a token. The message says why without what is in the Secret."""


class TokenCalls:
    """The tokens of all machines that may still boot, by the key of the KubeadmConfig."""

    def __init__(
        self, workloads: Lookup, clock: Clock, ttl: timedelta, on_done: Callable[[Key], None]
    ) -> None:
        self._workloads = workloads
        self._clock = clock
        self._ttl = ttl
        self._calls: Calls[datetime] = Calls(clock, on_done)
        self._ids: dict[Key, str] = {}
        self.run = self._calls.run

    def forget(self, config: Key) -> None:
        """The KubeadmConfig is gone, or has another token."""
        self._ids.pop(config, None)
        self._calls.forget(config)

    def seen(self, config: Key, cluster: Key, token: Token) -> TokenSeen:
        """What is known of the token of a KubeadmConfig."""
        if self._ids.get(config, token.id) != token.id:
            self.forget(config)
        call, now = self._calls.seen(config), self._clock.now()
        if call.running:
            return TokenSeen(call.answer, running=True)
        try:
            self._workloads.get(cluster)
        except NotConnected as error:
            return TokenSeen(call.answer, now + delays.UNHEARD, str(error))
        if call.ended is None:
            return TokenSeen()
        wait = RETRIES.delay(call.failures, 0.0) if call.error else check_every(self._ttl).total_seconds()
        left = call.ended + wait - self._clock.monotonic()
        return TokenSeen(call.answer, now + timedelta(seconds=left), call.error)

    def keep(self, config: Key, cluster: Key, token: Token, joining: Joining | None = None) -> None:
        """Begin a call that makes or refreshes the token in its cluster.

        ``joining``: what machines are told of a cluster that no kubeadm has started; None for others.
        """
        self._ids[config] = token.id
        self._calls.start(config, lambda: self._keep(cluster, token, joining))

    async def _keep(self, cluster: Key, token: Token, joining: Joining | None) -> datetime:
        """See to it that the token is good for long enough; returns until when.

        Raises:
            NotConnected: the cluster cannot be reached now.
            TokenRefused: it said no.
            TransportError: it did not answer.
        """
        client, about = self._workloads.get(cluster).client, "what joining takes"
        try:
            if joining is not None:
                await ensure(client, joining)
            about = "a bootstrap token"
            return await ensure_token(client, token, self._ttl, self._clock.now())
        except ApiError as error:
            raise TokenRefused(f"cluster {cluster} refuses {about}: {error.code} {error.reason}") from None


async def ensure_token(client: Client, token: Token, ttl: timedelta, now: datetime) -> datetime:
    """Create the token's Secret, or move its expiration if that is too soon; until when the token is good."""
    until = now + ttl
    secret = await _read(client, token)
    if secret is None:
        try:
            await client.create(SECRET, token_secret(token, until))
        except AlreadyExists:
            secret = await _read(client, token)
        if secret is None:
            return until
    known = expiration(secret)
    if known is not None and not needs_refresh(known, ttl, now):
        return known
    body = onto({"stringData": {EXPIRATION: rfc3339(until)}}, secret.metadata)
    await client.patch(SECRET, token.key, body)
    return until


async def _read(client: Client, token: Token) -> Secret | None:
    try:
        return await client.get(SECRET, token.key)
    except NotFound:
        return None
