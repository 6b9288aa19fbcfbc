"""The console blocks of a page, typed into shells by a test, so that each line of the page is tried.

Called by ``test_from_mcm``, ``test_installing``, ``test_driver_pages`` and ``test_tutorial``.
"""

import asyncio
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

SECONDS = 60.0
OURS = Path(sys.executable).parent
SERVES = re.compile(r"kubewright (up|run) ")
"""Lines that run until Ctrl-C: in the page a terminal each."""
LATER = re.compile(r"\w+=\S+$|\w+\(\) \{.*\}$")
"""Lines that later blocks need: variables and functions."""


def blocks(text: str, language: str) -> list[str]:
    """What stands in the fences of one language."""
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


class Shell:
    """A user's shell in ``folder``: variables and functions of one block are there in the next.

    ``kubectl`` is the user's program; the user's kubeconfig is where kubectl looks for it.
    """

    def __init__(self, folder: Path, kubectl: Path, kubeconfig: Path, text: str) -> None:
        self._folder, self._typed = folder, ""
        for link, file in ((folder / "bin" / "kubectl", kubectl), (folder / ".kube" / "config", kubeconfig)):
            link.parent.mkdir(exist_ok=True)
            link.symlink_to(file)
        self._blocks = iter(blocks(text, "console"))

    async def types_the_next_block(self) -> str:
        """What its lines print; each of them must succeed."""
        lines = [line.removeprefix("$ ") for line in next(self._blocks).splitlines()]
        script = "\n".join([self._typed, *lines])
        done = await asyncio.to_thread(self._run, script)
        assert done.returncode == 0, f"{script}\n{done.stdout}{done.stderr}"
        self._typed = "\n".join([self._typed, *(line for line in lines if LATER.match(line))])
        return done.stdout

    def is_at_the_end(self) -> bool:
        return next(self._blocks, None) is None

    def _run(self, script: str) -> subprocess.CompletedProcess[str]:
        environ = {"PATH": f"{self._folder / 'bin'}:/usr/bin:/bin", "HOME": str(self._folder)}
        return subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
            cwd=self._folder,
            env=environ,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )


class Terminals:
    """A folder with our virtual environment and kubectl, and all that was started in it."""

    def __init__(self, folder: Path, kubectl: Path) -> None:
        self.folder = folder
        (folder / ".venv").symlink_to(OURS.parent)
        (folder / "bin").mkdir()
        (folder / "bin" / "kubectl").symlink_to(kubectl)
        self._environ = {
            "PATH": f"{folder / 'bin'}:/usr/bin:/bin",
            "HOME": str(folder),
            "KUBECONFIG": str(folder / "dev" / "kubeconfig"),
            "PYTHONPATH": str(folder / "installed"),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        self._running: list[asyncio.subprocess.Process] = []

    async def types(self, line: str) -> str:
        """What a line prints; it must succeed. One that serves is left running once it has said something."""
        line = line.replace(
            "pip install --editable",
            "python -m pip install -q --no-index --no-deps --no-build-isolation --target installed",
        )  # our environment is not the test's to change
        pipe = subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            *("bash", "-c", f"exec {line}" if SERVES.search(line) else line),
            cwd=self.folder,
            env=self._environ,
            stdout=pipe,
            stderr=subprocess.STDOUT,
        )
        assert process.stdout is not None
        if SERVES.search(line):
            self._running.append(process)
            return (await process.stdout.readline()).decode()
        out, _ = await process.communicate()
        assert process.returncode == 0, f"{line}\n{out.decode()}"
        return out.decode()

    async def close(self) -> None:
        for process in reversed(self._running):
            with suppress(ProcessLookupError):  # a line of the page has ended it
                process.terminate()
            await process.communicate()


@asynccontextmanager
async def terminals(folder: Path, kubectl: Path) -> AsyncIterator[Terminals]:
    found = Terminals(folder, kubectl)
    try:
        yield found
    finally:
        await found.close()
