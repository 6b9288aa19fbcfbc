"""VMs on a bridge, in a network namespace of the test's own: nothing of this machine's network is changed."""

import asyncio
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import REAL

pytestmark = [pytest.mark.looptime(False), REAL]

SCRIPT = """
import asyncio, json, subprocess, sys
from pathlib import Path
from tests.api.qemu.bench import opened

def links():
    said = json.loads(subprocess.run(["ip", "-json", "link"], check=True, capture_output=True).stdout)
    return {each["ifname"]: each.get("master", "") for each in said if each["ifname"] != "lo"}

async def main():
    async with opened(Path(sys.argv[1]), "", network="bridge", bridge="kwtest") as bench:
        made = [await bench.made.create(bench.request(name)) for name in ("m1", "m2")]
        there = links()
        for each in there:
            subprocess.run(["ip", "link", "set", each, "nomaster"], check=True)  # as after a start that was cut off
        driver = await bench.restarted()
        found = await driver.list(bench.machine_class)
        joined = links()
        await driver.delete(bench.request("m1"))
        again = await driver.create(bench.request("m3"))
        await driver.delete(bench.request("m2"))
        await driver.delete(bench.request("m3"))
        print(json.dumps({
            "addresses": [dict(each.addresses)["InternalIP"] for each in made],
            "found": sorted(dict(each.addresses)["InternalIP"] for each in found),
            "again": dict(again.addresses)["InternalIP"],
            "masters": [sorted(there.values()), sorted(joined.values())],
            "left": links(),
        }))

asyncio.run(main())
"""


def may_unshare() -> bool:
    if shutil.which("unshare") is None or shutil.which("ip") is None:
        return False
    return subprocess.run(["unshare", "-rn", "true"], capture_output=True, check=False).returncode == 0


@pytest.mark.skipif(not may_unshare(), reason="no network namespaces of one's own here")
async def test_vms_have_addresses_on_a_bridge_and_leave_no_end_of_it_behind(tmp_path: Path) -> None:
    root = Path(__file__).parents[3]
    process = await asyncio.create_subprocess_exec(
        *("unshare", "-rn", sys.executable, "-c", SCRIPT, str(tmp_path)),
        cwd=root,
        env={"PYTHONPATH": str(root), "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(50):
        said, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()
    assert json.loads(said.splitlines()[-1]) == {
        "addresses": ["10.99.0.2", "10.99.0.3"],
        "found": ["10.99.0.2", "10.99.0.3"],
        "again": "10.99.0.2",
        "masters": [["", "kwtest", "kwtest"]] * 2,
        "left": {"kwtest": ""},
    }
