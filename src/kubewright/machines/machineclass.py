"""MachineClasses and their Secrets: they stay while machines need them, and a class says if it is accepted.

Theory.      A VM can only be deleted with the class and the credentials it was made with. So a MachineClass
             carries our finalizer while machines refer to it, and a Secret carries one while a class does
             (``runtime.in_use``). Deleted too early, they wait in deletion until no machine needs them.
             Machines come and go, classes seldom do: a class keeps its finalizer between two machines, and is
             not written each time. A Secret loses the finalizer with its last class: users often delete the
             whole namespace after Kubewright is uninstalled, and a finalizer that was left would block that.
             A class that is deleted goes with its last machine, although VMs of it may be suspect
             (``machines.orphans``): a driver that cannot delete them would keep it for ever.
             A typo in a providerSpec is told on each machine that the driver refuses. It can be told earlier:
             the rules of the API are known, and a driver that offers it is asked
             (``driver.contract.Validates``) whenever class or Secrets change, at each start, and ``AGAIN``
             after each no. The answer is the condition Accepted, and an event when it is no.
             A class that nothing ever spoke against has no condition: then nothing is written. A Secret that
             is missing speaks against it, whatever the driver: its machines wait for it. The condition is
             Unknown then, since nothing but the Secret may be wrong, and an event says it as loudly as a no.
             Whether the VMs of its machines have what it says is another condition, Applied
             (``machine.applied``), which is looked at whenever the class changes, at each start, and
             ``AGAIN_APPLIED`` after a no or where the driver cannot say what it changes.
             The call is awaited by a worker of this controller, which has no other work.
Invariants.  One write when the first user appears, none while there are others. Secrets are compared by
             namespace and name.
             Nothing is decided by the condition: machines ask the driver themselves. What passes by itself (a
             driver that cannot be reached) says nothing of the class. A Secret's content is in no message.
Called by    ``machines.world``.
"""

from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

import structlog
from msgspec import structs

from kubewright.api.conditions import condition_of, dated
from kubewright.api.diff import merge_patch
from kubewright.api.faults import summary
from kubewright.api.machine import names
from kubewright.api.machine.names import CLASS_ACCEPTED, CLASS_APPLIED, ClassReason, EventReason, NotApplied
from kubewright.api.machine.v1alpha1 import (
    MACHINE_CLASS,
    Machine,
    MachineClass,
    MachineClassCondition,
    MachineClassStatus,
)
from kubewright.api.machine.validate import validate_class
from kubewright.driver.contract import ClassRequest
from kubewright.driver.errors import DriverError, Unimplemented
from kubewright.driver.registry import RoutedDriver
from kubewright.kube.informer import Change
from kubewright.kube.patches import onto
from kubewright.machines.caches import Shared, class_key, secret_keys
from kubewright.machines.machine.applied import condition
from kubewright.runtime.controller import Controller, only, spec_or_existence, spec_or_life
from kubewright.runtime.in_use import InUse
from kubewright.runtime.kernel import unless_refused
from kubewright.runtime.result import Result
from kubewright.wire.errors import NotFound
from kubewright.wire.gvk import Key

WORKERS = 4

log = structlog.get_logger(__name__)

AGAIN_APPLIED = timedelta(minutes=1)
"""When machines are looked at again that lack what their class says: they may have been replaced."""
AGAIN = timedelta(minutes=10)
"""When a driver is asked again that has refused a class: what it refused may be mended in the cloud."""


class Acceptance:
    """The reconciler of the condition. ``driver`` has guarded ones."""

    def __init__(self, shared: Shared, driver: RoutedDriver) -> None:
        self._told: dict[Key, str] = {}
        """What was told last of what its machines lack, by class: the server may not keep conditions."""
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
            self._told.pop(key, None)
            return Result.done()
        applied = self._applied(found)
        wanted = await self._judged(found)
        status = status_after(found.status, wanted, self._clock.now())
        if applied is not None:
            status = status_after(status, applied, self._clock.now())
        patch = merge_patch(found.status, status)
        refused = wanted is not None and wanted.status == "False"
        if patch and wanted is not None and wanted.status != "True":
            self._recorder.event(found, EventReason.FAILED_VALIDATION, wanted.message, warning=True)
        result = Result.later(AGAIN) if refused else Result.done()
        if applied is None or applied.status == "False":
            result = result.sooner(Result.later(AGAIN_APPLIED))
        if not patch:
            return result
        return result.sooner(await unless_refused(self._write(found, patch), found, self._recorder))

    def _applied(self, found: MachineClass) -> MachineClassCondition | None:
        """Whether its machines have what it says, which is told when it is news; None: it is not known."""
        key = Key(found.namespace, found.name)
        told = condition(found, self._caches.machines.by("class", str(key)), self._driver.hot_fields)
        if told is None:
            return None
        if told.status != "False":
            self._told.pop(key, None)
            return told
        known = condition_of(found.status.conditions, CLASS_APPLIED)
        if told.message not in (self._told.get(key), known.message if known is not None else None):
            self._recorder.event(found, EventReason.CLASS_NOT_APPLIED, told.message, warning=True)
            tell = log.error if told.reason == NotApplied.NO_UPDATES else log.warning  # HOT-01: an error
            tell(told.message, machine_class=str(key), reason=told.reason)
        self._told[key] = told.message
        return told

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
    kind = wanted.type if wanted is not None else CLASS_ACCEPTED
    known = condition_of(before.conditions, kind)
    others = tuple(each for each in before.conditions if each.type != kind)
    if wanted is None:
        stale = known is not None and known.status != "True"
        return structs.replace(before, conditions=others) if stale else before
    if known is None and wanted.status == "True":
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


def wire_in_use(shared: Shared) -> tuple[Controller, Controller]:
    """The two controllers, listening to what uses a class and what uses a secret."""
    caches, clock, metrics = shared.caches, shared.clock, shared.metrics
    machines, classes, secrets = caches.machines, caches.classes, caches.secrets

    def class_is_used(key: Key) -> bool:
        return machines.count_by("class", str(key)) > 0

    def secret_is_used(key: Key) -> bool:
        return classes.count_by("secret", str(key)) > 0

    own = (shared.control, shared.recorder)
    of_classes = InUse(*own, classes, class_is_used, names.FINALIZER, lingers=True)
    of_secrets = InUse(*own, secrets, secret_is_used, names.SECRET_FINALIZER, lingers=False)
    return (
        Controller("machineclass", of_classes, clock, workers=2, metrics=metrics)
        .watches(classes, of_classes.to_keys)
        .watches(machines, _class_of),
        Controller("secret", of_secrets, clock, workers=2, metrics=metrics)
        .watches(secrets, of_secrets.to_keys)
        .watches(classes, _secrets_of),
    )


def _class_of(change: Change[Machine]) -> Iterable[Key]:
    """A machine's class, when the machine appears, goes, or changes class."""
    if not spec_or_existence(change):
        return ()
    before, after = (class_key(machine) if machine else None for machine in (change.before(), change.after()))
    return {key for key in (before, after) if key is not None} if before != after else ()


def _secrets_of(change: Change[MachineClass]) -> Iterable[Key]:
    both = (found for found in (change.before(), change.after()) if found is not None)
    return {key for found in both for key in secret_keys(found)}
