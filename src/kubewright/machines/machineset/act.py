"""Perform a MachineSet's plan: the only door through which a set's pass writes.

Theory.      Each write names the uid of what was seen, and the version where the decision rests on
             what was read: a list that is replaced as a whole, a machine that was chosen to go for
             what it was (Failed, not ready, ours) and may be another by now. What has changed or gone
             meanwhile is no failure to tell of, but it ends the pass with the key's backoff: the
             cache is behind, and only time helps.
Invariants.  One machine's failure does not stop the others, but for creations (``batches``).
Called by    ``reconciler.MachineSets``. Continues in ``making``.
"""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, assert_never

from kubewright.api.machine import names
from kubewright.api.machine.names import EventReason
from kubewright.api.machine.preserve import Preserve
from kubewright.api.machine.v1alpha1 import MACHINE, MACHINE_SET, Machine, MachineSet
from kubewright.base.clock import Clock
from kubewright.base.errors import KubewrightError
from kubewright.kube.client import Client
from kubewright.kube.informer import Informer
from kubewright.kube.patches import exactly
from kubewright.machines.machineset.making import Making, make
from kubewright.machines.machineset.member import MachineMember
from kubewright.machines.machineset.observe import Memory, Seen
from kubewright.machines.machineset.outcome import Outcome, tell_done, tell_failed
from kubewright.machines.machineset.settings import MachineSetSettings
from kubewright.machines.machineset.steps import (
    Adopt,
    Ask,
    Configure,
    Create,
    Delete,
    Hold,
    LetGo,
    Plan,
    Release,
    Remember,
    Step,
)
from kubewright.machines.machineset.template import configuration_patch, owner
from kubewright.replicas.batches import spread
from kubewright.replicas.claims import adopted, disowned, key_of
from kubewright.runtime.events import Teller
from kubewright.wire.errors import Conflict, NotFound

Patch = dict[str, Any]

_STALE = (NotFound, Conflict)
"""What the server says when an object is gone or no longer the one that was seen."""


class Actor:
    """Performs plans of MachineSets."""

    def __init__(
        self,
        client: Client,
        machines: Informer[Machine],
        recorder: Teller,
        clock: Clock,
        settings: MachineSetSettings,
    ) -> None:
        self._client = client
        self._machines = machines
        self._recorder = recorder
        self._clock = clock
        self._at_once = settings.concurrency

    async def perform(self, seen: Seen, memory: Memory, plan: Plan) -> Outcome:
        """All steps in order. A machine's failure stands in the outcome; the set's own is raised."""
        outcome = Outcome()
        for step in plan.steps:
            await self._step(seen.machine_set, memory, step, outcome)
        return outcome

    async def _step(self, about: MachineSet, memory: Memory, step: Step, outcome: Outcome) -> None:
        finalizers = about.metadata.finalizers
        match step:
            case Hold():
                await self._finalize(about, names.with_finalizer(finalizers, names.FINALIZER))
            case LetGo():
                outcome.gone = True
                await self._finalize(about, names.without_finalizer(finalizers, names.FINALIZER))
            case Adopt(members):
                if await self._lives(about):
                    outcome.errors += await self._patch_each(
                        members, lambda machine: adopted(machine, owner(about))
                    )
            case Release(members) | Configure(members) | Ask(members):
                outcome.errors += await self._patch_each(members, partial(_rewritten, about, step))
            case Remember(number):
                await self._note(about, number)
            case Create(new):
                making = Making(self._client, self._clock, about, memory)
                await make(making, new, self._at_once, self._recorder, outcome)
            case Delete(members):
                await self._delete(about, members, outcome)
            case _:
                assert_never(step)

    async def _finalize(self, about: MachineSet, finalizers: list[str]) -> None:
        body = {"metadata": {"finalizers": finalizers or None, **exactly(about.metadata)}}
        try:
            await self._client.patch(MACHINE_SET, key_of(about), body)
        except NotFound:
            return

    async def _note(self, about: MachineSet, number: int) -> None:
        """Exactly onto what was read: a late request of a dead leader must not write an older number."""
        notes = {names.LAST_NUMBER_ANNOTATION: str(number)}
        body = {"metadata": {"annotations": notes, **exactly(about.metadata)}}
        try:
            await self._client.patch(MACHINE_SET, key_of(about), body)
        except NotFound:
            return

    async def _lives(self, about: MachineSet) -> bool:
        """A look at the server before machines are adopted: a set that is going adopts nothing."""
        try:
            live = await self._client.get(MACHINE_SET, key_of(about))
        except NotFound:
            return False
        return live.metadata.uid == about.metadata.uid and not live.metadata.deleting

    async def _patch_each(
        self, members: Sequence[MachineMember], patch_of: Callable[[Machine], Patch]
    ) -> list[KubewrightError]:
        """Patch machines by what the cache has; what has changed meanwhile is not overwritten."""

        async def patch(member: MachineMember) -> KubewrightError | None:
            machine = self._machines.get(member.key)
            if machine is None or machine.metadata.uid != member.uid or not (body := patch_of(machine)):
                return None
            return await _error_of(self._client.patch(MACHINE, member.key, body))

        return await spread(members, patch, self._at_once)

    async def _delete(self, about: MachineSet, members: Sequence[MachineMember], outcome: Outcome) -> None:
        gone: list[str] = []

        async def delete(member: MachineMember) -> KubewrightError | None:
            uid, version = member.uid, member.version
            call = self._client.delete(MACHINE, member.key, uid=uid, resource_version=version)
            error = await _error_of(call)
            if error is None:
                gone.append(member.name)
            return error

        errors = await spread(members, delete, self._at_once)
        tell_done(self._recorder, about, EventReason.SUCCESSFUL_DELETE, gone)
        outcome.errors += (error for error in errors if isinstance(error, _STALE))
        failed = [error for error in errors if not isinstance(error, _STALE)]
        tell_failed(self._recorder, about, EventReason.FAILED_DELETE, failed, outcome)


async def _error_of(call: Awaitable[Any]) -> KubewrightError | None:
    """The error that a call ends with; None when it worked."""
    try:
        await call
    except KubewrightError as error:
        return error
    return None


def _rewritten(about: MachineSet, step: Release | Configure | Ask, machine: Machine) -> Patch:
    """What a step makes of one machine."""
    match step:
        case Release():
            return disowned(machine, about)
        case Configure():
            return _configured(about, machine)
        case Ask(_, value):
            return _asked(value, machine)


def _configured(about: MachineSet, machine: Machine) -> Patch:
    patch = configuration_patch(machine, about.spec.template.spec)
    return {**patch, "metadata": {"uid": machine.metadata.uid}} if patch else {}


def _asked(value: Preserve | None, machine: Machine) -> Patch:
    return {"metadata": {"annotations": {names.PRESERVE_ANNOTATION: value}, **exactly(machine.metadata)}}
