"""What a MachineClass may say to the aws driver, and the administrator in the driver's options. Pure.

Theory.      A class for Gardener's provider of AWS (``AWSProviderSpec``, apiVersion
             mcm.gardener.cloud/v1alpha1) is one for this driver: the same fields with the same meaning. What
             EC2 refuses whatever the account is refused here, at the moment the class is written; what
             depends on the account (ids, quotas, what a zone offers) EC2 itself is asked for. A class is
             written by a user of a namespace. So it names a region, which becomes a part of a host name and
             has the form of one, and never an endpoint: that is the administrator's.
Invariants.  An unknown field, a wrong type or a combination that cannot be is ``InvalidArgument`` and names
             the field. The tags by which VMs are listed are there, and have no character that a filter of EC2
             takes for a wildcard.
Source       AWS-01, HOT-05; the field names and rules are those of Gardener's provider.
             Tags may be said for instances, interfaces and volumes apart; a flat map, as Gardener's, is for
             all of them.
Called by    ``driver``, ``launch``. For people: docs/reference/aws.md.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from kubewright.base.errors import InvalidInput
from kubewright.driver.answers import plainly, provider_spec
from kubewright.driver.errors import InvalidArgument
from kubewright.driver.hot import RESOURCES, VM, Tags, by_resource
from kubewright.wire.gvk import Resource

PROVIDER = "aws"
SPEC_VERSION = "mcm.gardener.cloud/v1alpha1"
OLD_KIND = Resource("machine.sapcloud.io", "v1alpha1", "awsmachineclasses", "AWSMachineClass")
"""The class that MCM had for AWS before MachineClass: its spec is a providerSpec, and names the Secrets."""
ROOT = "/root"
"""The name of a block device that stands for the root device of the AMI, whatever that is called."""

DATA_DEVICE = re.compile(r"^/dev/(sd[a-z]|xvd[a-c][a-z]?)\Z")
PROVISIONED = ("io1", "io2")
WITH_IOPS = ("io1", "io2", "gp3")
CLUSTER_TAG, ROLE_TAG = "kubernetes.io/cluster/", "kubernetes.io/role/"
OWN_TAGS = "kubewright.io/"
MOST_TAGS, MOST_VALUE = 46, 256
"""Of a class: EC2 takes 50 of a resource, and four are the driver's (``instances.own_tags``)."""

REGION = r"^[a-z]{2,5}(-[a-z]+){1,3}-[0-9]{1,2}\Z"

Text = Annotated[str, Meta(min_length=1, max_length=512)]
Positive = Annotated[int, Meta(ge=1, le=2**31 - 1)]
Count = Annotated[int, Meta(ge=0, le=1000)]
Switch = Literal["enabled", "disabled"]
Slot = tuple[int, int]
"""Where an interface of a VM is plugged in: network card and device, of which one is the primary one's."""

PRIMARY: Slot = (0, 0)


