"""The example of a control plane as it stands in the repository: it comes up, survives a restart, and goes."""

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import permutations
from pathlib import Path

import pytest
import yaml

from kubewright.api.controlplane.v1alpha4 import (
    NESTED_API_SERVER,
    NESTED_CONTROL_PLANE,
    NESTED_CONTROLLER_MANAGER,
    NESTED_ETCD,
)
from kubewright.api.core import CONFIG_MAP, NAMESPACE, SECRET
from kubewright.base.clock import SystemClock
from kubewright.bootstrap.seen import BootstrapSettings
from kubewright.compose.embedded import Embedded
from kubewright.compose.options import Options, ServerConfig
from kubewright.compose.worlds import every_word
from kubewright.kube.client import Client
from kubewright.kube.config import from_secret, inline_access
from kubewright.kube.errors import TransportError
from kubewright.pki.keys import Algorithm
from kubewright.testing.world import SHORT_TIMEOUTS, embedded_world
from kubewright.wire.errors import NotFound
from kubewright.wire.gvk import Key

EXAMPLE = Path(__file__).parents[3] / "examples" / "control-plane.yaml"
OBJECTS = list(yaml.safe_load_all(EXAMPLE.read_text()))
KINDS = {
    each.resource.kind: each
    for each in (NESTED_CONTROL_PLANE, NESTED_ETCD, NESTED_API_SERVER, NESTED_CONTROLLER_MANAGER)
}
EC = BootstrapSettings(algorithm=Algorithm.EC)
"""Keys that are made at once: RSA keys are made in threads, which know nothing of the clock of a test."""
OPTIONS = replace(SHORT_TIMEOUTS, controllers=every_word(SHORT_TIMEOUTS), bootstrap=EC)
KUBECONFIG = Key("default", "demo-kubeconfig")


async def create(client, bodies):
    for body in bodies:
        await client.create(KINDS[body["kind"]], body, namespace="default")


async def delete(client, bodies):
    for body in bodies:
        try:
            await client.delete(KINDS[body["kind"]], Key("default", body["metadata"]["name"]))
        except NotFound:
            continue


async def found(client, kind, name):
    try:
        return await client.get(kind, Key("default", name))
    except NotFound:
        return None


async def ready(client):
    """Whether all objects are, and the kubeconfig is there: it is made when the endpoint is published."""
    if await found(client, SECRET, KUBECONFIG.name) is None:
        return False
    there = [await found(client, KINDS[each["kind"]], each["metadata"]["name"]) for each in OBJECTS]
    return all(each is not None and each.status.ready for each in there)


async def gone(client):
    there = [await found(client, KINDS[each["kind"]], each["metadata"]["name"]) for each in OBJECTS]
    return not any(there) and not [
        each.name for each in await client.list(SECRET, "default") if each.name.startswith("demo-")
    ]


async def until(true, client):
    """Wait for it, a minute at most."""
    for _ in range(600):
        if await true(client):
            return
        await asyncio.sleep(0.1)
    pytest.fail(f"still not {true.__name__}")


def kind_order(bodies):
    return " ".join(each["kind"].removeprefix("Nested") for each in bodies)


@pytest.mark.parametrize("order", list(permutations(OBJECTS))[::5], ids=kind_order)
async def test_the_example_comes_up_in_any_order_and_goes_in_any_order(order):
    """E-01 and E-13."""
    async with embedded_world(OPTIONS) as world:
        await create(world.client, order)
        await until(ready, world.client)
        kubeconfig = await world.client.get(SECRET, KUBECONFIG)
        plane = await found(world.client, NESTED_CONTROL_PLANE, "demo")
        endpoint = plane.spec.control_plane_endpoint
        reached = inline_access(kubeconfig.data["value"]).server
        assert reached == f"https://{endpoint.host}:{endpoint.port}"
        await delete(world.client, reversed(order))
        await until(gone, world.client)


@asynccontextmanager
async def up(folder):
    """``kubewright up`` on a folder, with sockets."""
    options = Options(controllers=every_word(Options()))
    async with Embedded(ServerConfig(folder), options, SystemClock()) as embedded:
        stop, working = asyncio.Event(), asyncio.Event()
        task = asyncio.create_task(embedded.serve(stop, working.set))
        async with asyncio.timeout(60):
            await working.wait()
        try:
            yield embedded.client
        finally:
            stop.set()
            await task


async def inner(client):
    """A client with the kubeconfig that a user takes from its Secret."""
    secret = await client.get(SECRET, KUBECONFIG)
    return Client(from_secret(secret.data["value"], clock=SystemClock()), SystemClock())


@pytest.mark.looptime(False)
async def test_the_kubeconfig_works_before_and_after_a_restart_and_the_data_is_there(tmp_path):
    async with up(tmp_path / "data") as client:
        await create(client, OBJECTS)
        await until(ready, client)
        before = await client.get(SECRET, KUBECONFIG)
        nested = await inner(client)
        body = {"metadata": {"name": "mine", "namespace": "default"}, "data": {"a": "b"}}
        await nested.create(CONFIG_MAP, body)
        await nested.transport.close()
    async with up(tmp_path / "data") as client:
        nested = await inner(client)

        async def answers(_client):
            try:
                return bool(await nested.list(NAMESPACE))
            except TransportError:  # nothing listens until the components were looked at
                return False

        await until(answers, client)
        kept = await nested.get(CONFIG_MAP, Key("default", "mine"))
        after = await client.get(SECRET, KUBECONFIG)
        await nested.transport.close()
        assert (kept.data, after.data) == ({"a": "b"}, before.data)
        await until(ready, client)
