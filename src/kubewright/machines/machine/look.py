"""Look at one machine: the caches, the cloud calls, and the live pods of a node that drains.

Theory.      Almost everything is in the caches (``caches``). Two things are read live: the pods of a node
             that is being drained (``nodes.drain.session``), and the node itself where a late cache would do
             harm: before and after the VM of a machine that is being deleted goes, before a machine becomes
             Failed, and while a node's annotation preserves its machine.
             What the process remembers of a machine is the memory's (``memory``); only the session of a
             drain, and the notes on a deletion, change by a look.
Called by    ``act.Machines``; ``cli.explain``, which acts on nothing. What it finds is ``seen.Seen``.
"""

from collections.abc import Awaitable
from dataclasses import replace
from datetime import datetime, timedelta
from math import isinf
from typing import Any, Protocol, TypeVar

from kubewright.api.core import NODE, Node
from kubewright.api.faults import summary
from kubewright.api.machine import names
from kubewright.api.machine.names import Phase
from kubewright.api.machine.v1alpha1 import Machine, MachineClass
from kubewright.api.machine.validate import validate_class, validate_machine
from kubewright.api.meta import ObjectMeta
from kubewright.driver.contract import MachineRequest
from kubewright.driver.errors import DriverError
from kubewright.driver.life.seen import Verb, VmSeen
from kubewright.kube.errors import MayBeGone, TransportError
from kubewright.machines import node_marks
from kubewright.machines.caches import ClassSeen, LookDeps, belongs, wants_token
from kubewright.machines.machine.applied import Specs, specs_of
from kubewright.machines.machine.decide import unread_because
from kubewright.machines.machine.living import drains_for_update, is_selected, selected_at
from kubewright.machines.machine.memory import Memory, Notes, Read, Request, as_seen, is_unanswered
from kubewright.machines.machine.preservation import asked_by_node, drains_preserved
from kubewright.machines.machine.seen import (
    Begun,
    Cordon,
    Seen,
    Unread,
    as_recorded,
    believed,
    is_recorded,
)
from kubewright.machines.settings import ReplacementCounts, bad_conditions
from kubewright.nodes import health
from kubewright.wire.errors import ApiError, is_refusal
from kubewright.wire.gvk import Key

T = TypeVar("T")


class Vms(Protocol):
    """What is known of VMs, by the uids of their machines: ``driver.life.calls`` knows it from its calls."""

    def seen(self, uid: str) -> VmSeen: ...

    def doubt_until(
        self,
        uid: str,
        *,
        created: datetime | None,
        recorded: bool,
        confirm_absent: timedelta,
        witnessed: datetime | None = None,
    ) -> datetime | None: ...


