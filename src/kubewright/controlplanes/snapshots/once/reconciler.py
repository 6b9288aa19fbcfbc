"""The reconciler of objects that are carried out once: one pass is look, decide, act, report.

Theory.      A policy is what differs between the kinds. A step that fails is reported in the status and by an
             event, and tried again as its error says: also where that waits for a change, since what a user
             mends on a machine or in a store changes no object.
Invariants.  Every write names the uid and the version of the object that was read. The deletion of an object
             is tried again in time, whatever the error says.
Called by    ``taking.reconciler`` and ``restoring.reconciler``, which make its policies.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Generic, Protocol, TypeVar

from kubewright.api.controlplane.names import FINALIZER
from kubewright.api.kinds import Kind
from kubewright.base import delays
from kubewright.base.errors import KubewrightError
from kubewright.base.plan import Event
from kubewright.controlplanes.snapshots.once.decide import AddFinalizer, Plan, RemoveFinalizer, Seen
from kubewright.kube.client import Client
from kubewright.kube.errors import TransportError
from kubewright.kube.informer import Informer
from kubewright.runtime.events import ComponentRecorder
from kubewright.runtime.passes import planned
from kubewright.runtime.refused import unless_refused
from kubewright.runtime.result import Result
from kubewright.runtime.writer import Writer
from kubewright.wire.errors import ApiError
from kubewright.wire.gvk import Key

S = TypeVar("S", bound=Seen[Any])


class Policy(Protocol[S]):
    """What is particular to one kind. ``found``: its objects, from the cache."""

    kind: Kind[Any]
    found: Informer[Any]

    def look(self, found: Any) -> S:
        """Read one object, and what it depends on."""
        ...

    def decide(self, seen: S) -> Plan[Any]:
        """What to do now. Pure."""
        ...

    async def perform(self, seen: S, step: Any) -> S:
        """Perform one step of its own; what is seen after it.

        Raises:
            KubewrightError: it did not work this time.
        """
        ...

    def status_of(self, seen: S) -> Any:
        """The status, as it is to be written. Pure."""
        ...

    def events(self, seen: S, status: Any, plan: Plan[Any]) -> Iterable[Event]:
        """What users are told when this status is written. Pure."""
        ...


class StepFailed(KubewrightError):
    """A step failed; it is tried again as its error says, and in time."""

    def __init__(self, error: KubewrightError) -> None:
        super().__init__(str(error))
        self.retry = delays.in_time(error.retry)


class Once(Generic[S]):
    """Carries out the objects of one kind."""

    def __init__(self, client: Client, recorder: ComponentRecorder, policy: Policy[S]) -> None:
        self._writer = Writer(client, policy.kind, FINALIZER)
        self._recorder = recorder
        self._policy = policy

    async def reconcile(self, key: Key) -> Result:
        """One pass.

        Raises:
            ApiError, TransportError: the API server said no for now, or could not be asked.
            StepFailed: a step did not work this time.
        """
        found = self._policy.found.get(key)
        if found is None:
            return Result.done()
        return await unless_refused(self._pass(found), found, self._recorder)

    async def _pass(self, found: Any) -> Result:
        seen = self._policy.look(found)
        plan = self._policy.decide(seen)
        planned(plan)
        for step in plan.steps:
            try:
                seen = await self._step(seen, step)
            except (ApiError, TransportError):
                raise
            except KubewrightError as error:
                await self._report(replace(seen, failed=str(error)), plan)
                if found.metadata.deleting:
                    return Result.later(delays.UNHEARD)
                raise StepFailed(error) from error
        await self._report(seen, plan)
        return Result.later(plan.wake)

    async def _step(self, seen: S, step: Any) -> S:
        meta = seen.found.metadata
        match step:
            case AddFinalizer():
                await self._writer.add_finalizer(meta)
            case RemoveFinalizer():
                await self._writer.remove_finalizer(meta)
            case _:
                return await self._policy.perform(seen, step)
        return seen

    async def _report(self, seen: S, plan: Plan[Any]) -> None:
        """Write the status, if it has changed, and send events about it."""
        if plan.silent and not seen.failed:
            return
        found, status = seen.found, self._policy.status_of(seen)
        await self._writer.report(found.metadata, found.status, status)
        for each in self._policy.events(seen, status, plan):
            self._recorder.event(found, each.reason, each.message, warning=each.warning)
        if seen.failed:
            self._recorder.event(found, "Failed", seen.failed, warning=True)
