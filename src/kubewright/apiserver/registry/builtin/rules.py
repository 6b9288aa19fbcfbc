"""Validation rules for built-in kinds, as small functions: fields of any kind, then what a Node offers and a
Pod asks of it (taints, quantities, networks), then pods, pod templates and the workloads that have them.

Theory.      A rule gets the new object and, on an update, the old one, and yields causes with the
             messages of kube-apiserver. ``check`` lists the rules of each kind.
             A scheduler, an autoscaler and a drain read the fields of Nodes and Pods and trust them: a taint
             whose key no toleration can name keeps Pods away for ever, and a negative capacity is room for
             everything.
Invariants.  Pure. The fields have the right JSON types: the schema is checked first. What was stored before
             is not judged again, so that its status can still be written.
Called by    ``check`` and ``stored``.
"""

import ipaddress
import re
from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal
from typing import Any

import orjson

from kubewright.apiserver.schema.causes import Cause, duplicate, forbidden, invalid, required, unsupported
from kubewright.apiserver.schema.node import Object, at
from kubewright.base.limits import number_of
from kubewright.wire import naming
from kubewright.wire.quantity import parse, shown

Rule = Callable[[Object, Object | None], Iterator[Cause]]

_FROZEN = "field is immutable when `immutable` is set"
_KEY = re.compile(r"[-._a-zA-Z0-9]+")
_KEY_WORDS = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or "
    "'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)


def immutable(*paths: str) -> Rule:
    """These fields never change once the object exists."""

    def rule(new: Object, old: Object | None) -> Iterator[Cause]:
        for path in paths if old is not None else ():
            if at(new, path) != at(old, path):
                yield invalid(path, at(new, path), "field is immutable")

    return rule


def forbid_change(*paths: str, words: str) -> Rule:
    """The same, with the reason Forbidden and the message ``words``."""

    def rule(new: Object, old: Object | None) -> Iterator[Cause]:
        for path in paths if old is not None else ():
            if at(new, path) != at(old, path):
                yield forbidden(path, words)

    return rule


def set_once(path: str, words: str, otherwise: Any = "") -> Rule:
    """A field that may be filled in once and stays."""

    def rule(new: Object, old: Object | None) -> Iterator[Cause]:
        before = at(old, path, otherwise)
        if before and at(new, path, otherwise) != before:
            yield forbidden(path, words)

    return rule


def at_least(least: int, *paths: str) -> Rule:
    """Numbers with a lower bound."""
    words = "must be greater than 0" if least == 1 else f"must be greater than or equal to {least}"

    def rule(new: Object, _old: Object | None) -> Iterator[Cause]:
        for path in paths:
            value = at(new, path)
            if value is not None and value < least:
                yield invalid(path, value, words)

    return rule


def immutable_data(*paths: str) -> Rule:
    """Secrets and ConfigMaps with ``immutable: true``: neither this field nor the data may change."""

    def rule(new: Object, old: Object | None) -> Iterator[Cause]:
        if at(old, "immutable") is not True:
            return
        if at(new, "immutable") is not True:
            yield forbidden("immutable", _FROZEN)
        for path in paths:
            if (at(new, path) or {}) != (at(old, path) or {}):
                yield forbidden(path, _FROZEN)

    return rule


def config_keys(*paths: str) -> Rule:
    """Keys of data that are valid file names."""

    def rule(new: Object, _old: Object | None) -> Iterator[Cause]:
        for path in paths:
            for key in at(new, path, {}):
                if not _KEY.fullmatch(key) or key in (".", ".."):
                    yield invalid(f"{path}[{key}]", key, _KEY_WORDS)

    return rule


MOST_DATA = 1024 * 1024
"""Bytes of data that a ConfigMap or a Secret may hold."""


def bounded(where: str, most: int, *paths: str) -> Rule:
    """A limit on the total length of values (characters); ``where`` is the field in the cause."""

    def rule(new: Object, _old: Object | None) -> Iterator[Cause]:
        size = sum(len(value) for path in paths for value in at(new, path, {}).values())
        if size > most:
            yield Cause("FieldValueTooLong", where, f"Too long: may not be more than {MOST_DATA} bytes")

    return rule


def present(*paths: str) -> Rule:
    """Fields that must be there and not be empty."""

    def rule(new: Object, _old: Object | None) -> Iterator[Cause]:
        for path in paths:
            if at(new, path) in (None, "", [], {}):
                yield required(path)

    return rule


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


