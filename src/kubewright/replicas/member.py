"""A member: what sets and deployments know about one child of theirs, and how it got its name. Pure.

Facts.       Most of what happens to a child (an address, a heartbeat, a description) means nothing to its
             set. The facts here are those that every API has; a policy adds its own by inheritance.
Names.       Each member of a set has a number, from which the end of its name is computed, and carries it in
             an annotation. The next member gets the number after the
             highest that the set ever had: among the members in the cache, those that this process has
             seen before, and the number in the set's annotation. So two controllers that see the same
             choose the same names, and the server answers ``AlreadyExists`` to the second; an older cache
             shows no higher number, and leads to names that exist. The highest number is written on the
             set before the member that carries it is deleted or disowned (``set.decide``), so no name is
             used twice, and what a machine's VM left behind is not mistaken for a later machine's
             (docs/decisions/0005 and 0015).
Invariants.  Numbers and names of one set are one to one: the five letters are ``number * factor + shift``
             modulo ``SPACE``, written in base 27; factor and shift come from the set's uid. The first
             ``SPACE`` members of a set have different names.
Called by    every decision about replicas; ``members`` reads each version of a child once.
"""

import hashlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import count, islice
from typing import TypeVar

from kubewright.api.meta import KubeObject, ObjectMeta
from kubewright.base.names import ALPHABET, child_name
from kubewright.wire.gvk import Key


@dataclass(frozen=True, slots=True)
class Member:
    """One child, as far as replicas are concerned. A policy's own facts are added by inheritance.

    ``ready_since`` is when it became ready, on the index's clock; None while it is not. ``number`` is its
    index among the members that its set has ever had; 0 if the set did not count it. ``moved``:
    it came from another set, and the size of its own may not count it yet (``rollout.planner``).
    """

    key: Key
    uid: str
    owner_uid: str
    labels: Mapping[str, str]
    deleting: bool
    created: float = 0.0
    ready_since: float | None = None
    number: int = 0
    moved: bool = False
    version: str = field(default="", compare=False)

    @property
    def name(self) -> str:
        return self.key.name

    @property
    def alive(self) -> bool:
        """Not being deleted."""
        return not self.deleting

    @property
    def takes_place(self) -> bool:
        """Whether it may still use something that a rollout must not have too much of."""
        return True

    @property
    def ready(self) -> bool:
        """Ready now, in the sense of its API."""
        return self.ready_since is not None

    @property
    def up(self) -> bool:
        """Alive and ready, or as near to ready as a member of its API can come."""
        return self.alive and self.ready

    def available_at(self, now: float, min_ready: float) -> bool:
        """Up for at least ``min_ready`` seconds; a member that is being deleted is not available."""
        if not self.up:
            return False
        return min_ready <= 0 or (self.ready_since is not None and self.ready_since + min_ready <= now)


Obj = TypeVar("Obj", bound=KubeObject)
"""The object of a member."""
M = TypeVar("M", bound=Member)


def until_available(members: Iterable[Member], min_ready: float, now: float) -> float | None:
    """Seconds until the next member has been ready for long enough; None when there is none to wait for."""
    if min_ready <= 0:
        return None
    waits = [
        member.ready_since + min_ready - now
        for member in members
        if member.up and member.ready_since is not None and member.ready_since + min_ready > now
    ]
    return min(waits, default=None)


LETTERS = 5
SPACE: int = len(ALPHABET) ** LETTERS
"""How many names a set has: 14,348,907."""


def new_names(of: ObjectMeta, last: int, taken: Collection[str], size: int) -> tuple[str, ...]:
    """Names for ``size`` new members of a set.

    Args:
        of: the metadata of the set.
        last: the highest number that a member of the set ever had; 0 for none.
        taken: names that cannot be used.
        size: how many.
    """
    names = (child_name(of.name, letters(of.uid, each)) for each in count(last + 1))
    return tuple(islice((name for name in names if name not in taken), size))


def letters(set_uid: str, number: int) -> str:
    """The five letters at the end of the name of the member with this number."""
    factor, shift = _factor_and_shift(set_uid)
    left, found = (number * factor + shift) % SPACE, ""
    for _ in range(LETTERS):
        left, index = divmod(left, len(ALPHABET))
        found += ALPHABET[index]
    return found


def number_of(set_uid: str, name: str) -> int:
    """The number that the last five letters of a name stand for; 0 if no name of the set ends like this."""
    value = 0
    for letter in reversed(name[-LETTERS:]):
        if letter not in ALPHABET:
            return 0
        value = value * len(ALPHABET) + ALPHABET.index(letter)
    factor, shift = _factor_and_shift(set_uid)
    return (value - shift) * int(pow(factor, -1, SPACE)) % SPACE


def verified_number(set_uid: str, name: str, number: int) -> int:
    """``number`` from the member's annotation, if the member's name ends as that number demands; else 0.

    A member that a user or another controller created may have a name of the same shape, and annotations
    may be copied.
    """
    return number if number > 0 and letters(set_uid, number) == name[-LETTERS:] else 0


def _factor_and_shift(set_uid: str) -> tuple[int, int]:
    """Factor and shift. The factor is no multiple of 3, so no two numbers below ``SPACE`` share a name."""
    digest = hashlib.sha256(set_uid.encode()).digest()
    factor, shift = int.from_bytes(digest[:8], "big"), int.from_bytes(digest[8:16], "big")
    return factor - factor % 3 + 1, shift
