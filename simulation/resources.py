"""The kinds that stories and rules are about, as the journal names them; those of machines are in
``journal``.

Called by    the rules, the stories, and what adds an API to a world.
"""

from typing import Any

from kubewright.api.bootstrap.v1beta1 import KUBEADM_CONFIG, KUBEADM_CONFIG_TEMPLATE
from kubewright.api.cluster.v1beta1 import (
    CLUSTER,
    MACHINE,
    MACHINE_DEPLOYMENT,
    MACHINE_HEALTH_CHECK,
    MACHINE_SET,
)
from kubewright.api.controlplane.snapshots import CONTROL_PLANE_RESTORE, CONTROL_PLANE_SNAPSHOT
from kubewright.api.controlplane.v1alpha4 import NESTED_CONTROL_PLANE
from kubewright.api.core import SECRET
from kubewright.api.infra.v1beta1 import KUBEWRIGHT_CLUSTER, KUBEWRIGHT_MACHINE, KUBEWRIGHT_MACHINE_TEMPLATE
from kubewright.api.kinds import Kind, dynamic
from kubewright.controlplanes.family import KINDS
from kubewright.wire.gvk import Resource


def resource_of(kind: Kind[Any]) -> str:
    """As the journal names it."""
    return str(kind.resource)


# ---------------------------------------------------------------- clusters

CLUSTERS, CLUSTER_MACHINES = resource_of(CLUSTER), resource_of(MACHINE)
CLUSTER_SETS, CLUSTER_DEPLOYMENTS = resource_of(MACHINE_SET), resource_of(MACHINE_DEPLOYMENT)
CONFIGS, SECRETS = resource_of(KUBEADM_CONFIG), resource_of(SECRET)
INFRA_CLUSTERS, INFRA_MACHINES = resource_of(KUBEWRIGHT_CLUSTER), resource_of(KUBEWRIGHT_MACHINE)
CLUSTER_OBJECTS = (
    CLUSTERS,
    CLUSTER_MACHINES,
    CLUSTER_SETS,
    CLUSTER_DEPLOYMENTS,
    CONFIGS,
    INFRA_CLUSTERS,
    INFRA_MACHINES,
)
"""The objects of a cluster, for rules and ends."""
CHECKS = resource_of(MACHINE_HEALTH_CHECK)
CONFIG_TEMPLATES = resource_of(KUBEADM_CONFIG_TEMPLATE)
INFRA_TEMPLATES = resource_of(KUBEWRIGHT_MACHINE_TEMPLATE)
GARBAGE_COLLECTED = (CHECKS, CONFIG_TEMPLATES, INFRA_TEMPLATES, SECRETS)
"""What no controller deletes with a cluster: the garbage collector does, because its owner is gone."""

FOO_CLUSTER = dynamic(Resource("infra.example.com", "v1beta1", "fooclusters", "FooCluster"))
FOO_PLANE = dynamic(Resource("plane.example.com", "v1beta1", "fooplanes", "FooPlane"))
REPAIR, REPAIR_TEMPLATE = (
    dynamic(Resource("repair.example.com", "v1beta1", f"{kind.lower()}s", kind))
    for kind in ("FooRepair", "FooRepairTemplate")
)
OTHER_PROVIDERS = (FOO_PLANE, REPAIR, REPAIR_TEMPLATE)
"""Kinds of other providers, for which a story acts itself."""
REPAIRS = resource_of(REPAIR)
FOO_CLUSTERS, FOO_PLANES = resource_of(FOO_CLUSTER), resource_of(FOO_PLANE)
PARTS = (CLUSTER_DEPLOYMENTS, FOO_PLANES, FOO_CLUSTERS, CLUSTERS)
"""The parts of a cluster with that provider, and itself: each is deleted when all before it are gone."""

# ---------------------------------------------------------------- nested control planes

PLANES = resource_of(NESTED_CONTROL_PLANE)
COMPONENTS = {component: resource_of(kind) for component, kind in KINDS.items()}
"""By component."""
SNAPSHOTS, RESTORES = resource_of(CONTROL_PLANE_SNAPSHOT), resource_of(CONTROL_PLANE_RESTORE)
