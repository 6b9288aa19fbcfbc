"""Perform the plan of one KubewrightMachine: its steps, then its status.

Theory.      Steps run in order and stop at the first failure; the status is written after them, in one patch,
             when it says something new. Every patch carries uid and version of what was seen: a later object
             of the same name is never touched.
Invariants.  No PUT. No step waits for a driver. Once the finalizer is off nothing more is written.
Called by    ``reconciler.InfraMachines``.
"""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, assert_never

import structlog

from kubewright.api.diff import merge_patch
from kubewright.api.infra.names import CLOUD_OWNER_ANNOTATION, MACHINE_COMPONENT, MACHINE_FINALIZER
from kubewright.api.infra.v1beta1 import KUBEWRIGHT_MACHINE
from kubewright.api.meta import ObjectMeta, with_finalizer, without_finalizer
from kubewright.driver.life.calls import VmCalls
from kubewright.driver.life.seen import Verb
from kubewright.infra.caches import Shared
from kubewright.infra.machine.look import Looker
from kubewright.infra.machine.observe import Seen
from kubewright.infra.machine.status import machine_status
from kubewright.infra.machine.steps import AddFinalizer, Call, Plan, Record, RemoveFinalizer, Step
from kubewright.kube.patches import onto
from kubewright.runtime.events import ComponentRecorder
from kubewright.runtime.result import Result
from kubewright.wire.errors import NotFound
from kubewright.wire.gvk import Key

log = structlog.get_logger(__name__)


class Actor:
    """Performs plans."""

    def __init__(self, shared: Shared, looker: Looker, calls: VmCalls) -> None:
        self._control = shared.control
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
        if plan.told is not None and (changed or plan.report is None):
            told = plan.told
            log.info(told.message, reason=told.reason.value, machine=seen.machine.name)
            self._recorder.event(seen.machine, told.reason, told.message, warning=told.warning)
        return Result.later(plan.wake)

    async def _perform(self, seen: Seen, step: Step, meta: ObjectMeta) -> ObjectMeta:
        """Perform one step; the object's metadata after it."""
        match step:
            case AddFinalizer(owner):
                added = with_finalizer(meta.finalizers, MACHINE_FINALIZER)
                known = {CLOUD_OWNER_ANNOTATION: owner}
                return await self._patch(meta, {"metadata": {"finalizers": added, "annotations": known}})
            case Call(verb):
                self._call(seen, verb)
            case Record(found, place):
                spec = {"providerID": found.provider_id, **({"failureDomain": place} if place else {})}
                return await self._patch(meta, {"spec": spec})
            case RemoveFinalizer():
                left = without_finalizer(meta.finalizers, MACHINE_FINALIZER)
                with suppress(NotFound):
                    return await self._patch(meta, {"metadata": {"finalizers": left or None}})
            case _:
                assert_never(step)
        return meta

    async def _report(self, seen: Seen, plan: Plan, latest: ObjectMeta) -> bool:
        """Write the status if it differs from the one on the server; whether it did."""
        if seen.paused:
            return False
        after = machine_status(seen, plan.report, self._clock.now())
        patch = merge_patch(seen.machine.status, after)
        if patch:
            await self._patch(latest, {"status": patch}, subresource="status")
        return bool(patch)

    async def _patch(self, meta: ObjectMeta, body: Mapping[str, Any], **how: Any) -> ObjectMeta:
        key = Key(meta.namespace, meta.name)
        return (await self._control.patch(KUBEWRIGHT_MACHINE, key, onto(body, meta), **how)).metadata

    def _call(self, seen: Seen, verb: Verb) -> None:
        machine, state = seen.machine, seen.status.last_known_state
        key = Key(machine.namespace, machine.name)

        async def ask() -> Any:
            return self._looker.request(machine, verb, state)

        self._calls.start(key, machine.metadata.uid, verb, ask, inputs=seen.inputs)
