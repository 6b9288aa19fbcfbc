"""The endpoint of a nested control plane of real programs answers while its API servers are replaced."""

import asyncio
import json
import os
import signal
import sys
from contextlib import asynccontextmanager

import pytest
from tests.conformance.nested_planes import FourObjects, until
from tests.conformance.test_nested_programs import authorities, processes, serving
from tests.conformance.test_version_upgrades import EARLIER, NOW, earlier_release

from kubewright.api.controlplane.names import Phase
from kubewright.api.controlplane.v1alpha4 import NESTED_API_SERVER, NESTED_CONTROL_PLANE
from kubewright.api.core import SECRET
from kubewright.base.clock import SystemClock, rfc3339
from kubewright.base.errors import KubewrightError
from kubewright.kube.config import from_secret
from kubewright.testing.api import Api
from kubewright.testing.left_programs import nothing_left
from kubewright.wire.gvk import Key

pytestmark = [pytest.mark.kube, pytest.mark.looptime(False), pytest.mark.timeout(300)]

CLOCK = SystemClock()
PLANE, SERVERS = Key("default", "demo"), Key("default", "demo-apiserver")


class Visitor:
    """Asks every 50 ms, in turn over a connection of its own and over one that stays open.

    Its kubeconfig is the one that there is now, as a client has it that reads it again when it changes. On the
    connection that stays open it asks once more when it is told to (``Retry-After``): a server that has begun to
    refuse requests cannot end a connection on which one is just coming. A new connection has no such excuse.
    """

    def __init__(self, client):
        self._client = client
        self._kubeconfig, self._kept = b"", None
        self.answered, self.repeated, self.failed, self.longest = 0, 0, [], 0.0

    async def run(self):
        try:
            while True:
                await self._read()
                await self._ask(self._kept, repeats=True)
                fresh = from_secret(self._kubeconfig)
                try:
                    await self._ask(fresh)
                finally:
                    await fresh.close()
        finally:
            await self._kept.close()

    async def _read(self):
        now = await kubeconfig(self._client)
        if now != self._kubeconfig:
            if self._kept is not None:
                await self._kept.close()
            self._kubeconfig, self._kept = now, from_secret(now)

    async def _ask(self, transport, *, repeats=False):
        said, pause = await self._said(transport)
        if repeats and pause:
            self.repeated += 1
            await CLOCK.sleep(float(pause))
            said, _ = await self._said(transport)
        if said == 200:
            self.answered += 1
        else:
            self.failed.append(said)
        await CLOCK.sleep(0.05)

    async def _said(self, transport):
        """200, or what was said instead; and the seconds after which to ask again, if it was told to."""
        began = CLOCK.monotonic()
        try:
            answer = await Api(transport, CLOCK, "real").get("/api/v1/namespaces/default")
        except KubewrightError as error:
            return str(error), ""
        finally:
            self.longest = max(self.longest, CLOCK.monotonic() - began)
        refused = answer.code in (429, 503) and answer.headers.get("retry-after", "")
        return answer.code if answer.code == 200 else f"{answer.code} {answer.message}", refused or ""


@asynccontextmanager
async def asked_all_the_time(client, what):
    """Requests all the while, of which none may fail."""
    visitor, began = Visitor(client), CLOCK.monotonic()
    task = asyncio.create_task(visitor.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])
        seconds, failed = CLOCK.monotonic() - began, visitor.failed
        told = f"{visitor.answered} answers, the longest after {visitor.longest:.2f} s"
        told += f", repeated: {visitor.repeated}, failed: {failed}"
        sys.stdout.write(f"{what}: {seconds:.1f} s, {told}\n")  # for ``pytest -rP``
    assert failed == []
    assert visitor.answered > 0


@asynccontextmanager
async def control_plane(folder, replicas, version=""):
    with nothing_left(folder / "components"):
        async with serving(folder) as client:
            four = FourObjects(client, "default", "" if version else "1.36", version=version)
            await four.create()
            await scaled(client, replicas)
            await until(four.ready, CLOCK)
            yield client, four
            await four.delete()
            await until(four.gone, CLOCK)


