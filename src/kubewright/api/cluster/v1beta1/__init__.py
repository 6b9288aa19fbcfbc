"""The kinds of ``cluster.x-k8s.io/v1beta1``, field for field as upstream v1.7.1 serves them.

Theory.      Wire names, types and required fields equal those of Cluster API, because providers in Go,
             clusterctl and cluster-autoscaler read and write the same objects. The sentences are ours; the
             CRDs are made from these files. Two fields differ: ``bootstrap.data`` of a machine is ours
             (capi.md §1.4), and ``topology`` of a cluster has no schema, so that validation can say that it
             is not supported.
Invariants.  A pointer upstream is ``| None`` here where unset and zero mean different things.
Map.         ``condition`` ``shared`` ``clusters`` ``machines`` ``sets`` ``deployments``
             ``health_checks``; import from here.
Continues    in ``cluster.defaults`` (what an unset field means), ``validate`` and ``crds``.
"""

from kubewright.api.cluster.v1beta1.clusters import (
    CLUSTER,
    ApiEndpoint,
    Cluster,
    ClusterNetwork,
    ClusterSpec,
    ClusterStatus,
    FailureDomain,
    NetworkRanges,
)
from kubewright.api.cluster.v1beta1.deployments import (
    MACHINE_DEPLOYMENT,
    MachineDeployment,
    MachineDeploymentSpec,
    MachineDeploymentStatus,
    MachineDeploymentStrategy,
    RollingUpdate,
)
from kubewright.api.cluster.v1beta1.drain_rules import (
    MACHINE_DRAIN_RULE,
    DrainRuleMachines,
    DrainRulePods,
    MachineDrainRule,
    MachineDrainRuleSpec,
)
from kubewright.api.cluster.v1beta1.health_checks import (
    MACHINE_HEALTH_CHECK,
    MachineHealthCheck,
    MachineHealthCheckSpec,
    MachineHealthCheckStatus,
    UnhealthyCondition,
)
from kubewright.api.cluster.v1beta1.machines import (
    MACHINE,
    Bootstrap,
    Machine,
    MachineSpec,
    MachineStatus,
    MachineTemplateSpec,
)
from kubewright.api.cluster.v1beta1.sets import MACHINE_SET, MachineSet, MachineSetSpec, MachineSetStatus
from kubewright.api.cluster.v1beta1.shared import (
    API_VERSION,
    CATEGORIES,
    CONTRACT_VERSIONS,
    GROUP,
    VERSION,
    Condition,
    NodeSystemInfo,
    ObjectReference,
    reference,
    resource,
)

__all__ = [
    "API_VERSION",
    "CATEGORIES",
    "CLUSTER",
    "CONTRACT_VERSIONS",
    "GROUP",
    "MACHINE",
    "MACHINE_DEPLOYMENT",
    "MACHINE_DRAIN_RULE",
    "MACHINE_HEALTH_CHECK",
    "MACHINE_SET",
    "VERSION",
    "ApiEndpoint",
    "Bootstrap",
    "Cluster",
    "ClusterNetwork",
    "ClusterSpec",
    "ClusterStatus",
    "Condition",
    "DrainRuleMachines",
    "DrainRulePods",
    "FailureDomain",
    "Machine",
    "MachineDeployment",
    "MachineDeploymentSpec",
    "MachineDeploymentStatus",
    "MachineDeploymentStrategy",
    "MachineDrainRule",
    "MachineDrainRuleSpec",
    "MachineHealthCheck",
    "MachineHealthCheckSpec",
    "MachineHealthCheckStatus",
    "MachineSet",
    "MachineSetSpec",
    "MachineSetStatus",
    "MachineSpec",
    "MachineStatus",
    "MachineTemplateSpec",
    "NetworkRanges",
    "NodeSystemInfo",
    "ObjectReference",
    "RollingUpdate",
    "UnhealthyCondition",
    "reference",
    "resource",
]
