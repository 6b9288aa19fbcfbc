"""Machines whose cloud is another process: real sockets, real processes, kill -9 of the driver."""

import asyncio
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from kubewright.api.core import NODE
from kubewright.api.machine.names import Phase
from kubewright.api.machine.v1alpha1 import MACHINE, MACHINE_CLASS, MACHINE_DEPLOYMENT, Machine
from kubewright.base.clock import SystemClock
from kubewright.cli.explain.command import Asked, told
from kubewright.compose.embedded import Embedded
from kubewright.compose.options import ServerConfig
from kubewright.providers.sim import manifests
from kubewright.testing.world import running, short_timeouts
from kubewright.wire.gvk import Key

pytestmark = [pytest.mark.looptime(False), pytest.mark.timeout(240)]
SECONDS = 90.0
PROVIDER = "elsewhere"
"""Under ``sim`` an embedded manager has a simulated cloud of its own."""
OPTIONS = replace(short_timeouts(), driver="grpc", driver_options={})


SETS = replace(short_timeouts(), controllers=("machinedeployment", "machineset"))
"""A server with the controllers of sets; those of machines are another process."""


@asynccontextmanager
async def server(folder: Path) -> AsyncIterator[Embedded]:
    """A server and the sets of machines; VMs are made by ``manager_process``."""
    config = ServerConfig(folder, port=0)
    async with Embedded(config, SETS, SystemClock()) as embedded, running(embedded.serve):
        yield embedded


async def manager_process(folder: Path) -> asyncio.subprocess.Process:
    """The controllers of machines in a process of their own, with ``--driver grpc``."""
    words = ["run", "--kubeconfig", f"{folder}/kubeconfig", "--driver", "grpc", "--log-level", "warning"]
    chosen = ["--driver-option", f"dataDir={folder}/manager"]
    chosen += ["--machine-safety-orphan-vms-period", "2s"]
    controllers = ["--controllers", "machine,machineclass,secret,orphanvms"]
    paces = {"lease-duration": "4s", "renew-deadline": "3s", "retry-period": "1s"}
    lease = [f"--leader-elect-{name}={value}" for name, value in paces.items()]
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "kubewright", *words, *chosen, *controllers, *lease
    )


@asynccontextmanager
async def manager(folder: Path) -> AsyncIterator[Embedded]:
    """A manager with its own server, and ``--driver grpc``."""
    config = ServerConfig(folder, port=0)
    async with Embedded(config, OPTIONS, SystemClock()) as embedded, running(embedded.serve):
        yield embedded


async def driver_process(folder: Path, cloud: Path, data: Path | None = None) -> asyncio.subprocess.Process:
    """The simulated cloud in a process of its own, its VMs in a folder; ``data``: the manager's."""
    words = [
        "driver",
        "serve",
        "sim",
        "--provider",
        PROVIDER,
        "--manager",
        f"unix:{data or folder}/grpc/drivers.sock",
        "--log-level",
        "warning",
    ]
    options = [
        "--driver-option",
        f"dataDir={cloud}",
        "--driver-option",
        "leaseSeconds=4",
        "--kubeconfig",
        f"{folder}/kubeconfig",
    ]
    return await asyncio.create_subprocess_exec(sys.executable, "-m", "kubewright", *words, *options)


async def killed(process: asyncio.subprocess.Process, how: signal.Signals = signal.SIGKILL) -> None:
    with suppress(ProcessLookupError):
        process.send_signal(how)
    await asyncio.wait_for(process.wait(), 20)


async def seen(embedded: Embedded, wanted: Callable[[list[Machine]], bool]) -> list[Machine]:
    """The machines, once they are as wanted."""
    found: list[Machine] = []
    try:
        async with asyncio.timeout(SECONDS):
            while True:
                found = list(await embedded.client.list(MACHINE, namespace="default"))
                if wanted(found):
                    return found
                await asyncio.sleep(0.1)
    except TimeoutError:
        states = [(each.name, each.status.current_status, each.status.last_operation) for each in found]
        raise AssertionError(f"not as wanted: {states}") from None


def all_running(count: int) -> Callable[[list[Machine]], bool]:
    def wanted(found: list[Machine]) -> bool:
        phases = [each.status.current_status.phase for each in found]
        return phases == [Phase.RUNNING] * count

    return wanted


