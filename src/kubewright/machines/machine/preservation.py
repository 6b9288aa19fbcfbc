"""Decide whether a machine is preserved, until when, and which marks its node carries meanwhile.

Theory.      Users ask for it by an annotation on the node or the machine. ``requested`` says what they want
             now and until when; it depends on the annotations, the phase, the expiry on record and the
             date. A preservation *begins* with its expiry in the machine's status, written together with
             the phase Failed if that is its cause: so a set that sees the Failed machine sees, too, that
             it must not replace it. The marks on the node follow: an annotation
             keeps the autoscaler away, and once the machine is Failed a taint keeps new pods away and
             the pods on the node are drained. It *ends* in the reverse order, the expiry last: while the
             expiry is on record, marks may be left.
Invariants.  Every preservation ends: an expiry is never moved, and once it has passed the controller
             removes the annotation that asked for it. Marks that we did not make (a user's
             ``scale-down-disabled``) stay. An annotation with an unknown value begins nothing.
             Users compare the expiry with their own clocks, so it is compared with our wall clock (decision
             0011).
Called by    ``decide``, ``look`` (``drains_preserved``, ``asked_by_node``), ``states`` (``new_expiry``).
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from kubewright.api.conditions import condition_of
from kubewright.api.core import Node, NodeCondition
from kubewright.api.machine import names
from kubewright.api.machine.names import NodeConditionType, Phase, Preserve, PreservedReason, parse_preserve
from kubewright.api.machine.v1alpha1 import Machine
from kubewright.base import delays
from kubewright.base.clock import rfc3339
from kubewright.base.plan import AT_ONCE
from kubewright.machines import node_marks
from kubewright.machines.machine.seen import (
    Annotate,
    Drain,
    EndPreservation,
    Plan,
    Seen,
    SetPreservationMarks,
    SetPreservedCondition,
    Step,
)
from kubewright.nodes import marks

DRAINED = "Preserved node drained successfully."
NOT_DRAINED = "Preserved node could not be drained."
"""The first sentence of the condition's message: the drain has ended, or cannot end."""


@dataclass(frozen=True, slots=True)
class Preservation:
    """What the annotations ask for.

    ``until``   the end of the preservation; None: the machine is not preserved
    ``drop``    the controller is to remove the annotations that asked for it
    ``value``   their value; None: no annotation, or an unknown value
    ``by_node`` the node's annotation decides, and not the machine's
    """

    until: datetime | None
    drop: bool = False
    value: Preserve | None = None
    by_node: bool = False


def requested(seen: Seen, phase: Phase) -> Preservation:
    """What the annotations ask for if the machine is in that phase."""
    value, by_node = _effective(seen)
    expiry, failed = seen.machine.status.current_status.preserve_expiry_time, phase is Phase.FAILED
    if expiry is not None and expiry <= seen.wall:
        return Preservation(None, drop=value not in (None, Preserve.FALSE), value=value, by_node=by_node)
    until = expiry or seen.wall + seen.preserve_timeout
    match value:
        case Preserve.NOW:
            return Preservation(until, value=value, by_node=by_node)
        case Preserve.WHEN_FAILED:
            return Preservation(until if failed else None, value=value, by_node=by_node)
        case Preserve.AUTO:
            return Preservation(until if failed else None, drop=not failed, value=value, by_node=by_node)
        case _:
            return Preservation(None, by_node=by_node)


def new_expiry(seen: Seen, phase: Phase) -> datetime | None:
    """The expiry of a preservation that begins now if the machine is in that phase; None if none begins."""
    known = seen.machine.status.current_status.preserve_expiry_time is not None
    return (
        None if known or seen.machine.metadata.deleting or seen.unreachable else requested(seen, phase).until
    )


def asked_by_node(machine: Machine) -> bool:
    """Whether a machine is preserved because its node's annotation asks for it."""
    asked = machine.metadata.annotations.get(names.LAST_APPLIED_PRESERVE_ANNOTATION)
    named = names.node_name(machine.metadata.labels)
    return bool(asked and named) and machine.status.current_status.preserve_expiry_time is not None


