"""Core Events and events.k8s.io Events: the same objects, written in two shapes.

Theory.      Old clients write ``involvedObject``, ``message``, ``count``; new ones write ``regarding``,
             ``note``, ``deprecatedCount``. The store holds the core shape; the other differs
             only in the names of fields, so converting back and forth loses nothing.
             New events, those with an ``eventTime``, have stricter rules in both shapes; the names of fields
             in refusals are core's.
Called by    ``builtin.served``, as the ``to_stored`` and ``from_stored`` of events.k8s.io; ``check``.
Source       kube-apiserver's validation of Events.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from kubewright.apiserver.registry.builtin.rules import immutable
from kubewright.apiserver.schema.causes import Cause, invalid, required
from kubewright.apiserver.schema.node import Object, at
from kubewright.wire import naming
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


MOST_OF_NOTE = 1024
_MOST = {"reportingInstance": 128, "action": 128, "reason": 128, "message": MOST_OF_NOTE}
_UNSET = ("firstTimestamp", "lastTimestamp", "count", "source")
_FIXED = immutable(
    "involvedObject", "reason", "message", "source", "firstTimestamp", "lastTimestamp", "count", "type",
    "eventTime", "action", "related", "reportingComponent", "reportingInstance",
)  # fmt: skip


def core_rules(new: Object, _old: Object | None) -> Iterator[Cause]:
    """What holds for every Event: it is where its object is, and a new one says who did what."""
    yield from _rules(new, "reportingComponent")


def events_rules(new: Object, old: Object | None) -> Iterator[Cause]:
    """Events of events.k8s.io need a time and a type, have nothing deprecated, and are mostly immutable."""
    core = to_core(new)
    yield from _rules(core, "reportingController")
    if old is not None:
        before = to_core(old)
        if core.get("series") != before.get("series"):
            yield from _series(core)
        yield from _FIXED(core, before)
        return
    yield from _series(core)
    if not core.get("eventTime"):
        yield required("eventTime")
    if core.get("type") not in ("Normal", "Warning"):
        yield invalid("type", "", f"has invalid value: {core.get('type', '')}")
    for field in _UNSET:
        if core.get(field):
            yield invalid(field, "", "needs to be unset")


def _rules(core: Object, controller: str) -> Iterator[Cause]:
    about, own = at(core, "involvedObject.namespace", ""), at(core, "metadata.namespace", "")
    if not core.get("eventTime"):
        if about != own and (about or own != "default"):
            yield invalid("involvedObject.namespace", about, "does not match event.namespace")
        return
    if not about and own not in ("default", "kube-system"):
        yield invalid("involvedObject.namespace", about, "does not match event.namespace")
    reporter = core.get("reportingComponent") or ""
    if not reporter:
        yield required(controller)
    yield from (invalid(controller, reporter, words) for words in naming.label_key(reporter))
    for field, most in _MOST.items():
        value = core.get(field) or ""
        if not value and field != "message":
            yield required(field)
        if len(value.encode()) > most:
            yield invalid(field, "", f"can have at most {most} characters")


def _series(core: Object) -> Iterator[Cause]:
    series = core.get("series")
    if series is None:
        return
    if (series.get("count") or 0) < 2:
        yield invalid("series.count", "", "should be at least 2")
    if not series.get("lastObservedTime"):
        yield required("series.lastObservedTime")
