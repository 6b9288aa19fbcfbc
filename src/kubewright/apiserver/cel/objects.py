"""Kubernetes' own values in CEL: URLs, quantities, addresses and networks, semantic versions, named formats.

Theory.      Each is a type that CEL knows by its name only (``cel_name``); functions make it of a text, and
             ask it. ``isURL`` and the like say whether the text is one.
Invariants.  Pure; values do not change. What is no such value raises ``EvalError`` with Kubernetes' words.
Source       kube-apiserver 1.36, observed in tests/conformance/test_api_rules.py.
"""

import ipaddress
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import total_ordering
from typing import Any, ClassVar
from urllib.parse import unquote_plus, urlsplit

from kubewright.apiserver.cel import values
from kubewright.apiserver.cel.functions import declare
from kubewright.apiserver.cel.types import Optional
from kubewright.apiserver.cel.values import EvalError, compared
from kubewright.apiserver.schema.formats import ENFORCED
from kubewright.wire import naming, quantity


@dataclass(frozen=True, slots=True)
class Url:
    cel_name: ClassVar[str] = "kubernetes.URL"
    text: str

    def get(self, part: str) -> Any:
        parts = urlsplit(self.text)
        host = parts.netloc.rpartition("@")[2]
        if part == "host":
            return host
        bracket = host.rfind("]")
        name, colon, port = host.rpartition(":") if host.rfind(":") > bracket else (host, "", "")
        return {
            "scheme": parts.scheme,
            "hostname": name.strip("[]"),
            "port": port if colon else "",
            "path": parts.path,
            "query": _query(parts.query),
        }[part]


