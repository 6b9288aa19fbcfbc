"""The names of a set's new members: each has a number, from which the end of its name is computed.

Theory.      A member carries its number in an annotation. The next member gets the number after the
             highest that the set ever had: among the members in the cache, those that this process has
             seen before, and the number in the set's annotation. So two controllers that see the same
             choose the same names, and the server answers ``AlreadyExists`` to the second; an older cache
             shows no higher number, and leads to names that exist. The highest number is written on the
             set before the member that carries it is deleted or disowned (``set.decide``), so no name is
             used twice, and what a machine's VM left behind is not mistaken for a later machine's.
Invariants.  Numbers and names of one set are one to one: the five letters are ``number * factor + shift``
             modulo ``SPACE``, written in base 27; factor and shift come from the set's uid. The first
             ``SPACE`` members of a set have different names.
Called by    ``set.decide``; the policies whose members carry a number.
Source       docs/decisions/0005 and 0015.
"""

import hashlib
from collections.abc import Collection
from itertools import count, islice

from kubewright.api.meta import ObjectMeta
from kubewright.base.names import ALPHABET, child_name

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
