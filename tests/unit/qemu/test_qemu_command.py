"""The command line of a VM, what its guest is told, and what is known of the machine."""

import asyncio
import io
import json
from dataclasses import replace

import pytest

from kubewright.driver.errors import Code, Exhausted
from kubewright.providers.qemu.command import (
    SEED_BYTES,
    WARM,
    Guest,
    Host,
    argv,
    is_ignition,
    mac_of,
    seed_files,
)
from kubewright.providers.qemu.host import Shared, boot_sector, could_have_kvm
from kubewright.providers.qemu.spec import parse_spec
from kubewright.providers.qemu.vms import iso, may_be_of, new_id, qemu_failed, seed, unreadable

HOST = Host("/usr/bin/qemu-system-x86_64", "tcg")
GUEST = Guest("m1-0a0b0c0d", "m1", "qemu:///local/m1-0a0b0c0d", b"#cloud-config\n")


def line(host: Host = HOST, guest: Guest = GUEST, boot: tuple[str, ...] = (), **spec: object) -> str:
    read = parse_spec({"image": "i", "architecture": "amd64", **spec})
    return " ".join(argv(read, host, guest, boot))


def test_a_small_vm():
    assert line(memory="64Mi", cpus=2) == (
        "/usr/bin/qemu-system-x86_64 -name guest=m1 -nodefaults -no-user-config -display none "
        "-sandbox on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny "
        "-machine q35 -accel tcg,thread=multi,tb-size=128 -cpu max -m size=64M -smp cpus=2 "
        "-drive if=none,id=disk0,file=disk.qcow2,format=qcow2,discard=unmap "
        "-device virtio-blk-pci,drive=disk0,bootindex=0 "
        "-drive if=none,id=seed,file=seed.iso,format=raw,readonly=on -device virtio-blk-pci,drive=seed "
        "-device virtio-rng-pci -netdev user,id=net,restrict=on,hostname=m1 "
        f"-device virtio-net-pci,netdev=net,mac={mac_of(GUEST.id)} "
        "-chardev stdio,id=console,signal=off -serial chardev:console -qmp unix:qmp,server=on,wait=off"
    )


@pytest.mark.parametrize(
    ("made", "has"),
    [
        (line(Host("q", "kvm")), "-accel kvm -cpu host"),
        (line(Host("q", "tcg", network="user")), "restrict=off"),
        (line(Host("q", "tcg", firmware="/a,b.fd")), "unit=0,format=raw,readonly=on,file=/a,,b.fd"),
        (line(architecture="arm64"), "-machine virt"),
        (line(extraDisks=[{"size": "1Gi"}]), "id=disk1,file=disk1.qcow2,format=qcow2"),
        (
            line(boot=("/k", "/i"), kernel="k", commandLine="quiet a,b"),
            "-kernel /k -append quiet a,b -initrd /i",
        ),
        (line(boot=("/k",), kernel="k"), "-kernel /k -append  -drive"),
        (line(guest=Guest("i", "m", "p", b"{}", ignition=True)), "-fw_cfg name=opt/com.coreos/config,file="),
    ],
)
def test_what_a_class_and_a_machine_change(made, has):
    assert has in made


def test_the_sandbox_is_what_the_administrator_and_the_helper_let_it_be():
    assert "-sandbox on,obsolete=deny,resourcecontrol=deny " in line(Host("q", "tcg", helper="/h"))
    assert "-sandbox" not in line(Host("q", "tcg", sandbox=False))


def test_ignition_needs_no_seed():
    assert "seed" not in line(guest=Guest("i", "m", "p", b"{}", ignition=True))


def test_a_kernel_that_is_given_boots_before_the_disk():
    assert "bootindex" not in line(boot=("/k",), kernel="k")


def test_every_drive_has_a_format():
    made = line(Host("q", "tcg", firmware="/f"), extraDisks=[{"size": "1Gi"}] * 3).split(" ")
    drives = [made[number + 1] for number, each in enumerate(made) if each == "-drive"]
    assert len(drives) == 7
    assert all("format=" in each for each in drives)


def test_a_guest_learns_its_name_its_card_and_its_provider_id():
    files = seed_files(GUEST)
    about = {"instance-id": GUEST.id, "local-hostname": "m1", "provider_id": GUEST.provider_id}
    assert json.loads(files["meta-data"]) == about
    card = json.loads(files["network-config"])["ethernets"]["net"]
    assert card == {"match": {"macaddress": mac_of(GUEST.id)}, "dhcp4": True}
    assert files["user-data"] == b"#cloud-config\n"


def test_a_guest_learns_which_kubernetes_it_is_to_run():
    about = json.loads(seed_files(replace(GUEST, version="v1.35.4"))["meta-data"])
    assert about["kubernetes_version"] == "v1.35.4"


