"""What is asked of EC2 for one machine: to make its instance, and to complete it. Pure.

Theory.      EC2 answers a RunInstances with a ClientToken that it knows with the instance that it made
             before, so a request whose answer was lost can be sent again. The token follows from namespace,
             name and owner's uid, and from nothing that changes between two processes. It is used up once its
             instance has ended; ``attempt`` counts the next ones, which follow just so. The same token with
             other parameters is refused by EC2. So everything here follows from the class, the machine and
             its data alone: lists are sorted, and data is packed without the time. What is asked of EC2 to
             make a running instance what its class says by now: tags, checks of packets. A launch puts tags
             on the instance, its volumes and its interfaces; later others attach volumes of their own
             (PersistentVolumes) and interfaces (networks of pods). Which are the launch's their tags say:
             those of cluster and role, and the instance's own name. So only they are updated, and the
             instance itself; the request of a spot instance is over by then. Objects with the same changes
             are one request, since EC2 lets an account change tags rarely. The attribute of an instance is
             that of its only interface; of several, each has its own.
Invariants.  User data that is sent has at most ``MOST_DATA`` bytes, as EC2 takes it. The driver's own tags
             are neither put nor taken off, whatever a class says or said. The tags of cluster and role stay
             on each object: lists, and the rights to the objects, go by them.
Source       AWS-05, AWS-06; the meaning of fields is that of Gardener's provider.
Called by    ``driver``.
"""

import gzip
import hashlib
import json
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from msgspec import structs

from kubewright.driver import hot
from kubewright.driver.contract import MachineRequest, Size
from kubewright.driver.errors import InvalidArgument
from kubewright.driver.hot import DISK, NETWORK, RESOURCES, VM, TagChanges, Tags
from kubewright.providers.aws.instances import NAME, Tag, Vm, own_tags, tag_list, wanted_tags
from kubewright.providers.aws.spec import (
    OWN_TAGS,
    ROOT,
    AwsSpec,
    BlockDevice,
    CapacityReservation,
    MetadataOptions,
    NetworkInterface,
    Options,
    Slot,
)

MOST_DATA = 16 * 1024
"""Bytes of user data that EC2 takes, before they are written in base64."""
GZIP = b"\x1f\x8b"
ARCHITECTURES: Mapping[str, str] = {"x86_64": "amd64", "x86_64_mac": "amd64", "arm64": "arm64"}


@dataclass(frozen=True, slots=True)
class Image:
    """An AMI, as far as a launch has to know it."""

    root_device: str
    architecture: str = ""


@dataclass(frozen=True, slots=True)
class MachineType:
    """An instance type: what a node of it offers, and for which architectures of AMIs it is."""

    vcpus: int
    memory_mib: int
    architectures: tuple[str, ...]

    @property
    def size(self) -> Size:
        capacity = {"cpu": str(self.vcpus), "memory": f"{self.memory_mib}Mi", "pods": "110"}
        known = [ARCHITECTURES[each] for each in self.architectures if each in ARCHITECTURES]
        return Size(capacity, known[0] if known else "", "linux")


def mismatch(spec: AwsSpec, image: Image, kind: MachineType) -> str:
    """Why no instance of this type runs this image, in a clause; empty if it does."""
    if not image.architecture or not kind.architectures or image.architecture in kind.architectures:
        return ""
    return (
        f"ami: {spec.ami} is for {image.architecture}, and {spec.machine_type} is "
        f"{' or '.join(kind.architectures)}"
    )


def client_token(request: MachineRequest, attempt: int) -> str:
    """The token of the instance that is made for a machine, and of those that follow it: 64 characters."""
    parts = (request.namespace, request.name, request.owner_uid, str(attempt))
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def user_data(data: bytes, data_format: str = "") -> bytes:
    """As it is sent: packed where it is too large as it is, which cloud-init unpacks.

    Raises:
        InvalidArgument: there is none, or too much of it.
    """
    if not data:
        raise InvalidArgument("userData: the Secret has none, and a VM without it becomes no node")
    if len(data) <= MOST_DATA:
        return data
    packed = (
        data if data.startswith(GZIP) or _is_ignition(data, data_format) else gzip.compress(data, mtime=0)
    )
    if len(packed) > MOST_DATA:
        more = "" if packed is data else f", {len(packed)} of them when they are packed"
        raise InvalidArgument(f"userData: {len(data)} bytes{more}, and EC2 takes {MOST_DATA}")
    return packed


