"""The story of one object: its state, what it waits for, who decided what, what comes next. Pure.

Theory.      A story repeats what is known: the object's own status and conditions, the records of the
             manager's last passes, the plans of a dry run, events. The only conclusion that is drawn here is
             which of these say that the object waits for something (``Story.waits_for``).
Invariants.  A field that an object lacks is empty. No content of a Secret is in a story, nor of a spec.
Called by    ``command``, which prints it as ``lines`` or, with ``-o json``, as JSON.
"""

import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec

from kubewright.api.cluster import names as cluster_names
from kubewright.api.controlplane import names as controlplane_names
from kubewright.api.core import NODE, Event, NodeCondition
from kubewright.api.infra import names as infra_names
from kubewright.api.machine import names as machine_names
from kubewright.api.machine.names import Phase
from kubewright.api.machine.v1alpha1 import GROUP as MACHINE_GROUP
from kubewright.api.meta import Value
from kubewright.base.clock import parse_rfc3339, rfc3339
from kubewright.base.durations import human
from kubewright.cli.cluster import tree
from kubewright.cli.cluster.tree import BAD, GOOD, PLAIN, WAITING
from kubewright.cli.counts import part, ready_of_wanted, wanted_replicas
from kubewright.cli.explain.subjects import Subject
from kubewright.driver.answers import without_console
from kubewright.nodes.health import judge
from kubewright.runtime.records import Acted, Pass, Waited

JsonObject = Mapping[str, Any]

MANAGER, OBJECTS = "manager", "objects"
"""Where a decision is from: a manager's record, or a dry run of this command on the objects."""

SHOWN_GROUPS, SHOWN_EVENTS = 5, 8
"""How many groups of machines that are not Running are told of a set, and how many events are shown."""

FOREGROUND = "foregroundDeletion"
OWN_FINALIZERS = frozenset({
    machine_names.FINALIZER, machine_names.SECRET_FINALIZER, machine_names.NODE_FINALIZER,
    controlplane_names.FINALIZER, cluster_names.CLUSTER_FINALIZER, cluster_names.MACHINE_FINALIZER,
    cluster_names.MACHINE_SET_FINALIZER, cluster_names.MACHINE_DEPLOYMENT_FINALIZER,
    infra_names.CLUSTER_FINALIZER, infra_names.MACHINE_FINALIZER, infra_names.SECRET_FINALIZER,
})  # fmt: skip
"""What our controllers put on objects, and take off."""

WELL = ("Running", "Available")
STATE_CHARS = 300
BAD_WHILE_TRUE = ("ReplicaFailure", "Frozen")
"""Conditions of sets and deployments of ``machine.sapcloud.io`` that are bad while they are True."""


class Decision(Value, frozen=True, kw_only=True):
    """What one controller decided last.

    ``source``   ``manager`` or ``objects``; ``at``: when, ``why``: what made it look
    ``because``  its reason, ``since`` when it gives this one; ``steps`` what it did
    ``error``    why its pass failed; empty if it did not
    ``waits``    what its plan waits for, since when, and what a user can do
    ``next``     when it looks again at the latest, and why; None: on a change
    ``acted``    the last pass with steps
    """

    by: str
    source: str
    because: str = ""
    steps: tuple[str, ...] = ()
    since: datetime | None = None
    at: datetime | None = None
    why: str = ""
    error: str = ""
    waits: tuple[Waited, ...] = ()
    next: datetime | None = None
    next_because: str = ""
    acted: Acted | None = None


class Expected(Value, frozen=True, kw_only=True):
    """What comes next, and when at the latest; None: with a change that no clock brings."""

    what: str
    at: datetime | None = None


class Happened(Value, frozen=True, kw_only=True):
    """An event, as kubectl shows it."""

    reason: str
    message: str
    at: datetime | None = None
    type: str = ""
    count: int = 1


class Story(Value, frozen=True, kw_only=True):
    """All that is told of one object.

    ``state``       its phase, or what its condition Ready says; ``since`` when it is so
    ``says``        the message of its own status: of the last operation, or of condition Ready
    ``console``     the end of what its VM wrote to its console, where its status has that
    ``waits_for``   a clause for each thing that is not as it should be
    ``driver``      of a machine: which driver makes its VM, and whether it is there, where a manager says it
    ``belongs_to``  its owners, and the Node or the machine that goes with it
    ``notes``       what the driver says of the VM, what could not be read or asked, and where the decisions
                    are from
    """

    kind: str
    namespace: str = ""
    name: str
    state: str = ""
    since: datetime | None = None
    says: str = ""
    console: tuple[str, ...] = ()
    waits_for: tuple[str, ...] = ()
    decisions: tuple[Decision, ...] = ()
    next: tuple[Expected, ...] = ()
    driver: str = ""
    belongs_to: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    events: tuple[Happened, ...] = ()


