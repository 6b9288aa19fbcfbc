"""``kubewright run``: what a user typed as options, and the controllers on real clusters.

Invariants.  Every value is checked before anything is connected to.
Called by    ``cli.run.switches``.
"""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from ipaddress import ip_address

import structlog

from kubewright.api.webhooks.configurations import NAME, Address, FailurePolicy
from kubewright.base.clock import SystemClock
from kubewright.base.errors import InvalidInput
from kubewright.base.names import fnv32a
from kubewright.cli.run import mcm
from kubewright.cli.run.switches import RunSwitches
from kubewright.cli.switches import bootstrap, driver_options, run_until_signal
from kubewright.cli.switches import duration as typed_duration
from kubewright.compose import worlds
from kubewright.compose.on_kubernetes import NO_TARGET, Clusters, run_on
from kubewright.compose.options import Election, Options, WebhookOptions
from kubewright.driver.life.orphans import OrphanSettings
from kubewright.kube import config
from kubewright.kube.scope import Namespaces
from kubewright.machines.settings import MachineSettings
from kubewright.reserves.seen import PAUSE_IMAGE, ReserveSettings
from kubewright.runtime.lease import WHOLE, Shard, Timings
from kubewright.wire.gvk import Key
from kubewright.wire.naming import dns_label, dns_subdomain, label_value

LOOPBACK = "127.0.0.1"

log = structlog.get_logger(__name__)


def run(typed: RunSwitches) -> None:
    """Run until SIGINT or SIGTERM.

    Raises:
        InvalidInput: a switch has a bad value, or a kubeconfig cannot be used.
        LostLease: a Lease was lost, and ``--leader-elect-exit`` was given.
    """
    options = Options(
        driver=typed.driver,
        driver_options=driver_options(typed.driver_option or (), typed.driver),
        simulate=typed.allow_simulated_nodes,
        namespaces=Namespaces.parsed(typed.namespace, typed.exclude_namespace),
        watch_filter=watch_filter(typed.watch_filter),
        shard=Shard.parsed(typed.shard) if typed.shard else WHOLE,
        strict_running=typed.strict_running,
        controllers=tuple(",".join(typed.controllers or ["*"]).split(",")),
        machine=mcm.settings(
            typed.mcm,
            MachineSettings(
                unreachable_after=duration(typed, "machine_safety_apiserver_statuscheck_timeout"),
                joins=typed.target_kubeconfig != NO_TARGET,
            ),
        ),
        orphans=OrphanSettings(period=duration(typed, "machine_safety_orphan_vms_period")),
        bootstrap=bootstrap(typed.encryption_algorithm),
        health_host=listening_on(typed.address),
        health_port=typed.health_port,
        profiling=mcm.profiling(typed.mcm),
        webhooks=webhooks(typed, config.own_namespace()),
        restore_image=typed.restore_image,
        reserves=ReserveSettings(typed.placeholder_image or PAUSE_IMAGE),
        snapshot_folder=typed.snapshot_folder,
    )
    for told in mcm.unused(typed.mcm):
        log.warning(told)
    clusters, chosen = Clusters(typed.kubeconfig, typed.target_kubeconfig), election(typed, options)

    async def work(stop: asyncio.Event) -> None:
        await run_on(clusters, options, chosen, SystemClock(), stop)

    run_until_signal(work)


def election(typed: RunSwitches, options: Options) -> Election:
    """How leaders are elected.

    Raises:
        InvalidInput: a name, a namespace or a duration is not valid, or shards are to work without Leases.
    """
    if not (options.shard.whole or typed.leader_elect):
        raise InvalidInput("--shard needs --leader-elect: Leases keep two processes from having one shard")
    _namespace("--leader-elect-resource-namespace", typed.leader_elect_resource_namespace)
    numbers = ("lease_duration", "renew_deadline", "retry_period")
    seconds = [duration(typed, f"leader_elect_{name}").total_seconds() for name in numbers]
    return Election(
        enabled=typed.leader_elect,
        namespace=typed.leader_elect_resource_namespace or next(iter(options.namespaces.named), "default"),
        leases=leases(
            typed.leader_elect_resource_name, worlds.leases(worlds.chosen(options)), options.watch_filter
        ),
        timings=Timings(*seconds),
        again=not typed.leader_elect_exit,
    )


