"""Decide which Failed machines a set preserves although no user asked for it. Pure.

Theory.      A set preserves up to ``autoPreserveFailedMachineMax`` of its Failed machines, for users to
             look at. It asks for that as a user would, by an annotation on the machine; the machine
             controller does the rest, the expiry included. One pass both chooses and deletes those that
             are not chosen, from one picture.
Invariants.  The set annotates no machine beyond the maximum, and takes annotations back when the maximum
             is lowered. A machine that a user has annotated, ``false`` included, on the machine or its
             node, is left alone. A machine whose preservation has expired is not preserved again.
Source       mcm.md §6.6. Upstream counts by the status of its last pass; we count what is seen.
Called by    ``decide``.
"""

from collections.abc import Collection

from kubewright.api.machine.names import Phase
from kubewright.machines.machineset.member import MachineMember
from kubewright.machines.machineset.observe import Seen


def chosen(seen: Seen, going: Collection[str] = ()) -> tuple[MachineMember, ...]:
    """Machines to preserve from now on, newest first: those failed for the reason that users ask about now.

    ``going``: the uids of machines that are deleted in any case.
    """
    room = max(0, _room(seen))
    failed = [member for member in seen.alive if member.phase is Phase.FAILED and member.uid not in going]
    unasked = [member for member in failed if not member.asked and member.preserved_until is None]
    return tuple(sorted(unasked, key=lambda member: (-member.created, member.name))[:room])


def too_many(seen: Seen) -> tuple[MachineMember, ...]:
    """Machines that the set preserves beyond its maximum, oldest first."""
    ours = sorted(_ours(seen), key=lambda member: (member.created, member.name))
    return tuple(ours[: max(0, -_room(seen))])


def _room(seen: Seen) -> int:
    return max(0, seen.machine_set.spec.auto_preserve_failed_machine_max) - len(_ours(seen))


def _ours(seen: Seen) -> list[MachineMember]:
    return [member for member in seen.alive if member.auto_preserved]
