"""What the driver for QEMU adds to QEMU's own work: VMs of 32 MiB whose guest is a boot sector.

Theory.      A VM that is made costs what its programs cost (``qemu-img``, and QEMU until it answers), and
             what the driver does beside them. The programs are run by hand with the very command line that
             the driver wrote on record, in a folder of their own, and the difference of the medians is the
             driver's. Then many VMs are made at once, as a set of machines asks for them; our memory and
             processor time are those of this process, in which nothing but the driver works.
Invariants.  Real QEMU under TCG; no network. Nothing is left: the VMs go in the end, also after an error.
Called by    ``python -m bench vms``.
"""

import asyncio
import logging
import os
import resource
import shutil
import statistics
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from math import nan
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import structlog
from rich.console import Console

from bench.planes.memory import value
from bench.table import Budget, beside
from kubewright.api.machine.v1alpha1 import MachineClass
from kubewright.api.meta import ObjectMeta
from kubewright.base.clock import SystemClock
from kubewright.driver.contract import ClassRequest, MachineRequest, stub
from kubewright.driver.registry import Settings
from kubewright.providers.qemu import driver
from kubewright.providers.qemu.driver import QemuDriver
from kubewright.providers.qemu.host import LINE, answers, boot_sector, said_by
from kubewright.providers.qemu.vms import RECORD, Vm

NEEDED = ("qemu-system-x86_64", "qemu-img")
CLOCK = SystemClock()
ALONE = 7
"""VMs that are made one after another, by us and by hand, for the medians."""
SPEC = {"image": "tiny", "memory": "32Mi", "disk": "1Mi", "architecture": "amd64", "accelerator": "tcg"}


@dataclass(slots=True)
class Result:
    """nan: not measured.

    ``made``, ``by_hand``  seconds for one VM, by the driver and by its programs alone
    ``many``     seconds until all of ``count`` run;  ``gone``  until all are deleted
    ``cpu``, ``memory``    seconds of our processor time, and MiB that we grew by, for each of them
    """

    count: int
    made: float = nan
    by_hand: float = nan
    many: float = nan
    cpu: float = nan
    memory: float = nan
    gone: float = nan


async def measure(_world: str, keep: Callable[[Result], None], count: int) -> None:
    """Make VMs alone and at once; ``keep`` has the result from the beginning."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    result = Result(count)
    keep(result)
    with TemporaryDirectory() as folder:
        (images := Path(folder, "images")).mkdir()
        (images / "tiny").write_bytes(boot_sector(LINE))
        made = driver(Settings(CLOCK, Path(folder), {"images": str(images), "vms": "1000"}))
        try:
            await _alone(made, Path(folder), result)
            await _at_once(made, result)
        finally:
            await _clear(made)
            await made.close()


async def _alone(made: QemuDriver, folder: Path, result: Result) -> None:
    await made.create(_request("warm"))  # what is found once: the version of QEMU, whether KVM works
    await made.delete(_request("warm"))
    ours, theirs = [], []
    for number in range(ALONE):
        began = time.perf_counter()
        await made.create(_request(f"alone-{number}"))
        ours.append(time.perf_counter() - began)
        vm = await asyncio.to_thread(_record_of, folder, f"alone-{number}")
        await made.delete(_request(f"alone-{number}"))
        theirs.append(await _by_hand(vm, folder))
    result.made, result.by_hand = statistics.median(ours), statistics.median(theirs)


def _record_of(folder: Path, name: str) -> Vm:
    (record,) = folder.glob(f"qemu/vms/{name}-*/{RECORD}")
    return msgspec.json.decode(record.read_bytes(), type=Vm)


async def _by_hand(vm: Vm, folder: Path) -> float:
    """Seconds from nothing until QEMU answers, without the driver."""
    (own := folder / "by-hand").mkdir()
    (own / "seed.iso").write_bytes(bytes(64 * 1024))
    began = time.perf_counter()
    image = str(folder / "images" / "tiny")
    disk = str(own / "disk.qcow2")
    await said_by("qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b", image, disk, "1M")
    none = asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(*vm.argv, cwd=own, stdin=none, stdout=none, stderr=none)
    try:
        async with asyncio.timeout(30):
            while not await answers(own / "qmp"):
                await CLOCK.sleep(0.005)
        return time.perf_counter() - began
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        shutil.rmtree(own)


async def _at_once(made: QemuDriver, result: Result) -> None:
    requests = [_request(f"many-{number}") for number in range(result.count)]
    before, cpu, began = _resident(), _cpu(), time.perf_counter()
    await asyncio.gather(*map(made.create, requests))
    result.many = time.perf_counter() - began
    result.cpu = (_cpu() - cpu) / result.count
    result.memory = (_resident() - before) / result.count
    began = time.perf_counter()
    await asyncio.gather(*map(made.delete, requests))
    result.gone = time.perf_counter() - began


async def _clear(made: QemuDriver) -> None:
    for each in await made.list(_class()):
        left = stub(each.machine_name, "bench", each.owner_uid, provider_id=each.provider_id)
        await made.delete(_class().of(left))


def _class() -> ClassRequest:
    return ClassRequest(
        MachineClass(metadata=ObjectMeta(name="tiny", namespace="bench"), provider="qemu", provider_spec=SPEC)
    )


def _request(name: str) -> MachineRequest:
    return _class().of(stub(name, "bench", f"uid-{name}"))


def _resident() -> float:
    return value(Path(f"/proc/{os.getpid()}/status"), "VmRSS:")


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def missing() -> str:
    """Which of QEMU's programs is not installed; empty: none is missing."""
    return next((each for each in NEEDED if shutil.which(each) is None), "")


def show(result: Result, console: Console) -> None:
    """Print the table."""
    lines = [
        Budget("one VM: asked for until QEMU runs", "s", None, result.made),
        Budget("the same by hand: qemu-img and QEMU", "s", None, result.by_hand),
        Budget("what the driver adds", "s", 0.3, result.made - result.by_hand),
        Budget(f"{result.count} at once: all run", "s", None, result.many),
        Budget("our processor time for each", "s", None, result.cpu),
        Budget("our memory for each", "MiB", 0.3, result.memory),
        Budget("all deleted", "s", None, result.gone),
    ]
    console.print(beside("VMs of driver qemu, without KVM", ["qemu"], [lines]))
