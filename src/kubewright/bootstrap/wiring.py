"""Which changes give a KubeadmConfig a pass.

Theory.      Everything that a decision waits for enqueues the KubeadmConfig when it changes: the Machine, the
             Cluster (infrastructure, control plane, endpoint, pause), Secrets with certificates, the init
             lock, the beginning of a session with the workload cluster, the end of a call. Upstream polls for
             some of these every 30 s, so each of its clusters waits half a minute before machines join.
Invariants.  Of a Machine's status only its node enqueues anything, of a Cluster's only what is waited for.
Called by    ``world``.
"""

from collections.abc import Iterable
from typing import Any

from kubewright.api.bootstrap.names import lock_name
from kubewright.api.cluster.conditions import ConditionType
from kubewright.api.cluster.names import CLUSTER_NAME_LABEL, CONTROL_PLANE_LABEL
from kubewright.api.cluster.v1beta1 import Cluster, Machine
from kubewright.api.conditions import is_condition_true
from kubewright.api.core import ConfigMap
from kubewright.bootstrap.act import KubeadmConfigs
from kubewright.bootstrap.look import BY_CLUSTER, Caches, Looker, cluster_of, config_of, owner_of
from kubewright.bootstrap.seen import BootstrapSettings
from kubewright.bootstrap.token_calls import TokenCalls
from kubewright.kube.informer import Change
from kubewright.pki.credentials import Purpose, secret_name
from kubewright.runtime.controller import Controller, in_order
from kubewright.runtime.sessions.lending import Workloads
from kubewright.runtime.sessions.session import Listener, Session
from kubewright.runtime.world import Environment
from kubewright.wire.gvk import Key


class Wakes:
    """Which KubeadmConfigs a change enqueues."""

    def __init__(self, caches: Caches, looker: Looker) -> None:
        self._caches = caches
        self._looker = looker

    def of_cluster(self, cluster: Key, *, control_plane: bool = False) -> set[Key]:
        """Those of the machines of a cluster, or of its control plane, that wait: their machine has no node,
        or their status was lost in a move, where the node may be found first."""
        found = set()
        for machine in self._caches.machines.by(BY_CLUSTER, str(cluster)):
            ours = not control_plane or CONTROL_PLANE_LABEL in machine.metadata.labels
            if ours and (key := config_of(machine)) is not None and self._waits(machine, key):
                found.add(key)
        return found

    def _waits(self, machine: Machine, key: Key) -> bool:
        if machine.status.node_ref is None:
            return True
        config = self._caches.configs.get(key)
        return config is not None and not config.status.ready

    def by_machine(self, change: Change[Machine]) -> Iterable[Key]:
        """Its own; of a control plane machine that is gone also the others': it may have held the lock.

        One that the machine does not own yet changes when it becomes its own.
        """
        before, after = change.before(), change.after()
        machine = after or before
        if machine is None:
            return ()
        named = {key for each in (before, after) if each is not None and (key := config_of(each)) is not None}
        keys = {key for key in named if self._concerns(key, change.key, before, after)}
        gone = after is None and CONTROL_PLANE_LABEL in machine.metadata.labels
        return keys | (self.of_cluster(cluster_of(machine), control_plane=True) if gone else set())

    def _concerns(self, key: Key, machine: Key, before: Machine | None, after: Machine | None) -> bool:
        """Whether a decision about a KubeadmConfig could tell a machine from what it was."""
        config = self._caches.configs.get(key)
        if config is None or owner_of(config) != machine:
            return False
        has_data = config.status.ready and config.status.data_secret_name is not None
        return before is None or after is None or _differ(before, after, has_data=has_data)

    def by_cluster(self, change: Change[Cluster]) -> Iterable[Key]:
        """All that wait for what changed in the Cluster; also the lock's holder, which may have a node."""
        before, after = change.before(), change.after()
        if after is None:
            self._looker.forget_cluster(change.key)
            return ()
        if before is not None and _awaited(before) == _awaited(after):
            return ()
        return self.of_cluster(change.key) | self._holder(change.key)

    def _holder(self, cluster: Key) -> set[Key]:
        """Those of the control plane, if there is an init lock: its holder has to release it."""
        if self._caches.locks.header(Key(cluster.namespace, lock_name(cluster.name))) is None:
            return set()
        machines = self._caches.machines.by(BY_CLUSTER, str(cluster))
        planes = [each for each in machines if CONTROL_PLANE_LABEL in each.metadata.labels]
        return {key for each in planes if (key := config_of(each)) is not None}

    def by_secret(self, change: Change[Any]) -> Iterable[Key]:
        """Those whose data Secret is gone, another's or changed; of a certificate, all that wait for its
        cluster. That ours was made is no news."""
        header = change.new or change.old
        if header is None:
            return ()
        cluster = header.labels.get(CLUSTER_NAME_LABEL, "")
        if change.key.name in {secret_name(cluster, purpose) for purpose in Purpose}:
            return self.of_cluster(Key(change.key.namespace, cluster))
        known = self._caches.configs.header(change.key)
        if known is None:
            return ()
        made = change.old is None and change.new is not None and change.new.owner_uid == known.uid
        return () if made else (change.key,)

    def by_lock(self, change: Change[ConfigMap]) -> Iterable[Key]:
        """Those of the control plane, when its init lock is gone."""
        old = change.old
        cluster = old.labels.get(CLUSTER_NAME_LABEL, "") if old is not None else ""
        if change.new is not None or change.key.name != lock_name(cluster):
            return ()
        return self.of_cluster(Key(change.key.namespace, cluster), control_plane=True)


