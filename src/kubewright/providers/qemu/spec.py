"""What a MachineClass may say to the qemu driver, and the administrator of the machine in its options.

Theory.      Who writes a class may be any user of a namespace; who starts Kubewright is the administrator of
             the machine on which the VMs run. So a class names images, and the administrator says in which
             folders they lie and from which addresses they may be fetched; a class asks for memory, and the
             administrator says how much of the machine VMs may have. No text of a class becomes a path, a
             program or an argument of one: what becomes a part of QEMU's command line is a number, a word of
             a closed set, or a path that was made here.
Invariants.  An unknown field, a wrong type or a number out of range is ``InvalidArgument`` and names the
             field. Sizes are bytes once they are read.
Called by    ``driver``, ``images``, ``command``. For people: docs/reference/qemu.md.
"""

import platform
import re
from collections.abc import Iterator, Mapping
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from kubewright.base.errors import InvalidInput
from kubewright.driver.answers import plainly, provider_spec
from kubewright.driver.errors import InvalidArgument
from kubewright.wire.quantity import parse as parse_quantity

SCHEME = "qemu"
MIB, GIB = 1024**2, 1024**3
SMALLEST_MEMORY, LARGEST_MEMORY = 32 * MIB, 1024 * GIB
LEAST_FREE = 1024 * MIB
"""Bytes that have to be free on the disk for a further VM or image."""
SMALLEST_DISK, LARGEST_DISK = MIB, 16 * 1024 * GIB
IMAGE_NAME = r"[A-Za-z0-9][A-Za-z0-9._+-]{0,127}"
URL_CHARS = 2048
PREFIX = r"https?://([^/?#@]+/([^?#]*/)?)?"

Architecture = Literal["amd64", "arm64"]
Accelerator = Literal["auto", "kvm", "tcg"]
Text = Annotated[str, Meta(max_length=256)]
MOST_TAGS = 64
TagMap = Annotated[Mapping[Text, Text], Meta(max_length=MOST_TAGS)]

MACHINES: Mapping[str, Architecture] = {"x86_64": "amd64", "aarch64": "arm64"}


def own_architecture() -> Architecture:
    """That of the machine on which this runs."""
    return MACHINES.get(platform.machine(), "amd64")


