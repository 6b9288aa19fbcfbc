"""``kubewright up``: everything in one process, until somebody asks it to stop."""

import asyncio

from kubewright.base.clock import SystemClock
from kubewright.cli.signals import run_until_signal
from kubewright.compose.embedded import Embedded
from kubewright.compose.options import Options, Place


def up(place: Place) -> None:
    """Serve from ``place``; returns after SIGINT or SIGTERM.

    Raises:
        InvalidInput: another process has the folder, the port is taken, or the folder cannot be used.
    """

    async def work(stop: asyncio.Event) -> None:
        async with Embedded(place, Options(), SystemClock()) as world:
            print(f"kubewright is ready; its kubeconfig is {world.kubeconfig}", flush=True)
            print(f"  export KUBECONFIG={world.kubeconfig}", flush=True)
            print("  kubectl get machineclasses,machines,nodes", flush=True)
            await world.serve(stop)

    run_until_signal(work)
