"""Decide whether a machine is kept although it failed, until when, and what marks it on its node.

Theory.      People ask by an annotation on the node or the machine. ``verdict`` says what they want now and
             until when; it is a function of the annotations, the phase and the expiry on record, nothing
             else. A preservation *begins* by its expiry in the machine's status: written together with
             the phase Failed if that is its cause, so that a set never sees a Failed machine of which it
             cannot tell that it is wanted (defect 35 of mcm.md §19). The marks on the node follow: the
             autoscaler is told to leave it alone, and once the machine has failed, a taint keeps new pods
             away and those that are there are drained. It *ends* in the other order, the expiry last:
             while that is on record it is known that marks may be left.
Invariants.  No preservation is without an end: an expiry is never moved, and when it has passed, the
             annotation that asked for it goes too. Marks that we did not make (a person's
             ``scale-down-disabled``) stay. An annotation that cannot be read begins nothing.
Source       mcm.md §4.12; the expiry is a date that people compare with their clocks, so ours is the wall
             clock's (decision 0011).
Called by    ``decide``, ``look`` (whose pods are drained), ``status`` (begins).
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from kubewright.api.core import Node, NodeCondition
from kubewright.api.machine import names
from kubewright.api.machine.names import NodeConditionType, Phase
from kubewright.api.machine.preserve import Preserve, PreservedReason, wish_of
from kubewright.api.machine.v1alpha1 import Machine
from kubewright.base.clock import rfc3339
from kubewright.machines.machine.observe import Seen
from kubewright.machines.machine.steps import (
    Annotate,
    Drain,
    EndPreservation,
    MarkPreserved,
    Plan,
    SayPreserved,
    Step,
)
from kubewright.nodes import marks

DRAINED = "Preserved node drained successfully."
NOT_DRAINED = "Preserved node could not be drained."
"""How the condition's message begins once the drain is over, or cannot end (mcm.md §2.5)."""

SOON = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is wanted of a machine.

    ``until``   when it is not kept any longer; None: it is not kept
    ``drop``    the annotations that asked for it go
    ``wish``    what they ask for; None: nothing, or nothing that can be read
    ``by_node`` the node's annotation decides, and not the machine's
    """

    until: datetime | None
    drop: bool = False
    wish: Preserve | None = None
    by_node: bool = False


def verdict(seen: Seen, phase: Phase) -> Verdict:
    """What is wanted of the machine, were it in that phase (mcm.md §4.12, table "Effective")."""
    wish, by_node = _wish(seen)
    expiry, failed = seen.machine.status.current_status.preserve_expiry_time, phase is Phase.FAILED
    if expiry is not None and expiry <= seen.today:
        return Verdict(None, drop=wish not in (None, Preserve.FALSE), wish=wish, by_node=by_node)
    until = expiry or seen.today + seen.preserve_timeout
    match wish:
        case Preserve.NOW:
            return Verdict(until, wish=wish, by_node=by_node)
        case Preserve.WHEN_FAILED:
            return Verdict(until if failed else None, wish=wish, by_node=by_node)
        case Preserve.AUTO:
            return Verdict(until if failed else None, drop=not failed, wish=wish, by_node=by_node)
        case _:
            return Verdict(None, by_node=by_node)


def begins(seen: Seen, phase: Phase) -> datetime | None:
    """The expiry of a preservation that begins now, were the machine in that phase; None if none does."""
    known = seen.machine.status.current_status.preserve_expiry_time is not None
    return None if known or seen.machine.metadata.deleting or seen.blind else verdict(seen, phase).until


def by_node(machine: Machine) -> bool:
    """Whether a machine is preserved because its node's annotation asks for it."""
    asked = machine.metadata.annotations.get(names.LAST_APPLIED_PRESERVE_ANNOTATION)
    named = names.node_name(machine.metadata.labels)
    return bool(asked and named) and machine.status.current_status.preserve_expiry_time is not None