def leases(typed: str, wanted: Sequence[str], watch_filter: str = "") -> dict[str, str]:
    """By the default name of a Lease, the name that the user gave it, if that is another.

    Programs with different watch filters work beside each other, so each filter has Leases of its own.

    Raises:
        InvalidInput: too few or too many names, a name twice, or one that is not valid.
    """
    names = [name.strip() for name in typed.split(",") if name.strip()]
    if not names:
        suffix = _suffix(watch_filter)
        return {name: f"{name}-{suffix}" for name in wanted} if suffix else {}
    switch = "--leader-elect-resource-name"
    if len(names) != len(wanted):
        stead = " and ".join(wanted)
        raise InvalidInput(
            f"{switch} {typed!r}: a name is wanted for each half that runs, in place of {stead}"
        )
    if len(set(names)) != len(names):
        raise InvalidInput(f"{switch} {typed!r}: two halves with one Lease would wait for each other")
    for name in names:
        if troubles := dns_subdomain(name):
            raise InvalidInput(f"{switch} {name!r}: {troubles[0]}")
    return dict(zip(wanted, names, strict=True))


def _suffix(value: str) -> str:
    """The value of a label as part of a Lease's name, with a hash where characters had to be replaced."""
    plain = value.lower().replace("_", "-").replace(".", "-")
    return plain if plain == value else f"{plain}-{fnv32a(value.encode())}"


def watch_filter(value: str) -> str:
    """The value of the label that objects must have; empty: none is asked for.

    Raises:
        InvalidInput: no label can have this value.
    """
    if troubles := label_value(value):
        raise InvalidInput(f"--watch-filter {value!r}: {troubles[0]}")
    return value


def webhooks(typed: RunSwitches, own_namespace: str) -> WebhookOptions | None:
    """Where webhooks are served; None for nowhere. ``own_namespace`` is that of our pod, if we are in one.

    Raises:
        InvalidInput: the switches do not say where the API server finds them, or say it twice.
    """
    service, url = typed.webhook_service, typed.webhook_url
    if not typed.webhook_port:
        if service or url:
            given = "--webhook-service" if service else "--webhook-url"
            raise InvalidInput(f"{given} goes with --webhook-port")
        return None
    if service and url:
        raise InvalidInput("--webhook-service and --webhook-url are two addresses; name one")
    if not service and not url:
        if not own_namespace:
            raise InvalidInput(
                "--webhook-port: where does the API server reach it? Name the address with --webhook-url "
                "https://HOST:PORT, or its Service with --webhook-service NAMESPACE/NAME"
            )
        service = f"{own_namespace}/{NAME}"
    return WebhookOptions(
        typed.webhook_port,
        Address(_service(service) if service else None, url),
        listening_on(typed.address),
        FailurePolicy(typed.webhook_failure_policy),
    )


def _service(text: str) -> Key:
    namespace, slash, name = text.partition("/")
    if not slash or dns_label(namespace) or dns_label(name):
        raise InvalidInput(f"--webhook-service wants NAMESPACE/NAME, not {text!r}")
    return Key(namespace, name)


def _namespace(switch: str, name: str) -> None:
    if name and (troubles := dns_label(name)):
        raise InvalidInput(f"{switch} {name!r}: {troubles[0]}")


def listening_on(host: str | None) -> str:
    """The address to listen on: ``host``; without one, all in a pod (its kubelet is outside), else loopback.

    Raises:
        InvalidInput: it is no IP address.
    """
    if host is None:
        return "" if config.in_pod() else LOOPBACK
    try:
        return str(ip_address(host))
    except ValueError:
        raise InvalidInput(f"--address {host!r} is no IP address") from None


def duration(typed: RunSwitches, name: str) -> timedelta:
    """The value of a switch as a duration, in Go's syntax.

    Raises:
        InvalidInput: it is not a duration.
    """
    return typed_duration(f"--{name.replace('_', '-')}", getattr(typed, name))