def run_instances(
    spec: AwsSpec, request: MachineRequest, image: Image, options: Options, attempt: int = 0
) -> Mapping[str, Any]:
    """The arguments of the RunInstances that makes the instance of a machine."""
    data = user_data(request.secret.data.get("userData", b""), request.data_format)
    optional = {
        "BlockDeviceMappings": list(_devices(spec, image)),
        "CapacityReservationSpecification": _reservation(spec.capacity_reservation),
        "CpuOptions": _cpus(spec),
        "InstanceMarketOptions": _market(spec),
        "KeyName": spec.key_name,
        "MetadataOptions": _metadata(spec.instance_metadata_options or MetadataOptions(), options),
        "Placement": _placement(spec),
    }
    return {
        "ClientToken": client_token(request, attempt),
        "EbsOptimized": spec.ebs_optimized,
        "IamInstanceProfile": {"Arn": spec.iam.arn} if spec.iam.arn else {"Name": spec.iam.name},
        "ImageId": spec.ami,
        "InstanceType": spec.machine_type,
        "MaxCount": 1,
        "MinCount": 1,
        "Monitoring": {"Enabled": spec.monitoring},
        "NetworkInterfaces": [_interface(*each) for each in spec.interfaces.items()],
        "TagSpecifications": _tags(spec, request),
        "UserData": data,
        **{name: value for name, value in optional.items() if value},
    }


@dataclass(frozen=True, slots=True)
class Step:
    """A request that completes an instance: the name of EC2's operation, and its arguments."""

    operation: str
    arguments: Mapping[str, Any]
    why: str


def missing(spec: AwsSpec, vm: Vm) -> Sequence[Step]:
    """What an instance still lacks of what its class says, and the launch cannot express."""
    return [*(checks(vm, False, spec.interfaces) if spec.forwards else ()), *_addresses(spec, vm)]


def completed(spec: AwsSpec, vm: Vm) -> Vm:
    """An instance as it is once nothing is missing, until EC2 shows it."""
    prefixes = {slot: each.ipv6_prefix_count or 0 for slot, each in spec.interfaces.items()}
    interfaces = tuple(
        structs.replace(
            each,
            source_dest_check=each.source_dest_check and not spec.forwards,
            ipv6_prefixes=each.ipv6_prefixes or ({},) * prefixes.get(each.slot, 0),
        )
        for each in vm.interfaces
    )
    checks = vm.source_dest_check and not spec.forwards
    return structs.replace(vm, source_dest_check=checks, network_interfaces=interfaces)


def other_parameters(spec: AwsSpec, vm: Vm) -> str:
    """What of an instance differs from the class and cannot be changed, in a clause; empty if nothing."""
    wanted = {"machineType": spec.machine_type, "ami": spec.ami}
    actual = {"machineType": vm.instance_type, "ami": vm.image_id}
    return ", ".join(
        f"its {name} is {actual[name]} and not {value}"
        for name, value in wanted.items()
        if actual[name] not in ("", value)
    )


def checks(vm: Vm, enabled: bool, slots: Container[Slot]) -> Iterator[Step]:
    """To check source and destination of packets, or no longer. The attribute of an instance is that of its
    only interface; of several, each has its own. ``slots``: where those of the class are plugged in."""
    why = f"it {'does not check' if enabled else 'still checks'} source and destination of packets"
    value = {"SourceDestCheck": {"Value": enabled}}
    if len(vm.network_interfaces) < 2:
        if vm.source_dest_check is not enabled:
            yield Step("ModifyInstanceAttribute", {"InstanceId": vm.instance_id, **value}, why)
        return
    for each in vm.interfaces:
        if each.slot in slots and each.source_dest_check is not enabled:
            arguments = {"NetworkInterfaceId": each.network_interface_id, **value}
            yield Step("ModifyNetworkInterfaceAttribute", arguments, why)


def _addresses(spec: AwsSpec, vm: Vm) -> Iterator[Step]:
    """Only what is missing is asked for, so that a request that is repeated asks for nothing twice."""
    for actual in vm.interfaces:
        if (wanted := spec.interfaces.get(actual.slot)) is None:
            continue
        prefixes = (wanted.ipv6_prefix_count or 0) - len(actual.ipv6_prefixes)
        addresses = (wanted.ipv6_address_count or 0) - len(actual.ipv6_addresses)
        more = {"Ipv6PrefixCount": prefixes, "Ipv6AddressCount": addresses}
        for name, count in more.items():
            if count > 0:
                arguments = {"NetworkInterfaceId": actual.network_interface_id, name: count}
                why = f"{count} IPv6 {'prefixes' if 'Prefix' in name else 'addresses'} are missing"
                yield Step("AssignIpv6Addresses", arguments, why)