def drains_preserved(machine: Machine, node: Node | None) -> bool:
    """Whether to drain a preserved machine's node: it is Failed, the taint is on, the drain not over."""
    current = machine.status.current_status
    if node is None or current.preserve_expiry_time is None or current.phase != Phase.FAILED:
        return False
    tainted = any(taint.key == names.PRESERVED_TAINT for taint in node.spec.taints)
    return tainted and not _preserved_condition(node).message.startswith(DRAINED)


def preserve(seen: Seen) -> Plan | None:
    """Bring the node's marks in line with the request; None if they are, or before the expiry is written."""
    found, expiry = requested(seen, seen.phase), seen.machine.status.current_status.preserve_expiry_time
    if found.until is None:
        marked = seen.node is not None and _preserved_condition(seen.node).status == "True"
        return _ending(seen, found) if expiry or marked or found.drop else _record_request(seen, found)
    return _keeping(seen, found, expiry) if expiry is not None else None


def invalid_annotation(seen: Seen) -> str:
    """Which annotation has an unknown value, in a sentence; empty if none has."""
    places: list[tuple[str, Machine | Node | None]] = [("machine", seen.machine), ("node", seen.node)]
    for what, each in places:
        said = each.metadata.annotations.get(names.PRESERVE_ANNOTATION, "") if each is not None else ""
        if said and parse_preserve(said) is None:
            known = ", ".join(f'"{value}"' for value in Preserve)
            return f'The {what}\'s annotation {names.PRESERVE_ANNOTATION} is "{said}", and none of {known}'
    return ""


def next_look(seen: Seen) -> timedelta | None:
    """When to look again at the latest: at the expiry, or sooner while a drain goes on; None: no need to.

    The status of this pass writes the expiry of a preservation that begins now; the next pass marks the node.
    """
    expiry = seen.machine.status.current_status.preserve_expiry_time
    if expiry is None:
        return delays.SOON if new_expiry(seen, seen.phase) else None
    if expiry <= seen.wall:
        return None
    waits = [expiry - seen.wall + delays.JUST_PAST]
    if seen.drain is not None and not seen.drain.done:
        waits.append(max(seen.drain.wake, delays.SOON))
    return min(waits)


def _keeping(seen: Seen, found: Preservation, until: datetime) -> Plan | None:
    """The steps of a preservation that goes on: marks, drain if the machine is Failed, condition."""
    steps: list[Step] = list(_annotate(seen, found))
    if seen.node is not None:
        marked = node_marks.preserved(seen.node, seen.wall, seen.phase)
        if marked:
            steps.append(SetPreservationMarks(marked))
        if seen.drain is not None and (seen.drain.evict or seen.drain.delete):
            steps.append(Drain(seen.drain))
        said = marks.condition(seen.node, _condition(seen, found, until), seen.wall)
        if said and not (marked and seen.phase is Phase.FAILED):  # the next pass drains, and writes it then
            steps.append(SetPreservedCondition(said))
    because = f"it is preserved until {rfc3339(until)}"
    return Plan(tuple(steps), wake=AT_ONCE, because=because) if steps else None


def _condition(seen: Seen, found: Preservation, until: datetime) -> NodeCondition:
    reason = PreservedReason.BY_US if found.value is Preserve.AUTO else PreservedReason.BY_USER
    status, told = "True", f"Machine preserved until {rfc3339(until)}."
    if seen.phase is Phase.FAILED and seen.node is not None:
        over = (
            seen.drain.done
            if seen.drain is not None
            else _preserved_condition(seen.node).message.startswith(DRAINED)
        )
        if over:
            told = f"{DRAINED} {told}"
        elif seen.drain is not None and seen.drain.failed:
            status, told = "False", f"{NOT_DRAINED} {seen.drain.obstacles}. {told}"
    return NodeCondition(type=NodeConditionType.PRESERVED, status=status, reason=reason, message=told)