@dataclass(frozen=True, slots=True)
class Facts:
    """What was read of one object.

    ``passes``    the manager's records of the controllers that work on it
    ``decided``   decisions of a dry run; ``expected``: what that run says comes next
    ``members``   the machines of a set or a deployment
    ``driver``    as of ``Story``
    ``notes``     what could not be read or asked
    """

    subject: Subject
    found: JsonObject
    passes: Sequence[Pass] = ()
    decided: Sequence[Decision] = ()
    expected: Sequence[Expected] = ()
    members: Sequence[JsonObject] = ()
    driver: str = ""
    notes: Sequence[str] = ()
    events: Sequence[Event] = ()


def tell(facts: Facts) -> Story:
    """The story of one object."""
    meta = part(facts.found, "metadata")
    state, since, told = state_of(facts.subject, facts.found)
    decisions = (*map(of_pass, facts.passes), *facts.decided)
    says, *waits_for = (without_console(each) for each in (told, *_waits_for(facts, state, decisions)))
    return Story(
        kind=facts.subject.word,
        namespace=meta.get("namespace", ""),
        name=meta["name"],
        state=state,
        since=since,
        says=says[0],
        console=next((each[1] for each in (says, *waits_for) if each[1]), ()),
        waits_for=tuple(dict.fromkeys(each[0] for each in waits_for)) or _awaited_size(facts, decisions),
        decisions=decisions,
        next=tuple(_next(facts, decisions)),
        driver=facts.driver,
        belongs_to=tuple(dict.fromkeys(_owners(meta))),
        notes=(*_of_driver(facts.found), *facts.notes),
        events=tuple(happened(facts.events)),
    )


def _of_driver(found: JsonObject) -> Iterator[str]:
    """What the driver has left in the status of a machine: that its VM is off, or was booted beforehand."""
    state = part(found, "status").get("lastKnownState")
    if isinstance(state, str) and state:
        yield f"its driver says of the VM: {state[:STATE_CHARS]}"


def of_pass(found: Pass) -> Decision:
    """A manager's record as a decision."""
    return Decision(
        by=found.controller,
        source=MANAGER,
        because=found.because,
        steps=found.steps,
        since=found.since,
        at=found.at,
        why=found.why,
        error=found.error,
        waits=found.waits,
        next=found.next,
        next_because=found.next_because,
        acted=found.acted,
    )


def happened(events: Iterable[Event]) -> list[Happened]:
    """The last events, oldest first."""
    told = [
        Happened(
            reason=each.reason,
            message=each.message,
            at=each.last_timestamp or each.metadata.creation_timestamp,
            type=each.type,
            count=max(1, each.count),
        )
        for each in events
    ]
    return sorted(told, key=lambda each: each.at.timestamp() if each.at is not None else 0.0)[-SHOWN_EVENTS:]


def state_of(subject: Subject, found: JsonObject) -> tuple[str, datetime | None, str]:
    """In which state an object is, since when, and what its status says of it."""
    meta, status = part(found, "metadata"), part(found, "status")
    if is_machine(subject):
        current, last = part(status, "currentStatus"), part(status, "lastOperation")
        state = current.get("phase") or Phase.PENDING.value
        since = _time(current.get("lastUpdateTime")) or _time(meta.get("creationTimestamp"))
        if meta.get("deletionTimestamp") and state != Phase.TERMINATING:
            state, since = Phase.TERMINATING.value, _time(meta.get("deletionTimestamp"))
        return state, since, (last.get("description") or "").strip()
    if deleted := meta.get("deletionTimestamp"):
        return "Deleting", _time(deleted), ""
    ready = next((each for each in _conditions(found) if each.get("type") == "Ready"), {})
    counts, since = ready_of_wanted(found), _time(ready.get("lastTransitionTime"))
    word = "Ready" if ready.get("status") == "True" else "NotReady" if ready else ""
    return "; ".join(filter(None, (status.get("phase") or word, counts))), since, ready.get("message") or ""


def is_machine(subject: Subject) -> bool:
    """Whether it is a Machine of ``machine.sapcloud.io``."""
    resource = subject.kind.resource
    return (resource.group, resource.kind) == (MACHINE_GROUP, "Machine")


def _has_wrong_size(found: JsonObject) -> bool:
    """Whether the numbers of replicas that exist and that are ready are not both the wanted one."""
    wanted, status = wanted_replicas(found), part(found, "status")
    there = status.get("readyReplicas") or 0, status.get("replicas") or 0
    return wanted is not None and there != (wanted, wanted)