def _is_ignition(data: bytes, data_format: str) -> bool:
    if data_format:
        return data_format == "ignition"
    try:
        return "ignition" in json.loads(data)
    except (ValueError, TypeError, RecursionError):
        return False


def _devices(spec: AwsSpec, image: Image) -> Iterator[Mapping[str, Any]]:
    alone = len(spec.block_devices) == 1
    for each in spec.block_devices:
        name = image.root_device if alone or each.device_name == ROOT else each.device_name
        if each.no_device or each.virtual_name:
            special = {"NoDevice": ""} if each.no_device else {"VirtualName": each.virtual_name}
            yield {"DeviceName": each.device_name or name, **special}
        else:
            yield {"DeviceName": name, "Ebs": _ebs(each)}


def _ebs(device: BlockDevice) -> Mapping[str, Any]:
    ebs = device.ebs
    given = {
        "Encrypted": ebs.encrypted or None,
        "Iops": ebs.iops or None,
        "KmsKeyId": ebs.kms_key_id,
        "SnapshotId": ebs.snapshot_id,
        "Throughput": ebs.throughput,
        "VolumeSize": ebs.volume_size or None,
        "VolumeType": ebs.volume_type,
    }
    return {"DeleteOnTermination": ebs.delete_on_termination is not False, **_given(given)}


def _interface(slot: Slot, each: NetworkInterface) -> Mapping[str, Any]:
    given = {
        "AssociatePublicIpAddress": each.associate_public_ip_address,
        "Description": each.description,
        "InterfaceType": each.interface_type,
        "Ipv6AddressCount": each.ipv6_address_count or None,
        "NetworkCardIndex": each.network_card_index,
        "PrimaryIpv6": each.primary_ipv6,
    }
    return {
        "DeviceIndex": slot[1],
        "DeleteOnTermination": each.delete_on_termination is not False,
        "Groups": list(each.security_group_ids),
        "SubnetId": each.subnet_id,
        **_given(given),
    }


def _tags(spec: AwsSpec, request: MachineRequest) -> Sequence[Mapping[str, Any]]:
    """On all that the request makes: the tags of the class, and the driver's own."""
    wanted, own = wanted_tags(spec), own_tags(request)
    kinds = {"instance": wanted.vm, "volume": wanted.disk, "network-interface": wanted.network}
    if spec.spot_price is not None:
        kinds["spot-instances-request"] = wanted.vm
    return [{"ResourceType": kind, "Tags": tag_list({**tags, **own})} for kind, tags in kinds.items()]


def _market(spec: AwsSpec) -> Mapping[str, Any]:
    if spec.capacity_reservation and spec.capacity_reservation.is_ml_capacity_block:
        return {"MarketType": "capacity-block"}
    if spec.spot_price is None:
        return {}
    most = {"MaxPrice": spec.spot_price} if spec.spot_price else {}
    return {"MarketType": "spot", "SpotOptions": {"SpotInstanceType": "one-time", **most}}


def _reservation(found: CapacityReservation | None) -> Mapping[str, Any]:
    if found is None:
        return {}
    target = {
        "CapacityReservationId": found.capacity_reservation_id,
        "CapacityReservationResourceGroupArn": found.capacity_reservation_resource_group_arn,
    }
    if named := _given(target):
        return {"CapacityReservationTarget": named}
    return _given({"CapacityReservationPreference": found.capacity_reservation_preference or None})


def _metadata(found: MetadataOptions, options: Options) -> Mapping[str, Any]:
    tokens = found.http_tokens or ("required" if options.http_tokens == "required" else "")
    given = {
        "HttpEndpoint": found.http_endpoint or None,
        "HttpProtocolIpv6": found.http_protocol_ipv6 or None,
        "HttpPutResponseHopLimit": found.http_put_response_hop_limit or None,
        "HttpTokens": tokens or None,
    }
    return _given(given)


def _cpus(spec: AwsSpec) -> Mapping[str, Any]:
    if (cpus := spec.cpu_options) is None:
        return {}
    given = {"AmdSevSnp": cpus.amd_sev_snp}
    return {"CoreCount": cpus.core_count, "ThreadsPerCore": cpus.threads_per_core, **_given(given)}


def _placement(spec: AwsSpec) -> Mapping[str, Any]:
    if (place := spec.placement) is None:
        return {}
    return _given(
        {
            "Affinity": place.affinity,
            "AvailabilityZone": place.availability_zone,
            "GroupId": place.group_id,
            "HostId": place.host_id,
            "PartitionNumber": place.partition_number,
            "Tenancy": place.tenancy,
        }
    )


