"""What a process remembers of machines between passes. Losing it costs time, never safety.

Theory.      A creation time-out counts from a time that the server wrote, a drain's from another, the
             health time-out from one that some manager wrote. Compared with our wall clock they would be
             wrong once that clock is set: a step of an hour would fail every machine that is being
             made and end every drain. But this process sees most of what matters begin: a machine is
             created, is deleted, becomes unhealthy. It notes the moment on its own monotonic clock
             (``base.clock``); of what began before its start it has only the dates.
             An error without a refusal is mostly over in a moment, and the runtime repeats the pass. While
             the nodes' server does not answer at all, no pass of a deletion comes to its end. The status has
             to say what the deletion waits for, and it has to end once it is forced or its time has run out:
             so the machine's controller must know that the silence lasts. The success of a request ends only
             the silence about its own kind: a server whose disk is full shows pods and accepts no write.
Invariants.  What is known here is knowledge of this process, on its ``SteadyClock``; it is written nowhere.
             All is kept by uid and goes with the machine; but for which machines are being replaced, kept by
             name for one pass: a name has one pass at a time, and its end takes the name off.
Called by    ``look`` and ``act`` (ask, and note what came of requests), ``wiring`` (tells of changes);
             ``machines.orphans`` (``NodeStates``).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum

from msgspec import structs

from kubewright.api.conditions import condition_of
from kubewright.api.core import Node, NodeCondition
from kubewright.api.machine.names import NodeConditionType
from kubewright.api.machine.v1alpha1 import Machine, MachineStatus
from kubewright.base.clock import SteadyClock
from kubewright.base.errors import KubewrightError
from kubewright.base.witness import Witness
from kubewright.kube.errors import TransportError
from kubewright.kube.informer import Change, Informer
from kubewright.machines.machine.seen import Begun, Refused, Step, reported
from kubewright.machines.settings import HEALTHY
from kubewright.nodes.drain.session import DrainSession
from kubewright.wire.errors import ApiError, is_refusal, is_stale
from kubewright.wire.gvk import Key


@dataclass(slots=True)
class Notes:
    """What a process remembers of one machine between passes; losing it costs time, never safety."""

    drain: DrainSession = field(default_factory=DrainSession)
    before: MachineStatus | None = None
    """The status of a machine in deletion when this process first saw it so."""
    topics: frozenset[str] = frozenset()
    """The topics of warnings that events have named already."""
    vm_checked_before_deletion: str | None = None
    """The provider id of the VM whose node a live read, before the VM was deleted, did not find."""
    vm_checked_after_deletion: str | None = None
    """That of the VM whose node we deleted, or did not find by a live read after the VM was deleted."""


class NodeStates:
    """Since when the conditions of nodes that let a drain use force (Ready, ReadonlyFilesystem) are as they
    are, each by itself. ``now`` reads a ``SteadyClock``."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._witness = Witness(now)

    def since(self, key: str, node: Node | None) -> Mapping[str, datetime]:
        """When this process saw conditions of the node of ``key`` change, by their types; of those that are
        missing it did not, so their dates count."""
        seen: dict[str, datetime] = {}
        for kind in HEALTHY:
            found = condition_of(node.status.conditions, kind) if node else None
            status, dated = (found.status, found.last_transition_time) if found else ("", None)
            if (began := self._witness.began(f"{key}/{kind}", status, dated)) is not None:
                seen[kind] = began
        return seen

    def forget(self, key: str) -> None:
        """It is gone for good."""
        for kind in HEALTHY:
            self._witness.forget(f"{key}/{kind}")


def as_seen(node: Node, since: Mapping[str, datetime]) -> tuple[NodeCondition, ...]:
    """A node's conditions, dated by our clock where this process saw them change (``NodeStates.since``)."""
    return tuple(
        structs.replace(each, last_transition_time=since.get(each.type, each.last_transition_time))
        for each in node.status.conditions
    )


