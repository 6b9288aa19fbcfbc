"""A story as text: what each controller decided and why, what the cloud did, what users did.

Theory.      The trace of one undisturbed run, without times, versions and reads. Machines and sets are
             called by the order in which they appear, and a VM by its machine. It is kept as a file and
             read in the diff of a change: a decision that is new, gone or gives another reason shows
             there. A reason to wait is printed once, until the same controller waits for another. The
             loop is an even one (``loop.SimLoop``), so that a change in one part shifts little in the others.
Called by    tests/sim/test_sim_goldens.py, which also writes the files anew.
"""

import re
from collections.abc import Iterable, Iterator

from simulation.journal import (
    MACHINE_CLASSES,
    MACHINE_DEPLOYMENTS,
    MACHINE_SETS,
    MACHINES,
)
from simulation.run import WAITS, simulate
from simulation.story import Story
from simulation.world import Plot

_MADE = re.compile(r"\bvm-\d+ of garden/(\S+) is made")
_NAME = re.compile(r"\b(?:pool|other|lonely)-[a-z0-9]{5}(?:-[a-z0-9]{5})?\b")
_VM = re.compile(r"\bvm-\d+\b")
_TAIL = re.compile(r" @\d+ [0-9a-f]+$")
_SHORT = (
    (re.compile(r"\bmachinedeployment garden/"), "deployment "),
    (re.compile(r"\b(?:machineset|machine|set) garden/(?=(?:set|machine)\d)"), ""),
    (re.compile(r"\bVM of garden/"), "VM of "),
    (re.compile(r"\bgarden/"), ""),
)
_KINDS = {
    MACHINES: "machine",
    MACHINE_SETS: "set",
    MACHINE_DEPLOYMENTS: "deployment",
    MACHINE_CLASSES: "class",
}
_CHANGED = re.compile(rf"({'|'.join(map(re.escape, _KINDS))}) (\S+) (made|gone)")
_TOLD = ("plan", "cloud", "rules", "person", "world")


def in_words(story: Story, plot: Plot | None = None) -> str:
    """The story as it went."""
    outcome = simulate(story, plot or Plot(seed=1), plans=True, even=True)
    told = _once(_worth_telling(outcome.lines))
    return "\n".join(_renamed(told, _machines(outcome.lines))) + "\n"


def _machines(lines: Iterable[str]) -> dict[str, str]:
    """The machine of each VM."""
    return {found[0].partition(" ")[0]: found[1] for line in lines if (found := _MADE.search(line))}


def _worth_telling(lines: list[str]) -> Iterator[str]:
    begun = False
    for line in lines:
        _, _, rest = line.partition(" ")
        who, _, what = rest.partition(": ")
        begun = begun or what == "the story begins"
        if not begun:
            continue
        if changed := _CHANGED.match(what):
            yield f"       {_KINDS[changed[1]]} {changed[2]} is {changed[3]}"
        elif who == "cloud":
            yield f"{who:6} the VM{_TAIL.sub('', what).partition(' ')[2].join((' ', ''))}"
        elif who in _TOLD:
            yield f"{who:6} {_TAIL.sub('', what)}"


def _once(lines: Iterable[str]) -> Iterator[str]:
    """Without repetitions: a line twice in a row, the same reason to wait."""
    before, waits = "", dict[str, str]()
    for line in lines:
        key, _, why = line.partition(": ")
        if not line.endswith(f"-> {WAITS}"):
            waits.pop(key, None)
        elif waits.get(key) == why or why.strip() == f"-> {WAITS}":
            continue
        else:
            waits[key] = why
        if line != before:
            yield line
        before = line


def _renamed(lines: Iterable[str], machines: dict[str, str]) -> Iterator[str]:
    names: dict[str, str] = {}

    def name(found: re.Match[str]) -> str:
        kind = "machine" if found[0].count("-") == 2 or found[0].startswith("lonely") else "set"
        number = sum(each.startswith(kind) for each in names.values()) + 1
        return names.setdefault(found[0], f"{kind}{number}")

    for line in lines:
        told = _NAME.sub(name, _VM.sub(lambda vm: f"vm-of-{machines[vm[0]]}", line))
        for long, short in _SHORT:
            told = long.sub(short, told)
        yield told
