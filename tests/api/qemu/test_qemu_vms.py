"""What becomes of VMs when QEMU ends, when Kubewright restarts, and when there is no room."""

import asyncio
import json
import os
import signal
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec import structs

from kubewright.base.errors import InvalidInput
from kubewright.driver.contract import ClassRequest, stub
from kubewright.driver.errors import Code, DriverError, Exhausted, InvalidArgument, NotFound
from kubewright.processes import record
from kubewright.providers.qemu import host, vms
from kubewright.providers.qemu.host import LINE
from kubewright.testing.scenes import class_request

from . import fake_programs
from .bench import QemuBench, opened

pytestmark = pytest.mark.looptime(False)
SECONDS = 20
TAGS, OTHER = ({"tags": {"vm": {f"kubernetes.io/cluster/{each}": "1"}}} for each in ("one", "two"))


@pytest.fixture
async def bench(tmp_path: Path, programs: str) -> AsyncIterator[QemuBench]:
    async with opened(tmp_path, programs) as found:
        yield found


def pid_of(bench: QemuBench, number: int = 0) -> int:
    found = record.read(bench.vm_folders[number])
    assert found is not None
    return found.pid


def state_of(pid: int) -> str:
    """As the kernel says: ``Z`` has ended; empty: there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return ""


def kill_unwatched(pid: int) -> None:
    """End a VM of which no driver knows, and wait for it."""
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def silent(programs: Path) -> None:
    """A QEMU that runs and never answers; it says its process's id."""
    says = (
        'case "$*" in *--version*) echo "QEMU emulator version 7.2.0"; exit;; esac; echo $$; exec sleep 600'
    )
    (programs / "qemu-system-x86_64").write_text(f"#!/bin/sh\n{says}\n")