class Looker:
    """Makes ``Seen``, from what is there and what is remembered."""

    def __init__(self, deps: LookDeps, calls: Vms, memory: Memory) -> None:
        self._caches = deps.caches
        self._target = deps.target
        self._volume_ids = deps.volume_ids
        self._console = deps.console
        self._hot_fields = deps.hot_fields
        self._clock = deps.clock
        self._one_clock = deps.one_clock
        self._shard = deps.shard
        self._calls = calls
        self._memory, self._moments = memory, memory.moments
        self._settings = deps.settings
        self._longest = deps.settings.unreachable_after.total_seconds()

    async def look(self, machine: Machine, *, busy: bool) -> Seen:
        """All that is seen of one machine.

        Raises:
            ApiError, TransportError: pods or node could not be asked for.
        """
        vm = self._believed(machine, self._calls.seen(machine.metadata.uid))
        if not machine.metadata.deleting or names.FINALIZER not in machine.metadata.finalizers:
            return await self._look_at_living(machine, vm, busy)
        notes = self.notes(machine, None)
        notes.before = notes.before or machine.status
        known = as_recorded(machine, vm)
        node, unread = self._caches.node_of(known), None
        if node is None:
            node, unread = await self._unless_unread(machine, Read.NODE, self._live_node(known, vm))
        seen = self._seen(machine, node, vm, busy)
        if unread is not None or node is None or not _drains(seen, node):
            return replace(seen, unread=unread)
        return await self._drained(seen, node)

    async def _look_at_living(self, machine: Machine, vm: VmSeen, busy: bool) -> Seen:
        """With the pods of its node, if that is drained: while it is preserved, or for its update. If the
        server does not show node or pods, none is evicted, and everything else goes on."""
        node, unread = self._caches.node_of(machine), None
        deleting = machine.metadata.deleting
        if node is None and not deleting and asked_by_node(machine):  # a late cache ends none
            node, unread = await self._unless_unread(machine, Read.NODE, self._read_own_node(machine))
        seen = replace(self._seen(machine, node, vm, busy), unread=unread)
        if node is None or deleting:
            return seen
        drains = drains_preserved(machine, node) or drains_for_update(seen)
        return await self._drained(seen, node) if drains else seen

    async def with_live_node(self, seen: Seen) -> Seen:
        """The same machine, with its node read live: the cache may be old (a late or dead watch).

        Raises:
            ApiError, TransportError: the node could not be read, so nothing may be decided from it.
        """
        machine = seen.machine
        name = seen.node.metadata.name if seen.node is not None else names.node_name(machine.metadata.labels)
        if not name:
            return seen
        node = await self._read_node(machine.metadata.uid, name)
        if node is not None and not belongs(node, machine):
            node = seen.node
        return replace(seen, node=node, health=self._health_of(machine, node))

    async def with_console(self, seen: Seen) -> Seen:
        """The same machine, with the end of its VM's console: it is given up, and why its boot failed stands
        nowhere else. The driver has seconds for that (``driver.guard``); one that cannot answer is not asked
        again."""
        found = self._caches.class_of(seen.machine)
        known = found.machine_class is not None and found.can_call and bool(seen.machine.spec.provider_id)
        if self._console is None or found.machine_class is None or not known:
            return seen
        try:
            end = await self._console(MachineRequest(seen.machine, found.machine_class, found.secret))
        except DriverError:
            return seen
        return replace(seen, console=end)

    def notes(self, machine: Machine, node: Node | None, *, keep: bool = False) -> Notes:
        """The notes on a machine with this node, as ``Memory.notes``: those of one that is not being deleted
        are kept only while it is preserved or its node is selected for an update, or with ``keep``."""
        preserved = machine.status.current_status.preserve_expiry_time is not None
        selected = node is not None and is_selected(node)
        return self._memory.notes(machine, keep=keep or preserved or selected)

    def shows_no_more(self, machine: ObjectMeta, node: Node | None, foreseen: Machine | None) -> bool:
        """Whether the caches show of a machine and its node what a pass has read or written itself, and
        nothing after that which decides; and whether the server has stored of it what was foreseen. ``node``
        None: none that may be this machine's, nor one of its name.
        """
        found = self._caches.machines.part(Key(machine.namespace, machine.name))
        if (
            found is None
            or foreseen is None
            or (found.metadata.uid, found.metadata.resource_version)
            != (
                machine.uid,
                machine.resource_version,
            )
        ):
            return False
        if _decided(found) != _decided(foreseen):
            return False
        name = names.node_name(found.metadata.labels) if node is None else node.metadata.name
        shown = self._caches.nodes.part(Key("", name)) if name else None
        if node is None or shown is None:
            return node is shown and self._caches.node_of(found) is None
        return node_marks.decides_as(found, node, shown)

    def note_failure(self, machine: Machine, request: Request) -> bool:
        """Note that a request about the machine's node failed; return whether its cluster is long silent."""
        lasts = self._memory.note_failure(machine.metadata.uid, request)
        return lasts or self._caches.nodes.visibility.lost_for(self._moments.monotonic()) > self._longest

    def group_of(self, machine: Machine) -> str:
        """With which others the machine shares the limit of replacements."""
        return self._caches.group_of(machine)

    def _believed(self, machine: Machine, vm: VmSeen) -> VmSeen:
        """What the driver has told, unless it is the VM of another machine: recorded for both, it would be
        deleted with the first of them. A VM that is about to be recorded is that of the machine that was
        first looked at with it."""
        if vm.instance is None:
            return vm
        found = vm.instance.provider_id
        if (claimant := self._memory.claimant(machine, found)) is None:
            return vm
        owners = (*self._caches.machines.by("provider-id", found), claimant)
        others = {each.metadata.uid: each for each in owners if each.metadata.uid != machine.metadata.uid}
        return believed(vm, list(others.values()))

    def _seen(self, machine: Machine, node: Node | None, vm: VmSeen, busy: bool) -> Seen:
        now, moment, uid = self._moments.now(), self._moments.monotonic(), machine.metadata.uid
        unread = self._caches.machines.problem(Key(machine.metadata.namespace, machine.metadata.name))
        found = _class_of(self._caches.class_of(machine), unread)
        begun = self._moments.of(machine, node)
        vm = self._as_made_here(machine, found.machine_class, vm, begun)
        return Seen(
            machine=machine,
            settings=self._settings,
            now=now,
            wall=self._clock.now(),
            begun=begun,
            vm=vm,
            node=node,
            name_conflict=node is None and self._caches.name_conflict(machine),
            health=self._health_of(machine, node),
            problem=unread or _problem(machine, found),
            can_call=found.can_call,
            secret_missing=found.secret_missing,
            untried=found.untried,
            inputs=found.version + _changes(machine, self._settings.retry_all_errors),
            specs=self._specs(machine, found.machine_class, vm, begun),
            capacity=node_marks.capacity_of(found.machine_class),
            doubt_until=self._doubt_until(machine, begun, recorded=is_recorded(machine)),
            counts=self.counts(machine),
            has_token=self._settings.joins
            and (bool(found.problem) or wants_token(found.secret.data.get("userData", b""))),
            busy=busy,
            before=self._memory.before_deletion(uid),
            drains_at_once=max(1, self._memory.deletions),
            visible_since=_ago(now, self._caches.visible_for(moment, self._longest)),
            watching_since=_ago(now, self._caches.nodes.visibility.since_first_list(moment)),
            unreachable=self._caches.unreachable(moment, self._longest),
            refused=self._memory.refused(uid, now),
        )

    def _specs(
        self, machine: Machine, machine_class: MachineClass | None, vm: VmSeen, begun: Begun
    ) -> Specs | None:
        """What VM and class have and say. An update that is marked, and of which this process knows nothing,
        may still be under way: the process before may have died while the cloud worked on it."""
        if self._hot_fields is None or machine_class is None:
            return None
        found = specs_of(machine, machine_class, self._hot_fields)
        if found is None or not found.in_flight or vm.verb is Verb.UPDATE:
            return found
        return replace(found, settled_at=self._doubt_until(machine, begun, recorded=False))

    def _as_made_here(
        self, machine: Machine, machine_class: MachineClass | None, vm: VmSeen, begun: Begun
    ) -> VmSeen:
        """What a new VM was made by is known only where its class has never changed, or no process before us
        may have asked for the VM: a repeated creation answers the one that is there."""
        if not vm.applied or is_recorded(machine) or _never_changed(machine_class, machine):
            return vm
        inherited = self._calls.doubt_until(
            machine.metadata.uid,
            created=machine.metadata.creation_timestamp,
            recorded=False,
            confirm_absent=self._settings.confirm_absent,
            witnessed=begun.created,
        )
        return vm if inherited is None else replace(vm, applied="")

    def _doubt_until(self, machine: Machine, begun: Begun, *, recorded: bool) -> datetime | None:
        return self._calls.doubt_until(
            machine.metadata.uid,
            created=machine.metadata.creation_timestamp,  # by the server: our start is compared with it
            recorded=recorded,
            confirm_absent=self._settings.confirm_absent,
            witnessed=begun.created if self._one_clock else None,
        )

    def _health_of(self, machine: Machine, node: Node | None) -> health.Health:
        conditions = node.status.conditions if node else ()
        return health.judge(conditions, bad_conditions(machine, self._settings.node_conditions))

    def counts(self, machine: Machine) -> ReplacementCounts:
        """What limits the replacement of a machine that is not well, as it is in this moment; of others
        nothing is counted."""
        if machine.status.current_status.phase not in (Phase.UNKNOWN, Phase.IN_PLACE_UPDATE_FAILED):
            return ReplacementCounts()
        group, meta = self._caches.group_of(machine), machine.metadata
        counted = self._memory.replacing(group, but=Key(meta.namespace, meta.name))
        found = self._caches.counts(group)
        turn = self._shard.until_turn(group, self._moments.now())
        return replace(found, replacing=found.replacing + counted, turn=turn)

    async def _live_node(self, machine: Machine, vm: VmSeen) -> Node | None:
        """The node, read live once before its VM is deleted, because it may have joined and our cache may not
        show it yet; and once after, because the kubelet may have registered it just before the end.
        """
        name, vm_id = names.node_name(machine.metadata.labels), machine.spec.provider_id
        notes, gone = self.notes(machine, None), vm.settled(Verb.DELETE)
        asked_for = notes.vm_checked_after_deletion if gone else notes.vm_checked_before_deletion
        if not name or asked_for == vm_id or (vm.verb is Verb.DELETE and not gone):
            return None
        if (node := await self._read_own_node(machine)) is not None:
            return node
        if gone:
            notes.vm_checked_after_deletion = vm_id
        else:
            notes.vm_checked_before_deletion = vm_id
        return None

    async def _unless_unread(
        self, machine: Machine, what: Read, reading: Awaitable[T | None]
    ) -> tuple[T | None, Unread | None]:
        """What is read; or why it cannot be, where the next pass could not read it either.

        Raises:
            ApiError, TransportError: the next pass may read it.
        """
        try:
            return await reading, None
        except (ApiError, TransportError) as error:
            if is_refusal(error) or (is_unanswered(error) and self.note_failure(machine, what)):
                return None, unread_because(error)
            raise

    async def _read_node(self, uid: str, name: str) -> Node | None:
        """The node of that name, read for the machine of ``uid``; whose it is, the caller finds out."""
        node = None
        with MayBeGone(name):
            node = await self._target.get(NODE, Key("", name))
        self._memory.note_success(uid, Read.NODE)
        return node

    async def _read_own_node(self, machine: Machine) -> Node | None:
        node = await self._read_node(machine.metadata.uid, names.node_name(machine.metadata.labels))
        return node if node is not None and belongs(node, machine) else None

    async def _drained(self, seen: Seen, node: Node) -> Seen:
        """With the pods of the node; without them, where they cannot be read."""
        drained, unread = await self._unless_unread(seen.machine, Read.PODS, self._with_pods(seen, node))
        return drained or replace(seen, unread=unread)

    async def _with_pods(self, seen: Seen, node: Node) -> Seen:
        session = self.notes(seen.machine, node).drain
        drain = await session.look(
            self._target,
            node.metadata.name,
            seen.drain_policy,
            now=seen.now,
            started=drain_began(seen, node),
            conditions=as_seen(node, seen.begun.node_since),
            attached=self._caches.volumes_of(node),
            volume_ids=self._volume_ids,
        )
        self._memory.note_success(seen.machine.metadata.uid, Read.PODS)
        return replace(
            seen,
            drain=drain,
            drained_since=session.drained_since,
            attachments=self._caches.attached(node),
        )


