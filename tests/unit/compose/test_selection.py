"""Which controllers run, by the words of --controllers."""

import pytest

from kubewright.base.errors import InvalidInput
from kubewright.compose.worlds import select

KNOWN = ("deployment", "set", "machine")

CASES = [
    pytest.param(["*"], KNOWN, id="a star is everything"),
    pytest.param([], KNOWN, id="nothing said is everything"),
    pytest.param(["machine", "set"], ("set", "machine"), id="names choose, in the order that is known"),
    pytest.param(["-set"], ("deployment", "machine"), id="a minus alone leaves the others"),
    pytest.param(["*", "-set"], ("deployment", "machine"), id="all but one"),
    pytest.param([" machine ", ""], ("machine",), id="blanks do not count"),
]
GROUPS = {"old": KNOWN, "new": ("cluster", "node")}
GROUPED = [
    pytest.param(["*"], KNOWN, id="a star leaves out what must be named"),
    pytest.param([], KNOWN, id="nothing said does too"),
    pytest.param(["*", "new"], (*KNOWN, "cluster", "node"), id="a group is added by its name"),
    pytest.param(["new"], ("cluster", "node"), id="a group alone"),
    pytest.param(["*", "node"], (*KNOWN, "node"), id="one of a group"),
    pytest.param(["*", "new", "-node"], (*KNOWN, "cluster"), id="a group but one"),
    pytest.param(["*", "new", "-node"], (*KNOWN, "cluster"), id="a group but one"),
    pytest.param(["node", "-new"], ("node",), id="one of a group that is off"),
    pytest.param(["*", "-old", "cluster"], ("cluster",), id="all of a group off"),
]
WRONG = [
    pytest.param(
        ["tractor"], "unknown controller tractor; there are: deployment, set, machine", id="unknown"
    ),
    pytest.param(["set", "-set"], "set is switched both on and off", id="on and off"),
    pytest.param(["-set", "-machine", "-deployment"], "no controller is left to run", id="none left"),
]


@pytest.mark.parametrize(("asked", "chosen"), CASES)
def test_names_choose_controllers(asked: list[str], chosen: tuple[str, ...]) -> None:
    assert select(KNOWN, asked) == chosen


@pytest.mark.parametrize(("asked", "sentence"), WRONG)
def test_unknown_or_contradicting_names_are_refused(asked: list[str], sentence: str) -> None:
    with pytest.raises(InvalidInput, match=sentence):
        select(KNOWN, asked)


@pytest.mark.parametrize(("asked", "chosen"), GROUPED)
def test_names_of_groups_choose_all_of_theirs(asked: list[str], chosen: tuple[str, ...]) -> None:
    known = (*KNOWN, "cluster", "node")
    assert select(known, asked, groups=GROUPS, on_request={"cluster", "node"}) == chosen
