"""Decide which VMs no machine wants, and what is said of nodes without a machine. Pure.

Theory.      A VM is kept for the machine it was made for, a machine that has it on record, a machine
             of the same name that is still being made, and a call of ours that is in flight.
             A machine may have two: a cloud carried out both of two creations. Once it is Running it needs
             only the one on record, and the other one is an orphan, too, if both are on the same list: then
             their ids are of one form, and the one on record exists.
             The cache is asked first, for all VMs of a list; the server is asked last, for the one
             that is about to be deleted (``why_spared``). How a suspect is confirmed is the same for every
             API (``driver.life.orphans``).
Invariants.  A VM without a machine's name is never an orphan: the server cannot be asked for
             its machine.
Source       mcm.md §9.1.
"""

from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime, timedelta

from kubewright.api.core import Node
from kubewright.api.machine import names
from kubewright.api.machine.names import Phase
from kubewright.api.machine.v1alpha1 import Machine
from kubewright.driver.contract import Instance, is_tagged
from kubewright.machines.machine.creation import unsettled


@dataclass(frozen=True, slots=True)
class ListedVm:
    """A VM on the list of a class, and what may want it.

    ``owner_exists``  a machine has the uid that the VM was made for
    ``recorded``     a machine of any class has the VM on record
    ``busy``         a cloud call of ours for that uid has not come to its end
    ``same_name``     the machine of the VM's machine's name, beside the class
    ``listed``        the provider ids of all VMs on the list
    """

    vm: Instance
    owner_exists: bool = False
    recorded: bool = False
    busy: bool = False
    same_name: Machine | None = None
    listed: AbstractSet[str] = frozenset()


def why_kept(seen: ListedVm) -> str:
    """Why the VM is kept, as a clause; empty when nothing wants it."""
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
    return why_spared(seen.vm, seen.same_name, seen.listed)


def is_second(vm: Instance, machine: Machine | None, listed: AbstractSet[str]) -> bool:
    """Whether a VM is one too many: its machine is Running on another one, which is listed as well."""
    if machine is None or vm.machine_name != machine.metadata.name or machine.metadata.deleting:
        return False
    ours = (machine.metadata.uid, "")  # VMs that MCM made name no owner
    known, running = machine.spec.provider_id, machine.status.current_status.phase == Phase.RUNNING
    return running and vm.owner_uid in ours and known != vm.provider_id and known in listed


def why_spared(vm: Instance, same_name: Machine | None, listed: AbstractSet[str]) -> str:
    """Why the machine of the VM's machine's name keeps the VM alive; empty when it does not.

    A machine that is still being made may be about to find this very VM by its name. ``listed`` are the
    provider ids of all VMs on the list.
    """
    if same_name is None or is_second(vm, same_name, listed):
        return ""
    if not vm.owner_uid or same_name.metadata.uid == vm.owner_uid:
        return "its machine exists"
    if same_name.spec.provider_id == vm.provider_id:
        return "a machine has it on record"
    if unsettled(same_name):
        return "a machine of its name is still being made"
    return ""


def scheme(provider_id: str) -> str:
    """Whose VM a provider id names: what stands before ``://``; empty when nothing does."""
    return provider_id.partition("://")[0] if "://" in provider_id else ""


def not_managed(node: Node, owners: int, now: datetime, grace: timedelta) -> bool | None:
    """Whether a node must begin (True) or cease (False) to say that no machine manages it; None: neither.

    ``owners`` is how many machines it has; one that is younger than ``grace`` may get its own yet.
    """
    says = names.NOT_MANAGED_ANNOTATION in node.metadata.annotations
    if says:
        return False if owners == 1 else None
    created = node.metadata.creation_timestamp
    return True if not owners and created is not None and now - created > grace else None
