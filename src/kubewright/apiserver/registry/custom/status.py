"""The status of a CustomResourceDefinition: accepted names and conditions. Pure.

Theory.      Names must be free in their group: plural, singular and short names share one space,
             kind and list kind another. The first definition with a name keeps it. A definition
             whose names are accepted is established and served from then on.
Called by    the registry after a definition was created or changed.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from kubewright.api.conditions import with_json_conditions
from kubewright.apiserver.registry.custom import storage_version
from kubewright.apiserver.registry.kind import Object
from kubewright.base.clock import rfc3339

Names = Mapping[str, Any]


def established(crd: Object, others: Iterable[Object], now: datetime) -> Object:
    """The definition with its conditions, accepted names and stored versions brought up to date.

    ``others`` are all definitions there are; those of other groups do not matter.
    """
    names = crd["spec"]["names"]
    clash = next(_clashes(crd, others), None)
    old = crd.get("status") or {}
    accepted = old.get("acceptedNames") or {"plural": "", "kind": ""} if clash else dict(names)
    stored = old.get("storedVersions") or []
    version = storage_version(crd)
    status = {
        "conditions": with_json_conditions(old, *_wanted(crd, clash, now)),
        "acceptedNames": accepted,
        "storedVersions": stored if version in stored else [*stored, version],
    }
    return crd if status == old else {**crd, "status": status}


def is_established(crd: Object) -> bool:
    """Whether the definition is to be served."""
    conditions = (crd.get("status") or {}).get("conditions") or ()
    return any(c.get("type") == "Established" and c.get("status") == "True" for c in conditions)


def _wanted(crd: Object, clash: tuple[str, str] | None, now: datetime) -> list[dict[str, str]]:
    """The two conditions as they should be. A definition stays established."""

    def said(kind: str, status: str, reason: str, message: str) -> dict[str, str]:
        date = {"lastTransitionTime": rfc3339(now)}
        return {**date, "type": kind, "status": status, "reason": reason, "message": message}

    if clash is None:
        accepted = said("NamesAccepted", "True", "NoConflicts", "no conflicts found")
        served = said("Established", "True", "InitialNamesAccepted", "the initial names have been accepted")
    else:
        accepted = said("NamesAccepted", "False", f"{clash[0]}Conflict", f'"{clash[1]}" is already in use')
        served = said("Established", "False", "NotAccepted", "not all names are accepted")
    return [accepted] if is_established(crd) else [accepted, served]


def _clashes(crd: Object, others: Iterable[Object]) -> Iterator[tuple[str, str]]:
    """Names that another definition of the group has: field and name."""
    taken_resources: set[Any] = set()
    taken_kinds: set[Any] = set()
    for other in others:
        same = other["metadata"]["name"] == crd["metadata"]["name"]
        if not same and other["spec"]["group"] == crd["spec"]["group"]:
            accepted = (other.get("status") or {}).get("acceptedNames") or {}
            taken_resources |= {
                accepted.get("plural"),
                accepted.get("singular"),
                *(accepted.get("shortNames") or ()),
            }
            taken_kinds |= {accepted.get("kind"), accepted.get("listKind")}
    names = crd["spec"]["names"]
    wanted = [("Plural", names["plural"]), ("Singular", names.get("singular"))]
    wanted += [("ShortNames", name) for name in names.get("shortNames") or ()]
    for field, name in wanted:
        if name and name in taken_resources:
            yield field, name
    for field, name in (("Kind", names["kind"]), ("ListKind", names.get("listKind"))):
        if name and name in taken_kinds:
            yield field, name
