"""``python -m bench [--machines N] [--world embedded|real|both]``"""

import argparse
import asyncio

from rich.console import Console

from bench import worlds
from bench.scenario import Scenario
from bench.table import Result, show
from kubewright.base.clock import SystemClock
from kubewright.testing.judge import NoKubernetes


async def measure(world: str, machines: int) -> Result:
    """Play the scenario in one world."""
    clock = SystemClock()
    start = worlds.embedded(clock) if world == "embedded" else worlds.real(clock)
    async with start as found:
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
    if results:
        show(results, Console(width=max(120, Console().width)))


main()
