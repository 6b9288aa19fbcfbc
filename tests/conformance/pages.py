"""The console blocks of a how-to page, typed into a shell by a test, so that each line of the page is tried.

Called by ``test_from_mcm`` and ``test_installing``.
"""

import asyncio
import re
import subprocess
from pathlib import Path

SECONDS = 60.0
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
