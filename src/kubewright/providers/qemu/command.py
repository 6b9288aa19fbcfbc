"""The command line of a VM's QEMU, and the seed that its guest reads: values. Pure.

Theory.      A VM is a folder, and QEMU runs in it: every path of a VM is relative to it, so that no folder's
             name stands in the command line and a user of another uid needs no way through those above. The
             guest learns its name and finds its bootstrap data by the NoCloud rules of cloud-init, on a disk
             labelled ``cidata``; Ignition reads its own from QEMU's firmware configuration. Under TCG a code
             cache of 128 MiB is enough to boot as fast as with the default, which is 1 GiB beside the memory
             of the guest. Disks are named with their formats: else QEMU would guess, and a guest that writes
             the header of a qcow2 file to its raw disk could name any file of the machine as a part of it.
Invariants.  No secret is in the command line. What comes from a class is a number or a word of a closed set,
             but for the kernel's command line, which only the kernel reads, and which has no comma of QEMU's.
Source       QEMU 7.2: qemu-system-x86_64(1), docs/system; cloud-init 22.4: NoCloud, network-config version 2.
Called by    ``vms``.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kubewright.providers.qemu.spec import MIB, QemuSpec

DISK, SEED, IGNITION, QMP, VARIABLES = "disk.qcow2", "seed.iso", "ignition.json", "qmp", "firmware.fd"
WAITING, SEED_BYTES = "kwwait", 1024 * 1024
"""The label of a seed that says to wait for another one, and the size of both."""
WARM = "warm-"
"""How the id of a VM begins that has waited: no machine's name ends like this."""
CODE_CACHE_MIB = 128
OVERHEAD = {"tcg": (CODE_CACHE_MIB + 96) * MIB, "kvm": 96 * MIB}
"""Bytes of memory that a VM takes beside its guest's: QEMU itself, and the code cache of TCG."""
SYSTEMS = {"amd64": "x86_64", "arm64": "aarch64"}
NO_MORE = "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny"
"""System calls that QEMU gives up: a guest that breaks out of it starts no program and gains no rights. The
bridge helper is a program with more rights."""
SYSLINUX_OUI = (0x52, 0x54, 0x00)
"""How the MAC addresses of QEMU's guests begin."""


@dataclass(frozen=True, slots=True)
class Host:
    """What a command line needs to know of the machine.

    ``program``    QEMU's, for the architecture
    ``accelerator``  ``kvm`` or ``tcg``
    ``firmware``   the file with UEFI's code; empty: BIOS
    ``network``    as in ``spec.Options``; ``bridge``, ``helper``, ``sandbox`` too
    """

    program: str
    accelerator: str
    firmware: str = ""
    network: str = "none"
    bridge: str = ""
    helper: str = ""
    sandbox: bool = True


@dataclass(frozen=True, slots=True)
class Guest:
    """What a guest is told of itself, and what it boots from.

    ``data``     its bootstrap data; ``ignition``: by Ignition, else by cloud-init
    ``version``  that of the Kubernetes that it is to run; empty where that is not said
    ``waits``    it is to boot, and then to wait for what it is to become
    ``address``  its own, with the length of the subnet's prefix, where it is on a bridge; empty: by DHCP
    ``gateway``, ``name_servers``  that it is told of then
    """

    id: str
    name: str
    provider_id: str
    data: bytes = b""
    ignition: bool = False
    version: str = ""
    waits: bool = False
    address: str = ""
    gateway: str = ""
    name_servers: tuple[str, ...] = ()


def program(architecture: str) -> str:
    """The name of QEMU's program for an architecture."""
    return f"qemu-system-{SYSTEMS[architecture]}"


def mac_of(vm_id: str) -> str:
    """A MAC address that no other VM is likely to have."""
    own = hashlib.sha256(vm_id.encode()).digest()[:3]
    return ":".join(f"{each:02x}" for each in (*SYSLINUX_OUI, *own))


def argv(spec: QemuSpec, host: Host, guest: Guest, boot: Sequence[str] = ()) -> tuple[str, ...]:
    """The command line. ``boot``: the paths of the kernel and the initrd, if it boots those."""
    return (
        host.program,
        *("-name", f"guest={guest.name}"),
        *("-nodefaults", "-no-user-config", "-display", "none"),
        *_sandbox(host),
        *_machine(spec, host),
        *("-m", f"size={spec.memory_bytes // MIB}M", "-smp", f"cpus={spec.cpus}"),
        *_boot(spec, host, boot),
        *_disks(spec, guest),
        *("-device", "virtio-rng-pci"),
        *_network(host, guest),
        *("-chardev", "stdio,id=console,signal=off", "-serial", "chardev:console"),
        *("-qmp", f"unix:{QMP},server=on,wait=off"),
    )


