"""A simulated VM as a value, and its state at a given moment; and a volume.

Theory.      A VM's life follows from a few numbers and the time: when its boot ends, what its lifecycle
             is, what a person ordered. So no timer is needed for a VM to die: each caller asks
             ``state_at`` what is true now, and until when. Times are seconds since the
             epoch, because they are kept across restarts.
Called by    ``cloud`` (keeps them), ``kubelets`` (acts on what ``state_at`` returns).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec
from msgspec.structs import replace

from kubewright.driver.contract import VolumeSpec
from kubewright.driver.hot import DISK, NETWORK, VM, Tags
from kubewright.providers.sim.spec import SimSpec, TaintSpec

SCHEME = "sim"
NOT_READY = "NotReady"
"""Among bad conditions: the condition Ready is False."""

ORDERS: Mapping[str, str] = {
    "not-ready": NOT_READY,
    "disk-pressure": "DiskPressure",
    "memory-pressure": "MemoryPressure",
    "pid-pressure": "PIDPressure",
    "network-unavailable": "NetworkUnavailable",
    "kernel-deadlock": "KernelDeadlock",
    "readonly-filesystem": "ReadonlyFilesystem",
}
"""The faults that a person may order for a node, and the condition that shows each."""
STOP_KUBELET, DIE, VANISH, RESTART = "stop-kubelet", "die", "vanish", "restart"
"""Further orders: the first holds while it is in the annotation, the others happen once."""
LASTING = frozenset((*ORDERS, STOP_KUBELET))


class Bootstrap(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """What a VM boots from, and what came of it; a VM without it needs no data to become a node.

    ``data``, ``format``  its user data
    ``cluster``   the address (host:port) of the API server that it has joined, or is; empty: none yet
    ``control_plane``  it is a part of the cluster's control plane
    ``name``, ``labels``, ``taints``  how kubeadm has told the kubelet to register
    ``files``     what its commands have written, by path
    ``trouble``   why it will never become a node; empty if it may
    """

    data: bytes
    format: str
    cluster: str = ""
    control_plane: bool = False
    name: str = ""
    labels: Mapping[str, str] = {}
    taints: tuple[TaintSpec, ...] = ()
    files: Mapping[str, str] = {}
    trouble: str = ""

    def __repr__(self) -> str:
        """Without the data, which holds keys and tokens."""
        return f"Bootstrap(format={self.format!r}, cluster={self.cluster!r}, trouble={self.trouble!r})"


@dataclass(frozen=True, slots=True)
class Interface:
    """The network interface of a VM. With ``source_dest_check`` it takes packets of its own address only."""

    id: str
    tags: Mapping[str, str]
    source_dest_check: bool


@dataclass(frozen=True, slots=True)
class BootDisk:
    """The disk that a VM boots from; it comes and goes with the VM, as a volume does not."""

    id: str
    tags: Mapping[str, str]


class Resources(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """What may change of a VM, its interface and its disk while it runs."""

    tags: Tags = Tags()
    source_dest_check: bool = True


class Vm(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """One VM. ``up_at`` is when its kubelet starts; ``boot`` counts its boots."""

    serial: int
    name: str
    namespace: str = ""
    owner_uid: str = ""
    class_name: str = ""
    spec: SimSpec
    created_at: float
    up_at: float
    boot: int = 1
    powered: bool = True
    initialized: bool = False
    orders: tuple[str, ...] = ()
    noted: str = ""
    """The note on its Node (``registration.FAULT_ANNOTATION``) that was last obeyed."""
    gone_at: float | None = None
    """Set once its deletion was accepted: when nothing of it is left."""
    bootstrap: Bootstrap | None = None
    changed: Resources | None = None
    """What its resources have since their first change; None: what its spec says."""

    @property
    def id(self) -> str:
        """The cloud's id. Serial numbers are never used twice, so no id is either."""
        return f"vm-{self.serial:06d}"

    @property
    def account(self) -> str:
        """The class that it counts for."""
        return f"{self.namespace}/{self.class_name}"

    @property
    def resources(self) -> Resources:
        """What its resources have now."""
        if self.changed is not None:
            return self.changed
        return Resources(tags=self.spec.tags, source_dest_check=self.spec.source_dest_check is not False)

    @property
    def tags(self) -> Mapping[str, str]:
        """The VM's own."""
        return (self.spec if self.changed is None else self.changed).tags.vm

    @property
    def interface(self) -> Interface:
        """Its network interface."""
        found = self.resources
        return Interface(f"nic-{self.serial:06d}", found.tags.network, found.source_dest_check)

    @property
    def boot_disk(self) -> BootDisk:
        """Its own disk."""
        return BootDisk(f"boot-{self.serial:06d}", self.resources.tags.disk)

    @property
    def objects(self) -> Mapping[str, tuple[str, Mapping[str, str]]]:
        """What of it has tags, by id: which resource it is, and the tags; the VM first."""
        interface, disk = self.interface, self.boot_disk
        return {
            self.id: (VM, self.tags),
            interface.id: (NETWORK, interface.tags),
            disk.id: (DISK, disk.tags),
        }

    @property
    def provider_id(self) -> str:
        """The value of ``Node.spec.providerID``."""
        return f"{SCHEME}:///{self.spec.region}/{self.id}"

    @property
    def address(self) -> str:
        """Its private IPv4 address; serials above sixteen million would repeat the first ones."""
        return ".".join(("10", *(str(self.serial >> shift & 255) for shift in (16, 8, 0))))

    @property
    def cluster(self) -> str | None:
        """Where its kubelet works; empty: in the cluster that VMs without data join; None: nowhere yet."""
        return "" if self.bootstrap is None else self.bootstrap.cluster or None

    @property
    def node_name(self) -> str:
        """What its kubelet registers as."""
        if self.bootstrap is not None and self.bootstrap.name:
            return self.bootstrap.name
        return self.host_name

    @property
    def host_name(self) -> str:
        """What the VM itself is called."""
        match self.spec.node_names:
            case "machine":
                return self.name
            case "id":
                return self.id
            case "address":
                return f"ip-{self.address.replace('.', '-')}"


