"""Objects that our controllers cannot read: they are told, and never dropped in silence.

Theory.      A server with a looser schema than our types (an older CRD, another program's, a version to come)
             may hold an object that has not the form of its kind. Its controller does not act on it, for a
             part of a spec is none; only its deletion goes on, from the part that can be read
             (``kube.cache``). Nor does another act on what such an object would have to tell it: that is
             looked at again every half minute (``delays.UNREADABLE``). Who made it would see that nothing
             happens, and not why. So each kind that controllers of ours work on is followed here, in all
             worlds alike: an object that cannot be read gets an event and, where its kind has conditions in
             its status, the condition ``Readable``, which goes when the object can be read again; and they
             are counted.
Invariants.  One event for each object and problem in a term. A condition is written at most once for each
             version of an object, best effort: what the server refuses is not tried again before the next
             version. Nothing of an object's content but the path of the wrong field is told.
Called by    ``compose.assembly``, for each group of controllers and its term.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any

import msgspec
import structlog

from kubewright.api.kinds import Kind
from kubewright.base.clock import Clock, rfc3339
from kubewright.base.errors import KubewrightError
from kubewright.kube.client import Client
from kubewright.kube.header import Header
from kubewright.kube.informer import Change, Informer, Informers
from kubewright.runtime.events import Recorder
from kubewright.runtime.metrics import Metrics
from kubewright.wire.gvk import Key

READABLE = "Readable"
"""The condition's type, and the reason of the event is its opposite."""
UNREADABLE = "Unreadable"
FAMILY = "kubewright_unreadable_objects"
LEFT_ALONE = "The controllers leave it alone until that is mended; its deletion goes on"

_LISTS = ("conditions", "machine_set_condition")
"""Attributes of a status that are lists of conditions."""

WAITING = 1_000
"""Conditions that may wait to be written; of more objects only events and the count tell."""

log = structlog.get_logger(__name__)

Ours = Callable[[Header], bool]
"""Whether this process works on an object."""


class Unreadables:
    """What cannot be read of the kinds of one group, for one term."""

    def __init__(self, client: Client, recorder: Recorder, clock: Clock) -> None:
        self._client = client
        self._recorder = recorder
        self._clock = clock
        self._problems: dict[tuple[str, Key], tuple[str, str]] = {}
        self._waiting: dict[tuple[str, Key], tuple[Informer[Any], str]] = {}
        self._wake = asyncio.Event()

    def follow(self, informers: Informers, kinds: Iterable[Kind[Any]], ours: Ours = lambda _: True) -> None:
        """Follow those of the kinds that the group has an informer of."""
        for kind in kinds:
            with suppress(KeyError):
                self._follow(informers.existing(kind), ours)

    def count(self, metrics: Metrics, source: str) -> None:
        """Show how many there are, by resource."""
        text = "Objects that controllers cannot read, and so leave alone"
        metrics.gauge(FAMILY, text, ("resource",), self._counted, source=source)

    async def run(self) -> None:
        """Write conditions until cancelled."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._waiting:
                place = next(iter(self._waiting))
                informer, problem = self._waiting.pop(place)
                await self._write(informer, place[1], problem)

    def _follow(self, informer: Informer[Any], ours: Ours) -> None:
        field = conditions_field(informer.kind)

        def changed(change: Change[Any]) -> None:
            self._changed(informer, change, field, ours)

        informer.subscribe(changed)

    def _changed(self, informer: Informer[Any], change: Change[Any], field: str, ours: Ours) -> None:
        place, new = (str(informer.kind.resource), change.key), change.new
        if new is None or not ours(new):
            self._problems.pop(place, None)
            return
        problem = informer.problem(change.key)
        if problem and self._problems.get(place) != (new.uid, problem):
            self._problems[place] = (new.uid, problem)
            self._tell(informer.kind, new, problem)
        elif not problem:
            self._problems.pop(place, None)
        if field and (problem or READABLE.encode() in new.data) and len(self._waiting) < WAITING:
            self._waiting[place] = (informer, problem)
            self._wake.set()

    def _tell(self, kind: Kind[Any], header: Header, problem: str) -> None:
        resource, key = kind.resource, header.key
        about = {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": {"name": key.name, "namespace": key.namespace, "uid": header.uid},
        }
        log.warning("an object cannot be read", kind=resource.kind, object=str(key), problem=problem)
        self._recorder.event(about, UNREADABLE, f"{problem}. {LEFT_ALONE}", warning=True)

    async def _write(self, informer: Informer[Any], key: Key, problem: str) -> None:
        header = informer.header(key)
        if header is None:
            return
        kind = informer.kind
        field = conditions_field(kind)
        status = status_after(msgspec.json.decode(header.data), field, problem, rfc3339(self._clock.now()))
        if status is None:
            return
        meta = {"uid": header.uid, "resourceVersion": str(header.version)}
        try:
            await self._client.patch(kind, key, {"metadata": meta, "status": status}, subresource="status")
        except KubewrightError as error:  # the next version of the object brings the next try
            log.info("a condition is not written", kind=kind.resource.kind, object=str(key), error=str(error))

    def _counted(self) -> list[tuple[tuple[str, ...], float]]:
        counts = Counter(resource for resource, _ in self._problems)
        return [((resource,), float(number)) for resource, number in sorted(counts.items())]


def conditions_field(kind: Kind[Any]) -> str:
    """The name that the list of conditions has in the status of a kind; empty if it has none. Pure."""
    fields = getattr(kind.type, "__struct_fields__", ())
    if "status" not in fields:
        return ""
    found = next(each for each in msgspec.structs.fields(kind.type) if each.name == "status")
    inner = getattr(found.type, "__origin__", found.type)
    if not (isinstance(inner, type) and issubclass(inner, msgspec.Struct)):
        return ""
    names = (each.encode_name for each in msgspec.structs.fields(inner) if each.name in _LISTS)
    return next(names, "")


def status_after(obj: Mapping[str, Any], field: str, problem: str, now: str) -> dict[str, Any] | None:
    """The patch of a status that says whether the object can be read; None: it says so, or cannot. Pure.

    The other conditions are written back as they are: a merge patch has no other way to change a list.
    """
    status = obj.get("status", {})
    found = status.get(field, []) if isinstance(status, Mapping) else None
    if not isinstance(found, list) or not all(isinstance(each, Mapping) for each in found):
        return None
    ours = [each for each in found if each.get("type") == READABLE]
    others = [each for each in found if each.get("type") != READABLE]
    if not problem:
        return {field: others} if ours else None
    if ours and (ours[0].get("status"), ours[0].get("message")) == ("False", problem):
        return None
    wanted = {"type": READABLE, "status": "False", "reason": UNREADABLE, "message": problem}
    return {field: [*others, {**wanted, "lastTransitionTime": now}]}
