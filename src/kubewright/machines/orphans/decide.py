"""Decide which VMs are nobody's, and what is said of nodes that nobody claims. Pure.

Theory.      Whoever has any claim to a VM keeps it: the machine it was made for, a machine that has
             it on record, a namesake that is still being made, a call of ours that is under way.
             The cache is asked first, for all VMs of a list; the server is asked last, for the one
             that is about to be deleted (``why_spared``).
Invariants.  A VM without a machine's name is never anybody's orphan: nobody could ask the server
             for its machine. One sighting never confirms.
Source       mcm.md §9.1.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from kubewright.api.core import Node
from kubewright.api.machine import names
from kubewright.api.machine.v1alpha1 import Machine
from kubewright.driver.contract import Instance
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
class Sighting:
    """A VM on the list of a class, and who may have a claim to it.

    ``owner_lives``  a machine has the uid that the VM was made for
    ``recorded``     a machine of any class has the VM on record
    ``busy``         a cloud call of ours for that uid has not come to its end
    ``namesake``     the machine of the VM's machine's name, beside the class
    """

    vm: Instance
    owner_lives: bool = False
    recorded: bool = False
    busy: bool = False
    namesake: Machine | None = None


@dataclass(frozen=True, slots=True)
class Weighed:
    """What a list of VMs comes to.

    ``suspects``   provider ids of VMs that are nobody's, and since when (monotonic seconds)
    ``confirmed``  those that were seen so for long enough, oldest suspicion first
    ``wake``       in how many seconds the next suspect can be confirmed; None when there is none
    """

    suspects: Mapping[str, float]
    confirmed: tuple[Instance, ...] = ()
    wake: float | None = None


def why_kept(seen: Sighting) -> str:
    """Who has a claim to the VM, as a clause; empty when nobody has."""
    if not seen.vm.machine_name or not seen.vm.provider_id:
        return "nothing says which machine it was made for"
    if seen.owner_lives:
        return "its machine exists"
    if seen.recorded:
        return "a machine has it on record"
    if seen.busy:
        return "a call for its machine is under way"
    return why_spared(seen.vm, seen.namesake)


def why_spared(vm: Instance, namesake: Machine | None) -> str:
    """Why the machine of the VM's machine's name keeps the VM alive; empty when it does not.

    A machine that is still being made may be about to find this very VM by its name.
    """
    if namesake is None:
        return ""
    if not vm.owner_uid or namesake.metadata.uid == vm.owner_uid:
        return "its machine exists"
    if namesake.spec.provider_id == vm.provider_id:
        return "a machine has it on record"
    if unsettled(namesake):
        return "a machine of its name is still being made"
    return ""


def weigh(
    listed: Sequence[Sighting],
    since: Mapping[str, float],
    *,
    began: float,
    ended: float,
    confirmation: float,
) -> Weighed:
    """Compare a list with what was suspect before it.

    Args:
        listed: all VMs of the class.
        since: the suspects of the list before.
        began: when this list was asked for: a VM was seen again then, or later.
        ended: when it was answered: a VM was first seen then, or earlier.
        confirmation: seconds between two sightings that count.
    """
    found = {seen.vm.provider_id: seen.vm for seen in listed if not why_kept(seen)}
    suspects = {vm_id: since.get(vm_id, ended) for vm_id in found}
    old = sorted((at, vm_id) for vm_id, at in suspects.items() if began - at >= confirmation)
    left = [confirmation - (ended - at) for at in suspects.values() if began - at < confirmation]
    return Weighed(suspects, tuple(found[vm_id] for _, vm_id in old), max(0.0, min(left)) if left else None)


def scheme(provider_id: str) -> str:
    """Whose VM a provider id names: what stands before ``://``; empty when nothing does."""
    return provider_id.partition("://")[0] if "://" in provider_id else ""


def not_managed(node: Node, claims: int, now: datetime, patience: timedelta) -> bool | None:
    """Whether a node must begin (True) or cease (False) to say that no machine manages it; None: neither.

    ``claims`` is how many machines it has; one that is younger than ``patience`` may get its own yet.
    """
    says = names.NOT_MANAGED_ANNOTATION in node.metadata.annotations
    if says:
        return False if claims == 1 else None
    born = node.metadata.creation_timestamp
    return True if not claims and born is not None and now - born > patience else None
