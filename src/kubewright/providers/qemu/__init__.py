"""Real VMs on this machine, by QEMU: without root, with KVM or without.

    ``spec``     what a class may say in its ``providerSpec``, and the administrator in the driver's options
    ``images``   disk images: looked at, compared, fetched
    ``host``     this machine: programs, KVM, firmware, memory; and how QEMU is asked
    ``endpoints``  the network on which VMs meet, if they are to, and addresses for API servers
    ``command``  QEMU's command line and the seed that the guest reads
    ``vms``      a folder and a process each, found again after a restart
    ``warm``     VMs that are booted beforehand, and woken for a machine
    ``driver``   the driver port on top

Entry point ``qemu`` of group ``kubewright.drivers``: ``driver`` below.
"""

from msgspec.structs import fields

from kubewright.driver.registry import Settings
from kubewright.providers.qemu.driver import QemuDriver
from kubewright.providers.qemu.spec import Options, parse_options

OPTIONS = tuple(each.encode_name for each in fields(Options))


def driver(settings: Settings) -> QemuDriver:
    """The driver; its VMs, images and records are in ``qemu`` below the data folder.

    Raises:
        InvalidInput: there is no folder; an option is unknown or out of range.
    """
    return QemuDriver(settings, parse_options(settings.options))
