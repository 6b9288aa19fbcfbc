"""Perform a MachineSet's plan: the only file that makes, changes and deletes machines of a set.

Theory.      Each write names the uid of what was seen, and the version where the decision rests on
             what was read: a Failed machine that has come back since is not deleted. A creation's
             name is in doubt from before it is sent until its answer; only an answer that proves
             that nothing happened, or the machine in the cache, ends the doubt.
Invariants.  One effect's failure does not stop the others, but for creations (``slow_start``). What
             failed is told in one event each and raised together at the end of the pass.
Called by    ``reconciler.MachineSets``.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, assert_never

from msgspec import to_builtins

from kubewright.api.machine import names
from kubewright.api.machine.names import ConditionReason, EventReason
from kubewright.api.machine.v1alpha1 import MACHINE, MACHINE_SET, MachineSet
from kubewright.api.meta import OwnerReference
from kubewright.base.clock import Clock
from kubewright.base.errors import KubewrightError
from kubewright.kube.client import Client
from kubewright.kube.errors import ConnectFailed, TransportError
from kubewright.machines.machineset.batches import slow_start, spread
from kubewright.machines.machineset.members import Member
from kubewright.machines.machineset.observe import Memory, Seen, key_of
from kubewright.machines.machineset.settings import MachineSetSettings
from kubewright.machines.machineset.status import Failure
from kubewright.machines.machineset.steps import (
    Adopt,
    Configure,
    Create,
    Delete,
    Hold,
    LetGo,
    Plan,
    Release,
    Step,
)
from kubewright.machines.machineset.template import configuration_patch, new_machine, owner
from kubewright.runtime.events import Recorder
from kubewright.wire.errors import AlreadyExists, ApiError, Conflict, Forbidden, NotFound

EVENTS_PER_PASS = 5
"""Machines that are told of one by one; of more a single event tells the number."""


@dataclass(slots=True)
class Outcome:
    """How a pass went. ``stale``: the server knows more of our machines than the cache."""

    errors: list[KubewrightError] = field(default_factory=list)
    failure: Failure | None = None
    stale: bool = False
    gone: bool = False


class Actor:
    """Performs plans of MachineSets."""

    def __init__(self, client: Client, recorder: Recorder, clock: Clock, settings: MachineSetSettings) -> None:
        self._client = client
        self._recorder = recorder
        self._clock = clock
        self._settings = settings

    async def perform(self, seen: Seen, memory: Memory, plan: Plan) -> Outcome:
        """All steps in order; never raises for what a single machine's write ended with."""
        outcome = Outcome()
        for step in plan.steps:
            await self._step(seen, memory, step, outcome)
        return outcome

    async def _step(self, seen: Seen, memory: Memory, step: Step, outcome: Outcome) -> None:
        machine_set = seen.machine_set
        match step:
            case Hold():
                finalizers = names.with_finalizer(machine_set.metadata.finalizers, names.FINALIZER)
                await self._finalize(machine_set, finalizers)
            case LetGo():
                outcome.gone = True
                finalizers = names.without_finalizer(machine_set.metadata.finalizers, names.FINALIZER)
                await self._finalize(machine_set, finalizers)
            case Adopt(members):
                await self._adopt(machine_set, members, outcome)
            case Release(members):
                outcome.errors += await self._each(members, lambda m: self._release(machine_set, m))
            case Configure(members):
                outcome.errors += await self._each(members, lambda m: self._configure(machine_set, m))
            case Create(new):
                await self._create(machine_set, memory, new, outcome)
            case Delete(members, as_seen):
                await self._delete(machine_set, members, as_seen, outcome)
            case _:
                assert_never(step)

    async def _finalize(self, machine_set: MachineSet, finalizers: list[str]) -> None:
        """The list is replaced as a whole, so it must still be the one that was read."""
        body = {"metadata": {"finalizers": finalizers, **_exactly(machine_set.metadata)}}
        await _missing_ok(self._client.patch(MACHINE_SET, key_of(machine_set), body))

    # -- whose machines these are

    async def _adopt(self, machine_set: MachineSet, members: Sequence[Member], outcome: Outcome) -> None:
        """Only after a look at the server: a set that was deleted and made again adopts nothing."""
        try:
            live = await self._client.get(MACHINE_SET, key_of(machine_set))
        except NotFound:
            return
        if live.metadata.uid != machine_set.metadata.uid or live.metadata.deleting:
            return
        outcome.errors += await self._each(members, lambda m: self._own(m, owner(machine_set)))

    async def _own(self, member: Member, ours: OwnerReference) -> KubewrightError | None:
        return await self._reown(member, add=ours)

    async def _release(self, machine_set: MachineSet, member: Member) -> KubewrightError | None:
        return await self._reown(member, drop=machine_set.metadata.uid)

    async def _reown(
        self, member: Member, *, add: OwnerReference | None = None, drop: str = ""
    ) -> KubewrightError | None:
        """Replace the list of owners, others' entries kept, on exactly the version that was seen."""
        try:
            machine = await self._client.get(MACHINE, member.key)
            if machine.metadata.resource_version != member.version:
                return Conflict(f"machine {member.name} has changed")
            owners = [o for o in machine.metadata.owner_references if not drop or o.uid != drop]
            owners += [add] if add is not None else []
            body = {"metadata": {"ownerReferences": to_builtins(owners) or None, **_exactly(machine.metadata)}}
            await self._client.patch(MACHINE, member.key, body)
        except NotFound:
            return None
        except KubewrightError as error:
            return error
        return None

    async def _configure(self, machine_set: MachineSet, member: Member) -> KubewrightError | None:
        try:
            machine = await self._client.get(MACHINE, member.key)
            patch = configuration_patch(machine, machine_set.spec.template.spec)
            if patch and machine.metadata.uid == member.uid:
                body = {**patch, "metadata": {"uid": member.uid}}
                await self._client.patch(MACHINE, member.key, body)
        except NotFound:
            return None
        except KubewrightError as error:
            return error
        return None

    # -- creation

    async def _create(
        self, machine_set: MachineSet, memory: Memory, new: Sequence[str], outcome: Outcome
    ) -> None:
        made: list[str] = []

        async def make(name: str) -> KubewrightError | None:
            memory.doubts[name] = self._clock.monotonic()
            try:
                await self._client.create(MACHINE, new_machine(machine_set, name))
            except AlreadyExists as error:
                return await self._whose(machine_set, memory, name, error)
            except (ApiError, TransportError) as error:
                if _nothing_happened(error):
                    memory.doubts.pop(name, None)
                return error
            memory.doubts.pop(name, None)
            made.append(name)
            return None

        errors = await slow_start(new, make, self._settings.concurrency)
        self._tell(machine_set, EventReason.SUCCESSFUL_CREATE, "Created Machine", "Created {} Machines", made)
        outcome.stale = outcome.stale or any(isinstance(error, AlreadyExists) for error in errors)
        real = [error for error in errors if not isinstance(error, AlreadyExists) and not _ending(error)]
        self._complain(machine_set, EventReason.FAILED_CREATE, "Error creating", real, outcome)

    async def _whose(
        self, machine_set: MachineSet, memory: Memory, name: str, error: AlreadyExists
    ) -> KubewrightError:
        """The name is taken. By us: the cache lags, so the name stays in doubt until it shows."""
        try:
            found = await self._client.get(MACHINE, structs_key(machine_set, name))
        except NotFound:
            memory.doubts.pop(name, None)
            return error
        except KubewrightError as unknown:
            return unknown
        controller = found.metadata.controller
        if controller is None or controller.uid != machine_set.metadata.uid:
            memory.belongs_to_another(name)
        return error

    # -- deletion

    async def _delete(
        self, machine_set: MachineSet, members: Sequence[Member], as_seen: frozenset[str], outcome: Outcome
    ) -> None:
        gone: list[str] = []

        async def delete(member: Member) -> KubewrightError | None:
            version = member.version if member.uid in as_seen else ""
            try:
                await self._client.delete(MACHINE, member.key, uid=member.uid, resource_version=version)
            except (NotFound, Conflict):
                return None  # gone, or no longer what it was: the next look decides anew
            except KubewrightError as error:
                return error
            gone.append(member.name)
            return None

        errors = await self._each(members, delete)
        self._tell(machine_set, EventReason.SUCCESSFUL_DELETE, "Deleted machine", "Deleted {} machines", gone)
        self._complain(machine_set, EventReason.FAILED_DELETE, "Error deleting", errors, outcome)

    # -- telling

    async def _each(self, members: Sequence[Member], effect: Any) -> list[KubewrightError]:
        return await spread(members, effect, self._settings.concurrency)

    def _tell(self, about: MachineSet, reason: EventReason, one: str, many: str, done: Sequence[str]) -> None:
        """Machine by machine while there are few; a crowd costs one event."""
        if len(done) > EVENTS_PER_PASS:
            self._recorder.event(about, reason, many.format(len(done)))
            return
        for name in done:
            self._recorder.event(about, reason, f"{one}: {name}")

    def _complain(
        self,
        about: MachineSet,
        reason: EventReason,
        what: str,
        errors: list[KubewrightError],
        outcome: Outcome,
    ) -> None:
        outcome.errors += errors
        if not errors:
            return
        outcome.failure = Failure(_CONDITION[reason], str(errors[0]))
        for text in dict.fromkeys(str(error) for error in errors[:EVENTS_PER_PASS]):
            self._recorder.event(about, reason, f"{what}: {text}", warning=True)


_CONDITION = {
    EventReason.FAILED_CREATE: ConditionReason.FAILED_CREATE,
    EventReason.FAILED_DELETE: ConditionReason.FAILED_DELETE,
}
