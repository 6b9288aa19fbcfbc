"""The summary of many runs: what was tried, and what came of it.

Called by    ``__main__``.
"""

from collections import Counter
from dataclasses import dataclass, field

from kubewright.testing.simulation.crashes import Crash
from kubewright.testing.simulation.run import Outcome


@dataclass(slots=True)
class Table:
    """Counts by story and by kind of fault."""

    writes: Counter[str] = field(default_factory=Counter)
    points: Counter[str] = field(default_factory=Counter)
    seeds: Counter[str] = field(default_factory=Counter)
    wrong: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0

    def ran(self, outcome: Outcome, *, seeded: bool = False) -> None:
        """One run is over."""
        name = outcome.story
        self.seconds += outcome.seconds
        self.seeds[name] += seeded
        self.wrong[name] += not outcome.good
        self.faults.update(outcome.counts.struck)
        if not seeded:
            self.writes[name] = outcome.counts.writes

    def crashed(self, crash: Crash) -> None:
        """One crash point was tried."""
        self.points[crash.story] += 1
        self.wrong[crash.story] += bool(crash.wrong)

    @property
    def good(self) -> bool:
        """Whether nothing was violated."""
        return not any(self.wrong.values())

    def text(self) -> str:
        """The table."""
        stories = sorted({*self.writes, *self.points, *self.seeds})
        lines = [f"{'story':24}{'writes':>8}{'crash points':>14}{'seeds':>8}{'violations':>12}"]
        for name in stories:
            lines.append(
                f"{name:24}{self.writes[name] or '':>8}{self.points[name]:>14}"
                f"{self.seeds[name]:>8}{self.wrong[name]:>12}"
            )
        totals = [sum(each.values()) for each in (self.writes, self.points, self.seeds, self.wrong)]
        lines.append(f"{'all':24}{totals[0]:>8}{totals[1]:>14}{totals[2]:>8}{totals[3]:>12}")
        lines += [f"  {fault:28}{count:>8}" for fault, count in sorted(self.faults.items())]
        return "\n".join(lines)
