"""The names of new machines: a function of the set and of the machines that were seen.

Theory.      Two controllers that see the same set and the same machines choose the same names, so
             the second one to create is told ``AlreadyExists``. Once a machine appears or goes, or
             the set is scaled, the names are others: a name that was used is not used again, and
             what its VM left behind is not mistaken for the next one's. (Without the generation a
             pool that sleeps every night would wake with the names of the day before.)
"""

from collections.abc import Collection, Iterable, Iterator
from itertools import count, islice

from kubewright.api.meta import ObjectMeta
from kubewright.base.names import child_name, suffix

_SEEN_LETTERS = 20
"""Enough for the digest of a world: 27 to the power of 20 are 95 bits."""


def new_names(of: ObjectMeta, seen: Iterable[str], taken: Collection[str], number: int) -> tuple[str, ...]:
    """Names for ``number`` machines of a set.

    Args:
        of: the metadata of the set.
        seen: the uids of all machines of the set, leaving ones included, in any order.
        taken: names that cannot be used.
        number: how many.
    """
    world = (of.uid, str(of.generation), suffix(sorted(seen), _SEEN_LETTERS))
    return tuple(islice(_names(of.name, world, taken), number))


def _names(parent: str, world: tuple[str, ...], taken: Collection[str]) -> Iterator[str]:
    given = set(taken)
    for number in count():
        name = child_name(parent, suffix((*world, str(number))))
        if name not in given:
            given.add(name)
            yield name
