"""Which MachineClasses and Secrets are in use, for ``runtime.in_use``, which puts finalizers on them.

Theory.      Machines come and go, classes seldom do. So a class keeps its finalizer between two machines,
             and is not written each time. A Secret loses the finalizer with its last class: users often
             delete the whole namespace after Kubewright is uninstalled, and a finalizer that was left would
             block that. A class that is deleted goes with its last machine, although VMs of it
             may be suspect (``machines.orphans``): a driver that cannot delete them would keep it for ever.
Called by    ``machines.world``.
"""

from collections.abc import Iterable

from kubewright.api.machine import names
from kubewright.api.machine.v1alpha1 import Machine, MachineClass
from kubewright.kube.informer import Change
from kubewright.machines.caches import Shared, class_key, secret_keys
from kubewright.runtime.controller import Controller, spec_or_existence
from kubewright.runtime.in_use import InUse
from kubewright.wire.gvk import Key


def wire(shared: Shared) -> tuple[Controller, Controller]:
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
