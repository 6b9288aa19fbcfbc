"""The controllers that a cluster runs beside its API server, as far as the embedded server needs them.

``CONTROLLERS`` lists them. They are ordinary controllers over the client and its informers, know nothing of
the embedded server, and must not run where a kube-controller-manager or a kube-scheduler does. At rest none
of them makes a request.

``apps``         Deployments and ReplicaSets: policies of ``replicas``
``scheduling``   the scheduler
``nodelife``     silent nodes, taints that evict, Pods of nodes that are gone
``disruption``   how many Pods a PodDisruptionBudget lets go (pure); ``budgets`` reads and writes them
``garbage``      objects whose owners are gone
``namespaces``   what each namespace is given, and how one is emptied
``joining``      cluster-info, bootstrap tokens, requests for certificates
``aggregation``  the rules of aggregated ClusterRoles
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from kubewright.api.apps import DEPLOYMENT, REPLICA_SET
from kubewright.api.certificates import SIGNING_REQUEST
from kubewright.api.core import CLUSTER_ROLE, LEASE, NAMESPACE, NODE, PDB, POD
from kubewright.builtin.aggregation import Aggregation
from kubewright.builtin.apps import DEPLOYMENTS, REPLICA_SETS, read
from kubewright.builtin.budgets import SCALED, Budgets
from kubewright.builtin.garbage.collector import Collector
from kubewright.builtin.joining import Certificates, token_controllers
from kubewright.builtin.namespaces import Namespaces, given_to_namespaces
from kubewright.builtin.nodelife import (
    LEASE_NAMESPACE,
    QUARANTINE_SECONDS,
    NodeLifecycle,
    PodCollector,
    TaintEviction,
)
from kubewright.builtin.nodelife import Settings as NodeSettings
from kubewright.builtin.scheduling.reconciler import Scheduler
from kubewright.kube.informer import Informers
from kubewright.pki.certificates import Identity
from kubewright.replicas.deployment.act import Deployments
from kubewright.replicas.members import MemberIndex
from kubewright.replicas.set.act import Sets
from kubewright.runtime.controller import Controller, only, spec_or_life
from kubewright.runtime.events import Recorder
from kubewright.runtime.metrics import Metrics
from kubewright.runtime.world import ControllerInfo, Environment, Runnables, World


@dataclass(frozen=True, slots=True)
class Settings:
    """Which of them run, and how.

    ``nodes``            when a silent node counts as lost
    ``pod_quarantine``   how long pods of a missing node are left alone, in seconds
    ``aggregate_roles``  write the rules of aggregated ClusterRoles; the simulator, where no user needs these
                         roles, leaves it out
    ``schedule_pods``    be the scheduler
    ``run_apps``         keep Deployments and ReplicaSets; it needs a recorder
    ``watch_nodes``      run the life cycle of nodes, too; False where ``node_lifecycle`` runs already
    ``authority``        of the API server; with one, what real kubelets and pods need is there
                         (``for_kubelets``). None: where no client connects by TLS, as in memory
    """

    nodes: NodeSettings = field(default_factory=NodeSettings)
    pod_quarantine: float = QUARANTINE_SECONDS
    aggregate_roles: bool = True
    schedule_pods: bool = False
    run_apps: bool = False
    watch_nodes: bool = True
    authority: Identity | None = None


EVENT_KINDS = (PDB, POD, DEPLOYMENT, REPLICA_SET)
"""The kinds that their events are about."""

CONTROLLERS = (
    ControllerInfo("garbage-collector", "*", "", "deletes objects whose owners are gone"),
    ControllerInfo("namespace", "Namespace", "", "empties a namespace that is deleted, then lets it go"),
    ControllerInfo(
        "node-lifecycle", "Node", "", "marks a node whose kubelet has fallen silent, and its pods"
    ),
    ControllerInfo("taint-eviction", "Node", "", "evicts pods that do not tolerate a taint NoExecute"),
    ControllerInfo("disruption", "PodDisruptionBudget", "", "counts how many pods may be evicted"),
    ControllerInfo("clusterrole-aggregation", "ClusterRole", "", "gathers the rules of aggregated roles"),
    ControllerInfo("pod-gc", "Pod", "", "deletes pods on nodes that are gone or out of service"),
    ControllerInfo("scheduler", "Pod", "", "gives pods that have no node one, if need be that of lower ones"),
    ControllerInfo("replicaset", "ReplicaSet", "", "keeps as many pods as a set says"),
    ControllerInfo("deployment", "Deployment", "", "keeps sets of pods, sizes them and rolls them out"),
    ControllerInfo("serviceaccount", "Namespace", "", "makes the ServiceAccount default in each namespace"),
    ControllerInfo(
        "root-ca-certificate-publisher", "Namespace", "", "keeps ConfigMap kube-root-ca.crt in each namespace"
    ),
    ControllerInfo(
        "certificatesigningrequest",
        "CertificateSigningRequest",
        "",
        "approves what kubelets may have, signs what is approved, deletes what is over",
    ),
    ControllerInfo("bootstrap-signer", "ConfigMap", "", "signs cluster-info with each bootstrap token"),
    ControllerInfo("token-cleaner", "Secret", "", "deletes bootstrap tokens that have ended"),
)


def world(settings: Settings) -> World:
    """All of these controllers as a world, for the control cluster."""

    def wire(environment: Environment, _chosen: Sequence[str]) -> Runnables:
        return controllers(
            environment.control.caches,
            settings=settings,
            recorder=environment.recorder,
            metrics=environment.metrics,
        )

    return World("builtin", CONTROLLERS, wire, event_kinds=EVENT_KINDS)


def controllers(
    informers: Informers,
    *,
    settings: Settings | None = None,
    recorder: Recorder | None = None,
    metrics: Metrics | None = None,
) -> Runnables:
    """All of these controllers, for the server of ``informers``, through its client."""
    settings = settings or Settings()
    client, clock = informers.client, informers.client.clock
    nodes, pods, namespaces = informers.get(NODE), informers.get(POD), informers.get(NAMESPACE)
    life = partial(node_lifecycle, informers, settings.nodes, recorder=recorder, metrics=metrics)
    pod_gc = PodCollector(client, nodes, pods, quarantine=settings.pod_quarantine)
    taints = TaintEviction(client, nodes, pods, recorder)
    terminating = Namespaces(client, namespaces)
    collector = Collector(client, informers, metrics=metrics, recorder=recorder)

    return Runnables(
        [
            collector.controller,
            Controller("namespace", terminating, clock, workers=4, metrics=metrics).watches(
                namespaces, only(spec_or_life)
            ),
            *([life()] if settings.watch_nodes else []),
            taints.wire(Controller("taint-eviction", taints, clock, workers=2, metrics=metrics)),
            _disruption(informers, recorder, metrics),
            *([_aggregation(informers)] if settings.aggregate_roles else []),
            pod_gc.wire(Controller("pod-gc", pod_gc, clock, workers=2, metrics=metrics)),
            *([scheduler(informers, recorder=recorder, metrics=metrics)] if settings.schedule_pods else []),
            *(workloads(informers, recorder, metrics) if settings.run_apps and recorder else []),
            *(for_kubelets(informers, settings.authority, metrics) if settings.authority else []),
        ],
        [collector.feeds.run],
    )


def for_kubelets(
    informers: Informers, authority: Identity, metrics: Metrics | None = None
) -> list[Controller]:
    """What real kubelets need, to join and to run pods: certificates, tokens, and what each namespace has."""
    requests = informers.get(SIGNING_REQUEST)
    signing = Certificates(informers.client, requests, authority)
    certificates = Controller(
        "certificatesigningrequest", signing, informers.client.clock, workers=2, metrics=metrics
    )
    return [
        *given_to_namespaces(informers, authority.certificate, metrics),
        certificates.watches(requests),
        *token_controllers(informers, metrics),
    ]


def _disruption(informers: Informers, recorder: Recorder | None, metrics: Metrics | None) -> Controller:
    budgets, pods = informers.get(PDB), informers.get(POD)
    scaled = {kind.resource.kind: informers.get(kind) for kind in SCALED}
    kept = Budgets(informers.client, budgets, pods, scaled, recorder)
    controller = Controller("disruption", kept, informers.client.clock, workers=2, metrics=metrics)
    controller.watches(budgets).watches(pods, kept.of_pod)
    for informer in scaled.values():
        controller.watches(informer, kept.of_scaled)
    return controller


def node_lifecycle(
    informers: Informers,
    settings: NodeSettings,
    *,
    workers: int = 4,
    recorder: Recorder | None = None,
    metrics: Metrics | None = None,
) -> Controller:
    """The life cycle of nodes alone: all that is needed to see a machine die, and its pods with it."""
    nodes, leases = informers.get(NODE), informers.get(LEASE, namespace=LEASE_NAMESPACE)
    pods, client = informers.get(POD), informers.client
    life = NodeLifecycle(client, nodes, leases, settings=settings, pods=pods, recorder=recorder)
    controller = Controller("node-lifecycle", life, client.clock, workers=workers, metrics=metrics)
    return controller.watches(nodes, life.of_node).watches(pods, life.of_pod)


def scheduler(
    informers: Informers, *, recorder: Recorder | None = None, metrics: Metrics | None = None
) -> Controller:
    """The scheduler alone: one worker, since each binding changes what is left for the next Pod."""
    placing = Scheduler(informers, recorder)
    return placing.wire(Controller("scheduler", placing, informers.client.clock, workers=1, metrics=metrics))


def workloads(informers: Informers, recorder: Recorder, metrics: Metrics | None = None) -> list[Controller]:
    """ReplicaSets and Deployments, which share what is known of Pods."""
    index = MemberIndex(informers.get(POD), read, informers.client.steady())
    sets = Sets(REPLICA_SETS, informers, recorder, index=index)
    deployments = Deployments(DEPLOYMENTS, informers, recorder, index=index)
    return [sets.controller(metrics), deployments.controller(metrics)]


def _aggregation(informers: Informers) -> Controller:
    aggregation = Aggregation(informers.client, informers.get(CLUSTER_ROLE))
    return aggregation.wire(
        Controller("clusterrole-aggregation", aggregation, informers.client.clock, workers=1)
    )
