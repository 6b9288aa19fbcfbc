"""VMs that were booted beforehand: who gets them, what they are told, and when they go."""

import asyncio
import io
import json
import os
import signal
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import structlog
from pycdlib import PyCdlib

from kubewright.base.errors import InvalidInput
from kubewright.processes import record
from kubewright.providers.qemu import host
from kubewright.providers.qemu.driver import WOKEN
from kubewright.providers.qemu.spec import parse_spec
from kubewright.providers.qemu.warm import shape_of

from .bench import SPEC, QemuBench, opened

pytestmark = pytest.mark.looptime(False)
SECONDS = 20


class WarmBench(QemuBench):
    """Its driver's round for VMs that wait is the test's, since the test says when."""

    @property
    def warm(self) -> list[Path]:
        """The folders of VMs that wait, or come to."""
        return [each for each in sorted((self.folder / "qemu" / "warm").glob("*")) if each.is_dir()]

    def ask_for(self, count: int, **spec: object) -> None:
        wanted = [{"count": count, "providerSpec": {**SPEC, **spec}}] if count else []
        (self.folder / "warm.yaml").write_text(json.dumps(wanted))

    async def until(self, fits: Callable[[], object]) -> None:
        """Let the driver run until it fits."""
        running = asyncio.create_task(self.made.run(None))
        async with asyncio.timeout(SECONDS):
            while not fits() and not running.done():
                await self.clock.sleep(0.02)
        running.cancel()
        await asyncio.wait([running])

    def still(self) -> list[Path]:
        return [each for each in self.warm if (each / "stopped").exists()]

    async def close(self) -> None:
        for each in self.warm:
            if (known := record.read(each)) is not None and known.pid:
                os.kill(known.pid, signal.SIGKILL)
        await super().close()


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[WarmBench]:
    programs = tmp_path / "programs"
    programs.mkdir()
    (tmp_path / "warm.yaml").write_text("[]")
    async with opened(tmp_path, str(programs), of=WarmBench, warm=str(tmp_path / "warm.yaml")) as found:
        found.install_fakes(programs)
        yield found


async def waiting(bench: WarmBench, count: int = 1, **spec: object) -> None:
    """So many VMs wait, after a restart."""
    bench.ask_for(count, **spec)
    await bench.restarted()
    await bench.until(lambda: bench.made.waiting == count)


def runs(pid: int) -> bool:
    return Path(f"/proc/{pid}/cwd").exists()


def told(folder: Path) -> dict[str, object]:
    """What the seed of a VM says of its machine."""
    image, found = PyCdlib(), io.BytesIO()
    image.open_fp(io.BytesIO((folder / "seed.iso").read_bytes()))
    image.get_file_from_iso_fp(found, rr_path="/meta-data")
    image.close()
    return json.loads(found.getvalue())


async def test_a_machine_gets_a_vm_that_has_waited_and_its_guest_is_told_what_it_is(bench: WarmBench) -> None:
    await waiting(bench)
    (before,) = bench.warm
    seed, pid = (before / "seed.iso").stat(), record.read(before)
    made = await bench.made.create(bench.request(userData=b"#cloud-config\n{}\n"))
    (folder,) = bench.vm_folders
    assert (made.last_known_state, made.node_name, made.owner_uid) == (WOKEN, "m1", "uid-m1")
    assert made.provider_id == f"qemu:///local/{before.name}"
    assert told(folder) == {
        "instance-id": before.name,
        "local-hostname": "m1",
        "provider_id": made.provider_id,
    }
    now = (folder / "seed.iso").stat()
    assert (now.st_ino, now.st_size) == (seed.st_ino, seed.st_size)  # QEMU has this very file open
    assert record.read(folder) == pid
    assert [each["status"] for each in await host.ask(folder / "qmp", "query-status")] == ["running"]
    assert bench.warm == []


async def test_vms_are_listed_found_and_deleted_as_any_once_they_were_woken(bench: WarmBench) -> None:
    await waiting(bench)
    assert await bench.made.list(bench.machine_class) == []
    made = await bench.made.create(bench.request())
    assert [each.provider_id for each in await bench.made.list(bench.machine_class)] == [made.provider_id]
    assert await bench.made.list(bench.other_class) == []
    driver = await bench.restarted()
    assert (await driver.status(bench.request())).last_known_state == WOKEN
    await driver.delete(bench.request())
    assert bench.vm_folders == []