def _given(arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    return {name: value for name, value in arguments.items() if value is not None}


CHECKS = "srcAndDstChecksEnabled"
HOT_FIELDS = (hot.FIELD, CHECKS)

TagsById = Mapping[str, Mapping[str, str]]


def parts(vm: Vm) -> Sequence[str]:
    """The ids of the volumes and interfaces of an instance, whosoever they are."""
    return [*(each.network_interface_id for each in vm.interfaces), *vm.volumes]


def changes(
    spec: AwsSpec, last_applied: Mapping[str, Any] | None, vm: Vm, tags_of: TagsById
) -> Mapping[str, TagChanges]:
    """What is to be done to the tags of an instance and of its parts, by their ids.

    Args:
        spec: what the class says now.
        last_applied: the providerSpec that was applied last; None where that is not known.
        vm: the instance.
        tags_of: the tags of its parts.

    Raises:
        InvalidArgument: the class asks for other tags by which the objects are found.
    """
    last = hot.last_applied_tags(last_applied, RESOURCES)
    if last is not None:
        last = Tags(**{each: _of_users(last.of(each)) for each in RESOURCES})
    return hot.changes(last, wanted_tags(spec), _objects(spec, vm, tags_of))


def steps(
    spec: AwsSpec, last_applied: Mapping[str, Any] | None, vm: Vm, what: Mapping[str, TagChanges]
) -> Iterator[Step]:
    """The requests for these changes of tags, and for checks of addresses as the class has them."""
    for each, ids in _alike(what):
        why = f"the tags of {', '.join(ids)}"
        if each.put:
            yield Step("CreateTags", {"Resources": ids, "Tags": tag_list(each.put)}, why)
        if each.remove:
            keys = [{"Key": key} for key in each.remove]
            yield Step("DeleteTags", {"Resources": ids, "Tags": keys}, why)
    if (enabled := _checked(spec, last_applied)) is not None:
        yield from checks(vm, enabled, spec.interfaces)


def updated(
    spec: AwsSpec, last_applied: Mapping[str, Any] | None, vm: Vm, what: Mapping[str, TagChanges]
) -> Vm:
    """The instance afterwards, until EC2 shows it."""
    found, enabled = _by_key(vm), _checked(spec, last_applied)
    if vm.instance_id in what:
        found = hot.changed(found, what[vm.instance_id])
    vm = structs.replace(vm, tags=tuple(Tag(key=key, value=value) for key, value in found.items()))
    if enabled is None:
        return vm
    interfaces = tuple(structs.replace(each, source_dest_check=enabled) for each in vm.network_interfaces)
    return structs.replace(vm, source_dest_check=enabled, network_interfaces=interfaces)


def _checked(spec: AwsSpec, last_applied: Mapping[str, Any] | None) -> bool | None:
    """Whether packets are to be checked; None: what others have chosen stays."""
    last = hot.last_applied_switch(last_applied, CHECKS)
    return hot.switched(last, spec.src_and_dst_checks_enabled, default=True)


def _objects(spec: AwsSpec, vm: Vm, tags_of: TagsById) -> Mapping[str, tuple[str, Mapping[str, str]]]:
    made_with_it = {**spec.mandatory_tags, NAME: vm.tag(NAME)}

    def own(ids: Sequence[str], resource: str) -> Mapping[str, tuple[str, Mapping[str, str]]]:
        found = {each: tags_of.get(each, {}) for each in ids}
        return {each: (resource, has) for each, has in found.items() if made_with_it.items() <= has.items()}

    return {
        vm.instance_id: (VM, _by_key(vm)),
        **own([each.network_interface_id for each in vm.interfaces], NETWORK),
        **own(vm.volumes, DISK),
    }


def _alike(what: Mapping[str, TagChanges]) -> Sequence[tuple[TagChanges, Sequence[str]]]:
    """The changes, each with the ids of all objects that have the same."""
    found: list[tuple[TagChanges, list[str]]] = []
    for name, each in what.items():
        ids = next((ids for other, ids in found if other == each), None)
        if ids is None:
            found.append((each, [name]))
        else:
            ids.append(name)
    return found


def _by_key(vm: Vm) -> Mapping[str, str]:
    return {each.key: each.value for each in vm.tags}


def _of_users(said: Mapping[str, str]) -> Mapping[str, str]:
    """Those that a class may have: none of the driver's, and none of AWS's own."""
    return {
        key: value
        for key, value in said.items()
        if key != NAME and not key.startswith(OWN_TAGS) and not key.lower().startswith("aws:")
    }
