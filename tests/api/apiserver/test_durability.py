"""What was acknowledged is there: after kill -9 in a storm of writes, and after the disk was full.

These run a server in a process of its own, in real time; each takes about a second.
"""

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

STORM = Path(__file__).with_name("storm.py")
pytestmark = pytest.mark.looptime(False)


def storm(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, str(STORM), str(folder), *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def acknowledged(lines: list[str]) -> dict[str, str]:
    found = (line.split() for line in lines if line.startswith("ok ") and line.endswith("\n"))
    return {words[1]: words[2] for words in found}


async def there(serving: Any, folder: Path) -> dict[str, str]:
    async with serving(folder) as api:
        items = (await api.get(api.at("configmaps"))).ok()["items"]
        written = (await api.post(api.at("configmaps"), {"metadata": {"name": "later"}})).ok()
    found = {item["metadata"]["name"]: item["metadata"]["resourceVersion"] for item in items}
    assert all(int(version) < int(written["metadata"]["resourceVersion"]) for version in found.values())
    return found


async def test_kill_9_in_a_storm_loses_nothing_acknowledged(serving: Any, tmp_path: Path) -> None:
    process = storm(tmp_path)
    assert process.stdout is not None
    try:
        lines = [process.stdout.readline() for _ in range(400)]
        process.send_signal(signal.SIGKILL)
        lines += process.stdout.readlines()
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    told = acknowledged(lines)
    assert len(told) >= 400
    found = await there(serving, tmp_path)
    assert told.items() <= found.items()


async def test_a_full_disk_refuses_writes_and_loses_nothing_acknowledged(
    serving: Any, tmp_path: Path
) -> None:
    process = storm(tmp_path, str(600_000))
    out, _ = process.communicate(timeout=30)
    lines = out.splitlines(keepends=True)
    refused = [line for line in lines if line.startswith("refused")]
    assert refused == ["refused 503\n"] * 8
    told = acknowledged(lines)
    assert told
    assert told.items() <= (await there(serving, tmp_path)).items()
