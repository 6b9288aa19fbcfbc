"""What sets and deployments know about one machine, and whose it is.

Theory.      Most of what happens to a machine (an address, a heartbeat, a description) means
             nothing to its set. So each version of a machine is read once into a ``Member`` of
             some fifteen facts; listeners are told only when a fact has changed, and a pass over
             five hundred machines decodes none of them. The machines of each owner stand in the
             order of their names, so a change costs the same for ten machines and for ten thousand.
             How long a machine has been ready is counted from when we saw it become so (``base.witness``).
Invariants.  The census never answers older facts than the cache has told. A machine that its type
             cannot read is still counted: not counting it would make another one.
Called by    ``observe`` and ``reconciler`` of sets and deployments.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

import msgspec
from msgspec import structs

from kubewright.api.kinds import Undecodable
from kubewright.api.machine import names
from kubewright.api.machine.names import NodeConditionType, OperationState, Phase
from kubewright.api.machine.preserve import Preserve, parse_preserve
from kubewright.api.machine.v1alpha1 import ClassSpec, Machine, MachineSpec, MachineSummary
from kubewright.base.clock import SteadyClock, parse_rfc3339
from kubewright.base.witness import Witness
from kubewright.kube.changes import Change
from kubewright.kube.header import Header
from kubewright.kube.informer import Informer
from kubewright.machines.machineset.naming import proven
from kubewright.machines.machineset.roll import Roll
from kubewright.wire.gvk import Key

STAGE = {
    Phase.TERMINATING: 0,
    Phase.FAILED: 1,
    Phase.CRASH_LOOP_BACK_OFF: 2,
    Phase.UNKNOWN: 3,
    Phase.PENDING: 4,
    Phase.AVAILABLE: 5,
    Phase.RUNNING: 6,
}
"""The phase's place in the order of death; phases that are not listed rank 0 (mcm.md §6.5)."""

UP = (Phase.RUNNING, Phase.AVAILABLE)

LOOK_SECONDS = 30e-6
"""For each machine of a set, how long news of one of them wait for more: a look reads them all, in some
5 µs each, so that the looks of a large set would else take all the time there is."""

FEW = 250
"""So many machines are looked at in no time."""

WITHOUT_OWNER = "without-owner"
"""Index of machines: namespace of those that nobody controls."""

BEGIN_SECONDS = 600.0
"""How long a Failed machine may be wanted without an expiry."""
_DIGEST_BYTES = 16


@dataclass(frozen=True, slots=True)
class Member:
    """One machine, as far as replicas are concerned.

    ``configured`` is a digest of what sets push down to living machines; ``own_timeout`` says that
    an annotation gives the machine a creation timeout of its own. ``since`` is when it became ready, on
    the census' clock; None while it is not. ``trouble`` is its line in ``status.failedMachines``; ``number``,
    which of its set's machines it is (0: not one that we named).
    """

    key: Key
    uid: str
    owner_uid: str
    labels: Mapping[str, str]
    deleting: bool
    created: float = 0.0
    phase: Phase = Phase.NONE
    since: float | None = None
    priority: int = names.DEFAULT_PRIORITY
    marked_at: float | None = None
    preserved_until: float | None = None
    auto_preserved: bool = False
    preserving: bool = False
    asked: bool = False
    failed: float | None = None
    configured: bytes = b""
    own_timeout: bool = False
    trouble: MachineSummary | None = None
    number: int = 0
    version: str = field(default="", compare=False)

    @property
    def name(self) -> str:
        return self.key.name

    @property
    def stage(self) -> int:
        return STAGE.get(self.phase, 0)

    @property
    def alive(self) -> bool:
        """Not on its way out: those that are do not count as replicas (mcm.md §6.4)."""
        return not self.deleting and self.phase is not Phase.TERMINATING

    @property
    def ready(self) -> bool:
        return self.phase is Phase.RUNNING

    @property
    def up(self) -> bool:
        """Alive, and all that it should be; without a node that is as much as its VM can say."""
        return self.alive and self.phase in UP

    def available_at(self, now: float, min_ready: float) -> bool:
        """Up, and for as long as its set asks for; one that is going away is not."""
        if not self.up:
            return False
        return min_ready <= 0 or (self.since is not None and self.since + min_ready <= now)

    def kept_at(self, now: float) -> bool:
        """A Failed machine that a user wants to look at (mcm.md §6.6). The machine controller gives it an
        expiry at once; without one the annotation alone does not keep it for ever."""
        if self.preserved_until is not None:
            return self.preserved_until > now
        return self.preserving and (self.failed is None or self.failed + BEGIN_SECONDS > now)


