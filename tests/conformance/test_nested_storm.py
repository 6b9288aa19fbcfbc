"""Control planes of real programs through kills and want: of the manager, of a program, of a port, of room on the disk.

Nothing here is waited for by time alone: each wait is for what objects or processes say, with a deadline.
"""

import asyncio
import os
import signal
import subprocess
import sys
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

import pytest
from tests.conformance.nested_planes import ETCD, FourObjects, until
from tests.conformance.programs import Plane, hosted, identity, ready
from tests.conformance.test_nested_programs import serving

from kubewright.api.controlplane.v1alpha4 import NESTED_API_SERVER, NESTED_CONTROL_PLANE, NESTED_ETCD
from kubewright.base.clock import SystemClock
from kubewright.controlplanes.hosting.processes.store import NotWritten
from kubewright.kube.client import Client
from kubewright.kube.config import load
from kubewright.processes import record
from kubewright.testing.left_programs import environment_of, nothing_left
from kubewright.wire.gvk import Key

pytestmark = [pytest.mark.kube, pytest.mark.looptime(False), pytest.mark.timeout(240)]

CLOCK = SystemClock()
CHANNEL = "1.36"
INSTANCES = {"demo-etcd-0", "demo-apiserver-0", "demo-apiserver-balancer", "demo-controller-manager-0"}
NAMED = Key("default", "demo")


@asynccontextmanager
async def up(folder, *switches):
    """``kubewright up`` as a process of its own, which ends by ``kill -9``."""
    words = [sys.executable, "-m", "kubewright", "up", "--data-dir", str(folder), *switches]
    process = await asyncio.create_subprocess_exec(
        *words, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
    )
    try:
        assert (await process.stdout.readline()).startswith(b"kubewright is ready")
        client = Client(load(folder / "kubeconfig", clock=CLOCK), CLOCK)
        try:
            yield client
        finally:
            await client.close()
    finally:
        process.kill()
        await process.wait()


def alive(folder):
    """The ids of all processes that run in a folder of a program, by the names of their instances."""
    found = {}
    for each in Path("/proc").glob("[0-9]*/cwd"):
        with suppress(OSError):
            if each.readlink().is_relative_to(folder):
                variables = dict(
                    one.split(b"=", 1) for one in environment_of(each.parent.name).split(b"\0") if one
                )
                found.setdefault(variables[b"INSTANCE"].decode(), []).append(int(each.parent.name))
    return found


def say(measured):
    """For ``pytest -rP``: what a person wants to know beside the result."""
    sys.stdout.write(f"{measured}\n")


async def test_kill_9_of_the_manager_at_random_moments_doubles_no_program_and_leaves_none_behind(tmp_path):
    """E-12; and no folder is left after all of it was deleted."""
    moments = [CLOCK.random.uniform(0.0, most) for most in (1.0, 2.0, 4.0, 1.0)]
    say(f"killed after {moments}")
    four = None
    with nothing_left(tmp_path / "components"):
        for moment in moments[:3]:  # while the control plane comes up
            async with up(tmp_path) as client:
                if four is None:
                    four = FourObjects(client, "default", CHANNEL)
                    await four.create()
                await CLOCK.sleep(moment)
        async with up(tmp_path) as client:
            await until(FourObjects(client, "default", CHANNEL).ready, CLOCK)
            running = alive(tmp_path)
            assert {name: len(pids) for name, pids in running.items()} == dict.fromkeys(INSTANCES, 1)
        async with up(tmp_path) as client:  # what runs is adopted
            await until(FourObjects(client, "default", CHANNEL).ready, CLOCK)
            assert alive(tmp_path) == running
            await FourObjects(client, "default", CHANNEL).delete()
            await CLOCK.sleep(moments[3])
        async with up(tmp_path) as client:  # and ended, though the one that was asked for it is gone
            await until(FourObjects(client, "default", CHANNEL).gone, CLOCK)
            assert alive(tmp_path) == {}
            assert record.recorded(tmp_path / "components" / "programs") == []
            assert data_folders(tmp_path) == []


def data_folders(folder):
    """What is left of the data of any program."""
    return [str(path) for path in (folder / "components" / "programs").rglob("*") if path.is_file()]


async def told(client, kind, key, about="Ready"):
    """What a condition of an object says; empty while it is true."""
    found = await client.get(kind, key)
    return next((each.message for each in found.status.conditions if each.type == about), "")