class Moments:
    """What this process saw begin, by uid; losing it costs nothing but the protection."""

    def __init__(self, clock: SteadyClock) -> None:
        self.now = clock.now
        self.monotonic = clock.monotonic
        self._created: dict[str, datetime] = {}
        self._deleted: dict[str, datetime] = {}
        self._phases = Witness(clock.now)
        self._nodes = NodeStates(clock.now)
        self._updates = Witness(clock.now)
        self._boots = Witness(clock.now)

    def of(self, machine: Machine, node: Node | None) -> Begun:
        """The moments of one machine; notes its phase, and the state of its node, as they are now."""
        uid, phase = machine.metadata.uid, machine.status.current_status.phase
        created, last = self._created.get(uid), machine.status.last_operation
        phase_since = self._phases.began(uid, phase, reported(machine) if created is None else None)
        told = condition_of(node.status.conditions, NodeConditionType.IN_PLACE_UPDATE) if node else None
        stage, dated = (told.reason, told.last_transition_time) if told else ("", None)
        return Begun(
            created=created,
            deleted=self._deleted.get(uid),
            phase_since=phase_since or created,
            node_since=self._nodes.since(uid, node),
            update_since=self._updates.began(uid, stage, dated),
            boot_since=self._boots.began(uid, last.state, last.last_update_time),
        )

    def forget(self, uid: str) -> None:
        """The machine is gone for good."""
        for known in (self._created, self._deleted):
            known.pop(uid, None)
        self._phases.forget(uid)
        self._nodes.forget(uid)
        self._updates.forget(uid)
        self._boots.forget(uid)

    def follow(self, machines: Informer[Machine]) -> None:
        """Note the changes of these machines. What is there already, or a first list shows, did not happen
        now."""
        replayed = True
        machines.subscribe(lambda change: self.on_change(change, live=machines.synced and not replayed))
        replayed = False

    def on_change(self, change: Change[Machine], *, live: bool) -> None:
        """A machine has changed. ``live``: it happened now."""
        old, new = change.old, change.new
        if new is None:
            self.forget(old.uid if old is not None else "")
        elif not live:
            return
        elif old is None or old.uid != new.uid:
            self._created[new.uid] = self.now()
        elif new.deleting and not old.deleting:
            self._deleted[new.uid] = self.now()


class Read(Enum):
    """What is read live of a machine's node. A server may show nodes and fail to list pods."""

    NODE = "node"
    PODS = "pods"


Request = type[Step] | Read
"""A kind of request: a step's, or one that reads."""

FORGOTTEN_AFTER = timedelta(minutes=5)
"""A failure that was not repeated for so long tells nothing of the server any more: a pass that fails is
repeated within two minutes."""


def is_unanswered(error: KubewrightError) -> bool:
    """Whether the server did not say what it thinks of the request: it is silent, broken or too busy, or it
    does not know us; or something that is no such server answers 404 (``NotFound.names``)."""
    if isinstance(error, ApiError):
        return not is_refusal(error) and not is_stale(error)
    return isinstance(error, TransportError)


class Unanswered:
    """First and last failure of each kind of request since its last success, by the machine's uid.

    ``now`` reads a ``SteadyClock``; after ``longest`` a silence lasts.
    """

    def __init__(self, now: Callable[[], datetime], longest: timedelta) -> None:
        self._now = now
        self._longest = longest
        self._failures: dict[str, dict[Request, tuple[datetime, datetime]]] = {}

    def note_failure(self, uid: str, request: Request) -> bool:
        """Note that a request has failed; return whether requests of its kind have failed for long.

        A failure of another kind tells nothing: a request that timed out may have been carried out, and is
        then never sent again.
        """
        now, known = self._now(), self._failures.get(uid, {})
        fresh = {kind: times for kind, times in known.items() if now - times[1] < FORGOTTEN_AFTER}
        fresh[request] = (fresh.get(request, (now, now))[0], now)
        self._failures[uid] = fresh
        return now - fresh[request][0] >= self._longest

    def note_success(self, uid: str, request: Request) -> None:
        """Note that a request of this kind has succeeded."""
        self._failures.get(uid, {}).pop(request, None)

    def forget(self, uid: str) -> None:
        """The machine is gone for good."""
        self._failures.pop(uid, None)


