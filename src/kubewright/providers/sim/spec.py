"""What a MachineClass may say to the simulated cloud: the fields of its ``providerSpec``.

Theory.      One frozen value per distinct spec, shared by all VMs of it, so that ten thousand VMs
             cost ten thousand small records and one spec. Faults are part of the spec: a class
             can ask for slow boots, failing calls and dying VMs, and so can a name (``cloud``).
Invariants.  An unknown field or a wrong type is ``InvalidArgument`` and names the field, and so is, when a VM
             is to be made, a value that no Node can have. Everything has a default: ``providerSpec: {}``
             makes VMs at once. A flat map of ``tags`` is for VMs alone (``driver.hot``).
Called by    ``driver``. The reference for people is docs/reference/simulated-cloud.md.

How the simulated kubelets behave; all of it can be set through the driver's options.

Numbers are seconds unless their name says otherwise. ``leaseSeconds=8`` on the command line makes a
node's death show within eight seconds instead of forty.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from kubewright.base.errors import InvalidInput
from kubewright.driver.answers import plainly, provider_spec
from kubewright.driver.errors import Code, InvalidArgument
from kubewright.driver.hot import DISK, NETWORK, VM, Tags, by_resource
from kubewright.wire.naming import label_key, label_value
from kubewright.wire.quantity import parse as parse_quantity
from kubewright.wire.release import KUBERNETES

Seconds = Annotated[float, Meta(ge=0, le=86_400)]
Count = Annotated[int, Meta(ge=0, le=1_000_000)]
Operation = Literal["create", "initialize", "delete", "status", "list", "volumeIDs", "update"]
CodeName = Literal[
    "Canceled", "Unknown", "InvalidArgument", "DeadlineExceeded", "NotFound", "AlreadyExists",
    "PermissionDenied", "ResourceExhausted", "FailedPrecondition", "Aborted", "OutOfRange", "Unimplemented",
    "Internal", "Unavailable", "DataLoss", "Unauthenticated", "Uninitialized",
]  # fmt: skip

CAPACITY = {"cpu": "2", "memory": "4Gi", "ephemeral-storage": "20Gi", "pods": "110"}
"""What a VM has unless its class says otherwise."""

ANNOTATIONS_BYTES = 256 * 1024
"""What an API server takes of an object's annotations, keys and values together."""

HOT_FIELDS = ("tags", "sourceDestCheck")
"""What an update in place applies."""
FLAT_TAGS = (VM,)
"""Which resources a flat map of tags is for."""


@dataclass(frozen=True, slots=True)
class TagRules:
    """Which tags a resource of this cloud takes: ``most`` of them, keys of a form that ``described`` says,
    and values of so many characters, which may be none."""

    key: re.Pattern[str]
    described: str
    value_chars: int
    most: int = 50


_ANY_KEY = re.compile(r".{1,128}\Z", re.DOTALL)
_ANY = "has between 1 and 128 characters"
TAG_RULES: Mapping[str, TagRules] = {
    VM: TagRules(_ANY_KEY, _ANY, 256),
    NETWORK: TagRules(
        re.compile(r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?\Z"),
        "has at most 63 lower-case letters, digits and dashes, first a letter and last no dash",
        63,
    ),
    DISK: TagRules(_ANY_KEY, _ANY, 256),
}
"""As those of real clouds differ from resource to resource, and are bounded for each by itself."""


class _Part(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True
):
    """Base of everything in a providerSpec: strict when read, sparse when written."""


class Fault(_Part, frozen=True, kw_only=True):
    """A way in which calls of one operation go wrong.

    ``code``          the error to answer with.
    ``message``       its text.
    ``times``         only the first so many calls for each machine fail; 0: all of them.
    ``chance``        the share of calls that fail, drawn from the seeded clock.
    ``after_success`` the cloud does what was asked, and only the answer is lost.
    ``hang_seconds``  wait this long before answering.
    ``after_objects`` an update does so many of the VM, its interface and its disk, in this order, and fails.
    """

    operation: Operation
    code: CodeName = "Unavailable"
    message: str = "the simulated cloud says no"
    times: Count = 0
    chance: Annotated[float, Meta(gt=0, le=1)] = 1.0
    after_success: bool = False
    hang_seconds: Seconds = 0
    after_objects: Annotated[int, Meta(ge=0, le=2)] = 0

    @property
    def error_code(self) -> Code:
        return Code[self.code]


class Lifecycle(_Part, frozen=True, kw_only=True):
    """What becomes of a VM after its boot; seconds count from the moment its kubelet is up."""

    joins: bool = True
    dies_after_seconds: Seconds | None = None
    kubelet_stops_after_seconds: Seconds | None = None
    condition: str = ""
    """A node condition that turns bad (``DiskPressure``), ``condition_after_seconds`` into its life."""
    condition_after_seconds: Seconds = 0


class TaintSpec(_Part, frozen=True, kw_only=True):
    """A taint that the kubelet registers its node with."""

    key: Annotated[str, Meta(min_length=1)]
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]
    value: str = ""