def test_a_guest_without_data_is_told_nothing():
    assert seed_files(Guest("i", "m", "p"))["user-data"] == b"#cloud-config\n{}\n"


def test_a_seed_is_read_as_it_was_written():
    from pycdlib import PyCdlib

    image, files = PyCdlib(), seed_files(GUEST)
    image.open_fp(io.BytesIO(iso(files)))
    assert image.pvd.volume_identifier.rstrip() == b"cidata"
    for name, content in files.items():
        for path in ({"rr_path": f"/{name}"}, {"joliet_path": f"/{name}"}):
            read = io.BytesIO()
            image.get_file_from_iso_fp(read, **path)
            assert read.getvalue() == content
    image.close()


def test_a_guest_that_is_to_wait_has_a_seed_that_says_so_in_the_size_of_all_that_it_may_become():
    made, label = seed(replace(GUEST, waits=True)), slice(16 * 2048 + 40, 16 * 2048 + 72)
    assert (made[label].strip(), len(made)) == (b"kwwait", SEED_BYTES)
    woken = seed(GUEST)
    assert (woken[label].strip(), len(woken) <= SEED_BYTES) == (b"cidata", True)


def test_a_vm_that_has_waited_may_be_that_of_any_machine_by_its_id():
    vm_id = new_id(WARM)
    assert may_be_of(vm_id, "m1")
    assert may_be_of("m1-0a0b0c0d", "m1")
    assert not may_be_of("m1-0a0b0c0d", "m2")
    assert not may_be_of(new_id("warm"), "m2")


def test_cards_differ_and_are_local_to_qemu():
    cards = {mac_of(f"m{number}") for number in range(100)}
    assert len(cards) == 100
    assert all(each.startswith("52:54:00:") for each in cards)


@pytest.mark.parametrize(
    ("data", "said", "ignition"),
    [
        (b'{"ignition": {"version": "3.4.0"}}', "", True),
        (b'{"ignition": {}}', "cloud-config", False),
        (b"#cloud-config\n", "ignition", True),
        (b"#cloud-config\n", "", False),
        (b'{"a": 1}', "", False),
        (b"{", "", False),
        (b"", "", False),
    ],
)
def test_by_what_a_guest_boots(data, said, ignition):
    assert is_ignition(data, said) is ignition


@pytest.mark.parametrize(
    ("said", "code"),
    [
        ("cannot set up guest memory 'pc.ram': Cannot allocate memory", Code.ResourceExhausted),
        ("Failed to write: No space left on device", Code.ResourceExhausted),
        ("Could not open 'disk.qcow2'", Code.Internal),
    ],
)
def test_codes_of_what_qemu_says(said, code):
    assert qemu_failed(said).code == code


@pytest.mark.parametrize(
    ("flags", "architecture", "may"),
    [
        ("flags\t\t: fpu vme vmx aes\n", "amd64", True),
        ("flags\t\t: fpu svm\n", "amd64", True),
        ("flags\t\t: fpu vme svm_lock\nvmx flags\t: vnmi\n", "amd64", False),
        ("Features\t: fp asimd\n", "arm64", True),
    ],
    ids=["Intel's", "AMD's", "neither", "none is told on arm64"],
)
def test_a_processor_that_could_have_kvm(flags, architecture, may):
    assert could_have_kvm(flags, architecture) is may


async def test_shared_work_is_done_once_and_again_only_after_a_failure():
    tried = []

    async def work() -> int:
        tried.append(1)
        if len(tried) == 1:
            raise OSError("not yet")
        return len(tried)

    shared = Shared(work)
    for _ in range(2):
        first = await asyncio.gather(shared.done(), shared.done(), return_exceptions=True)
        assert len({str(each) for each in first}) == 1
    assert first == [2, 2]
    assert await shared.done() == 2


def test_the_smallest_disk_that_boots():
    made = boot_sector("hello")
    assert (len(made), made[-2:]) == (512, b"\x55\xaa")
    assert b"hello\r\n\0" in made


def test_no_two_vms_have_one_mac_address():
    taken = set()
    for _ in range(300):
        taken.add(mac_of(new_id("m", taken)))
    assert len(taken) == 300


def test_where_every_mac_address_is_taken_no_vm_is_made():
    class Everything(frozenset[str]):
        def __contains__(self, _mac: object) -> bool:
            return True

    with pytest.raises(Exhausted, match="MAC address"):
        new_id("m", Everything())


def test_what_is_left_of_a_record_says_which_address_and_memory_are_taken():
    whole = json.dumps({"id": "m1-1", "memory": 1024, "argv": ["qemu"], "address": "10.99.0.7", "name": "m1"})
    found = unreadable(whole[:-5], "why")
    assert (found.address, found.memory, found.problem) == ("10.99.0.7", 1024, "why")
    assert (unreadable("", "why").address, unreadable("", "why").memory) == ("", 0)