def _differ(before: Machine, after: Machine, *, has_data: bool) -> bool:
    """Whether a decision could tell the two apart.

    Once the data is there, its token is kept until the machine has joined: neither that the machine has taken
    the data nor that it has joined needs a pass.
    """

    def lasting(machine: Machine) -> tuple[object, ...]:
        meta, spec = machine.metadata, machine.spec
        return meta.labels, meta.deleting, spec.cluster_name, spec.version, spec.failure_domain

    def before_data(machine: Machine) -> tuple[object, ...]:
        return machine.spec.bootstrap, machine.status.node_ref is None

    left = before.status.node_ref is not None and after.status.node_ref is None
    waits = not has_data and before_data(before) != before_data(after)
    return left or waits or lasting(before) != lasting(after)


def _awaited(cluster: Cluster) -> tuple[object, ...]:
    """What a KubeadmConfig may wait for in its Cluster."""
    initialized = is_condition_true(cluster.status.conditions, ConditionType.CONTROL_PLANE_INITIALIZED.value)
    ready = bool(cluster.status.infrastructure_ready)
    return cluster.spec, ready, initialized


def wire(
    environment: Environment, workloads: Workloads, settings: BootstrapSettings
) -> tuple[Controller, TokenCalls]:
    """The controller of KubeadmConfigs, listening to everything that a decision looks at."""
    informers, clock = environment.control.caches, environment.clock
    caches = Caches(informers)
    token_calls = TokenCalls(
        workloads, clock, settings.token_ttl, lambda key: controller.enqueue(key, "its token was looked at")
    )
    looker = Looker(informers, caches, token_calls, settings)
    wakes = Wakes(caches, looker)
    configs = KubeadmConfigs(informers.client, caches.configs, environment.recorder, looker, token_calls)
    controller = Controller(
        "kubeadmconfig", configs, clock, workers=settings.workers, metrics=environment.metrics
    )
    controller.watches(caches.configs, configs.reports.matters)
    controller.watches(caches.machines, wakes.by_machine)
    controller.watches(caches.clusters, wakes.by_cluster)
    controller.watches(caches.secrets, wakes.by_secret)
    controller.watches(caches.locks, wakes.by_lock)

    def woken(session: Session) -> None:
        for key in in_order(wakes.of_cluster(session.cluster)):
            controller.enqueue(key, f"cluster {session.cluster} is connected")

    workloads.subscribe(Listener(woken, lambda _session, _because: None))
    return controller, token_calls
