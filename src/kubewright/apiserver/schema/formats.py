"""The string formats that kube-apiserver enforces, beyond those of the validator.

``date-time``, ``date``, ``email``, ``hostname``, ``ipv4``, ``ipv6``, ``uri`` and ``uuid`` are the
validator's own. Unknown formats are not enforced, as in Kubernetes.
"""

import binascii
import ipaddress
import re
from collections.abc import Callable, Mapping
from typing import Any

import jsonschema_rs

from kubewright.base.durations import parse_duration

_WORDY = re.compile(
    r"(?i)\d+\s*(ns|us|µs|ms|s|m|h|d|w|nano|micro|milli|sec|second|min|minute|hr|hour|day|week|month)s?\b"
)
_UUID = re.compile(r"(?i)[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}")
_MAC = re.compile(r"(?i)([0-9a-f]{2}[:-]){5}[0-9a-f]{2}")


def is_base64(text: str) -> bool:
    """Standard base64 with padding; line breaks are skipped, as Go does."""
    try:
        binascii.a2b_base64(text.replace("\n", "").replace("\r", ""), strict_mode=True)
    except (binascii.Error, ValueError):
        return False
    return True


def is_duration(text: str) -> bool:
    """A Go duration, or anything with a number and its unit, such as ``1 day`` or ``PT1H``."""
    try:
        parse_duration(text)
    except ValueError:
        return _WORDY.search(text) is not None
    return True


def is_cidr(text: str) -> bool:
    try:
        ipaddress.ip_network(text, strict=False)
    except ValueError:
        return False
    return "/" in text


CHECKS: Mapping[str, Callable[[str], bool]] = {
    "byte": is_base64,
    "cidr": is_cidr,
    "duration": is_duration,
    "mac": lambda text: _MAC.fullmatch(text) is not None,
    "uuid": lambda text: _UUID.fullmatch(text) is not None,
}

KNOWN = frozenset(
    (
        "bsonobjectid", "byte", "cidr", "creditcard", "date", "date-time", "datetime", "double", "duration",
        "email", "float", "hexcolor", "hostname", "int32", "int64", "ipv4", "ipv6", "isbn", "isbn10",
        "isbn13", "k8s-long-name", "mac", "password", "rgbcolor", "ssn", "uri", "uuid", "uuid3",
        "uuid4", "uuid5", "k8s-short-name",
    )
)  # fmt: skip
"""The formats that Kubernetes knows; a definition that uses another one gets a warning."""

PATTERNS = jsonschema_rs.RegexOptions()
"""Patterns match in linear time and have Go's syntax: no look-around, no back references."""

OPTIONS: Mapping[str, Any] = {
    "validate_formats": True,
    "ignore_unknown_formats": True,
    "formats": dict(CHECKS),
}
"""How every validator treats formats."""


def is_pattern(text: str) -> bool:
    """Whether a schema's ``pattern`` can be read."""
    try:
        jsonschema_rs.Draft202012Validator({"pattern": text}, pattern_options=PATTERNS)
    except ValueError:
        return False
    return True
