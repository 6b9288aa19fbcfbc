"""A stage of cloud-init in the node image, run by a process that has waited: it ends, whatever that process does."""

import asyncio
import os
from pathlib import Path

import pytest

pytestmark = pytest.mark.looptime(False)
STAGE = Path(__file__).parents[3] / "tools" / "node_image" / "guest" / "stage"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for each in ("stages", "ended"):
        os.mkfifo(tmp_path / each)
    return tmp_path


async def stage(folder: Path, waits: str) -> tuple[int | None, str]:
    """How a stage ends whose process is a shell that does this; and what it says."""
    process = await asyncio.create_subprocess_exec("bash", "-c", waits, cwd=folder)
    (folder / "pid").write_text(f"{process.pid}\n")
    ran = await asyncio.create_subprocess_exec(
        "bash", STAGE, folder, "modules", "--mode=final", stderr=asyncio.subprocess.PIPE
    )
    async with asyncio.timeout(40):
        _, said = await ran.communicate()
        await process.wait()
    return ran.returncode, said.decode()


@pytest.mark.parametrize("code", [0, 3])
async def test_a_stage_ends_with_the_code_that_it_is_told(folder: Path, code: int) -> None:
    assert await stage(folder, f"read -r words < stages; echo $words > asked; echo {code} > ended") == (
        code,
        "",
    )
    assert (folder / "asked").read_text() == "modules --mode=final\n"


async def test_a_stage_whose_process_dies_has_failed_and_says_so(folder: Path) -> None:
    code, said = await stage(folder, "read -r words < stages; exit 9")
    assert code == 1
    assert said == (
        "the process that runs the stages of cloud-init has not said how this one ended: modules --mode=final\n"
    )


async def test_a_stage_that_is_told_its_code_by_a_process_that_ends_at_once_has_it(folder: Path) -> None:
    """As after the last stage, when the process removes its pipes and ends."""
    assert await stage(folder, "read -r words < stages; echo 4 > ended; rm stages ended") == (4, "")