async def test_no_two_machines_get_the_same_vm(bench: WarmBench) -> None:
    await waiting(bench, 2)
    made = await asyncio.gather(*(bench.made.create(bench.request(f"m{each}")) for each in range(4)))
    assert len({each.provider_id for each in made}) == len(bench.vm_folders) == 4
    assert sorted(each.last_known_state for each in made) == ["", "", WOKEN, WOKEN]


@pytest.mark.parametrize("other", [{"memory": "48Mi"}, {"cpus": 2}, {"disk": "2Mi"}])
async def test_a_machine_of_another_shape_gets_a_vm_of_its_own(
    bench: WarmBench, other: dict[str, object]
) -> None:
    await waiting(bench)
    made = await bench.made.create(bench.request(of=bench.class_of(**other)))
    assert made.last_known_state == ""
    assert len(bench.warm) == 1
    await bench.made.delete(bench.request(of=bench.class_of(**other)))


@pytest.mark.parametrize("data", [b'{"ignition": {"version": "3.4.0"}}', b"#cloud-config\n" + bytes(600_000)])
async def test_what_a_waiting_guest_cannot_read_boots_a_vm_of_its_own(bench: WarmBench, data: bytes) -> None:
    await waiting(bench)
    assert (await bench.made.create(bench.request(userData=data))).last_known_state == ""
    assert len(bench.warm) == 1


async def test_those_that_wait_are_found_by_the_next_process(bench: WarmBench) -> None:
    await waiting(bench, 2)
    before = bench.warm
    await bench.restarted()
    await bench.until(lambda: bench.made.waiting == 2)
    assert bench.warm == before
    assert (await bench.made.create(bench.request())).last_known_state == WOKEN


async def test_those_that_no_file_asks_for_any_more_are_removed(bench: WarmBench) -> None:
    await waiting(bench, 2)
    pids = [found.pid for each in bench.warm if (found := record.read(each)) is not None]
    bench.ask_for(1)
    await bench.restarted()
    await bench.until(lambda: len(bench.warm) == 1)
    bench.ask_for(0)
    await bench.restarted()
    await bench.until(lambda: not bench.warm)
    assert [each for each in pids if runs(each)] == []


async def test_what_has_ended_is_replaced(bench: WarmBench) -> None:
    await waiting(bench)
    (before,) = bench.warm
    known = record.read(before)
    assert known is not None
    os.kill(known.pid, signal.SIGKILL)
    await bench.until(lambda: bench.still() not in ([], [before]))


async def test_one_that_was_told_of_a_machine_and_not_moved_is_removed(bench: WarmBench) -> None:
    """As a process leaves it that ends in the middle: the machine is made anew, and gets another VM."""
    await waiting(bench)
    (before,) = bench.warm
    await bench.made.close()
    known = before / "vm.json"
    known.write_text(json.dumps(json.loads(known.read_text()) | {"name": "m1", "namespace": "ns"}))
    await bench.restarted()
    await bench.until(lambda: bench.still() not in ([], [before]))
    assert not before.exists()


async def test_one_whose_record_cannot_be_read_is_removed_since_no_machine_can_be_meant(
    bench: WarmBench,
) -> None:
    await waiting(bench)
    (before,) = bench.warm
    (before / "vm.json").write_text("{")
    await bench.restarted()
    await bench.until(lambda: bench.made.waiting == 1)
    assert not before.exists()
    assert (await bench.made.create(bench.request())).last_known_state == WOKEN


async def test_one_that_was_moved_and_stands_still_goes_on_with_the_next_process(bench: WarmBench) -> None:
    await waiting(bench)
    await bench.made.create(bench.request())
    (folder,) = bench.vm_folders
    await host.ask(folder / "qmp", "stop")
    await bench.restarted()
    await bench.made.status(bench.request())
    assert not (folder / "stopped").exists()


def test_a_new_kernel_is_another_shape(tmp_path: Path) -> None:
    image, kernel = tmp_path / "image", tmp_path / "kernel"
    spec = parse_spec({**SPEC, "kernel": "kernel"})
    for each in (image, kernel):
        each.write_bytes(b"one")
    before = shape_of(spec, ["-kernel"], (image, kernel))
    assert shape_of(spec, ["-kernel"], (image, kernel)) == before
    kernel.write_bytes(b"another")
    assert shape_of(spec, ["-kernel"], (image, kernel)) != before


