"""``python -m kubewright.testing.simulation``: crash points, seeds, replays, from the command line.

--seeds 1000             random worlds, shrunk where they fail, and a table of what was tried
--crashes                every crash point of every story
--scale 20000            so many machines made, rolled and deleted on virtual time
--story roll --seed 7    one run; with --faults and --kill-after as a failure's replay says
"""

import argparse
import resource
import sys
from collections.abc import Sequence

from kubewright.base.clock import SystemClock
from kubewright.base.errors import InvalidInput
from kubewright.testing.simulation.crashes import crash_points, undisturbed
from kubewright.testing.simulation.report import Table
from kubewright.testing.simulation.run import Outcome, simulate
from kubewright.testing.simulation.scale import run_scale
from kubewright.testing.simulation.schedule import CALM, parse
from kubewright.testing.simulation.search import plot_of, replay, shrink
from kubewright.testing.simulation.stories import BY_NAME, STORIES
from kubewright.testing.simulation.world import Plot


def main(arguments: Sequence[str]) -> int:
    """Do what was asked; 1 when anything was violated."""
    asked = _parser().parse_args(arguments)
    table = Table()
    try:
        if asked.story:
            return _one(asked)
        if asked.scale:
            return _scale(asked.scale, asked.seed)
        if asked.crashes:
            _crashes(table, asked)
        if asked.seeds:
            _seeds(table, range(asked.seed, asked.seed + asked.seeds))
    except InvalidInput as error:
        say(str(error))
        return 2
    say(table.text())
    return 0 if table.good else 1


def _one(asked: argparse.Namespace) -> int:
    if asked.story not in BY_NAME:
        raise InvalidInput(f"no story {asked.story!r}; there are {', '.join(BY_NAME)}")
    schedule = parse(asked.faults) if asked.faults else CALM
    outcome = simulate(BY_NAME[asked.story], Plot(asked.seed, schedule, asked.kill_after, asked.elect))
    say("\n".join(outcome.lines))
    say(f"trace {outcome.digest}, {outcome.counts.writes} writes, {outcome.seconds:.1f} s")
    say("\n".join(outcome.violations) or "nothing was violated")
    return 0 if outcome.good else 1


def _scale(machines: int, seed: int) -> int:
    began = SystemClock().now()
    wrong = run_scale(machines, seed, lambda act: say(f"{machines} machines: {act}"))
    took = (SystemClock().now() - began).total_seconds()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    say(f"{took:.0f} s of real time, {peak:.0f} MiB at most")
    say("\n".join(wrong) or "nothing was violated")
    return 1 if wrong else 0


def _crashes(table: Table, asked: argparse.Namespace) -> None:
    for story in STORIES:
        calm = undisturbed(story, asked.seed)
        _complain(calm)
        table.ran(calm)
        for crash in crash_points(story, calm, every=asked.every, stale=asked.stale):
            table.crashed(crash)
            for wrong in crash.wrong:
                say(f"{story.name} killed after write {crash.point}: {wrong}")


def _seeds(table: Table, seeds: range) -> None:
    for seed in seeds:
        outcome = simulate(*plot_of(seed))
        table.ran(outcome, seeded=True)
        if not outcome.good:
            _complain(shrink(outcome))


def _complain(outcome: Outcome) -> None:
    if not outcome.good:
        say("\n".join(("", *outcome.violations, f"  {replay(outcome)}")))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m kubewright.testing.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=0, help="how many random worlds")
    parser.add_argument("--seed", type=int, default=0, help="the first seed, or that of the one run")
    parser.add_argument("--crashes", action="store_true", help="kill after every write of every story")
    parser.add_argument("--every", type=int, default=1, help="kill only after each n-th write")
    parser.add_argument("--stale", type=int, default=0, help="then first see the world so many writes ago")
    parser.add_argument("--scale", type=int, default=0, help="so many machines on virtual time")
    parser.add_argument("--story", default="", help="one run of this story")
    parser.add_argument("--faults", default="", help="its faults, as a replay says")
    parser.add_argument("--elect", action="store_true", help="two managers that elect a leader")
    parser.add_argument("--kill-after", type=int, default=0, help="kill the manager after this write")
    return parser


def say(text: str) -> None:
    """A line for people."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
