"""``kubewright run``: the controllers on real clusters."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from ipaddress import ip_address
from pathlib import Path

from kubewright.base.clock import SystemClock
from kubewright.base.durations import parse_duration
from kubewright.base.errors import InvalidInput
from kubewright.cli.signals import run_until_signal
from kubewright.compose.cluster import Clusters, run_on
from kubewright.compose.options import Election, Options
from kubewright.kube import config
from kubewright.machines.machine.settings import MachineSettings
from kubewright.machines.orphans.settings import OrphanSettings
from kubewright.wire.naming import dns_label

LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class RunWords:
    """What was typed."""

    kubeconfig: Path | None
    target_kubeconfig: Path | None
    namespace: str
    controllers: str
    driver: str
    driver_options: tuple[str, ...]
    orphan_period: str
    unreachable_after: str
    health_host: str | None
    health_port: int | None


def run(words: RunWords, *, leader_elect: bool) -> None:
    """Run until SIGINT or SIGTERM.

    Raises:
        InvalidInput: a word makes no sense, or a kubeconfig cannot be used.
        LostLease: another replica leads now.
    """
    if words.namespace and (troubles := dns_label(words.namespace)):
        raise InvalidInput(f"--namespace {words.namespace!r}: {troubles[0]}")
    options = Options(
        driver=words.driver,
        driver_options=pairs(words.driver_options),
        namespace=words.namespace,
        controllers=tuple(words.controllers.split(",")),
        machine=MachineSettings(
            unreachable_after=duration(
                "--machine-safety-apiserver-statuscheck-timeout", words.unreachable_after
            )
        ),
        orphans=OrphanSettings(period=duration("--machine-safety-orphan-vms-period", words.orphan_period)),
        health_host=listening_on(words.health_host),
        health_port=words.health_port,
    )
    election = Election(enabled=leader_elect, namespace=words.namespace or "default")
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


def duration(switch: str, text: str) -> timedelta:
    """A switch's duration, as Go writes them.

    Raises:
        InvalidInput: it is none.
    """
    try:
        return parse_duration(text)
    except ValueError as error:
        raise InvalidInput(f"{switch}: {error}") from None
