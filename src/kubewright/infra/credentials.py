"""Secrets with credentials stay while KubewrightClusters and KubewrightMachines name them.

Theory.      A VM can only be deleted with credentials. A machine that takes its cluster's needs no more: the
             KubewrightCluster stays until its machines are gone (``cluster.decide``), and names them.
             A template makes no VM, so a Secret that only templates name may go.
Called by    ``infra.world``.
"""

from collections.abc import Iterable

from kubewright.api.infra.names import SECRET_FINALIZER
from kubewright.api.infra.v1beta1 import KubewrightCluster, KubewrightMachine
from kubewright.infra.caches import Shared, credentials_of
from kubewright.kube.informer import Change
from kubewright.runtime.controller import Controller, only, spec_or_existence
from kubewright.runtime.in_use import InUse
from kubewright.wire.gvk import Key

WORKERS = 2


def wire(shared: Shared) -> Controller:
    """The controller, listening to Secrets and to what names them."""
    caches = shared.caches

    def used(key: Key) -> bool:
        return any(each.count_by("credentials", str(key)) for each in (caches.machines, caches.clusters))

    secrets = InUse(shared.control, shared.recorder, caches.secrets, used, SECRET_FINALIZER, lingers=False)
    controller = Controller(
        "kubewrightcredentials", secrets, shared.clock, workers=WORKERS, metrics=shared.metrics
    )
    controller.watches(caches.secrets, secrets.to_keys)
    controller.watches(caches.machines, only(spec_or_existence, _named))
    controller.watches(caches.clusters, only(spec_or_existence, _named))
    return controller


def _named(change: Change[KubewrightMachine] | Change[KubewrightCluster]) -> Iterable[Key]:
    """The Secret that an object names, when the object comes, goes, or names another."""
    before, after = (
        credentials_of(found.metadata, found.spec) if found is not None else None
        for found in (change.before(), change.after())
    )
    return {key for key in (before, after) if key is not None} if before != after else ()
