"""Decide which VMs have no machine, and which nodes are annotated as having none. Pure.

Theory.      A VM is kept while one of these exists: the machine that it was made for, a machine with its
             provider id in the spec, a machine of the same name that is still being created, a call of this
             process for its machine. A machine may have two VMs: the cloud carried out both of two creations.
             Once the machine is Running it needs only the one in its spec. The other one is an orphan too,
             but only if both are on one list: that proves that the one in the spec exists, and that their ids
             are of one form. ``why_kept_by_cache`` judges all VMs of a list; ``why_kept_by_server`` judges,
             by the server's answer, the one that is about to be deleted. How a suspect is confirmed is the
             same for every API (``driver.life.orphans``).
Invariants.  A VM without a machine's name is never an orphan: the server cannot be asked for
             its machine.
"""

from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime, timedelta

from kubewright.api.core import Node
from kubewright.api.machine import names
from kubewright.api.machine.names import Phase
from kubewright.api.machine.v1alpha1 import Machine
from kubewright.driver.contract import Instance, is_tagged
from kubewright.machines.machine.seen import vm_incomplete
from kubewright.nodes.drain.plan import DrainPlan, first_clauses


@dataclass(frozen=True, slots=True)
class ListedVm:
    """A VM on the list of a class, and what may need it.

    ``owner_exists``  a machine has the uid that the VM was made for
    ``recorded``      a machine of any class has the VM's provider id in its spec
    ``busy``          a cloud call of this process for that uid has not ended
    ``same_name``     the machine with the name that the VM was made for, in the class's namespace
    ``listed``        the provider ids of all VMs on the list
    """

    vm: Instance
    owner_exists: bool = False
    recorded: bool = False
    busy: bool = False
    same_name: Machine | None = None
    listed: AbstractSet[str] = frozenset()


def why_kept_by_cache(seen: ListedVm) -> str:
    """Why the VM is kept, as a clause; empty: it is an orphan."""
    if not seen.vm.machine_name or not seen.vm.provider_id:
        return "nothing says which machine it was made for"
    if is_tagged(seen.vm.owner_uid):
        return "it was made for an object of another API"
    if seen.recorded:
        return "a machine has it on record"
    if seen.busy:
        return "a call for its machine is under way"
    if seen.owner_exists and not is_second(seen.vm, seen.same_name, seen.listed):
        return "its machine exists"
    return why_kept_by_server(seen.vm, seen.same_name, seen.listed)


def is_second(vm: Instance, machine: Machine | None, listed: AbstractSet[str]) -> bool:
    """Whether a VM is one too many: its machine is Running on another one, which is listed as well."""
    if machine is None or vm.machine_name != machine.metadata.name or machine.metadata.deleting:
        return False
    ours = (machine.metadata.uid, "")  # VMs that MCM made name no owner
    known, running = machine.spec.provider_id, machine.status.current_status.phase == Phase.RUNNING
    return running and vm.owner_uid in ours and known != vm.provider_id and known in listed


def why_kept_by_server(vm: Instance, same_name: Machine | None, listed: AbstractSet[str]) -> str:
    """Why the machine with the name that the VM was made for needs it; empty when it does not.

    A VM of another owner is kept while a machine of its name is being created, because not every driver says
    in the answers to ``create`` and ``status`` for which owner a VM was made: then the machine could take
    this very VM. ``listed`` are the provider ids of all VMs on the list.
    """
    if same_name is None or is_second(vm, same_name, listed):
        return ""
    if not vm.owner_uid or same_name.metadata.uid == vm.owner_uid:
        return "its machine exists"
    if same_name.spec.provider_id == vm.provider_id:
        return "a machine has it on record"
    if vm_incomplete(same_name):
        return "a machine of its name is still being made"
    return ""


def awaits_volumes(drain: DrainPlan, attachments: int, left: timedelta | None) -> str:
    """Why the VM of a drained node is not deleted yet, as a clause; empty: no volume is awaited.

    ``attachments`` is how many VolumeAttachments the node has; ``left`` how long they are awaited still;
    None: without a limit.
    """
    if drain.moving:
        return first_clauses(drain.moving.clauses)
    if attachments and (left is None or left > timedelta(0)):
        return f"{attachments} volumes are still attached"
    return ""


def scheme(provider_id: str) -> str:
    """The scheme of a provider id, which names the cloud: what is before ``://``; empty without one."""
    return provider_id.partition("://")[0] if "://" in provider_id else ""


def not_managed(node: Node, owners: int, now: datetime, grace: timedelta) -> bool | None:
    """Whether to add (True) or remove (False) the annotation that no machine manages a node; None: neither.

    ``owners`` is how many machines the node has; a node younger than ``grace`` may still get one.
    """
    if names.NOT_MANAGED_ANNOTATION in node.metadata.annotations:
        return False if owners == 1 else None
    created = node.metadata.creation_timestamp
    return True if not owners and created is not None and now - created > grace else None