async def deploy(embedded: Embedded, replicas: int) -> None:
    labels = {"pool": "blue"}
    spec = {
        "replicas": replicas,
        "selector": {"matchLabels": labels},
        "template": {
            "metadata": {"labels": labels},
            "spec": {"class": {"kind": "MachineClass", "name": "small"}},
        },
    }
    small = {**manifests.machine_class("small", pace=0.1), "provider": PROVIDER}
    await embedded.client.create(MACHINE_CLASS, small)
    meta = {"name": "blue", "namespace": "default"}
    await embedded.client.create(MACHINE_DEPLOYMENT, {"metadata": meta, "spec": spec})


async def test_machines_wait_for_their_driver_and_go_on_by_themselves_when_it_dials_in(
    tmp_path: Path,
) -> None:
    folder, cloud = tmp_path / "up", tmp_path / "cloud"
    async with manager(folder) as embedded:
        await deploy(embedded, 2)
        waiting = await seen(
            embedded,
            lambda found: (
                len(found) == 2
                and all("no driver for it" in e.status.last_operation.description for e in found)
            ),
        )
        assert f"class small has provider {PROVIDER!r}" in waiting[0].status.last_operation.description
        (story,) = await told(embedded.client, Asked("mc", waiting[0].name))
        assert story.driver.startswith(f"provider {PROVIDER!r}, and no driver for it is connected")
        driver = await driver_process(folder, cloud)
        try:
            await seen(embedded, all_running(2))
            (story,) = await told(embedded.client, Asked("mc", waiting[0].name))
            assert story.driver.startswith(f"{PROVIDER}, in another process and connected")
            await embedded.client.patch(MACHINE_DEPLOYMENT, Key("default", "blue"), {"spec": {"replicas": 0}})
            await seen(embedded, lambda found: not found)
        finally:
            await killed(driver, signal.SIGTERM)
        assert driver.returncode == 0


@pytest.mark.kube  # for its seconds, not for a real API server
async def test_a_driver_that_is_killed_and_a_manager_that_begins_again_leave_each_machine_with_one_vm(
    tmp_path: Path,
) -> None:
    folder, cloud = tmp_path / "up", tmp_path / "cloud"
    async with manager(folder) as embedded:
        driver = await driver_process(folder, cloud)
        try:
            await deploy(embedded, 5)
            await seen(embedded, lambda found: any(each.spec.provider_id for each in found))
            await killed(driver)
            driver = await driver_process(folder, cloud)
            found = await seen(embedded, all_running(5))
        except BaseException:
            await killed(driver)
            raise
    try:
        async with manager(folder) as embedded:
            again = await seen(embedded, all_running(5))
            ids = {each.name: each.spec.provider_id for each in found}
            assert {each.name: each.spec.provider_id for each in again} == ids
            assert len(set(ids.values())) == 5
            await embedded.client.patch(MACHINE_DEPLOYMENT, Key("default", "blue"), {"spec": {"replicas": 1}})
            await seen(
                embedded, lambda found: any(each.metadata.deleting for each in found) or len(found) < 5
            )
            await killed(driver)
            driver = await driver_process(folder, cloud)
            (left,) = await seen(embedded, all_running(1))
            assert [each.spec.provider_id for each in await embedded.client.list(NODE)] == [
                left.spec.provider_id
            ]
    finally:
        await killed(driver)


@pytest.mark.kube  # for its seconds, not for a real API server
async def test_a_manager_that_is_killed_while_vms_are_made_makes_none_twice_afterwards(
    tmp_path: Path,
) -> None:
    folder, cloud = tmp_path / "up", tmp_path / "cloud"
    async with server(folder) as embedded:
        driver = await driver_process(folder, cloud, folder / "manager")
        killing = await manager_process(folder)
        try:
            await deploy(embedded, 5)
            await seen(embedded, lambda found: any(each.spec.provider_id for each in found))
            await killed(killing)
            killing = await manager_process(folder)
            found = await seen(embedded, all_running(5))
            nodes = await embedded.client.list(NODE)
            assert sorted(each.spec.provider_id for each in found) == sorted(
                each.spec.provider_id for each in nodes
            )
            assert len({each.spec.provider_id for each in found}) == 5
        finally:
            for process in (killing, driver):
                await killed(process)