_PERCENT = re.compile(r"[0-9]+%")
_PERCENT_WORDS = (
    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', "
    "regex used for validation is '[0-9]+%')"
)
_POD_WORDS = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
_SET_WORDS = (
    "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', "
    "'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
)
_SET_MAY_CHANGE = (
    "replicas", "ordinals", "template", "updateStrategy", "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy", "minReadySeconds",
)  # fmt: skip


def pod(new: Object, old: Object | None) -> Iterator[Cause]:
    """A pod's containers, and on an update its mutable fields."""
    spec, before = new.get("spec") or {}, None if old is None else old.get("spec") or {}
    yield from pod_spec(spec, "spec", before)
    if before is not None:
        yield from _pod_change(spec, before)


def pod_spec(spec: Spec, path: str, before: Spec | None = None) -> Iterator[Cause]:
    """Every container has a name of its own and an image; what it asks of a node can be had.

    ``before``: the spec that is stored; what an earlier version let pass is not judged again.
    """
    if spec != before:
        yield from tolerations(spec, path)
    seen: set[str] = set()
    for field in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(field) or ()):
            where = f"{path}.{field}[{index}]"
            if not container.get("image"):
                yield required(f"{where}.image")
            if spec != before:
                yield from container_resources(container, where)
            if (name := container.get("name")) in seen:
                yield duplicate(f"{where}.name", name)
            seen.add(str(name))


def _pod_change(new: Spec, old: Spec) -> Iterator[Cause]:
    for field in ("containers", "initContainers"):
        if len(new.get(field) or ()) != len(old.get(field) or ()):
            yield forbidden(f"spec.{field}", "pod updates may not add or remove containers")
            return
    if _fixed(new) != _fixed(old) or not _only_added(new, old):
        yield forbidden("spec", _POD_WORDS)


def _fixed(spec: Spec) -> Spec:
    """The part of a pod's spec that never changes. Scheduling gates may be removed."""
    loose = ("activeDeadlineSeconds", "tolerations", "schedulingGates", "ephemeralContainers")
    fixed = {name: value for name, value in spec.items() if name not in loose}
    if fixed.get("terminationGracePeriodSeconds") == 1:
        del fixed["terminationGracePeriodSeconds"]
    for field in ("containers", "initContainers"):
        fixed[field] = [{**container, "image": ""} for container in spec.get(field) or ()]
    return fixed


def _only_added(new: Spec, old: Spec) -> bool:
    return all(toleration in (new.get("tolerations") or ()) for toleration in old.get("tolerations") or ())


def template(path: str = "spec.template", *, restart: tuple[str, ...] = ("Always",)) -> Rule:
    """A pod template: containers, and the restart policies that make sense for its kind."""

    def rule(new: Object, old: Object | None) -> Iterator[Cause]:
        spec = at(new, f"{path}.spec", {})
        yield from pod_spec(spec, f"{path}.spec", None if old is None else at(old, f"{path}.spec", {}))
        if (policy := spec.get("restartPolicy", "Always")) in restart:
            return
        field = f"{path}.spec.restartPolicy"
        if policy == "Always":
            yield required(field, "valid values: " + ", ".join(f'"{word}"' for word in restart))
        else:
            yield unsupported(field, policy, restart)

    return rule


def selector(kind: str) -> Rule:
    """A selector that selects something, and the pods of its own template."""

    def rule(new: Object, _old: Object | None) -> Iterator[Cause]:
        chosen, labels = at(new, "spec.selector"), at(new, "spec.template.metadata.labels")
        wrong = list(label_selector(chosen or {}, "spec.selector"))
        yield from wrong
        if wrong:
            yield invalid("spec.selector", chosen, "invalid label selector")
        elif chosen is not None and not chosen.get("matchLabels") and not chosen.get("matchExpressions"):
            yield invalid("spec.selector", {}, f"empty selector is invalid for {kind}")
        elif chosen is None or not matches(chosen, labels or {}):
            yield invalid(
                "spec.template.metadata.labels", labels, "`selector` does not match template `labels`"
            )

    return rule


def selectors(*paths: str) -> Rule:
    """Label selectors that can be read; ``[]`` in a path stands for every item of a list.

    What was stored before is not judged again: its status and finalizers must still be written.
    """

    def rule(new: Object, old: Object | None) -> Iterator[Cause]:
        for path in paths:
            before = {_text(chosen) for _, chosen in _found(old, path)}
            for where, chosen in _found(new, path):
                if isinstance(chosen, dict) and _text(chosen) not in before:
                    yield from label_selector(chosen, where)

    return rule


