"""A story in words: who decided what and why, what the cloud did, what people did.

Theory.      The trace of one undisturbed run, without times, versions and reads; machines are called by
             the order in which they appear. It is kept as a file and read in the diff of a change: a
             decision that is new, gone or gives another reason shows there.
Called by    tests/sim/test_sim_goldens.py, which also writes the files anew.
"""

import re
from collections.abc import Iterator

from kubewright.testing.simulation.journal import MACHINE_SETS, MACHINES
from kubewright.testing.simulation.run import simulate
from kubewright.testing.simulation.stories import Story
from kubewright.testing.simulation.world import Plot

_NAME = re.compile(r"\b(?:pool|lonely)-[a-z0-9]{5}(?:-[a-z0-9]{5})?\b")
_VM = re.compile(r"\bvm-\d+\b")
_TAIL = re.compile(r" @\d+ [0-9a-f]+$")
_TOLD = ("plan", "cloud", "judge", "person")


def in_words(story: Story, plot: Plot | None = None) -> str:
    """The story as it went."""
    outcome = simulate(story, plot or Plot(seed=1), plans=True)
    names: dict[str, str] = {}
    lines = [_renamed(line, names) for line in _worth_telling(outcome.lines)]
    return "\n".join(_once(lines)) + "\n"


def _worth_telling(lines: list[str]) -> Iterator[str]:
    begun = False
    for line in lines:
        _, _, rest = line.partition(" ")
        who, _, what = rest.partition(": ")
        if what == "the story begins":
            begun = True
        if not begun:
            continue
        made = re.match(rf"({re.escape(MACHINES)}|{re.escape(MACHINE_SETS)}) (\S+) (made|gone)", what)
        if made:
            yield f"       {'machine' if made[1] == MACHINES else 'set'} {made[2]} is {made[3]}"
        elif who in _TOLD or who == "fate":
            yield f"{who:6} {_TAIL.sub('', what)}"


def _renamed(line: str, names: dict[str, str]) -> str:
    def name(found: re.Match[str]) -> str:
        kind = "vm" if found[0].startswith("vm-") else "machine" if found[0].count("-") == 2 else "set"
        number = sum(each.startswith(kind) for each in names.values()) + 1
        return names.setdefault(found[0], f"{kind}{number}")

    return _VM.sub(name, _NAME.sub(name, line))


def _once(lines: list[str]) -> Iterator[str]:
    """Without repetitions in a row."""
    before = ""
    for line in lines:
        if line != before:
            yield line
        before = line