def _waits_for(facts: Facts, state: str, decisions: Sequence[Decision]) -> Iterator[str]:
    yield from _finalizers(facts.found)
    if is_machine(facts.subject):
        if state not in WELL:
            said = state_of(facts.subject, facts.found)[2]
            yield next((each.because for each in decisions if each.because), said or f"it is {state}")
    else:
        yield from _wrong(facts)
    yield from (each.error for each in decisions if each.error)
    yield from _members([each for each in facts.members if _phase(each) not in WELL])


def _members(waiting: Sequence[JsonObject]) -> Iterator[str]:
    """A clause for the machines that are not Running; those that say the same share one."""
    alike: dict[tuple[str, str], list[str]] = {}
    for each in waiting:
        description = part(part(each, "status"), "lastOperation").get("description") or ""
        last = without_console(description.strip())[0]
        alike.setdefault((_phase(each), last), []).append(part(each, "metadata").get("name", ""))
    groups = list(alike.items())
    for (phase, last), names in groups[:SHOWN_GROUPS]:
        said = f": {last}" if last else ""
        are = f"machine {names[0]} is" if len(names) == 1 else f"machines {tree.some(names)} are"
        yield f"{are} {phase}{said}"
    if rest := sum(len(names) for _, names in groups[SHOWN_GROUPS:]):
        yield f"{rest} more machines are not Running"


def _finalizers(found: JsonObject) -> Iterator[str]:
    """A clause for what others than our controllers have to do before a deleted object is gone."""
    meta = part(found, "metadata")
    listed = meta.get("finalizers") if meta.get("deletionTimestamp") else None
    others = [str(each) for each in listed if each not in OWN_FINALIZERS] if isinstance(listed, list) else []
    if FOREGROUND in others:
        yield f"the objects that it owns are deleted first ({FOREGROUND})"
    if foreign := [each for each in others if each != FOREGROUND]:
        yield (
            f"finalizer {', '.join(foreign)}: another program put it there and has to take it off; if that "
            "program is gone for good, take it off with kubectl edit"
        )


def _awaited_size(facts: Facts, decisions: Sequence[Decision]) -> tuple[str, ...]:
    """What a set or deployment of the wrong size waits for: the reason of a decision, else its counts."""
    if not _has_wrong_size(facts.found):
        return ()
    return (next((each.because for each in decisions if each.because), "") or ready_of_wanted(facts.found),)


def _wrong(facts: Facts) -> Iterator[str]:
    """A clause for each thing in spec or conditions that is wrong, by the rules of the object's kind."""
    listed = _conditions(facts.found)
    if part(facts.found, "spec").get("paused"):
        yield "it is paused (spec.paused)"
    if facts.subject.kind == NODE:
        health = judge([msgspec.convert(each, NodeCondition) for each in listed], _pressures(listed))
        if not health.healthy:
            yield health.because
        if part(facts.found, "spec").get("unschedulable"):
            yield "it is cordoned: no new Pods are placed on it"
    elif facts.subject.kind.resource.group == MACHINE_GROUP:
        for each in listed:
            if (each.get("status") == "True") == (each.get("type") in BAD_WHILE_TRUE):
                yield f"{each.get('type')}: {each.get('message') or each.get('reason') or each.get('status')}"
    else:
        yield from tree.node({**facts.found, "kind": facts.subject.kind.resource.kind}).waits_for


def _pressures(conditions: Iterable[JsonObject]) -> list[str]:
    """The types of a node's conditions that are bad while they are True: all but Ready."""
    return [each.get("type", "") for each in conditions if each.get("type") != "Ready"]


def _next(facts: Facts, decisions: Iterable[Decision]) -> Iterator[Expected]:
    """What comes next: what the dry run expects, then the next pass of each controller at another time."""
    yield from facts.expected
    foreseen = [each.at for each in facts.expected if each.at is not None]
    for each in decisions:
        if each.next is None or any(abs((at - each.next).total_seconds()) < 1 for at in foreseen):
            continue
        yield Expected(what=f"{each.by} looks again: {each.next_because}", at=each.next)


def _owners(meta: JsonObject) -> Iterator[str]:
    for each in meta.get("ownerReferences") or ():
        yield f"{str(each.get('kind', '')).lower()} {each.get('name', '')}"


def _phase(machine: JsonObject) -> str:
    status = part(machine, "status")
    if part(machine, "metadata").get("deletionTimestamp"):
        return Phase.TERMINATING.value
    return status.get("phase") or part(status, "currentStatus").get("phase") or Phase.PENDING.value


def _conditions(found: JsonObject) -> list[JsonObject]:
    listed = part(found, "status").get("conditions")
    return [each for each in listed if isinstance(each, Mapping)] if isinstance(listed, list) else []


def _time(text: Any) -> datetime | None:
    try:
        return parse_rfc3339(text) if isinstance(text, str) and text else None
    except ValueError:
        return None


