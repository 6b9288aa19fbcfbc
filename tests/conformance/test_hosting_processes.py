"""Real programs as processes of this machine: a control plane from our own templates, in the host alone.

No controller takes part: the test makes the certificates and applies the three workloads in order.
"""

import asyncio
import os
import signal
import sys

import pytest
from tests.conformance.programs import (
    ETCD,
    MANAGER,
    SERVER,
    Plane,
    hosted,
    identity,
    ready,
    restarted,
)

from kubewright.base.clock import SystemClock
from kubewright.testing.left_programs import environment_of, nothing_left

pytestmark = [pytest.mark.kube, pytest.mark.looptime(False)]


@pytest.fixture
def folder(tmp_path):
    """The folder of a host."""
    with nothing_left(tmp_path) as found:
        yield found


def say(measured):
    """For ``pytest -rP``: what a person wants to know beside the result."""
    sys.stdout.write(f"{measured}\n")


async def eventually(check, seconds=30.0):
    async with asyncio.timeout(seconds):
        while not await check():
            await SystemClock().sleep(0.1)


@pytest.mark.parametrize(
    "user",
    [
        pytest.param(None, id="as ourselves"),
        pytest.param(
            (65534, 65534),
            id="as an unprivileged user",
            marks=pytest.mark.skipif(os.getuid() != 0, reason="needs root"),
        ),
    ],
)
async def test_a_control_plane_starts_in_order_works_and_stops_in_order(folder, user):
    clock, began = SystemClock(), asyncio.get_running_loop().time()
    async with hosted(folder, user=user) as found:
        plane = Plane(found.hosting, clock)
        for component in (ETCD, SERVER, MANAGER):
            await found.up(plane, component)
            instance = found.hosting.status(identity(component)).instances[0]
            seconds = asyncio.get_running_loop().time() - began
            say(f"{component}: ready after {seconds:.2f} s with {instance.memory >> 20} MiB")
        async with plane.api() as api:

            async def has_account():
                path = "/api/v1/namespaces/default/serviceaccounts/default"
                return (await api.get(path)).code == 200

            await eventually(has_account)  # the controller manager works
        say(f"first account after {asyncio.get_running_loop().time() - began:.2f} s")
        for component in (ETCD, SERVER, MANAGER):
            assert found.hosting.status(identity(component)).instances[0].restarts == 0
        stopping = asyncio.get_running_loop().time()
        await found.down()
        say(f"stopped within {asyncio.get_running_loop().time() - stopping:.2f} s")
    assert list((folder / "programs").iterdir()) == []


async def test_a_killed_etcd_comes_back_with_its_data_and_no_other_program_is_restarted(folder):
    async with hosted(folder) as found:
        plane = Plane(found.hosting, SystemClock())
        await found.up(plane)
        pids = found.pids()
        async with plane.api() as api:
            config = {"metadata": {"name": "kept"}, "data": {"a": "b"}}
            (await api.post("/api/v1/namespaces/default/configmaps", config)).ok()
            os.kill(pids[0], signal.SIGKILL)
            await found.until(ETCD, restarted)
            await found.until(SERVER, ready)
            answer = (await api.get("/api/v1/namespaces/default/configmaps/kept")).ok()
            assert answer["data"] == {"a": "b"}
        assert found.pids()[1:] == pids[1:]
        await found.down()


async def test_a_restart_of_the_host_restarts_no_program(folder):
    async with hosted(folder) as found:
        plane = Plane(found.hosting, SystemClock())
        await found.up(plane)
        pids = found.pids()
    async with hosted(folder) as found:
        for component in (ETCD, SERVER, MANAGER):
            status = await found.until(component, ready)
            assert status.instances[0].restarts == 0
            await found.hosting.apply(plane.workload(component))
        assert found.pids() == pids
        async with plane.api() as api:
            (await api.get("/api/v1/namespaces/default")).ok()
        await found.down()


async def test_a_port_that_is_taken_is_told_by_the_program_that_needs_it(folder):
    async with hosted(folder) as found:
        address = found.hosting.addresses(identity(ETCD), 1).hosts[0]
        taker = await asyncio.start_server(lambda _reader, writer: writer.close(), address, 2379)
        async with taker:
            await found.hosting.apply(Plane(found.hosting, SystemClock()).workload(ETCD))
            status = await found.until(
                ETCD, lambda status: bool(status.instances and status.instances[0].restarts)
            )
        told = status.instances[0].message
        assert told.endswith(f"listen tcp {address}:2379: bind: address already in use")
        await found.until(ETCD, restarted)
        await found.down()


async def test_limits_reach_the_programs_and_a_flag_that_is_none_is_told(folder):
    async with hosted(folder) as found:
        plane = Plane(found.hosting, SystemClock())
        limits = {"resources": {"limits": {"memory": "256Mi", "cpu": "1500m"}}}
        await found.hosting.apply(plane.workload(ETCD, **limits))
        await found.until(ETCD, ready)
        environment = environment_of(found.pid(ETCD)).split(b"\0")
        assert {b"GOMEMLIMIT=241591910", b"GOMAXPROCS=2"} <= set(environment)
        await found.hosting.apply(plane.workload(ETCD, **limits, extraArgs={"no-such-flag": "1"}))
        await found.hosting.replace(identity(ETCD), 0)
        status = await found.until(
            ETCD, lambda status: bool(status.instances and status.instances[0].restarts)
        )
        assert "flag provided but not defined: -no-such-flag" in status.instances[0].message
        await found.hosting.apply(plane.workload(ETCD, **limits))
        await found.hosting.replace(identity(ETCD), 0)
        await found.until(ETCD, ready)
        await found.down()
