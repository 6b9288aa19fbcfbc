"""docs/tutorial/machines-step-by-step.md, line by line with a kubectl: what is printed is what the page shows."""

import asyncio
import re
from pathlib import Path

import pytest
from tests.conformance.pages import blocks, terminals

from kubewright.testing.kubectl import NoKubectl, find_kubectl

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "tutorial" / "machines-step-by-step.md").read_text()
DRAWN = re.compile(r"(?<=test-machine-set)-\w{5}\b|(?<=test-machine-deployment)(-\w{5}){1,2}\b")
AGE = re.compile(r"\b(\d+m)?\d+s\b|\b\d+m\b")
ON_STDERR = re.compile(r"server: .*")

pytestmark = [pytest.mark.kubectl, pytest.mark.looptime(False)]


def lines(text: str) -> list[str]:
    """What was printed, without what differs from run to run: drawn names, ages, the width of columns."""
    alike = [" ".join(AGE.sub("AGE", DRAWN.sub("-DRAWN", line)).split()) for line in text.splitlines()]
    return [line for line in alike if not ON_STDERR.fullmatch(line)]


def steps(block: str) -> list[tuple[str, list[str]]]:
    """The lines of a block that are typed, each with what the page shows after it."""
    found: list[tuple[str, list[str]]] = []
    for line in block.splitlines():
        if line.startswith("$ "):
            found.append((line.removeprefix("$ "), []))
        else:
            found[-1][1].append(line)
    return found


def shows(printed: list[str], page: list[str]) -> bool:
    """Whether the page shows what was printed; ``...`` stands for any number of lines."""
    if page[:1] == ["..."]:
        return len(page) == 1 or printed[-len(page) + 1 :] == page[1:]
    return printed == page


@pytest.mark.kube  # for its minute, not for a real API server
@pytest.mark.timeout(300)
async def test_every_line_of_the_tutorial_of_machines_prints_what_it_shows(tmp_path: Path) -> None:
    try:
        kubectl = find_kubectl()
    except NoKubectl as error:
        pytest.skip(str(error))
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    (tmp_path / "dev").symlink_to(tmp_path / ".kubewright")
    async with asyncio.timeout(280), terminals(tmp_path, kubectl) as here:
        for block in blocks(PAGE, "console"):
            for line, page in steps(block):
                printed = lines(await here.types(line))
                assert shows(printed, lines("\n".join(page))), (line, printed)
