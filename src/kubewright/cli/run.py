"""``kubewright run``: the controllers on real clusters."""

import asyncio
from collections.abc import Iterable
from datetime import timedelta
from ipaddress import ip_address

from kubewright.base.clock import SystemClock
from kubewright.base.errors import InvalidInput
from kubewright.cli.run_words import RunWords
from kubewright.cli.signals import run_until_signal
from kubewright.cli.words import duration as typed_duration
from kubewright.compose.cluster import Clusters, run_on
from kubewright.compose.options import Election, Options
from kubewright.kube import config
from kubewright.machines.machine.settings import MachineSettings
from kubewright.machines.orphans.settings import OrphanSettings
from kubewright.wire.naming import dns_label

LOOPBACK = "127.0.0.1"


def run(words: RunWords) -> None:
    """Run until SIGINT or SIGTERM.

    Raises:
        InvalidInput: a word makes no sense, or a kubeconfig cannot be used.
        LostLease: another replica leads now.
    """
    if words.namespace and (troubles := dns_label(words.namespace)):
        raise InvalidInput(f"--namespace {words.namespace!r}: {troubles[0]}")
    options = Options(
        driver=words.driver,
        driver_options=pairs(words.driver_option or ()),
        namespace=words.namespace,
        controllers=tuple(words.controllers.split(",")),
        machine=MachineSettings(
            unreachable_after=duration(words, "machine_safety_apiserver_statuscheck_timeout")
        ),
        orphans=OrphanSettings(period=duration(words, "machine_safety_orphan_vms_period")),
        health_host=listening_on(words.address),
        health_port=words.health_port,
    )
    election = Election(enabled=words.leader_elect, namespace=words.namespace or "default")
    clusters = Clusters(words.kubeconfig, words.target_kubeconfig)

    async def work(stop: asyncio.Event) -> None:
        await run_on(clusters, options, election, SystemClock(), stop)

    run_until_signal(work)


def listening_on(host: str | None) -> str:
    """Where to serve health: where we are told to; in a pod, whose kubelet asks from outside, everywhere.

    Raises:
        InvalidInput: it is no IP address.
    """
    if host is None:
        return "" if config.in_pod() else LOOPBACK
    try:
        return str(ip_address(host))
    except ValueError:
        raise InvalidInput(f"--address {host!r} is no IP address") from None


def pairs(words: Iterable[str]) -> dict[str, str]:
    """``NAME=VALUE`` words as a mapping.

    Raises:
        InvalidInput: a word without ``=``, or a name given twice.
    """
    found: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise InvalidInput(f"--driver-option wants NAME=VALUE, not {word!r}")
        if name in found:
            raise InvalidInput(f"--driver-option {name} is given twice")
        found[name] = value
    return found


def duration(words: RunWords, name: str) -> timedelta:
    """The duration that a switch was given, as Go writes them.

    Raises:
        InvalidInput: it is none.
    """
    return typed_duration(f"--{name.replace('_', '-')}", getattr(words, name))
