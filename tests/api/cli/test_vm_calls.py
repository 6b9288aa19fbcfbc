"""What ``kubewright vm`` leaves: in front of controllers, after Ctrl-C, and when a driver fails for a while."""

import asyncio
import json
import signal
import sys
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path

import pytest

from kubewright.api.machine.v1alpha1 import MACHINE_CLASS
from kubewright.cli.switches import INTERRUPTED, Stopped
from kubewright.cli.vm import requests
from kubewright.cli.vm.calls import Patience, answered, unless_stopped
from kubewright.compose.options import Options
from kubewright.driver.contract import ClassRequest, stub
from kubewright.driver.errors import Code, DriverError, During
from kubewright.driver.life.orphans import OrphanSettings
from kubewright.testing.clocks import LoopClock
from kubewright.testing.stage import Borrowed, Stage, stage

KUBEWRIGHT = Path(sys.executable).parent / "kubewright"


# ------------------------------------------------------------------------------------------------ controllers


async def class_of(here: Stage) -> ClassRequest:
    return ClassRequest(await here.world.client.get(MACHINE_CLASS, here.world.key("small")))


async def test_a_controller_on_the_same_account_leaves_a_vm_that_was_made_by_hand() -> None:
    """One that was made for a Machine that is gone, with the same tags, shows that it looks."""
    often = OrphanSettings(timedelta(minutes=2), timedelta(minutes=1, seconds=30), timedelta(seconds=5))
    async with stage(Options(orphans=often)) as here, here.process():
        found = await class_of(here)
        by_hand = requests.machine_request(found, "by-hand")
        made = await Borrowed(here.cloud).create(by_hand)
        await Borrowed(here.cloud).create(found.of(stub("ghost", here.world.namespace, "gone")))
        await here.world.clock.sleep(3600)
        assert here.cloud.named("ghost") is None
        kept = await Borrowed(here.cloud).status(by_hand)
        assert kept.provider_id == made.provider_id


async def test_a_vm_that_was_made_by_hand_is_none_that_a_machine_of_its_name_takes() -> None:
    async with stage(Options()) as here:
        found = await class_of(here)
        await Borrowed(here.cloud).create(requests.machine_request(found, "m1"))
        with pytest.raises(DriverError) as refused:
            await Borrowed(here.cloud).create(found.of(stub("m1", here.world.namespace, "uid-of-a-machine")))
        assert refused.value.code is Code.AlreadyExists


# ------------------------------------------------------------------------------------------------ calls


def failing(*codes: Code) -> Callable[[str], Awaitable[str]]:
    """A call that fails with each code once, leaves a note, and answers the notes that it was given."""
    left, notes = list(codes), list[str]()

    async def call(state: str) -> str:
        notes.append(state)
        if left:
            code = left.pop(0)
            raise DriverError.of(code, f"it says {code.name}", last_known_state=f"note {len(notes)}")
        return "/".join(notes)

    return call


def patience(
    seconds: float = 60, during: During = During.CREATING, again: Code | None = None
) -> tuple[Patience, list[str]]:
    told: list[str] = []
    return Patience(during, seconds, lambda error: told.append(error.message), again), told


async def test_what_passes_is_tried_again_with_the_note_that_the_driver_left() -> None:
    clock, (how, told) = LoopClock(), patience()
    began = clock.monotonic()
    assert await answered(failing(Code.Unavailable, Code.Aborted), clock, how) == "/note 1/note 2"
    assert told == ["it says Unavailable", "it says Aborted"]
    assert clock.monotonic() - began == 10


@pytest.mark.parametrize(
    ("codes", "seconds"),
    [
        pytest.param([Code.InvalidArgument], 60, id="what lasts is told at once"),
        pytest.param([Code.ResourceExhausted], 60, id="and so is that there is no room"),
        pytest.param([Code.Unavailable] * 3, 12, id="what passes is told at the deadline"),
        pytest.param([Code.Unavailable], 0, id="or at the first time, where a user asks for one try"),
    ],
)
async def test_a_failure_ends_the_command(codes: list[Code], seconds: float) -> None:
    with pytest.raises(DriverError) as failed:
        await answered(failing(*codes), LoopClock(), patience(seconds)[0])
    assert failed.value.code is codes[-1]


