"""Which operations of EC2 the driver calls, which rights that takes, and what its refusals mean. Pure.

Theory.      A call goes through an entry of ``CALLS`` and no other way (``ec2.Account.call``), so the table
             is what an account has to allow: docs/reference/aws-rights.md is generated from it (``policy``).
             EC2 says why it refuses by a code of its own, of which there are hundreds in families
             (``Insufficient…``, ``…LimitExceeded``, ``Invalid…``). Those that mean something else than their
             family stand by name in ``CODES``.
Invariants.  A message that leaves has one line, a bounded length, and no key, signature or encoded blob.
Source       CAL-01, AWS-04, AWS-07; Gardener's provider for codes of
             capacity.
Called by    ``ec2``, ``driver``; tools/aws_rights.py.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Any

from kubewright.driver.errors import Code, DriverError
from kubewright.providers.aws.spec import CLUSTER_TAG

TOLD_CHARS = 400
BLOB = re.compile(r"\s*Encoded authorization failure message:.*", re.DOTALL)
"""What only ``sts decode-authorization-message`` reads: kilobytes of it."""

KEY_ID = re.compile(r"\b(AKIA|ASIA)[A-Z0-9]{12,}")


class Reach(Enum):
    """Which resources a call concerns, for the rights that it needs."""

    ALL = "all"
    """EC2 knows no rights for single resources here."""

    MADE = "made"
    """What comes to be by it, which carries the cluster's tag from then on, and what that is made of."""

    OWN = "own"
    """Resources that carry the cluster's tag."""


@dataclass(frozen=True, slots=True)
class Call:
    """An operation of EC2.

    ``operation``  its name at EC2; ``ec2:OPERATION`` is the right to it
    ``method``     its name in the library
    ``why``        when it is called, for the page
    ``on``         kinds of resources that it changes
    """

    operation: str
    method: str
    reach: Reach
    why: str
    on: tuple[str, ...] = ()


CALLS: Mapping[str, Call] = MappingProxyType(
    {
        each.operation: each
        for each in (
            Call(
                "DescribeInstances",
                "describe_instances",
                Reach.ALL,
                "to find the VMs of machines and of a class, many of them with one request",
            ),
            Call(
                "DescribeImages",
                "describe_images",
                Reach.ALL,
                "once an hour for an AMI: whether it is there, its root device, its architecture",
            ),
            Call(
                "DescribeInstanceTypes",
                "describe_instance_types",
                Reach.ALL,
                "once an hour for a machine type: its architecture, and what a node of it offers",
            ),
            Call(
                "DescribeTags",
                "describe_tags",
                Reach.ALL,
                "to update the tags of volumes and interfaces, those of many VMs with one request",
            ),
            Call(
                "RunInstances",
                "run_instances",
                Reach.MADE,
                "to make the VM of a machine, with its volumes, interfaces and tags",
                ("instance", "volume", "network-interface", "spot-instances-request"),
            ),
            Call(
                "TerminateInstances",
                "terminate_instances",
                Reach.OWN,
                "to delete the VM of a machine",
                ("instance",),
            ),
            Call(
                "ModifyInstanceAttribute",
                "modify_instance_attribute",
                Reach.OWN,
                "where srcAndDstChecksEnabled is false, or has been changed",
                ("instance",),
            ),
            Call(
                "ModifyNetworkInterfaceAttribute",
                "modify_network_interface_attribute",
                Reach.OWN,
                "the same for a VM with several interfaces",
                ("network-interface",),
            ),
            Call(
                "AssignIpv6Addresses",
                "assign_ipv6_addresses",
                Reach.OWN,
                "where ipv6PrefixCount is set",
                ("network-interface",),
            ),
            Call(
                "CreateTags",
                "create_tags",
                Reach.OWN,
                "to update tags that a class has added or changed",
                ("instance", "volume", "network-interface"),
            ),
            Call(
                "DeleteTags",
                "delete_tags",
                Reach.OWN,
                "to update tags that a class has no more",
                ("instance", "volume", "network-interface"),
            ),
        )
    }
)
"""By the operation's name."""

LAUNCHED_FROM = (*("subnet", "security-group", "key-pair", "placement-group", "capacity-reservation"),)
"""Kinds of resources of an account that a RunInstances names and does not make."""


def policy(cluster: str, role_arn: str) -> Mapping[str, Any]:
    """The rights that the table needs, as a policy of IAM, for the VMs of one cluster. ``role_arn``: the role
    of the instance profile that classes name. Images and snapshots belong to no account in ARNs."""
    tag = f"{CLUSTER_TAG}{cluster}"
    by_reach = {reach: [each for each in CALLS.values() if each.reach is reach] for reach in Reach}
    made = _actions(by_reach[Reach.MADE])
    requested = {"StringLike": {f"aws:RequestTag/{tag}": "*"}}
    made_by = {"StringEquals": {"ec2:CreateAction": [each.operation for each in by_reach[Reach.MADE]]}}
    statements = [
        _statement("Look", _actions(by_reach[Reach.ALL]), "*"),
        _statement("Make", made, _resources(by_reach[Reach.MADE]), requested),
        _statement("MakeOf", made, [f"arn:aws:ec2:*::{kind}/*" for kind in ("image", "snapshot")]),
        _statement("MakeIn", made, [f"arn:aws:ec2:*:*:{kind}/*" for kind in LAUNCHED_FROM]),
        _statement("TagWhatIsMade", ["ec2:CreateTags"], _resources(by_reach[Reach.MADE]), made_by),
        _statement(
            "ChangeWhatIsOwn",
            _actions(by_reach[Reach.OWN]),
            _resources(by_reach[Reach.OWN]),
            {"StringLike": {f"aws:ResourceTag/{tag}": "*"}},
        ),
        _statement(
            "GiveVmsTheirRole",
            ["iam:PassRole"],
            role_arn,
            {"StringEquals": {"iam:PassedToService": "ec2.amazonaws.com"}},
        ),
    ]
    return {"Version": "2012-10-17", "Statement": statements}