def _text(value: Any) -> bytes:
    """The same for equal values, and quick to look up among many."""
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


def _found(obj: Object | None, path: str) -> Iterator[tuple[str, Any]]:
    """The values at a path, each with the path of its own."""
    head, more, rest = path.partition("[]")
    value = at(obj, head)
    if not more:
        yield head, value
        return
    for index, item in enumerate(value or ()):
        yield f"{head}[{index}]", item if not rest else at(item, rest.removeprefix("."))


def label_selector(chosen: Spec, path: str) -> Iterator[Cause]:
    """Keys and values that a label may have; operators that exist, with values where they need them."""
    for key, value in (chosen.get("matchLabels") or {}).items():
        yield from (invalid(f"{path}.matchLabels", key, words) for words in naming.label_key(key))
        yield from (invalid(f"{path}.matchLabels", value, words) for words in naming.label_value(value))
    for index, rule in enumerate(chosen.get("matchExpressions") or ()):
        yield from _requirement(rule, f"{path}.matchExpressions[{index}]")


def _requirement(rule: Spec, where: str) -> Iterator[Cause]:
    operator, values, key = rule.get("operator"), rule.get("values") or (), rule.get("key", "")
    if operator in ("In", "NotIn"):
        if not values:
            yield required(f"{where}.values", "must be specified when `operator` is 'In' or 'NotIn'")
    elif operator not in ("Exists", "DoesNotExist"):
        yield invalid(f"{where}.operator", operator or "", "not a valid selector operator")
    elif values:
        words = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
        yield forbidden(f"{where}.values", words)
    yield from (invalid(f"{where}.key", key, words) for words in naming.label_key(key))
    for index, value in enumerate(values):
        yield from (invalid(f"{where}.values[{index}]", value, words) for words in naming.label_value(value))


def matches(chosen: Spec, labels: dict[str, str]) -> bool:
    """Whether a label selector selects these labels."""
    exact = all(labels.get(name) == value for name, value in (chosen.get("matchLabels") or {}).items())
    return exact and all(_holds(rule, labels) for rule in chosen.get("matchExpressions") or ())


def _holds(rule: Spec, labels: dict[str, str]) -> bool:
    key, values = rule.get("key", ""), rule.get("values") or ()
    match rule.get("operator"):
        case "In":
            return labels.get(key) in values
        case "NotIn":
            return labels.get(key) not in values
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
    return False  # fmt: skip


def amounts(*paths: str, capped: Iterable[str] = ()) -> Rule:
    """Numbers or percentages; those in ``capped`` are at most 100 %."""
    limited = frozenset(capped)

    def rule(new: Object, _old: Object | None) -> Iterator[Cause]:
        for path in paths:
            value = at(new, path)
            if isinstance(value, str) and not _PERCENT.fullmatch(value):
                yield invalid(path, value, _PERCENT_WORDS)
            elif isinstance(value, str) and path in limited and number_of(value[:-1]) > 100:
                yield invalid(path, value, "must not be greater than 100%")
            elif isinstance(value, int) and value < 0:
                yield invalid(path, value, "must be greater than or equal to 0")

    return rule


def strategy(new: Object, _old: Object | None) -> Iterator[Cause]:
    """A deployment's strategy: numbers only for rolling updates, and never both zero."""
    path = "spec.strategy.rollingUpdate"
    rolling = at(new, path)
    if at(new, "spec.strategy.type") == "Recreate" and rolling is not None:
        yield forbidden(path, "may not be specified when strategy `type` is 'Recreate'")
    elif rolling and all(
        str(rolling.get(name)).rstrip("%") == "0" for name in ("maxSurge", "maxUnavailable")
    ):
        yield invalid(
            f"{path}.maxUnavailable", rolling["maxUnavailable"], "may not be 0 when `maxSurge` is 0"
        )


def progress(new: Object, _old: Object | None) -> Iterator[Cause]:
    deadline = at(new, "spec.progressDeadlineSeconds")
    if deadline is not None and deadline <= at(new, "spec.minReadySeconds", 0):
        yield invalid("spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds")


def stateful_set(new: Object, old: Object | None) -> Iterator[Cause]:
    """Most fields of a StatefulSet's spec are immutable."""
    before, after = at(old, "spec", {}), at(new, "spec", {})
    fixed = (before.keys() | after.keys()) - set(_SET_MAY_CHANGE)
    if old is not None and any(before.get(name) != after.get(name) for name in fixed):
        yield forbidden("spec", _SET_WORDS)
