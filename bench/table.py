"""The result as one table, beside the budgets of the design."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import isnan, nan

from rich.console import Console
from rich.table import Table

from bench.requests import Asked


@dataclass(slots=True)
class Phase:
    """What one phase of the scenario cost; nan: not measured. ``asked`` are our requests."""

    seconds: float = nan
    writes: float = nan
    requests: float = nan
    cpu: float = nan
    beyond_surge: float = nan
    below_floor: float = nan
    events: float = nan
    asked: Asked = field(default_factory=Asked)


NOT_PLAYED = Phase()


@dataclass(slots=True)
class Result:
    """One world. Times in seconds, ``cpu`` in seconds, memory in MiB; nan: not measured.

    ``pods``  on each node when the machines are deleted: the budgets of a deletion are for none
    """

    world: str
    machines: int
    pods: int = 0
    phases: dict[str, Phase] = field(default_factory=dict)
    peak: float = nan
    requests_per_minute: float = nan
    unknown_p50: float = nan
    left_behind: float = nan


@dataclass(frozen=True, slots=True)
class Budget:
    """A line of the table. ``limit`` None: there is no budget; a ``value`` that is no number: not known."""

    what: str
    unit: str
    limit: float | None
    value: float

    @property
    def met(self) -> str:
        return "" if self.limit is None or isnan(self.value) else "yes" if self.value <= self.limit else "no"


def lines(result: Result) -> list[Budget]:
    """Every line for one world. Time budgets are set for 500 and 1,000 machines only, and for no pods."""
    n, phases = result.machines, result.phases
    names = ("create", "roll", "delete", "update")
    create, roll, delete, update = (phases.get(name, NOT_PLAYED) for name in names)
    at = {500: (3.5, 9.0, 3.5), 1000: (6.0, 17.0, 6.0)}.get(n, (None, None, None))
    of_delete = (at[2], 4, 5, 6) if not result.pods else (None,) * 4
    drained = f", each node drained of {result.pods} pods" if result.pods else ""
    memory = {500: 110.0, 10_000: 200.0}.get(n)
    return [
        Budget("0 to Running", "s", at[0], create.seconds),
        Budget("rolling update, surge 25 %, unavailable 25 %", "s", at[1], roll.seconds),
        Budget("all VMs updated as they run", "s", None, update.seconds),
        Budget(f"back to 0{drained}", "s", of_delete[0], delete.seconds),
        Budget("our writes per machine: create", "", 4, create.writes / n),
        Budget("our writes per machine: roll", "", None, roll.writes / n),
        Budget("our writes per machine: delete", "", of_delete[1], delete.writes / n),
        Budget("our writes per machine: update of its VM", "", 2, update.writes / n),
        Budget("our requests per machine: create", "", 6, create.requests / n),
        Budget("our requests per machine: roll", "", 12, roll.requests / n),
        Budget("our requests per machine: delete", "", of_delete[2], delete.requests / n),
        Budget("our events per machine: create", "", None, create.events / n),
        Budget("our events per machine: roll", "", None, roll.events / n),
        Budget("our events per machine: delete", "", None, delete.events / n),
        Budget(
            "machines beyond surge, at worst",
            "",
            0,
            max((p.beyond_surge for p in phases.values()), default=nan),
        ),
        Budget("machines below the floor, at worst", "", 0, roll.below_floor),
        Budget("nodes left behind", "", 0, result.left_behind),
        Budget("NotReady node to Unknown machine, p50", "ms", 20, result.unknown_p50 * 1000),
        Budget("CPU per machine: create", "ms", 6, create.cpu / n * 1000),
        Budget("CPU per machine: roll", "ms", 15, roll.cpu / n * 1000),
        Budget("CPU per machine: update of its VM", "ms", None, update.cpu / n * 1000),
        Budget("CPU per machine: delete", "ms", of_delete[3], delete.cpu / n * 1000),
        Budget("peak resident memory", "MiB", memory, result.peak),
        Budget("our requests per minute at rest", "", 12, result.requests_per_minute),
    ]


def show(results: Sequence[Result], console: Console) -> None:
    """Print the table, and our requests by verb and resource below it."""
    title = f"{results[0].machines} machines"
    console.print(beside(title, [each.world for each in results], [lines(each) for each in results]))
    for result in results:
        console.print(_asked(result))


def beside(title: str, worlds: Sequence[str], columns: Sequence[Sequence[Budget]]) -> Table:
    """The same lines of several worlds, beside each other and their budgets."""
    table = Table(title=title, title_justify="left")
    table.add_column("what")
    table.add_column("budget", justify="right")
    for world in worlds:
        table.add_column(world, justify="right")
    for row in zip(*columns, strict=True):
        limit = next((each.limit for each in row if each.limit is not None), None)
        budget = "" if limit is None else f"<= {limit:g} {row[0].unit}".rstrip()
        table.add_row(row[0].what, budget, *map(cell, row))
    return table


def cell(line: Budget) -> str:
    """A value, and whether its budget is met."""
    colour = {"yes": "green", "no": "red"}.get(line.met)
    if isnan(line.value):
        return ""
    number = f"{line.value:.2f}".rstrip("0").rstrip(".")
    text = f"{number} {line.unit}".rstrip() + (f" ({line.met})" if line.met else "")
    return f"[{colour}]{text}[/{colour}]" if colour else text


def _asked(result: Result) -> Table:
    table = Table(title=f"our requests per machine, {result.world}", title_justify="left")
    table.add_column("verb")
    table.add_column("resource")
    names = list(result.phases)
    for name in names:
        table.add_column(name, justify="right")
    asks = sorted({ask for phase in result.phases.values() for ask in phase.asked}, key=str)
    for ask in asks:
        counts = [result.phases[name].asked[ask] / result.machines for name in names]
        table.add_row(ask.verb, ask.resource, *(f"{count:.3f}" if count else "" for count in counts))
    return table
