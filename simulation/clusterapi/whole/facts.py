"""What the rules and stories of whole clusters read from one object, or from the world.

Called by    the rules and stories beside this module; ``invariants.facts`` has what every rule reads.
"""

from kubewright.providers.sim.vm import Vm
from simulation.clusterapi.whole import resources
from simulation.invariants import Past
from simulation.invariants.facts import deleting
from simulation.journal import Object
from simulation.person import NAMESPACE_NAME


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
    clusters = past.journal.objects[resources.CLUSTERS].values()
    return not clusters or any(map(deleting, clusters))


def vms_of_clusters(past: Past) -> list[Vm]:
    """The VMs that boot from data: those of MachineClasses do not."""
    return [vm for vm in past.journal.vms.values() if vm.bootstrap is not None]
