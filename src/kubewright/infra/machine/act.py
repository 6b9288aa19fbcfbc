"""One KubewrightMachine, one pass: what is written, asked of the driver, and told to users.

Theory.      A plan that reports what has not lasted long enough is carried out without the report
             (``infra.plan``). Calls of the driver outlive the pass, and enqueue the machine when they end.
Invariants.  No PUT. No step waits for a driver. Once the finalizer is off nothing more is written.
Called by    ``wiring``, ``runtime.controller``.
"""

from collections.abc import Iterable
from datetime import datetime
from functools import partial
from typing import Any

import structlog

from kubewright.api.infra.names import CLOUD_OWNER_ANNOTATION, MACHINE_COMPONENT, MACHINE_FINALIZER
from kubewright.api.infra.v1beta1 import KubewrightMachine, KubewrightMachineStatus
from kubewright.base.clock import SteadyClock
from kubewright.base.plan import Event
from kubewright.driver.contract import Instance
from kubewright.driver.life.calls import VmCalls
from kubewright.driver.life.seen import Verb
from kubewright.infra.caches import Shared
from kubewright.infra.machine.decide import decide, machine_status
from kubewright.infra.machine.look import Looker
from kubewright.infra.machine.seen import (
    AddFinalizer,
    Call,
    Plan,
    ReadConsole,
    Record,
    RemoveFinalizer,
    Seen,
    Step,
)
from kubewright.infra.plan import Reported
from kubewright.kube.informer import Change
from kubewright.kube.patches import outside_of_a_pass
from kubewright.runtime.events import ComponentRecorder
from kubewright.runtime.kernel import Effect, ObjectReconciler, Outcome
from kubewright.wire.gvk import Key

log = structlog.get_logger(__name__)


class InfraMachines(ObjectReconciler[KubewrightMachine, Seen, Plan]):
    """The reconciler of KubewrightMachines. ``clock`` is steady."""

    def __init__(self, shared: Shared, looker: Looker, calls: VmCalls, clock: SteadyClock) -> None:
        recorder = ComponentRecorder(shared.recorder, MACHINE_COMPONENT)
        super().__init__(shared.control, shared.caches.machines, recorder, finalizer=MACHINE_FINALIZER)
        self._looker = looker
        self._calls = calls
        self._clock = clock
        self._wall = shared.clock
        self._created: dict[str, datetime] = {}
        self._reported = Reported()

    def forget(self, key: Key, uid: str) -> None:
        """The machine is gone for good."""
        self._calls.forget(uid)
        self._created.pop(uid, None)
        self._reported.forget(uid)

    async def look(self, found: KubewrightMachine) -> Seen:
        """As ``Looker.look``."""
        return self._looker.look(found, self._created.get(found.metadata.uid), self._clock.now())

    def decide(self, seen: Seen) -> Plan:
        """The plan, without a report that has not lasted long enough."""
        return self._reported.paced(seen.machine.metadata.uid, decide(seen), seen.now)

    def act(self, seen: Seen, step: Step, outcome: Outcome) -> Effect:
        """What performs a step."""
        match step:
            case AddFinalizer(owner):
                return self.add_finalizer(outcome, annotations={CLOUD_OWNER_ANNOTATION: owner})
            case Call(verb):
                self._call(seen, verb)
                return None
            case Record(vm, place):
                return self._record(outcome, vm, place)
            case ReadConsole():
                self._read_console(seen)
                return None
            case RemoveFinalizer():
                return self.remove_finalizer(outcome)

    def status(self, seen: Seen, plan: Plan, outcome: Outcome) -> KubewrightMachineStatus | None:
        """As ``decide.machine_status``."""
        return None if seen.paused else machine_status(seen, plan.report, self._wall.now())

    def events(self, seen: Seen, plan: Plan, status: Any, *, written: bool) -> Iterable[Event]:
        """The event of the plan, where its report is new."""
        event = plan.tells(changed=written)
        return () if event is None else (event,)

    def tell(self, about: KubewrightMachine, event: Event) -> None:
        """Write the event to the log, too."""
        log.info(event.message, reason=str(event.reason), machine=about.name)
        super().tell(about, event)

    def follow(self) -> None:
        """Note when an object is created while we watch: no earlier process can have made a VM for it. What
        is there already, or a first list shows, was not."""
        replayed = True

        def changed(change: Change[KubewrightMachine]) -> None:
            new, old = change.new, change.old
            came = new is not None and (old is None or old.uid != new.uid)
            if new is not None and came and self.objects.synced and not replayed:
                self._created[new.uid] = self._clock.now()

        self.objects.subscribe(changed)
        replayed = False

    async def _record(self, outcome: Outcome, vm: Instance, place: str | None) -> None:
        spec = {"providerID": vm.provider_id, **({"failureDomain": place} if place else {})}
        await self.patch(outcome, {"spec": spec})

    def _call(self, seen: Seen, verb: Verb) -> None:
        machine, state = seen.machine, seen.status.last_known_state
        key = Key(machine.namespace, machine.name)

        async def ask() -> Any:
            return self._looker.request(machine, verb, state)

        start = self._calls.start  # the call outlives this pass, and may write
        outside_of_a_pass().run(start, key, machine.metadata.uid, verb, ask, inputs=seen.inputs)

    def _read_console(self, seen: Seen) -> None:
        machine, start = seen.machine, self._calls.read_console
        key = Key(machine.namespace, machine.name)
        read = partial(self._looker.read_console, machine)
        outside_of_a_pass().run(start, key, machine.metadata.uid, read)