def _decided(machine: Machine) -> tuple[Any, ...]:
    """What passes write of a machine and decide by, but for times and messages."""
    meta, last, current = machine.metadata, machine.status.last_operation, machine.status.current_status
    written = (meta.labels, meta.annotations, meta.finalizers, meta.deleting, machine.spec)
    told = (last.type, last.state, current.phase, current.timeout_active, current.preserve_expiry_time)
    return (*written, *told)


def drain_began(seen: Seen, node: Node) -> datetime:
    """When the drain began that the machine's deletion, its node's update, or its preservation needs. The
    date of a selection is by some manager's wall clock, so it counts only if no process saw the selection."""
    if seen.machine.metadata.deleting:
        return seen.deleted_at
    if is_selected(node):
        return seen.begun.update_since or selected_at(node) or seen.phase_since
    return seen.phase_since


def _drains(seen: Seen, node: Node) -> bool:
    """Whether to list the pods: the node is cordoned, or the server refuses the cordon."""
    cordoned = node.spec.unschedulable or any(isinstance(each.step, Cordon) for each in seen.refused)
    return cordoned and seen.vm.verb is not Verb.DELETE and not seen.skips_drain


def _ago(now: datetime, seconds: float) -> datetime | None:
    """The time that many seconds ago; None for infinity."""
    return None if isinf(seconds) else now - timedelta(seconds=seconds)


def _class_of(found: ClassSeen, unread: str) -> ClassSeen:
    """The class of a machine of which only a part can be read: one that is not found may well be there."""
    return replace(found, secret_missing=True) if unread and found.machine_class is None else found


def _changes(machine: Machine, retried: bool) -> str:
    """What changes with the machine itself, where failed calls are not retried until something does."""
    return "" if retried else f"/{machine.metadata.generation}"


def _problem(machine: Machine, found: ClassSeen) -> str:
    errors = validate_machine(machine)
    if found.machine_class is not None:
        errors += validate_class(found.machine_class)
    return summary(errors) or found.problem


def _never_changed(machine_class: MachineClass | None, machine: Machine) -> bool:
    """Whether this class says what it said when the machine was made, by the server's dates."""
    if machine_class is None or machine_class.metadata.generation != 1:
        return False
    made, then = machine_class.metadata.creation_timestamp, machine.metadata.creation_timestamp
    return made is not None and then is not None and made <= then
