"""``python -m bench [--machines N] [--world embedded|real|both]``"""

import argparse
import asyncio
import signal
import sys

from rich.console import Console

from bench import worlds
from bench.scenario import Scenario
from bench.table import Result, show
from kubewright.base.clock import SystemClock
from kubewright.testing.real_kubernetes import NoKubernetes

ENDED_BY = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


async def measure(world: str, machines: int) -> Result:
    """Play the scenario in one world; a signal ends it, and all that it started."""
    clock = SystemClock()
    task = asyncio.current_task()
    assert task is not None
    for number in ENDED_BY:
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    start = worlds.embedded(clock) if world == "embedded" else worlds.real(clock)
    async with start as found:
        print(f"bench: {found.name} is up; this takes some minutes", file=sys.stderr, flush=True)
        return await Scenario(found, clock, machines).play()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="bench", description="What a machine costs.")
    parser.add_argument("--machines", type=int, default=500, help="how many (default: 500)")
    parser.add_argument("--world", choices=("embedded", "real", "both"), default="both")
    words = parser.parse_args()
    asked = ("embedded", "real") if words.world == "both" else (words.world,)
    results = []
    for world in asked:
        try:
            results.append(asyncio.run(measure(world, words.machines)))
        except NoKubernetes as error:
            print(f"without a real Kubernetes: {error}")
        except asyncio.CancelledError:
            sys.exit("bench: stopped before the end; nothing is left behind")
    if results:
        show(results, Console(width=max(120, Console().width)))


main()
