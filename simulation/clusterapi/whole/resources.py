"""The kinds that the stories and rules of whole clusters are about, by resource, as the journal has them.

Called by    the modules beside this one, and tests.
"""

from kubewright.api.bootstrap.v1beta1 import KUBEADM_CONFIG, KUBEADM_CONFIG_TEMPLATE
from kubewright.api.cluster.v1beta1 import (
    CLUSTER,
    MACHINE,
    MACHINE_DEPLOYMENT,
    MACHINE_HEALTH_CHECK,
    MACHINE_SET,
)
from kubewright.api.core import SECRET
from kubewright.api.infra.v1beta1 import KUBEWRIGHT_CLUSTER, KUBEWRIGHT_MACHINE, KUBEWRIGHT_MACHINE_TEMPLATE
from kubewright.api.kinds import dynamic
from kubewright.wire.gvk import Resource
from simulation.clusterapi.provider import FOO_PLANE

CLUSTERS, MACHINES, SETS, DEPLOYMENTS, CONFIGS, INFRA_CLUSTERS, INFRA_MACHINES, SECRETS = (
    str(kind.resource)
    for kind in (
        CLUSTER,
        MACHINE,
        MACHINE_SET,
        MACHINE_DEPLOYMENT,
        KUBEADM_CONFIG,
        KUBEWRIGHT_CLUSTER,
        KUBEWRIGHT_MACHINE,
        SECRET,
    )
)
OBJECTS = (CLUSTERS, MACHINES, SETS, DEPLOYMENTS, CONFIGS, INFRA_CLUSTERS, INFRA_MACHINES)
"""The objects of a cluster, for rules and ends."""
CHECKS = str(MACHINE_HEALTH_CHECK.resource)
CONFIG_TEMPLATES, INFRA_TEMPLATES = (
    str(kind.resource) for kind in (KUBEADM_CONFIG_TEMPLATE, KUBEWRIGHT_MACHINE_TEMPLATE)
)
GARBAGE_COLLECTED = (CHECKS, CONFIG_TEMPLATES, INFRA_TEMPLATES, SECRETS)
"""What no controller deletes with a cluster: the garbage collector does, because its owner is gone."""

REPAIR, REPAIR_TEMPLATE = (
    dynamic(Resource("repair.example.com", "v1beta1", f"{kind.lower()}s", kind))
    for kind in ("FooRepair", "FooRepairTemplate")
)
FOREIGN = (FOO_PLANE, REPAIR, REPAIR_TEMPLATE)
"""Kinds of other providers, for which a story acts itself."""
REPAIRS = str(REPAIR.resource)