def draining(machine: Machine, node: Node | None) -> bool:
    """Whether pods of a preserved machine's node are to leave: it has failed, and takes no new ones."""
    current = machine.status.current_status
    if node is None or current.preserve_expiry_time is None or current.phase != Phase.FAILED:
        return False
    tainted = any(taint.key == names.PRESERVED_TAINT for taint in node.spec.taints)
    return tainted and not _said(node).message.startswith(DRAINED)


def preserve(seen: Seen, _now: datetime) -> Plan | None:
    """Bring the marks in line with what is wanted; None when they are, or before ``status`` has begun."""
    found, expiry = verdict(seen, seen.phase), seen.machine.status.current_status.preserve_expiry_time
    if found.until is None:
        marked = seen.node is not None and _said(seen.node).status == "True"
        return _ending(seen, found) if expiry or marked or found.drop else _noting(seen, found)
    return _keeping(seen, found, expiry) if expiry is not None else None


def complaint(seen: Seen) -> str:
    """What is wrong with what people ask for; empty if it can be read."""
    places: list[tuple[str, Machine | Node | None]] = [("machine", seen.machine), ("node", seen.node)]
    for what, each in places:
        said = each.metadata.annotations.get(names.PRESERVE_ANNOTATION, "") if each is not None else ""
        if said and wish_of(said) is None:
            known = ", ".join(f'"{value}"' for value in Preserve)
            return f'The {what}\'s annotation {names.PRESERVE_ANNOTATION} is "{said}", and none of {known}'
    return ""


def due(seen: Seen) -> timedelta | None:
    """When to look again at the latest: at the end, or sooner while a drain goes on. None: no matter.

    A preservation that begins now is begun by the status of this pass; the next one marks the node.
    """
    expiry = seen.machine.status.current_status.preserve_expiry_time
    if expiry is None:
        return SOON if begins(seen, seen.phase) else None
    if expiry <= seen.today:
        return None
    waits = [expiry - seen.today + timedelta(milliseconds=1)]
    if seen.drain is not None and not seen.drain.done:
        waits.append(max(seen.drain.wake, SOON))
    return min(waits)


def _keeping(seen: Seen, found: Verdict, until: datetime) -> Plan | None:
    """The node's marks, the drain of one that failed, and what the condition says of both."""
    steps: list[Step] = list(_notes(seen, found))
    if seen.node is not None:
        marked = marks.preserved(seen.node, seen.today, seen.phase)
        if marked:
            steps.append(MarkPreserved(marked))
        if seen.drain is not None and (seen.drain.evict or seen.drain.delete):
            steps.append(Drain(seen.drain))
        said = marks.condition(seen.node, _condition(seen, found, until), seen.today)
        if said and not (marked and seen.phase is Phase.FAILED):  # there is more to say in a moment
            steps.append(SayPreserved(said))
    because = f"it is preserved until {rfc3339(until)}"
    return Plan(tuple(steps), wake=timedelta(0), because=because) if steps else None


def _condition(seen: Seen, found: Verdict, until: datetime) -> NodeCondition:
    reason = PreservedReason.BY_US if found.wish is Preserve.AUTO else PreservedReason.BY_USER
    status, told = "True", f"Machine preserved until {rfc3339(until)}."
    if seen.phase is Phase.FAILED and seen.node is not None:
        over = seen.drain.done if seen.drain is not None else _said(seen.node).message.startswith(DRAINED)
        if over:
            told = f"{DRAINED} {told}"
        elif seen.drain is not None and seen.drain.failed:
            status, told = "False", f"{NOT_DRAINED} {seen.drain.obstacles}. {told}"
    return NodeCondition(type=NodeConditionType.PRESERVED, status=status, reason=reason, message=told)