class _Part(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Base of everything in a providerSpec and in the options."""


class Ebs(_Part, frozen=True, kw_only=True):
    """A volume of EBS; ``volumeSize`` in GiB, ``throughput`` in MiB/s."""

    delete_on_termination: bool | None = None
    encrypted: bool = False
    iops: Annotated[int, Meta(ge=0, le=2**31 - 1)] = 0
    throughput: Positive | None = None
    kms_key_id: Text | None = msgspec.field(default=None, name="kmsKeyID")
    snapshot_id: Text | None = msgspec.field(default=None, name="snapshotID")
    volume_size: Annotated[int, Meta(ge=0, le=65536)] = 0
    volume_type: Literal["", "gp2", "gp3", "io1", "io2", "st1", "sc1", "standard"] = ""


class BlockDevice(_Part, frozen=True, kw_only=True):
    """``deviceName`` is ``/root``, ``/dev/sdX`` or ``/dev/xvdX``; a single one is the root device."""

    device_name: Annotated[str, Meta(max_length=64)] = ""
    ebs: Ebs = Ebs()
    no_device: Annotated[str, Meta(max_length=64)] = ""
    virtual_name: Annotated[
        str, Meta(pattern=r"^(ephemeral[0-9]{1,2})?\Z", description="a name like ephemeral0")
    ] = ""


class Iam(_Part, frozen=True, kw_only=True):
    """The instance profile, by its ARN or its name."""

    arn: Annotated[str, Meta(max_length=512)] = ""
    name: Annotated[str, Meta(max_length=128)] = ""


class NetworkInterface(_Part, frozen=True, kw_only=True):
    """The one at device 0 of card 0 is the VM's primary interface; without a ``deviceIndex``, the first."""

    associate_public_ip_address: bool | None = msgspec.field(default=None, name="associatePublicIPAddress")
    delete_on_termination: bool | None = None
    description: Text | None = None
    security_group_ids: Annotated[tuple[Text, ...], Meta(max_length=16)] = msgspec.field(
        default=(), name="securityGroupIDs"
    )
    subnet_id: Annotated[str, Meta(max_length=64)] = msgspec.field(default="", name="subnetID")
    ipv6_address_count: Count | None = None
    ipv6_prefix_count: Count | None = None
    interface_type: Literal["interface", "efa", "efa-only"] | None = None
    network_card_index: Count | None = None
    device_index: Count | None = None
    primary_ipv6: bool | None = None


class CapacityReservation(_Part, frozen=True, kw_only=True):
    """Which capacity reservation the VM takes its place from."""

    capacity_reservation_preference: Literal["", "open", "none", "capacity-reservations-only"] = ""
    capacity_reservation_id: Text | None = None
    capacity_reservation_resource_group_arn: Text | None = None
    is_ml_capacity_block: bool | None = msgspec.field(default=None, name="isMLCapacityBlock")


class MetadataOptions(_Part, frozen=True, kw_only=True):
    """The service from which a VM reads about itself; ``httpTokens: required`` is IMDSv2 alone."""

    http_endpoint: Literal["", "enabled", "disabled"] = ""
    http_put_response_hop_limit: Annotated[int, Meta(ge=0, le=64)] | None = None
    http_tokens: Literal["", "required", "optional"] = ""
    http_protocol_ipv6: Literal["", "enabled", "disabled"] = ""


class CpuOptions(_Part, frozen=True, kw_only=True):
    """Cores and threads."""

    core_count: Positive
    threads_per_core: Annotated[int, Meta(ge=1, le=2)]
    amd_sev_snp: Switch | None = None


class Placement(_Part, frozen=True, kw_only=True):
    """Where the VM runs."""

    affinity: Literal["default", "host"] | None = None
    availability_zone: Text | None = None
    tenancy: Literal["default", "dedicated", "host"] | None = None
    group_id: Text | None = None
    host_id: Text | None = None
    partition_number: Positive | None = None


class AwsSpec(_Part, frozen=True, kw_only=True):
    """A ``providerSpec`` of the aws driver.

    ``spotPrice``   None: on demand; empty: a spot instance at the market's price; else the most for an hour
    ``srcAndDstChecksEnabled``   false: the VM may forward packets of others (a NAT instance)
    """

    api_version: Literal["", "mcm.gardener.cloud/v1alpha1"] = ""
    ami: Annotated[
        str, Meta(pattern=r"^ami-[0-9a-f]{8,17}\Z", description="an id like ami-0123456789abcdef0")
    ]
    machine_type: Annotated[
        str, Meta(pattern=r"^[a-z0-9-]{1,32}\.[a-z0-9-]{1,32}\Z", description="a type like m5.large")
    ]
    region: Annotated[str, Meta(pattern=REGION, description="a region like eu-west-1")]
    block_devices: Annotated[tuple[BlockDevice, ...], Meta(max_length=64)] = ()
    capacity_reservation: CapacityReservation | None = None
    cpu_options: CpuOptions | None = None
    ebs_optimized: bool = False
    iam: Iam = Iam()
    instance_metadata_options: MetadataOptions | None = None
    key_name: Annotated[str, Meta(max_length=255)] | None = None
    monitoring: bool = False
    network_interfaces: Annotated[tuple[NetworkInterface, ...], Meta(max_length=32)] = ()
    placement: Placement | None = None
    spot_price: (
        Annotated[str, Meta(pattern=r"^([0-9]{1,9}(\.[0-9]{1,9})?)?\Z", description="a price like 0.25")]
        | None
    ) = None
    src_and_dst_checks_enabled: bool | None = None
    tags: Tags = Tags()

    @property
    def mandatory_tags(self) -> Mapping[str, str]:
        """Those by which the VMs of the class are found: of the cluster, and of the role."""
        return {key: value for key, value in self.tags.vm.items() if CLUSTER_TAG in key or ROLE_TAG in key}

    @property
    def interfaces(self) -> Mapping[Slot, NetworkInterface]:
        """By where they are plugged in."""
        return {slot_of(number, each): each for number, each in enumerate(self.network_interfaces)}

    @property
    def forwards(self) -> bool:
        """The VM is to send and receive packets of other addresses than its own."""
        return self.src_and_dst_checks_enabled is False

    @property
    def needs_initializing(self) -> bool:
        """EC2 cannot be told all of it at the launch."""
        return self.forwards or any(each.ipv6_prefix_count for each in self.network_interfaces)


class Options(_Part, frozen=True, kw_only=True):
    """What the administrator says: ``--driver-option NAME=VALUE``.

    ``endpoint_url``          where EC2 is asked, for a VPC endpoint or a test; without it, AWS's own
    ``ambient_credentials``   classes whose Secret has no credentials are worked on with those of this process
                              (IRSA, an instance profile, AWS_PROFILE): ``true`` or ``false``
    ``http_tokens``           what a VM asks of its metadata service where its class does not say it:
                              ``required`` is IMDSv2, ``default`` what image and account say
    ``attempts``              how often a request is sent at the most
    """

    endpoint_url: Annotated[str, Meta(pattern=r"^(https?://[^\s@]{1,1024})?\Z")] = ""
    ambient_credentials: bool = False
    http_tokens: Literal["required", "default"] = "required"
    attempts: Annotated[int, Meta(ge=1, le=20)] = 6


def slot_of(number: int, each: NetworkInterface) -> Slot:
    """Where the interface of this number is plugged in: without a ``deviceIndex`` it is the number."""
    return each.network_card_index or 0, number if each.device_index is None else each.device_index


def parse_spec(raw: Mapping[str, Any]) -> AwsSpec:
    """Read a providerSpec.

    Raises:
        InvalidArgument: what no VM can be made by; names the field.
    """
    spec = provider_spec(by_resource(raw, RESOURCES), AwsSpec)
    if problem := next(_problems(spec), ""):
        raise InvalidArgument(f"providerSpec: {problem}")
    return spec


def parse_options(options: Mapping[str, str]) -> Options:
    """Read the driver's options.

    Raises:
        InvalidInput: an option that is unknown or out of range; names it.
    """
    try:
        return msgspec.convert(dict(options), Options, strict=False)
    except msgspec.ValidationError as error:
        raise InvalidInput(f"driver aws: {plainly(str(error))}") from None


def _problems(spec: AwsSpec) -> Iterator[str]:
    if bool(spec.iam.arn) is bool(spec.iam.name):
        yield "iam: needs the arn or the name of an instance profile, one of them"
    for number, device in enumerate(spec.block_devices):
        yield from (f"blockDevices[{number}].{each}" for each in _device_problems(device))
    yield from _names_of_devices(spec)
    yield from _interface_problems(spec)
    yield from _reservation_problems(spec.capacity_reservation)
    for resource in RESOURCES:
        field = "tags" if spec.tags.of(resource) == spec.tags.vm else f"tags.{resource}"
        tags = {**spec.tags.of(resource), **spec.mandatory_tags}  # on all, whatever the class says of them
        yield from (f"{field}: {each}" for each in _tag_problems(resource, tags))


def _device_problems(device: BlockDevice) -> Iterator[str]:
    ebs = device.ebs
    if device.no_device or device.virtual_name:
        if ebs != Ebs():
            yield "ebs: is not for a device with noDevice or virtualName"
        return
    if not ebs.volume_type:
        yield "ebs.volumeType: is needed: gp2, gp3, io1, io2, st1, sc1 or standard"
    if not ebs.volume_size and not ebs.snapshot_id:
        yield "ebs.volumeSize: is needed, in GiB, where no snapshotID is given"
    if ebs.volume_type in PROVISIONED and not ebs.iops:
        yield f"ebs.iops: is needed for volumes of type {ebs.volume_type}"
    if ebs.iops and ebs.volume_type not in WITH_IOPS:
        yield f"ebs.iops: is not for volumes of type {ebs.volume_type}, only of {', '.join(WITH_IOPS)}"
    if ebs.throughput and ebs.volume_type != "gp3":
        yield f"ebs.throughput: is not for volumes of type {ebs.volume_type}, only of gp3"
    if ebs.kms_key_id and not ebs.encrypted:
        yield "ebs.encrypted: has to be true where kmsKeyID is given"


def _names_of_devices(spec: AwsSpec) -> Iterator[str]:
    names = [each.device_name for each in spec.block_devices]
    if len(names) < 2:
        return  # it is the root device, whatever its name
    if names.count(ROOT) != 1:
        yield f"blockDevices: of several, one has the deviceName {ROOT}, and here {names.count(ROOT)} have it"
    for number, name in enumerate(names):
        if name != ROOT and not DATA_DEVICE.match(name):
            yield f"blockDevices[{number}].deviceName: {name!r} is neither {ROOT} nor /dev/sdX nor /dev/xvdX"
        if name in names[:number]:
            yield f"blockDevices[{number}].deviceName: {name!r} is the name of another one, too"


def _interface_problems(spec: AwsSpec) -> Iterator[str]:
    if not spec.network_interfaces:
        yield "networkInterfaces: at least one is needed"
    for number, each in enumerate(spec.network_interfaces):
        if not each.subnet_id:
            yield f"networkInterfaces[{number}].subnetID: is needed"
        if not each.security_group_ids:
            yield f"networkInterfaces[{number}].securityGroupIDs: at least one is needed"
        if each.associate_public_ip_address and len(spec.network_interfaces) > 1:
            yield (
                f"networkInterfaces[{number}].associatePublicIPAddress: EC2 gives a public address to a VM "
                "with one interface only"
            )
    slots = [slot_of(*each) for each in enumerate(spec.network_interfaces)]
    for number, slot in enumerate(slots):
        if slot in slots[:number]:
            where = "card {}, device {}".format(*slot)
            yield f"networkInterfaces[{number}]: is at the place of another one: {where}"
    if slots and PRIMARY not in slots:
        yield "networkInterfaces: one of them has to be device 0 of card 0, the primary one"


def _reservation_problems(found: CapacityReservation | None) -> Iterator[str]:
    if found is None:
        return
    group, reservation = found.capacity_reservation_resource_group_arn, found.capacity_reservation_id
    if found.capacity_reservation_preference and (group or reservation):
        yield "capacityReservation.capacityReservationPreference: cannot be given together with a reservation"
    if group and reservation:
        yield "capacityReservation: a reservation or a group of them is given, and not both"


def _tag_problems(resource: str, tags: Mapping[str, str]) -> Iterator[str]:
    for kind in (CLUSTER_TAG, ROLE_TAG):
        if resource == VM and not any(kind in key for key in tags):
            yield f"one of the form {kind}NAME is needed: VMs are found by it"
    if len(tags) > MOST_TAGS:
        yield f"there are {len(tags)}, and EC2 takes {MOST_TAGS} besides the driver's own"
    for key, value in tags.items():
        if not 1 <= len(key) <= 128:
            yield f"the key {key[:128]!r} has not between 1 and 128 characters"
        if len(value) > MOST_VALUE:
            yield f"the value of {key[:128]!r} has more than {MOST_VALUE} characters"
        if key.lower().startswith("aws:") or key.startswith(OWN_TAGS):
            yield f"{key!r} is reserved, by AWS (aws:) or this driver ({OWN_TAGS})"
        if (CLUSTER_TAG in key or ROLE_TAG in key) and set("*?\\") & set(key + value):
            yield f"{key!r} has a *, ? or \\, and VMs are searched for by it"