def _statement(
    sid: str, actions: Sequence[str], on: str | Sequence[str], condition: Mapping[str, Any] | None = None
) -> Mapping[str, Any]:
    found = {"Sid": sid, "Effect": "Allow", "Action": actions, "Resource": on}
    return {**found, "Condition": condition} if condition else found


def _actions(calls: Sequence[Call]) -> Sequence[str]:
    return [f"ec2:{each.operation}" for each in calls]


def _resources(calls: Sequence[Call]) -> Sequence[str]:
    return [f"arn:aws:ec2:*:*:{kind}/*" for kind in dict.fromkeys(kind for each in calls for kind in each.on)]


# ---------------------------------------------------------------- refusals


TERMINATED = "IdempotentInstanceTerminated"
MISMATCH = "IdempotentParameterMismatch"
NO_INSTANCE = "InvalidInstanceID.NotFound"

CODES: Mapping[str, Code] = {
    **dict.fromkeys(
        (
            *("AuthFailure", "ExpiredToken", "ExpiredTokenException", "IncompleteSignature"),
            *("InvalidAccessKeyId", "InvalidClientTokenId", "InvalidSignatureException"),
            *("MissingAuthenticationToken", "RequestExpired", "SignatureDoesNotMatch"),
            "UnrecognizedClientException",
        ),
        Code.Unauthenticated,
    ),
    **dict.fromkeys(
        ("AccessDenied", "AccessDeniedException", "Blocked", "OptInRequired", "UnauthorizedOperation"),
        Code.PermissionDenied,
    ),
    **dict.fromkeys(
        (
            *("ReservationCapacityExceeded", "SpotMaxPriceTooLow", "VolumeIOPSLimit"),
            *("CapacityReservationCapacityExceeded", "NoSpotCapacity"),
        ),
        Code.ResourceExhausted,
    ),
    **dict.fromkeys(
        (
            *("BandwidthLimitExceeded", "EC2ThrottledException", "InternalError", "InternalFailure"),
            *("RequestLimitExceeded", "RequestThrottled", "RequestThrottledException", "RequestTimeout"),
            *("ServiceUnavailable", "SlowDown", "Throttling", "ThrottlingException", "Unavailable"),
        ),
        Code.Unavailable,
    ),
    **dict.fromkeys(
        (
            *("IncorrectInstanceState", "IncorrectState", "OperationNotPermitted", "PendingVerification"),
            *("DependencyViolation", TERMINATED),
        ),
        Code.FailedPrecondition,
    ),
    **dict.fromkeys(("ConcurrentTagAccess", "ConcurrentModification", "ResourceBusy"), Code.Aborted),
    **dict.fromkeys(("TagLimitExceeded", "VPCIdNotSpecified", "Unsupported"), Code.InvalidArgument),
    NO_INSTANCE: Code.NotFound,
    MISMATCH: Code.AlreadyExists,
}
"""By EC2's code; every other one by its family."""

FAMILIES: Sequence[tuple[re.Pattern[str], Code]] = (
    (re.compile(r"^Insufficient|(Limit|Count)Exceeded$"), Code.ResourceExhausted),
    (re.compile(r"^(Invalid|Missing|Unknown|Unsupported|Malformed)"), Code.InvalidArgument),
)

OTHERS_IMAGE = "Not authorized for"
"""EC2 refuses an AMI that another account has not shared by the code for wrong credentials, and this text."""


class Refused(DriverError):
    """EC2 has refused a call; ``name`` is its own code."""

    def __init__(self, message: str, *, code: Code, name: str) -> None:
        super().__init__(message, code=code)
        self.name = name


def refused(call: Call, name: str, text: str, status: int) -> Refused:
    """The error of the vocabulary for one of EC2's.

    Args:
        call: what was called.
        name: EC2's code.
        text: what it says besides.
        status: of HTTP.
    """
    code = code_of(name, text, status)
    return Refused(plain(f"{call.operation}: {name}: {text}"), code=code, name=name)


def code_of(name: str, text: str, status: int) -> Code:
    """The code of the vocabulary for one of EC2's."""
    if name == "AuthFailure" and text.startswith(OTHERS_IMAGE):
        return Code.PermissionDenied
    if name in CODES:
        return CODES[name]
    for family, code in FAMILIES:
        if family.search(name):
            return code
    return Code.Unavailable if status >= 500 or status == 429 else Code.Internal


def plain(text: str) -> str:
    """A text of EC2's or the library's as it may be shown."""
    if "canonical string" in text.lower():
        text = text.partition(".")[0]  # the rest shows what was signed
    return KEY_ID.sub("(access key)", " ".join(BLOB.sub("", text).split()))[:TOLD_CHARS]