def _ending(seen: Seen, found: Verdict) -> Plan | None:
    """Everything is undone; the expiry goes when nothing else is left. None: all of that is done."""
    why, expiry = _why_it_ends(seen, found), seen.machine.status.current_status.preserve_expiry_time
    steps: list[Step] = []
    if seen.node is not None:
        if patch := marks.unpreserved(seen.node, drop=found.drop):
            steps.append(MarkPreserved(patch))
        stopped = NodeCondition(
            type=NodeConditionType.PRESERVED, status="False", reason=PreservedReason.STOPPED, message=""
        )
        if _said(seen.node).type and (patch := marks.condition(seen.node, stopped, seen.today)):
            steps.append(SayPreserved(patch))
    steps += _notes(seen, found)
    if not steps and expiry is not None and not _for_its_set(seen, expiry):
        steps.append(EndPreservation(f"The machine is not preserved any longer: {why}"))
    if not steps:
        return None
    return Plan(tuple(steps), wake=timedelta(0), because=f"its preservation ends: {why}")


def _for_its_set(seen: Seen, expiry: datetime) -> bool:
    """A Failed machine's past expiry stays on record: its set learns by it not to keep the machine anew."""
    over = seen.phase is Phase.FAILED and expiry <= seen.today
    return over and seen.machine.metadata.controller is not None


def _why_it_ends(seen: Seen, found: Verdict) -> str:
    expiry = seen.machine.status.current_status.preserve_expiry_time
    if expiry is not None and expiry <= seen.today:
        return "its time is over"
    if found.wish in (Preserve.WHEN_FAILED, Preserve.AUTO):
        return f"it has not failed, it is {seen.phase.value or 'new'}"
    return "it is not asked for any more"


def _noting(seen: Seen, found: Verdict) -> Plan | None:
    steps = _notes(seen, found)
    return Plan(steps, wake=timedelta(0), because="its node says whether to preserve it") if steps else None


def _notes(seen: Seen, found: Verdict) -> tuple[Step, ...]:
    """The machine's own annotations: where the node decides, they only remember what it said last."""
    have = seen.machine.metadata.annotations
    said = seen.node.metadata.annotations.get(names.PRESERVE_ANNOTATION) if seen.node is not None else None
    wanted: dict[str, str | None] = {}
    if found.drop:
        wanted = {names.PRESERVE_ANNOTATION: None, names.LAST_APPLIED_PRESERVE_ANNOTATION: None}
    elif found.by_node:
        wanted = {names.PRESERVE_ANNOTATION: None, names.LAST_APPLIED_PRESERVE_ANNOTATION: said or None}
    edits: dict[str, Any] = {key: value for key, value in wanted.items() if have.get(key) != value}
    return (Annotate({"annotations": edits}),) if edits else ()


def _wish(seen: Seen) -> tuple[Preserve | None, bool]:
    """What is asked for, and whether the node asks. A node that says nothing leaves it to the machine, unless
    it has said something before: then that was taken back."""
    notes = seen.machine.metadata.annotations
    own = wish_of(notes.get(names.PRESERVE_ANNOTATION, ""))
    if seen.node is None:
        return own, False
    said = seen.node.metadata.annotations.get(names.PRESERVE_ANNOTATION, "")
    if not said and not notes.get(names.LAST_APPLIED_PRESERVE_ANNOTATION):
        return own, False
    theirs = wish_of(said)
    if said and theirs is None:
        return _as_before(seen, own), False
    return theirs, True


def _as_before(seen: Seen, own: Preserve | None) -> Preserve | None:
    """The node's annotation cannot be read: what goes on, goes on to its end; else the machine's counts."""
    expiry = seen.machine.status.current_status.preserve_expiry_time
    return Preserve.NOW if expiry is not None and own is None else own


def _said(node: Node) -> NodeCondition:
    """The node's condition ``Preserved``; an empty one when it has none."""
    conditions = (item for item in node.status.conditions if item.type == NodeConditionType.PRESERVED)
    return next(conditions, NodeCondition())
