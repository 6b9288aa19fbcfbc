"""How the controllers of infrastructure are put together, for one term.

Invariants.  The controllers of one term share their caches, their calls in flight and the guards of drivers.
Credentials. Secrets with credentials stay while KubewrightClusters and KubewrightMachines name them: a VM can
             only be deleted with them. A machine that takes its cluster's needs no more: the
             KubewrightCluster stays until its machines are gone (``cluster.decide``), and names them.
             A template makes no VM, so a Secret that only templates name may go.
Called by    ``infra.world``, which is imported without it: a program that only lists controllers wires none.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

from kubewright.api.infra.names import SECRET_FINALIZER
from kubewright.api.infra.v1beta1 import KubewrightCluster, KubewrightMachine
from kubewright.driver.contract import Driver, Leading
from kubewright.driver.guard import Listener, guarded
from kubewright.driver.registry import RoutedDriver
from kubewright.infra import template
from kubewright.infra.caches import Caches, Shared, credentials_of
from kubewright.infra.cluster import wiring as cluster
from kubewright.infra.machine import wiring as machine
from kubewright.infra.orphans import vms
from kubewright.infra.settings import InfraSettings
from kubewright.kube.informer import Change
from kubewright.runtime.controller import Controller, only, spec_or_existence
from kubewright.runtime.in_use import InUse
from kubewright.runtime.manager import Runnable
from kubewright.runtime.world import Environment, Runnables
from kubewright.wire.gvk import Key


def wire(
    environment: Environment,
    chosen: Sequence[str],
    drivers: Mapping[str, Driver],
    *,
    own: str,
    on_call: Callable[[str], Listener],
    settings: InfraSettings,
) -> Runnables:
    """The controllers of these names; the others as ``world`` has them."""
    behind = guarded(drivers, environment.clock, on_call, environment.entitled)
    shared = Shared(
        environment.control.client,
        Caches(environment.control.caches),
        RoutedDriver(behind, own),
        environment.recorder,
        environment.clock,
        settings,
        environment.metrics,
    )
    clusters, endpoint_calls = cluster.wire(shared)
    machines, vm_calls = machine.wire(shared)
    others = (template.wire(shared), credentials(shared), vms.wire(shared, vm_calls))
    made = (clusters, machines, *others)
    leading = [each.lead for each in drivers.values() if isinstance(each, Leading)]
    background: list[Runnable] = [endpoint_calls.run, vm_calls.run, *leading]
    return Runnables([each for each in made if each.name in chosen], background)


def credentials(shared: Shared) -> Controller:
    """The controller that keeps Secrets, listening to them and to what names them."""
    caches = shared.caches

    def used(key: Key) -> bool:
        return any(each.count_by("credentials", str(key)) for each in (caches.machines, caches.clusters))

    secrets = InUse(shared.control, shared.recorder, caches.secrets, used, SECRET_FINALIZER, lingers=False)
    controller = Controller("kubewrightcredentials", secrets, shared.clock, workers=2, metrics=shared.metrics)
    controller.watches(caches.secrets, secrets.to_keys)
    controller.watches(caches.machines, only(spec_or_existence, _secrets_of))
    controller.watches(caches.clusters, only(spec_or_existence, _secrets_of))
    return controller


def _secrets_of(change: Change[KubewrightMachine] | Change[KubewrightCluster]) -> Iterable[Key]:
    """The Secret that an object names, when the object comes, goes, or names another."""
    before, after = (
        credentials_of(found.metadata, found.spec) if found is not None else None
        for found in (change.before(), change.after())
    )
    return {key for key in (before, after) if key is not None} if before != after else ()