Listener = Callable[[Member | None, Member | None], None]
"""Told of a machine's facts before and after; None for a machine that was not there, or is gone."""


class Census:
    """The members of all machines in a cache, each read once per version."""

    def __init__(self, machines: Informer[Machine], clock: SteadyClock) -> None:
        self.clock = clock
        self._machines = machines
        self._witness = Witness(self.clock)
        self._read: dict[Key, Member] = {}
        self._rolls: dict[str, Roll[Member]] = {}
        self._listeners: list[Listener] = []
        self._doubts: dict[str, Mapping[str, float]] = {}
        self._last: dict[str, int] = {}
        machines.index(WITHOUT_OWNER, lambda m: () if m.metadata.controller else (m.metadata.namespace,))
        machines.subscribe(self._changed)

    def time(self) -> float:
        """Now, in seconds since the epoch, on the clock that ages are measured with: it does not step."""
        return self.clock.now().timestamp()

    def listen(self, listener: Listener) -> None:
        """Tell ``listener`` whenever a fact about a machine changes."""
        self._listeners.append(listener)

    def owned_by(self, uid: str) -> tuple[Member, ...]:
        """The machines that the object of this uid controls, in the order of their names."""
        roll = self._rolls.get(uid)
        return tuple(roll.line) if roll is not None else ()

    def without_owner(self, namespace: str) -> list[Member]:
        """The machines that nobody controls, in the order of their names."""
        keys = self._machines.keys_by(WITHOUT_OWNER, namespace)
        return [self._read[key] for key in sorted(keys, key=lambda key: key.name)]

    def patience(self, least: float, *owners: str) -> float:
        """How long to gather more news before all machines of these owners are looked at, in seconds."""
        rolls = (self._rolls.get(uid) for uid in owners)
        machines = max((len(roll.line) for roll in rolls if roll), default=0)
        return max(least, LOOK_SECONDS * machines) if machines > FEW else least

    def seen(self, uid: str, names: Iterable[str]) -> list[str]:
        """Those of ``names`` that machines of this owner have."""
        roll = self._rolls.get(uid)
        return [name for name in names if roll.has(name)] if roll is not None else []

    def doubt(self, uid: str, names: Mapping[str, float]) -> None:
        """The set of this uid keeps here the names of machines that it may have made: nobody answered."""
        self._doubts[uid] = names

    def trust(self, uid: str) -> None:
        """The set of this uid is gone, and its doubts with it."""
        self._doubts.pop(uid, None)
        self._last.pop(uid, None)

    def last_number(self, uid: str) -> int:
        """The highest number of any machine of this set that was ever seen here."""
        return self._last.get(uid, 0)

    def doubted(self, uid: str) -> int:
        """How many machines of a set may exist that nobody has seen yet."""
        doubts = self._doubts.get(uid, {})
        return len(doubts) - len(self.seen(uid, doubts))

    def _changed(self, change: Change[Machine]) -> None:
        before = self._read.get(change.key)
        after = self._fresh(change.new) if change.new is not None else None
        self._enrol(before, after)
        if before != after:
            for listener in self._listeners:
                listener(before, after)

    def _enrol(self, before: Member | None, after: Member | None) -> None:
        """Note the newest version of a member, under its name and under its owner's."""
        if before is not None and (after is None or after.owner_uid != before.owner_uid):
            self._strike(before)
        if before is not None and (after is None or after.uid != before.uid):
            self._witness.forget(before.uid)
        if after is None:
            if before is not None:
                del self._read[before.key]
            return
        self._read[after.key] = after
        if after.owner_uid:
            self._rolls.setdefault(after.owner_uid, Roll[Member]()).put(after)
            self._last[after.owner_uid] = max(after.number, self.last_number(after.owner_uid))

    def _strike(self, member: Member) -> None:
        if member.owner_uid:
            roll = self._rolls[member.owner_uid]
            roll.drop(member)
            if not roll.line:
                del self._rolls[member.owner_uid]

    def _fresh(self, header: Header) -> Member:
        try:
            machine = self._machines.get(header.key)
        except Undecodable:
            machine = None
        if machine is None or machine.metadata.uid != header.uid:
            return Member(header.key, header.uid, header.owner_uid, header.labels, header.deleting)
        member = member_of(machine, header.labels)
        since = self._witness.since(member.uid, member.since)
        return member if since == member.since else replace(member, since=since)