def _query(text: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for pair in filter(None, text.split("&")):
        if ";" not in pair:
            name, _, value = pair.partition("=")
            found.setdefault(unquote_plus(name), []).append(unquote_plus(value))
    return found


def _url(text: str) -> Url:
    if not ENFORCED["uri"](text):
        raise EvalError(
            f'URL parse error during conversion from string: parse "{text}": invalid URI for request'
        )
    return Url(text)


@total_ordering
@dataclass(frozen=True, slots=True)
class Quantity:
    cel_name: ClassVar[str] = "kubernetes.Quantity"
    amount: Decimal

    def __lt__(self, other: "Quantity") -> bool:
        return self.amount < other.amount

    def plus(self, other: "Quantity | int", sign: int = 1) -> "Quantity":
        more = other.amount if isinstance(other, Quantity) else Decimal(other)
        return Quantity(self.amount + sign * more)

    def whole(self) -> int:
        if self.amount != int(self.amount) or not values.LEAST <= self.amount <= values.MOST:
            raise EvalError("cannot convert value to integer")
        return int(self.amount)


def _quantity(text: str) -> Quantity:
    try:
        return Quantity(quantity.parse(text))
    except ValueError:
        words = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
        raise EvalError(words) from None


def _sign(value: Quantity) -> int:
    return (value.amount > 0) - (value.amount < 0)


def _is(make: Callable[..., Any]) -> Callable[..., bool]:
    def check(*args: Any) -> bool:
        try:
            make(*args)
        except EvalError:
            return False
        return True

    return check


def _fits_int(value: Quantity) -> bool:
    return _is(Quantity.whole)(value)


_Address = ipaddress.IPv4Address | ipaddress.IPv6Address


@dataclass(frozen=True, slots=True)
class Ip:
    cel_name: ClassVar[str] = "net.IP"
    value: _Address

    def __str__(self) -> str:
        return str(self.value)

    def __len__(self) -> int:
        return self.value.max_prefixlen // 8


@dataclass(frozen=True, slots=True)
class Cidr:
    cel_name: ClassVar[str] = "net.CIDR"
    address: _Address
    bits: int

    def __str__(self) -> str:
        return f"{self.address}/{self.bits}"

    def __len__(self) -> int:
        return self.address.max_prefixlen // 8

    @property
    def network(self) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
        return ipaddress.ip_network((self.address, self.bits), strict=False)

    def has(self, other: Ip) -> bool:
        return other.value.version == self.address.version and other.value in self.network

    def has_all(self, other: "Cidr") -> bool:
        return other.bits >= self.bits and self.has(Ip(other.network.network_address))


def _ip(text: str) -> Ip:
    said = f'IP Address "{text}" parse error during conversion from string'
    try:
        found = ipaddress.ip_address(text)
    except ValueError:
        raise EvalError(f'{said}: ParseAddr("{text}"): unable to parse IP') from None
    if "%" in text:
        raise EvalError(f"{said}: IP address with zone value is not allowed")
    if isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped is not None:
        raise EvalError(f"{said}: IPv4-mapped IPv6 address is not allowed")
    return Ip(found)


def _cidr(text: str) -> Cidr:
    head, slash, bits = text.partition("/")
    said = f'network address parse error during conversion from string: netip.ParsePrefix("{text}")'
    if not slash or re.fullmatch("0|[1-9][0-9]{0,2}", bits) is None:
        raise EvalError(f"{said}: bad bits after slash")
    try:
        address = _ip(head).value
    except EvalError as error:
        raise EvalError(f"{said}: {error}") from None
    if int(bits) > address.max_prefixlen:
        raise EvalError(f"{said}: prefix length out of range")
    return Cidr(address, int(bits))


def _global(ip: Ip) -> bool:
    value = ip.value
    odd = value.is_unspecified or value.is_loopback or value.is_multicast or value.is_link_local
    return not odd and str(value) != "255.255.255.255"


def _canonical(text: str) -> bool:
    return str(_ip(text)) == text


def _addresses() -> None:
    for name, holds in (
        ("isUnspecified", lambda ip: ip.value.is_unspecified),
        ("isLoopback", lambda ip: ip.value.is_loopback),
        ("isLinkLocalMulticast", lambda ip: ip.value in _LOCAL[ip.value.version]),
        ("isLinkLocalUnicast", lambda ip: ip.value.is_link_local),
        ("isGlobalUnicast", _global),
    ):
        declare(name, f"ip_{name}", ".(net.IP) bool", holds)
    declare("ip", "string_to_ip", "(string) net.IP", _ip)
    declare("ip", "cidr_ip", ".(net.CIDR) net.IP", lambda cidr: Ip(cidr.address))
    declare("family", "ip_family", ".(net.IP) int", lambda ip: ip.value.version)
    declare("ip.isCanonical", "ip_is_canonical", "(string) bool", _canonical)
    declare("isIP", "is_ip", "(string) bool", _is(_ip))
    declare("string", "ip_to_string", "(net.IP) string", str)
    declare("cidr", "string_to_cidr", "(string) net.CIDR", _cidr)
    declare("isCIDR", "is_cidr", "(string) bool", _is(_cidr))
    declare("string", "cidr_to_string", "(net.CIDR) string", str)
    declare("containsIP", "cidr_contains_ip_string", ".(net.CIDR, string) bool", lambda c, ip: c.has(_ip(ip)))
    declare("containsIP", "cidr_contains_ip_ip", ".(net.CIDR, net.IP) bool", Cidr.has)
    declare(
        "containsCIDR",
        "cidr_contains_cidr_string",
        ".(net.CIDR, string) bool",
        lambda one, other: one.has_all(_cidr(other)),
    )
    declare("containsCIDR", "cidr_contains_cidr", ".(net.CIDR, net.CIDR) bool", Cidr.has_all)
    declare("prefixLength", "cidr_prefix_length", ".(net.CIDR) int", lambda cidr: cidr.bits)
    declare(
        "masked",
        "cidr_masked",
        ".(net.CIDR) net.CIDR",
        lambda cidr: Cidr(cidr.network.network_address, cidr.bits),
    )


_LOCAL = {4: ipaddress.ip_network("224.0.0.0/24"), 6: ipaddress.ip_network("ff02::/16")}


def _urls_and_quantities() -> None:
    declare("url", "string_to_url", "(string) kubernetes.URL", _url)
    declare("isURL", "is_url_string", "(string) bool", _is(_url))
    for name, part, result in (
        ("getScheme", "scheme", "string"),
        ("getHost", "host", "string"),
        ("getHostname", "hostname", "string"),
        ("getPort", "port", "string"),
        ("getEscapedPath", "path", "string"),
        ("getQuery", "query", "map(string, list(string))"),
    ):
        declare(name, f"url_{name}", f".(kubernetes.URL) {result}", _getter(part))
    q = "kubernetes.Quantity"
    declare("quantity", "string_to_quantity", f"(string) {q}", _quantity)
    declare("isQuantity", "is_quantity_string", "(string) bool", _is(_quantity))
    declare("sign", "quantity_sign", f"({q}) int", _sign)
    declare("isGreaterThan", "quantity_is_greater_than", f".({q}, {q}) bool", lambda a, b: a > b)
    declare("isLessThan", "quantity_is_less_than", f".({q}, {q}) bool", lambda a, b: a < b)
    declare("compareTo", "quantity_compare_to", f".({q}, {q}) int", compared)
    declare("asApproximateFloat", "quantity_get_float", f".({q}) double", lambda value: float(value.amount))
    declare("asInteger", "quantity_get_int", f".({q}) int", Quantity.whole)
    declare("isInteger", "quantity_is_integer", f".({q}) bool", _fits_int)
    for name, sign in (("add", 1), ("sub", -1)):
        declare(name, f"quantity_{name}", f".({q}, {q}) {q}", lambda a, b, sign=sign: a.plus(b, sign))
        declare(name, f"quantity_{name}_int", f".({q}, int) {q}", lambda a, b, sign=sign: a.plus(b, sign))


def _getter(part: str) -> Callable[[Url], Any]:
    return lambda url: url.get(part)


# ---------------------------------------------------------------- semantic versions and formats


@total_ordering
@dataclass(frozen=True, slots=True, eq=False)
class Semver:
    cel_name: ClassVar[str] = "kubernetes.Semver"
    core: tuple[int, int, int]
    pre: tuple[tuple[bool, int | str], ...]

    @property
    def _order(self) -> tuple[Any, ...]:
        return (self.core, not self.pre, tuple((text, part) for text, part in self.pre))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Semver) and self._order == other._order

    def __hash__(self) -> int:
        return hash(self._order)

    def __lt__(self, other: "Semver") -> bool:
        return bool(self._order < other._order)


