"""``kubewright driver serve``: an installed driver in a process of its own, which dials a manager over gRPC.

Theory.      The manager runs with ``--driver grpc`` and lets drivers in; this process is one. It serves the
             driver until a signal, and dials again whenever the manager is away, so either may be started
             first, and restarted at any time. A driver that has loops of its own runs them here: the
             simulated cloud has its kubelets, which join the cluster of ``--kubeconfig``.
Called by    ``cli.driver``.
"""

import asyncio
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kubewright.base.errors import InvalidInput
from kubewright.cli import switches

if TYPE_CHECKING:
    from kubewright.base.clock import Clock
    from kubewright.driver.contract import Driver

SIMULATED = "sim"


@dataclass(frozen=True, slots=True)
class Served:
    """What was typed. ``called``: the provider of the classes, by default the driver's name."""

    name: str
    manager: str
    called: str = ""
    options: dict[str, str] = field(default_factory=dict)
    kubeconfig: Path | None = None
    files: tuple[Path | None, Path | None, Path | None] = (None, None, None)
    """Authorities, certificate and key."""
    in_flight: int = 50


Name = Annotated[str, typer.Argument(help="An installed driver.", metavar="NAME", show_default=False)]
Manager = Annotated[
    str,
    typer.Option(
        help="Where the manager listens: unix:PATH or HOST:PORT.", metavar="ADDRESS", show_default=False
    ),
]
Provider = Annotated[
    str, typer.Option(help="Serve classes with this provider; default: the driver's name.", metavar="NAME")
]
Kubeconfig = Annotated[
    Path | None,
    typer.Option(
        help="The cluster that nodes join, for a driver with nodes of its own (sim).",
        metavar="PATH",
        parser=switches.path_of("--kubeconfig"),
    ),
]
Authorities = Annotated[
    Path | None,
    typer.Option(
        help="Who signed the manager's certificate (PEM).",
        metavar="PATH",
        parser=switches.path_of("--authorities"),
    ),
]
Certificate = Annotated[
    Path | None,
    typer.Option(
        help="This driver's certificate (PEM).", metavar="PATH", parser=switches.path_of("--certificate")
    ),
]
CertificateKey = Annotated[
    Path | None, typer.Option(help="Its key (PEM).", metavar="PATH", parser=switches.path_of("--key"))
]
InFlight = Annotated[int, typer.Option(help="Operations at a time.", metavar="N", min=1, max=100)]


def serve(  # noqa: PLR0913 -- each is a switch of the command line
    name: Name,
    *,
    manager: Manager,
    provider: Provider = "",
    driver_option: switches.DriverOption = None,
    kubeconfig: Kubeconfig = None,
    authorities: Authorities = None,
    certificate: Certificate = None,
    key: CertificateKey = None,
    in_flight: InFlight = 50,
    log_level: switches.Verbosity = "info",
) -> None:
    """Serve a manager that runs with --driver grpc, until Ctrl-C."""
    from kubewright.base.clock import SystemClock
    from kubewright.cli.switches import run_until_signal

    switches.log_at(log_level)
    files = (authorities, certificate, key)
    options = switches.driver_options(driver_option or (), name)
    served = Served(name, manager, provider, options, kubeconfig, files, in_flight)

    async def work(stop: asyncio.Event) -> None:
        await serve_until(stop, served, SystemClock())

    run_until_signal(work)


async def serve_until(stop: asyncio.Event, served: Served, clock: "Clock") -> None:
    """Serve the driver that was typed.

    Raises:
        InvalidInput: there is no such driver, it refuses its options, or grpcio is not installed.
    """
    from importlib.util import find_spec

    from kubewright.compose.assembly import close
    from kubewright.compose.on_kubernetes import load_driver
    from kubewright.compose.options import Options

    if find_spec("grpc") is None:
        raise InvalidInput("kubewright driver serve needs grpcio: pip install 'kubewright[grpc]'")
    if served.name == "grpc":
        raise InvalidInput("driver grpc is the manager's side; name the driver that is to be served")
    from kubewright.providers.grpc.client import DriverOffer, Target
    from kubewright.providers.grpc.client import serve as serve_manager

    driver = load_driver(Options(driver=served.name, driver_options=served.options), clock)
    assert driver is not None, "all controllers are chosen, so VMs are made"
    called = served.called or served.name
    offer = DriverOffer(driver, clock, called, own=served.name, in_flight=served.in_flight)
    try:
        async with AsyncExitStack() as stack:
            await _begin_loops(stack, driver, served, clock)
            authorities, certificate, key = served.files
            target = Target(served.manager, authorities, certificate, key)
            await serve_manager(offer, target, clock, stop)
    finally:
        await close(driver)


async def _begin_loops(stack: AsyncExitStack, driver: "Driver", served: Served, clock: "Clock") -> None:
    """What a driver runs by itself, in tasks that end with the stack."""
    from kubewright.compose.on_kubernetes import reach
    from kubewright.driver.contract import Background
    from kubewright.kube.client import Client
    from kubewright.kube.informer import Informers
    from kubewright.kube.transport import Nowhere
    from kubewright.runtime.metrics import Metrics

    if not isinstance(driver, Background) or (served.kubeconfig is None and served.name == SIMULATED):
        return
    if served.kubeconfig is None:
        client = Client(Nowhere(clock), clock, name="target")
    else:
        client = reach(served.kubeconfig, "--kubeconfig", clock, "target", Metrics()).client
        stack.push_async_callback(client.close)
    informers = Informers(client)
    for work in (informers.run(), driver.run(informers)):
        stack.push_async_callback(_ended, asyncio.create_task(work))


async def _ended(task: "asyncio.Task[None]") -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
