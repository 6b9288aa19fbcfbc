"""Decide which Failed machines a set keeps although nobody asked: automatic preservation. Pure.

Theory.      A set may keep some of its Failed machines for people to look at, as many as its
             ``autoPreserveFailedMachineMax`` says. It asks for that as a person would, by an annotation on
             the machine; all the rest, the expiry too, is the machine controller's. The choice and the
             deletion of those that are not chosen are made in one pass, from one picture.
Invariants.  Never more than the maximum carry the annotation of ours. A machine about which a person has
             said anything, ``false`` included, on the machine or its node, is left to that person. A
             machine whose time is over is not kept anew.
Source       mcm.md §6.6. Upstream counts by the status of its last pass; we count what is seen.
Called by    ``decide``.
"""

from collections.abc import Collection

from kubewright.api.machine.names import Phase
from kubewright.machines.machineset.members import Member
from kubewright.machines.machineset.observe import Seen


def chosen(seen: Seen, going: Collection[str] = ()) -> tuple[Member, ...]:
    """Machines to keep from now on, newest first: they failed for what is going on now.

    ``going``: the uids of machines that go in any case.
    """
    room = max(0, _room(seen))
    failed = [member for member in seen.alive if member.phase is Phase.FAILED and member.uid not in going]
    unasked = [member for member in failed if not member.asked and member.preserved_until is None]
    return tuple(sorted(unasked, key=lambda member: (-member.created, member.name))[:room])


def too_many(seen: Seen) -> tuple[Member, ...]:
    """Machines that we keep and may not any longer, oldest first."""
    ours = sorted(_ours(seen), key=lambda member: (member.created, member.name))
    return tuple(ours[: max(0, -_room(seen))])


def _room(seen: Seen) -> int:
    return max(0, seen.machine_set.spec.auto_preserve_failed_machine_max) - len(_ours(seen))


def _ours(seen: Seen) -> list[Member]:
    return [member for member in seen.alive if member.auto_preserved]
