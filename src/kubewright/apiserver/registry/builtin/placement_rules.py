"""Validation rules for what a Node offers and what a Pod asks of it: taints, quantities, networks.

Theory.      A scheduler, an autoscaler and a drain read these fields and trust them: a taint whose key no
             toleration can name keeps Pods away for ever, and a negative capacity is room for everything.
Invariants.  Pure. What was stored before is not judged again, so that its status can still be written.
Source       kube-apiserver's validation of core, sentences and paths observed on v1.36.
"""

import ipaddress
import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import orjson

from kubewright.apiserver.schema.causes import Cause, duplicate, forbidden, invalid, required, unsupported
from kubewright.apiserver.schema.node import Object, at
from kubewright.wire import naming
from kubewright.wire.quantity import parse, shown

Spec = dict[str, Any]

EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_EQUAL, _EXISTS, _NUMERIC = "Equal", "Exists", ("Lt", "Gt")
_ANY_KEY = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
_OF_CONTAINERS = frozenset(("cpu", "memory", "ephemeral-storage"))
_COUNTED = frozenset(
    (
        "pods", "services", "replicationcontrollers", "resourcequotas", "secrets", "configmaps",
        "persistentvolumeclaims", "services.nodeports", "services.loadbalancers",
    )
)  # fmt: skip
_STANDARD = (
    _OF_CONTAINERS
    | _COUNTED
    | {f"{kind}.{name}" for kind in ("requests", "limits") for name in _OF_CONTAINERS}
    | {"storage", "requests.storage"}
)
_HUGE = "hugepages-"
_CIDR_WORDS = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
_LEADING_ZEROS = re.compile(r"(^|[./])0+(?=[0-9])")


def taints(new: Object, old: Object | None) -> Iterator[Cause]:
    """Keys and values that a toleration can name, one taint per key and effect.

    kube-apiserver calls the field ``metadata.taints``.
    """
    given = at(new, "spec.taints", ())
    if old is not None and given == at(old, "spec.taints", ()):
        return
    seen = set()
    for index, taint in enumerate(given):
        where, key, effect = f"metadata.taints[{index}]", taint.get("key") or "", taint.get("effect") or ""
        yield from (invalid(f"{where}.key", key, words) for words in naming.label_key(key))
        if words := naming.label_value(value := taint.get("value") or ""):
            yield invalid(f"{where}.value", value, ";".join(words))
        if not effect:
            yield required(f"{where}.effect")
        elif effect not in EFFECTS:
            yield unsupported(f"{where}.effect", effect, EFFECTS)
        if (key, effect) in seen:
            yield duplicate(where, taint, "taints must be unique by key and effect pair")
        seen.add((key, effect))


def tolerations(spec: Spec, path: str) -> Iterator[Cause]:
    """Tolerations that can fit a taint."""
    for index, toleration in enumerate(spec.get("tolerations") or ()):
        where = f"{path}.tolerations[{index}]"
        key, effect = toleration.get("key") or "", toleration.get("effect") or ""
        if key:
            yield from (invalid(f"{where}.key", key, words) for words in naming.label_key(key))
        elif toleration.get("operator") != _EXISTS:
            yield invalid(f"{where}.operator", toleration.get("operator") or "", _ANY_KEY)
        if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
            words = "effect must be 'NoExecute' when `tolerationSeconds` is set"
            yield invalid(f"{where}.effect", effect, words)
        yield from _operator(toleration, f"{where}.operator")
        if effect and effect not in EFFECTS:
            yield unsupported(f"{where}.effect", effect, EFFECTS)


def _operator(toleration: Spec, where: str) -> Iterator[Cause]:
    operator, value = toleration.get("operator") or _EQUAL, toleration.get("value") or ""
    if operator == _EXISTS:
        if value:
            yield invalid(where, value, "value must be empty when `operator` is 'Exists'")
    elif operator == _EQUAL:
        if words := naming.label_value(value):
            yield invalid(where, value, ";".join(words))
    else:
        numeric = _NUMERIC if operator in _NUMERIC else ()
        yield unsupported(where, operator, (_EQUAL, _EXISTS, *numeric))


def container_resources(container: Spec, path: str) -> Iterator[Cause]:
    """Requests and limits of a container: known names, amounts that can be, no request over its limit."""
    resources = container.get("resources") or {}
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    for field, amounts in (("limits", limits), ("requests", requests)):
        for name, quantity in amounts.items():
            where = f"{path}.resources.{field}[{name}]"
            yield from _of_container(name, where)
            yield from _amount(name, quantity, where)
    for name, quantity in requests.items():
        yield from _within(name, quantity, limits, f"{path}.resources")
    names = {*limits, *requests}
    if any(name.startswith(_HUGE) for name in names) and not names & {"cpu", "memory"}:
        yield forbidden(f"{path}.resources", "HugePages require cpu or memory")


