"""``python -m bench [machines|clusters|planes|vms|aws|conversion|all] [--world …|all] [--…]``"""

import argparse
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial

from rich.console import Console

from bench import aws, conversion, table, vms, worlds
from bench.clusters import scenario as of_clusters
from bench.clusters import table as clusters_table
from bench.clusters import worlds as clusters_worlds
from bench.measured import Measure, measured
from bench.planes import scenario as of_planes
from bench.planes import table as planes_table
from bench.scenario import Scenario
from kubewright.base.clock import Clock, SystemClock
from kubewright.pki.keys import Algorithm

EMBEDDED, REAL, GRPC, THEIRS = WORLDS = ("embedded", "real", "grpc", "cluster-api")
ALL = "all"


async def machines(world: str, keep: Callable[[table.Result], None], count: int, pods: int) -> None:
    """The scenario of machines in one world."""
    clock = SystemClock()
    starts: dict[str, Callable[[Clock], AbstractAsyncContextManager[worlds.World]]] = {
        EMBEDDED: worlds.embedded,
        REAL: worlds.real,
        GRPC: worlds.over_grpc,
    }
    async with starts[world](clock) as found:
        _say(found.name)
        scenario = Scenario(found, clock, count, pods)
        keep(scenario.result)
        await scenario.play()


async def whole_clusters(
    world: str,
    keep: Callable[[clusters_table.Result], None],
    workers: int,
    many: int,
    algorithm: Algorithm = Algorithm.RSA,
) -> None:
    """The scenario of clusters in one world."""
    clock = SystemClock()
    starts: dict[str, Callable[[Clock], AbstractAsyncContextManager[clusters_worlds.Clusters]]] = {
        EMBEDDED: partial(clusters_worlds.embedded, algorithm=algorithm),
        REAL: partial(clusters_worlds.ours, algorithm=algorithm),
        THEIRS: clusters_worlds.theirs,
    }
    async with starts[world](clock) as found:
        _say(found.world.name)
        scenario = of_clusters.Scenario(found, clock, workers, many)
        keep(scenario.result)
        await scenario.play()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        prog="bench", description="What a machine, a cluster and a control plane cost."
    )
    parser.add_argument(
        "what",
        nargs="?",
        choices=("machines", "clusters", "planes", "vms", "aws", "conversion", ALL),
        default=ALL,
    )
    parser.add_argument("--world", choices=(*WORLDS, ALL), default=ALL)
    parser.add_argument("--machines", type=int, default=500, help="how many (default: 500)")
    parser.add_argument("--pods", type=int, default=0, help="per node, to be drained at the end (default: 0)")
    parser.add_argument("--workers", type=int, default=50, help="of the one cluster (default: 50; 0: none)")
    parser.add_argument("--clusters", type=int, default=100, help="of 1 + 1 (default: 100; 0: none)")
    parser.add_argument("--keys", choices=[each.value for each in Algorithm], default=Algorithm.RSA.value,
                        help="of our clusters' authorities (default: RSA-2048)")  # fmt: skip
    parser.add_argument("--thousand", type=int, default=1000,
                        help="clusters of 1 + 1, embedded, on EC keys (default: 1000; 0: none)")  # fmt: skip
    parser.add_argument("--planes", type=int, default=500,
                        help="control planes at once, embedded (default: 500; 0: one alone)")  # fmt: skip
    parser.add_argument("--real-planes", type=int, default=20,
                        help="the same of real programs (default: 20; 0: one alone)")  # fmt: skip
    parser.add_argument("--replicas", type=int, nargs="+", default=[1, 2],
                        help="of each real API server, one after another; side by side, the first; "
                        "of etcd an odd number (default: 1 2)")  # fmt: skip
    parser.add_argument("--vms", type=int, default=50, help="of QEMU, at once (default: 50; 0: none)")
    words = parser.parse_args()
    console = Console(width=max(120, Console().width))
    asked = WORLDS if words.world == ALL else (words.world,)
    if words.what in ("machines", ALL):
        found = measured(
            [world for world in asked if world != THEIRS],
            partial(machines, count=words.machines, pods=words.pods),
        )
        if found.results:
            table.show(found.results, console)
        _stop_if(found.stopped)
    if words.what in ("clusters", ALL):
        _clusters(words, [world for world in asked if world != GRPC], console)
    if words.what in ("planes", ALL):
        _planes(words, asked, console)
    if words.what in ("vms", ALL) and words.vms:
        _vms(words.vms, console)
    if words.what in ("aws", ALL) and EMBEDDED in asked:
        _aws(words, console)
    if words.what in ("conversion", ALL):
        conversion.show(console)


def _clusters(words: argparse.Namespace, asked: Sequence[str], console: Console) -> None:
    if words.workers or words.clusters:
        keys = Algorithm(words.keys)
        measure = partial(whole_clusters, workers=words.workers, many=words.clusters, algorithm=keys)
        _show_clusters(asked, measure, console)
    if words.thousand and EMBEDDED in asked:
        measure = partial(whole_clusters, workers=0, many=words.thousand, algorithm=Algorithm.EC)
        _show_clusters([EMBEDDED], measure, console)


def _show_clusters(asked: Sequence[str], measure: Measure[clusters_table.Result], console: Console) -> None:
    found = measured(asked, measure)
    if found.results:
        clusters_table.show(found.results, console)
    _stop_if(found.stopped)


def _planes(words: argparse.Namespace, asked: Sequence[str], console: Console) -> None:
    """Both channels in one world, so that their control planes are side by side."""
    many = {EMBEDDED: (planes_table.EMBEDDED, words.planes), REAL: (planes_table.REAL, words.real_planes)}
    wanted = of_planes.Asked(dict(many[each] for each in asked if each in many), tuple(words.replicas))

    async def measure(_world: str, keep: Callable[[planes_table.Results], None]) -> None:
        await of_planes.measure(wanted, SystemClock(), keep)

    found = measured(["control planes"], measure)
    for results in found.results:
        planes_table.show(results, console)
        _stop_if(results.stopped)
    _stop_if(found.stopped)


def _vms(count: int, console: Console) -> None:
    if missing := vms.missing():
        print(f"without VMs of QEMU: {missing} is not installed")
        return
    found = measured(["qemu"], partial(vms.measure, count=count))
    for result in found.results:
        vms.show(result, console)
    _stop_if(found.stopped)


def _aws(words: argparse.Namespace, console: Console) -> None:
    async def measure(_world: str, keep: Callable[[aws.Result], None]) -> None:
        await aws.measure(words.machines, SystemClock(), keep)

    found = measured(["machines at AWS"], measure)
    for result in found.results:
        aws.show(result, console)
    _stop_if(found.stopped)


def _stop_if(stopped: str) -> None:
    """End with that reason, if there is one."""
    if stopped:
        sys.exit(f"bench: stopped before the end: {stopped}. What it had not measured is empty above")


def _say(name: str) -> None:
    print(f"bench: {name} is up; this takes some minutes", file=sys.stderr, flush=True)


main()