class SimSpec(_Part, frozen=True, kw_only=True):
    """A ``providerSpec`` of the simulated cloud."""

    region: Annotated[str, Meta(min_length=1)] = "sim-1"
    zone: Annotated[str, Meta(min_length=1)] = "sim-1a"
    instance_type: Annotated[str, Meta(min_length=1)] = "sim.small"
    tags: Tags = Tags()
    source_dest_check: bool | None = None
    create_seconds: Seconds = 0
    boot_seconds: Seconds = 0
    ready_seconds: Seconds = 0
    delete_seconds: Seconds = 0
    list_lag_seconds: Seconds = 0
    quota: Count = 0
    calls_per_second: Annotated[float, Meta(ge=0)] = 0
    needs_initialize: bool = False
    node_names: Literal["machine", "id", "address"] = "machine"
    capacity: Mapping[str, str | int] = msgspec.field(default_factory=lambda: dict(CAPACITY))
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}
    taints: tuple[TaintSpec, ...] = ()
    kubelet_version: Annotated[str, Meta(min_length=1)] = KUBERNETES
    architecture: Literal["amd64", "arm64"] = "amd64"
    faults: tuple[Fault, ...] = ()
    lifecycle: Lifecycle = Lifecycle()


_canonical = msgspec.json.Encoder(order="deterministic")
_decoder = msgspec.json.Decoder(SimSpec)


def parse_spec(raw: Mapping[str, Any]) -> SimSpec:
    """Read a providerSpec.

    Raises:
        InvalidArgument: an unknown field, a wrong type or a number out of range; names the field.
    """
    return provider_spec(by_resource(raw, FLAT_TAGS), SimSpec)


def refuse_impossible_node(spec: SimSpec) -> None:
    """Refuse to make VMs that could never join, and tags that this cloud does not take. Those that were made
    by such a spec can still be deleted.

    Raises:
        InvalidArgument: no Node can be as the spec says; names the field.
    """
    refuse_tags(spec)
    if problem := next(_node_problems(spec), ""):
        raise InvalidArgument(f"providerSpec: {problem}")


def refuse_tags(spec: SimSpec) -> None:
    """Refuse tags that this cloud does not take.

    Raises:
        InvalidArgument: names the resource and the tag.
    """
    for resource in TAG_RULES:
        if problem := next(tag_problems(resource, spec.tags.of(resource)), ""):
            raise InvalidArgument(f"providerSpec: tags.{resource}: {problem}")


def tag_problems(resource: str, tags: Mapping[str, str]) -> Iterator[str]:
    """What this cloud refuses of the tags of a resource."""
    rules = TAG_RULES[resource]
    if len(tags) > rules.most:
        yield f"{len(tags)} tags, and a resource has at most {rules.most}"
    for key, value in tags.items():
        if not rules.key.match(key):
            yield f"{key[:128]!r}: a key {rules.described}"
        if len(value) > rules.value_chars:
            yield f"{key[:128]!r}: a value has at most {rules.value_chars} characters"


