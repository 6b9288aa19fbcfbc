"""VMs on a bridge, in a network namespace of the test's own: nothing of this machine's network is changed."""

import asyncio
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kubewright.driver.errors import Code, DriverError

from . import fake_programs
from .bench import opened
from .conftest import REAL

pytestmark = pytest.mark.looptime(False)

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


NAMESPACES = pytest.mark.skipif(not may_unshare(), reason="no network namespaces of one's own here")


async def ran(script: str, *arguments: str) -> dict[str, object]:
    """What a script says last, in a namespace of its own."""
    root = Path(__file__).parents[3]
    process = await asyncio.create_subprocess_exec(
        *("unshare", "-rn", sys.executable, "-c", script, *arguments),
        cwd=root,
        env={"PYTHONPATH": str(root), "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(50):
        said, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()
    (line,) = [each for each in said.splitlines() if each.startswith(b"{")]  # beside what is logged
    found: dict[str, object] = json.loads(line)
    return found


@REAL
@NAMESPACES
async def test_vms_have_addresses_on_a_bridge_and_leave_no_end_of_it_behind(tmp_path: Path) -> None:
    assert await ran(SCRIPT, str(tmp_path)) == {
        "addresses": ["10.99.0.2", "10.99.0.3"],
        "found": ["10.99.0.2", "10.99.0.3"],
        "again": "10.99.0.2",
        "masters": [["", "kwtest", "kwtest"]] * 2,
        "left": {"kwtest": ""},
    }


TWO = """
import asyncio, json, subprocess, sys
from pathlib import Path
from kubewright.driver.errors import DriverError
from tests.api.qemu.bench import opened

async def tried(bench):
    try:
        return dict((await bench.made.create(bench.request("m1"))).addresses)["InternalIP"]
    except DriverError as error:
        return f"{error.code.name}: {error.message}"

async def main():
    one, two = Path(sys.argv[1], "one"), Path(sys.argv[1], "two")
    one.mkdir(), two.mkdir()
    options = {"network": "bridge", "bridge": "kwtest"}
    async with opened(one, sys.argv[2], **options) as first, opened(two, sys.argv[2], **options) as second:
        said = [await tried(first), await tried(second)]
        await first.restarted()
        said.append(await tried(first))
        await first.made.delete(first.request("m1"))
        said += [await tried(second), await tried(first)]
    print(json.dumps({"said": said}))

asyncio.run(main())
"""


@NAMESPACES
async def test_a_second_kubewright_gives_out_no_address_on_a_bridge_with_vms_of_another(
    tmp_path: Path,
) -> None:
    (programs := tmp_path / "programs").mkdir()
    fake_programs.install(programs)
    said = (await ran(TWO, str(tmp_path), str(programs)))["said"]
    assert isinstance(said, list)
    assert [said[0], said[2], said[3]] == ["10.99.0.2"] * 3
    for refused, folder in ((said[1], "one"), (said[4], "two")):
        assert refused.startswith("FailedPrecondition: on bridge kwtest are VMs of another Kubewright")
        assert f"{tmp_path}/{folder}/qemu" in refused


ENDPOINT = """
import asyncio, json, ssl, subprocess, sys
from datetime import timedelta
from pathlib import Path
from msgspec import structs
from kubewright.base.clock import SystemClock
from kubewright.driver.contract import ClassRequest
from kubewright.pki.certificates import new_authority, new_server
from kubewright.pki.tls import unchecked
from tests.api.qemu.bench import opened

CLOCK, FOLDER = SystemClock(), Path(sys.argv[1])

def ip(*arguments):
    return subprocess.run(["ip", *arguments], check=True, capture_output=True).stdout

def links():
    return {each["ifname"]: each.get("master", "") for each in json.loads(ip("-json", "link"))
            if each["ifname"] != "lo"}

def on_bridge():
    found = json.loads(ip("-json", "addr", "show", "dev", "kwtest"))
    return [each["local"] for each in found[0]["addr_info"] if each["family"] == "inet"]

class ApiServer:
    "It answers each request with its name, at the address of a VM."

    def __init__(self, instance, name):
        self.name, self.address = name, dict(instance.addresses)["InternalIP"]

    async def open(self):
        now, day = CLOCK.now(), timedelta(days=1)
        own = new_server(new_authority("any", now, day), [self.address], now, day)
        (FOLDER / "pem").write_bytes(own.certificate + own.key)
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        tls.load_cert_chain(FOLDER / "pem")
        ip("addr", "replace", self.address + "/32", "dev", "lo")
        self.writers = []
        self.server = await asyncio.start_server(self.talk, self.address, 6443, ssl=tls)
        return self

    async def talk(self, reader, writer):
        self.writers.append(writer)
        try:
            while await reader.readuntil(b"\\r\\n\\r\\n"):
                head = f"HTTP/1.1 200 OK\\r\\nContent-Length: {len(self.name)}\\r\\n\\r\\n"
                writer.write((head + self.name).encode())
        except (OSError, asyncio.IncompleteReadError):
            writer.transport.abort()

    def close(self):
        self.server.close()
        for each in self.writers:
            each.transport.abort()

async def asked(endpoint):
    "Which API server answers; empty: none."
    try:
        async with asyncio.timeout(5):
            reader, writer = await asyncio.open_connection(*endpoint, ssl=unchecked())
            writer.write(b"GET / HTTP/1.1\\r\\n\\r\\n")
            head = await reader.readuntil(b"\\r\\n\\r\\n")
            name = (await reader.readexactly(int(head.split(b"Content-Length: ")[1].split()[0]))).decode()
            writer.transport.abort()
            return name
    except (OSError, EOFError):
        return ""

async def answers(endpoint, *names):
    "Ask until ten answers in a row are these."
    async with asyncio.timeout(20):
        while True:
            found = {await asked(endpoint) for _ in range(10)}
            if found == set(names):
                return sorted(found)
            await CLOCK.sleep(0.05)

async def main():
    async with opened(FOLDER, sys.argv[2], network="bridge", bridge="kwtest") as bench:
        cluster = structs.replace(bench.machine_class.machine_class.metadata, uid="KubewrightCluster.1")
        of = ClassRequest(structs.replace(bench.machine_class.machine_class, metadata=cluster))
        other = structs.replace(cluster, uid="KubewrightCluster.2")
        another = ClassRequest(structs.replace(bench.machine_class.machine_class, metadata=other))
        said = {}
        try:
            endpoint = await bench.made.endpoint(of)
            said["endpoint"] = [list(endpoint), list(await bench.made.endpoint(of))]
            made = [await bench.made.create(bench.request(name, of, control_plane=name != "w"))
                    for name in ("a", "b", "w")]
            servers = [await ApiServer(*each).open() for each in zip(made, "abw")]
            said["both"] = await answers(endpoint, "a", "b")
            servers[0].close()
            said["one has ended"] = await answers(endpoint, "b")
            await bench.made.close()
            said["no driver runs"] = await asked(endpoint)
            (record,) = (FOLDER / "qemu/vms").glob("b-*/vm.json")
            kept = record.read_bytes()
            record.write_bytes(kept[:-1])
            driver = await bench.restarted()
            said["restarted"] = list(await driver.endpoint(of))
            (behind,) = (FOLDER / "qemu/endpoints").glob("*/instances")
            said["a record is cut off"] = servers[1].address in behind.read_text().split()
            record.write_bytes(kept)
            said["of another"] = list(await driver.endpoint(another))
            ip("link", "del", "kwtest")
            await bench.tended()
            said["masters"] = sorted(links().values())
            said["bridge made anew"] = [await asked(endpoint), sorted(on_bridge())]
            await driver.delete(bench.request("b", of))
            said["all are gone"] = await answers(endpoint, "")
            servers[1].close()
            again = await driver.create(bench.request("c", of, control_plane=True))
            servers.append(await ApiServer(again, "c").open())
            said["a new one"] = await answers(endpoint, "c")
        finally:
            for each in (of, another, of):
                await bench.made.release(each)
        said["released"] = [await asked(endpoint), on_bridge(), len(list((FOLDER / "qemu/endpoints").iterdir()))]
        for each in servers:
            each.close()
        print(json.dumps(said))

asyncio.run(main())
"""


@NAMESPACES
async def test_the_endpoint_of_a_cluster_leads_to_the_api_servers_of_its_control_plane(
    tmp_path: Path,
) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    fake_programs.install(programs)
    assert await ran(ENDPOINT, str(tmp_path), str(programs)) == {
        "endpoint": [["10.99.0.2", 6443]] * 2,
        "both": ["a", "b"],
        "one has ended": ["b"],
        "no driver runs": "b",
        "restarted": ["10.99.0.2", 6443],
        "a record is cut off": True,
        "of another": ["10.99.0.6", 6443],
        "masters": ["", "kwtest", "kwtest", "kwtest"],
        "bridge made anew": ["b", ["10.99.0.1", "10.99.0.2", "10.99.0.6"]],
        "all are gone": [""],
        "a new one": ["c"],
        "released": ["", ["10.99.0.1"], 0],
    }


async def test_without_a_bridge_an_endpoint_is_refused_with_what_to_use_instead(tmp_path: Path) -> None:
    async with opened(tmp_path, "", network="user") as bench:
        with pytest.raises(DriverError, match=r"network=bridge.*spec.controlPlaneEndpoint") as refused:
            await bench.made.endpoint(bench.machine_class)
        assert refused.value.code is Code.FailedPrecondition
        await bench.made.release(bench.machine_class)  # nothing of it is left


UP = """
import asyncio, json, subprocess, sys
from pathlib import Path
from kubewright.apiserver.http.reach import Reach
from kubewright.base.clock import SystemClock
from kubewright.compose.embedded import Embedded
from kubewright.compose.options import Options, ServerConfig
from kubewright.kube import config
from kubewright.kube.client import Client
from kubewright.api.core import NAMESPACE

async def main():
    clock, options = SystemClock(), {"network": "bridge", "bridge": "kwtest", "programs": sys.argv[2]}
    found = {}
    for name, reach in (("of itself", Reach()), ("as the user says", Reach("127.0.0.2"))):
        chosen = ServerConfig(Path(sys.argv[1]) / "data", port=6443, reach=reach)
        async with Embedded(chosen, Options(driver="qemu", driver_options=options), clock) as world:
            client = Client(config.load(world.kubeconfig, clock=clock), clock)
            found[name] = [world.url, bool(await client.list(NAMESPACE))]
            await client.close()
    print(json.dumps(found))

asyncio.run(main())
"""


@NAMESPACES
async def test_up_is_reached_by_vms_on_the_bridge_unless_the_user_says_where_it_listens(
    tmp_path: Path,
) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    fake_programs.install(programs)
    assert await ran(UP, str(tmp_path), str(programs)) == {
        "of itself": ["https://10.99.0.1:6443", True],
        "as the user says": ["https://127.0.0.2:6443", True],
    }
