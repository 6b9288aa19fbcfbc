"""The admission webhooks of ``run``: the rules of the worlds that run here, served for API servers.

Theory.      An embedded server calls the rules in process (``embedded``). A real one asks over HTTPS: so a
             process serves them, makes its own certificates, and tells the API server where it is. Two
             tasks, which run beside the controllers from start to end, in every replica.
Invariants.  No controller waits for webhooks, and no failure of webhooks ends a controller. Only a port that
             cannot be listened on ends the process, since only a user can choose another.
Called by    ``on_kubernetes``. Continues in ``runtime.webhooks``.
"""

import asyncio
from typing import Any

from kubewright.api.admission import Rules
from kubewright.api.catalog import RULES, with_migrated
from kubewright.api.cluster.names import WATCH_FILTER_LABEL
from kubewright.api.webhooks.configurations import NAME, Registration, Scope
from kubewright.api.webhooks.review import webhooks
from kubewright.base.errors import InvalidInput, single
from kubewright.base.names import fnv32a
from kubewright.compose.options import Options
from kubewright.compose.worlds import kinds, migrated_by
from kubewright.driver.contract import Driver
from kubewright.kube.client import Client
from kubewright.kube.scope import EVERYWHERE
from kubewright.pki.certificates import Identity
from kubewright.runtime.metrics import Metrics
from kubewright.runtime.webhooks.keeper import Keeper
from kubewright.runtime.webhooks.server import WebhookServer
from kubewright.wire.gvk import Key

LISTEN_SECONDS = 10.0
"""How long the port may take to open."""


class Webhooks:
    """The server, and the keeper of its certificates and configurations; see the module.

    Raises:
        InvalidInput: no controller runs whose kinds have webhooks.
    """

    def __init__(
        self, client: Client, options: Options, namespace: str, metrics: Metrics, driver: Driver | None
    ) -> None:
        chosen = options.webhooks
        assert chosen is not None
        hooks = webhooks(rules(options, driver))
        if not hooks:
            raise InvalidInput(
                "no controller runs whose kinds have webhooks; name one with --controllers, or leave "
                "--webhook-port out"
            )
        address = chosen.address
        registration = Registration(name(options), hooks, address, chosen.policy, scope(options))
        home = address.service.namespace if address.service else namespace
        secret = Key(home, registration.name)
        self.server = WebhookServer(hooks, host=chosen.host, port=chosen.port, metrics=metrics)
        self.keeper = Keeper(client, registration, secret, self._serve, chosen.lifetimes)

    async def run(self) -> None:
        """Serve until cancelled.

        Raises:
            InvalidInput: the port cannot be listened on.
        """
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self.server.run(), name="webhooks")
                group.create_task(self.keeper.run(), name="certificates of webhooks")
        except BaseExceptionGroup as errors:
            raise single(errors) from None

    async def _serve(self, identity: Identity) -> None:
        self.server.present(identity)
        try:
            async with asyncio.timeout(LISTEN_SECONDS):
                await self.server.listening.wait()
        except TimeoutError:
            raise InvalidInput(f"the port of webhooks is not open after {LISTEN_SECONDS:g} s") from None


def webhooks_of(
    client: Client, options: Options, namespace: str, metrics: Metrics, driver: Driver | None
) -> Webhooks | None:
    """The webhooks that the options ask for; their keys are in ``namespace``, or in that of their Service."""
    return None if options.webhooks is None else Webhooks(client, options, namespace, metrics, driver)


def rules(options: Options, driver: Driver | None) -> list[Rules[Any]]:
    """The rules of admission of the worlds that have at least one controller here.

    Which classes are migrated the driver knows: a process without one, such as that of the controllers of
    sets, does not judge the kinds of classes.
    """
    mine = kinds(options)
    chosen = [each for each in RULES if each.kind in mine]
    if driver is None:
        return chosen
    return list(with_migrated(chosen, lambda: migrated_by({options.driver: driver})))


def scope(options: Options) -> Scope:
    """The objects that the controllers work on."""
    of_ours = {WATCH_FILTER_LABEL: options.watch_filter} if options.watch_filter else {}
    return Scope(options.namespaces.wanted, options.namespaces.excluded, of_ours)


def name(options: Options) -> str:
    """The name of the configurations, which have no namespace: the Service's, else the default one.

    Processes for other namespaces or another watch filter work beside each other: each has its own.
    """
    chosen = options.webhooks
    service = chosen.address.service if chosen else None
    first = service.name if service else NAME
    if options.namespaces == EVERYWHERE and not options.watch_filter:
        return first
    part = f"{options.namespaces}/{options.watch_filter}"
    return f"{first}-{fnv32a(part.encode()):08x}"
