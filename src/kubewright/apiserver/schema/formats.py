"""The formats that kube-apiserver enforces, each as it understands it.

Theory.      A definition may name any format; kube-apiserver enforces some two dozen of strings, and ignores
             the others, as well as dashes in a name (``date-time`` is ``datetime``). What it accepts follows
             from the libraries of Go that it asks: an ``ipv4`` may have leading zeros, a ``hostname`` of two
             labels needs a last one of two letters. So the formats of custom kinds have names of their own
             here (``k8s:ipv4``), which the validator cannot mistake for what it knows by those names.
             Built-in kinds know ``byte`` and ``date-time`` only, and ``walk`` looks at those.
Called by    ``structural``, ``builtin``; ``registry.custom`` warns of unknown formats.
Source       kube-apiserver 1.36, observed in tests/conformance/test_api_formats.py.
"""

import binascii
import ipaddress
import re
import unicodedata
from collections.abc import Callable, Mapping
from datetime import date
from functools import cache
from typing import Any

import jsonschema_rs

from kubewright.apiserver.schema import patterns
from kubewright.base.durations import parse_duration
from kubewright.base.limits import remembered

PREFIX = "k8s:"
"""Before the name of a format in the schema of a custom kind."""

_WORDY = re.compile(
    r"(?i)\d\s*(?:ns|us|µs|ms|s|m|h|d|w|nano|micro|milli|sec|second|min|minute|hr|hour|day|week|month)s?\b"
)
"""From the last digit of a number on: one that tries all of them at each takes the square of their number."""

_TIME = re.compile(r"([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|[+-][0-9]{2}:[0-9]{2})")
_ESCAPE = re.compile(r"%(?![0-9a-fA-F]{2})|[\x00-\x1f\x7f]")
_HEX = "[0-9a-fA-F]"
_BYTE = r"(?:0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])"
_SHORT = "[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_CARD = re.compile(
    r"4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|(222[1-9]|22[3-9][0-9]|2[3-6][0-9]{2}|27[01][0-9]|2720)[0-9]{12}"
    r"|6(?:011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}|3(?:0[0-5]|[68][0-9])[0-9]{11}"
    r"|(?:2131|1800|35[0-9]{3})[0-9]{11}|6[27][0-9]{14}"
)
_LABELS = re.compile(r"[l0s](?:-?[l0s]{0,62})?|(?:[l0s](?:[l0s-]{0,61}[l0s])?\.)+l{2,63}")
"""A host name of which each letter is ``l``, each digit ``0``, each symbol ``s``."""


def is_base64(text: str) -> bool:
    """Standard base64 with padding; line breaks are skipped, as Go's decoder does for built-in kinds."""
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


def _is_ip(text: str, mark: str) -> bool:
    """An address that is written with ``mark``; the numbers of an IPv4 address may have leading zeros."""
    numbers = text.split(".")
    if ":" not in text:
        if not all(number.isascii() and number.isdigit() and len(number) < 12 for number in numbers):
            return False
        text = ".".join(str(int(number)) for number in numbers)
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return mark in text and "%" not in text


def is_cidr(text: str) -> bool:
    head, slash, bits = text.partition("/")
    if not slash or not bits.isascii() or not bits.isdigit() or len(bits) > 3:
        return False
    return int(bits) <= (128 if ":" in head else 32) and _is_ip(head, ":" if ":" in head else ".")


def _is_date(text: str) -> bool:
    if re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", text) is None:
        return False
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


@remembered(4_096)
def _is_date_time(text: str) -> bool:
    day, separator, rest = text.lower().partition("t")
    found = _TIME.fullmatch(rest.partition("t")[0])
    if not separator or found is None or not _is_date(day):
        return False
    return found[1] <= "23" and found[2] <= "59" and found[3] <= "59"


def _is_mac(text: str) -> bool:
    """Of 6, 8 or 20 bytes, by two digits with one separator, by four with dots, or without any."""
    pairs = rf"{_HEX}{{2}}(?:([:-]){_HEX}{{2}})(?:\1{_HEX}{{2}})*|{_HEX}{{4}}(?:\.{_HEX}{{4}})+|{_HEX}+"
    digits = len(re.sub("[:.-]", "", text))
    return digits in (12, 16, 40) and re.fullmatch(pairs, text) is not None


def _is_host(text: str) -> bool:
    if len(text.encode()) > 255 or any(len(label.encode()) > 63 for label in text.split(".")):
        return False
    return _LABELS.fullmatch("".join(map(_sort, text))) is not None


def _sort(letter: str) -> str:
    """What a letter of a host name is."""
    if letter in "-." or (letter.isascii() and letter.isdigit()):
        return letter if letter in "-." else "0"
    category = unicodedata.category(letter)[0]
    return {"L": "l", "S": "s"}.get(category, "!")


def _is_uri(text: str) -> bool:
    """An address in a request: with a scheme, or from the root on."""
    if text.startswith("/"):
        return _ESCAPE.search(text.partition("?")[0]) is None
    return _known("uri").is_valid(_plain(text))


def _is_email(text: str) -> bool:
    return _known("email").is_valid(_plain(text))


def _plain(text: str) -> str:
    """The text with an ``a`` for each letter outside of ASCII, which Go takes as it takes an ``a``."""
    return "".join(letter if letter.isascii() else "a" for letter in text)


