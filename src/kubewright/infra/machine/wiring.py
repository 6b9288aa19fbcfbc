"""Which changes give a KubewrightMachine a pass.

Theory.      Enqueued by: the object itself; its Machine, by the group and kind of ``infrastructureRef``; its
             Cluster and KubewrightCluster, by the label of the cluster; the Secrets with its data and its
             credentials; the end of a driver call. None of them is polled.
Called by    ``infra.world``.
"""

from collections.abc import Iterable

from kubewright.api.cluster.names import CLUSTER_NAME_LABEL
from kubewright.api.cluster.v1beta1 import MACHINE, Cluster, Machine
from kubewright.api.infra.v1beta1 import KUBEWRIGHT_MACHINE
from kubewright.driver.life.calls import VmCalls
from kubewright.infra.caches import Caches, Shared, owner_key, refers
from kubewright.infra.machine.act import InfraMachines
from kubewright.infra.machine.look import Looker
from kubewright.kube.informer import Change
from kubewright.runtime.controller import Controller, only, spec_or_life, status_alone
from kubewright.wire.gvk import Key


def wire(shared: Shared) -> tuple[Controller, VmCalls]:
    """The controller, listening to everything that a decision looks at; and the calls, to be run."""
    caches, steady = shared.caches, shared.control.steady()
    calls = VmCalls(shared.driver, steady, lambda key: controller.enqueue(key, "the cloud answered"))
    machines = InfraMachines(shared, Looker(shared, calls), calls, steady)
    machines.follow()
    controller = Controller(
        "kubewrightmachine",
        machines,
        shared.clock,
        workers=shared.settings.workers,
        metrics=shared.metrics,
    )
    controller.watches(caches.machines, only(lambda change: not status_alone(change)))
    controller.watches(
        caches.core_machines, only(_owner_differs, lambda change: _machines_of_owner(caches, change))
    )
    controller.watches(
        caches.core_clusters, only(_cluster_differs, lambda change: caches.machines_in(change.key))
    )
    controller.watches(
        caches.clusters, only(spec_or_life, lambda change: _machines_of_cluster(caches, change.key))
    )
    controller.watches(caches.secrets, lambda change: _machines_of_secret(caches, change.key))
    return controller, calls


def _owner_differs(change: Change[Machine]) -> bool:
    """Whether something of a Machine changed that its VM depends on, or its Node has come."""
    before, after = change.before(), change.after()
    if before is None or after is None:
        return True
    return _of_the_vm(before) != _of_the_vm(after)


def _of_the_vm(machine: Machine) -> tuple[object, ...]:
    spec, joined = machine.spec, machine.status.node_ref is not None
    return (
        joined,
        spec.bootstrap,
        spec.cluster_name,
        spec.failure_domain,
        spec.infrastructure_ref,
        spec.version,
    )


def _cluster_differs(change: Change[Cluster]) -> bool:
    """Whether something of a Cluster changed that its VMs depend on: a Cluster has many of them."""
    before, after = change.before(), change.after()
    if before is None or after is None:
        return True
    return (
        before.spec.paused != after.spec.paused
        or before.spec.infrastructure_ref != after.spec.infrastructure_ref
        or bool(before.status.infrastructure_ready) != bool(after.status.infrastructure_ready)
    )


def _machines_of_owner(caches: Caches, change: Change[Machine]) -> Iterable[Key]:
    """The KubewrightMachine that a Machine refers to, or referred to before, if the Machine owns it.

    One that it does not own yet changes when it becomes its own.
    """
    sides = (change.before(), change.after())
    refs = [each.spec.infrastructure_ref for each in sides if each is not None]
    names = dict.fromkeys(ref.name for ref in refs if refers(ref, KUBEWRIGHT_MACHINE))
    for key in (Key(change.key.namespace, name) for name in names):
        found = caches.machines.get(key)
        if found is not None and owner_key(found.metadata, MACHINE) == change.key:
            yield key


def _machines_of_cluster(caches: Caches, cluster: Key) -> Iterable[Key]:
    header = caches.clusters.header(cluster)
    name = header.labels.get(CLUSTER_NAME_LABEL, "") if header is not None else ""
    return caches.machines_in(Key(cluster.namespace, name)) if name else ()


def _machines_of_secret(caches: Caches, secret: Key) -> Iterable[Key]:
    """Those that boot from it, and those whose credentials, their own or their cluster's, are in it."""
    keys = list(caches.machines.keys_by("credentials", str(secret)))
    for machine in caches.core_machines.by("data", str(secret)):
        if refers(machine.spec.infrastructure_ref, KUBEWRIGHT_MACHINE):
            keys.append(Key(secret.namespace, machine.spec.infrastructure_ref.name))
    for cluster in caches.clusters.keys_by("credentials", str(secret)):
        keys.extend(_machines_of_cluster(caches, cluster))
    return dict.fromkeys(keys)