def member_of(machine: Machine, labels: Mapping[str, str] | None = None) -> Member:
    """The facts of one machine."""
    meta, current = machine.metadata, machine.status.current_status
    notes = meta.annotations
    controller = meta.controller
    value = parse_preserve(notes.get(names.PRESERVE_ANNOTATION, ""))
    own_timeout = names.creation_timeout_override(notes) is not None
    return Member(
        key=Key(meta.namespace, meta.name),
        uid=meta.uid,
        owner_uid=controller.uid if controller else "",
        labels=meta.labels if labels is None else labels,
        deleting=meta.deleting,
        created=stamp(meta.creation_timestamp) or 0.0,
        phase=_phase(current.phase),
        since=_ready_since(machine),
        priority=names.priority(notes),
        marked_at=moment(notes, names.MARKED_FOR_DELETION_TIME_ANNOTATION),
        preserved_until=stamp(current.preserve_expiry_time),
        auto_preserved=value is Preserve.AUTO,
        preserving=value not in (None, Preserve.FALSE),
        asked=value is not None or bool(notes.get(names.LAST_APPLIED_PRESERVE_ANNOTATION)),
        failed=stamp(current.last_update_time) if current.phase == Phase.FAILED else None,
        configured=digest(machine.spec, own_timeout=own_timeout),
        own_timeout=own_timeout,
        trouble=_trouble(machine),
        number=proven(controller.uid if controller else "", meta.name, names.number(notes)),
        version=meta.resource_version,
    )


def digest(spec: MachineSpec, *, own_timeout: bool) -> bytes:
    """What sets push down of a spec, as a digest: node template, configuration and the class's kind.

    Equal values give equal digests, whatever the order of labels. A creation timeout that a
    machine has of its own is left out, or the two would be written back and forth.
    """
    pushed = structs.replace(
        spec,
        provider_id="",
        machine_class=ClassSpec(kind=spec.machine_class.kind),
        creation_timeout=None if own_timeout else spec.creation_timeout,
    )
    encoded = msgspec.json.encode(pushed, order="deterministic")
    return hashlib.blake2b(encoded, digest_size=_DIGEST_BYTES).digest()


def moment(annotations: Mapping[str, str], key: str) -> float | None:
    """An RFC 3339 annotation in seconds since the epoch; None when absent or unreadable."""
    try:
        return parse_rfc3339(annotations[key]).timestamp()
    except (KeyError, ValueError):
        return None


def stamp(value: datetime | None) -> float | None:
    """Seconds since the epoch."""
    return value.timestamp() if value is not None else None


def _phase(text: str) -> Phase:
    try:
        return Phase(text)
    except ValueError:
        return Phase.NONE


def _ready_since(machine: Machine) -> float | None:
    """Since when the node is Ready; without a node, since the phase last changed, or the machine is there.

    None while the machine is not up: one that comes back has to prove itself again.
    """
    if machine.status.current_status.phase not in UP:
        return None
    for condition in machine.status.conditions:
        is_ready = condition.type == NodeConditionType.READY and condition.status == "True"
        if is_ready and (since := stamp(condition.last_transition_time)) is not None:
            return since
    changed = machine.status.current_status.last_update_time
    return stamp(changed or machine.metadata.creation_timestamp)


def _trouble(machine: Machine) -> MachineSummary | None:
    """The line in ``failedMachines``; machines that are preserved as Failed are left out (mcm.md §1.4)."""
    current = machine.status.current_status
    operation = machine.status.last_operation
    if operation.state != OperationState.FAILED:
        return None
    if current.phase == Phase.FAILED and current.preserve_expiry_time is not None:
        return None
    owner = machine.metadata.controller
    return MachineSummary(
        name=machine.metadata.name,
        provider_id=machine.spec.provider_id,
        last_operation=operation,
        owner_ref=owner.name if owner else "",
    )
