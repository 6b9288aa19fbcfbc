"""Decide which machines of a deployment are kept free of workload. Pure.

Theory.      The newest machines are: when a deployment grows, its new machines take the taints over, and
             older ones, which are ready, become free for pods at once. What counts is not that the reserve is
             whole but that pods find room, so nothing waits for the new ones to be ready: a machine that is
             lost is replaced by one that was kept free, and its replacement joins the reserve.
             Three numbers decide. *Room* is how many machines live above the replicas; no more than that are
             kept free, so at any moment as many machines as there are replicas may take pods. As many of the
             newest as the deployment asks for are kept free, within that room. And an older one that is free
             stays so while there is room: when the excess becomes smaller, until the set has deleted it; in
             a rollout, which has more machines than are wanted, until a machine with workload goes. One with
             workload that a rollout is to replace is not chosen any more: it will be drained, and the taints
             would evict what runs there without asking budgets.
Invariants.  A machine that is being deleted, is Failed, or failed to be updated in place is neither counted
             nor written. Where there is nothing to change there is no step, so nothing is written at rest.
             While the deployment is being deleted or is invalid, nothing changes; while it is paused, taints
             do, since that stops rollouts only.
Called by    ``wiring``.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from kubewright.api.machine import excess
from kubewright.api.machine.names import Phase
from kubewright.api.machine.v1alpha1 import MachineDeployment, MachineSet
from kubewright.base.plan import Plan
from kubewright.machines.deployment import replaces
from kubewright.machines.machineset.member import MachineMember, age
from kubewright.replicas.deployment.seen import Seen

ExcessSeen = Seen[MachineDeployment, MachineSet, MachineMember]

BROKEN = (Phase.FAILED, Phase.IN_PLACE_UPDATE_FAILED)
"""Phases of machines that are no reserve and take no workload."""

BOTH = frozenset(excess.EFFECTS)
NAMED = 5
"""Machines that a plan names."""


@dataclass(frozen=True, slots=True)
class KeepFree:
    """Put both taints onto a machine, or take off those that it has."""

    member: MachineMember
    free: bool


def decide(seen: ExcessSeen) -> Plan[KeepFree]:
    """The plan for one pass."""
    if seen.deleting or seen.problem:
        return Plan()
    wanted = seen.deployment.spec.excess_replicas or 0
    if not wanted and not any(member.free for member in seen.all_members):
        return Plan()
    living = [member for member in seen.all_members if counts(member)]
    leaving = living if replaces(seen.deployment) else []
    current = seen.current.metadata.uid if seen.current is not None else ""
    spared = {member.uid for member in leaving if not member.free and member.owner_uid != current}
    free = kept_free(living, seen.deployment.spec.replicas, wanted, spared)
    steps = tuple(
        KeepFree(member, member.uid in free)
        for member in sorted(living, key=age)
        if member.free != (BOTH if member.uid in free else frozenset())
    )
    return Plan(steps, because=_because(steps))


def counts(member: MachineMember) -> bool:
    """Whether a machine takes workload, or may be kept free of it, now or when it has become a node."""
    return member.alive and member.phase not in BROKEN


def kept_free(
    living: Sequence[MachineMember], replicas: int, wanted: int, spared: Collection[str] = ()
) -> frozenset[str]:
    """The machines that are to be kept free, by uid.

    Args:
        living: those of all sets that count.
        replicas: how many there are to be for workload.
        wanted: how many are to be kept free.
        spared: those that are not, however new they are, by uid.
    """
    room = max(0, len(living) - replicas)
    newest_first = sorted((each for each in living if each.uid not in spared), key=age, reverse=True)
    number = min(wanted, room)
    newest, older = newest_first[:number], newest_first[number:]
    staying = [member for member in older if member.free][: room - number]
    return frozenset(member.uid for member in (*newest, *staying))


def _because(steps: Sequence[KeepFree]) -> str:
    named = (
        ("to be kept free", [step.member.name for step in steps if step.free]),
        ("that take workload now", [step.member.name for step in steps if not step.free]),
    )
    return "; ".join(f"machines {what}: {_some(those)}" for what, those in named if those)


def _some(those: Sequence[str]) -> str:
    more = f" and {len(those) - NAMED} more" if len(those) > NAMED else ""
    return ", ".join(those[:NAMED]) + more
