"""``python -m simulation``: crash points, seeds, replays, from the command line.

--seeds 1000             random worlds on all cores, shrunk where they fail
--crashes                every crash point of every story, in all rounds
--scale 20000            so many machines made, rolled and deleted on virtual time
--story roll --seed 7    one run with its trace; with the other options as a failure's replay says
--story roll --seeds 300  only worlds of this story; as well with --crashes
--clusters --seeds 100   worlds of whole clusters; --story has their stories too
--planes --seeds 100     worlds of nested control planes; so too

Exit status: 0 when nothing was violated, 1 when something was, 2 for wrong arguments, 130 for Ctrl-C.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

from kubewright.base.clock import SystemClock
from kubewright.base.errors import InvalidInput
from simulation.campaign import Campaign, crash_tries, run_scale, seed_tries
from simulation.crashes import judged
from simulation.farm import Farm, TooManyLost, cores
from simulation.library import (
    CONTROL_PLANES,
    MACHINES,
    WHOLE_CLUSTERS,
    story_named,
)
from simulation.report import Effort, Progress
from simulation.run import simulate
from simulation.schedule import CALM, parse
from simulation.search import FLAGS, flag
from simulation.story import Story
from simulation.world import Plot

INTERRUPTED = 130
"""What a shell expects of a program that Ctrl-C ended."""
INTERRUPTION = "interrupted: the table shows what was done until then"


def main(arguments: Sequence[str]) -> int:
    """Do what was asked; 1 when anything was violated."""
    parser = _parser()
    asked = parser.parse_args(arguments)
    try:
        if asked.scale:
            return _scale(asked.scale, asked.seed)
        stories = _stories(asked)
        if asked.crashes or asked.seeds > 0:
            return _many(asked, stories)
        if asked.story:
            return _one(asked, *stories)
        parser.error("say what to run: --seeds, --crashes, --scale or --story")
    except (InvalidInput, OSError) as error:
        say(str(error))
        return 2
    except KeyboardInterrupt:
        say("interrupted")
        return INTERRUPTED


def _many(asked: argparse.Namespace, stories: tuple[Story, ...]) -> int:
    if asked.json and not asked.json.parent.is_dir():
        raise InvalidInput(f"--json {asked.json}: there is no folder {asked.json.parent}")
    clock, progress = SystemClock(), Progress(sys.stderr)
    began = clock.now()
    try:
        with Farm(asked.jobs) as farm:
            campaign = Campaign(farm, say, progress)
            ended_early = _try_all(campaign, asked, stories)
    finally:
        progress.clear()
    effort = Effort((clock.now() - began).total_seconds(), farm.jobs)
    say("\n".join(campaign.table.lines(effort)))
    if asked.json:
        asked.json.write_text(json.dumps(campaign.table.as_json(effort), indent=2) + "\n")
    if ended_early:
        say(ended_early)
    return INTERRUPTED if ended_early == INTERRUPTION else int(bool(ended_early) or not campaign.table.good)


def _try_all(campaign: Campaign, asked: argparse.Namespace, stories: tuple[Story, ...]) -> str:
    """Returns why not all was tried; nothing when all was."""
    try:
        calms = campaign.undisturbed(asked.seed, stories) if asked.crashes else []
        crashes = list(crash_tries(calms, every=asked.every))[:: asked.one_in]
        seeds = range(asked.seed, asked.seed + asked.seeds)
        for _ in campaign.run(chain(crashes, seed_tries(seeds, stories)), len(crashes) + len(seeds)):
            pass
    except TooManyLost as error:
        return str(error)
    except KeyboardInterrupt:
        return INTERRUPTION
    return ""


def _stories(asked: argparse.Namespace) -> tuple[Story, ...]:
    stories = CONTROL_PLANES if asked.planes else WHOLE_CLUSTERS if asked.clusters else MACHINES
    if asked.story:
        stories = (story_named(asked.story),)
    return stories


def _one(asked: argparse.Namespace, story: Story) -> int:
    schedule = parse(asked.faults) if asked.faults else CALM
    plot = Plot(asked.seed, schedule, **{name: getattr(asked, name) for name in FLAGS})
    outcome = simulate(story, plot, quiet=asked.quiet, plans=asked.plans)
    if plot.kill_after and not schedule.faults:
        outcome = judged(outcome, simulate(story, Plot(asked.seed)).picture)
    say("\n".join(outcome.lines))
    say(f"trace {outcome.digest}, {outcome.counts.writes} writes, {outcome.seconds:.1f} s")
    say("\n".join(outcome.violations) or "nothing was violated")
    return 0 if outcome.good else 1


def _scale(machines: int, seed: int) -> int:
    wrong = run_scale(machines, seed, say)
    say("\n".join(wrong) or "nothing was violated")
    return 1 if wrong else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m simulation",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    many = parser.add_argument_group("many worlds")
    many.add_argument("--seeds", type=int, default=0, help="how many random worlds")
    many.add_argument("--clusters", action="store_true", help="of the stories of whole clusters")
    many.add_argument("--planes", action="store_true", help="of the stories of nested control planes")
    many.add_argument("--crashes", action="store_true", help="disturb every story at every write")
    many.add_argument("--every", type=_positive, help="at each n-th point; 1: at every one (half an hour)")
    many.add_argument("--one-in", type=_positive, default=1, help="of the points of all stories, each n-th")
    many.add_argument("--jobs", type=_positive, default=cores(), help="how many at a time (all cores)")
    many.add_argument("--json", type=Path, help="write the table into this file too")
    many.add_argument("--scale", type=int, default=0, help="so many machines on virtual time")
    one = parser.add_argument_group("one world")
    one.add_argument("--story", default="", help="its story; of many worlds, the only one")
    one.add_argument("--seed", type=int, default=0, help="its seed; of many worlds, the first one")
    one.add_argument("--faults", default="", help="what goes wrong, as a replay says")
    one.add_argument(
        "--quiet", type=float, default=0.0, help="after its end no manager may write for so long"
    )
    one.add_argument("--plans", action="store_true", help="print what was decided, and why")
    for name, meaning in FLAGS.items():
        kind = {"action": "store_true"} if getattr(Plot(), name) is False else {"type": int, "default": 0}
        one.add_argument(flag(name), help=meaning, **kind)
    return parser


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is less than 1")
    return number


def say(text: str) -> None:
    """A line for people."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
