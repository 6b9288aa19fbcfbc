"""A whole control plane of real programs from the four objects of the example, in ``kubewright up``."""

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from tests.conformance.nested_planes import FourObjects, until
from tests.conformance.programs import nothing_left

from kubewright.api.controlplane.v1alpha4 import NESTED_ETCD
from kubewright.api.core import SECRET
from kubewright.base.clock import SystemClock
from kubewright.compose.embedded import Embedded
from kubewright.compose.options import Options, ServerConfig
from kubewright.compose.worlds import every_word
from kubewright.kube.config import from_secret
from kubewright.testing.api import Api
from kubewright.wire.gvk import Key

pytestmark = [pytest.mark.kube, pytest.mark.looptime(False), pytest.mark.timeout(180)]


@asynccontextmanager
async def serving(folder):
    """What ``kubewright up`` serves from a folder."""
    options = replace(Options(), controllers=every_word(Options()))
    async with Embedded(ServerConfig(folder), options, SystemClock()) as embedded:
        stop = asyncio.Event()
        task = asyncio.create_task(embedded.serve(stop))
        try:
            yield embedded.client
        finally:
            stop.set()
            await task


async def test_four_objects_become_a_control_plane_that_outlives_us_and_goes_with_them(tmp_path):
    with nothing_left(tmp_path / "components"):
        async with serving(tmp_path) as client:
            four = FourObjects(client, "default", "1.36")
            await four.create()
            await until(four.ready, SystemClock())
            running = processes(tmp_path)
            assert len(running) == 3
        async with serving(tmp_path) as client:
            four = FourObjects(client, "default", "1.36")
            await until(four.ready, SystemClock())
            assert processes(tmp_path) == running
            secret = await client.get(SECRET, Key("default", "demo-kubeconfig"))
            transport = from_secret(secret.data["value"])
            (await Api(transport, SystemClock(), "real").get("/api/v1/namespaces/default")).ok()
            await transport.close()
            await four.delete()
            await until(four.gone, SystemClock())
            assert processes(tmp_path) == {}


def processes(folder):
    """The records of all processes, by program."""
    found = sorted((folder / "components" / "programs").glob("*/*/*/process.json"))
    return {path.parent.name: path.read_text() for path in found}


async def test_a_version_that_is_not_there_is_told_with_how_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", "")

    async def told(client):
        etcd = await client.get(NESTED_ETCD, Key("default", "demo-etcd"))
        return any("there is no etcd of version 3.6.8 on this machine" in each for each in etcd.status.errors)

    async with serving(tmp_path / "data") as client:
        await FourObjects(client, "default", "1.36").create()
        await until(lambda: told(client), SystemClock())