def _ending(seen: Seen, found: Preservation) -> Plan | None:
    """The steps that end a preservation; the expiry is removed last. None: all of that is done."""
    why, expiry = _why_it_ends(seen, found), seen.machine.status.current_status.preserve_expiry_time
    steps: list[Step] = []
    if seen.node is not None:
        if patch := node_marks.unpreserved(seen.node, drop=found.drop):
            steps.append(SetPreservationMarks(patch))
        stopped = NodeCondition(
            type=NodeConditionType.PRESERVED, status="False", reason=PreservedReason.STOPPED, message=""
        )
        if _preserved_condition(seen.node).type and (patch := marks.condition(seen.node, stopped, seen.wall)):
            steps.append(SetPreservedCondition(patch))
    steps += _annotate(seen, found)
    if not steps and expiry is not None and not _for_its_set(seen, expiry):
        steps.append(EndPreservation(f"The machine is not preserved any longer: {why}"))
    if not steps:
        return None
    return Plan(tuple(steps), wake=AT_ONCE, because=f"its preservation ends: {why}")


def _for_its_set(seen: Seen, expiry: datetime) -> bool:
    """Whether a past expiry stays on record: it keeps the set from preserving the Failed machine again."""
    over = seen.phase is Phase.FAILED and expiry <= seen.wall
    return over and seen.machine.metadata.controller is not None


def _why_it_ends(seen: Seen, found: Preservation) -> str:
    expiry = seen.machine.status.current_status.preserve_expiry_time
    if expiry is not None and expiry <= seen.wall:
        return "its time is over"
    if found.value in (Preserve.WHEN_FAILED, Preserve.AUTO):
        return f"it has not failed, it is {seen.phase.value or 'new'}"
    return "it is not asked for any more"


def _record_request(seen: Seen, found: Preservation) -> Plan | None:
    steps = _annotate(seen, found)
    return Plan(steps, wake=AT_ONCE, because="its node says whether to preserve it") if steps else None


def _annotate(seen: Seen, found: Preservation) -> tuple[Step, ...]:
    """The machine's annotations: where the node's decides, they only record its last value."""
    have = seen.machine.metadata.annotations
    said = seen.node.metadata.annotations.get(names.PRESERVE_ANNOTATION) if seen.node is not None else None
    wanted: dict[str, str | None] = {}
    if found.drop:
        wanted = {names.PRESERVE_ANNOTATION: None, names.LAST_APPLIED_PRESERVE_ANNOTATION: None}
    elif found.by_node and seen.node is not None:
        wanted = {names.PRESERVE_ANNOTATION: None, names.LAST_APPLIED_PRESERVE_ANNOTATION: said or None}
    edits: dict[str, Any] = {key: value for key, value in wanted.items() if have.get(key) != value}
    return (Annotate({"annotations": edits}),) if edits else ()


def _effective(seen: Seen) -> tuple[Preserve | None, bool]:
    """What is asked for, and whether by the node's annotation. Without one the machine's counts, unless the
    node had one before: then a user has removed it, and nothing is asked for. While the server refuses to
    show the node, its last value counts."""
    annotations = seen.machine.metadata.annotations
    own = parse_preserve(annotations.get(names.PRESERVE_ANNOTATION, ""))
    last = annotations.get(names.LAST_APPLIED_PRESERVE_ANNOTATION, "")
    if seen.node is None:
        unread = seen.unread is not None and bool(last)
        return (parse_preserve(last), True) if unread else (own, False)
    said = seen.node.metadata.annotations.get(names.PRESERVE_ANNOTATION, "")
    if not said and not last:
        return own, False
    theirs = parse_preserve(said)
    if said and theirs is None:
        return _as_before(seen, own), False
    return theirs, True


def _as_before(seen: Seen, own: Preserve | None) -> Preserve | None:
    """For a node's unknown value: the machine's counts; without one, a preservation under way goes on."""
    expiry = seen.machine.status.current_status.preserve_expiry_time
    return Preserve.NOW if expiry is not None and own is None else own


def _preserved_condition(node: Node) -> NodeCondition:
    """The node's condition ``Preserved``; an empty one when it has none."""
    return condition_of(node.status.conditions, NodeConditionType.PRESERVED) or NodeCondition()
