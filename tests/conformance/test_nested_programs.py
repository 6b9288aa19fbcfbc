"""A whole control plane of real programs from the four objects of the example, in ``kubewright up``."""

import asyncio
import shutil
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from tests.conformance.nested_planes import FourObjects, until

from kubewright.api.controlplane.names import LOST_DATA_ANNOTATION
from kubewright.api.controlplane.v1alpha4 import NESTED_CONTROL_PLANE, NESTED_ETCD
from kubewright.api.core import SECRET
from kubewright.base.clock import SystemClock, rfc3339
from kubewright.base.errors import KubewrightError
from kubewright.compose.embedded import Embedded
from kubewright.compose.options import Options, ServerConfig
from kubewright.compose.worlds import every_word
from kubewright.controlplanes.hosting.processes.options import ProcessOptions
from kubewright.kube.config import from_secret
from kubewright.pki.keys import pems
from kubewright.testing.api import Api
from kubewright.testing.left_programs import nothing_left
from kubewright.wire.gvk import Key

PLANE = Key("default", "demo")
pytestmark = [pytest.mark.kube, pytest.mark.looptime(False), pytest.mark.timeout(180)]


@asynccontextmanager
async def serving(folder, **processes):
    """What ``kubewright up`` serves from a folder. ``processes``: what was chosen about components."""
    chosen = ProcessOptions(**processes)
    options = replace(Options(), controllers=every_word(Options()), processes=chosen)
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
            assert set(running) == {"etcd-0", "apiserver-0", "apiserver-balancer", "controller-manager-0"}
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


async def test_all_authorities_of_real_programs_are_replaced_and_no_credential_fails(tmp_path):
    """Who asks all the while is refused by a program that ends or starts, and never for a certificate."""
    with nothing_left(tmp_path / "components"):
        async with serving(tmp_path) as client:
            four = FourObjects(client, "default", "1.36")
            await four.create()
            await until(four.ready, SystemClock())
            before = await authorities(client)
            visitor = Visitor(client)
            visits = asyncio.create_task(visitor.run())
            body = {"spec": {"certificateAuthorities": {"rotateAfter": rfc3339(SystemClock().now())}}}
            await client.patch(NESTED_CONTROL_PLANE, Key("default", "demo"), body)

            async def replaced():
                now = await authorities(client)
                return all(now[name] != before[name] and len(now[name]) == 1 for name in before)

            await until(replaced, SystemClock())
            await until(four.ready, SystemClock())
            # Its tokens are signed and its certificates trusted by what runs now: the controller manager works.
            await until(visitor.has_account, SystemClock())
            visits.cancel()
            assert (visitor.refused, visitor.answered > 0) == ([], True)
            await four.delete()
            await until(four.gone, SystemClock())


async def test_real_programs_sleep_and_wake_with_their_data(tmp_path):
    with nothing_left(tmp_path / "components"):
        async with serving(tmp_path) as client:
            four = FourObjects(client, "default", "1.36")
            await four.create()
            await until(four.ready, SystemClock())
            secret = await client.get(SECRET, Key("default", "demo-kubeconfig"))
            transport = from_secret(secret.data["value"])
            api = Api(transport, SystemClock(), "real")
            note = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "note"}, "data": {"a": "b"}}
            (await api.post("/api/v1/namespaces/default/configmaps", note)).ok()
            await fall_asleep(client, four)
            assert processes(tmp_path) == {}
            await client.patch(NESTED_CONTROL_PLANE, PLANE, {"spec": {"asleep": None}})
            await until(four.ready, SystemClock())
            kept = (await api.get("/api/v1/namespaces/default/configmaps/note")).ok()
            assert kept["data"] == {"a": "b"}
            await transport.close()
            await four.delete()
            await until(four.gone, SystemClock())


async def fall_asleep(client, four):
    """Put a control plane to sleep, and wait until nothing of it runs."""
    await client.patch(NESTED_CONTROL_PLANE, PLANE, {"spec": {"asleep": True}})

    async def asleep():
        found = (await four.there())[1:]
        return all(each.status.phase == "Sleeping" and not each.status.replicas for each in found)

    await until(asleep, SystemClock())


async def test_an_etcd_whose_data_is_deleted_in_its_sleep_says_so_and_starts_empty_only_when_told_to(
    tmp_path,
):
    with nothing_left(tmp_path / "components"):
        async with serving(tmp_path) as client:
            four, key = FourObjects(client, "default", "1.36"), Key("default", "demo-etcd")
            await four.create()
            await until(four.ready, SystemClock())
            await fall_asleep(client, four)
            shutil.rmtree(tmp_path / "components" / "programs" / "default" / "demo" / "etcd-0")
            await client.patch(NESTED_CONTROL_PLANE, PLANE, {"spec": {"asleep": None}})

            async def told():
                etcd = await client.get(NESTED_ETCD, key)
                return any("the data of demo-etcd-0 is gone" in each for each in etcd.status.errors)

            await until(told, SystemClock())
            assert processes(tmp_path) == {}
            given_up = {"metadata": {"annotations": {LOST_DATA_ANNOTATION: "demo-etcd-0"}}}
            await client.patch(NESTED_ETCD, key, given_up)
            await until(four.ready, SystemClock())
            await four.delete()
            await until(four.gone, SystemClock())


async def authorities(client):
    names = ("demo-ca", "demo-etcd", "demo-proxy")
    found = [await client.get(SECRET, Key("default", name)) for name in names]
    return {each.name: pems(each.data["tls.crt"]) for each in found}


class Visitor:
    """Asks the API server of the control plane ten times a second, each time over a new connection.

    ``silent`` counts the seconds from an answer to the next one, where a question between them had none.
    """

    def __init__(self, client, cluster="demo"):
        self._client, self._kubeconfig = client, Key("default", f"{cluster}-kubeconfig")
        self.answered, self.silent, self.refused = 0, 0.0, []

    async def run(self):
        clock, lost = SystemClock(), False
        last = clock.now()
        while True:
            try:
                answer = await self._ask("/api/v1/namespaces/default")
            except KubewrightError as error:
                lost = True
                if "certificate" in str(error):
                    self.refused.append(str(error))
            else:
                if answer.code in (401, 403):
                    self.refused.append(answer.code)
                if answer.code == 200:
                    self.answered += 1
                    self.silent += (clock.now() - last).total_seconds() if lost else 0.0
                    last = clock.now()
                lost = answer.code != 200
            await clock.sleep(0.1)

    async def has_account(self):
        try:
            return (await self._ask("/api/v1/namespaces/default/serviceaccounts/default")).code == 200
        except KubewrightError:
            return False

    async def _ask(self, path):
        secret = await self._client.get(SECRET, self._kubeconfig)
        transport = from_secret(secret.data["value"])
        try:
            return await Api(transport, SystemClock(), "real").get(path)
        finally:
            await transport.close()


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
