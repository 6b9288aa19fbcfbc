"""The entries of ``managedFields``: managers, and the fields that each of them manages.

Invariants.  ``read(written(managers)) == managers``. Sorted as kube-apiserver sorts them, so that equal
             managers are equal bytes.
Continues    in ``updates``, ``applying``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kubewright.apiserver.fields import paths
from kubewright.apiserver.fields.paths import Malformed, Paths

APPLY, UPDATE = "Apply", "Update"
_FIELDS_V1 = "FieldsV1"


@dataclass(frozen=True, slots=True)
class Manager:
    """Who manages fields, by applies or by updates.

    An applier is the same in all versions of a kind, so its ``version`` is empty.
    """

    name: str
    operation: str
    version: str = ""
    subresource: str = ""

    @property
    def shown(self) -> str:
        """As the message of a conflict names it."""
        through = f' with subresource "{self.subresource}"' if self.subresource else ""
        using = f" using {self.version}" if self.operation == UPDATE else ""
        return f'"{self.name}"{through}{using}'


@dataclass(frozen=True, slots=True)
class Managed:
    """What one manager has: paths in terms of ``version``, and when it last wrote (RFC 3339)."""

    paths: Paths
    version: str
    time: str = ""


Managers = Mapping[Manager, Managed]


def applier(name: str, subresource: str) -> Manager:
    return Manager(name, APPLY, subresource=subresource)


def updater(name: str, version: str, subresource: str) -> Manager:
    return Manager(name, UPDATE, version, subresource)


def read(entries: Any) -> dict[Manager, Managed]:
    """The managers that ``managedFields`` names.

    Raises:
        Malformed
    """
    if not isinstance(entries, Sequence) or isinstance(entries, str):
        raise Malformed("managedFields is a list")
    found = {}
    for entry in entries:
        if not isinstance(entry, Mapping) or entry.get("operation") not in (APPLY, UPDATE):
            raise Malformed("operation must be `Apply` or `Update`")
        words = [entry.get(name) or "" for name in ("manager", "apiVersion", "subresource", "time")]
        if not all(isinstance(word, str) for word in words):
            raise Malformed("manager, apiVersion, subresource and time are strings")
        name, version, subresource, time = words
        if not version or entry.get("fieldsType") != _FIELDS_V1:
            raise Malformed("apiVersion must not be empty, and fieldsType must be FieldsV1")
        applied = entry["operation"] == APPLY
        manager = applier(name, subresource) if applied else updater(name, version, subresource)
        found[manager] = Managed(paths.decoded(entry.get("fieldsV1") or {}), version, time)
    return found


def written(managers: Managers) -> list[dict[str, Any]]:
    """The managers as ``managedFields``."""
    order = sorted(
        managers.items(),
        key=lambda pair: (
            pair[0].operation,
            pair[1].time,
            pair[0].name,
            pair[1].version,
            pair[0].subresource,
        ),
    )
    return [_entry(manager, managed) for manager, managed in order]


def _entry(manager: Manager, managed: Managed) -> dict[str, Any]:
    return {
        **({"manager": manager.name} if manager.name else {}),
        "operation": manager.operation,
        "apiVersion": managed.version,
        **({"time": managed.time} if managed.time else {}),
        "fieldsType": _FIELDS_V1,
        "fieldsV1": paths.encoded(managed.paths),
        **({"subresource": manager.subresource} if manager.subresource else {}),
    }
