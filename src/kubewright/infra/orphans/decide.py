"""Decide which VMs of a cluster no KubewrightMachine wants. Pure.

Called by    ``vms``: by the caches for all VMs of a list, by the server for the one that is about to go.
"""

from dataclasses import dataclass

from kubewright.api.cluster.names import left_alone
from kubewright.api.cluster.v1beta1 import Cluster
from kubewright.api.infra.v1beta1 import KUBEWRIGHT_MACHINE, KubewrightCluster, KubewrightMachine
from kubewright.driver.contract import Instance
from kubewright.infra.provision import cloud_owner, new_cloud_owner


@dataclass(frozen=True, slots=True)
class ListedVm:
    """A VM on the list of a cluster, and what may want it.

    ``owner_exists``  the KubewrightMachine that it was made for is here
    ``recorded``      a KubewrightMachine or a Machine, of whichever cluster, has it on record
    ``moved``         clusterctl has moved its KubewrightMachine away, as this process has seen
    ``busy``          a cloud call of ours for its KubewrightMachine has not come to its end
    ``same_name``     the KubewrightMachine of the name that it was made for
    """

    vm: Instance
    owner_exists: bool = False
    recorded: bool = False
    moved: bool = False
    busy: bool = False
    same_name: KubewrightMachine | None = None


def why_not_judged(found: KubewrightCluster | None, owner: Cluster | None) -> str:
    """Why no VM of a cluster is judged now, as a clause; empty when they are."""
    if found is None or owner is None:
        return "there is no such cluster here"
    if owner.spec.paused or any(left_alone(each.metadata.annotations) for each in (found, owner)):
        return "it is paused, or being moved"
    return ""


def why_kept_by_cache(cluster: KubewrightCluster, seen: ListedVm) -> str:
    """Why a VM is kept, as a clause; empty when nothing wants it."""
    if not seen.vm.machine_name or not seen.vm.provider_id:
        return "nothing says which machine it was made for"
    if not seen.vm.owner_uid.startswith(new_cloud_owner(cluster.metadata, "")):
        return "it was not made for this KubewrightCluster"
    if seen.owner_exists:
        return "its KubewrightMachine exists"
    if seen.recorded:
        return "a machine has it on record"
    if seen.moved:
        return "clusterctl has moved its machine away"
    if seen.busy:
        return "a call for its machine is under way"
    return why_kept_by_server(seen.vm, seen.same_name)


def why_kept_by_server(vm: Instance, same_name: KubewrightMachine | None) -> str:
    """Why the KubewrightMachine of the VM's name keeps it alive; empty when it does not."""
    if same_name is None:
        return ""
    if cloud_owner(KUBEWRIGHT_MACHINE, same_name.metadata) == vm.owner_uid:
        return "its KubewrightMachine exists"
    if same_name.spec.provider_id == vm.provider_id:
        return "a machine has it on record"
    return "" if same_name.spec.provider_id else "a machine of its name is still being made"
