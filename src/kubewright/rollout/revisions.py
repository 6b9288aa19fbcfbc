"""Which group is current, its revision number, the target of a rollback, which old groups are pruned.

Theory.      Templates are compared by an identity that the caller derives from them: equal
             identities mean equal templates as far as a rollout is concerned, whatever the API
             chooses to ignore. A revision is a number on a group that only grows; a group that
             becomes current again gets a fresh number and remembers the old ones.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from kubewright.base.limits import number_of
from kubewright.rollout.model import Group, Rank


def oldest(group: Group) -> Rank:
    """MCM's choice between several groups of the wanted template."""
    return (group.created, group.name)


def largest(group: Group) -> Rank:
    """Cluster API's choice: the one with most replicas, then the oldest, then by name."""
    return (-group.size, group.created, group.name)


def current_of(groups: Iterable[Group], choice: Callable[[Group], Rank] = oldest) -> Group:
    """The current group, chosen from several that all have the fleet's template."""
    return min(groups, key=choice)


def next_revision(old: Iterable[Group]) -> int:
    """One more than any old group carries."""
    return max((group.revision for group in old), default=0) + 1


@dataclass(frozen=True, slots=True)
class Revision:
    """A group's number and the numbers it had before, oldest first."""

    number: int
    history: tuple[int, ...] = ()

    def raised(self, to: int) -> "Revision":
        """The same, or with a higher number and the old one remembered."""
        if self.number >= to:
            return self
        return Revision(to, (*self.history, self.number) if self.number > 0 else self.history)


def read_history(text: str) -> tuple[int, ...]:
    """The numbers in an annotation, separated by commas; anything else is dropped."""
    parts = (part.strip() for part in text.split(","))
    return tuple(number_of(part) for part in parts if part.isdecimal())


def write_history(history: Sequence[int]) -> str:
    """The numbers for an annotation, separated by commas."""
    return ",".join(map(str, history))


def rollback_target(groups: Sequence[Group], revision: int) -> Group | None:
    """The group of a revision; 0 asks for the one before the highest. None when there is none."""
    numbered = sorted((group for group in groups if group.revision > 0), key=lambda group: group.revision)
    if revision == 0:
        return numbered[-2] if len(numbered) > 1 else None
    return next((group for group in numbered if group.revision == revision), None)


def prunable(old: Sequence[Group], limit: int | None) -> list[Group]:
    """Old groups beyond the history limit, oldest first, that have no member and whose size is 0.

    Only the oldest ones beyond the limit are considered; of those, the ones that are not empty stay.
    None keeps everything.
    """
    if limit is None:
        return []
    excess = max(0, len(old) - limit)
    return [group for group in sorted(old, key=oldest)[:excess] if group.expected == 0 and group.observed]