async def scaled(client, replicas):
    await client.patch(NESTED_API_SERVER, SERVERS, {"spec": {"replicas": replicas}})

    async def done():
        status = (await client.get(NESTED_API_SERVER, SERVERS)).status
        return status.phase == Phase.READY and status.replicas == replicas

    await until(done, CLOCK)


async def rolled_out(client):
    """Give the API server another flag, and wait until all instances have it."""
    before = (await client.get(NESTED_API_SERVER, SERVERS)).metadata.generation
    await client.patch(NESTED_API_SERVER, SERVERS, {"spec": {"extraArgs": {"v": "1"}}})

    async def done():
        found = await client.get(NESTED_API_SERVER, SERVERS)
        return found.status.observed_generation > before and found.status.phase == Phase.READY

    await until(done, CLOCK)


async def rotated(client):
    before = await authorities(client)
    body = {"spec": {"certificateAuthorities": {"rotateAfter": rfc3339(CLOCK.now())}}}
    await client.patch(NESTED_CONTROL_PLANE, PLANE, body)

    async def done():
        now = await authorities(client)
        return all(now[name] != before[name] and len(now[name]) == 1 for name in before)

    await until(done, CLOCK)


async def upgraded(client, version):
    await client.patch(NESTED_CONTROL_PLANE, PLANE, {"spec": {"version": version}})

    async def done():
        status = (await client.get(NESTED_CONTROL_PLANE, PLANE)).status
        return status.ready and status.version == f"v{version}"

    await until(done, CLOCK)


async def test_an_api_server_that_is_to_end_says_so_while_it_still_serves(tmp_path):
    """So the balancer has the time to lead new connections to another one. Here there is no other one."""
    async with control_plane(tmp_path, 1) as (client, _):
        transport = from_secret(await kubeconfig(client))
        api = Api(transport, CLOCK, "real")

        async def says_so():
            return (await api.get("/readyz")).code == 500

        os.kill(json.loads(processes(tmp_path)["apiserver-0"])["pid"], signal.SIGTERM)
        await until(says_so, CLOCK)
        answer = await api.get("/api/v1/namespaces/default")
        await transport.close()
        assert answer.code == 200


@pytest.mark.parametrize("replicas", [1, 2])
async def test_no_request_fails_while_api_servers_get_another_flag(tmp_path, replicas):
    async with (
        control_plane(tmp_path, replicas) as (client, _),
        asked_all_the_time(client, f"rollout with {replicas}"),
    ):
        await rolled_out(client)


async def test_no_request_fails_while_all_authorities_are_replaced(tmp_path):
    async with (
        control_plane(tmp_path, 2) as (client, four),
        asked_all_the_time(client, "rotation with 2"),
    ):
        await rotated(client)
        await until(four.ready, CLOCK)


async def test_no_request_fails_while_a_control_plane_gets_another_version(tmp_path, monkeypatch):
    monkeypatch.setenv("KUBEWRIGHT_ASSETS", str(earlier_release(tmp_path / "earlier")))
    async with (
        control_plane(tmp_path, 2, version=EARLIER) as (client, _),
        asked_all_the_time(client, "upgrade with 2"),
    ):
        await upgraded(client, NOW)


async def test_another_number_changes_neither_the_endpoint_nor_an_instance_that_stays(tmp_path):
    async with control_plane(tmp_path, 1) as (client, _):
        before, first = await kubeconfig(client), processes(tmp_path)
        async with asked_all_the_time(client, "from 1 to 2 to 1"):
            await scaled(client, 2)
            await scaled(client, 1)
        assert await kubeconfig(client) == before
        assert processes(tmp_path) == first


async def kubeconfig(client):
    return (await client.get(SECRET, Key("default", "demo-kubeconfig"))).data["value"]


async def test_the_endpoint_answers_while_no_manager_runs(tmp_path):
    with nothing_left(tmp_path / "components"):
        async with serving(tmp_path) as client:
            four = FourObjects(client, "default", "1.36")
            await four.create()
            await until(four.ready, CLOCK)
            transport = from_secret(await kubeconfig(client))
        answer = await Api(transport, CLOCK, "real").get("/api/v1/namespaces/default")
        await transport.close()
        assert answer.code == 200
        async with serving(tmp_path) as client:
            four = FourObjects(client, "default", "1.36")
            await until(four.ready, CLOCK)
            await four.delete()
            await until(four.gone, CLOCK)