def with_tags(vm: Vm, resource: str, tags: Mapping[str, str]) -> Vm:
    """The VM with these tags on one of its resources, and no others there."""
    found = vm.resources
    if tags == found.tags.of(resource):
        return vm
    return replace(vm, changed=replace(found, tags=replace(found.tags, **{resource: tags})))


def with_check(vm: Vm, checks: bool) -> Vm:
    """The VM with an interface that checks addresses, or does not."""
    found = vm.resources
    if checks is found.source_dest_check:
        return vm
    return replace(vm, changed=replace(found, source_dest_check=checks))


def carries(vm: Vm, account: str, tags: Mapping[str, str]) -> bool:
    """Whether a VM was made in the namespace of that account (namespace/class), with all of these tags."""
    return vm.namespace == account.partition("/")[0] and tags.items() <= vm.tags.items()


def orders_in(note: str) -> frozenset[str]:
    """The words of a note such as ``disk-pressure, stop-kubelet``."""
    return frozenset(word for word in (part.strip() for part in note.split(",")) if word)


@dataclass(frozen=True, slots=True)
class VmState:
    """What is true of a VM now; ``until`` is when that may change by itself, None for never.

    ``kubelet``  whether its kubelet runs and sends requests
    ``bad``      the condition types that it must report as bad
    """

    kubelet: bool
    bad: frozenset[str] = frozenset()
    until: float | None = None


def state_at(vm: Vm, now: float) -> VmState:
    """The state of a VM at ``now`` (epoch seconds)."""
    lifecycle = vm.spec.lifecycle
    if not vm.powered or vm.gone_at is not None or not lifecycle.joins or STOP_KUBELET in vm.orders:
        return VmState(kubelet=False)
    if (vm.spec.needs_initialize and not vm.initialized) or vm.cluster is None:
        return VmState(kubelet=False)
    if now < vm.up_at:
        return VmState(kubelet=False, until=vm.up_at)
    ends = [
        after
        for after in (lifecycle.dies_after_seconds, lifecycle.kubelet_stops_after_seconds)
        if after is not None
    ]
    silent_at = vm.up_at + min(ends) if ends else None
    if silent_at is not None and now >= silent_at:
        return VmState(kubelet=False)
    bad = {ORDERS[order] for order in vm.orders if order in ORDERS}
    turns = [silent_at]
    if (ready_at := vm.up_at + vm.spec.ready_seconds) > now:
        bad.add(NOT_READY)
        turns.append(ready_at)
    if lifecycle.condition:
        bad_at = vm.up_at + lifecycle.condition_after_seconds
        if now >= bad_at:
            bad.add(lifecycle.condition)
        else:
            turns.append(bad_at)
    return VmState(True, frozenset(bad), min((turn for turn in turns if turn is not None), default=None))


CSI_DRIVER = "sim.kubewright.dev"
"""The CSI driver name by which PersistentVolumes refer to this cloud; the volume handle is a disk's id."""


class Volume(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """A disk that VMs can have attached, one at a time. ``vm_id`` is the VM that has it, empty for none."""

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