WIDTH = 12
"""Columns of the words on the left."""

ABOVE = "as said above"
SHORT = 40

AGE = 10
"""Columns of the age of an event."""

LEAST_ROOM = 20
"""Columns that a sentence has at least, however narrow the terminal is."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line and its colour. ``hang``: the indent of its further rows on a narrow terminal."""

    text: str
    colour: str = PLAIN
    hang: int = 0

    def wrapped(self, width: int) -> str:
        """The line in as many rows as it needs; no word is broken."""
        room = max(width, self.hang + LEAST_ROOM)
        return textwrap.fill(
            self.text, room, subsequent_indent=" " * self.hang, break_long_words=False, break_on_hyphens=False
        )


def lines(story: Story, now: datetime) -> Iterator[Line]:
    """All lines of a story."""
    where = f" in namespace {story.namespace}" if story.namespace else ""
    yield Line(f"{story.kind}/{story.name}{where}", "bold")
    yield from _paragraph("state", [_state(story, now)], _colour(story))
    yield from _paragraph("console", story.console)
    yield from _paragraph("waits for", [_once(each, [story.says]) for each in story.waits_for], WAITING)
    above = sorted({story.says, *story.waits_for}, key=len, reverse=True)
    yield from _paragraph("decided", [each for one in story.decisions for each in _decision(one, now, above)])
    yield from _paragraph("next", [_once(_expected(each, now), above) for each in story.next])
    yield from _paragraph("driver", [_once(story.driver, above)] if story.driver else [])
    yield from _paragraph("belongs to", [", ".join(story.belongs_to)] if story.belongs_to else [])
    for each in story.events:
        colour = WAITING if each.type == "Warning" else PLAIN
        word = "events" if each is story.events[0] else ""
        yield from _paragraph(word, [_event(each, now, story.says)], colour, AGE)
    yield from _paragraph("note", story.notes)


def _once(text: str, above: Sequence[str]) -> str:
    """A text without the sentences in it that stand ``above``, the longer ones first."""
    for sentence in above:
        if len(sentence) > SHORT:
            text = text.replace(sentence, ABOVE)
    return text


def _paragraph(word: str, texts: Sequence[str], colour: str = PLAIN, hang: int = 2) -> Iterator[Line]:
    for number, text in enumerate(texts):
        indent = len(text) - len(text.lstrip())
        yield Line(f"  {(word if number == 0 else ''):<{WIDTH}}{text}", colour, WIDTH + 2 + indent + hang)


def _state(story: Story, now: datetime) -> str:
    since = f" since {rfc3339(story.since)} ({human(now - story.since)})" if story.since else ""
    said = f": {story.says}" if story.says else ""
    return f"{story.state or 'it says nothing of its state'}{since}{said}"


def _decision(each: Decision, now: datetime, above: Sequence[str]) -> Iterator[str]:
    by = f"{each.by}, by what this server shows" if each.source == OBJECTS else each.by
    since = f" (for {human(now - each.since)})" if each.since is not None else ""
    because = _once(each.because, above) or "there is nothing to do"
    yield f"{by}: {because}{since}{_steps(each.steps)}"
    if each.at is not None:
        why = f", because {each.why}" if each.why else ""
        yield f"  it looked {human(now - each.at)} ago{why}"
    for wait in each.waits:
        remedy = f"; {_once(wait.remedy, above)}" if wait.remedy else ""
        yield f"  it waits for {wait.what}, for {human(now - wait.since)}{remedy}"
    if each.error:
        yield f"  that failed: {_once(each.error, above)}"
    if each.acted is not None and each.acted.at != each.at:
        acted = each.acted
        because = _once(acted.because, above)
        yield f"  it acted last {human(now - acted.at)} ago: {because}{_steps(acted.steps)}"


def _steps(steps: Sequence[str]) -> str:
    return f" [{', '.join(steps)}]" if steps else ""


def _expected(each: Expected, now: datetime) -> str:
    if each.at is None:
        return each.what
    left = each.at - now
    when = f"in {human(left)}" if left.total_seconds() > 0 else "now"
    return f"at {rfc3339(each.at)} ({when}) at the latest: {each.what}"


def _event(each: Happened, now: datetime, says: str) -> str:
    age = f"{human(now - each.at)} ago" if each.at is not None else ""
    times = f" ({each.count} times)" if each.count > 1 else ""
    message = ABOVE if len(each.message) > SHORT and each.message in says else each.message
    return f"{age:<{AGE}}{each.reason}: {message}{times}"


def _colour(story: Story) -> str:
    if story.state == "Failed":
        return BAD
    well = story.state in (*WELL, "Ready") or not story.waits_for
    return GOOD if well and not story.waits_for else WAITING
