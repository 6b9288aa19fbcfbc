"""All that the author of a driver imports: the port, its errors, and the main of a process that serves it.

A whole driver::

    class MyCloud:
        async def create(self, request: MachineRequest) -> Instance: ...
        async def initialize(self, request: MachineRequest) -> Instance: ...
        async def delete(self, request: MachineRequest) -> str | None: ...
        async def status(self, request: MachineRequest) -> Instance: ...
        async def list(self, request: ClassRequest) -> Sequence[Instance]: ...
        async def volume_ids(self, volumes: Sequence[VolumeSpec]) -> Sequence[str]: ...


    if __name__ == "__main__":
        main(MyCloud(), name="mycloud")

Theory.      A process of its own is for a cloud whose SDK, credentials or memory are not to be the manager's.
             So what its author installs is small, and asks for no version of a library that the manager needs
             and a driver does not: this module and what it imports are built into a distribution of their own
             too (``packages/kubewright-driver``, decision 0080), where it is called ``kubewright_driver``.
Invariants.  Nothing here, or in what it imports, needs the API server's client, a command line library or
             another extra than ``grpc``; a test counts what is imported. What is wrong with the arguments is
             one sentence on stderr and status 2, a signal ends the process with status 0 when what is under
             way was told to the manager. Logs go to stderr.
Called by    programs of authors. ``cli.driver.serve`` is the same for drivers that are installed.
"""

import asyncio
import signal
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path

import structlog

from kubewright.base.clock import SystemClock
from kubewright.base.errors import InvalidInput
from kubewright.driver.answers import provider_spec
from kubewright.driver.contract import (
    ClassRequest,
    Closing,
    Consoles,
    Driver,
    Instance,
    MachineRequest,
    Size,
    Sizes,
    Updates,
    Validates,
    VolumeSpec,
)
from kubewright.driver.errors import (
    Code,
    DriverError,
    Exhausted,
    InvalidArgument,
    NotFound,
    Unimplemented,
    Uninitialized,
)
from kubewright.providers.grpc.client import (
    IN_FLIGHT,
    DriverOffer,
    Offer,
    Provider,
    ProviderOffer,
    Target,
    serve,
)

__all__ = (
    "ClassRequest",
    "Code",
    "Consoles",
    "Driver",
    "DriverError",
    "DriverOffer",
    "Exhausted",
    "Instance",
    "InvalidArgument",
    "MachineRequest",
    "NotFound",
    "Provider",
    "ProviderOffer",
    "Size",
    "Sizes",
    "Target",
    "Unimplemented",
    "Uninitialized",
    "Updates",
    "Validates",
    "VolumeSpec",
    "main",
    "provider_spec",
    "serve",
)

MOST_IN_FLIGHT = 100


def main(driver: Driver | Provider, *, name: str, argv: Sequence[str] | None = None) -> None:
    """Serve a manager until SIGINT or SIGTERM: the whole program of an author.

    Args:
        driver: the six functions of the port, or the three of 2018.
        name: what classes give as their provider.
        argv: the arguments, without the program's name; None: those of this process.
    """
    parser = _parser(name)
    parser.set_defaults(in_flight=1 if isinstance(driver, Provider) else IN_FLIGHT)
    asked = parser.parse_args(argv)
    if not 1 <= asked.in_flight <= MOST_IN_FLIGHT:
        parser.error(f"--in-flight {asked.in_flight}: from 1 to {MOST_IN_FLIGHT}")
    _log_to_stderr()
    try:
        asyncio.run(_serve(driver, name, asked))
    except InvalidInput as error:
        parser.error(str(error))


def _parser(name: str) -> ArgumentParser:
    parser = ArgumentParser(
        description=f"Serves a manager that runs with --driver grpc the classes of {name}."
    )
    parser.add_argument("--manager", required=True, metavar="ADDRESS", help="unix:PATH or HOST:PORT")
    parser.add_argument(
        "--authorities", type=Path, metavar="PATH", help="who signed the manager's certificate (PEM)"
    )
    parser.add_argument("--certificate", type=Path, metavar="PATH", help="this driver's certificate (PEM)")
    parser.add_argument("--key", type=Path, metavar="PATH", help="its key (PEM)")
    parser.add_argument("--in-flight", type=int, metavar="N", help="operations at a time")
    return parser


def _offer(driver: Driver | Provider, name: str, in_flight: int) -> Offer:
    if isinstance(driver, Provider):
        return ProviderOffer(driver, name=name, in_flight=in_flight)
    return DriverOffer(driver, SystemClock(), name, in_flight=in_flight)


async def _serve(driver: Driver | Provider, name: str, asked: Namespace) -> None:
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    target = Target(asked.manager, asked.authorities, asked.certificate, asked.key)
    try:
        await serve(_offer(driver, name, asked.in_flight), target, stop=stop)
    finally:
        if isinstance(driver, Closing):
            await driver.close()


def _log_to_stderr() -> None:
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.KeyValueRenderer(key_order=["timestamp", "level", "event"]),
        ],
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
