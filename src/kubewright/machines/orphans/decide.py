"""Decide which VMs no machine wants, and what is said of nodes without a machine. Pure.

Theory.      A VM is kept for the machine it was made for, a machine that has it on record, a machine
             of the same name that is still being made, and a call of ours that is in flight.
             The cache is asked first, for all VMs of a list; the server is asked last, for the one
             that is about to be deleted (``why_spared``).
Invariants.  A VM without a machine's name is never an orphan: the server cannot be asked for
             its machine. To be listed once never confirms.
Source       mcm.md §9.1.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from kubewright.api.core import Node
from kubewright.api.machine import names
from kubewright.api.machine.v1alpha1 import Machine
from kubewright.driver.contract import Instance, is_tagged
from kubewright.machines.machine.creation import unsettled


@dataclass(frozen=True, slots=True)
class OrphanSettings:
    """What an operator may set for the collection of orphans."""

    period: timedelta = timedelta(minutes=30)
    """From one look at a class or at the nodes to the next, when nothing gives a reason to look sooner: MCM's
    ``--machine-safety-orphan-vms-period``, with the seed's default."""

    confirmation: timedelta = timedelta(minutes=5)
    """A VM goes that was seen without a machine twice, at least so far apart. Longer than a creation may
    take to show (``MachineSettings.confirm_absent``) and than a driver call may last."""

    soon: timedelta = timedelta(minutes=1)
    """From a reason to look (a start, a doubtful end of a machine) to the look. Reasons that come
    meanwhile are gathered into the same one, so a class is never listed for one machine alone."""

    at_once: int = 10
    """VMs of one class that are deleted in one look; the others wait for the next, ``soon`` after."""


@dataclass(frozen=True, slots=True)
class ListedVm:
    """A VM on the list of a class, and what may want it.

    ``owner_exists``  a machine has the uid that the VM was made for
    ``recorded``     a machine of any class has the VM on record
    ``busy``         a cloud call of ours for that uid has not come to its end
    ``same_name``     the machine of the VM's machine's name, beside the class
    """

    vm: Instance
    owner_exists: bool = False
    recorded: bool = False
    busy: bool = False
    same_name: Machine | None = None


@dataclass(frozen=True, slots=True)
class SuspectUpdate:
    """What a list of VMs comes to.

    ``suspects``   provider ids of VMs that no machine wants, and since when (monotonic seconds)
    ``confirmed``  those that were seen so for long enough, oldest suspicion first
    ``wake``       in how many seconds the next suspect can be confirmed; None when there is none
    """

    suspects: Mapping[str, float]
    confirmed: tuple[Instance, ...] = ()
    wake: float | None = None


def why_kept(seen: ListedVm) -> str:
    """Why the VM is kept, as a clause; empty when nothing wants it."""
    if not seen.vm.machine_name or not seen.vm.provider_id:
        return "nothing says which machine it was made for"
    if is_tagged(seen.vm.owner_uid):
        return "it was made for an object of another API"
    if seen.owner_exists:
        return "its machine exists"
    if seen.recorded:
        return "a machine has it on record"
    if seen.busy:
        return "a call for its machine is under way"
    return why_spared(seen.vm, seen.same_name)


def why_spared(vm: Instance, same_name: Machine | None) -> str:
    """Why the machine of the VM's machine's name keeps the VM alive; empty when it does not.

    A machine that is still being made may be about to find this very VM by its name.
    """
    if same_name is None:
        return ""
    if not vm.owner_uid or same_name.metadata.uid == vm.owner_uid:
        return "its machine exists"
    if same_name.spec.provider_id == vm.provider_id:
        return "a machine has it on record"
    if unsettled(same_name):
        return "a machine of its name is still being made"
    return ""


def update_suspects(
    listed: Sequence[ListedVm],
    since: Mapping[str, float],
    *,
    began: float,
    ended: float,
    confirmation: float,
) -> SuspectUpdate:
    """Compare a list with what was suspect before it.

    Args:
        listed: all VMs of the class.
        since: the suspects of the list before.
        began: when this list was asked for: a VM was seen again then, or later.
        ended: when it was answered: a VM was first seen then, or earlier.
        confirmation: seconds between two lists that count.
    """
    found = {seen.vm.provider_id: seen.vm for seen in listed if not why_kept(seen)}
    suspects = {vm_id: since.get(vm_id, ended) for vm_id in found}
    old = sorted((at, vm_id) for vm_id, at in suspects.items() if began - at >= confirmation)
    left = [confirmation - (ended - at) for at in suspects.values() if began - at < confirmation]
    return SuspectUpdate(
        suspects, tuple(found[vm_id] for _, vm_id in old), max(0.0, min(left)) if left else None
    )


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
