"""What of a class may change on a VM that runs: comparing providerSpecs, and sets of tags. Pure.

Theory.      A driver names the fields of a providerSpec that it can apply to a VM (``contract.Updates``): the
             hot ones. Two providerSpecs are compared by paths, so that a user can be told what differs, and
             which of it an update in place applies and which only another VM can have. Tags are merged
             from three sides: what was applied last, what is wanted, and what the cloud's object has, because
             users and clouds put tags of their own beside ours.
             Clouds bound the tags of each resource by themselves, and give them forms of their own, so a
             providerSpec may say them per resource: ``tags: {vm: {..}, network: {..}, disk: {..}}``. Older
             ones, and Gardener's, have one flat map of texts; which resources that is for the driver says.
             The two are told apart by values alone: with at least one object among them it is the form per
             resource, and then every key has to be the name of one; texts alone are a flat map, also where
             one of the tags is called ``vm``. An empty map is both.
             What was applied last comes back from an annotation that a person may have edited. So it is read
             leniently: what is no text there is not known, and nothing is removed for it.
Invariants.  The order of keys means nothing, that of lists does. A list is one value: it has no fields. A tag
             that neither the last nor the wanted providerSpec names is left alone, and so is one by which the
             cloud's objects are found (``is_mandatory``); a class that asks for something else is refused
             before anything is done.
Called by    drivers, for their tags; ``machines.machine`` for the decision to update; ``cli`` for hashes.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from kubewright.driver.answers import plainly
from kubewright.driver.errors import InvalidArgument

MANDATORY = (
    "kubernetes.io/cluster/",
    "kubernetes.io/role/",
    "kubernetes-io-cluster-",
    "kubernetes-io-role-",
)
"""Parts of the names of tags by which VMs are listed, collected, asked for and deleted."""

_ENCODER = msgspec.json.Encoder(order="deterministic")


@dataclass(frozen=True, slots=True)
class TagChanges:
    """What is to be done to the tags of one object: set these, and take these off; ``refused`` stay as they
    are although the class asks for something else, because the object is found by them."""

    put: Mapping[str, str]
    remove: tuple[str, ...]
    refused: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.put or self.remove)


def digest(spec: Mapping[str, Any]) -> str:
    """The SHA-256 of a providerSpec, in hexadecimal digits, whatever the order of its keys."""
    return hashlib.sha256(_ENCODER.encode(spec)).hexdigest()


def written(spec: Mapping[str, Any]) -> str:
    """A providerSpec as text: that of equal ones is equal, whatever the order of their keys."""
    return _ENCODER.encode(spec).decode()


def read(text: str) -> dict[str, Any] | None:
    """The providerSpec of such a text; None where it is none, as after an edit by hand."""
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None


def merged(fixed_of: Mapping[str, Any], hot_of: Mapping[str, Any], hot: Sequence[str]) -> dict[str, Any]:
    """The fixed fields of one providerSpec with the hot fields of another: what a VM made by the first is,
    once an update in place has given it what the second says."""
    made = dict(fixed_of)
    for field in hot:
        path = field.split(".")
        made = _with(made, path, _at(hot_of, path))
    return made


def united(one: Mapping[str, Any] | None, other: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """All keys of two providerSpecs, with the values of the second where both have one: what may be on a VM
    that had the first, when an update to the second was cut off."""
    if one is None or other is None:
        return other if one is None else one
    both = dict(one)
    for key, value in other.items():
        before = both.get(key)
        parted = isinstance(before, Mapping) and isinstance(value, Mapping)
        both[key] = united(before, value) if parted else value
    return both


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[str, ...]:
    """The paths of all values that two providerSpecs do not share, sorted: the keys of objects, joined by
    dots."""
    return tuple(sorted(".".join(path) for path in _differences(before, after)))


def fixed(paths: Iterable[str], hot: Sequence[str]) -> tuple[str, ...]:
    """Those of these paths that no hot field covers: only another VM can have them."""
    return tuple(each for each in paths if not any(_covers(field, each) for field in hot))


def without(spec: Mapping[str, Any], hot: Sequence[str]) -> dict[str, Any]:
    """A providerSpec without its hot fields. Objects that have nothing else go with them, so that it says the
    same whether a class has hot fields or none."""
    return _without(spec, hot, "")


def class_hash(spec: Mapping[str, Any], hot: Sequence[str]) -> str:
    """Sixteen digits for the name of a class: another one means that VMs must be made anew."""
    return digest(without(spec, hot))[:16]


def is_mandatory(tag: str) -> bool:
    """Whether the cloud's objects are found by this tag: an update neither changes it nor takes it off."""
    return any(part in tag for part in MANDATORY)


def three_way(
    last: Mapping[str, str] | None, wanted: Mapping[str, str], actual: Mapping[str, str]
) -> TagChanges:
    """What is to be done to an object's tags.

    Args:
        last: the tags that were applied last; None where that is not known: then none is taken off.
        wanted: the tags that the class has now.
        actual: the tags that the object has.
    """
    put = {key: value for key, value in wanted.items() if actual.get(key) != value}
    remove = {key for key in last or {} if key not in wanted and key in actual}
    refused = {key for key in put if is_mandatory(key) and key in actual} | set(filter(is_mandatory, remove))
    return TagChanges(
        put={key: value for key, value in put.items() if key not in refused},
        remove=tuple(sorted(remove - refused)),
        refused=tuple(sorted(refused)),
    )


