"""Perform the plan of one KubewrightMachine: its steps, then its status.

Theory.      Steps run in order and stop at the first failure; the status is written after them, in one patch,
             when it says something new. Every patch carries uid and version of what was seen: a later object
             of the same name is never touched.
Invariants.  No PUT. No step waits for a driver. Once the finalizer is off nothing more is written.
Called by    ``reconciler.InfraMachines``.
"""

from functools import partial
from typing import Any, assert_never

import structlog

from kubewright.api.infra.names import CLOUD_OWNER_ANNOTATION, MACHINE_COMPONENT, MACHINE_FINALIZER
from kubewright.api.infra.v1beta1 import KUBEWRIGHT_MACHINE
from kubewright.api.meta import ObjectMeta
from kubewright.driver.life.calls import VmCalls
from kubewright.driver.life.seen import Verb
from kubewright.infra.caches import Shared
from kubewright.infra.machine.look import Looker
from kubewright.infra.machine.seen import Seen
from kubewright.infra.machine.status import machine_status
from kubewright.infra.machine.steps import (
    AddFinalizer,
    Call,
    Plan,
    ReadConsole,
    Record,
    RemoveFinalizer,
    Step,
)
from kubewright.kube.patches import outside_of_a_pass
from kubewright.runtime.events import ComponentRecorder
from kubewright.runtime.result import Result
from kubewright.runtime.writer import Writer
from kubewright.wire.gvk import Key

log = structlog.get_logger(__name__)


class Actor:
    """Performs plans."""

    def __init__(self, shared: Shared, looker: Looker, calls: VmCalls) -> None:
        self._writer = Writer(shared.control, KUBEWRIGHT_MACHINE, MACHINE_FINALIZER)
        self._clock = shared.clock
        self._recorder = ComponentRecorder(shared.recorder, MACHINE_COMPONENT)
        self._looker = looker
        self._calls = calls

    async def perform(self, seen: Seen, plan: Plan) -> Result:
        """All steps, then the status.

        Raises:
            ApiError, TransportError: the API server refused, or could not be reached.
        """
        latest = seen.machine.metadata
        for step in plan.steps:
            latest = await self._perform(seen, step, latest)
        released = any(isinstance(step, RemoveFinalizer) for step in plan.steps)
        changed = False if released else await self._report(seen, plan, latest)
        if (event := plan.tells(changed=changed)) is not None:
            log.info(event.message, reason=event.reason.value, machine=seen.machine.name)
            self._recorder.event(seen.machine, event.reason, event.message, warning=event.warning)
        return Result.later(plan.wake)

    async def _perform(self, seen: Seen, step: Step, meta: ObjectMeta) -> ObjectMeta:
        """Perform one step; the object's metadata after it."""
        match step:
            case AddFinalizer(owner):
                return await self._writer.add_finalizer(meta, annotations={CLOUD_OWNER_ANNOTATION: owner})
            case Call(verb):
                self._call(seen, verb)
            case Record(found, place):
                spec = {"providerID": found.provider_id, **({"failureDomain": place} if place else {})}
                return await self._writer.patch(meta, {"spec": spec})
            case ReadConsole():
                self._read_console(seen)
            case RemoveFinalizer():
                return await self._writer.remove_finalizer(meta)
            case _:
                assert_never(step)
        return meta

    async def _report(self, seen: Seen, plan: Plan, latest: ObjectMeta) -> bool:
        """Write the status if it differs from the one on the server; whether it did."""
        if seen.paused:
            return False
        after = machine_status(seen, plan.report, self._clock.now())
        return await self._writer.report(latest, seen.machine.status, after)

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
