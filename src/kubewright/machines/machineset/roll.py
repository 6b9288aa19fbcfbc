"""The machines of one owner in the order of their names, so that equal caches give equal lists.

Called by    ``members.Census``, which keeps one for each set.
"""

from bisect import bisect_left
from typing import Generic, Protocol, TypeVar

from kubewright.wire.gvk import Key


class Kept(Protocol):
    """Anything with a key."""

    @property
    def key(self) -> Key:
        """Namespace and name."""


T = TypeVar("T", bound=Kept)


class Roll(Generic[T]):
    """A sorted list: a change finds its place by bisection."""

    def __init__(self) -> None:
        self.line: list[T] = []

    def put(self, member: T) -> None:
        """Add a member, or replace its older version."""
        at = bisect_left(self.line, _place(member), key=_place)
        if at < len(self.line) and self.line[at].key == member.key:
            self.line[at] = member
        else:
            self.line.insert(at, member)

    def drop(self, member: T) -> None:
        """Remove a member."""
        del self.line[bisect_left(self.line, _place(member), key=_place)]

    def has(self, name: str) -> bool:
        """Whether a member has this name."""
        at = bisect_left(self.line, (name, ""), key=_place)
        return at < len(self.line) and self.line[at].key.name == name


def _place(member: Kept) -> tuple[str, str]:
    return member.key.name, member.key.namespace
