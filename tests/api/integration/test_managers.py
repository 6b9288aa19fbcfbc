"""The manager under test: processes that are started with logs, one that holds the Lease already, and what explain adds."""

import asyncio
import sys
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar, cast

import pytest

from kubewright.api.core import LEASE
from kubewright.api.machine.names import MACHINES_LEASE
from kubewright.api.machine.v1alpha1 import MACHINE, MACHINE_CLASS, MachineClass
from kubewright.base.clock import rfc3339_micro
from kubewright.base.errors import InvalidInput
from kubewright.cli.driver.trial import Asked, explained
from kubewright.driver.contract import ClassRequest, Instance
from kubewright.driver.errors import Code, DriverError
from kubewright.integration.bench import Bench, CaseFailed, Settings
from kubewright.integration.cases import create_machine
from kubewright.integration.managers import Local, Program, Running, last_line
from kubewright.integration.report import Outcome
from kubewright.integration.tracker import FolderTracker, Tracked
from kubewright.kube.client import Client
from kubewright.providers.sim import manifests
from kubewright.testing.clocks import LoopClock
from kubewright.testing.stage import Borrowed
from kubewright.testing.world import embedded_world
from kubewright.wire.gvk import Key

from .clusters import NAMESPACE, Lab, lab, message, outcomes
from .test_setting_up_and_ending import Started

T = TypeVar("T")

SLEEPS = "import sys, time; print('begun', flush=True); sys.stdin.read(); getattr(time, 'sleep')(600)"
STUBBORN = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {SLEEPS}"
ENDS = "import sys; print('no disk'); print(); sys.exit(3)"


def program(name: str, code: str) -> Program:
    return Program(name, [sys.executable, "-c", code], f"{name}.log")


async def until(told: Callable[[], T]) -> T:
    """What is told once it is more than nothing: files and processes of others have to be asked."""
    async with asyncio.timeout(20):
        while True:
            if answer := told():
                return answer
            await asyncio.sleep(0.02)


async def until_it_says(path: Path, word: str) -> None:
    await until(lambda: word in last_line(path))


@pytest.mark.looptime(False)
async def test_processes_are_started_with_logs_and_ended_and_one_that_has_ended_is_told_of(
    tmp_path: Path,
) -> None:
    logs = tmp_path / "logs"
    managers = Local([program("one", SLEEPS), program("two", ENDS)], logs)
    assert managers.told == f"the manager is started here; its logs are {logs}/one.log and {logs}/two.log"
    await managers.start()
    await until_it_says(logs / "one.log", "begun")
    assert await until(managers.dead) == ["two has ended with status 3: no disk"]
    await managers.start()
    assert (logs / "two.log").read_text().count("no disk") in (1, 2), "its log goes on"
    assert not (logs / "two.log.1").exists()
    await managers.stop()
    assert any(told.startswith("one has ended with status -15") for told in managers.dead())
    again = Local([program("one", SLEEPS)], logs)
    await again.start()
    again.kill()
    await again.stop()
    assert (logs / "one.log.1").read_text() == "begun\n"


LASTS = "import socket; one = socket.create_connection(('127.0.0.1', {port})); one.sendall(b'x'); one.recv(1)"
TEST = """
import asyncio, sys
from pathlib import Path
from kubewright.integration.managers import Local, Program

async def main(code, logs):
    await Local([Program("m", [sys.executable, "-c", code], "m.log")], Path(logs)).start()
    await asyncio.Event().wait()

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.mark.looptime(False)
async def test_a_manager_does_not_outlive_a_test_that_is_killed(tmp_path: Path) -> None:
    """It would hold its Leases, and the next test would be refused."""
    met = asyncio.Queue[tuple[asyncio.StreamReader, asyncio.StreamWriter]]()
    server = await asyncio.start_server(lambda *ends: met.put_nowait(ends), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    test = await asyncio.create_subprocess_exec(
        sys.executable, "-c", TEST, LASTS.format(port=port), str(tmp_path)
    )
    async with asyncio.timeout(30), server:
        reader, writer = await met.get()
        try:
            assert await reader.read(1) == b"x"
            test.kill()
            await test.wait()
            assert await reader.read() == b""
        finally:
            writer.close()


@pytest.mark.looptime(False)
async def test_what_cannot_be_started_is_said(tmp_path: Path) -> None:
    managers = Local([Program("one", ["/no/such/program"], "one.log")], tmp_path)
    with pytest.raises(InvalidInput, match="cannot start one: "):
        await managers.start()
    (tmp_path / "file").touch()
    with pytest.raises(InvalidInput, match="cannot start one: "):
        await Local([program("one", ENDS)], tmp_path / "file").start()


async def test_a_manager_that_runs_already_is_neither_begun_nor_ended() -> None:
    running = Running()
    await running.start()
    await running.stop()
    running.kill()
    assert (running.dead(), running.starts) == ((), False)


async def held(here: Lab, client: Client) -> None:
    """Another manager's Lease, renewed just now, for 15 seconds."""
    now = rfc3339_micro(here.here.world.clock.now())
    spec = {"holderIdentity": "mcm-7d9", "leaseDurationSeconds": 15, "renewTime": now}
    meta = {"name": MACHINES_LEASE, "namespace": NAMESPACE}
    await client.create(LEASE, {"metadata": meta, "spec": spec})


async def test_a_lease_of_a_manager_that_was_killed_is_waited_for(tmp_path: Path) -> None:
    async with lab(tmp_path) as here:
        await held(here, here.here.world.client)
        report = await here.test(managers=Started()).run()
        assert report.well
        assert here.lines.count("waiting for Lease machine-controller is held by mcm-7d9") == 2