def _of_container(name: str, where: str) -> Iterator[Cause]:
    complaints = naming.label_key(name)
    yield from (invalid(where, name, words) for words in complaints)
    if "/" not in name:
        if not complaints and name not in _STANDARD and not name.startswith(_HUGE):
            yield invalid(where, name, "must be a standard resource type or fully qualified")
        if name not in _OF_CONTAINERS and not name.startswith(_HUGE):
            yield invalid(where, name, "must be a standard resource for containers")
    elif not _is_native(name) and not _is_extended(name):
        yield invalid(where, name, "doesn't follow extended resource name standard")


def _within(name: str, quantity: Any, limits: Spec, path: str) -> Iterator[Cause]:
    limit = limits.get(name)
    fixed = not _is_native(name) or name.startswith(_HUGE)
    if limit is None:
        if fixed:
            yield required(f"{path}.limits", "Limit must be set for non overcommitable resources")
        return
    asked, most = amount_of(quantity), amount_of(limit)
    if asked is None or most is None:
        return
    if fixed and asked != most:
        words = f"must be equal to {name} limit of {shown(limit)}"
        yield invalid(f"{path}.requests", shown(quantity), words)
    elif asked > most:
        words = f"must be less than or equal to {name} limit of {shown(limit)}"
        yield invalid(f"{path}.requests", shown(quantity), words)


def node_resources(new: Object, old: Object | None) -> Iterator[Cause]:
    """Amounts of a Node that can be."""
    for field in ("capacity", "allocatable"):
        amounts = at(new, f"status.{field}") or {}
        if amounts != (at(old, f"status.{field}") or {}):
            for name, quantity in amounts.items():
                yield from _amount(name, quantity, f"status.{field}.{name}")


def node_addresses(new: Object, old: Object | None) -> Iterator[Cause]:
    """An update leaves no address twice."""
    seen = set()
    for index, address in enumerate((at(new, "status.addresses") or ()) if old is not None else ()):
        if (known := orjson.dumps(address, option=orjson.OPT_SORT_KEYS)) in seen:
            yield duplicate(f"status.addresses[{index}]", address)
        seen.add(known)


def _amount(name: str, quantity: Any, where: str) -> Iterator[Cause]:
    """Not negative; whole where things are counted."""
    value = amount_of(quantity)
    if value is None:
        return
    if value < 0:
        yield invalid(where, shown(quantity), "must be greater than or equal to 0")
    if (name in _COUNTED or _is_extended(name)) and not _is_whole(value):
        yield invalid(where, shown(quantity), "must be an integer")


def node_networks(new: Object, old: Object | None) -> Iterator[Cause]:
    """Networks of a Node's Pods: one, or one of each family."""
    networks = at(new, "spec.podCIDRs") or []
    if networks == (at(old, "spec.podCIDRs") or []):
        return
    wrong = [
        invalid(f"spec.podCIDRs[{index}]", network, words)
        for index, network in enumerate(networks)
        if (words := _cidr_fault(network))
    ]
    yield from wrong
    families = [] if wrong else [ipaddress.ip_network(network).version for network in networks]
    if len(families) != len(set(families)):
        yield invalid("spec.podCIDRs", networks, "may specify no more than one CIDR for each IP family")


def _cidr_fault(text: str) -> str:
    sloppy = text if ":" in text else _LEADING_ZEROS.sub(r"\1", text)
    try:
        found = ipaddress.ip_interface(sloppy if "/" in text else "")
    except ValueError:
        return _CIDR_WORDS
    if sloppy != text:
        return "must not have leading 0s in IP or prefix length"
    if found.version == 6 and found.ip.ipv4_mapped is not None:
        return "must not have an IPv4-mapped IPv6 address"
    if found.ip != found.network.network_address:
        return "must not have bits set beyond the prefix length"
    return ""


def amount_of(quantity: Any) -> Decimal | None:
    """The amount of a quantity of a user; None where we cannot read it, though the schema takes it."""
    try:
        return parse(quantity)
    except ValueError:
        return None


def _is_whole(value: Decimal) -> bool:
    """Of an amount of any size: ``value % 1`` fails where the digits are more than those of the context."""
    return value == value.to_integral_value()


def _is_native(name: str) -> bool:
    return "/" not in name or "kubernetes.io/" in name


def _is_extended(name: str) -> bool:
    return not _is_native(name) and not name.startswith("requests.") and not naming.label_key(name)