class _Part(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Base of everything in a providerSpec and in the options."""


class ExtraDisk(_Part, frozen=True, kw_only=True):
    """A further empty disk; ``size`` is a quantity."""

    size: str | int


class Tags(_Part, frozen=True, kw_only=True):
    """What is on record of the VM, of its network and of its disks; by those of the VM it is listed."""

    vm: TagMap = {}
    network: TagMap = {}
    disk: TagMap = {}


class QemuSpec(_Part, frozen=True, kw_only=True):
    """A ``providerSpec`` of the qemu driver.

    ``image``         a file in a folder of images, by its name; or a URL that the administrator allows
    ``sha256``        what the image must be, in hexadecimal digits; a URL needs it
    ``memory``, ``disk``   quantities; a disk that is smaller than its image is as large as that
    ``accelerator``   ``auto``: KVM where it works, else TCG, which needs nothing of the machine
    ``kernel``, ``initrd``, ``commandLine``   boot this kernel, a file in a folder of images, and not the
                      image's own
    """

    image: Annotated[str, Meta(min_length=1, max_length=URL_CHARS)]
    sha256: str = ""
    cpus: Annotated[int, Meta(ge=1, le=64)] = 1
    memory: str | int = "1Gi"
    disk: str | int = "10Gi"
    extra_disks: Annotated[tuple[ExtraDisk, ...], Meta(max_length=8)] = ()
    architecture: Architecture | None = None
    accelerator: Accelerator = "auto"
    firmware: Literal["bios", "uefi"] | None = None
    kernel: str = ""
    initrd: str = ""
    command_line: Annotated[str, Meta(max_length=1024, pattern=r"^[\x20-\x7e]*\Z")] = ""
    tags: Tags = Tags()

    @property
    def runs_on(self) -> Architecture:
        return self.architecture or own_architecture()

    @property
    def memory_bytes(self) -> int:
        return int(parse_quantity(self.memory))

    @property
    def disk_bytes(self) -> int:
        return int(parse_quantity(self.disk))

    @property
    def extra_bytes(self) -> tuple[int, ...]:
        return tuple(int(parse_quantity(each.size)) for each in self.extra_disks)

    @property
    def url(self) -> str:
        """Where the image is fetched from; empty if it is a file's name."""
        return self.image if "://" in self.image else ""


class Options(_Part, frozen=True, kw_only=True):
    """What the administrator says: ``--driver-option NAME=VALUE``.

    ``images``       folders of images, separated by ``:``; without it ``images`` in the data folder
    ``image_urls``   what a URL of an image may begin with, separated by spaces: a scheme, or a host and a
                     folder (``https://images.example.com/``); without it none is fetched
    ``programs``     a folder in which QEMU's programs are looked for before PATH
    ``network``      ``none``: VMs reach nothing; ``user``: VMs reach whatever this machine reaches, through
                     it, also the services that listen on its loopback addresses only (as 10.0.2.2);
                     ``bridge``: VMs have addresses of ``subnet`` and reach each other and this machine
    ``bridge``       its name; it is made if it is not there
    ``subnet``       of the bridge, which has the first address
    ``name_servers`` that guests on the bridge are told of, separated by spaces
    ``helper``       the program that puts a VM on the bridge for who may not (qemu-bridge-helper)
    ``sandbox``      ``off`` where QEMU was built without seccomp: then it keeps all system calls
    ``memory``       what all VMs together may have, a quantity; without it, nine tenths of the machine's
    ``vms``          the most VMs
    ``warm``         a file that says of which classes how many VMs are booted beforehand (``warm``)
    ``site``         a name for this machine: a part of the VMs' provider ids
    """

    images: str = ""
    image_urls: str = ""
    programs: str = ""
    network: Literal["none", "user", "bridge"] = "none"
    bridge: Annotated[str, Meta(pattern=r"^[a-z][a-z0-9.-]{0,14}\Z")] = "kubewright0"
    subnet: str = "10.99.0.0/24"
    name_servers: str = ""
    helper: str = ""
    sandbox: Literal["on", "off"] = "on"
    memory: str = ""
    vms: Annotated[int, Meta(ge=1, le=10_000)] = 250
    warm: str = ""
    site: Annotated[str, Meta(pattern=r"^[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?\Z")] = "local"

    @property
    def addresses(self) -> IPv4Network:
        """The subnet of the bridge."""
        return IPv4Network(self.subnet)

    @property
    def prefixes(self) -> tuple[str, ...]:
        return tuple(self.image_urls.split())

    @property
    def memory_bytes(self) -> int | None:
        return int(parse_quantity(self.memory)) if self.memory else None

    def folders(self, data: Path) -> tuple[Path, ...]:
        """Where images lie."""
        named = tuple(Path(each).expanduser().absolute() for each in self.images.split(":") if each)
        return named or (data / "images",)


def parse_spec(raw: Mapping[str, Any]) -> QemuSpec:
    """Read a providerSpec.

    Raises:
        InvalidArgument: what no VM can be made by; names the field.
    """
    spec = provider_spec(raw, QemuSpec)
    if problem := next(_problems(spec), ""):
        raise InvalidArgument(f"providerSpec: {problem}")
    return spec


def parse_options(options: Mapping[str, str]) -> Options:
    """Read the driver's options.

    Raises:
        InvalidInput: an option that is unknown or out of range; names it.
    """
    try:
        found = msgspec.convert(dict(options), Options, strict=False)
        if found.memory and not parse_quantity(found.memory) >= SMALLEST_MEMORY:
            raise InvalidInput(f"driver qemu: memory: {found.memory} is less than a VM needs (32Mi)")
        _refuse_addresses(found)
        for each in found.prefixes:
            if not re.fullmatch(PREFIX, each):
                raise InvalidInput(
                    f"driver qemu: imageUrls: {each!r} has to be https://, or a host and a folder that ends "
                    "with a slash (https://images.example.com/debian/)"
                )
    except (msgspec.ValidationError, ValueError) as error:
        raise InvalidInput(f"driver qemu: {plainly(str(error))}") from None
    return found


def _refuse_addresses(options: Options) -> None:
    try:
        found = options.addresses
    except ValueError as error:
        raise InvalidInput(f"driver qemu: subnet: {error}") from None
    if not 8 <= found.prefixlen <= 29:
        raise InvalidInput(f"driver qemu: subnet: {found} has to have between 8 and 2^24 addresses")
    for server in options.name_servers.split():
        try:
            IPv4Address(server)
        except ValueError as error:
            raise InvalidInput(f"driver qemu: nameServers: {error}") from None


NO_NAME = (
    "is no name of a file in a folder of images (letters, digits, '.', '_', '+' and '-'; the administrator "
    "says which folders: driver option images)"
)


def _problems(spec: QemuSpec) -> Iterator[str]:
    yield from _size_problems("memory", spec.memory, SMALLEST_MEMORY, LARGEST_MEMORY)
    yield from _size_problems("disk", spec.disk, SMALLEST_DISK, LARGEST_DISK)
    for number, each in enumerate(spec.extra_disks):
        yield from _size_problems(f"extraDisks[{number}].size", each.size, SMALLEST_DISK, LARGEST_DISK)
    yield from _image_problems(spec)
    if (spec.initrd or spec.command_line) and not spec.kernel:
        yield "kernel: is needed where initrd or commandLine is given"
    if spec.firmware == "bios" and spec.runs_on != "amd64":
        yield "firmware: bios is there for amd64 only"


def _image_problems(spec: QemuSpec) -> Iterator[str]:
    if spec.url:
        if not spec.image.startswith(("https://", "http://")):
            yield f"image: {spec.image!r} is neither a file's name nor an http or https URL"
        elif not spec.sha256:
            yield "sha256: is needed for an image that is fetched from a URL"
    elif not re.fullmatch(IMAGE_NAME, spec.image):
        yield f"image: {spec.image!r} {NO_NAME}, nor is it a URL"
    if spec.sha256 and not re.fullmatch("[0-9a-f]{64}", spec.sha256):
        yield f"sha256: {spec.sha256[:80]!r} is not 64 hexadecimal digits (0 to 9, a to f)"
    for field, name in (("kernel", spec.kernel), ("initrd", spec.initrd)):
        if name and not re.fullmatch(IMAGE_NAME, name):
            yield f"{field}: {name[:140]!r} {NO_NAME}"


def _size_problems(field: str, text: str | int, least: int, most: int) -> Iterator[str]:
    try:
        size = parse_quantity(text)
    except ValueError as error:
        yield f"{field}: {error}"
        return
    if not least <= size <= most:
        yield f"{field}: {text} is not between {least // MIB}Mi and {most // GIB}Gi"
    elif size != int(size):
        yield f"{field}: {text} is no whole number of bytes"