async def test_another_manager_that_runs_ends_the_test_before_it_begins(tmp_path: Path) -> None:
    async with lab(tmp_path) as here:
        client, clock = here.here.world.client, here.here.world.clock
        await held(here, client)

        async def renew() -> None:
            while True:
                await clock.sleep(5)
                body = {"spec": {"renewTime": rfc3339_micro(clock.now() + timedelta(seconds=0))}}
                await client.patch(LEASE, Key(NAMESPACE, MACHINES_LEASE), body)

        renewing = asyncio.create_task(renew())
        meta = {"name": "test-machine", "namespace": NAMESPACE, "labels": {"test-label": "test-label"}}
        spec = {"class": {"kind": "MachineClass", "name": "small"}}
        await client.create(MACHINE, {"metadata": meta, "spec": spec})
        report = await here.test(managers=Started()).run()
        renewing.cancel()
        of_the_other = [each for each in await client.list(MACHINE, NAMESPACE) if not each.metadata.deleting]
        assert [each.name for each in of_the_other] == ["test-machine"], "that manager may be of another test"
        assert outcomes(report) == {"set-up": Outcome.ERROR}
        assert message(report, "set-up") == (
            "another manager runs already: Lease machine-controller is held by mcm-7d9. "
            "End it, or test it without starting one"
        )


async def test_a_case_that_fails_says_what_explain_concludes() -> None:
    async with embedded_world() as world:
        body = manifests.machine_class("test-mc-v1", NAMESPACE, more={"lifecycle": {"joins": False}})
        await world.client.create(MACHINE_CLASS, body)
        asked = Asked(None, None, Settings(namespace=NAMESPACE))

        async def explain(_kind: str, name: str) -> Sequence[str]:
            return await explained(world.client, asked, name)

        bench = Bench(world.client, world.client, asked.settings, lambda _line: None, explain)
        with pytest.raises(CaseFailed) as failed:
            await create_machine(bench)
        assert (
            "explain: its VM exists, its node has not joined; explain: it waits for Node test-machine; see"
            in str(failed.value)
        )
        assert await explain("machine", "nothing") == ()


class Folder:
    """A driver on a folder that one process at a time may work on; here it looks whether the manager rests."""

    def __init__(self, managers: Started, vms: Sequence[Instance]) -> None:
        self.managers, self.vms, self.closed = managers, vms, False

    async def list(self, _request: ClassRequest) -> Sequence[Instance]:
        assert self.managers.running == 0
        return self.vms


async def test_the_manager_rests_while_a_driver_with_a_folder_is_asked() -> None:
    managers, vms, opened = Started(), [Instance("x:///1", "n")], list[Folder]()

    def load() -> Any:
        opened.append(Folder(managers, tuple(vms)))
        return opened[-1]

    async def close(driver: Any) -> None:
        driver.closed = True

    await managers.start()
    tracker = FolderTracker(load, close, managers, LoopClock())
    await tracker.initialize_resources_tracker(MachineClass(), {}, "")
    assert await tracker.is_orphaned_resources_available() == []
    vms.append(Instance("x:///2", "m", machine_name="m"))
    assert await tracker.is_orphaned_resources_available() == ["VM x:///2 of machine m"]
    assert managers.running == 1
    assert all(each.closed for each in opened)
    assert Tracked(tracker).pause == 30


class Dialled(Folder):
    """One in other processes, of which one dials in three seconds after this one leads, if it ``comes``."""

    comes = leads = there = False

    async def lead(self) -> None:
        self.leads = True
        try:
            await asyncio.sleep(3)
            self.there = self.comes
            await asyncio.Event().wait()
        finally:
            self.leads = self.there = False

    async def list(self, request: ClassRequest) -> Sequence[Instance]:
        if not self.there:
            raise DriverError.of(Code.Unavailable, "no driver for it is connected", begun=False)
        return await super().list(request)


@pytest.mark.parametrize("comes", [True, False])
async def test_drivers_in_other_processes_dial_in_here_while_the_manager_rests(*, comes: bool) -> None:
    managers, clock = Started(), LoopClock()
    driver = Dialled(managers, [Instance("x:///1", "n")])
    driver.comes = comes

    async def close(_driver: Any) -> None:
        assert not driver.leads

    await managers.start()
    tracked = Tracked(FolderTracker(lambda: cast("Any", driver), close, managers, clock))
    tracker = cast("FolderTracker", tracked.tracker)
    if comes:
        await tracker.initialize_resources_tracker(MachineClass(), {}, "")
        assert await tracked.left() == []
    else:
        with pytest.raises(DriverError, match="no driver for it is connected"):
            await tracker.initialize_resources_tracker(MachineClass(), {}, "")
        assert 30 <= clock.monotonic() < 31
    assert (managers.running, driver.leads) == (1, False)


async def test_a_driver_that_cannot_be_asked_beside_its_manager_has_no_tracker_and_says_why(
    tmp_path: Path,
) -> None:
    class Locked(Borrowed):
        async def list(self, _request: ClassRequest) -> Sequence[Instance]:
            raise InvalidInput("another process works on the VMs in vms; end it first")

    async with lab(tmp_path, Locked) as here:
        report = await here.test().run()
        assert outcomes(report)["orphans"] is Outcome.SKIPPED
        assert message(report, "orphans").startswith(
            "the driver cannot list its VMs here: another process works"
        )
