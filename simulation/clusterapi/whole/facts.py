"""What the rules and stories of whole clusters read: their kinds, an object, the world.

Called by    the rules and stories beside this module; ``invariants.facts`` has what every rule reads.
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
from kubewright.providers.sim.vm import Vm
from kubewright.wire.gvk import Resource
from simulation.clusterapi.provider import FOO_PLANE
from simulation.invariants import Past
from simulation.invariants.facts import deleting
from simulation.journal import Object
from simulation.person import NAMESPACE_NAME

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


def find(past: Past, resource: str, name: str) -> Object | None:
    """An object by its name, as it is now."""
    return past.journal.objects[resource].get(f"{NAMESPACE_NAME}/{name}")


def name_of(found: Object) -> str:
    """Its name."""
    return str(found["metadata"]["name"])


def uid_of(found: Object) -> str:
    """Its uid."""
    return str(found["metadata"]["uid"])


def owners_of(found: Object) -> list[Object]:
    """Its owner references."""
    return list(found["metadata"].get("ownerReferences", ()))


def controllers_of(found: Object) -> list[Object]:
    """Those that control it."""
    return [each for each in owners_of(found) if each.get("controller")]


def runs(machine: Object | None) -> bool:
    """Whether a machine is Running."""
    return machine is not None and machine.get("status", {}).get("phase") == "Running"


def cluster_is_deleted(past: Past) -> bool:
    """Whether a Cluster is being deleted, or is gone."""
    clusters = past.journal.objects[CLUSTERS].values()
    return not clusters or any(map(deleting, clusters))


def vms_of_clusters(past: Past) -> list[Vm]:
    """The VMs that boot from data: those of MachineClasses do not."""
    return [vm for vm in past.journal.vms.values() if vm.bootstrap is not None]
