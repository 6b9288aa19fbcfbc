"""Volumes of the simulated cloud: disks that VMs can have attached, one VM at a time.

A PersistentVolume names one by CSI (driver ``sim.kubewright.dev``, the id as volume handle).
"""

from collections.abc import Mapping, Sequence

import msgspec

from kubewright.driver.contract import VolumeSpec

CSI_DRIVER = "sim.kubewright.dev"
"""The CSI driver name by which PersistentVolumes refer to this cloud."""


class Volume(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """One disk. ``vm_id`` is the VM that has it attached, empty for none."""

    id: str
    gib: int = 1
    tags: Mapping[str, str] = {}
    vm_id: str = ""


def volume_ids(volumes: Sequence[VolumeSpec]) -> list[str]:
    """The ids of those volumes that are ours, in order; all others are left out."""
    handles = []
    for volume in volumes:
        csi = volume.spec.get("csi")
        if isinstance(csi, Mapping) and csi.get("driver") == CSI_DRIVER and csi.get("volumeHandle"):
            handles.append(str(csi["volumeHandle"]))
    return handles