def _machine(spec: QemuSpec, host: Host) -> tuple[str, ...]:
    kind = "q35" if spec.runs_on == "amd64" else "virt"
    if host.accelerator == "kvm":
        return "-machine", kind, "-accel", "kvm", "-cpu", "host"
    return "-machine", kind, "-accel", f"tcg,thread=multi,tb-size={CODE_CACHE_MIB}", "-cpu", "max"


def _sandbox(host: Host) -> tuple[str, ...]:
    if not host.sandbox:
        return ()
    return "-sandbox", "on,obsolete=deny,resourcecontrol=deny" if host.helper else NO_MORE


def _boot(spec: QemuSpec, host: Host, boot: Sequence[str]) -> tuple[str, ...]:
    found: list[str] = []
    if host.firmware:
        found += ["-drive", f"if=pflash,unit=0,format=raw,readonly=on,file={_escaped(host.firmware)}"]
        found += ["-drive", f"if=pflash,unit=1,format=raw,file={VARIABLES}"]
    if boot:
        found += ["-kernel", boot[0], "-append", spec.command_line]
        found += ["-initrd", boot[1]] if boot[1:] else []
    return tuple(found)


def _disks(spec: QemuSpec, guest: Guest) -> tuple[str, ...]:
    names = [DISK, *extra_disks(spec)]
    first = "" if spec.kernel else ",bootindex=0"  # a kernel that is given is first by itself
    found: list[str] = []
    for number, name in enumerate(names):
        found += ["-drive", f"if=none,id=disk{number},file={name},format=qcow2,discard=unmap"]
        found += ["-device", f"virtio-blk-pci,drive=disk{number}{first if not number else ''}"]
    if guest.ignition:
        return *found, "-fw_cfg", f"name=opt/com.coreos/config,file={IGNITION}"
    found += ["-drive", f"if=none,id=seed,file={SEED},format=raw,readonly=on"]
    return *found, "-device", "virtio-blk-pci,drive=seed"


def _network(host: Host, guest: Guest) -> tuple[str, ...]:
    card = f"virtio-net-pci,netdev=net,mac={mac_of(guest.id)}"
    if host.network != "bridge":
        restrict = "off" if host.network == "user" else "on"
        return "-netdev", f"user,id=net,restrict={restrict},hostname={guest.name}", "-device", card
    if host.helper:
        return "-netdev", f"bridge,id=net,br={host.bridge},helper={_escaped(host.helper)}", "-device", card
    tap = f"tap,id=net,ifname={tap_of(guest.id)},script=no,downscript=no"
    return "-netdev", tap, "-device", card


def tap_of(vm_id: str) -> str:
    """The name of a VM's end of the bridge; QEMU makes it, and it goes with QEMU."""
    return f"kw{hashlib.sha256(vm_id.encode()).hexdigest()[:12]}"


def extra_disks(spec: QemuSpec) -> list[str]:
    """The names of the further disks."""
    return [f"disk{number}.qcow2" for number in range(1, 1 + len(spec.extra_disks))]


def _escaped(path: str) -> str:
    """A path as a value among QEMU's comma-separated ones."""
    return path.replace(",", ",,")


def seed_files(guest: Guest) -> Mapping[str, bytes]:
    """The files of a NoCloud seed."""
    about = {"instance-id": guest.id, "local-hostname": guest.name, "provider_id": guest.provider_id}
    about |= {"kubernetes_version": guest.version} if guest.version else {}
    network = {"version": 2, "ethernets": {"net": _card(guest)}}
    return {
        "user-data": guest.data or b"#cloud-config\n{}\n",
        "meta-data": json.dumps(about).encode(),  # JSON is YAML
        "network-config": json.dumps(network).encode(),
    }


def _card(guest: Guest) -> Mapping[str, object]:
    """What network-config says of the guest's only card."""
    match = {"match": {"macaddress": mac_of(guest.id)}}
    if not guest.address:
        return {**match, "dhcp4": True}
    routes = [{"to": "0.0.0.0/0", "via": guest.gateway}]
    names = {"nameservers": {"addresses": list(guest.name_servers)}} if guest.name_servers else {}
    return {**match, "dhcp4": False, "addresses": [guest.address], "routes": routes, **names}


def is_ignition(data: bytes, data_format: str) -> bool:
    """Whether bootstrap data is Ignition's; where it is not said, by what it looks like."""
    if data_format:
        return data_format == "ignition"
    if not data.lstrip().startswith(b"{"):
        return False
    try:
        read = json.loads(data)
    except ValueError:
        return False
    return isinstance(read, dict) and "ignition" in read