def told(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_text()


async def until(bench: QemuBench, state: str) -> None:
    """Wait until the VM says so, with its last known state."""
    async with asyncio.timeout(SECONDS):
        while state not in (await bench.made.status(bench.request())).last_known_state:
            await bench.clock.sleep(0.02)


async def test_a_guest_boots_and_its_console_is_kept(bench: QemuBench) -> None:
    await bench.made.create(bench.request())
    folder = bench.vm_folders[0]
    async with asyncio.timeout(SECONDS):
        while not any(LINE in line for line in record.last_lines(folder)):
            await bench.clock.sleep(0.02)
    assert [each["status"] for each in await host.ask(folder / "qmp", "query-status")] == ["running"]


async def test_the_console_of_a_vm_is_shown_and_that_it_is_off(bench: QemuBench) -> None:
    await bench.made.create(bench.request())
    async with asyncio.timeout(SECONDS):
        while LINE not in await bench.made.console(bench.request()):
            await bench.clock.sleep(0.02)
    os.kill(pid_of(bench), signal.SIGKILL)
    await until(bench, "off")
    assert (await bench.made.console(bench.request())).endswith("\nthe VM is off: signal 9 ended QEMU")
    with pytest.raises(NotFound):
        await bench.made.console(bench.request("another"))


async def test_vms_are_listed_by_what_a_cluster_says_of_its_machines_which_is_no_image(
    bench: QemuBench,
) -> None:
    made = await bench.made.create(bench.request())
    found = [
        await bench.made.list(class_request("tiny", provider="qemu", **each)) for each in ({}, TAGS, OTHER)
    ]
    assert [[vm.provider_id for vm in each] for each in found] == [[made.provider_id]] * 2 + [[]]
    with pytest.raises(InvalidArgument, match="imag"):
        await bench.made.list(class_request("tiny", provider="qemu", imag="tiny"))


async def test_none_but_its_owner_reads_what_a_vm_boots_from(bench: QemuBench) -> None:
    await bench.made.create(bench.request(userData=b"#cloud-config\n{secret: s}\n"))
    folder = bench.vm_folders[0]
    open_to_all = [each.name for each in folder.rglob("*") if stat.S_IMODE(each.stat().st_mode) & 0o077]
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert not {"seed.iso", "vm.json", "output.log"} & set(open_to_all)
    assert "secret" not in told(pid_of(bench))


async def test_a_vm_whose_qemu_is_killed_is_off_and_stays_until_it_is_deleted(bench: QemuBench) -> None:
    made = await bench.made.create(bench.request())
    os.kill(pid_of(bench), signal.SIGKILL)
    await until(bench, "off: signal 9 ended QEMU")
    assert [each.provider_id for each in await bench.made.list(bench.machine_class)] == [made.provider_id]
    assert (await bench.made.create(bench.request())).provider_id == made.provider_id
    await bench.made.delete(bench.request())
    assert bench.vm_folders == []


async def test_the_next_process_finds_the_vms_that_run(bench: QemuBench) -> None:
    made = await bench.made.create(bench.request())
    before = pid_of(bench)
    driver = await bench.restarted()
    assert (await driver.status(bench.request())).provider_id == made.provider_id
    assert pid_of(bench) == before
    await driver.delete(bench.request())
    assert state_of(before) in ("", "Z")
    assert bench.vm_folders == []


async def test_what_died_while_nobody_watched_is_off(bench: QemuBench) -> None:
    await bench.made.create(bench.request())
    await bench.made.close()
    kill_unwatched(pid_of(bench))
    await bench.restarted()
    await until(bench, "off: QEMU ended while Kubewright did not run")


async def test_after_a_reboot_of_the_machine_its_vms_are_switched_on(bench: QemuBench) -> None:
    made = await bench.made.create(bench.request())
    await bench.made.close()
    kill_unwatched(pid_of(bench))
    known = bench.vm_folders[0] / record.RECORD
    known.write_text(json.dumps(json.loads(known.read_text()) | {"boot": "an earlier one"}))
    driver = await bench.restarted()
    again = await driver.status(bench.request())
    assert (again.provider_id, again.last_known_state) == (made.provider_id, "")


async def test_what_an_interrupted_creation_or_deletion_has_left_is_removed(bench: QemuBench) -> None:
    await bench.made.create(bench.request())
    await bench.made.close()
    vms = bench.folder / "qemu" / "vms"
    (vms / "m2-00000000").mkdir()
    (vms / "m2-00000000" / "disk.qcow2").touch()
    bench.vm_folders[0].rename(vms / ".going-m1")
    driver = await bench.restarted()
    assert await driver.list(bench.machine_class) == []
    assert bench.vm_folders == []


async def test_a_vm_whose_record_cannot_be_read_is_set_aside_and_never_taken_for_one_that_is_gone(
    bench: QemuBench,
) -> None:
    first = await bench.made.create(bench.request())
    known, pid = bench.vm_folders[0] / "vm.json", pid_of(bench)
    kept = known.read_bytes()
    known.write_bytes(kept[:-5])
    driver = await bench.restarted()
    other = await driver.create(bench.request("m2"))  # the others go on
    assert (await driver.status(bench.request("m2"))).provider_id == other.provider_id
    for asks in (driver.create, driver.status, driver.delete, driver.console):
        with pytest.raises(DriverError, match=r"vm\.json cannot be read .* put it right") as told:
            await asks(bench.request())
        assert told.value.code is Code.DataLoss
    with pytest.raises(DriverError, match=r"vm\.json cannot be read"):
        await driver.list(bench.machine_class)
    known.write_bytes(kept)
    await bench.tended()
    assert {each.provider_id for each in await driver.list(bench.machine_class)} == {
        first.provider_id,
        other.provider_id,
    }
    assert state_of(pid) in "RS"
    await driver.delete(bench.request())
    assert state_of(pid) in ("", "Z")


async def test_a_record_that_cannot_be_read_is_no_matter_of_other_namespaces(bench: QemuBench) -> None:
    await bench.made.create(bench.request())
    known = bench.vm_folders[0] / "vm.json"
    kept = known.read_bytes()
    found = bench.machine_class.machine_class
    meta = structs.replace(found.metadata, namespace="elsewhere")
    elsewhere = ClassRequest(structs.replace(found, metadata=meta))
    same_name = elsewhere.of(stub("m1", "elsewhere", "uid-else"))
    for broken, others in ((kept.replace(b'"made"', b'"made it"'), "are listed"), (b"{", "fail, too")):
        known.write_bytes(broken)
        driver = await bench.restarted()
        with pytest.raises(DriverError, match=r"vm\.json cannot be read"):
            await driver.list(bench.machine_class)
        if others == "are listed":
            assert list(await driver.list(elsewhere)) == []
            with pytest.raises(NotFound):
                await driver.status(same_name)
        else:
            for asks in (driver.list(elsewhere), driver.status(same_name)):
                with pytest.raises(DriverError, match=r"vm\.json cannot be read"):
                    await asks
    known.write_bytes(kept)
    await bench.tended()


async def test_a_copy_of_a_vm_is_no_vm_and_takes_the_place_of_none(bench: QemuBench) -> None:
    made = await bench.made.create(bench.request())
    original = bench.vm_folders[0]
    copy = original.with_name(f"{original.name}-copy")
    copy.mkdir()
    for name in ("vm.json", record.RECORD):
        (copy / name).write_bytes((original / name).read_bytes())
    driver = await bench.restarted()
    assert (await driver.status(bench.request())).provider_id == made.provider_id
    with pytest.raises(
        DriverError, match=rf"copy/vm\.json cannot be read \(it is the record of {original.name}\)"
    ):
        await driver.list(bench.machine_class)
    await driver.delete(bench.request())
    assert bench.vm_folders == [copy]
    (copy / "vm.json").unlink()
    copy.rename(copy.with_name(".going-copy"))
    driver = await bench.restarted()
    assert list(await driver.list(bench.machine_class)) == []


@pytest.mark.parametrize(
    "tags",
    ['{"namespace":"other","address":"10.99.0.9","control_plane_of":"x"}', '{"a":"}","memory":"\\"1"}', "{}"],
)
def test_what_is_left_of_a_record_is_not_what_a_user_called_a_tag(tags: str) -> None:
    before, after = '{"namespace":"ns","memory":7,"tags":', ',"address":"10.99.0.2","control_plane_of":"k.1"'
    found = vms.unreadable(f"{before}{tags}{after}", "cut off")
    assert found == vms.Unreadable("cut off", "10.99.0.2", 7, "ns", "k.1")
    assert vms.unreadable(f"{before}{tags[:-1]}", "cut off") == vms.Unreadable("cut off", "", 7, "ns")
    apart = f'{before}{{}}{after},"network_tags":{tags},"disk_tags":{tags}'
    assert vms.unreadable(apart, "cut off") == found


async def test_tags_that_were_updated_are_those_of_the_next_process_too(bench: QemuBench) -> None:
    made = await bench.made.create(bench.request())
    asked = bench.tagged({"team": "a"}).of(stub("m1", "ns", "uid-of-m1", provider_id=made.provider_id))
    await bench.made.update(asked, {})
    before = await bench.tags(made.provider_id)
    driver = await bench.restarted()
    await driver.update(asked, bench.tagged({"team": "a"}).machine_class.provider_spec)
    assert await bench.tags(made.provider_id) == before
    assert before["network_tags"] == before["disk_tags"] == {"team": "a"}
    many = bench.tagged({f"more-{number}": "x" for number in range(62)})
    with pytest.raises(InvalidArgument, match=r"tags.vm: VM m1-\w+ would have 65, and it has at most 64"):
        await driver.update(many.of(asked.machine), None)
    await driver.delete(asked)
    with pytest.raises(NotFound):
        await driver.update(asked, None)


async def test_what_another_process_fetches_is_left_alone(bench: QemuBench) -> None:
    await bench.made.create(bench.request())
    part = bench.folder / "qemu" / "fetched" / "half.part"
    part.parent.mkdir()
    part.touch()
    with pytest.raises(InvalidInput, match="another process works on the VMs"):
        await bench.another().list(bench.machine_class)
    assert part.exists()
    await (await bench.restarted()).list(bench.machine_class)
    assert not part.exists()


async def test_who_asks_for_a_vm_that_is_being_deleted_gets_another_one(bench: QemuBench) -> None:
    before = await bench.made.create(bench.request())
    _, again = await asyncio.gather(bench.made.delete(bench.request()), bench.made.create(bench.request()))
    assert again.provider_id != before.provider_id
    assert [each.provider_id for each in await bench.made.list(bench.machine_class)] == [again.provider_id]


async def test_a_vm_that_was_never_switched_on_is_by_the_next_process(bench: QemuBench) -> None:
    """As a process leaves it that ends between the record and the start."""
    await bench.made.create(bench.request())
    await bench.made.close()
    kill_unwatched(pid_of(bench))
    known = bench.vm_folders[0] / record.RECORD
    known.write_text(json.dumps(json.loads(known.read_text()) | {"pid": 0, "ticks": 0}))
    driver = await bench.restarted()
    assert (await driver.status(bench.request())).last_known_state == ""


async def test_a_vm_that_does_not_answer_after_a_reboot_is_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    async with opened(tmp_path, str(programs)) as bench:
        bench.install_fakes(programs)
        await bench.made.create(bench.request())
        await bench.made.close()
        kill_unwatched(pid_of(bench))
        known = bench.vm_folders[0] / record.RECORD
        known.write_text(json.dumps(json.loads(known.read_text()) | {"boot": "an earlier one"}))
        silent(programs)
        monkeypatch.setattr(vms, "START_SECONDS", 0.5)
        driver = await bench.restarted()
        state = (await driver.status(bench.request())).last_known_state
        assert state.endswith("after a reboot of this machine: QEMU has not answered for 0.5 s")
        assert state_of(pid_of(bench)) in ("", "Z")


async def test_creations_that_wait_are_not_begun_when_the_process_ends(tmp_path: Path) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    async with opened(tmp_path, str(programs)) as bench:
        bench.install_fakes(programs)
        asked = [asyncio.create_task(bench.made.create(bench.request(f"m{number}"))) for number in range(9)]
        async with asyncio.timeout(SECONDS):
            while len(bench.vm_folders) < 4:
                await bench.clock.sleep(0.01)
            await bench.restarted()
        answers = await asyncio.gather(*asked, return_exceptions=True)
        codes = [each.code for each in answers if isinstance(each, DriverError)]
        assert codes
        assert set(codes) == {Code.Unavailable}
        assert len(bench.vm_folders) == 9 - len(codes)
        for number in range(9 - len(codes)):
            await bench.made.delete(bench.request(f"m{number}"))


async def test_a_disk_for_which_there_is_no_room_is_no_fault_of_qemu(tmp_path: Path) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    async with opened(tmp_path, str(programs)) as bench:
        bench.install_fakes(programs)
        (programs / "qemu-img").write_text("#!/bin/sh\necho disk: No space left on device; exit 1\n")
        with pytest.raises(Exhausted, match="qemu-img failed: disk: No space left on device"):
            await bench.made.create(bench.request())
        assert bench.vm_folders == []


async def test_a_deletion_goes_on_where_an_earlier_one_could_not(bench: QemuBench) -> None:
    await bench.made.create(bench.request())
    bench.vm_folders[0].rename(bench.vm_folders[0].with_name(f".going-{bench.vm_folders[0].name}"))
    await bench.made.delete(bench.request())
    assert bench.vm_folders == []


async def test_a_record_of_another_version_is_read(bench: QemuBench) -> None:
    made = await bench.made.create(bench.request())
    known = bench.vm_folders[0] / "vm.json"
    known.write_text(json.dumps(json.loads(known.read_text()) | {"later": 1, "spec": {"later": 1}}))
    driver = await bench.restarted()
    assert [each.provider_id for each in await driver.list(bench.machine_class)] == [made.provider_id]


async def test_folders_may_be_named_from_where_the_process_runs(
    tmp_path: Path, programs: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (data := Path("data")).mkdir()
    async with opened(data, programs and "programs") as bench:
        await bench.made.create(bench.request())
        assert (await bench.made.status(bench.request())).last_known_state == ""


async def test_two_processes_do_not_work_on_the_same_vms(bench: QemuBench) -> None:
    await bench.made.create(bench.request())
    second = bench.another()
    with pytest.raises(InvalidInput, match="another process works on the VMs"):
        await second.list(bench.machine_class)
    await second.close()


async def test_a_vm_that_qemu_refuses_leaves_nothing_and_says_why(bench: QemuBench) -> None:
    with pytest.raises(DriverError, match=r"QEMU ended with exit code 1: .*kernel") as said:
        await bench.made.create(bench.request(of=bench.class_of(kernel="tiny")))
    assert said.value.code == Code.Internal
    assert bench.vm_folders == []


async def test_what_a_guest_wrote_before_its_qemu_ended_is_shown_as_any_console(tmp_path: Path) -> None:
    says = (
        'case "$*" in *--version*) echo "QEMU emulator version 7.2.0"; exit;; esac; '
        "printf '\\033[31mjoin --token abcdef.0123456789abcdef\\033[0m\\n'; exit 1"
    )
    programs = tmp_path / "programs"
    programs.mkdir()
    fake_programs.install(programs)
    (programs / "qemu-system-x86_64").write_text(f"#!/bin/sh\n{says}\n")
    async with opened(tmp_path, str(programs)) as bench:
        with pytest.raises(DriverError) as told:
            await bench.made.create(bench.request())
        assert told.value.message.endswith("exit code 1: join --token [hidden]")


async def test_a_provider_id_reaches_no_vm_of_another_namespace(bench: QemuBench) -> None:
    made = await bench.made.create(bench.request())
    for call in (bench.made.status, bench.made.delete):
        with pytest.raises(NotFound):
            await call(bench.machine_class.of(stub("m1", "other", "", provider_id=made.provider_id)))
    assert len(await bench.made.list(bench.machine_class)) == 1


@pytest.mark.parametrize(
    ("wanted", "code", "says"),
    [
        ({"image": "missing"}, Code.FailedPrecondition, "there is no image missing"),
        ({"sha256": "0" * 64}, Code.InvalidArgument, "has sha256 "),
        ({"accelerator": "kvm", "architecture": "arm64"}, Code.FailedPrecondition, "qemu-system-aarch64"),
        ({"kernel": "missing"}, Code.FailedPrecondition, "there is no image missing"),
        ({"cpu": 2}, Code.InvalidArgument, "unknown field `cpu`"),
    ],
    ids=["an image that is not there", "another image", "no such QEMU", "no such kernel", "a field too many"],
)
async def test_what_cannot_be_made_says_why(tmp_path, wanted, code, says):
    programs = tmp_path / "programs"
    programs.mkdir()
    async with opened(tmp_path, str(programs)) as bench:
        bench.install_fakes(programs)
        with pytest.raises(DriverError, match=says) as said:
            await bench.made.create(bench.request(of=bench.class_of(**wanted)))
        assert said.value.code == code
        assert bench.vm_folders == []


@pytest.mark.parametrize("options", [{"vms": "1"}, {"memory": "300Mi"}], ids=["by number", "by memory"])
async def test_a_machine_that_is_full_says_so(tmp_path, options):
    programs = tmp_path / "programs"
    programs.mkdir()
    async with opened(tmp_path, str(programs), **options) as bench:
        bench.install_fakes(programs)
        asked = (bench.made.create(bench.request(f"m{number}")) for number in range(3))
        answers = await asyncio.gather(*asked, return_exceptions=True)
        assert [type(each) for each in answers[1:]] == [Exhausted, Exhausted]
        await bench.made.delete(bench.request("m0"))
        await bench.made.create(bench.request("m1"))


async def test_a_class_with_a_url_that_is_not_allowed_is_refused_before_there_is_a_machine(tmp_path):
    async with opened(tmp_path, "") as bench:
        for call in (bench.made.validate,):
            with pytest.raises(InvalidArgument, match="does not let https://example"):
                await call(bench.class_of(image="https://example.com/i", sha256="0" * 64))


@pytest.mark.parametrize(
    ("why", "goes_on"), [("io-error", True), ("paused", False)], ids=["by a full disk", "by a person"]
)
async def test_a_vm_that_was_stopped_goes_on_if_that_was_for_want_of_room(tmp_path, why, goes_on):
    programs = tmp_path / "programs"
    programs.mkdir()
    async with opened(tmp_path, str(programs)) as bench:
        bench.install_fakes(programs)
        await bench.made.create(bench.request())
        stopped = bench.vm_folders[0] / "stopped"
        stopped.write_text(why)
        await bench.tended()
        assert stopped.exists() is not goes_on