async def test_an_initialization_that_has_to_go_on_goes_on() -> None:
    how, _ = patience(during=During.COMPLETING, again=Code.Uninitialized)
    assert await answered(failing(Code.Uninitialized), LoopClock(), how) == "/note 1"


async def test_work_that_ends_while_it_is_stopped_has_its_result() -> None:
    stop, told = asyncio.Event(), list[str]()

    async def stubborn() -> str:
        try:
            await asyncio.sleep(100)
        except asyncio.CancelledError:
            return "made"
        return "late"

    asyncio.get_running_loop().call_later(1, stop.set)
    assert await unless_stopped(stubborn(), stop, lambda: told.append("told")) == "made"
    assert told == ["told"]


async def test_work_that_is_stopped_has_none() -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().call_later(1, stop.set)
    with pytest.raises(Stopped):
        await unless_stopped(asyncio.sleep(100), stop, lambda: None)


# ------------------------------------------------------------------------------------------------ a process


def files(folder: Path, **spec: object) -> list[str]:
    """The switches of a class of the simulated cloud."""
    found = {
        "apiVersion": "machine.sapcloud.io/v1alpha1",
        "kind": "MachineClass",
        "metadata": {"name": "c"},
        "provider": "sim",
        "providerSpec": {"tags": {"c": "1"}, **spec},
    }
    (folder / "class.json").write_text(json.dumps(found))
    return ["--class", "class.json"]


async def ran(folder: Path, *words: str) -> tuple[int | None, str, str]:
    """Exit status and output of a command that is not interrupted."""
    asked = await started(folder, *words)
    out, err = await asked.communicate()
    return asked.returncode, out.decode(), err.decode()


async def started(folder: Path, *words: str) -> asyncio.subprocess.Process:
    pipe = asyncio.subprocess.PIPE
    return await asyncio.create_subprocess_exec(
        KUBEWRIGHT, "vm", *words, cwd=folder, stdout=pipe, stderr=pipe
    )


@pytest.mark.looptime(False)
async def test_ctrl_c_in_a_creation_says_what_may_exist_and_how_to_look(tmp_path: Path) -> None:
    """The cloud has made it, and the answer was lost."""
    lost = {"operation": "create", "code": "Unavailable", "message": "a lost answer", "afterSuccess": True}
    words = files(tmp_path, faults=[lost])
    async with asyncio.timeout(40):
        process = await started(tmp_path, "create", "m1", *words)
        assert process.stderr is not None
        assert await process.stderr.readline() == b"note: a lost answer; trying again\n"
        process.send_signal(signal.SIGINT)
        out, err = await process.communicate()
        look = "status m1 --class class.json --driver sim"
        told = f"stopped; a VM of it may exist: look with `kubewright vm {look}`\n"
        assert (process.returncode, out, err.decode()) == (INTERRUPTED, b"", told)
        status, shown, _ = await ran(tmp_path, *look.split())
    assert status == 0
    assert shown.startswith("Machine id: sim:///sim-1/vm-000001\nName: m1\n")


@pytest.mark.looptime(False)
async def test_a_folder_that_another_process_works_on_is_refused(tmp_path: Path) -> None:
    lost = {"operation": "create", "message": "busy"}
    words = files(tmp_path, faults=[lost])
    async with asyncio.timeout(40):
        process = await started(tmp_path, "create", "m1", *words)
        assert process.stderr is not None
        await process.stderr.readline()
        status, _, told = await ran(tmp_path, "list", *words)
        process.send_signal(signal.SIGTERM)
        await process.communicate()
    assert status == 1
    assert f"database is locked by process {process.pid}" in told
