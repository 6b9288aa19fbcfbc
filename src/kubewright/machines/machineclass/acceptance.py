"""Say on a MachineClass whether its driver would make machines of it, before there is one.

Theory.      A typo in a providerSpec is told on each machine that the driver refuses. It can be told earlier:
             the rules of the API are known, and a driver that offers it is asked
             (``driver.contract.Validates``) whenever class or Secrets change, at each start, and ``AGAIN``
             after each no. The answer is the condition Accepted, and an event when it is no.
             A class that nothing ever spoke against has no condition: then nothing is written. One that has
             it says, too, that a Secret is missing: then it is Unknown what the driver would say.
             The call is awaited by a worker of this controller, which has no other work.
Invariants.  Nothing is decided by the condition: machines ask the driver themselves. What passes by itself (a
             driver that cannot be reached) says nothing of the class. A Secret's content is in no message.
Called by    ``machines.world``.
"""

from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

from msgspec import structs

from kubewright.api.conditions import condition_of, dated
from kubewright.api.diff import merge_patch
from kubewright.api.faults import summary
from kubewright.api.machine.names import CLASS_ACCEPTED, ClassReason, EventReason
from kubewright.api.machine.v1alpha1 import (
    MACHINE_CLASS,
    MachineClass,
    MachineClassCondition,
    MachineClassStatus,
)
from kubewright.api.machine.validate import validate_class
from kubewright.driver.contract import ClassRequest
from kubewright.driver.errors import DriverError, Unimplemented
from kubewright.driver.routing import RoutedDriver
from kubewright.kube.patches import onto
from kubewright.machines.machine.caches import Shared
from kubewright.runtime.controller import Controller
from kubewright.runtime.mapping import only, spec_or_life
from kubewright.runtime.refused import unless_refused
from kubewright.runtime.result import Result
from kubewright.wire.errors import NotFound
from kubewright.wire.gvk import Key

WORKERS = 4

AGAIN = timedelta(minutes=10)
"""When a driver is asked again that has refused a class: what it refused may be mended in the cloud."""


class Acceptance:
    """The reconciler of the condition. ``driver`` has guarded ones."""

    def __init__(self, shared: Shared, driver: RoutedDriver) -> None:
        self._caches = shared.caches
        self._client = shared.control
        self._recorder = shared.recorder
        self._clock = shared.clock
        self._driver = driver

    async def reconcile(self, key: Key) -> Result:
        """One pass.

        Raises:
            DriverError: the driver could not answer now.
            ApiError, TransportError: the API server said no for now, or could not be asked.
        """
        found = self._caches.classes.get(key)
        if found is None or found.metadata.deleting:
            return Result.done()
        wanted = await self._judged(found)
        status = status_after(found.status, wanted, self._clock.now())
        patch = merge_patch(found.status, status)
        refused = wanted is not None and wanted.status == "False"
        if patch and wanted is not None and refused:
            self._recorder.event(found, EventReason.FAILED_VALIDATION, wanted.message, warning=True)
        result = Result.later(AGAIN) if refused else Result.done()
        if not patch:
            return result
        return result.sooner(await unless_refused(self._write(found, patch), found, self._recorder))

    async def _judged(self, found: MachineClass) -> MachineClassCondition | None:
        """What is to be said of the class; None: its driver says nothing before it makes machines."""
        if errors := validate_class(found):
            return _condition("False", ClassReason.INVALID_CLASS, summary(errors))
        seen = self._caches.with_secrets(found)
        if seen.problem:
            return _condition("Unknown", ClassReason.SECRET_MISSING, seen.problem)
        try:
            await self._driver.validate(ClassRequest(found, seen.secret))
        except Unimplemented:
            return None
        except DriverError as error:
            if not error.refuses:
                raise
            return _condition("False", error.code.name, error.message)
        return _condition("True", ClassReason.ACCEPTED, "")

    async def _write(self, found: MachineClass, patch: dict[str, Any]) -> Result:
        key, body = Key(found.namespace, found.name), onto({"status": patch}, found.metadata)
        with suppress(NotFound):  # it is gone; or the server has upstream's CRD, and the event has said it
            await self._client.patch(MACHINE_CLASS, key, body, subresource="status")
        return Result.done()


def status_after(
    before: MachineClassStatus, wanted: MachineClassCondition | None, now: datetime
) -> MachineClassStatus:
    """The status that says so; where nothing spoke against a class, and nothing does, it says nothing. So it
    does of one that no driver can judge any more (None). Pure."""
    known = condition_of(before.conditions, CLASS_ACCEPTED)
    others = tuple(each for each in before.conditions if each.type != CLASS_ACCEPTED)
    if wanted is None:
        stale = known is not None and known.status == "False"
        return structs.replace(before, conditions=others) if stale else before
    if known is None and wanted.status != "False":
        return before
    fresh = dated(structs.replace(wanted, last_transition_time=now), known)
    return structs.replace(before, conditions=(*others, fresh))


def wire(shared: Shared, driver: RoutedDriver) -> Controller:
    """The controller, listening to classes and to their Secrets."""
    caches = shared.caches

    def of_secret(change: Any) -> Iterable[Key]:
        return caches.classes.keys_by("secret", str(change.key))

    return (
        Controller(
            "classacceptance",
            Acceptance(shared, driver),
            shared.clock,
            workers=WORKERS,
            metrics=shared.metrics,
        )
        .watches(caches.classes, only(spec_or_life))
        .watches(caches.secrets, of_secret)
    )


def _condition(status: str, reason: str, message: str) -> MachineClassCondition:
    return MachineClassCondition(type=CLASS_ACCEPTED, status=status, reason=reason, message=message)
