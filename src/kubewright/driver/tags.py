"""Tags of a VM, of its network interfaces and of its disks: as a class says them, and how they change. Pure.

Theory.      Clouds bound the tags of each resource by themselves, and give them forms of their own, so a
             providerSpec may say them per resource: ``tags: {vm: {..}, network: {..}, disk: {..}}``. Older
             ones, and Gardener's, have one flat map of texts; which resources that is for the driver says.
             The two are told apart by values alone: with at least one object among them it is the form per
             resource, and then every key has to be the name of one; texts alone are a flat map, also where
             one of the tags is called ``vm``. An empty map is both.
             What was applied last comes back from an annotation that a person may have edited. So it is read
             leniently: what is no text there is not known, and nothing is removed for it.
Invariants.  What ``changes`` returns leaves foreign tags and those alone by which the cloud's objects are
             found; a class that asks for something else is refused before anything is done.
Called by    drivers that offer ``contract.Updates``.
Source       seed 004, hot update of instances; drivers.md B3, B4, B17.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from kubewright.driver.answers import plainly
from kubewright.driver.errors import InvalidArgument
from kubewright.driver.hot import TagChanges, is_mandatory, three_way

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
