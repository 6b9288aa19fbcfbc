"""One set, one pass: look, decide, act, report. And who wakes a set.

Theory.      A set is woken by its own spec and by facts about its machines (``members``), and waits
             a moment for more of them, so that a burst of machines is one pass. After acting the
             pass looks again, and the status is of that second look: the cache shows our writes.
Called by    ``runtime.controller``; the composition root calls ``wire``.
"""

from collections.abc import Iterable

import structlog

from kubewright.api.machine import names
from kubewright.api.machine.names import EventReason
from kubewright.api.machine.v1alpha1 import (
    MACHINE,
    MACHINE_DEPLOYMENT,
    MACHINE_SET,
    MachineDeployment,
    MachineSet,
    MachineSetStatus,
)
from kubewright.base.clock import Clock
from kubewright.base.errors import KubewrightError
from kubewright.kube.changes import Change
from kubewright.kube.client import Client
from kubewright.kube.informer import Informer
from kubewright.kube.informers import Informers
from kubewright.kube.patches import exactly, merge_patch
from kubewright.machines.machineset.act import Actor
from kubewright.machines.machineset.decide import decide
from kubewright.machines.machineset.member import MachineMember, MachineMembers, members_of
from kubewright.machines.machineset.observe import (
    Memory,
    Pause,
    Seen,
    observe,
    outdated,
    owner_key,
)
from kubewright.machines.machineset.outcome import Outcome
from kubewright.machines.machineset.settings import MachineSetSettings
from kubewright.machines.machineset.status import FROZEN, INVALID, is_frozen, set_status, until_available
from kubewright.machines.parts import Parts
from kubewright.replicas.claims import BY_UID, key_of, read_selector
from kubewright.replicas.pace import Pace
from kubewright.runtime.controller import Controller
from kubewright.runtime.events import Recorder
from kubewright.runtime.metrics import Metrics
from kubewright.runtime.result import Result
from kubewright.wire.errors import NotFound
from kubewright.wire.gvk import Key

SHOWN_ERRORS = 5

log = structlog.get_logger(__name__)


class MachineSets:
    """The reconciler of MachineSets."""

    def __init__(
        self,
        client: Client,
        informers: Informers,
        recorder: Recorder,
        clock: Clock,
        settings: MachineSetSettings | None = None,
        *,
        index: MachineMembers | None = None,
    ) -> None:
        self.settings = settings or MachineSetSettings()
        self.sets: Informer[MachineSet] = informers.get(MACHINE_SET)
        self.sets.index(BY_UID, lambda machine_set: (machine_set.metadata.uid,))
        self.deployments: Informer[MachineDeployment] = informers.get(MACHINE_DEPLOYMENT)
        machines = informers.get(MACHINE)
        self.index = index or members_of(machines, client.steady())
        self._client = client
        self._recorder = recorder.of(names.MACHINE_SET_COMPONENT)
        self._safety = recorder.of(names.DEPLOYMENT_COMPONENT)
        self._clock = clock
        self._actor = Actor(client, machines, self._recorder, clock, self.settings)
        self._memories: dict[Key, tuple[str, Memory]] = {}
        self._reporting: set[Key] = set()

    async def reconcile(self, key: Key) -> Result:
        machine_set = self.sets.get(key)
        if machine_set is None:
            self._forget(key)
            return Result.done()
        memory = self._memory(key, machine_set)
        pause = self._pause(machine_set, memory)
        seen = observe(machine_set, self.index, memory, self._clock.now(), pause)
        plan = decide(seen, self.settings)
        log.debug("plan", because=plan.because, steps=[type(step).__name__ for step in plan.steps])
        outcome = await self._actor.perform(seen, memory, plan)
        result = Result.later(plan.wake) if plan.wake is not None else Result.done()
        if not outcome.gone:
            result = result.sooner(await self._report(key, memory, outcome))
        if memory.doubts:
            result = result.sooner(Result.later(self.settings.doubt_seconds))
        if outcome.errors:
            raise _first(outcome.errors)
        return result

    def _pause(self, machine_set: MachineSet, memory: Memory) -> Pause | None:
        key = owner_key(machine_set)
        deployment = self.deployments.get(key) if key is not None else None
        contradiction = outdated(machine_set, deployment)
        return memory.pause(contradiction, self._clock.monotonic(), self.settings.wish_seconds)

    def _memory(self, key: Key, machine_set: MachineSet) -> Memory:
        """What is remembered of this very set. What was asked for long ago will not happen any more."""
        uid, memory = self._memories.get(key, ("", Memory()))
        if uid != machine_set.metadata.uid:
            self._forget(key)
            memory = Memory(pace=Pace(self.settings.status_seconds))
            self._memories[key] = (machine_set.metadata.uid, memory)
        since = self._clock.monotonic() - self.settings.doubt_seconds
        for name in [name for name, asked in memory.doubts.items() if asked <= since]:
            del memory.doubts[name]
        self.index.doubt(machine_set.metadata.uid, memory.doubts)
        return memory

    def _forget(self, key: Key) -> None:
        uid, _ = self._memories.pop(key, ("", None))
        self.index.forget_owner(uid)

    async def _report(self, key: Key, memory: Memory, outcome: Outcome) -> Result:
        """Write the status when it says something new, but not too often; answers when to look again."""
        machine_set = self.sets.get(key)
        if machine_set is None:
            return Result.done()
        seen = observe(machine_set, self.index, memory, self._clock.now())
        self._complain(seen, memory)
        waits = until_available(seen.members, machine_set.spec.min_ready_seconds, seen.time)
        result = Result.later(waits) if waits is not None else Result.done()
        patch = merge_patch(machine_set.status, status := set_status(seen, outcome.failure))
        if not patch:
            return result
        now = self._clock.monotonic()
        if (wait := memory.pace.wait(now)) > 0:
            return result.sooner(Result.later(wait))
        body = {"metadata": exactly(machine_set.metadata), "status": patch}
        self._reporting.add(key)
        try:
            await self._client.patch(MACHINE_SET, key, body, subresource="status")
        except NotFound:
            return Result.done()
        finally:
            self._reporting.discard(key)
        memory.pace.wrote(now)  # not before: a refused write must not look like a good pass
        self._tell_of_frost(machine_set, status)
        return result

    def _tell_of_frost(self, about: MachineSet, now: MachineSetStatus) -> None:
        """An event when the set begins to be frozen, or ends to: once, since the status says it too."""
        if is_frozen(now) and not is_frozen(about.status):
            told = f"Froze MachineSet {about.name}: {FROZEN}"
            self._safety.event(about, EventReason.FROZE_MACHINE_SET, told)
        elif is_frozen(about.status) and not is_frozen(now):
            told = f"Unfroze MachineSet {about.name}"
            self._safety.event(about, EventReason.UNFROZE_MACHINE_SET, told)

    def when_it_matters(self, change: Change[MachineSet]) -> Iterable[Key]:
        """Not for a status while we write it: that pass knows. What others write there is corrected."""
        return () if change.key in self._reporting and _same_but_status(change) else (change.key,)

    def _complain(self, seen: Seen, memory: Memory) -> None:
        """Tell of a set that breaks the rules, once per set of broken rules."""
        if seen.problem and seen.problem != memory.told and not seen.deleting:
            self._recorder.event(seen.machine_set, INVALID, seen.problem, warning=True)
        memory.told = seen.problem


