"""Validation rules for pods, pod templates and the workloads that have them."""

import re
from collections.abc import Iterable, Iterator
from typing import Any

import orjson

from kubewright.apiserver.registry.builtin import placement_rules as placement
from kubewright.apiserver.registry.builtin.rules import Rule
from kubewright.apiserver.schema.causes import Cause, duplicate, forbidden, invalid, required, unsupported
from kubewright.apiserver.schema.node import Object, at
from kubewright.base.limits import number_of
from kubewright.wire import naming

Spec = dict[str, Any]
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
        yield from placement.tolerations(spec, path)
    seen: set[str] = set()
    for field in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(field) or ()):
            where = f"{path}.{field}[{index}]"
            if not container.get("image"):
                yield required(f"{where}.image")
            if spec != before:
                yield from placement.container_resources(container, where)
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
