"""Core Events and events.k8s.io Events: the same objects, written in two shapes.

Theory.      Old clients write ``involvedObject``, ``message``, ``count``; new ones write ``regarding``,
             ``note``, ``deprecatedCount``. The store holds the core shape; the other differs
             only in the names of fields, so converting back and forth loses nothing.
Called by    ``builtin.served``, as the ``to_stored`` and ``from_stored`` of events.k8s.io.
"""

from collections.abc import Mapping
from typing import Any

from kubewright.apiserver.registry.kind import Object
from kubewright.wire.gvk import Resource

CORE = Resource("", "v1", "events", "Event")

_CORE_NAME_OF: Mapping[str, str] = {
    "regarding": "involvedObject",
    "note": "message",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}
_EVENTS_NAME_OF = {core: new for new, core in _CORE_NAME_OF.items()}


def to_core(obj: Object) -> Object:
    """An events.k8s.io Event in core's shape."""
    return {_CORE_NAME_OF.get(name, name): value for name, value in obj.items()} | {"apiVersion": "v1"}


def from_core(obj: Object) -> Object:
    """A core Event in the shape of events.k8s.io."""
    renamed = {_EVENTS_NAME_OF.get(name, name): value for name, value in obj.items()}
    return renamed | {"apiVersion": "events.k8s.io/v1"}


MIRROR: Mapping[str, Any] = {"stored_as": CORE, "to_stored": to_core, "from_stored": from_core}