class Memory:
    """All that this process remembers of machines, but for calls of their drivers (``driver.life.calls``).
    After ``longest`` a silence of the nodes' API server lasts."""

    def __init__(self, moments: Moments, longest: timedelta) -> None:
        self.moments = moments
        self._of_deletions: dict[str, Notes] = {}
        self._of_lives: dict[str, Notes] = {}
        self._replacing: dict[Key, str] = {}
        self._claims: dict[str, Machine] = {}
        """The machine of each VM that the driver has told and that is not on record yet, by provider id."""
        self._refused: dict[str, tuple[Refused, ...]] = {}
        self._unanswered = Unanswered(moments.now, longest)

    @property
    def deletions(self) -> int:
        """Of how many machines in deletion this process has notes."""
        return len(self._of_deletions)

    def notes(self, machine: Machine, *, keep: bool) -> Notes:
        """The notes on a machine, to read and to write. A deletion has notes of its own; those of a machine
        that is not being deleted are forgotten, unless ``keep`` says otherwise."""
        uid = machine.metadata.uid
        if machine.metadata.deleting:
            return self._of_deletions.setdefault(uid, Notes())
        return self._of_lives.setdefault(uid, Notes()) if keep else self._of_lives.pop(uid, Notes())

    def before_deletion(self, uid: str) -> MachineStatus | None:
        """The status of a machine in deletion when this process first saw it so."""
        notes = self._of_deletions.get(uid)
        return notes.before if notes is not None else None

    def claimant(self, machine: Machine, vm: str) -> Machine | None:
        """Whose the VM is that the driver told of this machine: the machine that was first looked at with it;
        None: it is on record. A claim on any other VM ends."""
        if self._claims:
            self._claims = _without_claims(self._claims, machine.metadata.uid, but=vm)
        if vm == machine.spec.provider_id:
            self._claims.pop(vm, None)
            return None
        return self._claims.setdefault(vm, machine)

    def refuse(self, uid: str, refused: Refused) -> None:
        """Remember that an API server refused a step of a machine, or did not answer it for long."""
        others = (each for each in self._refused.get(uid, ()) if type(each.step) is not type(refused.step))
        self._refused[uid] = (*others, refused)

    def refused(self, uid: str, now: datetime) -> tuple[Refused, ...]:
        """What is not to be tried again yet."""
        found = self._refused.get(uid)
        return () if found is None else tuple(each for each in found if now < each.until)

    def note_failure(self, uid: str, request: Request) -> bool:
        """Note that a request about the machine's node failed; return whether its kind fails for long."""
        return self._unanswered.note_failure(uid, request)

    def note_success(self, uid: str, request: Request) -> None:
        """Note that a request of this kind has succeeded."""
        self._unanswered.note_success(uid, request)

    def succeeded(self, uid: str, step: Step) -> None:
        """Note that this step of a machine has succeeded."""
        self._unanswered.note_success(uid, type(step))

    def begin_replacement(self, key: Key, group: str) -> None:
        """Count this machine as being replaced before its status says so."""
        self._replacing[key] = group

    def end_replacement(self, key: Key) -> None:
        """Count it no longer: its status says so now, or could not be written."""
        self._replacing.pop(key, None)

    def replacing(self, group: str, *, but: Key) -> int:
        """How many others of a group are counted so."""
        return sum(1 for key, of in self._replacing.items() if of == group and key != but)

    def forget(self, uid: str) -> None:
        """Drop everything about a machine that no longer exists."""
        self._of_deletions.pop(uid, None)
        self._of_lives.pop(uid, None)
        self._refused.pop(uid, None)
        self._unanswered.forget(uid)
        self._claims = _without_claims(self._claims, uid)
        self.moments.forget(uid)


def _without_claims(claims: dict[str, Machine], uid: str, *, but: str = "") -> dict[str, Machine]:
    """Without those of a machine on VMs other than ``but``."""
    return {vm: each for vm, each in claims.items() if vm == but or each.metadata.uid != uid}
