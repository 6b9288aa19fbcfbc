"""A driver in another process, killed with -9 at each of its calls, and so is its manager: no VM is lost or made twice.
Sockets and processes are real, the cloud is simulated. It is in this lane since it takes four minutes; on virtual time
tests/unit/grpc_drivers has all calls at all moments."""

import asyncio
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from tests.api.grpc_drivers.test_grpc_machines import (
    all_running,
    deploy,
    killed,
    manager_process,
    seen,
    server,
)

from kubewright.api.core import NODE
from kubewright.api.machine.names import APPLIED_SPEC_ANNOTATION
from kubewright.api.machine.v1alpha1 import MACHINE_CLASS, MACHINE_DEPLOYMENT, Machine
from kubewright.compose.embedded import Embedded
from kubewright.driver.hot import read
from kubewright.wire.gvk import Key

pytestmark = [pytest.mark.vm, pytest.mark.looptime(False), pytest.mark.timeout(600)]
SECONDS = 120.0
CALLS = (("create", "status"), ("update",), ("list",), ("delete",))
"""What is asked after a change, one after another; ``status`` only because ``create`` was not answered."""


async def held_driver(folder: Path, cloud: Path, held: Path) -> asyncio.subprocess.Process:
    """The simulated cloud in a process of its own, with calls that can be held."""
    program = Path(__file__).with_name("held_driver.py")
    words = (f"unix:{folder}/manager/grpc/drivers.sock", f"{folder}/kubeconfig", str(cloud), str(held))
    return await asyncio.create_subprocess_exec(sys.executable, program, *words)


def hold(held: Path, verbs: Sequence[str]) -> None:
    """Let the next call of the first of these verbs have no answer, if there is one."""
    (held / "reached").unlink(missing_ok=True)
    (held / "hold").write_text(next(iter(verbs), ""))


async def reached(held: Path, verb: str) -> None:
    """Once the driver is at a call that it does not answer."""
    for _ in range(round(SECONDS / 0.05)):
        if await asyncio.to_thread((held / "reached").exists):
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"{verb} was not asked")


async def changed(embedded: Embedded, verb: str) -> int:
    """Change what is wanted so that the driver is asked ``verb``; how many machines are to run then."""
    match verb:
        case "update":
            tags = {"providerSpec": {"tags": {"team": "b"}}}
            await embedded.client.patch(MACHINE_CLASS, Key("default", "small"), tags)
            return 2
        case "list":  # which is asked every two seconds
            return 2
        case _:
            replicas = {"create": 2, "delete": 1}[verb]
            size = {"spec": {"replicas": replicas}}
            await embedded.client.patch(MACHINE_DEPLOYMENT, Key("default", "blue"), size)
            return replicas


def settled(count: int, verb: str) -> Callable[[list[Machine]], bool]:
    """So many machines run, each with a VM of its own, and with the tags of their class."""

    def wanted(machines: list[Machine]) -> bool:
        applied = (
            read(each.metadata.annotations.get(APPLIED_SPEC_ANNOTATION, "")) or {} for each in machines
        )
        tagged = verb != "update" or all(each.get("tags", {}).get("team") == "b" for each in applied)
        vms = {each.spec.provider_id for each in machines}
        return all_running(count)(machines) and len(vms) == count and tagged

    return wanted


@pytest.mark.parametrize("side", ["driver", "manager"])
async def test_whichever_side_is_killed_at_a_call_no_vm_is_lost_or_made_twice(
    side: str, tmp_path: Path
) -> None:
    folder, cloud, held = (tmp_path / each for each in ("up", "cloud", "held"))
    held.mkdir()
    async with server(folder) as embedded:
        driver, manager = await held_driver(folder, cloud, held), await manager_process(folder)
        try:
            await deploy(embedded, 0)
            for verbs in CALLS:
                hold(held, verbs)
                count = await changed(embedded, verbs[0])
                for place, verb in enumerate(verbs, 1):
                    await reached(held, verb)
                    hold(held, verbs[place:])
                    if side == "driver":
                        await killed(driver)
                        driver = await held_driver(folder, cloud, held)
                    else:
                        await killed(manager)
                        manager = await manager_process(folder)
                machines = await seen(embedded, settled(count, verbs[0]))
            nodes = [each.spec.provider_id for each in await embedded.client.list(NODE)]
            assert nodes == [each.spec.provider_id for each in machines]
        finally:
            for process in (manager, driver):
                await killed(process)