_NUMBER = r"(0|[1-9][0-9]{0,18})"
_SEMVER = re.compile(rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(?:-([0-9A-Za-z.-]+))?(?:\+([0-9A-Za-z.-]+))?")


def _semver(text: str, normalize: bool = False) -> Semver:
    found = _SEMVER.fullmatch(_normalized(text) if normalize else text)
    pre = (found[4] or "").split(".") if found and found[4] else []
    odd = any(not part or (part.isdigit() and len(part) > 1 and part[0] == "0") for part in pre)
    if found is None or odd or (found[5] and not all(found[5].split("."))):
        raise EvalError(f"No Major.Minor.Patch elements found in {text!r}")
    parts = tuple((not part.isdigit(), int(part) if part.isdigit() else part) for part in pre)
    return Semver((int(found[1]), int(found[2]), int(found[3])), parts)


def _normalized(text: str) -> str:
    """With three numbers, without a ``v`` and leading zeros."""
    cut = re.search("[-+]", text)
    head, rest = (text[: cut.start()], text[cut.start() :]) if cut else (text, "")
    parts = head.removeprefix("v").split(".", 2)
    shown = [part.lstrip("0") or "0" if part.isdigit() else part for part in parts]
    return ".".join(shown + ["0"] * (3 - len(shown) if not rest or len(shown) == 3 else 0)) + rest


@dataclass(frozen=True, slots=True)
class Format:
    cel_name: ClassVar[str] = "kubernetes.NamedFormat"
    name: str
    size: int

    def problems(self, text: str) -> list[str]:
        return list(_problems(self.name, text))


_DNS1035 = re.compile("[a-z]([-a-z0-9]*[a-z0-9])?")
_STRINGS = {
    "uuid": "does not match the UUID format",
    "byte": "invalid base64",
    "date": "invalid date",
    "datetime": "invalid datetime",
    "uri": "invalid URI for request",
}
_CHECKS: Mapping[str, Callable[[str], list[str]]] = {
    "dns1123Label": naming.dns_label,
    "dns1123Subdomain": naming.dns_subdomain,
    "qualifiedName": naming.label_key,
    "labelValue": naming.label_value,
}


def _problems(name: str, text: str) -> Iterator[str]:
    if name.endswith("Prefix"):
        name = name.removesuffix("Prefix")
        text = f"{text[:-1]}a" if text.endswith("-") else text
    if name == "dns1035Label":
        if len(text) > 63:
            yield "must be no more than 63 bytes"
        if _DNS1035.fullmatch(text) is None:
            yield "a DNS-1035 label must consist of lower case alphanumeric characters or '-'"
    elif name in _CHECKS:
        yield from _CHECKS[name](text)
    elif not ENFORCED[name](text):
        yield _STRINGS[name]


FORMATS: Mapping[str, Format] = {
    name: Format(name, size)
    for name, size in (
        ("dns1123Label", 30),
        ("dns1123Subdomain", 60),
        ("dns1035Label", 30),
        ("qualifiedName", 60),
        ("dns1123LabelPrefix", 30),
        ("dns1123SubdomainPrefix", 60),
        ("dns1035LabelPrefix", 30),
        ("labelValue", 40),
        ("uri", 1_000),
        ("uuid", 100),
        ("byte", 100),
        ("date", 300),
        ("datetime", 300),
    )
}


def _named(name: str) -> Optional:
    return Optional(name in FORMATS, FORMATS.get(name))


def _validated(given: Format, text: str) -> Optional:
    found = given.problems(text)
    return Optional(bool(found), found or None)


def _versions_and_formats() -> None:
    v, f = "kubernetes.Semver", "kubernetes.NamedFormat"
    declare("semver", "string_to_semver", f"(string) {v}", _semver)
    declare("semver", "string_bool_to_semver", f"(string, bool) {v}", _semver)
    declare("isSemver", "is_semver_string", "(string) bool", _is(_semver))
    declare("isSemver", "is_semver_string_bool", "(string, bool) bool", _is(_semver))
    declare("isGreaterThan", "semver_is_greater_than", f".({v}, {v}) bool", lambda a, b: a > b)
    declare("isLessThan", "semver_is_less_than", f".({v}, {v}) bool", lambda a, b: a < b)
    declare("compareTo", "semver_compare_to", f".({v}, {v}) int", compared)
    for index, name in enumerate(("major", "minor", "patch")):
        declare(name, f"semver_{name}", f".({v}) int", lambda value, index=index: value.core[index])
    declare("format.named", "format-named", f"(string) optional({f})", _named)
    declare("validate", "format-validate", f".({f}, string) optional(list(string))", _validated)
    for name, each in FORMATS.items():
        declare(f"format.{name}", f"format.{name}", f"() {f}", lambda each=each: each)


_addresses()
_urls_and_quantities()
_versions_and_formats()
