"""Keeps what webhooks need on an API server: the Secret with the keys, and the two configurations.

Theory.      Each replica looks once a minute, leader or not, and does what is missing: the first one
             writes, by a condition on the version that it read, and the others find it done. The
             configurations are read before the Secret: so a replica that read an old Secret cannot put old
             authorities over newer ones, because its condition fails.
Invariants.  A configuration is written only while this process listens with a certificate that the bundle
             trusts. Nothing is deleted: while one replica ends, others serve. No controller waits for any
             of this: what a server refuses is logged once, and tried again.
Called by    ``compose.webhooks``. Decides by ``certificates``; what is written:
             ``api.webhooks.configurations``.
"""

from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from typing import Any

import structlog

from kubewright.api.core import SECRET, Secret
from kubewright.api.kinds import Kind
from kubewright.api.webhooks.configurations import STAGES, Registration, bundles, contains
from kubewright.api.webhooks.review import Stage
from kubewright.base import delays
from kubewright.kube import patches
from kubewright.kube.client import Client
from kubewright.kube.errors import TransportError
from kubewright.pki.certificates import Identity
from kubewright.runtime.webhooks.certificates import Keyring, Lifetimes, Seen, Step, decide, keyring_after
from kubewright.wire.errors import ApiError, Conflict, Forbidden, NotFound
from kubewright.wire.gvk import Key

LOOK_SECONDS = 60.0
"""From one look to the next. A look costs three requests; a configuration that a user deletes is written
again after at most so long."""

STEPS = 4
"""Steps of the keys in one look: more than ever follow each other at once."""

LABELS = {"app.kubernetes.io/name": "kubewright"}
SECRET_TYPE = "kubernetes.io/tls"  # a name, no password

log = structlog.get_logger("kubewright.webhooks")

Found = Mapping[Stage, Mapping[str, Any] | None]


class Keeper:
    """Looks until cancelled. ``serve`` gives the server a certificate and returns once it is served.

    ``trouble`` is why the webhooks have not worked yet; empty from the first look that succeeds.
    """

    def __init__(
        self,
        client: Client,
        registration: Registration,
        secret: Key,
        serve: Callable[[Identity], Awaitable[None]],
        lifetimes: Lifetimes,
    ) -> None:
        self.trouble = "there is no certificate yet"
        self._client = client
        self._registration = registration
        self._secret = secret
        self._serve = serve
        self._lifetimes = lifetimes
        self._served: Identity | None = None
        self._logged = ""

    def not_ready(self) -> str:
        """Why API servers cannot use the webhooks; empty when they can."""
        if self._served is not None and self._served.expires <= self._client.clock.now():
            return "the certificate has expired"
        return self.trouble

    async def run(self) -> None:
        """Look, and look again, until cancelled."""
        clock = self._client.clock
        while True:
            try:
                seconds = self._pause(await self.look())
                self.trouble = self._logged = ""
            except Conflict:
                seconds = delays.OVERTAKEN.seconds * (1 + clock.random.random())
            except (ApiError, TransportError) as error:
                self._failed(error)
                seconds = delays.SHORT.seconds if self.trouble else LOOK_SECONDS
            await clock.sleep(seconds)

    async def look(self) -> datetime | None:
        """One look, and what follows from it; when to look again at the latest.

        Raises:
            Conflict: another replica was faster.
            ApiError, TransportError: something cannot be read or written.
        """
        found = {stage: await self._get(kind) for stage, kind in STAGES.items()}
        keyring, again = await self._keys(found)
        if keyring.serving != self._served:
            await self._serve(keyring.serving)
            self._served = keyring.serving
        for stage, configuration in found.items():
            await self._configure(stage, configuration, keyring.bundle)
        return again

    async def _keys(self, found: Found) -> tuple[Keyring, datetime | None]:
        """The keyring after all steps that are due, and when the next one is."""
        secret = await self._read()
        known = frozenset(each for one in found.values() if one for each in bundles(one))
        seen = Seen(self._held(secret), known, self._registration.address.names)
        for _ in range(STEPS):
            now = self._client.clock.now()
            plan = decide(seen, now, self._lifetimes)
            if plan.step is Step.KEEP and seen.held is not None:
                return seen.held, plan.again
            made = keyring_after(plan, seen, now, self._lifetimes)
            secret = await self._write(secret, made)
            log.info("keys of the webhooks are renewed", step=plan.step.value, why=plan.reason)
            seen = Seen(made, known, seen.names)
        return made, None

    async def _get(self, kind: Kind[Any]) -> Mapping[str, Any] | None:
        try:
            return dict(await self._client.get(kind, Key("", self._registration.name)))
        except NotFound:
            return None

    async def _read(self) -> Secret | None:
        try:
            return await self._client.get(SECRET, self._secret)
        except NotFound:
            return None

    def _held(self, secret: Secret | None) -> Keyring | None:
        if secret is None:
            return None
        try:
            return Keyring.from_secret(secret.data)
        except ValueError as error:
            log.warning("the keys of the webhooks are made anew", secret=str(self._secret), why=str(error))
            return None

    async def _write(self, secret: Secret | None, keyring: Keyring) -> Secret:
        data = keyring.to_secret()
        if secret is None:
            named = {"name": self._secret.name, "namespace": self._secret.namespace, "labels": LABELS}
            return await self._client.create(SECRET, {"metadata": named, "type": SECRET_TYPE, "data": data})
        patch = patches.onto({"data": data}, secret.metadata)
        return await self._client.patch(SECRET, self._secret, patch)

    async def _configure(self, stage: Stage, found: Mapping[str, Any] | None, bundle: bytes) -> None:
        """Create the configuration, or bring its entries up to date."""
        kind, name = STAGES[stage], self._registration.name
        entries = self._registration.entries(stage, bundle)
        if found is None:
            if not entries:
                return
            try:
                await self._client.create(
                    kind, {"metadata": {"name": name, "labels": LABELS}, "webhooks": entries}
                )
            except NotFound:
                raise NotFound(f"the server does not serve {kind}: it calls no webhooks") from None
            except Forbidden:
                missing = f"there is no {kind} {name}, and we may not create it"
                raise Forbidden(f"{missing}: kubectl apply -f deploy/clusters/webhooks.yaml") from None
        elif not contains(found.get("webhooks") or [], entries):
            version = found["metadata"]["resourceVersion"]
            await self._client.patch(
                kind, Key("", name), patches.with_version({"webhooks": entries}, version)
            )
        else:
            return
        log.info("the API server is told of the webhooks", configuration=str(kind), count=len(entries))

    def _pause(self, again: datetime | None) -> float:
        if again is None:
            return LOOK_SECONDS
        left = (again - self._client.clock.now()).total_seconds()
        return min(max(left, delays.OVERTAKEN.seconds), LOOK_SECONDS)

    def _failed(self, error: ApiError | TransportError) -> None:
        """Log each trouble once; what worked before goes on working."""
        said = str(error)
        if self.trouble:  # no look has succeeded yet
            self.trouble = said
        if said != self._logged:
            self._logged = said
            log.warning("the webhooks cannot be kept up to date; controllers work without them", why=said)