@asynccontextmanager
async def whole(folder):
    """The four objects, ready, in what ``kubewright up`` serves; and no process afterwards."""
    with nothing_left(folder / "components"):
        async with serving(folder) as client:
            four = FourObjects(client, "default", CHANNEL)
            await four.create()
            await until(four.ready, CLOCK)
            yield client, four
            await four.delete()
            await until(four.gone, CLOCK)
            assert alive(folder) == {}


async def test_programs_that_are_killed_come_back_and_until_then_objects_say_which_is_missing(tmp_path):
    """E-02."""
    async with whole(tmp_path) as (client, four):
        before = alive(tmp_path)
        etcd = await client.get(NESTED_ETCD, Key("default", "demo-etcd"))
        [pid] = before["demo-etcd-0"]
        os.kill(pid, signal.SIGKILL)
        # Its port is taken before it comes back: that is told too.
        taker = await taking(etcd.status.addresses[0].ip, 2379)

        async def port_is_told():
            said = await client.get(NESTED_ETCD, Key("default", "demo-etcd"))
            return any("address already in use" in each for each in said.status.errors)

        async def server_is_unready():
            said = await client.get(NESTED_API_SERVER, Key("default", "demo-apiserver"))
            return not said.status.ready and said.status.phase == "Unready"

        async with taker:
            await until(port_is_told, CLOCK)
            await until(server_is_unready, CLOCK)
            server = await told(client, NESTED_API_SERVER, Key("default", "demo-apiserver"))
            assert server.startswith("NestedEtcd demo-etcd is not ready; ready instances: 0 of 1")
            assert "NestedEtcd demo-etcd" in await told(client, NESTED_CONTROL_PLANE, NAMED)
        await until(four.ready, CLOCK)
        after = alive(tmp_path)
        assert after["demo-apiserver-0"] == before["demo-apiserver-0"], "no API server ends with its etcd"
        assert after["demo-etcd-0"] != before["demo-etcd-0"]

        os.kill(after["demo-apiserver-0"][0], signal.SIGKILL)

        async def plane_is_unready():
            found = await client.get(NESTED_CONTROL_PLANE, NAMED)
            return not found.status.ready

        await until(plane_is_unready, CLOCK)
        assert "NestedAPIServer demo-apiserver" in await told(client, NESTED_CONTROL_PLANE, NAMED)
        await until(four.ready, CLOCK)
        assert alive(tmp_path)["demo-etcd-0"] == after["demo-etcd-0"]


async def taking(address, port):
    """A server on a port that was served until a moment ago; the kernel may need another to free it."""
    taken = []

    async def is_taken():
        with suppress(OSError):
            taken.append(await asyncio.start_server(lambda _reader, writer: writer.close(), address, port))
        return bool(taken)

    await until(is_taken, CLOCK)
    return taken[0]


@contextmanager
def small_disk(folder):
    """A disk of one mebibyte at a folder; its value changes the size."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)], check=True)

    def resize(size):
        subprocess.run(["mount", "-o", f"remount,size={size}", str(folder)], check=True)

    try:
        yield resize
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(path):
    """Until there is no room for one more page."""
    with suppress(OSError), path.open("wb", buffering=0) as full:
        while full.write(bytes(4096)):
            pass


def mounts():
    """Whether we may mount."""
    asked = ["unshare", "--mount", "true"]
    return os.getuid() == 0 and not subprocess.run(asked, check=False, capture_output=True).returncode


@pytest.mark.skipif(not mounts(), reason="needs to mount a small disk")
async def test_a_full_disk_is_told_and_mended_by_room(tmp_path):
    with nothing_left(tmp_path), small_disk(tmp_path) as resize:
        async with hosted(tmp_path) as found:
            plane = Plane(found.hosting, CLOCK)
            filler = tmp_path / "filler"
            fill(filler)
            with pytest.raises(NotWritten, match="No space left"):
                await found.hosting.apply(plane.workload(ETCD))
            assert not found.hosting.status(identity(ETCD)).exists

            filler.unlink()
            await found.hosting.apply(plane.workload(ETCD))
            status = await found.until(
                ETCD, lambda status: bool(status.instances and status.instances[0].restarts)
            )
            assert "no space left on device" in status.instances[0].message
            resize("400m")
            await found.until(ETCD, ready)
            await found.hosting.remove(identity(ETCD), keep_data=False)
            await found.until(ETCD, lambda status: not status.exists)