def _first(errors: list[KubewrightError]) -> Exception:
    """One error as it is, several as a group; the controller takes the most patient retry."""
    return errors[0] if len(errors) == 1 else ExceptionGroup("machines of a set", errors[:SHOWN_ERRORS])


def wire(
    parts: Parts, settings: MachineSetSettings | None = None, *, index: MachineMembers | None = None
) -> Controller:
    """The controller of MachineSets; with ``index``, one that shares it with others."""
    machine_sets = MachineSets(
        parts.control, parts.control_caches, parts.recorder, parts.clock, settings, index=index
    )
    return controller_of(machine_sets, parts.clock, parts.metrics)


def controller_of(machine_sets: MachineSets, clock: Clock, metrics: Metrics | None = None) -> Controller:
    """Workers for a reconciler, listening to sets and to facts about machines."""
    settings = machine_sets.settings
    controller = Controller("machineset", machine_sets, clock, workers=settings.workers, metrics=metrics)
    controller.watches(machine_sets.sets, machine_sets.when_it_matters)

    def told(before: MachineMember | None, after: MachineMember | None) -> None:
        owners = [member.owner_uid for member in (before, after) if member is not None]
        wait = machine_sets.index.gather_seconds(settings.gather_seconds, *owners)
        for key in sorted(sets_of(machine_sets.sets, before, after), key=str):
            controller.enqueue(key, "a machine has changed", after=wait)

    machine_sets.index.listen(told)
    return controller


def sets_of(
    sets: Informer[MachineSet], before: MachineMember | None, after: MachineMember | None
) -> set[Key]:
    """The sets that a machine belonged and belongs to, or that might adopt it."""
    found: set[Key] = set()
    for member in (before, after):
        if member is not None and member.owner_uid:
            found |= sets.keys_by(BY_UID, member.owner_uid)
    if after is not None and not after.owner_uid:
        found |= {
            key_of(machine_set)
            for machine_set in sets.list(after.key.namespace)
            if read_selector(machine_set.spec.selector)[0].matches(after.labels)
        }
    return found


def _same_but_status(change: Change[MachineSet]) -> bool:
    old, new = change.old, change.new
    if old is None or new is None or old.uid != new.uid:
        return False
    if (old.generation, old.deleting, old.labels) != (new.generation, new.deleting, new.labels):
        return False
    before, after = change.before(), change.after()
    if before is None or after is None:
        return False
    mine, theirs = before.metadata, after.metadata
    return (mine.annotations, mine.finalizers) == (theirs.annotations, theirs.finalizers)
