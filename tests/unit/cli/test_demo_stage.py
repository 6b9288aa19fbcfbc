"""How the demo looks: on a wide and on a narrow terminal, in a pipe, and when the reader leaves."""

import io
import re

import pytest
from rich.console import Console

from kubewright.api.machine.v1alpha1 import Machine
from kubewright.api.meta import ObjectMeta
from kubewright.cli.demo.machines import WORDS, view
from kubewright.cli.demo.stage import Stage
from kubewright.cli.demo.view import Row, View

ROW = Row("workers-84f8c-bx558", "sim-small", "Running", "workers-84f8c-bx558")
ONE = View((ROW,), ready_nodes=1, nodes=1, vms=1)
NONE = View((), ready_nodes=0, nodes=0, vms=0)


def shown(width: int, *, terminal: bool, now: View = ONE) -> str:
    screen = io.StringIO()
    console = Console(file=screen, width=width, force_terminal=terminal, no_color=True, highlight=False)
    with Stage(WORDS, 1, console) as stage:
        stage.open("One comes up", "kubectl apply -f workers.yaml")
        stage.show(now, 0.5)
        stage.close(0.7, "at most 1 machine")
    stage.summary(now)
    return screen.getvalue()


def test_a_pipe_gets_plain_lines_of_any_length() -> None:
    text = shown(40, terminal=False)
    assert "       0.5 s  machines: 1 Running; nodes: 1 of 1 ready; VMs: 1\n" in text
    assert "     done in 0.7 s: at most 1 machine\n" in text
    assert "\x1b" not in text


@pytest.mark.parametrize(
    ("width", "columns"),
    [
        pytest.param(100, ["machine", "state", "class", "node"], id="wide"),
        pytest.param(40, ["machine", "state"], id="narrow"),
    ],
)
def test_no_name_is_cut_where_the_terminal_has_forty_columns(width: int, columns: list[str]) -> None:
    text = shown(width, terminal=True)
    assert "…" not in text
    assert ROW.name in text
    assert all(column in text for column in columns)
    assert (ROW.sort in text) is ("class" in columns)


def test_on_eighty_columns_long_names_are_shortened_and_states_and_numbers_are_whole() -> None:
    name = f"{'pool-' * 11}7957885594-hhb5g"
    rows = tuple(Row(f"{name}{n:03}", "sim-small", "InPlaceUpdateSuccessful", "node") for n in range(60))
    text = shown(80, terminal=True, now=View(rows, ready_nodes=12345, nodes=12345, vms=12345))
    assert "InPlaceUpdateSuccessful" in text
    assert "hhb5g000" in text
    assert re.search(r"\d+ more machines; nodes: 12345 of 12345 ready; VMs: 12345", text)
    rows = re.split(r"[\r\n]+", re.sub(r"\x1b\[[^a-zA-Z]*[a-zA-Z]", "", text))
    assert max(map(len, rows)) <= 80


def test_the_end_says_what_is_left() -> None:
    assert "\nNothing is left." in shown(80, terminal=False, now=NONE)
    assert "\nLeft: machines: 1 Running; nodes: 1 of 1 ready; VMs: 1." in shown(80, terminal=False)


def test_a_closed_pipe_ends_the_demo_not_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    class Closed(io.StringIO):
        def write(self, _text: str) -> int:
            raise BrokenPipeError

    monkeypatch.setattr("sys.stdout", Closed())
    with pytest.raises(BrokenPipeError):
        Stage(WORDS, 1).open("One comes up", "kubectl")


def test_a_machine_that_says_nothing_yet_is_shown_as_kubectl_shows_it_when_that_lasts() -> None:
    assert [row.state for row in view([Machine(metadata=ObjectMeta(name="m1"))], [], 0).rows] == ["Pending"]


def test_a_chapter_begins_without_the_table_of_the_one_before() -> None:
    screen = io.StringIO()
    console = Console(file=screen, width=80, force_terminal=True, no_color=True, highlight=False)
    with Stage(WORDS, 2, console) as stage:
        stage.open("One comes up", "kubectl apply -f workers.yaml")
        stage.show(ONE, 7.7)
        stage.close(7.7)
        screen.truncate(0)
        stage.open("It goes", "kubectl delete machinedeployment workers")
        stage.show(ONE, 0.0)
    drawn = screen.getvalue()
    assert "7.7 s" not in drawn
    assert drawn.index("2/2  It goes") < drawn.index(ROW.name)


def test_what_happened_in_a_chapter_stays_when_its_table_is_gone() -> None:
    text = shown(80, terminal=True)
    end = text.rpartition("\x1b[2K")[2]  # after the last line that was erased
    assert "done" in end
    assert "       0.5 s  workers-84f8c-bx558 is Running: its node is ready\n" in text
    assert "       0.5 s  machines: 1 Running; nodes: 1 of 1 ready; VMs: 1\n" in end


def test_a_dumb_terminal_gets_what_a_pipe_gets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    dumb, pipe = shown(200, terminal=True), shown(200, terminal=False)
    assert dumb.split() == pipe.split()  # its lines are broken
    assert "\x1b" not in dumb
    assert ROW.name in dumb


def test_the_first_sentence_says_what_a_machine_a_vm_and_a_node_are() -> None:
    first = shown(80, terminal=False).splitlines()[0]
    assert first.count(". ") == 0
    assert all(word in first for word in ("A machine is", "the VM", "a node"))


@pytest.mark.parametrize("width", [40, 60, 80])
def test_no_line_is_longer_than_the_terminal(width: int) -> None:
    lines = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown(width, terminal=True)).replace("\r", "\n").split("\n")
    assert max(map(len, lines)) <= width