def _node_problems(spec: SimSpec) -> Iterator[str]:
    """What an API server would refuse of a node with these labels, annotations, taints and capacity."""
    for name, value in (("region", spec.region), ("zone", spec.zone), ("instanceType", spec.instance_type)):
        yield from (f"{name}: {said}" for said in label_value(value))  # they are labels of the node, too
    for key, value in spec.labels.items():
        yield from (f"labels: {key!r}: {said}" for said in (*label_key(key), *label_value(value)))
    if sum(len((key + text).encode()) for key, text in spec.annotations.items()) > ANNOTATIONS_BYTES:
        yield f"annotations: must have at most {ANNOTATIONS_BYTES} bytes"
    for key in spec.annotations:
        yield from (f"annotations: {key!r}: {said}" for said in label_key(key.lower()))
    seen: set[tuple[str, str]] = set()
    for number, taint in enumerate(spec.taints):
        place = f"taints[{number}]"
        yield from (f"{place}.key: {said}" for said in label_key(taint.key))
        yield from (f"{place}.value: {said}" for said in label_value(taint.value))
        if (taint.key, taint.effect) in seen:
            yield f"{place}: there is another taint of this key and effect"
        seen.add((taint.key, taint.effect))
    for resource, amount in spec.capacity.items():
        yield from (f"capacity: {resource!r}: {said}" for said in _capacity_problems(resource, amount))


def _capacity_problems(resource: str, amount: str | int) -> Iterator[str]:
    yield from label_key(resource)
    try:
        number = parse_quantity(amount)
    except ValueError as error:
        yield str(error)
        return
    if number < 0:
        yield "must be greater than or equal to 0"
    if number != number.to_integral_value() and (
        resource == "pods" or ("/" in resource and "kubernetes.io/" not in resource)
    ):
        yield "must be an integer"


def write_spec(spec: SimSpec) -> bytes:
    """The spec as JSON; equal specs give equal bytes."""
    return _canonical.encode(spec)


def read_spec(data: bytes) -> SimSpec:
    """Read what ``write_spec`` wrote."""
    return _decoder.decode(data)


SYNC_SECONDS = 600.0
"""How long kubelets wait for the first lists of nodes and pods before they give up."""
SAFE_SHARE = 0.6
"""Longest time between renewals as a share of a Lease: node life cycle controllers wait for one Lease
(40 s), and a renewal may be late or fail once."""
Positive = Annotated[float, Meta(gt=0)]
NotNegative = Annotated[float, Meta(ge=0)]


class KubeletSettings(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """How kubelets behave.

    ``lease_seconds``      a Lease's duration. It is renewed four times in that time, as kubelets do.
    ``lease_writes_per_second`` of all kubelets together: with very many VMs each renews its Lease less
                           often, but never less than is safe (``SAFE_SHARE``), whatever this says.
    ``heartbeat_seconds``  an unchanged status is reported again after this long.
    ``reregister_seconds`` a kubelet that runs registers again this long after its Node was deleted.
    ``pod_start_seconds``  from being created to running; ``pod_stop_seconds`` from deletion to end, or
                           the pod's grace period, if that is shorter.
    ``workers``            requests in flight for nodes, and as many for pods.
    ``kubelets``           ``off``: the VMs have none, another program makes the nodes (the benchmark does).
    """

    lease_seconds: Positive = 40
    lease_writes_per_second: Positive = 50
    heartbeat_seconds: Positive = 300
    reregister_seconds: NotNegative = 10
    pod_start_seconds: NotNegative = 0
    pod_stop_seconds: NotNegative = 1
    workers: Annotated[int, Meta(ge=1, le=256)] = 32
    kubelets: Literal["on", "off"] = "on"

    def renewal(self, count: int) -> float:
        """Seconds between two renewals of one Lease, with so many kubelets."""
        frugal = count / self.lease_writes_per_second
        return min(max(self.lease_seconds / 4, frugal), self.lease_seconds * SAFE_SHARE)

    def heartbeat(self, count: int) -> float:
        """Seconds between two reports of an unchanged status, at half the rate of the renewals."""
        return max(self.heartbeat_seconds, 2 * count / self.lease_writes_per_second)


def kubelet_settings(options: Mapping[str, str]) -> KubeletSettings:
    """Read the driver's options.

    Raises:
        InvalidInput: an unknown option or a value out of range; the message names it.
    """
    try:
        return msgspec.convert(dict(options), KubeletSettings, strict=False)
    except msgspec.ValidationError as error:
        raise InvalidInput(f"driver sim: {plainly(str(error))}") from None
