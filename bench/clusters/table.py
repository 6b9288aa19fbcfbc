"""The result of the worlds of clusters as tables, beside the budgets of the design."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import nan

from rich.console import Console
from rich.table import Table

from bench.clusters.worlds import Clusters
from bench.meter import Cost
from bench.requests import Asked, by, events, without_leases, writes
from bench.table import Budget, beside

PHASES = {
    "cluster": "its control plane up",
    "up": "0 to {workers} workers Running",
    "rest": "a minute at rest",
    "roll": "roll, surge 25 %, unavailable 0",
    "down": "back to 0 workers",
    "gone": "the Cluster deleted",
    "many": "{many} clusters of 1 + 1",
}


@dataclass(slots=True)
class Result:
    """One world: what each phase cost that was played, and the most memory of each program in MiB."""

    found: Clusters
    workers: int
    many: int
    costs: dict[str, Cost] = field(default_factory=dict)
    peaks: dict[str, float] = field(default_factory=dict)
    beyond_surge: float = nan
    below_floor: float = nan

    def writes(self, phase: str, *clients: str) -> float:
        """Writes of these clients, without Leases and events; not known where one client is all parts."""
        known = self.found.bootstrap and phase in self.costs
        return writes(without_leases(by(self.costs[phase].asked, *clients))) if known else nan

    def providers(self, phase: str) -> float:
        """Writes of core and bootstrap provider; in ``up`` those of the infrastructure are among them."""
        return writes(without_leases(_theirs(self, phase))) if phase in self.costs else nan

    def measured(self, phase: str) -> float:
        """CPU-seconds of the programs that are core and bootstrap provider."""
        cost = self.costs.get(phase)
        return nan if cost is None else sum(cost.cpu[name] for name in self.found.measured)

    def events(self, phase: str) -> float:
        """Events of core and bootstrap provider."""
        return events(_theirs(self, phase)) if phase in self.costs else nan

    def seconds(self, phase: str) -> float:
        """How long it took."""
        return self.costs[phase].seconds if phase in self.costs else nan


def lines(result: Result) -> list[Budget]:
    """Every line for one world, as far as its phases were played. Times have budgets for 50 workers alone."""
    found = []
    if result.workers:
        found += _one(result)
    if result.many:
        found += _many(result)
    memory = sum(result.peaks.get(name, nan) for name in result.found.measured)
    limit = {1000: 1536.0}.get(result.many)
    return [*found, Budget("peak resident memory, core and bootstrap", "MiB", limit, memory)]


def _one(result: Result) -> list[Budget]:
    n = result.workers
    fifty = n == 50
    core, provider = result.found.core, result.found.bootstrap
    found = [
        Budget("1 control plane machine up", "s", None, result.seconds("cluster")),
        Budget("  writes without infrastructure", "", None, result.providers("cluster")),
    ]
    for phase, seconds, each in (("up", 5.0, 16.0), ("roll", 10.0, 28.0), ("down", 4.0, 6.0)):
        what, limit = PHASES[phase].format(workers=n), each if provider else None
        found += [
            Budget(what, "s", seconds if fifty else None, result.seconds(phase)),
            Budget("  writes per worker without infrastructure", "", limit, result.providers(phase) / n),
            Budget("    of which the core", "", None, result.writes(phase, *core) / n),
            Budget("    of which the bootstrap provider", "", None, result.writes(phase, *provider) / n),
            Budget("  events per worker", "", None, result.events(phase) / n),
            Budget("  CPU of core and bootstrap", "s", None, result.measured(phase)),
        ]
    minutes, for_work = result.seconds("rest") / 60, result.providers("rest")
    return [
        *found,
        Budget("machines beyond surge", "", 0, result.beyond_surge),
        Budget("machines below the floor", "", 0, result.below_floor),
        Budget("the Cluster deleted", "s", None, result.seconds("gone")),
        Budget("  writes without infrastructure", "", None, result.providers("gone")),
        Budget("a minute at rest: writes but for Leases", "", 0, for_work / minutes),
        Budget("  writes of Leases", "", None, (writes(_theirs(result, "rest")) - for_work) / minutes),
        Budget("  CPU of core and bootstrap", "s", None, result.measured("rest") / minutes),
    ]


def _many(result: Result) -> list[Budget]:
    n = result.many
    limit = {100: 40.0, 1000: 60.0}.get(n)
    return [
        Budget(PHASES["many"].format(many=n), "s", limit, result.seconds("many")),
        Budget("  writes per cluster without infrastructure", "", None, result.providers("many") / n),
        Budget("  CPU of core and bootstrap, per cluster", "ms", None, result.measured("many") / n * 1000),
    ]


def _theirs(result: Result, phase: str) -> Asked:
    asked = result.costs[phase].asked if phase in result.costs else Asked()
    return by(asked, *result.found.core, *result.found.bootstrap)


def show(results: Sequence[Result], console: Console) -> None:
    """Print the table, and below it what each program used and what was asked, by phase."""
    names = [each.found.world.name for each in results]
    console.print(_title(results[0]))
    console.print(beside("", names, [lines(each) for each in results]))
    for result in results:
        console.print(_programs(result))
        console.print(_asked(result))


def _title(result: Result) -> str:
    """What was measured, and what is in a column that is one process."""
    return (
        f"{result.workers} workers, {result.many} clusters of 1 + 1; keys {result.found.algorithm.value}. "
        "The workload clusters are API servers in the process of the infrastructure; in the column embedded "
        "all is one process, and writes include the infrastructure's"
    )


def _programs(result: Result) -> Table:
    name = result.found.world.name
    table = Table(title=f"CPU-seconds by program, {name}", title_justify="left")
    table.add_column("program")
    for phase in result.costs:
        table.add_column(phase, justify="right")
    table.add_column("peak MiB", justify="right")
    for program, peak in result.peaks.items():
        spent = (f"{cost.cpu[program]:.1f}" for cost in result.costs.values())
        table.add_row(program, *spent, f"{peak:.0f}")
    return table


def _asked(result: Result) -> Table:
    """Requests by client, verb and resource: per worker, or per cluster."""
    name = result.found.world.name
    table = Table(title=f"requests per worker or cluster, {name}", title_justify="left")
    for column in ("client", "verb", "resource"):
        table.add_column(column)
    phases = {phase: cost for phase, cost in result.costs.items() if phase != "rest"}
    for phase in phases:
        table.add_column(phase, justify="right")
    clients = (*result.found.core, *result.found.bootstrap, *result.found.infrastructure)
    asks = {ask for cost in phases.values() for ask in by(without_leases(cost.asked), *clients)}
    for ask in sorted(asks - {ask for ask in asks if ask.verb == "watch"}, key=str):
        counts = [cost.asked[ask] / _share(result, phase) for phase, cost in phases.items()]
        table.add_row(ask.client, ask.verb, ask.resource, *(f"{each:.2f}" if each else "" for each in counts))
    return table


def _share(result: Result, phase: str) -> int:
    return {"many": result.many, "cluster": 1, "gone": 1}.get(phase, result.workers)