async def test_those_that_wait_are_removed_when_their_image_is_another_one(bench: WarmBench) -> None:
    await waiting(bench)
    (before,) = bench.warm
    os.utime(bench.images / "tiny", (1, 1))
    assert (await bench.made.create(bench.request())).last_known_state == ""
    await bench.made.delete(bench.request())
    await bench.until(lambda: bench.still() not in ([], [before]))
    assert not before.exists()


async def test_a_vm_that_does_not_wake_leaves_nothing_and_another_one_is_made(bench: WarmBench) -> None:
    await waiting(bench)
    (before,) = bench.warm
    (before / "seed.iso").unlink()
    made = await bench.made.create(bench.request())
    assert made.last_known_state == ""
    assert not before.exists()
    assert len(bench.vm_folders) == 1


async def test_those_that_wait_give_way_to_machines_and_come_back_when_there_is_room(tmp_path: Path) -> None:
    (programs := tmp_path / "programs").mkdir()
    (tmp_path / "warm.yaml").write_text("[]")
    options = {"warm": str(tmp_path / "warm.yaml"), "memory": "600Mi"}  # two of 32 MiB and what QEMU takes
    async with opened(tmp_path, str(programs), of=WarmBench, **options) as bench:
        bench.install_fakes(programs)
        await waiting(bench, 1)
        other = bench.class_of(disk="2Mi")
        await bench.made.create(bench.request("m1", of=other))
        assert len(bench.warm) == 1
        await bench.made.create(bench.request("m2", of=other))
        assert bench.warm == []
        await bench.made.delete(bench.request("m2", of=other))
        await bench.made.delete(bench.request("m1", of=other))
        await bench.until(lambda: bench.made.waiting == 1)


async def test_none_boots_to_wait_while_a_machine_boots(bench: WarmBench) -> None:
    await bench.made.create(bench.request())
    bench.ask_for(1)
    await bench.restarted()
    await bench.until(lambda: bench.clock.rounds > 5)
    assert bench.warm == []
    await bench.made.delete(bench.request())
    await bench.until(lambda: bench.made.waiting == 1)


async def test_a_machine_keeps_its_vm_though_the_round_that_saw_it_wait_is_not_at_its_end(
    bench: WarmBench,
) -> None:
    await waiting(bench, 2)
    hung, _ = bench.warm
    (hung / "says").write_bytes(b"5\n")
    await bench.restarted()
    running = asyncio.create_task(bench.made.run(None))
    try:
        async with asyncio.timeout(SECONDS):
            while bench.made.waiting != 1:
                await bench.clock.sleep(0.01)
            (hung / "hangs").touch()
            while not (hung / "hung").exists():
                await bench.clock.sleep(0.01)
            made = await bench.made.create(bench.request())
            (hung / "hangs").unlink()
            rounds = bench.clock.rounds
            while bench.clock.rounds < rounds + 2:
                await bench.clock.sleep(0.01)
    finally:
        running.cancel()
        await asyncio.wait([running])
    assert made.last_known_state == WOKEN
    (folder,) = bench.vm_folders
    assert [each["status"] for each in await host.ask(folder / "qmp", "query-status")] == ["running"]
    assert bench.warm == [hung]


@pytest.mark.parametrize(
    "says",
    [
        b"",
        b"5\n",
        b"[]\n",
        b"null\n",
        b'{"return": 5}\n',
        b'{"return": {"status": 5}}\n',
        b'{"error": "no"}\n',
        b'{"error": null}\n',
        b"\xff\n",
        b"{\n",
        b"[" * 100_000 + b"\n",
        b"x" * 300_000,
        b'{"event": "STOP"}\n' * 1_000 + b"5\n",
    ],
)
async def test_qemus_nonsense_is_an_error_of_its_own(tmp_path: Path, says: bytes) -> None:
    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b'{"QMP": {}}\n')
        await reader.readline()
        writer.write(b'{"return": {}}\n')
        await reader.readline()
        writer.write(says)
        writer.close()

    async with await asyncio.start_unix_server(speak, tmp_path / "qmp"):
        with pytest.raises(host.QmpError):
            await host.status(tmp_path / "qmp")


