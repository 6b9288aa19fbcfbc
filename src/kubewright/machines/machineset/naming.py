"""The names of new machines: a set counts them, and a name is a number that was scrambled.

Theory.      Each machine of a set has a number, and carries it. The next one gets the number after the
             highest that the set ever had: of the machines that are seen, those seen before by this
             process, and the one that is written on the set. So two controllers that see the same choose
             the same names, and the second one to create is told ``AlreadyExists``; a view that is older
             has no higher number, and chooses names that exist. A number is written on the set before
             the last machine that shows it may go (``decide``), so a name that was used is not used again:
             what a VM left behind is not mistaken for the next one's.
Invariants.  Numbers and names of one set are one to one: the five letters are the number times one factor
             plus another, both from the set's uid, in a ring of 27 to the power of 5. The first
             ``SPACE`` machines of a set have different names.
Source       docs/decisions/0005 and 0014.
"""

import hashlib
from collections.abc import Collection
from itertools import count, islice

from kubewright.api.meta import ObjectMeta
from kubewright.base.names import ALPHABET, child_name

LETTERS = 5
SPACE: int = len(ALPHABET) ** LETTERS
"""How many names a set has: 14,348,907."""


def new_names(of: ObjectMeta, last: int, taken: Collection[str], number: int) -> tuple[str, ...]:
    """Names for ``number`` machines of a set.

    Args:
        of: the metadata of the set.
        last: the highest number that a machine of the set ever had; 0 for none.
        taken: names that cannot be used.
        number: how many.
    """
    names = (child_name(of.name, letters(of.uid, each)) for each in count(last + 1))
    return tuple(islice((name for name in names if name not in taken), number))


def letters(set_uid: str, number: int) -> str:
    """What the name of a set's machine ends with."""
    factor, shift = _key(set_uid)
    left, found = (number * factor + shift) % SPACE, ""
    for _ in range(LETTERS):
        left, index = divmod(left, len(ALPHABET))
        found += ALPHABET[index]
    return found


def number_of(set_uid: str, name: str) -> int:
    """The number that a name of a set's machine stands for; 0 when it cannot be such a name."""
    value = 0
    for letter in reversed(name[-LETTERS:]):
        if letter not in ALPHABET:
            return 0
        value = value * len(ALPHABET) + ALPHABET.index(letter)
    factor, shift = _key(set_uid)
    return (value - shift) * int(pow(factor, -1, SPACE)) % SPACE


def proven(set_uid: str, name: str, number: int) -> int:
    """The number that a machine carries, when it is the one that its name stands for; else 0.

    Machines of others have names that look like ours, and annotations may be copied.
    """
    return number if number > 0 and letters(set_uid, number) == name[-LETTERS:] else 0


def _key(set_uid: str) -> tuple[int, int]:
    """Factor and shift; the factor has no divisor in common with 27, so that no two numbers meet."""
    digest = hashlib.sha256(set_uid.encode()).digest()
    factor, shift = int.from_bytes(digest[:8], "big"), int.from_bytes(digest[8:16], "big")
    return factor - factor % 3 + 1, shift