def _differences(before: object, after: object, path: tuple[str, ...] = ()) -> Iterable[tuple[str, ...]]:
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for key in before.keys() | after.keys():
            yield from _differences(before.get(key), after.get(key), (*path, key))
    elif isinstance(before, Mapping) and before and after is None:
        yield from _differences(before, {}, path)
    elif isinstance(after, Mapping) and after and before is None:
        yield from _differences({}, after, path)
    elif not _same(before, after):
        yield path


def _same(before: object, after: object) -> bool:
    """Equal as JSON: true is not 1. Null is as good as nothing at all."""
    return before is after or _ENCODER.encode(before) == _ENCODER.encode(after)


def _at(spec: object, path: Sequence[str]) -> object:
    """The value at a path; None where there is none."""
    for key in path:
        spec = spec.get(key) if isinstance(spec, Mapping) else None
    return spec


def _with(spec: Mapping[str, Any], path: Sequence[str], value: object) -> dict[str, Any]:
    """The same with this value at a path; None: without any, nor objects that are empty because of it."""
    key, *rest = path
    if rest:
        below = spec.get(key)
        value = _with(below if isinstance(below, Mapping) else {}, rest, value) or None
    others = {each: found for each, found in spec.items() if each != key}
    return others if value is None else {**others, key: value}


def _covers(field: str, path: str) -> bool:
    return path == field or path.startswith(f"{field}.")


def _without(spec: Mapping[str, Any], hot: Sequence[str], above: str) -> dict[str, Any]:
    left: dict[str, Any] = {}
    for key, value in spec.items():
        path = f"{above}{key}"
        parted = isinstance(value, Mapping) and any(each.startswith(f"{path}.") for each in hot)
        kept = _without(value, hot, f"{path}.") if parted else value
        if path not in hot and kept is not None and (kept or not parted):
            left[key] = kept
    return left


FIELD = "tags"
VM, NETWORK, DISK = RESOURCES = ("vm", "network", "disk")

T = Mapping[str, str]


class Tags(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The tags of each resource."""

    vm: T = {}
    network: T = {}
    disk: T = {}

    def of(self, resource: str) -> T:
        """Those of one of ``RESOURCES``."""
        found: T = getattr(self, resource)
        return found


def found_by(tags: T) -> T:
    """The tags of a class by which its VMs are listed: those of cluster and role, which no update changes;
    all of them where it has none of these."""
    return {key: value for key, value in tags.items() if is_mandatory(key)} or tags


def by_resource(spec: Mapping[str, Any], flat: Sequence[str]) -> Mapping[str, Any]:
    """A providerSpec whose tags are said per resource; what has the wrong type is left for its reader.

    Args:
        spec: the providerSpec of a class.
        flat: which resources a flat map is for.

    Raises:
        InvalidArgument: a flat map has a value that is no text.
    """
    raw = spec.get(FIELD)
    if not isinstance(raw, Mapping) or any(isinstance(each, Mapping) for each in raw.values()):
        return spec
    try:
        found = msgspec.convert(raw, dict[str, str])
    except msgspec.ValidationError as error:
        path = plainly(str(error))
        raise InvalidArgument(f"providerSpec: {FIELD}{'' if path.startswith('[') else ': '}{path}") from None
    return {**spec, FIELD: dict.fromkeys(flat, found) if found else {}}


def last_applied_tags(last_applied: Mapping[str, Any] | None, flat: Sequence[str]) -> Tags | None:
    """The tags that were applied last; None where that is not known. Of an update that was cut off it may be
    two providerSpecs in one, of which one has the flat form and the other does not: then both count."""
    if last_applied is None or not isinstance(raw := last_applied.get(FIELD, {}), Mapping):
        return None
    texts = _texts(raw)
    return Tags(**{each: {**(texts if each in flat else {}), **_texts(raw.get(each))} for each in RESOURCES})


def last_applied_switch(last_applied: Mapping[str, Any] | None, field: str) -> bool | None:
    """What a field that is true or false was when it was applied last; None: nothing, or it is not known."""
    found = (last_applied or {}).get(field)
    return found if isinstance(found, bool) else None


def switched(last: bool | None, wanted: bool | None, default: bool) -> bool | None:
    """What such a field is to be now: what the class says; where it says nothing any more, what it is without
    a class; and where it never did, None: another's choice stays."""
    if wanted is not None:
        return wanted
    return None if last is None else default


def changes(
    last: Tags | None, wanted: Tags, objects: Mapping[str, tuple[str, T]]
) -> Mapping[str, TagChanges]:
    """What is to be done to each of the cloud's objects; those to which nothing is are left out.

    Args:
        last: the tags that were applied last; None where that is not known.
        wanted: those of the class.
        objects: by their names, what each is (one of ``RESOURCES``) and which tags it has.

    Raises:
        InvalidArgument: the class asks for other tags by which the objects are found; names them.
    """
    found = {
        name: three_way(None if last is None else last.of(resource), wanted.of(resource), actual)
        for name, (resource, actual) in objects.items()
    }
    if refused := {name: each.refused for name, each in found.items() if each.refused}:
        names = ", ".join(f"{', '.join(tags)} (of {name})" for name, tags in refused.items())
        raise InvalidArgument(
            f"providerSpec: tags: VMs are found by these, so they stay as they are: {names}; a class of "
            "another name, by which VMs are made anew, can have others"
        )
    return {name: each for name, each in found.items() if each}


def changed(actual: T, what: TagChanges) -> dict[str, str]:
    """The tags of an object afterwards."""
    return {key: each for key, each in {**actual, **what.put}.items() if key not in what.remove}


def _texts(raw: object) -> T:
    if not isinstance(raw, Mapping):
        return {}
    return {key: value for key, value in raw.items() if isinstance(value, str)}