async def test_a_vm_whose_qemu_talks_nonsense_makes_no_round_fail_and_is_replaced(bench: WarmBench) -> None:
    await waiting(bench)
    (before,) = bench.warm
    (before / "says").write_bytes(b'{"return": 5}\n')
    known = before / "vm.json"
    known.write_text(json.dumps(json.loads(known.read_text()) | {"made": 1.0}))
    await bench.restarted()
    await bench.until(lambda: not before.exists())
    assert not before.exists()


async def test_one_that_ends_before_it_waits_is_not_booted_again_and_again(bench: WarmBench) -> None:
    await waiting(bench, 1)
    (bench.folder / "qemu" / "warm" / "ends").touch()
    bench.ask_for(1, cpus=2)
    await bench.restarted()
    made: set[Path] = set()
    await bench.until(lambda: made.update(bench.warm) or bench.clock.rounds > 60)
    assert len(made) == 2  # the one of another shape, which was there, and one try


async def test_entries_that_say_the_same_are_added_up(bench: WarmBench) -> None:
    entry = {"count": 1, "providerSpec": SPEC}
    tagged = {"count": 1, "providerSpec": {**SPEC, "tags": {"vm": {"a": "b"}}}}
    (bench.folder / "warm.yaml").write_text(json.dumps([entry, tagged]))
    await bench.restarted()
    await bench.until(lambda: bench.made.waiting == 2)


async def test_those_that_wait_stay_while_their_image_is_not_there_for_a_moment(bench: WarmBench) -> None:
    await waiting(bench)
    before = bench.warm
    (bench.images / "tiny").rename(bench.images / "aside")
    running = asyncio.create_task(bench.made.run(None))
    rounds = bench.clock.rounds
    async with asyncio.timeout(SECONDS):
        while bench.clock.rounds < rounds + 3:
            await bench.clock.sleep(0.01)
    running.cancel()
    await asyncio.wait([running])
    (bench.images / "aside").rename(bench.images / "tiny")
    assert bench.still() == before
    assert (await bench.made.create(bench.request())).last_known_state == WOKEN


async def test_what_is_wrong_is_logged_once_and_not_each_round(bench: WarmBench) -> None:
    broken = [{"count": 1, "providerSpec": {**SPEC, "image": each}} for each in ("one", "two")]
    (bench.folder / "warm.yaml").write_text(json.dumps(broken))
    await bench.restarted()
    with structlog.testing.capture_logs() as said:
        await bench.until(lambda: bench.clock.rounds > 3)
    told = [each["why"] for each in said if "no VM waits" in each["event"]]
    assert [each.split(" in ")[0] for each in told] == ["there is no image one", "there is no image two"]


async def test_a_woken_vm_that_is_found_standing_still_goes_on_in_a_later_round(bench: WarmBench) -> None:
    """QEMU may not answer in the moment in which the next process finds it."""
    await waiting(bench)
    await bench.made.create(bench.request())
    (folder,) = bench.vm_folders
    await host.ask(folder / "qmp", "stop")
    bench.clock.rests.clear()
    await bench.tended()
    assert not (folder / "stopped").exists()


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("- count: 0\n  providerSpec: {image: tiny}", "count"),
        ("- providerSpec: {image: tiny}", "count"),
        ("- count: 1\n  providerSpec: {imag: tiny}", "providerSpec: .*imag"),
        ("- count: 1\n  providerSpec: {image: tiny, memory: 1}", "memory"),
        ("- count: 1\n  class: tiny", "class"),
        ("count: 1", "array"),
        ("[", "line"),
        (f"# {'x' * 2**20}", "more than 1024 KiB"),
        ("[{count: 30, providerSpec: {image: a}}, {count: 30, providerSpec: {image: b}}]", "more than 50"),
    ],
)
def test_a_file_that_says_what_cannot_be_is_refused_at_the_start(
    tmp_path: Path, content: str, says: str
) -> None:
    (tmp_path / "warm.yaml").write_text(content)
    with pytest.raises(InvalidInput, match=rf"driver qemu: warm: .*warm\.yaml: .*{says}") as error:
        QemuBench(tmp_path, "", warm=str(tmp_path / "warm.yaml"))
    assert "machine codes error" not in str(error.value)


def test_a_file_that_is_not_there_is_refused_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"no-file: .*No such file"):
        QemuBench(tmp_path, "", warm="/no-file")
