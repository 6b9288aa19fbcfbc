"""An instance of EC2 as the driver sees it: its tags, its state, and for which machine it was made. Pure.

Theory.      EC2 knows nothing of machines; what is known of an instance besides its id stands in its tags,
             which are a part of the request that makes it, so that none exists without them. ``Name`` is the
             machine, as at Gardener's provider, whatever a class says. The class's own tags follow; by those
             of cluster and role instances are searched for. Namespace and owner's uid tell one machine from
             its namesakes; an instance of Gardener's has neither, and there its name alone counts. What a
             class wants (``wanted_tags``) and what is the driver's own (``own_tags``) are separate, so that
             an update of tags can compare the first and leave the second alone.
Invariants.  A tag of a class never takes the place of one of the driver's. An instance that lacks a mandatory
             tag of the class is none of its VMs, whatever id or name it has.
Called by    ``driver``, ``launch``, ``ec2``.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from kubewright.driver.contract import Instance, MachineRequest, VolumeSpec
from kubewright.driver.errors import Code, DriverError, InvalidArgument
from kubewright.driver.hot import DISK, NETWORK, RESOURCES, VM, Tags
from kubewright.providers.aws.spec import MOST_VALUE, OWN_TAGS, AwsSpec, Slot

NAME = "Name"
OWNER, NAMESPACE, CLASS = f"{OWN_TAGS}owner-uid", f"{OWN_TAGS}namespace", f"{OWN_TAGS}class"

THERE = ("pending", "running", "stopping", "stopped")
"""States of an instance that a machine may have."""
ENDING, ENDED = "shutting-down", "terminated"
KNOWN = (*THERE, ENDING)

PROVIDER_ID = re.compile(r"^aws:///([a-z0-9-]{1,64})/(i-[0-9a-f]{8,17})\Z")
VOLUME = re.compile(r"^(aws://[a-z0-9-]*/)?(vol-[0-9a-f]{8,17})\Z")
EBS_CSI = "ebs.csi.aws.com"


class _Answer(msgspec.Struct, frozen=True, kw_only=True, rename="pascal"):
    """Base of what is read of EC2's answers; what is not named here is left out."""


class Tag(_Answer, frozen=True, kw_only=True):
    key: str
    value: str = ""


class State(_Answer, frozen=True, kw_only=True):
    name: str = ""


class StateReason(_Answer, frozen=True, kw_only=True):
    code: str = ""
    message: str = ""


class Address6(_Answer, frozen=True, kw_only=True):
    ipv6_address: str = msgspec.field(default="", name="Ipv6Address")


class Attachment(_Answer, frozen=True, kw_only=True):
    device_index: int = 0
    network_card_index: int = 0


class Interface(_Answer, frozen=True, kw_only=True):
    """A network interface of an instance."""

    network_interface_id: str = ""
    source_dest_check: bool = True
    ipv6_addresses: tuple[Address6, ...] = ()
    ipv6_prefixes: tuple[Any, ...] = ()
    attachment: Attachment = Attachment()

    @property
    def slot(self) -> Slot:
        return self.attachment.network_card_index, self.attachment.device_index


class Volume(_Answer, frozen=True, kw_only=True):
    volume_id: str = ""


class Mapped(_Answer, frozen=True, kw_only=True):
    """A block device of an instance."""

    ebs: Volume = Volume()


class Vm(_Answer, frozen=True, kw_only=True):
    """An instance."""

    instance_id: str
    image_id: str = ""
    instance_type: str = ""
    instance_lifecycle: str = ""
    private_dns_name: str = ""
    private_ip_address: str = ""
    public_dns_name: str = ""
    public_ip_address: str = ""
    state: State = State()
    state_reason: StateReason = StateReason()
    source_dest_check: bool = True
    network_interfaces: tuple[Interface, ...] = ()
    block_device_mappings: tuple[Mapped, ...] = ()
    tags: tuple[Tag, ...] = ()

    def tag(self, key: str) -> str:
        """A tag's value; empty if there is none."""
        return next((each.value for each in self.tags if each.key == key), "")

    @property
    def there(self) -> bool:
        return self.state.name in THERE

    @property
    def interfaces(self) -> Sequence[Interface]:
        """The primary one first."""
        return sorted(self.network_interfaces, key=lambda each: each.slot)

    @property
    def volumes(self) -> Sequence[str]:
        """The ids of all that are attached, those of PersistentVolumes included."""
        return [each.ebs.volume_id for each in self.block_device_mappings if each.ebs.volume_id]


def vms(answer: Mapping[str, Any]) -> Sequence[Vm]:
    """The instances of an answer to DescribeInstances or RunInstances.

    Raises:
        DriverError: the answer is none (``Internal``).
    """
    reservations = answer.get("Reservations", [answer])
    found = [each for one in reservations for each in one.get("Instances", ())]
    try:
        return msgspec.convert(found, tuple[Vm, ...])
    except msgspec.ValidationError as error:
        raise DriverError.of(Code.Internal, f"EC2 answered with no instances: {error}") from None