@cache
def _known(name: str) -> jsonschema_rs.Draft4Validator:
    """A validator of a format that the library knows."""
    return jsonschema_rs.Draft4Validator({"format": name}, validate_formats=True)


def _is_card(text: str) -> bool:
    digits = re.sub("[^0-9]+", "", text)
    if _CARD.fullmatch(digits) is None:
        return False
    doubled = [int(digit) * (1 + place % 2) for place, digit in enumerate(reversed(digits))]
    return sum(each - 9 if each > 9 else each for each in doubled) % 10 == 0


def _is_isbn10(text: str) -> bool:
    digits = re.sub(r"[\s-]+", "", text)
    if re.fullmatch("[0-9]{9}[0-9X]", digits) is None:
        return False
    values = [10 if digit == "X" else int(digit) for digit in digits]
    return sum(place * value for place, value in enumerate(values, 1)) % 11 == 0


def _is_isbn13(text: str) -> bool:
    digits = re.sub(r"[\s-]+", "", text)
    if re.fullmatch("[0-9]{13}", digits) is None:
        return False
    return sum(int(digit) * (1 + 2 * (place % 2)) for place, digit in enumerate(digits)) % 10 == 0


def _like(pattern: str, longest: int = 1_000) -> Callable[[str], bool]:
    compiled = re.compile(pattern)
    return lambda text: len(text) <= longest and compiled.fullmatch(text) is not None


def _uuid(version: str = "[0-9a-f]", variant: str = "[0-9a-f]") -> Callable[[str], bool]:
    form = f"[0-9a-f]{{8}}-?[0-9a-f]{{4}}-?{version}[0-9a-f]{{3}}-?{variant}[0-9a-f]{{3}}-?[0-9a-f]{{12}}"
    return _like(f"(?i){form}")


ENFORCED: Mapping[str, Callable[[str], bool]] = {
    "bsonobjectid": _like(f"{_HEX}{{24}}"),
    "byte": _like("(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})", 2**32),
    "cidr": is_cidr,
    "creditcard": _is_card,
    "date": _is_date,
    "datetime": _is_date_time,
    "duration": is_duration,
    "email": _is_email,
    "hexcolor": _like(f"#?(?:{_HEX}{{3}}|{_HEX}{{6}})"),
    "hostname": _is_host,
    "ipv4": lambda text: _is_ip(text, "."),
    "ipv6": lambda text: _is_ip(text, ":"),
    "isbn": lambda text: _is_isbn10(text) or _is_isbn13(text),
    "isbn10": _is_isbn10,
    "isbn13": _is_isbn13,
    "k8slongname": _like(rf"{_SHORT}(?:\.{_SHORT})*", 253),
    "k8sshortname": _like(_SHORT, 63),
    "mac": _is_mac,
    "password": lambda _text: True,
    "rgbcolor": _like(rf"rgb\(\s*{_BYTE}\s*,\s*{_BYTE}\s*,\s*{_BYTE}\s*\)"),
    "ssn": _like("[0-9]{3}[- ][0-9]{2}[- ][0-9]{4}"),
    "uri": _is_uri,
    "uuid": _uuid(),
    "uuid3": _uuid("3"),
    "uuid4": _uuid("4", "[89ab]"),
    "uuid5": _uuid("5", "[89ab]"),
}
"""By their names without dashes."""

OPTIONS: Mapping[str, Any] = {
    "validate_formats": True,
    "ignore_unknown_formats": True,
    "formats": {"byte": is_base64},
}
"""How the validators of built-in kinds treat formats."""

_NUMBERS = {"integer": ("int32", "int64"), "number": ("float", "double")}


def is_known(name: str) -> bool:
    """Whether Kubernetes knows a format; a definition that uses another one gets a warning."""
    return name.replace("-", "") in ENFORCED or any(name in names for names in _NUMBERS.values())


def custom_options(names: frozenset[str]) -> Mapping[str, Any]:
    """How the validator of a custom kind treats formats, of which it has these."""
    checks = {PREFIX + name: ENFORCED[name.replace("-", "")] for name in names}
    return {"validate_formats": True, "ignore_unknown_formats": True, "formats": checks}


def named(schema: Mapping[str, Any], seen: set[str]) -> dict[str, Any]:
    """The schema of a custom kind with our names of its formats, without those that are not enforced there,
    and with its patterns in the validator's syntax.

    The names that occur are added to ``seen``.
    """
    kept = {name: _inside(name, value, seen) for name, value in schema.items() if name != "format"}
    if isinstance(pattern := schema.get("pattern"), str):
        kept["pattern"] = patterns.rewritten(pattern)
    name, kind = schema.get("format"), schema.get("type", "")
    if not isinstance(name, str):
        return kept
    if kind in ("", "string") and name.replace("-", "") in ENFORCED:
        seen.add(name)
        return {**kept, "format": PREFIX + name}
    return {**kept, "format": name} if name in _NUMBERS.get(kind, ()) else kept


def _inside(keyword: str, value: Any, seen: set[str]) -> Any:
    """The schemas below a keyword, if it has any."""
    if keyword == "properties":
        return {name: named(inner, seen) for name, inner in value.items()}
    if keyword in ("items", "additionalProperties", "not") and isinstance(value, Mapping):
        return named(value, seen)
    if keyword in ("allOf", "anyOf", "oneOf"):
        return [named(inner, seen) for inner in value]
    return value
