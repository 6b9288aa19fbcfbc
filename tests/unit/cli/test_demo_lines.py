"""What the demo says in words, and how it breaks lines."""

import json
import shlex
import subprocess

import pytest

from kubewright.cli.demo.machines import CHAPTERS, WORDS
from kubewright.cli.demo.stage import command, sentence
from kubewright.cli.demo.view import Row, View, happened

PATCH = next(chapter.types for chapter in CHAPTERS if " -p " in chapter.types)


def seen(**states: str) -> View:
    """Machines by name, as ``state`` or ``state class``."""
    rows = (
        Row(name, words.partition(" ")[2] or "small", words.partition(" ")[0], "")
        for name, words in states.items()
    )
    return View(tuple(rows), ready_nodes=0, nodes=0, vms=0)


@pytest.mark.parametrize(
    ("before", "after", "sentences"),
    [
        pytest.param(seen(a="Running"), seen(a="Running"), [], id="nothing"),
        pytest.param(seen(), seen(a="Pending"), ["a is Pending: its VM is being made"], id="one is new"),
        pytest.param(
            seen(),
            seen(a="Pending", b="Pending"),
            ["2 small machines are Pending: their VMs are being made"],
            id="several are new",
        ),
        pytest.param(
            seen(),
            seen(a="Running", b="Running large"),
            ["2 machines are Running: their nodes are ready"],
            id="of several classes",
        ),
        pytest.param(
            seen(a="Running", b="Running"),
            seen(b="Running"),
            ["a is gone: its VM is deleted"],
            id="one is gone",
        ),
        pytest.param(
            seen(a="Failed", b="Running"),
            seen(a="Terminating", b="Running", c="Pending"),
            ["a is Terminating: its node is drained", "c is Pending: its VM is being made"],
            id="a cause stands before what follows",
        ),
        pytest.param(seen(a="Pending"), seen(a="Odd"), ["a is Odd"], id="a state without a sentence"),
    ],
)
def test_what_happened_is_reported_once(before: View, after: View, sentences: list[str]) -> None:
    assert happened(WORDS, before, after) == sentences


@pytest.mark.parametrize("width", [40, 60, 80, 120, 200])
def test_a_long_command_fits_and_can_still_be_pasted(width: int) -> None:
    shown = command(PATCH, width)
    assert max(map(len, shown.splitlines())) <= width
    pasted = shown.removeprefix("     $ ")
    script = f"show() {{ printf '%s\\0' \"$@\"; }}; show {pasted}"
    words = subprocess.run(["/bin/sh", "-c", script], capture_output=True, text=True, check=True).stdout
    *before, patch = words.rstrip("\0").split("\0")
    assert before == shlex.split(PATCH)[:-1]
    assert json.loads(patch) == json.loads(shlex.split(PATCH)[-1])


def test_a_command_breaks_between_its_words_before_it_breaks_inside_of_quotes() -> None:
    first, second = command(PATCH, 100).splitlines()
    assert first.endswith("--type merge \\")
    assert second.lstrip().startswith("-p ")


def test_in_a_pipe_nothing_is_broken() -> None:
    assert command(PATCH, None) == f"     $ {PATCH}"
    assert sentence("one two " * 40, None, first="x ") == "x " + "one two " * 40


def test_a_sentence_hangs_under_its_beginning_and_no_word_is_cut() -> None:
    shown = sentence("workers-84f8c-bx558 is Running: its node is ready", 40, first=" 1.0 s ", hang=7)
    assert shown.splitlines() == [" 1.0 s workers-84f8c-bx558 is Running:", "       its node is ready"]