def instance(vm: Vm, region: str) -> Instance:
    """As the port has it."""
    addresses = (
        ("InternalIP", vm.private_ip_address),
        *(("InternalIP", each.ipv6_address) for one in vm.interfaces for each in one.ipv6_addresses),
        ("InternalDNS", vm.private_dns_name),
        ("ExternalIP", vm.public_ip_address),
        ("ExternalDNS", vm.public_dns_name),
    )
    return Instance(
        provider_id=f"aws:///{region}/{vm.instance_id}",
        node_name=vm.private_dns_name,
        machine_name=vm.tag(NAME),
        owner_uid=vm.tag(OWNER),
        addresses=tuple(each for each in addresses if each[1]),
        interruptible=vm.instance_lifecycle == "spot",
    )


def complete(vm: Vm, region: str) -> Instance:
    """As the port has it, with all by which its node is known.

    Raises:
        DriverError: EC2 shows no name of it yet (``Unavailable``).
    """
    if not vm.private_dns_name:
        text = (
            f"EC2 shows no private DNS name of VM {vm.instance_id}, which is its node's name: it may be too "
            "new for that, or its VPC has DNS support turned off"
        )
        raise DriverError.of(Code.Unavailable, text)
    return instance(vm, region)


def instance_id(provider_id: str, region: str) -> str:
    """The id of EC2's in a provider id; a cloud controller manager writes the zone where we write the region.

    Raises:
        InvalidArgument: it is of another cloud or another region.
    """
    found = PROVIDER_ID.match(provider_id)
    if found is None:
        raise InvalidArgument(f"{provider_id!r} is no provider id of AWS (aws:///REGION/i-...)")
    place = found[1]
    if place != region and re.fullmatch(rf"{re.escape(region)}[a-z]", place) is None:
        raise InvalidArgument(f"VM {provider_id} is in {place}, and its class in {region}")
    return found[2]


# ---------------------------------------------------------------- tags


def wanted_tags(spec: AwsSpec) -> Tags:
    """Those that the class asks for. Interfaces and volumes have those of cluster and role whatever it says
    of them: the rights to them go by these."""
    found = {
        VM: spec.tags.vm,
        **{each: {**spec.tags.of(each), **spec.mandatory_tags} for each in (NETWORK, DISK)},
    }
    return Tags(
        **{each: {key: value for key, value in found[each].items() if key != NAME} for each in RESOURCES}
    )


def own_tags(request: MachineRequest) -> Mapping[str, str]:
    """Those that say for which machine a VM was made."""
    return {
        NAME: request.name,
        OWNER: request.owner_uid,
        NAMESPACE: request.namespace,
        CLASS: request.machine_class.metadata.name[:MOST_VALUE],
    }


def tag_list(tags: Mapping[str, str]) -> Sequence[Mapping[str, str]]:
    """As EC2 writes them."""
    return [{"Key": key, "Value": value} for key, value in sorted(tags.items())]


def tag_filters(spec: AwsSpec) -> Sequence[Mapping[str, Any]]:
    """Instances with the mandatory tags. A filter for each: EC2 takes the values of one for alternatives."""
    return [{"Name": f"tag:{key}", "Values": [value]} for key, value in sorted(spec.mandatory_tags.items())]


def is_of_class(vm: Vm, spec: AwsSpec, namespace: str) -> bool:
    """Whether an instance may be a VM of a machine of this class in this namespace."""
    carried = {each.key: each.value for each in vm.tags}
    return spec.mandatory_tags.items() <= carried.items() and carried.get(NAMESPACE, namespace) == namespace


def of_machine(found: Iterable[Vm], request: MachineRequest, on_record: str) -> Sequence[Vm]:
    """Those of some instances that are VMs of this machine. ``on_record``: the id of the one that its object
    names, which is believed whatever its tags say of owners; empty if there is none."""
    return [
        vm
        for vm in found
        if vm.instance_id == on_record
        or (
            vm.tag(NAME) == request.name
            and vm.tag(OWNER) in ("", request.owner_uid)
            and vm.tag(NAMESPACE) in ("", request.namespace)
        )
    ]


# ---------------------------------------------------------------- volumes


def volume_ids(volumes: Iterable[VolumeSpec]) -> Sequence[str]:
    """The ids at EC2 of persistent volumes, in-tree or of EBS's CSI driver; what is none is left out."""
    named = [
        str((each.spec.get("awsElasticBlockStore") or {}).get("volumeID") or _csi(each.spec.get("csi") or {}))
        for each in volumes
    ]
    return [found[2] for each in named if (found := VOLUME.match(each))]


def _csi(source: Mapping[str, Any]) -> str:
    return str(source.get("volumeHandle", "")) if source.get("driver") == EBS_CSI else ""
